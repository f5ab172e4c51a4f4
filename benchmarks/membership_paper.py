"""What memberships gain on the paper's own protocol: networks as teachers and student, features of Tiny-ImageNet.

    python -m benchmarks.membership_paper --data FOLDER [--trials 10] [--out benchmarks/results/membership-paper.jsonl]

Random classes as in `benchmarks.paper`: 20 to 50 classes among 10 to 20 teachers of 5 to 15; 10,000 unlabelled rows of
all 200 classes, most of them known to nobody (`tinyimagenet_lite0_pca256.npz` in the folder). Every owner runs
`fit_membership` on its own rows with their classes and on 2,500 of the unlabelled ones. The student is the paper's
head, trained on soft labels of CE at T = 3, balanced, with `none_label`, so that rows count by the chance that they
belong to a known class. CE-BS (without memberships) and SPV (trained on the owners' rows with their labels) of the same
trials stand in `features-random.jsonl`, from `python -m benchmarks run features`.

Appends a line of JSON per trial, and leaves out what is there already; trials from 900 on are for choosing.
`python -m benchmarks.membership_merge summary` reads the file.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.paper.experiments import EXPERIMENTS
from benchmarks.paper.trial import Bench, Trial
from sklearn_uhc import HeterogeneousDistiller, SoftLabelClassifier, fit_membership

Array = NDArray[Any]

RESULTS = Path("benchmarks/results/membership-paper.jsonl")
N_PUBLIC = 2500


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

    def scorers(self) -> list[Any]:
        """Let every owner fit a scorer."""
        public = self.X[:: len(self.X) // N_PUBLIC]
        return [fit_membership(X, public, y_own=y) for X, y in self.own]

    def accuracy(self, **params: Any) -> float:
        """Return the accuracy of the student among the known classes, on test rows of these."""
        none = params.get("none_label")
        net = self.trial.student().estimator.set_params(module__n_out=self.trial.space.n_classes + (none is not None))
        clf = HeterogeneousDistiller(
            None,
            SoftLabelClassifier(net, random_state=self.number),
            method="ce",
            temperature=3.0,
            balance=True,
            class_lists=self.trial.draw.lists,
            **params,
        ).fit(self.X, log_p=self.log_p)
        kept = np.array([label != none for label in clf.classes_.tolist()])
        P = clf.predict_proba(self.X_test)[:, kept]
        return float((clf.classes_[kept][P.argmax(axis=1)] == self.y_test).mean())


def main() -> None:
    """Run what is not there yet."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--trials", type=int, default=10)
    parser.add_argument("--out", type=Path, default=RESULTS)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    bench = Bench(replace(EXPERIMENTS["features"], folder=str(args.data), device="cpu"))
    records = [json.loads(line) for line in args.out.read_text().splitlines()] if args.out.exists() else []
    done = {record["seed"] for record in records if record["way"] == "membership"}
    for number in (number for number in range(args.trials) if number not in done):
        start = time.process_time()
        setting = Setting(bench, number)
        scorers = setting.scorers()
        found = setting.accuracy(membership=scorers, none_label=-1)
        record = {"seed": number, "way": "membership", "network": found}
        with args.out.open("a") as file:
            file.write(json.dumps(record | {"seconds": round(time.process_time() - start, 1)}) + "\n")
        print(record, flush=True)


if __name__ == "__main__":
    main()
