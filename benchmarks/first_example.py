"""The README's first example, in the order of the data set and on random splits.

    python -m benchmarks.first_example [--splits 20] [--out benchmarks/results/first_example.json]

In the order of the data set, sites, unlabelled and test images come from different writers. Random splits mix the
writers, which is easier for every approach. Rivals also teach the student of our merge. Written are the accuracy of
each approach in the order of the data set, and its mean and 95 % interval over random splits.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.neighbors import KNeighborsClassifier

from benchmarks.paper.rivals import known_average, most_confident
from sklearn_uhc import HeterogeneousDistiller, SoftLabelClassifier, TeacherOutputs

LISTS = [[0, 1, 2, 3, 4], [3, 4, 5, 6, 7], [6, 7, 8, 9, 0]]


def measure(seed: int | None) -> dict[str, float]:
    """Return the accuracy of each approach on one split; without a seed, in the order of the data set."""
    X, y = load_digits(return_X_y=True)
    if seed is not None:
        order = np.random.default_rng(seed).permutation(len(X))
        X, y = X[order], y[order]
    X_test, y_test = X[1400:], y[1400:]
    known = [np.flatnonzero(np.isin(y[:900], classes)) for classes in LISTS]
    sites = [rows[rows // 300 == k] for k, rows in enumerate(known)]
    teachers = [RandomForestClassifier(random_state=0).fit(X[rows], y[rows]) for rows in sites]
    pooled, rows = np.concatenate(sites), X[900:1400]
    outputs = TeacherOutputs(teachers).fit(rows)
    found = {"best site alone": max(teacher.score(X_test, y_test) for teacher in teachers)}
    for way, merge in {"most confident site": most_confident, "average of those who know": known_average}.items():
        asked = merge(outputs.transform(X_test), outputs.label_space_)
        found[way] = float(np.mean(asked.argmax(axis=1) == y_test))
        student = SoftLabelClassifier(KNeighborsClassifier()).fit(
            rows, merge(outputs.transform(rows), outputs.label_space_)
        )
        found[f"student of the {way}"] = student.score(X_test, y_test)
    return found | {
        "merged": HeterogeneousDistiller(teachers, KNeighborsClassifier()).fit(rows).score(X_test, y_test),
        "all data in one place": KNeighborsClassifier().fit(X[pooled], y[pooled]).score(X_test, y_test),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--splits", type=int, default=20)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/first_example.json"))
    args = parser.parse_args()
    found, in_order = [measure(seed) for seed in range(args.splits)], measure(None)
    records = []
    for way in found[0]:
        values = np.array([accuracies[way] for accuracies in found])
        interval = 1.96 * values.std(ddof=1) / np.sqrt(len(values))
        record = {"way": way, "in_order": in_order[way], "mean": values.mean(), "interval": interval}
        records.append({**record, "splits": len(values)})
        print(f"{way:42s} {in_order[way]:.3f} {values.mean():.3f} +- {interval:.3f}")
    args.out.write_text(json.dumps(records, indent=1) + "\n")


if __name__ == "__main__":
    main()
