"""The defaults compared with fixed settings, where classes are even, uneven or partly absent, and on real models.

    python -m benchmarks.defaults [--data FOLDER] [--seeds reporting] [--kinds NAME ...]

Every kind of `benchmarks.worlds.KINDS`, without a student and with three: the defaults; CE and MF-LF at T = 1, balanced
and not; without a student also the average of those who know the class. Then what somebody can add who knows more: the
class frequencies of the rows (`class_prior`), or the labels of 30 random rows; and training on all true labels. Nothing
was chosen on the reporting seeds. One line per kind, seed, student and setting is appended to
`benchmarks/results/defaults.jsonl`, so that a stopped run resumes; `benchmarks/results/defaults.json` has their means.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier

from benchmarks import worlds
from benchmarks.lines import RESULTS, read
from benchmarks.paper.rivals import known_average
from benchmarks.worlds import World, available, make_world
from sklearn_uhc import HeterogeneousDistiller, TeacherOutputs, UnifiedEnsemble

Record = dict[str, Any]
LINES, SUMMARY = RESULTS / "defaults.jsonl", RESULTS / "defaults.json"
KINDS = tuple(worlds.KINDS)
SEEDS = {"choosing": range(5), "reporting": range(500, 505)}
N_LABELS = 30
NONE = "no student"
STUDENTS: dict[str, Any] = {
    NONE: None,
    "10-NN": KNeighborsClassifier(10),
    "logistic": LogisticRegression(max_iter=300),
    "forest": RandomForestClassifier(20, random_state=0),
}
FIXED: dict[str, Record] = {
    f"{method}{', balanced' if balance else ''}": {"method": method, "balance": balance, "temperature": 1}
    for method in ("ce", "mf_lf")
    for balance in (False, True)
}
AVERAGE, DEFAULT, TOLD, LABELS, TRUE = "known average", "default", "told", f"{N_LABELS} labels", "true labels"
SETTINGS = (DEFAULT, *FIXED, AVERAGE, TOLD, LABELS, TRUE)


def some_labels(world: World) -> NDArray[Any]:
    """Return y with the labels of random rows, None elsewhere."""
    y = np.full(len(world.y), None, dtype=object)
    rows = np.random.default_rng([world.seed, N_LABELS]).choice(len(y), N_LABELS, replace=False)
    y[rows] = world.y[rows]
    return y


def predict(world: World, student: Any, setting: str, answers: Any) -> NDArray[Any]:
    """Return the classes of the test rows, as a setting finds them; `answers` are the teachers' on the rows."""
    if setting == AVERAGE:
        outputs = TeacherOutputs(world.teachers).fit(world.X)
        merged = known_average(outputs.transform(world.X_test), outputs.label_space_)
        return np.asarray(world.classes[merged.argmax(axis=1)])
    if setting == TRUE:
        return np.asarray(world.student(student).fit(world.X, world.y).predict(world.X_test))
    params = dict(FIXED.get(setting, {}))
    if setting == TOLD:
        params["class_prior"] = (world.y[:, None] == world.classes).mean(axis=0)
    y = some_labels(world) if setting == LABELS else None
    if student is None:
        return UnifiedEnsemble(world.teachers, **params).fit(world.X, y).predict(world.X_test)
    clf = HeterogeneousDistiller(world.teachers, world.student(student), **params)
    return clf.fit(world.X, y, log_p=answers).predict(world.X_test)


def measure(world: World, wanted: list[tuple[str, str]]) -> Iterator[Record]:
    """Yield accuracy, and the share of answers that are classes without a row, of students and settings."""
    answers = TeacherOutputs(world.teachers).fit_answers(world.X)
    for name, setting in wanted:
        start = time.process_time()
        found = predict(world, STUDENTS[name], setting, answers)
        yield {
            "kind": world.name,
            "seed": world.seed,
            "student": name,
            "setting": setting,
            "accuracy": round(float(np.mean(found == world.y_test)), 5),
            "absent": round(float(np.mean(~np.isin(found, world.y))), 5),
            "seconds": round(time.process_time() - start, 2),
        }


def run(folder: Path | None, seeds: range, kinds: list[str]) -> None:
    """Measure what is missing."""
    done = {(r["kind"], r["seed"], r["student"], r["setting"]) for r in read(LINES)}
    pairs = [(name, s) for name in STUDENTS for s in SETTINGS if s != (TRUE if name == NONE else AVERAGE)]
    for seed, kind in product(seeds, kinds):
        wanted = [pair for pair in pairs if (kind, seed, *pair) not in done]
        if wanted:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                records = list(measure(make_world(kind, seed, folder), wanted))
            with LINES.open("a") as file:
                file.writelines(json.dumps(record) + "\n" for record in records)
            print(f"{kind}, seed {seed}: {sum(r['seconds'] for r in records):.0f} s", flush=True)


def means(records: list[Record], value: str = "accuracy") -> dict[str, float]:
    """Return the mean of every setting."""
    cells: dict[str, list[float]] = {}
    for r in records:
        cells.setdefault(r["setting"], []).append(r[value])
    return {s: round(float(np.mean(cells[s])), 4) for s in SETTINGS if s in cells}


def against(found: dict[str, float]) -> Record:
    """Return the best fixed setting, and how many points the others are above it."""
    best = max((s for s in (*FIXED, AVERAGE) if s in found), key=found.__getitem__)
    above = {f"{s} above": round(100 * (found[s] - found[best]), 2) for s in (DEFAULT, TOLD, LABELS)}
    return {"best fixed": best, **above}


def summarize(records: list[Record]) -> list[Record]:
    """Return means over the kinds by student, and the means of every kind: without a student, and of all students."""
    out: list[Record] = []
    groups = {name: [r for r in records if r["student"] == name] for name in STUDENTS}
    groups["all students"] = [r for r in records if r["student"] != NONE]
    for name, own in groups.items():
        seeds, n = sorted({r["seed"] for r in own}), len({r["kind"] for r in own})
        found = means(own)
        out.append({"part": "overall", "student": name, "kinds": n, "seeds": len(seeds), **found, **against(found)})
    for name in (NONE, "all students"):
        for kind in dict.fromkeys(r["kind"] for r in records):
            own = [r for r in groups[name] if r["kind"] == kind]
            found = means(own)
            absent = means(own, "absent")[DEFAULT]
            out.append({"part": "kind", "student": name, "kind": kind, **found, **against(found), "absent": absent})
    for name in (NONE, "all students"):
        kinds = [r for r in out if r["part"] == "kind" and r["student"] == name]
        above = {key: round(float(np.mean([r[key] for r in kinds])), 2) for key in kinds[0] if key.endswith(" above")}
        below = [r["kind"] for r in kinds if r["default above"] < -2]
        out.append({"part": "against the best of each kind", "student": name, **above, "2 points below": below})
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--seeds", choices=list(SEEDS), default="reporting")
    parser.add_argument("--kinds", nargs="+", default=KINDS, choices=KINDS)
    args = parser.parse_args()
    run(args.data, SEEDS[args.seeds], available(args.data, names=args.kinds))
    rows = summarize([r for r in read(LINES) if r["seed"] in SEEDS[args.seeds]])
    if args.seeds == "reporting":
        SUMMARY.write_text(json.dumps(rows, indent=1) + "\n")
    for row in rows:
        print(row)


if __name__ == "__main__":
    main()
