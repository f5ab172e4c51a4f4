"""How the defaults were chosen: trained as users train, ranked by the rule, and the summary is that of the lines."""

import json
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest
from sklearn.neighbors import KNeighborsClassifier

pytest.importorskip("lightgbm")

from benchmarks.defaults import AUTO, BEST, CE_1, OLD, RESULTS, SUMMARY, Case, ranking, read
from benchmarks.defaults_summary import change_of, summarize
from sklearn_uhc import HeterogeneousDistiller

ROOT = Path(__file__).parent.parent.parent


def test_a_case_trains_as_the_distiller_does():
    case = Case("digits, networks", 0, None)
    world, student = case.world, KNeighborsClassifier(10)
    model, about = case.train(AUTO, student)
    clf = HeterogeneousDistiller(world.teachers, student).fit(world.X)  # balanced, as nothing is rare
    assert about["skewed"] == 0
    np.testing.assert_allclose(model.predict_proba(world.X_test), clf.predict_proba(world.X_test), atol=1e-9)


def test_better_probabilities_lead_among_settings_within_half_a_point():
    scores = {BEST: (0.700, 1.2), CE_1: (0.696, 1.0), OLD: (0.69, 0.8)}
    records = [
        {**asdict(setting), "seed": 0, "student": "forest", "accuracy": accuracy, "log_loss": loss}
        for setting, (accuracy, loss) in scores.items()
    ]
    assert ranking(records, lambda s: s) == [CE_1, BEST, OLD]


def test_changes_have_names():
    assert change_of(replace(BEST, calibrate=False, floor=0.01)) == "no calibration, floor 0.01"
    assert change_of(BEST) == ""


def test_the_summary_is_that_of_the_lines():
    rows = json.loads(json.dumps(summarize(read(ROOT / RESULTS))))
    assert rows == json.loads((ROOT / SUMMARY).read_text()), "run python -m benchmarks.defaults_summary"
