"""Soft labels for a classifier without sample weights: one or more labels per row, drawn from its soft label.

Right on average, but a single draw loses the information on the other classes of the row: more rows are needed for the
same accuracy, or `copies` of each. It is never chosen automatically.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier
from sklearn.utils.validation import has_fit_parameter

from sklearn_uhc.students.replicate import answers_of, fit_classifier
from sklearn_uhc.students.soft_data import SoftData
from sklearn_uhc.utils.rows import take_rows


class SampleStrategy:
    """Train a classifier on labels drawn from the soft labels."""

    name = "sample"
    students = "every classifier, on labels drawn at random, on request only"

    @staticmethod
    def accepts(estimator: Any) -> bool:
        """Whether the estimator is a classifier."""
        return bool(is_classifier(estimator))

    @staticmethod
    def fit(estimator: Any, data: SoftData, **params: Any) -> Any:
        """Fit the classifier itself; rows are drawn by weight if it takes no weights."""
        rng = data.rng(estimator)
        copies, rows = data.copies_or(1), np.arange(len(data.Q))
        weighs = has_fit_parameter(estimator, "sample_weight")
        if data.weight is not None and not weighs:
            rows = draw_rows(data.weight, rng)
        labels = draw(data.Q[rows], rng, copies)
        rows = np.repeat(rows, copies)
        if data.weight is not None and weighs:
            params["sample_weight"] = data.weight[rows]
        whole = copies == 1 and (weighs or data.weight is None)
        return fit_classifier(
            estimator, data.X if whole else take_rows(data.X, rows), labels.ravel(), data.classes, params
        )

    @staticmethod
    def log_answers(fitted: Any, X: Any, classes: NDArray[Any], prior: NDArray[Any]) -> NDArray[np.float64]:
        """Return log-probabilities over all classes; a class that was never drawn gets probability 0."""
        return answers_of(fitted, X, classes)


def draw(Q: NDArray[Any], rng: np.random.RandomState, copies: int = 1) -> NDArray[np.int_]:
    """Return classes (n, copies), each drawn with the probabilities of its row's soft label.

    Several draws of a row are systematic, evenly spaced from one random start: a class of probability q is drawn
    `copies` times q times, rounded up or down.
    """
    places = (np.arange(copies) + rng.random_sample((len(Q), 1))) / copies
    return classes_at(np.cumsum(Q, axis=1), places)


def classes_at(steps: NDArray[Any], places: NDArray[Any]) -> NDArray[np.int_]:
    """Return the classes (n, m) for positions (n, m) in [0, 1), from cumulative sums (n, L) of soft labels."""
    found = [np.sum(steps[:, :-1] <= place[:, None] * steps[:, -1:], axis=1) for place in places.T]
    return np.stack(found, axis=1)


def draw_rows(weight: NDArray[Any], rng: np.random.RandomState) -> NDArray[np.int_]:
    """Return as many rows as there are weights, each in proportion to its weight, rounded up or down at random."""
    steps = np.cumsum(weight)
    places = (np.arange(len(weight)) + rng.random_sample()) / len(weight) * steps[-1]
    return np.searchsorted(steps[:-1], places, side="right")
