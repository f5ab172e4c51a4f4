"""Digits, many seeds: every method, plain and balanced, beside the naive extension and the supervised ceiling.

    python -m benchmarks.digits_study --seeds 12

For each size of the teachers' class lists and each temperature it prints mean accuracies of a forest student, and how
the label-free agreement score ranks temperatures and students (Spearman's rank correlation with the accuracy).
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterable
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from scipy.stats import spearmanr
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from benchmarks.digits import Trial, make_trial
from sklearn_uhc import HeterogeneousDistiller

METHODS = ["sd", "ce", "mf_p", "mf_lu", "mf_lf"]
SETTINGS = [(8, 2, 5), (8, 3, 5), (6, 4, 7)]  #: number of teachers, smallest and largest class list
TEMPERATURES = [1, 3]


def forest() -> Any:
    return RandomForestClassifier(100, random_state=0)


def accuracies(seed: int, setting: tuple[int, int, int], temperatures: Iterable[float]) -> dict[Any, float]:
    """Accuracy of every method and of the ceiling in one trial."""
    warnings.simplefilter("ignore")
    trial = make_trial(seed, "varied", *setting)
    out = {"ceiling": forest().fit(trial.X_pool, trial.y_pool).score(trial.X_test, trial.y_test)}
    for T in temperatures:
        for method in METHODS:
            for balance in (False, True):
                clf = HeterogeneousDistiller(
                    trial.teachers, forest(), method=method, balance=balance, temperature=T
                ).fit(trial.X_unlabelled)
                out[T, method, balance] = clf.score(trial.X_test, trial.y_test)
    return out


def rank_correlations(seed: int) -> dict[str, float]:
    """Spearman correlation of agreement and accuracy over temperatures, students and methods, others fixed."""
    warnings.simplefilter("ignore")
    trial = make_trial(seed, "varied", 8, 2, 5)
    students = [
        forest(),
        DecisionTreeClassifier(max_depth=3, random_state=0),
        DecisionTreeClassifier(max_depth=8, random_state=0),
        KNeighborsClassifier(3),
        KNeighborsClassifier(30),
        make_pipeline(StandardScaler(), LogisticRegression(max_iter=300)),
    ]
    over = {
        "temperature": [{"temperature": T} for T in (0.5, 1, 2, 3, 6, 10)],
        "student": [{"student": student} for student in students],
        "method": [{"method": method} for method in METHODS],
        "balance": [{"balance": balance, "temperature": T} for balance in (True, False) for T in (1, 3)],
    }
    return {name: _correlate(trial, grid) for name, grid in over.items()}


def _correlate(trial: Trial, grid: list[dict[str, Any]]) -> float:
    pairs = []
    for params in grid:
        clf = HeterogeneousDistiller(trial.teachers, forest(), balance=False).set_params(**params)
        clf.fit(trial.X_unlabelled)
        pairs.append((clf.score(trial.X_test), clf.score(trial.X_test, trial.y_test)))
    return float(spearmanr(*zip(*pairs, strict=True)).statistic)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=12)
    seeds = range(1000, 1000 + parser.parse_args().seeds)
    for setting in SETTINGS:
        trials = Parallel(n_jobs=-1)(delayed(accuracies)(seed, setting, TEMPERATURES) for seed in seeds)
        mean = {key: float(np.mean([trial[key] for trial in trials])) for key in trials[0]}
        print(f"\n{setting[0]} teachers of {setting[1]} to {setting[2]} classes; ceiling {mean['ceiling']:.3f}")
        for T in TEMPERATURES:
            plain = "  ".join(f"{m} {mean[T, m, False]:.3f}" for m in METHODS)
            balanced = "  ".join(f"{m} {mean[T, m, True]:.3f}" for m in METHODS)
            print(f"  T={T}  plain     {plain}\n       balanced  {balanced}", flush=True)
    found = Parallel(n_jobs=-1)(delayed(rank_correlations)(seed) for seed in seeds)
    print("\nRank correlation of score(X) and accuracy, over")
    for name in found[0]:
        values = [trial[name] for trial in found]
        print(f"  {name:12s} {np.nanmean(values):+.2f}  (smallest {np.nanmin(values):+.2f})")


if __name__ == "__main__":
    main()
