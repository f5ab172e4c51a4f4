"""Soft labels for learners with `partial_fit`: labels drawn anew from the soft labels in every epoch.

An epoch costs the same as on hard labels, and its expected gradient is that of the soft cross-entropy, or of the
learner's own loss. In epoch e, row i gets the class in whose interval u_i + e * (golden ratio), modulo 1, falls, with a
random u_i. So every class has its probability in every epoch, and over the epochs it occurs as evenly as possible.

`partial_fit` has no stopping rule. Here it is scikit-learn's: at most `max_iter` epochs, fewer if the loss has not
fallen by `tol` in `n_iter_no_change` of them. The loss is the expected loss over the soft labels, so that draws do not
disturb it. It is computed on some training rows, or with `early_stopping=True` on rows held out, and then the best
epoch is kept. Linear models end with the mean of their coefficients over the epochs.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from inspect import signature
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import get_tags

from sklearn_uhc.students.direct import soft_log_loss
from sklearn_uhc.students.replicate import answers_of, fit_classifier
from sklearn_uhc.students.sample import classes_at, draw_rows
from sklearn_uhc.students.soft_data import EvalRows, SoftData
from sklearn_uhc.utils.notes import warn_user
from sklearn_uhc.utils.rows import some_rows, take_rows

GOLDEN = (np.sqrt(5) - 1) / 2
#: Maximum number of training rows on which the loss for stopping is computed.
JUDGED_ROWS = 1000

#: One-versus-rest losses as functions of the margin: the score for a class, its negative against it.
MARGIN_LOSSES: dict[str, Callable[[NDArray[Any]], NDArray[Any]]] = {
    "hinge": lambda z: np.maximum(0.0, 1 - z),
    "squared_hinge": lambda z: np.maximum(0.0, 1 - z) ** 2,
    "perceptron": lambda z: np.maximum(0.0, -z),
    "log_loss": lambda z: np.logaddexp(0.0, -z),
    "modified_huber": lambda z: np.where(z < -1, -4 * z, np.maximum(0.0, 1 - z) ** 2),
}


class EpochStrategy:
    """Train a classifier with `partial_fit`, each epoch on newly drawn labels."""

    name = "epochs"
    students = "classifiers with partial_fit and max_iter, such as SGDClassifier and MLPClassifier"

    @staticmethod
    def accepts(estimator: Any) -> bool:
        """Return whether the estimator trains in epochs of `partial_fit`, without an adaptive learning rate."""
        if not (is_classifier(estimator) and hasattr(estimator, "partial_fit")):
            return False
        params = estimator.get_params()
        by_epochs = any(name.endswith("max_iter") for name in params)
        adaptive = any(name.endswith("learning_rate") and value == "adaptive" for name, value in params.items())
        return by_epochs and not adaptive and get_tags(estimator).target_tags.single_output

    @staticmethod
    def fit(estimator: Any, data: SoftData, **params: Any) -> Any:
        """Fit the classifier itself, on the class names."""
        name = type(estimator).__name__
        if params:
            raise ValueError(f"{sorted(params)} cannot be passed to partial_fit of {name}: use strategy='replicate'.")
        stops = setting(estimator, "early_stopping") is True
        if data.eval_set and not stops:
            raise ValueError(f"{name} does not accept eval_set unless early_stopping=True.")
        data = _dense_lists(data.with_validation() if stops else data)
        known = np.flatnonzero((data.Q > 0).any(axis=0))
        if len(known) == 1:
            return fit_classifier(estimator, data.X, known, data.classes, {})
        judged = _known(data.one_eval_set(name) if stops else _some(data), known)
        return _run(estimator, replace(data, Q=data.Q[:, known], classes=data.classes[known]), judged, stops)

    @staticmethod
    def log_answers(fitted: Any, X: Any, classes: NDArray[Any], prior: NDArray[Any]) -> NDArray[np.float64]:
        """Return log-probabilities over all classes; a class without probability anywhere gets probability 0."""
        return answers_of(fitted, X, classes)


class Plateau:
    """scikit-learn's stopping rule: no decrease by `tol` below the best loss, `patience` times in a row."""

    def __init__(self, tol: float | None, patience: int) -> None:
        self.tol, self.patience = tol, patience
        self.best, self.idle = np.inf, 0

    def reached(self, loss: float) -> bool:
        """Add the loss of an epoch; return whether to stop."""
        better = self.tol is None or loss <= self.best - self.tol  # NaN is not better
        self.idle = 0 if better else self.idle + 1
        self.best = min(self.best, loss)
        return self.idle >= self.patience


def _run(estimator: Any, data: SoftData, judged: EvalRows, keep_best: bool) -> Any:
    """Train on labels drawn anew in every epoch."""
    labels = DrawnLabels(data, data.rng(estimator), "sample_weight" in signature(estimator.partial_fit).parameters)

    def learn(epoch: int) -> None:
        X, y, weights = labels.of(epoch)
        estimator.partial_fit(X, y, classes=data.classes, **weights)

    return train_by_epochs(estimator, learn, judged, data.classes, keep_best, "epochs")


def train_by_epochs(
    estimator: Any, learn: Callable[[int], None], judged: EvalRows, classes: NDArray[Any], keep_best: bool, unit: str
) -> Any:
    """Call `learn(epoch)`, which trains the estimator, until the loss on the rows `judged` stops falling.

    Return the estimator with the mean of its coefficients or, with `keep_best`, that of its best epoch. `unit` is the
    name of an epoch in a warning.
    """
    plateau = Plateau(setting(estimator, "tol"), int(setting(estimator, "n_iter_no_change") or 5))
    most, best = int(setting(estimator, "max_iter")), None
    mean = MeanCoefficients(estimator)
    with _one_training(estimator):
        for epoch in range(most):
            learn(epoch)
            mean.add(epoch)
            # Stopping uses the coefficients of the epoch, as in scikit-learn: their mean settles much later.
            with mean.in_place() if keep_best else nullcontext():
                loss = expected_loss(estimator, judged, classes)
                if keep_best and not plateau.best <= loss:
                    best = copy.deepcopy(estimator)
            if plateau.reached(loss):
                break
        else:
            if plateau.tol is not None:
                warn_user(
                    f"{type(estimator).__name__} has not converged in max_iter={most} {unit}: its loss still falls.",
                    ConvergenceWarning,
                )
    mean.keep()
    fitted = estimator if best is None else best.set_params(**estimator.get_params())
    if hasattr(fitted, "n_iter_"):
        fitted.n_iter_ = epoch + 1
    return fitted


class MeanCoefficients:
    """The mean of a linear model's coefficients over the epochs, with growing weights: it averages out random draws."""

    def __init__(self, estimator: Any) -> None:
        self.estimator = estimator
        self.mean: dict[str, Any] = {}

    def add(self, epoch: int) -> None:
        """Add the coefficients of an epoch, with a weight that grows with its number."""
        names = [] if getattr(self.estimator, "average", False) else ["coef_", "intercept_"]
        for name in names if hasattr(self.estimator, "coef_") else []:
            now = getattr(self.estimator, name)
            before = self.mean.get(name, 0.0)
            self.mean[name] = before + (now - before) * 2 / (epoch + 2)

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """Use the mean coefficients temporarily."""
        own = {name: getattr(self.estimator, name) for name in self.mean}
        self.keep()
        try:
            yield
        finally:
            vars(self.estimator).update(own)

    def keep(self) -> None:
        """Set the mean coefficients."""
        vars(self.estimator).update(self.mean)


class DrawnLabels:
    """Rows, labels and weights of every epoch."""

    def __init__(self, data: SoftData, rng: np.random.RandomState, weighs: bool) -> None:
        self.data, self.rng = data, rng
        self.weights = {"sample_weight": data.weight} if weighs and data.weight is not None else {}
        self.draws_rows = data.weight is not None and not weighs
        self.steps = np.cumsum(data.Q, axis=1)
        self.start = rng.random_sample(len(data.Q))

    def of(self, epoch: int) -> tuple[Any, NDArray[Any], dict[str, Any]]:
        """Return those of one epoch; rows are drawn by weight if the learner takes no weights."""
        places = (self.start + epoch * GOLDEN) % 1.0
        y = self.data.classes[classes_at(self.steps, places[:, None])[:, 0]]
        if not self.draws_rows:
            return self.data.X, y, self.weights
        rows = draw_rows(self.data.row_weights, self.rng)
        return take_rows(self.data.X, rows), y[rows], {}


def expected_loss(estimator: Any, rows: EvalRows, classes: NDArray[Any]) -> float:
    """Return the mean of the learner's own loss over soft labels, or the cross-entropy if it is unknown."""
    if not hasattr(estimator, "decision_function"):
        return soft_log_loss(rows.Q, np.maximum(answers_of(estimator, rows.X, classes), -700.0), rows.weight)
    F = estimator.decision_function(rows.X)
    own = MARGIN_LOSSES.get(getattr(estimator, "loss", ""))
    if own is None:
        return soft_log_loss(rows.Q, F, rows.weight)
    F, Q = (F[:, None], rows.Q[:, 1:]) if F.ndim == 1 else (F, rows.Q)
    return float(np.average(np.mean(Q * own(F) + (1 - Q) * own(-F), axis=1), weights=rows.weight))


def setting(estimator: Any, name: str) -> Any:
    """Return a parameter of the estimator, or of one inside it."""
    params = estimator.get_params()
    return next((params[key] for key in sorted(params, key=len) if key.split("__")[-1] == name), None)


@contextmanager
def _one_training(estimator: Any) -> Iterator[None]:
    """Use one random state for all calls of `partial_fit`, and disable the estimator's own stopping."""
    given = estimator.get_params()
    changed: dict[str, Any] = {}
    for key, value in given.items():
        last = key.split("__")[-1]
        if last == "random_state" and isinstance(value, Integral):
            changed[key] = np.random.RandomState(int(value))  # an int would give every epoch the same order
        elif last == "early_stopping" and value is True:
            changed[key] = False
    estimator.set_params(**changed)
    try:
        yield
    finally:
        estimator.set_params(**{key: given[key] for key in changed})


def _some(data: SoftData) -> EvalRows:
    rows = some_rows(len(data.Q), JUDGED_ROWS)
    return EvalRows(take_rows(data.X, rows), data.Q[rows], data.row_weights[rows])


def _known(rows: EvalRows, known: NDArray[np.int_]) -> EvalRows:
    """Remove classes that have no probability in training."""
    return rows._replace(Q=rows.Q[:, known])


def _dense_lists(data: SoftData) -> SoftData:
    """Convert lists to arrays once, instead of in every epoch."""
    return replace(data, X=np.asarray(data.X)) if isinstance(data.X, (list, tuple)) else data
