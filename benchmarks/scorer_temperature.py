"""At which temperature owners' scorers pay, all else at the defaults.

    python -m benchmarks.scorer_temperature --data FOLDER

- worlds: those of `benchmarks.worlds` whose owners' rows are there, with each owner's scorer and without; students
  10-NN, logistic regression and a network.
- held-out features: the paper's protocol on Tiny-ImageNet features, network teachers, as in
  `benchmarks.membership_paper`, with `none_label`: accuracy among known classes, and with "none" as an answer.
- foreign rows: as in `benchmarks.membership_none`: share of right answers, "none" for foreign rows included.

One line per world, seed, student and temperature in `benchmarks/results/scorer-temperature.jsonl`;
`scorer_temperature.json` has the means. Nothing was chosen on these seeds.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier

from benchmarks.lines import RESULTS, measure_once, read, write
from benchmarks.membership_none import SETTINGS
from benchmarks.membership_paper import N_PUBLIC, NONE, Setting
from benchmarks.paper.experiments import EXPERIMENTS
from benchmarks.paper.trial import Bench
from benchmarks.worlds import make_world
from sklearn_uhc import HeterogeneousDistiller, fit_membership

Record = dict[str, Any]
LINES, SUMMARY = RESULTS / "scorer-temperature.jsonl", RESULTS / "scorer_temperature.json"
STUDENTS: dict[str, Any] = {
    "10-NN": KNeighborsClassifier(10),
    "logistic": LogisticRegression(max_iter=300),
    "network": MLPClassifier((64,), max_iter=100, random_state=0),
}
WORLDS = ("digits, mixed", "digits, networks", "MNIST, mixed", "Fashion-MNIST, mixed", "Fashion-MNIST, networks")
WORLDS += ("lists of 2 to 3", "Tiny-ImageNet, networks", "Tiny-ImageNet, mixed", "100 : 1")
PARTS = {"worlds": range(500, 504), "held-out features": range(20, 26), "foreign rows": range(210, 216)}
TEMPERATURES = (1, 2, 3)


def of_world(name: str, seed: int, folder: Path) -> Iterator[Record]:
    """Yield the accuracies of a world."""
    world = make_world(name, seed, folder)
    public = world.X[np.random.default_rng(seed).permutation(len(world.X))[:N_PUBLIC]]
    scorers = [fit_membership(X, public, y_own=y) for X, y in world.own]
    for student, T in each(STUDENTS):
        for way, membership in {"plain": None, "scored": scorers}.items():
            clf = HeterogeneousDistiller(
                world.teachers, world.student(STUDENTS[student]), temperature=T, membership=membership
            )
            right = clf.fit(world.X).predict(world.X_test) == world.y_test
            yield {"student": student, "T": T, "way": way, "accuracy": share(right)}


def of_features(name: str, seed: int, folder: Path) -> Iterator[Record]:
    """Yield the accuracies of a trial of the paper's protocol."""
    setting = Setting(bench(folder), seed)
    for student, T in each(("network", "logistic")):
        for way, more in {"plain": {}, "scored": {"membership": setting.scorers, "none_label": NONE}}.items():
            model = setting.make(student, NONE if more else None)
            clf = HeterogeneousDistiller(None, model, temperature=T, class_lists=setting.trial.draw.lists, **more)
            P = clf.fit(setting.X, log_p=setting.log_p).predict_proba(setting.X_test)
            kept = clf.classes_ != NONE
            known = clf.classes_[kept][P[:, kept].argmax(axis=1)] == setting.y_test
            every = clf.classes_[P.argmax(axis=1)] == setting.y_test
            yield {"student": student, "T": T, "way": way, "accuracy": share(known), "with none": share(every)}


def of_foreign(name: str, seed: int, folder: Path) -> Iterator[Record]:
    """Yield the share of right answers where some rows are foreign."""
    trial, foreign = SETTINGS[name](seed, folder)
    y = np.where(foreign, NONE, np.resize(trial.y_test, len(foreign)))
    for student, T in each(STUDENTS):
        params: Record = {"temperature": T, "membership": trial.scorers, "none_label": NONE}
        found = (
            HeterogeneousDistiller(trial.teachers, STUDENTS[student], **params).fit(trial.transfer).predict(trial.test)
        )
        taken = {"foreign found": share(found[foreign] == NONE), "known lost": share(found[~foreign] == NONE)}
        yield {"student": student, "T": T, "way": "scored", "accuracy": share(found == y), **taken}


def each(students: Any) -> list[tuple[str, int]]:
    return [(student, T) for student in students for T in TEMPERATURES]


def share(right: NDArray[Any]) -> float:
    return round(100 * float(np.mean(right)), 3)


@lru_cache(maxsize=1)
def bench(folder: Path) -> Bench:
    """Read the features once."""
    return Bench(replace(EXPERIMENTS["features"], folder=str(folder), device="cpu"))


def measure(part: str, name: str, seed: int, folder: Path) -> list[Record]:
    """Return the records of a trial."""
    warnings.simplefilter("ignore")
    return list(
        {"worlds": of_world, "held-out features": of_features, "foreign rows": of_foreign}[part](name, seed, folder)
    )


def summarize(records: list[Record]) -> list[Record]:
    """Return, for every world and student, the accuracy, and the gain of scorers over the same at T = 1 without."""
    out = []
    for part, name, student in dict.fromkeys((r["part"], r["name"], r["student"]) for r in records):
        own = [r for r in records if (r["part"], r["name"], r["student"]) == (part, name, student)]
        cells = {(r["seed"], r["way"], r["T"]): r for r in own}
        seeds = sorted({r["seed"] for r in own})
        row: Record = {"part": part, "name": name, "student": student, "trials": len(seeds)}
        for key in [key for key in own[0] if key in ("accuracy", "with none", "foreign found", "known lost")]:
            for way, T in dict.fromkeys((r["way"], r["T"]) for r in own):
                values = np.array([cells[seed, way, T][key] for seed in seeds])
                row[f"{key}, {way}, {T}"] = round(float(values.mean()), 2)
                if way == "scored" and part != "foreign rows":
                    gain = values - np.array([cells[seed, "plain", 1][key] for seed in seeds])
                    row[f"{key}, gain, {T}"] = round(float(gain.mean()), 2)
                    row[f"{key}, error, {T}"] = round(float(gain.std(ddof=1) / len(gain) ** 0.5), 2)
        out.append(row)
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--parts", nargs="+", default=list(PARTS), choices=list(PARTS))
    args = parser.parse_args()
    names = {"worlds": WORLDS, "held-out features": ("the paper's protocol",), "foreign rows": tuple(SETTINGS)}
    for part in args.parts:
        for seed in PARTS[part]:
            for name in names[part]:
                measure_once(LINES, {"part": part, "name": name, "seed": seed}, measure, part, name, seed, args.data)
    write(SUMMARY, summarize(read(LINES)))


if __name__ == "__main__":
    main()
