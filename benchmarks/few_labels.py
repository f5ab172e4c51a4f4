"""What a few labels add: the merge alone, the labels alone, and both, with 30, 100 and 300 labelled rows.

    python -m benchmarks.few_labels [--data FOLDER] [--seeds 210 216] [--worlds NAME ...]     measures, or goes on
    python -m benchmarks.few_labels --uneven [...]          uneven and absent classes, broken teachers, wrong labels
    python -m benchmarks.few_labels --summary                                 writes benchmarks/results/few_labels.json

One line a trial in benchmarks/results/few-labels.jsonl. Settings were chosen on seeds below 100. All else is left at
the defaults; "labels alone" is the same student, trained on the labelled rows. `--uneven` is reported on seeds 220 to
224: on seed 212 a false alarm about wrong labels was seen, and the rule was changed after it.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t as student_t
from sklearn.base import clone
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.neighbors import KNeighborsClassifier

from benchmarks.worlds import KINDS, World, available, make_world
from sklearn_uhc import HeterogeneousDistiller, TeacherOutputs, UnifiedEnsemble
from sklearn_uhc.utils.rows import take_rows

RESULTS = Path(__file__).parent / "results"
TRIALS = RESULTS / "few-labels.jsonl"
UNEVEN = RESULTS / "few-labels-uneven.jsonl"
SUMMARY = Path(__file__).parent / "results" / "few_labels.json"
AMOUNTS = (30, 100, 300)
FEW = (20, 30, 50, 100)
#: Settings that labels are compared with.
FIXED: dict[str, dict[str, Any]] = {"default": {}} | {
    f"{method}, {'balanced' if balance else 'as merged'}": {"method": method, "balance": balance}
    for method in ("ce", "mf_lf")
    for balance in (False, True)
}
#: What is added to the name of a world whose first teacher always says its last class.
BROKEN = ", a constant teacher"
UNEVEN_WORLDS = [name for name in KINDS if not name.startswith(("150", "detectors"))]
UNEVEN_WORLDS += [name + BROKEN for name in ("digits mixed, even", "digits mixed, half present", "blobs, 10 : 1")]
CHOSEN = [
    "digits, mixed",
    "Fashion-MNIST, mixed",
    "MNIST, networks",
    "Tiny-ImageNet, networks",
    "texts",
    "lists of 2 to 3",
    "100 : 1",
    "100 : 1, balanced test",
]


def students(seed: int) -> dict[str, Any]:
    """Return the students, not fitted."""
    return {
        "10-NN": KNeighborsClassifier(10),
        "logistic": LogisticRegression(max_iter=300),
        "forest": RandomForestClassifier(20, min_samples_leaf=2, random_state=seed),
    }


def score(model: Any, world: World) -> dict[str, float]:
    """Return accuracy and log-loss on the test rows; classes that the model does not know have probability 0."""
    P = np.zeros((len(world.y_test), len(world.classes)))
    P[:, np.searchsorted(world.classes, model.classes_)] = model.predict_proba(world.X_test)
    P = 0.999 * P + 0.001 / P.shape[1]
    found = world.classes[P.argmax(axis=1)]
    loss = log_loss(world.y_test, P / P.sum(axis=1, keepdims=True), labels=world.classes)
    return {"accuracy": float((found == world.y_test).mean()), "log_loss": float(loss)}


def some_labels(world: World, rows: NDArray[Any]) -> NDArray[Any]:
    """Return y with the labels of these rows, None elsewhere."""
    y = np.full(len(world.y), None, dtype=object)
    y[rows] = world.y[rows]
    return y


def distiller(world: World, student: Any) -> HeterogeneousDistiller:
    """Return the distiller; if the test is balanced and the transfer set is not, `balance` has to be set."""
    balance = True if world.name.endswith("balanced test") else "auto"
    return HeterogeneousDistiller(world.teachers, world.student(student), balance=balance)


def trials(world: World, amounts: Sequence[int] = AMOUNTS) -> Iterator[dict[str, Any]]:
    """Measure all students with these amounts of labels."""
    answers = TeacherOutputs(world.teachers).fit_answers(world.X)
    known = np.flatnonzero(np.isin(world.y, world.classes))
    order = np.random.default_rng([world.seed, 17]).permutation(known)
    for name, student in students(world.seed).items():
        clf = distiller(world, student)
        none = score(clf.fit(world.X, log_p=answers), world)
        for m in amounts:
            rows, start = order[:m], time.perf_counter()
            alone = score(world.student(student).fit(take_rows(world.X, rows), world.y[rows]), world)
            both = score(clf.fit(world.X, some_labels(world, rows), log_p=answers), world)
            measured = {"none": none, "alone": alone, "both": both, "seconds": round(time.perf_counter() - start, 2)}
            yield {"world": world.name, "seed": world.seed, "student": name, "labels": m, **measured}


def uneven(world: World) -> Iterator[dict[str, Any]]:
    """Compare labels with fixed settings, for two students and none, and see whether wrong labels are found."""
    if world.name.endswith(BROKEN):
        (first, teacher), *others = world.teachers.items()
        constant = DummyClassifier(strategy="constant", constant=teacher.classes_[-1])
        constant.fit(np.zeros((len(teacher.classes_), 1)), teacher.classes_)
        world = replace(world, teachers={first: constant, **dict(others)})
    order = np.random.default_rng([world.seed, 17]).permutation(len(world.y))
    for name, student in {"none": None, **students(world.seed)}.items():
        if name == "forest":
            continue
        clf: Any = UnifiedEnsemble(world.teachers)
        if student is not None:
            clf = HeterogeneousDistiller(world.teachers, world.student(student))
        fixed = {how: accuracy(clone(clf).set_params(**setting).fit(world.X), world) for how, setting in FIXED.items()}
        for m in [m for m in FEW if 2 * m < len(order)]:
            rows = order[:m]
            alone = world.student(LogisticRegression(max_iter=300) if student is None else student)
            found = {"alone": accuracy(alone.fit(take_rows(world.X, rows), world.y[rows]), world), **fixed}
            found["both"], warned = with_labels(clf, world, rows, world.y[rows])
            line = {"world": world.name, "seed": world.seed, "student": name, "labels": m, "warned": warned, **found}
            yield line | ({"wrong": wrong_labels(clf, world, rows)} if student is None else {})


def wrong_labels(clf: Any, world: World, rows: NDArray[Any]) -> dict[str, tuple[float, bool]]:
    """Return the accuracy with wrong labels, and whether there was a warning."""
    rng, y = np.random.default_rng([world.seed, 23]), world.y[rows]
    wrong = {"another order": rng.permutation(y), "random": rng.choice(world.classes, len(y)), "all the same": y[:1]}
    return {how: with_labels(clf, world, rows, np.resize(given, len(y))) for how, given in wrong.items()}


def with_labels(clf: Any, world: World, rows: NDArray[Any], given: NDArray[Any]) -> tuple[float, bool]:
    """Return the accuracy with these labels, and whether `fit` says that they contradict the teachers."""
    y = np.full(len(world.y), None, dtype=object)
    y[rows] = given
    found = clone(clf).fit(world.X, y)
    return accuracy(found, world), any(finding.kind == "labels" for finding in found.merger_.findings_)


def accuracy(model: Any, world: World) -> float:
    return float((model.predict(world.X_test) == world.y_test).mean())


def measure(path: Path, run: Any, worlds: list[str], seeds: range, folder: Any, amounts: Sequence[int]) -> None:
    """Run what is missing, and append it."""
    done = {(r["world"], r["seed"], r["labels"]) for r in read(path)}
    for seed in seeds:
        for name in worlds:
            if all((name, seed, m) in done for m in amounts):
                continue
            append(path, run, name, seed, folder)


def append(path: Path, run: Any, name: str, seed: int, folder: Any) -> None:
    """Run one world and seed, and append it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        lines = list(run(replace(make_world(name.removesuffix(BROKEN), seed, folder), name=name)))
    with path.open("a") as file:
        file.writelines(json.dumps(line) + "\n" for line in lines)
    print(f"{name}, seed {seed}: {len(lines)} trials", flush=True)


def read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def interval(values: NDArray[np.float64]) -> float | None:
    """Return the half-width of the 95 % interval of a mean; None for a single value."""
    n = len(values)
    return float(student_t.ppf(0.975, n - 1) * values.std(ddof=1) / np.sqrt(n)) if n > 1 else None


def compared(records: list[dict[str, Any]]) -> dict[str, Any]:
    """Return means, and the difference to the better of both alternatives: better by the mean over the seeds.

    Students of one seed share a world, so that their mean is one observation.
    """
    parts: dict[str, list[NDArray[np.float64]]] = {"better": [], "none": [], "alone": []}
    seeds = sorted({r["seed"] for r in records})
    for student in sorted({r["student"] for r in records}):
        own = {r["seed"]: r for r in records if r["student"] == student}
        both, none, alone = (
            np.array([own[s][key]["accuracy"] if s in own else np.nan for s in seeds])
            for key in ("both", "none", "alone")
        )
        parts["better"].append(both - (none if np.nanmean(none) > np.nanmean(alone) else alone))
        parts["none"].append(both - none)
        parts["alone"].append(both - alone)
    gains = {key: 100 * np.mean(value, axis=0) for key, value in parts.items()}
    means = {key: float(np.mean([r[key]["accuracy"] for r in records])) for key in ("none", "alone", "both")}
    losses = {f"{key}_log_loss": float(np.mean([r[key]["log_loss"] for r in records])) for key in means}
    found = {"gain": float(gains["better"].mean()), "interval": interval(gains["better"]), "seeds": len(seeds)}
    return {**means, **losses, **found, "worst_student": min(100 * float(p.mean()) for p in parts["better"])}


def by_frequencies(records: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield what labels add by how frequent classes are, and how many wrong labels were found."""
    cells: dict[tuple[str, int, str], list[dict[str, Any]]] = {}
    for r in records:
        kind = BROKEN[2:] if r["world"].endswith(BROKEN) else r["world"].split(", ", 1)[1]
        cells.setdefault((kind, r["labels"], r["world"] + r["student"]), []).append(r)
    keys = [*FIXED, "alone", "both"]
    means = {cell: {key: float(np.mean([r[key] for r in own])) for key in keys} for cell, own in cells.items()}
    kinds = list(dict.fromkeys(kind for kind, *_ in cells))
    for kind in [*kinds, "all"]:
        for m in FEW:
            own = [found for cell, found in means.items() if kind in (cell[0], "all") and cell[1] == m]
            short = [found["both"] - max(found["alone"], found["default"]) for found in own]
            mean = {key: float(np.mean([found[key] for found in own])) for key in keys}
            best = max(mean[key] for key in FIXED)
            gain = {"best": best, "gain": 100 * (mean["both"] - best), "cells": len(own)}
            below = {"over_better": 100 * float(np.mean(short)), "below": int(np.sum(np.array(short) < -0.005))}
            yield {"table": "uneven", "classes": kind, "labels": m, **mean, **gain, **below, "worst": 100 * min(short)}
    for m in FEW:
        tests = [r for r in records if r["labels"] == m and "wrong" in r]
        for how in tests[0]["wrong"]:
            none = float(np.mean([r["default"] for r in tests]))
            both, warned = (float(np.mean([r["wrong"][how][k] for r in tests])) for k in (0, 1))
            clean = {"false": sum(r["warned"] for r in records if r["labels"] == m)}
            tried = {"trials": len(tests), "clean": sum(r["labels"] == m for r in records)}
            yield (
                {"table": "wrong", "wrong": how, "labels": m, "none": none, "both": both, "warned": warned}
                | clean
                | tried
            )


def summary() -> None:
    """Write the figures of the page."""
    records, out = read(TRIALS), []
    for name in [name for name in CHOSEN if any(r["world"] == name for r in records)]:
        for m in AMOUNTS:
            chosen = [r for r in records if r["world"] == name and r["labels"] == m]
            out.append({"table": "worlds", "world": name, "labels": m, **compared(chosen)})
    for student in dict.fromkeys(r["student"] for r in records):
        for m in AMOUNTS:
            chosen = [r for r in records if r["student"] == student and r["labels"] == m]
            means = {k: float(np.mean([r[k]["accuracy"] for r in chosen])) for k in ("none", "alone", "both")}
            out.append({"table": "students", "student": student, "labels": m, **means})
    out += by_frequencies(read(UNEVEN))
    cells = [r for r in out if r["table"] == "worlds"]
    out.append(
        {
            "table": "all",
            "cells": len(cells),
            "above": sum(r["gain"] > 0 for r in cells),
            "surely_above": sum(r["interval"] is not None and r["gain"] > r["interval"] for r in cells),
            "worst": min(r["gain"] for r in cells),
            "seeds": min(r["seeds"] for r in cells),
            "trials": len(records),
        }
    )
    SUMMARY.write_text(json.dumps(out, indent=1) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--seeds", type=int, nargs=2, default=(210, 216))
    parser.add_argument("--worlds", nargs="*", default=CHOSEN)
    parser.add_argument("--out", type=Path, help="a file of lines, instead of that in benchmarks/results")
    parser.add_argument("--uneven", action="store_true")
    parser.add_argument("--summary", action="store_true")
    args = parser.parse_args()
    if args.summary:
        summary()
        return
    path, seeds = args.out or (UNEVEN if args.uneven else TRIALS), range(*args.seeds)
    if args.uneven:
        chosen = [name for name in UNEVEN_WORLDS if args.worlds == CHOSEN or name in args.worlds]
        kinds = available(args.data, say=False, names=KINDS)
        there = [name for name in chosen if name.removesuffix(BROKEN) in kinds]
        measure(path, uneven, there, seeds, args.data, FEW[:1])
        return
    there = [name for name in args.worlds if name in available(args.data, say=False)]
    measure(path, trials, there, seeds, args.data, AMOUNTS)


if __name__ == "__main__":
    main()
