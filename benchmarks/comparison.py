"""The merge compared with what people do instead, on the same teachers and rows.

    python -m benchmarks.comparison [--data FOLDER] [--seeds 10] [--out benchmarks/results/comparison.json]

Without a student: the best single teacher (chosen with the test labels), votes, averages, the most confident teacher.
With a student: the same student, trained on what each approach makes of the unlabelled rows; our default; and training
on all teachers' data in one place, which is not possible in practice. One line per world and seed is stored in
benchmarks/results/comparison.jsonl, so that an interrupted run resumes.
"""

from __future__ import annotations

import argparse
import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier

from benchmarks.paper.rivals import RIVALS, _votes
from benchmarks.worlds import World, available, make_world
from sklearn_uhc import HeterogeneousDistiller, LabelSpace, SoftLabelClassifier, TeacherOutputs, UnifiedEnsemble

Array = NDArray[Any]
RESULTS = Path(__file__).parent / "results" / "comparison.jsonl"
#: The first seeds of the worlds were used to choose the defaults.
FIRST_SEED = 200
STUDENTS = {
    "digits, mixed": KNeighborsClassifier(10),
    "digits, networks": KNeighborsClassifier(10),
    "texts": LogisticRegression(max_iter=1000),
    "table": LogisticRegression(max_iter=1000),
    "Tiny-ImageNet, networks": LogisticRegression(max_iter=1000),
}

#: The approaches shown on the first page.
SHOWN = (
    "best teacher alone",
    "average of probabilities",
    "most confident teacher",
    "student of: Dawid-Skene",
    "student of: our merge",
    "student of: all training data",
)


def measure(world: World, student: Any) -> dict[str, float]:
    """Return the accuracy of every approach on the test rows of a world."""
    outputs = TeacherOutputs(list(world.teachers.values())).fit(world.X)
    log_p, test, space = outputs.transform(world.X), outputs.transform(world.X_test), outputs.label_space_
    right = np.searchsorted(space.classes, world.y_test)
    found = {
        "best teacher alone": max(t.score(world.X_test, world.y_test) for t in world.teachers.values()),
        "majority vote": accuracy(majority(test, space), right),
        "average of probabilities": accuracy(average(test, space), right),
        "most confident teacher": accuracy(RIVALS["Most confident"](test, space), right),
        "our merge": UnifiedEnsemble(world.teachers).fit(world.X).score(world.X_test, world.y_test),
    }
    taught = {"majority vote": majority, "average of probabilities": average, **RIVALS}
    for name, make in taught.items():
        name = {"Most confident": "most confident teacher"}.get(name, name)
        clf = SoftLabelClassifier(world.student(student)).fit(world.X, make(log_p, space))
        found[f"student of: {name}"] = accuracy(clf.predict_proba(world.X_test), right)
    clf = HeterogeneousDistiller(world.teachers, world.student(student)).fit(world.X)
    found["student of: our merge"] = clf.score(world.X_test, world.y_test)
    pooled = world.student(student).fit(*_pooled(world.own))
    found["student of: all training data"] = pooled.score(world.X_test, world.y_test)
    return {name: float(value) for name, value in found.items()}


def _pooled(own: list[tuple[Any, Array]]) -> tuple[Any, Array]:
    """Concatenate the data of all teachers."""
    parts = [X for X, _ in own]
    if isinstance(parts[0], pd.DataFrame):
        X: Any = pd.concat(parts)
    elif sp.issparse(parts[0]):
        X = sp.vstack(parts).tocsr()
    else:
        X = np.concatenate([np.asarray(part) for part in parts])
    return X, np.concatenate([y for _, y in own])


def majority(log_p: Array, space: LabelSpace) -> Array:
    """Count one vote per teacher, among all classes; tied classes get equal shares."""
    votes = np.eye(space.n_classes)[_votes(log_p, space)].sum(axis=0)
    best = votes == votes.max(axis=1, keepdims=True)
    return best / best.sum(axis=1, keepdims=True)


def average(log_p: Array, space: LabelSpace) -> Array:
    """Average the probabilities, with 0 for classes that a teacher does not know: soft voting."""
    total = np.zeros((len(log_p), space.n_classes))
    for block, columns in zip(space.blocks, space.columns, strict=True):
        total[:, columns] += np.exp(log_p[:, block])
    return total / total.sum(axis=1, keepdims=True)


def accuracy(P: Array, right: Array) -> float:
    """Return the share of rows whose most probable column is right; tied columns count in part."""
    best = P.max(axis=1, keepdims=True) == P
    return float((best[np.arange(len(P)), right] / best.sum(axis=1)).mean())


def run(folder: str | None, seeds: int) -> list[dict[str, Any]]:
    """Measure what is missing, and return all lines."""
    lines = [json.loads(line) for line in RESULTS.read_text().splitlines()] if RESULTS.exists() else []
    done = {(line["world"], line["seed"]) for line in lines}
    for name in [name for name in available(folder) if name in STUDENTS]:
        for seed in range(FIRST_SEED, FIRST_SEED + seeds):
            if (name, seed) in done:
                continue
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found = measure(make_world(name, seed, folder), STUDENTS[name])
            lines.append({"world": name, "seed": seed, **found})
            with RESULTS.open("a") as file:
                file.write(json.dumps(lines[-1]) + "\n")
            print(name, seed, {key: round(value, 3) for key, value in found.items()}, flush=True)
    return lines


def summarize(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return a record per way, with mean and standard error in every world."""
    out = []
    for key in [key for key in lines[0] if key not in ("world", "seed")]:
        way = key.removeprefix("student of: ")
        record: dict[str, Any] = {"kind": "student" if way != key else "ask", "way": way, "shown": key in SHOWN}
        for name, student in STUDENTS.items():
            values = [line[key] for line in lines if line["world"] == name]
            if values:
                spread = np.std(values, ddof=1) / np.sqrt(len(values)) if len(values) > 1 else np.nan
                record[name.replace(", ", "_").replace(" ", "_")] = {
                    "mean": float(np.mean(values)),
                    "error_points": float(100 * spread),
                    "trials": len(values),
                    "student": str(student),
                }
        out.append(record)
    return out


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", help="folder of the image data")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--out", default="benchmarks/results/comparison.json")
    options = parser.parse_args()
    Path(options.out).write_text(json.dumps(summarize(run(options.data, options.seeds)), indent=1) + "\n")
