"""What memberships gain on the paper's own protocol: networks as teachers, features of Tiny-ImageNet.

    python -m benchmarks.membership_paper --data FOLDER [--trials 10] [--students network k-NN ...] [--ways ...]

Random classes as in `benchmarks.paper`: 20 to 50 classes among 10 to 20 teachers of 5 to 15; 10,000 unlabelled rows of
all 200 classes, most of them known to nobody (`tinyimagenet_lite0_pca256.npz` in the folder). Every owner runs
`fit_membership` on its own rows with their classes and on 2,500 of the unlabelled ones. Soft labels are those of CE at
T = 3, balanced. Students are the paper's head ("network"), k-NN, logistic regression and a forest of 20 trees. Ways:

- plain: without memberships, as CE-BS in `features-random.jsonl`, from where the head's results are taken
- membership: the owners' scorers, with `none_label`, so that rows count by the chance that they belong to a known class
- supervised: trained on the owners' rows with their labels; the head's is SPV of `features-random.jsonl`

Appends a line of JSON per trial, student and way to `benchmarks/results/membership-paper.jsonl`, and leaves out what is
there already. Trials from 900 on are for choosing: `--first 900 --weights 0.5 1 2` tries weights of the owners' scorers
with the head. `python -m benchmarks.membership_summary` reads the file.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.ensemble import RandomForestClassifier

from benchmarks.lines import read
from benchmarks.membership_merge import STUDENTS
from benchmarks.paper.experiments import EXPERIMENTS
from benchmarks.paper.training import train
from benchmarks.paper.trial import Bench, Trial
from sklearn_uhc import HeterogeneousDistiller, SoftLabelClassifier, TeacherMerger, fit_membership

Array = NDArray[Any]

RESULTS = Path("benchmarks/results/membership-paper.jsonl")
N_PUBLIC, NONE = 2500, -1
#: The forest is smaller than elsewhere: 60 trees take 40 seconds here.
OTHERS = {name: STUDENTS[name] for name in ("k-NN", "logistic")} | {
    "forest": RandomForestClassifier(20, random_state=0, n_jobs=1)
}
WAYS = ("plain", "membership", "supervised")


class Setting:
    """A trial with the teachers' answers and, when asked for, the owners' scorers."""

    def __init__(self, bench: Bench, number: int) -> None:
        self.trial, self.number = Trial(bench, number), number
        features, y = bench.features("features"), bench.data.train.y
        assert y is not None
        assert bench.data.test.y is not None
        rows, test = np.arange(len(bench.data.unlabelled.images)), bench.test_rows(self.trial.space.classes)
        self.log_p = self.trial.answers(self.trial.teachers, "unlabelled", rows)
        self.X, self.X_test = features.read("unlabelled", rows), features.read("test", test)
        self.y_test = bench.data.test.y[test]
        self.own = [(features.read("train", own), y[own]) for own in self.trial.draw.rows]

    @cached_property
    def scorers(self) -> list[Any]:
        """Let every owner fit a scorer."""
        public = self.X[:: len(self.X) // N_PUBLIC]
        return [fit_membership(X, public, y_own=y) for X, y in self.own]

    def accuracy(self, student: str, way: str, weight: float = 1.0) -> float:
        """Return the accuracy of a student among the known classes, on test rows of these."""
        if way == "supervised":
            return self.supervised(student)
        params: dict[str, Any] = {}
        if way == "membership":
            params = {"membership": self.scorers, "none_label": NONE}
        clf = HeterogeneousDistiller(
            TeacherMerger(None, calibrate=False, membership_weight=weight),
            self.make(student, NONE if way == "membership" else None),
            method="ce",
            temperature=3.0,
            balance=True,  # the paper's method as it is
            class_lists=self.trial.draw.lists,
            **params,
        ).fit(self.X, log_p=self.log_p)
        kept = np.array([label != NONE for label in clf.classes_.tolist()])
        P = clf.predict_proba(self.X_test)[:, kept]
        return float((clf.classes_[kept][P.argmax(axis=1)] == self.y_test).mean())

    def make(self, student: str, none: int | None) -> Any:
        """Return a student that is not trained yet."""
        if student != "network":
            return clone(OTHERS[student])
        n_out = self.trial.space.n_classes + (none is not None)
        return SoftLabelClassifier(
            self.trial.student().estimator.set_params(module__n_out=n_out), random_state=self.number
        )

    def supervised(self, student: str) -> float:
        """Return the accuracy of a student trained on the owners' rows."""
        X, y = np.concatenate([own for own, _ in self.own]), np.concatenate([labels for _, labels in self.own])
        if student == "network":
            clf = train(self.trial.student().estimator, X, y, self.trial.space.classes, self.number)
        else:
            clf = clone(OTHERS[student]).fit(X, y)
        return float((clf.predict(self.X_test) == self.y_test).mean())


def run(bench: Bench, number: int, cells: list[tuple[str, str, float]], out: Path) -> None:
    """Measure some students, ways and weights of a trial."""
    setting = Setting(bench, number)
    for student, way, weight in cells:
        start = time.process_time()
        record = {"seed": number, "way": way, "student": student}
        record |= {"accuracy": setting.accuracy(student, way, weight)} | ({"weight": weight} if number >= 900 else {})
        with out.open("a") as file:
            file.write(json.dumps(record | {"seconds": round(time.process_time() - start, 1)}) + "\n")
        print(record, flush=True)


def main() -> None:
    """Run what is not there yet."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--trials", type=int, default=10)
    parser.add_argument("--students", nargs="*", default=["network", *OTHERS])
    parser.add_argument("--ways", nargs="*", default=WAYS)
    parser.add_argument("--weights", type=float, nargs="*", default=[1.0])
    parser.add_argument("--out", type=Path, default=RESULTS)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    bench = Bench(replace(EXPERIMENTS["features"], folder=str(args.data), device="cpu"))
    done = {(r["seed"], r["student"], r["way"], r.get("weight", 1.0)) for r in read(args.out)}
    for number in range(args.first, args.first + args.trials):
        wanted = [
            (s, w, g) for s in args.students for w in args.ways for g in (args.weights if w == "membership" else [1.0])
        ]
        if number < 900:  # these are there, from the run of the paper's table
            wanted = [(s, w, g) for s, w, g in wanted if s != "network" or w == "membership"]
        if cells := [(s, w, g) for s, w, g in wanted if (number, s, w, g) not in done]:
            run(bench, number, cells, args.out)


if __name__ == "__main__":
    main()
