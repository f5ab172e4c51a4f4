"""Answers of a student as probabilities at temperature 1.

A student that minimises the cross-entropy of its labels, or averages them, learns q^(1/T) from labels at temperature T:
its answers raised to the power T are at temperature 1. Scores of a support vector machine are not probabilities and do
not become flatter with the labels; posteriors of naive Bayes and votes of AdaBoost follow T in part or not at all. For
these, a power is learned, one number:

    power = argmin_b  sum over rows of  H( labels at temperature 1, softmax(b log s) ),     s the student's answers
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax
from sklearn.base import is_classifier
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis
from sklearn.ensemble import AdaBoostClassifier
from sklearn.naive_bayes import BernoulliNB, CategoricalNB, ComplementNB, GaussianNB, MultinomialNB

from sklearn_uhc.students.soft_data import SoftData
from sklearn_uhc.utils.rows import some_rows, take_rows
from sklearn_uhc.utils.simplex import sharpen

#: Classifiers whose probabilities are not fitted to the labels: p(x | class) with soft labels as weights, and votes.
UNTEMPERED = (
    AdaBoostClassifier,
    BernoulliNB,
    CategoricalNB,
    ComplementNB,
    GaussianNB,
    LinearDiscriminantAnalysis,
    MultinomialNB,
    QuadraticDiscriminantAnalysis,
)
#: Bounds of the learned power, as logarithms, and maximum number of rows from which it is learned.
BOUNDS, SEEN_ROWS = (-10.0, 10.0), 1000


def log_on_simplex(S: NDArray[Any], prior: NDArray[Any]) -> NDArray[np.float64]:
    """Normalise nonnegative rows and take logarithms; a row of zeros becomes the prior."""
    if np.isnan(S).any():
        raise ValueError(
            f"The student returns NaN, first for row {int(np.argmax(np.isnan(S).any(axis=1)))}. X may have missing "
            "values, or the training diverged (try a lower learning rate)."
        )
    total = S.sum(axis=1, keepdims=True)
    with np.errstate(divide="ignore"):
        return np.log(np.where(total > 0, S / np.where(total > 0, total, 1.0), prior))


def power_of(fitted: Any, data: SoftData, log_answers: Callable[[Any], NDArray[Any]]) -> float:
    """Return the power to which this student's answers must be raised; `log_answers` maps rows to answers."""
    scores = is_classifier(fitted) and not hasattr(fitted, "predict_proba")
    if not scores and (data.temperature == 1 or not isinstance(fitted, UNTEMPERED)):
        return data.temperature
    rows = some_rows(len(data.Q), SEEN_ROWS)
    weight = data.row_weights[rows]
    return learnt_power(log_answers(take_rows(data.X, rows)), sharpen(data.Q[rows], data.temperature), weight)


def learnt_power(log_s: NDArray[Any], Q: NDArray[Any], weight: NDArray[Any]) -> float:
    """Return the power at which answers are closest to soft labels, with one additional row of uniform labels.

    That row is Platt's remedy: on training rows the answers may all be right, and then the power would be unbounded.
    """
    n, L = Q.shape
    possible = np.isfinite(log_s)  # a class of probability 0 stays at 0
    targets = np.where(possible, (n * Q + 1 / L) / (n + 1), 0.0) * (weight / weight.sum())[:, None]

    def loss(log_power: float) -> float:
        return -float(np.sum(targets * np.where(possible, log_softmax(np.exp(log_power) * log_s, axis=1), 0.0)))

    return float(np.exp(minimize_scalar(loss, bounds=BOUNDS, method="bounded", options={"xatol": 1e-4}).x))
