"""Soft labels for a classifier that takes no weights: one label per row, drawn from its soft label.

Right on average, but a draw throws away what the other classes of the row said: more rows are needed for the same
accuracy. It is never chosen automatically.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier
from sklearn.utils import check_random_state
from sklearn.utils.validation import has_fit_parameter

from sklearn_uhc.students.replicate import answers_of, fit_classifier
from sklearn_uhc.students.soft_data import SoftData
from sklearn_uhc.utils.rows import take_rows


class SampleStrategy:
    """Train a classifier on labels drawn from the soft labels."""

    name = "sample"
    students = "every classifier, on labels drawn at random, if asked for"

    @staticmethod
    def accepts(estimator: Any) -> bool:
        """Whether the estimator is a classifier."""
        return bool(is_classifier(estimator))

    @staticmethod
    def fit(estimator: Any, data: SoftData, **params: Any) -> Any:
        """Fit the classifier itself; rows are drawn by their weights if it takes none."""
        rng, X, Q = check_random_state(data.random_state), data.X, data.Q
        if data.weight is not None and has_fit_parameter(estimator, "sample_weight"):
            params["sample_weight"] = data.weight
        elif data.weight is not None:
            rows = rng.choice(len(Q), len(Q), p=data.weight / data.weight.sum())
            X, Q = take_rows(X, rows), Q[rows]
        labels = draw(Q, rng)
        return fit_classifier(estimator, X, labels, data.classes, params)

    @staticmethod
    def log_answers(fitted: Any, X: Any, classes: NDArray[Any], prior: NDArray[Any]) -> NDArray[np.float64]:
        """Log-probabilities over all classes; one that was never drawn has probability 0."""
        return answers_of(fitted, X, classes)


def draw(Q: NDArray[Any], rng: np.random.RandomState) -> NDArray[np.int_]:
    """Return one class per row, with the probabilities of its soft label."""
    steps = np.cumsum(Q, axis=1)
    return np.sum(steps[:, :-1] < (1 - rng.random_sample(len(Q)))[:, None] * steps[:, -1:], axis=1)
