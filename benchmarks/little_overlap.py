"""Calibration of three to five teachers whose class lists overlap little.

    python -m benchmarks.little_overlap [--trials 400] [--seed 2000] [--out benchmarks/results/little_overlap.json]

Teachers know two to four of four to seven classes, and their lists allow between one half and one comparison per
teacher (`TeacherCalibrator(min_overlap=...)`). There `calibrate="auto"` calibrates teachers of different kinds, but not
those of one kind. Data: digits, made-up tables and points; 600 rows or fewer for the teachers, the merge and the test
each. "logistic, in a row" are logistic regressions of points with the lists [0, 1, 2, 3], [2, 3, 4, 5] and
[4, 5, 6, 7]. The rule was chosen on seeds below 1000. A record per group of trials: accuracy of the merge
(`UnifiedEnsemble`) and of a k-NN student, the worst change by calibration in points, and how many trials lose and gain
more than five points in either.
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.datasets import load_digits, make_blobs, make_classification
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier

from benchmarks import PAPER
from benchmarks.digits import kinds
from sklearn_uhc import HeterogeneousDistiller, LabelSpace, TeacherMerger, UnifiedEnsemble
from sklearn_uhc.merging.calibration import LEAST_OVERLAP, overlap

Array = NDArray[Any]
WAYS = {"False": False, "True": True, "auto": "auto"}
MOST_ROWS, CLEAR = 1800, 5.0


def draw_lists(rng: np.random.Generator, L: int) -> list[list[int]]:
    """Draw three to five lists that link L classes and allow few comparisons."""
    while True:
        sizes = rng.integers(2, 5, size=rng.integers(3, 6))
        lists = [np.sort(rng.choice(L, size, replace=False)).tolist() for size in sizes]
        space = LabelSpace(lists)
        if space.n_classes == L and space.is_connected and LEAST_OVERLAP <= overlap(space) < 2 * LEAST_OVERLAP:
            return lists


def draw_data(rng: np.random.Generator, L: int, seed: int) -> tuple[Array, Array]:
    """Draw rows of L classes, in random order."""
    kind = rng.integers(3)
    if kind == 0:
        X, y = load_digits(return_X_y=True)
        chosen = np.sort(rng.choice(10, L, replace=False))
        rows = np.isin(y, chosen)
        X, y = X[rows] / 16, np.searchsorted(chosen, y[rows])
    elif kind == 1:
        X, y = make_classification(
            MOST_ROWS,
            12,
            n_informative=8,
            n_classes=L,
            n_clusters_per_class=1,
            class_sep=rng.uniform(1, 2.5),
            random_state=seed,
        )
    else:
        size, spread = int(rng.choice([2, 4, 8])), rng.uniform(1, 3.5)
        X, y = make_blobs(MOST_ROWS, n_features=size, centers=L, cluster_std=spread, random_state=seed)
    order = rng.permutation(len(X))
    return X[order], y[order]


def trial(seed: int) -> dict[str, Any]:
    """Draw lists, rows and teachers, and merge them."""
    rng = np.random.default_rng(seed)
    L, every = int(rng.integers(4, 8)), kinds(seed)["mixed"]
    X, y = draw_data(rng, L, seed)
    lists, same = draw_lists(rng, L), bool(rng.random() < 0.5)
    order = np.repeat(rng.integers(len(every)), len(lists)) if same else rng.permutation(len(every))
    models = [every[k] for k in order[: len(lists)]]
    return {"group": "of one kind" if same else "of different kinds", **merge(X, y, lists, models)}


def in_a_row(seed: int) -> dict[str, Any]:
    """Merge three logistic regressions of points."""
    X, y = make_blobs(1500, n_features=5, centers=8, cluster_std=1 + seed % 3, random_state=seed)
    lists = [[0, 1, 2, 3], [2, 3, 4, 5], [4, 5, 6, 7]]
    return {"group": "logistic, in a row", **merge(X, y, lists, [LogisticRegression(max_iter=300)] * 3)}


def merge(X: Array, y: Array, lists: list[list[int]], models: list[Any]) -> dict[str, Any]:
    """Train each teacher on its classes, merge them on other rows, and score the result on still others."""
    n = len(X) // 3
    own = [np.flatnonzero(np.isin(y[:n], known)) for known in lists]
    teachers = [clone(model).fit(X[rows], y[rows]) for model, rows in zip(models, own, strict=True)]
    out = {}
    for name, calibrate in WAYS.items():
        made = (
            UnifiedEnsemble(TeacherMerger(teachers, calibrate=calibrate), **PAPER),
            HeterogeneousDistiller(TeacherMerger(teachers, calibrate=calibrate), KNeighborsClassifier(10), **PAPER),
        )
        out[name] = [clf.fit(X[n : 2 * n]).score(X[2 * n :], y[2 * n :]) for clf in made]
    return out


def summary(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return a record per group and way to calibrate."""
    groups = defaultdict(list)
    for record in records:
        groups[record["group"]].append(record)
    out = []
    for group, own in groups.items():
        plain = np.array([r["False"] for r in own])
        for name in WAYS:
            found = np.array([r[name] for r in own])
            change = 100 * (found - plain)
            means = dict(zip(("merge", "student"), found.mean(axis=0).tolist(), strict=True))
            worst = dict(zip(("worst merge", "worst student"), change.min(axis=0).tolist(), strict=True))
            clear = {"lost": change < -CLEAR, "gained": change > CLEAR}
            counts = {key: int(where.any(axis=1).sum()) for key, where in clear.items()}
            out.append({"teachers": group, "calibrate": name, "trials": len(own), **means, **worst, **counts})
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=400)
    parser.add_argument("--seed", type=int, default=2000, help="the first one")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/little_overlap.json"))
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    seeds = range(args.seed, args.seed + args.trials)
    records = [trial(seed) for seed in seeds] + [in_a_row(seed) for seed in seeds[: args.trials // 8]]
    args.out.write_text(json.dumps(summary(records), indent=1) + "\n")


if __name__ == "__main__":
    main()
