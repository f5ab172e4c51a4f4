"""One trial: draw, train the teachers, ask them once, then train and score one student per method."""

from __future__ import annotations

import copy
import time
from collections.abc import Iterator
from functools import cached_property, lru_cache
from importlib.metadata import version
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.metrics import log_loss

from benchmarks.paper.backbones import BACKBONES
from benchmarks.paper.datasets import load
from benchmarks.paper.experiments import Experiment, find_method
from benchmarks.paper.feature_cache import Features
from benchmarks.paper.protocol import Draw, draw_trial
from benchmarks.paper.records import Record
from benchmarks.paper.training import make_net, spoil, train
from sklearn_uhc import (
    HeterogeneousDistiller,
    LabelSpace,
    SoftLabelClassifier,
    TeacherMerger,
    TeacherOutputs,
    TorchTeacher,
)

Array = NDArray[Any]
PACKAGES = ("sklearn-uhc", "scikit-learn", "numpy", "scipy", "torch", "skorch")


class Bench:
    """A dataset, and its features by architecture: what all trials share."""

    def __init__(self, experiment: Experiment) -> None:
        self.experiment = experiment
        self.data = load(experiment.dataset, experiment.folder)
        self._features: dict[str, Features] = {}

    @property
    def conditions(self) -> Record:
        """What the records of all trials have in common."""
        given = self.experiment
        names = ("dataset", "protocol", "student", "study", "epochs", "batch_size")
        return {name: getattr(given, name) for name in names} | {"teachers": given.teachers, "data": self.data.key}

    def features(self, architecture: str) -> Features:
        """Return the features of an architecture's frozen part."""
        if architecture not in self._features:
            given = self.experiment
            backbone = BACKBONES[architecture]
            self._features[architecture] = Features(self.data, backbone, given.cache, device=given.device)
        return self._features[architecture]

    def draw(self, number: int) -> Draw:
        """Draw a trial."""
        given = self.experiment
        y, set_aside = self.data.train.y, given.study == "accuracy"
        assert y is not None
        return draw_trial(number, y, given.ranges, given.protocol, given.teachers, set_aside)

    def test_rows(self, classes: Array) -> Array:
        """Rows of the test part that show one of the classes."""
        return np.flatnonzero(np.isin(self.data.test.y, classes))

    def prepare(self, numbers: list[int], verbose: int = 1) -> None:
        """Extract, once, the features of every image that the trials will look at."""
        everything = np.arange(len(self.data.unlabelled.images))
        for name in {*self.experiment.teachers, self.experiment.student}:
            self.features(name).prepare("unlabelled", everything, verbose=verbose)
        for number in numbers:
            draw = self.draw(number)
            for name in {*draw.architectures, self.experiment.student}:
                rows = np.concatenate([*draw.rows, draw.adjustment])
                self.features(name).prepare("train", np.sort(rows), verbose=verbose)
                self.features(name).prepare("test", self.test_rows(draw.classes), verbose=verbose)


@lru_cache(maxsize=1)
def open_bench(experiment: Experiment) -> Bench:
    """Return the bench of an experiment; kept, as a process runs many trials of one."""
    return Bench(experiment)


class Trial:
    """What the methods of a trial have in common."""

    def __init__(self, bench: Bench, number: int) -> None:
        self.bench, self.number, self.experiment = bench, number, bench.experiment
        self.draw = bench.draw(number)
        self.space = LabelSpace(self.draw.lists)
        self.order = np.random.default_rng([number, 1]).permutation(len(bench.data.unlabelled.images))

    @cached_property
    def teachers(self) -> list[torch.nn.Module]:
        """Train every teacher on its own images."""
        y, modules = self.bench.data.train.y, []
        for i, (known, rows) in enumerate(zip(self.draw.lists, self.draw.rows, strict=True)):
            X = self.bench.features(self.draw.architectures[i]).read("train", rows)
            net = self._net(self.draw.architectures[i], len(known))
            modules.append(train(net, X, y[rows], known, seed=1000 * self.number + i).estimator_.module_)
        return modules

    def spoiled(self, accuracy: float) -> list[torch.nn.Module]:
        """Return copies of the teachers with noise in the last layer."""
        y, modules = self.bench.data.train.y, []
        for i, (known, module) in enumerate(zip(self.draw.lists, self.teachers, strict=True)):
            rows = self.draw.adjustment[np.isin(y[self.draw.adjustment], known)]
            X = self.bench.features(self.draw.architectures[i]).read("train", rows)
            modules.append(copy.deepcopy(module))
            spoil(modules[-1], X, np.searchsorted(known, y[rows]), accuracy, seed=1000 * self.number + i)
        return modules

    def answers(self, modules: list[torch.nn.Module], part: str, rows: Array) -> Array:
        """Ask all teachers, each for the features of its own architecture."""
        blocks = []
        for module, known, name in zip(modules, self.draw.lists, self.draw.architectures, strict=True):
            teacher = TorchTeacher(module, known, batch_size=4096, device=self.experiment.device)
            blocks.append(TeacherOutputs([teacher]).fit_transform(self.bench.features(name).read(part, rows)))
        return np.hstack(blocks)

    def student(self) -> SoftLabelClassifier:
        """Return a student that is not trained yet; all of a trial start alike and see the same batches."""
        net = self._net(self.experiment.student, self.space.n_classes)
        return SoftLabelClassifier(net, classes=self.space.classes, random_state=self.number)

    def _net(self, architecture: str, n_out: int) -> Any:
        shape = self.bench.features(architecture).shape
        module, given = BACKBONES[architecture].module(), self.experiment
        return make_net(module, shape, n_out, epochs=given.epochs, batch_size=given.batch_size, device=given.device)

    def run(self, wanted: list[tuple[float | None, str]]) -> Iterator[Record]:
        """Train and score one student after the other."""
        for value in dict.fromkeys(value for value, _ in wanted):
            setting = Setting(self, value)
            for method in (method for at, method in wanted if at == value):
                yield setting.record(method)


class Setting:
    """A trial at one value of a study: what the teachers say, of which images, at which temperature."""

    def __init__(self, trial: Trial, value: float | None) -> None:
        self.trial, self.value = trial, value
        study, bench = trial.experiment.study, trial.bench
        self.temperature = float(value) if study == "temperature" and value else trial.experiment.temperature
        self.rows = np.sort(trial.order[: int(value)] if study == "size" and value else trial.order)
        self.modules = trial.spoiled(float(value)) if study == "accuracy" and value else trial.teachers
        self.log_p = trial.answers(self.modules, "unlabelled", self.rows)
        test = bench.test_rows(trial.space.classes)
        features = bench.features(trial.experiment.student)
        self.X, self.X_test = features.read("unlabelled", self.rows), features.read("test", test)
        labels = bench.data.test.y
        assert labels is not None
        self.y_test = labels[test]
        self.teacher_accuracy = self._teacher_accuracy(test)

    def _teacher_accuracy(self, test: Array) -> float:
        """Mean accuracy of the teachers, each on the test images of its own classes."""
        trial = self.trial
        log_p = trial.answers(self.modules, "test", test)
        found = []
        for known, block in zip(trial.draw.lists, trial.space.blocks, strict=True):
            own = np.isin(self.y_test, known)
            found.append(np.mean(known[log_p[own][:, block].argmax(axis=1)] == self.y_test[own]))
        return float(np.mean(found))

    def fit(self, method: str) -> Any:
        """Train the student of one row of the table."""
        trial, student = self.trial, self.trial.student()
        if method == "SPV":
            rows, y = np.concatenate(trial.draw.rows), trial.bench.data.train.y
            X = trial.bench.features(trial.experiment.student).read("train", rows)
            return train(student.estimator, X, y[rows], trial.space.classes, trial.number)
        found = find_method(method)
        if callable(found):
            return student.fit(self.X, found(self.log_p, trial.space))
        merging, backprop, balance = found
        return HeterogeneousDistiller(
            TeacherMerger(None, calibrate=False),
            student,
            method=merging,
            backprop=backprop,
            balance=balance,
            temperature=self.temperature,  # the paper's methods as they are
            class_lists=trial.draw.lists,
        ).fit(self.X, log_p=self.log_p)

    def record(self, method: str) -> Record:
        """Train, score, and tell everything that the report needs."""
        trial = self.trial
        start = time.perf_counter()
        proba = self.fit(method).predict_proba(self.X_test)
        classes = trial.space.classes
        return {
            **trial.bench.conditions,
            "value": self.value,
            "trial": trial.number,
            "method": method,
            "accuracy": round(float(np.mean(classes[proba.argmax(axis=1)] == self.y_test)), 6),
            "log_loss": round(float(log_loss(self.y_test, proba.astype(float), labels=classes)), 6),
            "seconds": round(time.perf_counter() - start, 2),
            "n_classes": len(classes),
            "n_teachers": len(trial.draw.lists),
            "n_unlabelled": len(self.X),
            "samples": [round(number, 1) for number in trial.draw.samples],
            "temperature": self.temperature,
            "teacher_accuracy": round(self.teacher_accuracy, 4),
            "seed": trial.number,
            "versions": {name: version(name) for name in PACKAGES},
        }
