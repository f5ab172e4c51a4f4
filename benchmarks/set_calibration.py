"""What calibration of teachers that know only sets of classes changes.

    python -m benchmarks.set_calibration --data FOLDER [--seeds 10] [--first 100]

The cases of `benchmarks.sets`, three of digits, texts and Fashion-MNIST (`fashion_mnist.npz` in the folder): five
teachers of single classes and two with coarse ones. The coarse teachers are "left out", "kept" (calibration as it is,
but teachers with fewer than two single classes at temperature 1, as before they were looked at) or "calibrated".
Accuracy of the merged labels and of a k-NN student. Appends a line of JSON per trial to
`benchmarks/results/set-calibration.jsonl`, leaves out what is there, and writes `set_calibration.json` beside it.
"""

from __future__ import annotations

import argparse
import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.neighbors import KNeighborsClassifier

from benchmarks import PAPER
from benchmarks.lines import measure_once, read
from benchmarks.sets import COARSE, Case, accuracy, interval, make_case
from sklearn_uhc import HeterogeneousDistiller, LabelSpace, TeacherCalibrator, TeacherMerger

OUT, SUMMARY = Path("benchmarks/results/set-calibration.jsonl"), Path("benchmarks/results/set_calibration.json")
WAYS = ("left out", "kept", "calibrated")


def answers(case: Case, way: str) -> tuple[list[list[Any]], Any, list[float]]:
    """Return class lists, calibrated answers and the temperatures of coarse teachers."""
    space = LabelSpace(case.lists)
    lists, log_p = case.lists, case.log_p
    if way == "left out":
        lists, log_p = lists[: case.n_fine], log_p[:, : space.blocks[case.n_fine].start]
    found = TeacherCalibrator(lists).fit(log_p).temperatures_.copy()
    if way == "kept":
        found[[i for i in range(space.n_teachers) if len(space.singles(i).columns) < 2]] = 1.0
    return lists, log_p / found[LabelSpace(lists).teacher_of], found[case.n_fine :].tolist()


def run(name: str, seed: int, folder: Path) -> list[dict[str, Any]]:
    """Return the records of a trial."""
    case, out = make_case(name, seed, folder), []
    for way in WAYS:
        lists, log_p, found = answers(case, way)
        clf = HeterogeneousDistiller(
            TeacherMerger(None, calibrate=False), KNeighborsClassifier(10), class_lists=lists, **PAPER
        )
        clf.fit(case.X, log_p=log_p)
        merger = TeacherMerger(None, method=PAPER["method"], class_lists=lists, calibrate=False)
        labels = accuracy(merger.fit_transform(case.X, log_p=log_p), merger.classes_, case.y)
        student = accuracy(clf.predict_proba(case.X_test), clf.classes_, case.y_test)
        out.append({"case": name, "seed": seed, "way": way, "labels": labels, "k-NN": student, "temperatures": found})
    return out


def summary(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return means, and gains over leaving the coarse teachers out, trial by trial."""
    rows: list[dict[str, Any]] = []
    for name in COARSE:
        own = [r for r in records if r["case"] == name]
        base = {r["seed"]: r for r in own if r["way"] == "left out"}
        for way in WAYS:
            here = [r for r in own if r["way"] == way]
            row: dict[str, Any] = {"case": name, "way": way, "n": len(here)}
            for key in ("labels", "k-NN"):
                row[key] = interval(np.array([r[key] for r in here]), ".3f")
                if way != "left out":
                    gains = np.array([100 * (r[key] - base[r["seed"]][key]) for r in here])
                    row[f"{key} gain"] = interval(gains, "+.1f")
            rows.append(row)
    return rows


def main() -> None:
    """Run what is not there yet."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first", type=int, default=100)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    for seed in range(args.first, args.first + args.seeds):
        for name in COARSE:
            measure_once(OUT, {"case": name, "seed": seed}, run, name, seed, args.data)
    SUMMARY.write_text(json.dumps(summary(read(OUT)), indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
