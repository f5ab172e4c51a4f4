"""Students that learn from a few copies or drawn labels, compared with all weighted copies of the rows.

    python -m benchmarks.student_copies --data FOLDER [--seeds 1 5] [--only NAME ...]    measures, or goes on
    python -m benchmarks.student_copies --summary                    writes benchmarks/results/student_copies.json

Students and data of `benchmarks.student_price`: 35 classes of Tiny-ImageNet features, 10,000 rows, T = 1, with other
classes, teachers and rows in every seed (seed 0 is that of the table of prices). All copies are up to 35 per row, which
takes minutes. A line a seed and student in benchmarks/results/student-copies.jsonl; times are those of the processor.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import t as student_t
from sklearn.base import clone

from benchmarks.lines import read
from benchmarks.student_price import STUDENTS, seconds
from benchmarks.students import FEATURES, features_problem, prepare
from sklearn_uhc import SoftLabelClassifier

RESULTS = Path("benchmarks/results/student-copies.jsonl")
SUMMARY = Path("benchmarks/results/student_copies.json")
#: Students that do not learn exactly from soft labels, and accept weighted copies. Kernel machines are left out: all
#: copies would take them hours.
NAMES = (
    "AdaBoost",
    "Bagging",
    "CalibratedClassifierCV(GaussianNB)",
    "GradientBoosting",
    "LogisticRegressionCV",
    "Perceptron",
    "SGD, hinge",
    "SGD, log loss",
)


def make_data(folder: Path, seed: int) -> dict[str, Any]:
    """Return rows, soft labels, weights and test rows of a seed."""
    with tempfile.TemporaryDirectory() as place:
        file = Path(place) / "data.npz"
        prepare(features_problem(folder, seed), 1.0, file, FEATURES)
        return dict(np.load(file))


def measure(name: str, data: dict[str, Any]) -> dict[str, Any]:
    """Train a student on argmax labels, by default, and on all copies."""
    student, X, Q, weight = STUDENTS[name], data["X"], data["Q"], data["weight"]
    default = SoftLabelClassifier(student, random_state=0)
    every = clone(default).set_params(strategy="replicate", copies="all")
    row: dict[str, Any] = {}
    for way, train in {
        "argmax": lambda: clone(student).fit(X, Q.argmax(axis=1)),
        "default": lambda: default.fit(X, Q, weight),
        "copies": lambda: every.fit(X, Q, weight),
    }.items():
        took, fitted = seconds(train)
        row |= {way: float(np.mean(fitted.predict(data["X_test"]) == data["y_test"])), f"{way} seconds": took}
    return row


def run(folder: Path, seeds: range, names: list[str]) -> None:
    """Run what is missing."""
    warnings.simplefilter("ignore")
    done = {(r["seed"], r["student"]) for r in read(RESULTS)}
    for seed in seeds:
        wanted = [name for name in names if (seed, name) not in done]
        data = make_data(folder, seed) if wanted else {}
        for name in wanted:
            record = {"seed": seed, "student": name, **measure(name, data)}
            print(record, flush=True)
            with RESULTS.open("a") as file:
                file.write(json.dumps(record) + "\n")


def summarise(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return means by student, and the default's difference to all copies in points, with its 95 % interval."""
    out = []
    for name in NAMES:
        own = [r for r in records if r["student"] == name]
        if len(own) < 2:
            continue
        gain = 100 * np.array([r["default"] - r["copies"] for r in own])
        half = float(student_t.ppf(0.975, len(own) - 1) * gain.std(ddof=1) / np.sqrt(len(own)))
        row: dict[str, Any] = {"student": name, "seeds": len(own), "difference": float(gain.mean()), "interval": half}
        row |= {way: float(np.mean([r[way] for r in own])) for way in ("argmax", "default", "copies")}
        for way in ("default", "copies"):
            row[f"{way} time"] = float(np.median([r[f"{way} seconds"] / r["argmax seconds"] for r in own]))
        out.append(row)
    return out


def main() -> None:
    """Run or summarise."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder with tinyimagenet_lite0_pca256.npz")
    parser.add_argument("--seeds", type=int, nargs=2, default=(1, 5))
    parser.add_argument("--only", nargs="+", choices=NAMES, default=NAMES, metavar="NAME")
    parser.add_argument("--summary", action="store_true")
    args = parser.parse_args()
    if args.summary:
        SUMMARY.write_text(json.dumps(summarise(read(RESULTS)), indent=1) + "\n")
    elif args.data is None:
        parser.error("measuring needs --data")
    else:
        run(args.data, range(*args.seeds), list(args.only))


if __name__ == "__main__":
    main()
