"""Classifiers of blood cells from three laboratories become one: a recipe with scanpy's bundled data.

    pip install scanpy
    python -m benchmarks.stories.cells [--seeds 300 310] [--out benchmarks/results/cells.json]

700 blood cells of ten types (`scanpy.datasets.pbmc68k_reduced`, part of the package scanpy); 8 cells of the rarest type
are left out. Each laboratory knows some types, one of them writes "T cells" for all CD4 and CD8 T cells, and no cell is
in two places. Half of the cells train the laboratories' classifiers, a quarter is merged without labels, and a quarter
is the test. Rows are scanpy's 50 principal components. Nothing was chosen on any seed.
"""

from __future__ import annotations

import argparse
import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier

from sklearn_uhc import HeterogeneousDistiller, LabelSpace, SoftLabelClassifier, TeacherOutputs, harmonize

Array = NDArray[Any]
RAREST = "CD4+/CD45RA+/CD25- Naive T"
T_CELLS = ["CD4+/CD25 T Reg", "CD4+/CD45RO+ Memory", "CD8+ Cytotoxic T", "CD8+/CD45RA+ Naive Cytotoxic"]
LABS: dict[str, tuple[Any, list[str]]] = {
    "north": (RandomForestClassifier(random_state=0), ["CD14+ Monocyte", "CD19+ B", "CD34+", "CD56+ NK", "T cells"]),
    "south": (LogisticRegression(max_iter=1000), [*T_CELLS, "CD56+ NK", "Dendritic"]),
    "west": (KNeighborsClassifier(10), ["CD14+ Monocyte", "CD19+ B", "Dendritic", *T_CELLS[1:]]),
}


def measure(X: Array, y: Array, seed: int) -> dict[str, float]:
    """Return the share of test cells whose type is right, for each way."""
    pool, rows, test = np.split(np.random.default_rng(seed).permutation(len(y)), [len(y) // 2, len(y) * 3 // 4])
    teachers, owned = {}, []
    for (name, (model, known)), mine in zip(LABS.items(), np.array_split(pool, 3), strict=True):
        names = np.where(np.isin(y, T_CELLS), "T cells", y) if "T cells" in known else y
        mine = mine[np.isin(names[mine], known)]
        teachers[name] = model.fit(X[mine], names[mine])
        owned.append(mine)
    lists = harmonize(teachers, taxonomy={"T cells": T_CELLS}, handle_unknown="ignore")
    outputs = TeacherOutputs(teachers, class_lists=lists).fit(X[rows])
    found = {"best laboratory alone": max(t.score(X[test], y[test]) for t in teachers.values())}
    student = LogisticRegression(max_iter=1000)
    Q = average(outputs.transform(X[rows]), outputs.label_space_)
    rival = SoftLabelClassifier(student, classes=list(outputs.label_space_.classes))
    found["average of those who know"] = rival.fit(X[rows], Q).score(X[test], y[test])
    clf = HeterogeneousDistiller(teachers, student, class_lists=lists).fit(X[rows])
    found["merge"] = clf.score(X[test], y[test])
    labels = np.full(len(rows), None)
    labels[:30] = y[rows[:30]]  # the order is random
    found["merge, 30 labels"] = clf.fit(X[rows], labels).score(X[test], y[test])
    found["30 labels alone"] = LogisticRegression(max_iter=1000).fit(X[rows[:30]], y[rows[:30]]).score(X[test], y[test])
    every = np.concatenate(owned)
    found["laboratories' cells, true types"] = student.fit(X[every], y[every]).score(X[test], y[test])
    return found


def average(log_p: Array, space: LabelSpace) -> Array:
    """Average each type over the laboratories that know it; "T cells" is shared evenly among its types."""
    covers = space.membership()  # (K, L)
    mean = np.exp(log_p) @ (covers / covers.sum(axis=1, keepdims=True)) / covers.sum(axis=0)
    return np.asarray(mean / mean.sum(axis=1, keepdims=True))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs=2, default=(300, 310), metavar=("FIRST", "END"))
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/cells.json"))
    args = parser.parse_args()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import scanpy

        cells = scanpy.datasets.pbmc68k_reduced()
        X, y = np.asarray(cells.obsm["X_pca"], dtype=float), np.asarray(cells.obs["bulk_labels"], dtype=object)
        X, y = X[y != RAREST], y[y != RAREST]
        trials = [measure(X, y, seed) for seed in range(*args.seeds)]
    records = []
    for way in trials[0]:
        right = np.array([trial[way] for trial in trials])
        error = float(right.std(ddof=1) / len(right) ** 0.5)
        records.append({"way": way, "right": float(right.mean()), "error": error, "trials": len(right)})
        print(records[-1])
    args.out.write_text(json.dumps(records, indent=1) + "\n")


if __name__ == "__main__":
    main()
