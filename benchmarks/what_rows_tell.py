"""Class frequencies estimated from unlabelled rows: what they gain over the labels as merged, kind by kind.

    python -m benchmarks.what_rows_tell [--data FOLDER] [--seeds reporting]

Every recipe of `benchmarks.worlds`, without a student, and those of `KINDS` with two. The labels as merged
(balance=False); scaled to the estimated frequencies (balance="auto"); to the counts of the most probable classes, which
the estimate shrinks; to even and to the true frequencies; and to estimates that grant counts another error. The error
in use was chosen on the choosing seeds. And "auto" with teachers weighted by their reliability ("weighted"), which
`fit` does for teachers of sets only. One line per recipe, seed and student is appended to
`benchmarks/results/what-rows-tell.jsonl`, so that a stopped run resumes; `what_rows_tell.json` has their means.
"""

from __future__ import annotations

import argparse
import json
import warnings
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier

from benchmarks.lines import RESULTS, measure_once, read
from benchmarks.worlds import KINDS, RECIPES, World, available, make_world
from sklearn_uhc import HeterogeneousDistiller, TeacherMerger, TeacherOutputs, UnifiedEnsemble
from sklearn_uhc.evidence.comparisons import compare
from sklearn_uhc.merging import class_prior
from sklearn_uhc.merging.class_prior import estimate_prior, fit_scale

Record = dict[str, Any]
LINES, SUMMARY = RESULTS / "what-rows-tell.jsonl", RESULTS / "what_rows_tell.json"
SEEDS = {"choosing": range(100, 103), "reporting": range(500, 505)}
NONE = "no student"
STUDENTS = {"10-NN": KNeighborsClassifier(10), "logistic": LogisticRegression(max_iter=300)}
ERRORS = (0.2, 0.35)
GROUPS = {
    "even": ", even",
    "10 : 1": ", 10 : 1",
    "100 : 1": ", 100 : 1",
    "half present": ", half present",
    "a fifth present": ", a fifth present",
    "detectors": "detectors",
}


def priors(Q: NDArray[Any], world: World) -> dict[str, NDArray[Any]]:
    """Return the frequencies that labels are scaled to."""
    L, every = Q.shape[1], np.ones(Q.shape[1], dtype=bool)
    counts = np.bincount(Q.argmax(axis=1), minlength=L) / len(Q)
    found = {"even": np.full(L, 1 / L), "counts": counts, "told": (world.y[:, None] == world.classes).mean(axis=0)}
    in_use = class_prior.COUNT_ERROR
    for error in ERRORS:
        class_prior.COUNT_ERROR = error
        found[f"error {error}"] = estimate_prior(Q, every)
    class_prior.COUNT_ERROR = in_use
    return {name: f / f.sum() for name, f in found.items()}


def measure(name: str, seed: int, folder: Path | None) -> list[Record]:
    """Return the accuracy of all settings on the test rows, in percent."""
    warnings.simplefilter("ignore")
    world = make_world(name, seed, folder)
    answers = TeacherOutputs(world.teachers).fit_answers(world.X)

    def right(found: NDArray[Any]) -> float:
        return round(100 * float(np.mean(found == world.y_test)), 3)

    merged, auto = (UnifiedEnsemble(world.teachers, balance=b).fit(world.X) for b in (False, "auto"))
    Q, Q_test = merged.predict_proba(world.X), merged.predict_proba(world.X_test)
    record = {
        "student": NONE,
        "as merged": right(merged.predict(world.X_test)),
        "auto": right(auto.predict(world.X_test)),
    }
    for setting, prior in priors(Q, world).items():
        record[setting] = right(world.classes[fit_scale(Q, prior).apply(Q_test).argmax(axis=1)])
    record["weighted"] = record["auto"]
    if (found := compare(answers)) is not None:
        weight = np.where(found.confirmed > 0, found.confirmed / found.confirmed.max(), 1.0)
        merger = TeacherMerger(world.teachers, teacher_weight=weight.tolist())
        record["weighted"] = right(UnifiedEnsemble(merger).fit(world.X).predict(world.X_test))
    records: list[Record] = [record]
    for student, estimator in STUDENTS.items() if name in KINDS else ():
        trained: Record = {"student": student}
        for setting, balance in {"as merged": False, "auto": "auto"}.items():
            clf = HeterogeneousDistiller(world.teachers, world.student(estimator), balance=balance)
            trained[setting] = right(clf.fit(world.X, log_p=answers).predict(world.X_test))
        records.append(trained)
    return records


def gains(records: list[Record]) -> Record:
    """Return the mean accuracy as merged, and what the settings add to it."""
    out: Record = {"as merged": round(float(np.mean([r["as merged"] for r in records])), 2)}
    for setting in [key for key in records[0] if key not in ("as merged", "student", "name", "seed")]:
        if all(setting in r for r in records):
            out[setting] = round(float(np.mean([r[setting] - r["as merged"] for r in records])), 2)
    return out


def summarize(records: list[Record]) -> list[Record]:
    """Return the gains of every recipe, and of all together: their mean, and the smallest gain of a recipe."""
    out: list[Record] = []
    for part, names in {"kinds": list(KINDS), "others": [name for name in RECIPES if name not in KINDS]}.items():
        for student in (NONE, *STUDENTS):
            own = [r for r in records if r["student"] == student and r["name"] in names]
            each = [
                {"part": part, "student": student, "name": name, **gains(of)}
                for name in names
                if (of := [r for r in own if r["name"] == name])
            ]
            if each:
                out += [*each, *groups(own, part, student), overall(each, part, student)]
    return out


def groups(records: list[Record], part: str, student: str) -> list[Record]:
    """Return the gains of recipes with the same shares of classes."""
    found = {name: [r for r in records if part == "kinds" and has in r["name"]] for name, has in GROUPS.items()}
    return [{"part": "groups", "student": student, "name": name, **gains(own)} for name, own in found.items() if own]


def overall(each: list[Record], part: str, student: str) -> Record:
    """Return the mean over recipes, and the smallest gain."""
    keys = [key for key in each[0] if key not in ("part", "student", "name")]
    mean = {key: round(float(np.mean([r[key] for r in each])), 2) for key in keys}
    worst = {f"worst {key}": min(r[key] for r in each) for key in keys if key != "as merged"}
    return {"part": "overall", "of": part, "student": student, "recipes": len(each), **mean, **worst}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--seeds", choices=list(SEEDS), default="reporting")
    args = parser.parse_args()
    for seed, name in product(SEEDS[args.seeds], available(args.data, names=RECIPES)):
        measure_once(LINES, {"name": name, "seed": seed}, measure, name, seed, args.data)
    rows = summarize([r for r in read(LINES) if r["seed"] in SEEDS[args.seeds]])
    if args.seeds == "reporting":
        SUMMARY.write_text(json.dumps(rows, indent=1) + "\n")
    for row in rows:
        print(row)


if __name__ == "__main__":
    main()
