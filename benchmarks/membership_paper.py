"""What memberships gain on the paper's own protocol: networks as teachers and student, features of Tiny-ImageNet.

    python -m benchmarks.membership_paper --data FOLDER [--out benchmarks/results/membership-paper.jsonl]

Random classes as in `benchmarks.paper`: 20 to 50 classes among 10 to 20 teachers of 5 to 15; 10,000 unlabelled rows of
all 200 classes, most of them known to nobody (`tinyimagenet_lite0_pca256.npz` in the folder). Every owner runs
`fit_membership` on its own rows with their classes and on 2,500 of the unlabelled ones. Students are the paper's head
and k-NN, trained on soft labels of CE at T = 3, balanced and calibrated:

- "plain": without memberships (the paper's CE-BS, but calibrated);
- "membership": with `none_label`, so that rows count by the chance that they belong to a known class;
- "membership, no none": without;
- "student": `membership="student"`, k-NN alone, as it takes five more trainings;
- "supervised": trained on the rows of all owners together, with their labels (the paper's SPV).

Appends a line of JSON per trial and way, and leaves out what is there already. Trials from 900 on are for choosing the
weight, those from 100 on for the report. `python -m benchmarks.membership_merge summary` has both in its summary.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.neighbors import KNeighborsClassifier

from benchmarks.paper.experiments import EXPERIMENTS
from benchmarks.paper.training import train
from benchmarks.paper.trial import Bench, Trial
from sklearn_uhc import HeterogeneousDistiller, SoftLabelClassifier, fit_membership

Array = NDArray[Any]

RESULTS = Path("benchmarks/results/membership-paper.jsonl")
N_PUBLIC = 2500
REPORTING, CHOOSING = range(100, 110), range(900, 904)
WEIGHTS = (0.1, 1.0)


class Said:
    """A scorer whose answers about the unlabelled rows are known: it is asked for many merges."""

    def __init__(self, d: Array) -> None:
        self.d = d

    def predict_membership(self, X: Any) -> Array:
        """Return what was said."""
        return self.d


class Setting:
    """A trial with the teachers' answers and the owners' scorers."""

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

    def scorers(self) -> list[Said]:
        """Let every owner fit a scorer, and ask them all."""
        public = self.X[:: len(self.X) // N_PUBLIC]
        return [Said(fit_membership(X, public, y_own=y).predict_membership(self.X)) for X, y in self.own]

    def student(self, kind: str, n_classes: int) -> Any:
        """Return a student that is not trained yet."""
        if kind == "k-NN":
            return KNeighborsClassifier()
        net = self.trial.student().estimator.set_params(module__n_out=n_classes)
        return SoftLabelClassifier(net, random_state=self.number)

    def accuracy(self, kind: str, **params: Any) -> float:
        """Return the accuracy of a student among the known classes, on test rows of these."""
        none = params.get("none_label")
        student = self.student(kind, self.trial.space.n_classes + (none is not None))
        clf = HeterogeneousDistiller(
            None, student, method="ce", temperature=3.0, balance=True, class_lists=self.trial.draw.lists, **params
        ).fit(self.X, log_p=self.log_p)
        return self.right(clf.predict_proba(self.X_test), clf.classes_, none)

    def supervised(self, kind: str) -> float:
        """Return the accuracy of a student with the labels of all owners."""
        X, y = (np.concatenate(parts) for parts in zip(*self.own, strict=True))
        classes = self.trial.space.classes
        if kind == "k-NN":
            return self.right(KNeighborsClassifier().fit(X, y).predict_proba(self.X_test), classes)
        return self.right(
            train(self.trial.student().estimator, X, y, classes, self.number).predict_proba(self.X_test), classes
        )

    def right(self, P: Array, classes: Array, none: Any = None) -> float:
        """Return the share of test rows whose most probable class, "none" left out, is the right one."""
        kept = np.array([label != none for label in classes.tolist()])
        return float((classes[kept][P[:, kept].argmax(axis=1)] == self.y_test).mean())


def ways(setting: Setting, choosing: bool) -> dict[str, Callable[[str], float]]:
    """Return what is compared."""
    scorers = setting.scorers()
    if choosing:
        return {
            f"weight {weight}": lambda kind, weight=weight: setting.accuracy(
                kind, membership=scorers, none_label=-1, membership_weight=weight
            )
            for weight in WEIGHTS
        } | {
            "weight 0": lambda kind: setting.accuracy(kind, membership=None),
            "weight 0.3": lambda kind: setting.accuracy(kind, membership=scorers, none_label=-1),
        }
    return {
        "plain": lambda kind: setting.accuracy(kind, membership=None),
        "membership": lambda kind: setting.accuracy(kind, membership=scorers, none_label=-1),
        "supervised": setting.supervised,
        "membership, no none": lambda kind: setting.accuracy(kind, membership=scorers),
        "student": lambda kind: setting.accuracy(kind, membership="student"),
    }


def run(bench: Bench, number: int, choosing: bool, out: Path, done: set[tuple[int, str]]) -> None:
    """Append the records of a trial that are not there yet."""
    names = [f"weight {w}" for w in (0, 0.3, *WEIGHTS)] if choosing else ["plain", "membership", "supervised"]
    names += [] if choosing else ["membership, no none", "student"]
    if all((number, name) in done for name in names):
        return
    setting = Setting(bench, number)
    for name, score in ways(setting, choosing).items():
        if (number, name) in done:
            continue
        start = time.process_time()
        kinds = ["k-NN"] if name == "student" else ["network"] if choosing else ["network", "k-NN"]
        found = {kind: score(kind) for kind in kinds}
        record = {"part": "choosing" if choosing else "comparing", "seed": number, "way": name, **found}
        with out.open("a") as file:
            file.write(json.dumps(record | {"seconds": round(time.process_time() - start, 1)}) + "\n")
        print(record, flush=True)


def main() -> None:
    """Run what is not there yet."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, default=RESULTS)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    bench = Bench(replace(EXPERIMENTS["features"], folder=str(args.data), device="cpu"))
    records = [json.loads(line) for line in args.out.read_text().splitlines()] if args.out.exists() else []
    done = {(record["seed"], record["way"]) for record in records}
    for number in REPORTING:
        run(bench, number, False, args.out, done)
    for number in CHOOSING:
        run(bench, number, True, args.out, done)


if __name__ == "__main__":
    main()
