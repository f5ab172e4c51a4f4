"""The paper's claims on real data, as means over seeds. Takes minutes, so it is not in the default run."""

import numpy as np
import pytest
from joblib import Parallel, delayed

from benchmarks.digits_study import METHODS, TEMPERATURES, accuracies
from benchmarks.teachers import mixture


@pytest.mark.slow
def test_directions_of_the_paper_on_digits():
    trials = Parallel(n_jobs=2)(delayed(accuracies)(seed, (8, 3, 5), ["10-NN"]) for seed in range(10))
    rows = [row for trial in trials for row in trial]

    def mean(T, balance, way):
        return np.mean([row[way] for row in rows if row["T"] == T and row["balance"] is balance])

    for T in TEMPERATURES:
        for method in METHODS[1:]:
            assert mean(T, False, method) > mean(T, False, "sd") + (0.05 if T == 1 else 0.15)
            assert mean(T, True, method) > mean(T, False, method)
        for method in ("ce", "mf_lf"):
            assert mean(T, True, method) > mean(T, True, "supervised") - 0.05


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["mixed", "votes"])
def test_calibration_helps_teachers_of_different_kinds(kind):
    trials = Parallel(n_jobs=2)(delayed(mixture)(seed, ("digits", kind, 6, 3, 5)) for seed in range(8))
    for method in ("mf_lf", "ce"):
        plain, auto = (np.mean([t[method][key] for t in trials], axis=0) for key in ("plain", "auto"))
        assert auto[0] > plain[0] + 0.01  # merged labels
        assert (auto[2:4] < plain[2:4]).all()  # log-loss of student and merge
        assert auto[0] > np.mean([t[method]["floors"] for t in trials], axis=0).max() - 0.01
