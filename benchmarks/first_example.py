"""The README's first example on random splits instead of the order of the data set.

    python -m benchmarks.first_example [--splits 20] [--out benchmarks/results/first_example.json]

In the order of the data set, sites, unlabelled and test images come from different writers. Random splits mix the
writers, which is easier for every approach. Written are the mean accuracy of each approach and its 95 % interval.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.neighbors import KNeighborsClassifier

from sklearn_uhc import HeterogeneousDistiller

LISTS = [[0, 1, 2, 3, 4], [3, 4, 5, 6, 7], [6, 7, 8, 9, 0]]


def measure(seed: int) -> dict[str, float]:
    """Return the accuracy of each approach on one split."""
    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(seed).permutation(len(X))
    X, y = X[order], y[order]
    X_test, y_test = X[1400:], y[1400:]
    known = [np.flatnonzero(np.isin(y[:900], classes)) for classes in LISTS]
    sites = [rows[rows // 300 == k] for k, rows in enumerate(known)]
    teachers = [RandomForestClassifier(random_state=0).fit(X[rows], y[rows]) for rows in sites]
    sure = [teacher.predict_proba(X_test).max(axis=1) for teacher in teachers]
    said = [teacher.predict(X_test) for teacher in teachers]
    pooled = np.concatenate(sites)
    merged = HeterogeneousDistiller(teachers, KNeighborsClassifier()).fit(X[900:1400])
    return {
        "best site alone": max(teacher.score(X_test, y_test) for teacher in teachers),
        "most confident site": float(np.mean(np.choose(np.argmax(sure, axis=0), said) == y_test)),
        "merged": merged.score(X_test, y_test),
        "all data in one place": KNeighborsClassifier().fit(X[pooled], y[pooled]).score(X_test, y_test),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--splits", type=int, default=20)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/first_example.json"))
    args = parser.parse_args()
    found = [measure(seed) for seed in range(args.splits)]
    records = []
    for way in found[0]:
        values = np.array([accuracies[way] for accuracies in found])
        interval = 1.96 * values.std(ddof=1) / np.sqrt(len(values))
        records.append({"way": way, "mean": values.mean(), "interval": interval, "splits": len(values)})
        print(f"{way:22s} {values.mean():.3f} +- {interval:.3f}")
    args.out.write_text(json.dumps(records, indent=1) + "\n")


if __name__ == "__main__":
    main()
