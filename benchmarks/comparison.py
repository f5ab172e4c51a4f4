"""The merge compared with what people do instead, on the same teachers and rows.

    python -m benchmarks.comparison [--data FOLDER] [--seeds 10] [--out benchmarks/results/comparison.json]

Without a student: the best single teacher (chosen with the test labels), rules and models that merge the teachers'
answers, and our merge. With a student: the same student, trained on what each approach makes of the unlabelled rows,
and on all teachers' data in one place, which is not possible in practice. Every approach is tried as it is and with the
paper's balance (classes weighted by 1 / mean). The summary has both, and the better of the two in each world: what
somebody reaches who knows whether classes are even. And rivals get the estimate of class frequencies that our merge
makes at its defaults, from what they merged themselves ("estimated"). One line per world and seed is stored in
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

from benchmarks import PAPER
from benchmarks.lines import read
from benchmarks.paper import rivals
from benchmarks.worlds import World, available, make_world
from sklearn_uhc import HeterogeneousDistiller, LabelSpace, SoftLabelClassifier, TeacherOutputs, UnifiedEnsemble
from sklearn_uhc.merging.balance import balanced_targets, class_weights
from sklearn_uhc.merging.class_prior import estimate_prior, fit_scale

Array = NDArray[Any]
RESULTS = Path(__file__).parent / "results" / "comparison.jsonl"
#: The first seeds of the worlds were used to choose the defaults.
FIRST_SEED = 200
LOGISTIC = LogisticRegression(max_iter=1000)
STUDENTS = {
    "digits, mixed": KNeighborsClassifier(10),
    "digits, networks": KNeighborsClassifier(10),
    "texts": LOGISTIC,
    "table": LOGISTIC,
    "Tiny-ImageNet, networks": LOGISTIC,
    "detectors, sentences": LOGISTIC,
    "detectors, word pairs": LOGISTIC,
    "30 intents, even": LOGISTIC,
    "30 intents, half present": LOGISTIC,
    "150 intents, even": LOGISTIC,
    "150 intents, half present": LOGISTIC,
}
OURS, PAPERS, ALL_DATA = "our merge", "our merge, the paper's setting", "all training data"
BALANCED, ESTIMATED, TAUGHT = ", balanced", ", estimated", "student of: "


def majority(log_p: Array, space: LabelSpace) -> Array:
    """Count one vote per teacher, among all classes; tied classes get equal shares."""
    votes = np.eye(space.n_classes)[rivals._votes(log_p, space)].sum(axis=0)
    best = votes == votes.max(axis=1, keepdims=True)
    return best / best.sum(axis=1, keepdims=True)


def average(log_p: Array, space: LabelSpace) -> Array:
    """Average the probabilities, with 0 for classes that a teacher does not know: soft voting."""
    total = np.zeros((len(log_p), space.n_classes))
    for block, columns in zip(space.blocks, space.columns, strict=True):
        total[:, columns] += np.exp(log_p[:, block])
    return total / total.sum(axis=1, keepdims=True)


RIVALS = {
    "majority vote": majority,
    "average of probabilities": average,
    "average of those who know the class": rivals.known_average,
    "most confident teacher": rivals.most_confident,
    "Dawid-Skene": rivals.dawid_skene,
    "Dawid-Skene, unknown classes neutral": rivals.one_coin,
    "Snorkel": rivals.snorkel,
    "hyper label model": rivals.hyper_label_model,
}
#: Snorkel takes a minute for 150 classes.
MOST_CLASSES = {"Snorkel": 100}


def measure(world: World, student: Any) -> dict[str, float]:
    """Return the accuracy of every approach on the test rows of a world."""
    outputs = TeacherOutputs(world.teachers).fit(world.X)
    log_p, test, space = outputs.transform(world.X), outputs.transform(world.X_test), outputs.label_space_
    right = np.searchsorted(space.classes, world.y_test)
    found = {"best teacher alone": max(t.score(world.X_test, world.y_test) for t in world.teachers.values())}
    for name, make in RIVALS.items():
        if space.n_classes > MOST_CLASSES.get(name, np.inf):
            continue
        Q, merged = np.split(make(np.concatenate([log_p, test]), space), [len(log_p)])  # models see more rows than ours
        weights, scale = class_weights(Q), fit_scale(Q, estimate_prior(Q, np.ones(space.n_classes, dtype=bool)))
        found[name] = accuracy(merged, right)
        found[name + BALANCED] = accuracy(balanced_targets(merged, weights)[0], right)
        found[name + ESTIMATED] = accuracy(scale.apply(merged), right)
        ways = {"": (Q, None), BALANCED: balanced_targets(Q, weights), ESTIMATED: (scale.apply(Q), None)}
        for key, targets in ((name + way, targets) for way, targets in ways.items()):
            clf = SoftLabelClassifier(world.student(student)).fit(world.X, targets[0], sample_weight=targets[1])
            found[TAUGHT + key] = accuracy(clf.predict_proba(world.X_test), right)
    settings = {OURS: {}, OURS + BALANCED: {"balance": True}, PAPERS: PAPER}
    for name, params in settings.items():
        merger = UnifiedEnsemble(world.teachers, **params).fit(world.X)
        found[name] = merger.score(world.X_test, world.y_test)
        clf = HeterogeneousDistiller(world.teachers, world.student(student), **params).fit(world.X)
        found[TAUGHT + name] = clf.score(world.X_test, world.y_test)
    if world.own:
        pooled = world.student(student).fit(*_pooled(world.own))
        found[TAUGHT + ALL_DATA] = pooled.score(world.X_test, world.y_test)
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


def accuracy(P: Array, right: Array) -> float:
    """Return the share of rows whose most probable column is right; tied columns count in part."""
    best = P.max(axis=1, keepdims=True) == P
    return float((best[np.arange(len(P)), right] / best.sum(axis=1)).mean())


def run(folder: str | None, seeds: int) -> list[dict[str, Any]]:
    """Measure what is missing, and return all lines."""
    lines = read(RESULTS)
    done = {(line["world"], line["seed"]) for line in lines}
    for seed in range(FIRST_SEED, FIRST_SEED + seeds):
        for name in available(folder, say=seed == FIRST_SEED, names=STUDENTS):
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
    """Return a record per way and balance, with mean and standard error in every world, and our leads."""
    keys = list(dict.fromkeys(key for line in lines for key in line if key not in ("world", "seed")))
    cells = {key: {name: _cell(lines, key, name) for name in STUDENTS} for key in keys}
    out: list[dict[str, Any]] = []
    for key in keys:
        way = key.removeprefix(TAUGHT).removesuffix(BALANCED).removesuffix(ESTIMATED)
        name = f"student of {way}" if key.startswith(TAUGHT) else way
        head = {"kind": "student" if key.startswith(TAUGHT) else "ask", "way": way, "name": name}
        own, balanced = cells[key], cells.get(key + BALANCED, cells[key])
        if key.endswith((BALANCED, ESTIMATED)):
            out.append({**head, "balance": "yes" if key.endswith(BALANCED) else "estimated", **_columns(own)})
            continue
        out.append({**head, "name": f"{name}, default", "balance": "no", **_columns(own)})
        better = {world: max(own[world], balanced[world], key=lambda c: c.get("mean", 0)) for world in own}
        out.append({**head, "balance": "better", **_columns(better)})
    balances = ("no", "yes", "better", "estimated")
    return out + [lead(out, kind, balance) for kind in ("ask", "student") for balance in balances]


def lead(records: list[dict[str, Any]], kind: str, balance: str) -> dict[str, Any]:
    """Return the best rival in every world, and how many points our merge is above it, both with this balance.

    Our merge as it is has estimated frequencies.
    """
    own = {r["way"]: r for r in records if (r["kind"], r["balance"]) == (kind, balance)}
    if balance == "estimated":
        own[OURS] = next(r for r in records if (r["kind"], r["balance"], r["way"]) == (kind, "no", OURS))
    out: dict[str, Any] = {"kind": f"lead, {kind}", "balance": balance}
    for column, ours in own[OURS].items():
        if isinstance(ours, dict):
            reached = {way: own[way][column]["mean"] for way in RIVALS if column in own[way]}
            rival = max(reached, key=reached.__getitem__)
            out[column] = {"rival": rival, "mean": reached[rival], "points": 100 * (ours["mean"] - reached[rival])}
    return out


def _cell(lines: list[dict[str, Any]], key: str, world: str) -> dict[str, Any]:
    values = [line[key] for line in lines if line["world"] == world and key in line]
    if not values:
        return {}
    spread = np.std(values, ddof=1) / np.sqrt(len(values)) if len(values) > 1 else np.nan
    mean = {"mean": float(np.mean(values)), "error_points": float(100 * spread)}
    return {**mean, "trials": len(values), "student": str(STUDENTS[world])}


def _columns(cells: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return what is there, by the name of the world without spaces."""
    return {world.replace(", ", "_").replace(" ", "_"): cell for world, cell in cells.items() if cell}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", help="folder of the data")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--out", default="benchmarks/results/comparison.json")
    options = parser.parse_args()
    Path(options.out).write_text(json.dumps(summarize(run(options.data, options.seeds)), indent=1) + "\n")
