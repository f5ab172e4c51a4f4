"""Digits, many seeds: every method, plain and balanced, beside the naive extension and the supervised ceiling.

    python -m benchmarks.digits_study --seeds 12 [--out FILE]

For each size of the teachers' class lists, student and temperature: accuracies; then how the label-free score ranks
what it could be used to choose (Spearman's rank correlation with accuracy and with minus the log-loss). Teachers are
taken as they are: `benchmarks.teachers` measures calibration. One record a line in benchmarks/results/digits.jsonl;
an interrupted run goes on.
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import spearmanr
from sklearn.base import clone
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from benchmarks.digits import Trial, make_trial
from benchmarks.lines import RESULTS, measure_once
from sklearn_uhc import HeterogeneousDistiller, TeacherMerger, TeacherOutputs

METHODS = ["sd", "ce", "mf_p", "mf_lu", "mf_lf"]
SETTINGS = [(8, 2, 5), (8, 3, 5), (8, 4, 7)]  #: number of teachers, smallest and largest class list
TEMPERATURES = [1, 3]
STUDENTS: dict[str, Any] = {
    "forest": RandomForestClassifier(100, random_state=0),
    "10-NN": KNeighborsClassifier(10),
    "logistic": make_pipeline(StandardScaler(), LogisticRegression(max_iter=300)),
}


def accuracies(seed: int, setting: tuple[int, int, int], students: list[str]) -> list[dict[str, Any]]:
    """Accuracy of every method, as merged and balanced, and of the ceiling in one trial."""
    warnings.simplefilter("ignore")
    trial = make_trial(seed, "varied", *setting)
    outputs = TeacherOutputs(trial.teachers).fit(trial.X_unlabelled)
    log_p, lists = outputs.transform(trial.X_unlabelled), outputs.class_lists_
    out: list[dict[str, Any]] = []
    for name in students:
        student = clone(STUDENTS[name])
        ceiling = student.fit(trial.X_pool, trial.y_pool).score(trial.X_test, trial.y_test)
        for T in TEMPERATURES:
            for balance in (False, True):
                row: dict[str, Any] = {"student": name, "T": T, "balance": balance, "supervised": ceiling}
                for method in METHODS:
                    clf = HeterogeneousDistiller(
                        TeacherMerger(None, calibrate=False),
                        student,
                        class_lists=lists,
                        method=method,
                        balance=balance,
                        temperature=T,
                    ).fit(trial.X_unlabelled, log_p=log_p)
                    row[method] = clf.score(trial.X_test, trial.y_test)
                out.append(row)
    return out


def rank_correlations(seed: int) -> list[dict[str, Any]]:
    """Correlation of agreement with accuracy and log-loss over one choice, the others fixed."""
    warnings.simplefilter("ignore")
    trial = make_trial(seed, "varied", 8, 3, 5)
    trees = [DecisionTreeClassifier(max_depth=depth, random_state=0) for depth in (3, 8)]
    students = [*STUDENTS.values(), *trees, KNeighborsClassifier(100)]
    over: dict[str, list[dict[str, Any]]] = {
        "student": [{"student": student} for student in students],
        "method": [{"method": method} for method in METHODS],
    }
    for name, student in STUDENTS.items():
        over[f"temperature, {name}"] = [{"student": student, "temperature": T} for T in (0.5, 1, 2, 3, 6, 10)]
    over["balance"] = [{"balance": balance, "temperature": T} for balance in (True, False) for T in (1, 3)]
    return [{"choice": name, **_correlate(trial, grid)} for name, grid in over.items()]


def _correlate(trial: Trial, grid: list[dict[str, Any]]) -> dict[str, float | None]:
    agreement, accuracy, loss = [], [], []
    for params in grid:
        clf = HeterogeneousDistiller(
            TeacherMerger(trial.teachers, calibrate=False), STUDENTS["10-NN"], method="mf_lf", balance=False
        )
        clf.set_params(**params)
        clf.fit(trial.X_unlabelled)
        agreement.append(clf.score(trial.X_test))
        accuracy.append(clf.score(trial.X_test, trial.y_test))
        loss.append(-log_loss(trial.y_test, clf.predict_proba(trial.X_test), labels=clf.classes_))
    found = [float(spearmanr(agreement, other).statistic) for other in (accuracy, loss)]
    return {name: None if np.isnan(v) else v for name, v in zip(("accuracy", "log-loss"), found, strict=True)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=12)
    parser.add_argument("--out", type=Path, default=RESULTS / "digits.jsonl")
    args = parser.parse_args()
    for seed in range(1000, 1000 + args.seeds):
        for setting in SETTINGS:
            keys = {"part": "accuracy", "seed": seed, "smallest": setting[1], "largest": setting[2]}
            measure_once(args.out, keys, accuracies, seed, setting, ["forest", "10-NN"])
        measure_once(args.out, {"part": "ranks", "seed": seed}, rank_correlations, seed)


if __name__ == "__main__":
    main()
