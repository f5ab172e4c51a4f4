"""Digits, many seeds: every method, plain and balanced, beside the naive extension and the supervised ceiling.

    python -m benchmarks.digits_study --seeds 12

For each size of the teachers' class lists, student and temperature it prints mean accuracies; then how the label-free
score ranks what it could be used to choose (Spearman's rank correlation with accuracy and with minus the log-loss).
Teachers are taken as they are: `benchmarks.teachers` measures calibration.
"""

from __future__ import annotations

import argparse
import warnings
from typing import Any

import numpy as np
from joblib import Parallel, delayed
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
from sklearn_uhc import HeterogeneousDistiller

METHODS = ["sd", "ce", "mf_p", "mf_lu", "mf_lf"]
SETTINGS = [(8, 2, 5), (8, 3, 5), (8, 4, 7)]  #: number of teachers, smallest and largest class list
TEMPERATURES = [1, 3]
STUDENTS: dict[str, Any] = {
    "forest": RandomForestClassifier(100, random_state=0),
    "neighbors": KNeighborsClassifier(10),
    "logistic": make_pipeline(StandardScaler(), LogisticRegression(max_iter=300)),
}


def accuracies(seed: int, setting: tuple[int, int, int], students: list[str]) -> dict[Any, float]:
    """Accuracy of every method and of the ceiling in one trial."""
    warnings.simplefilter("ignore")
    trial = make_trial(seed, "varied", *setting)
    out: dict[Any, float] = {}
    for name in students:
        student = clone(STUDENTS[name])
        out[name, "ceiling"] = student.fit(trial.X_pool, trial.y_pool).score(trial.X_test, trial.y_test)
        for T in TEMPERATURES:
            for method in METHODS:
                for balance in (False, True):
                    clf = HeterogeneousDistiller(
                        trial.teachers, student, method=method, balance=balance, temperature=T, calibrate=False
                    ).fit(trial.X_unlabelled)
                    out[name, T, method, balance] = clf.score(trial.X_test, trial.y_test)
    return out


def rank_correlations(seed: int) -> dict[str, tuple[float, float]]:
    """Correlation of agreement with accuracy and log-loss over one choice, the others fixed."""
    warnings.simplefilter("ignore")
    trial = make_trial(seed, "varied", 8, 3, 5)
    trees = [DecisionTreeClassifier(max_depth=depth, random_state=0) for depth in (3, 8)]
    students = [*STUDENTS.values(), *trees, KNeighborsClassifier(100)]
    over = {
        f"temperature, {name}": [{"student": student, "temperature": T} for T in (0.5, 1, 2, 3, 6, 10)]
        for name, student in STUDENTS.items()
    }
    over["student"] = [{"student": student} for student in students]
    over["method"] = [{"method": method} for method in METHODS]
    over["balance"] = [{"balance": balance, "temperature": T} for balance in (True, False) for T in (1, 3)]
    return {name: _correlate(trial, grid) for name, grid in over.items()}


def _correlate(trial: Trial, grid: list[dict[str, Any]]) -> tuple[float, float]:
    agreement, accuracy, loss = [], [], []
    for params in grid:
        clf = HeterogeneousDistiller(trial.teachers, STUDENTS["neighbors"], balance=False, calibrate=False)
        clf.set_params(**params)
        clf.fit(trial.X_unlabelled)
        agreement.append(clf.score(trial.X_test))
        accuracy.append(clf.score(trial.X_test, trial.y_test))
        loss.append(-log_loss(trial.y_test, clf.predict_proba(trial.X_test), labels=clf.classes_))
    return float(spearmanr(agreement, accuracy).statistic), float(spearmanr(agreement, loss).statistic)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=12)
    seeds = range(1000, 1000 + parser.parse_args().seeds)
    students = ["forest", "neighbors"]
    for setting in SETTINGS:
        trials = Parallel(n_jobs=-1)(delayed(accuracies)(seed, setting, students) for seed in seeds)
        mean = {key: float(np.mean([trial[key] for trial in trials])) for key in trials[0]}
        print(f"\n{setting[0]} teachers of {setting[1]} to {setting[2]} classes, means over {len(seeds)} seeds")
        print("| student | T | | " + " | ".join(METHODS) + " | supervised |\n|---" + "|---" * (len(METHODS) + 3) + "|")
        for name in students:
            for T in TEMPERATURES:
                for balance in (False, True):
                    row = " | ".join(f"{mean[name, T, m, balance]:.3f}" for m in METHODS)
                    label = "balanced" if balance else "plain"
                    print(f"| {name} | {T} | {label} | {row} | {mean[name, 'ceiling']:.3f} |", flush=True)
    found = Parallel(n_jobs=-1)(delayed(rank_correlations)(seed) for seed in seeds)
    print("\nRank correlation of score(X) with accuracy / minus log-loss, over")
    for name in found[0]:
        values = np.array([trial[name] for trial in found])
        print(f"  {name:24s} {np.nanmean(values[:, 0]):+.2f} / {np.nanmean(values[:, 1]):+.2f}")


if __name__ == "__main__":
    main()
