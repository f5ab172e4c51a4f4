"""The base class of teachers trained outside scikit-learn, which converts answers of any kind to log-probabilities."""

from __future__ import annotations

from abc import ABCMeta, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_softmax
from sklearn.base import BaseEstimator, ClassifierMixin

from sklearn_uhc.utils.response import SUM_TOLERANCE
from sklearn_uhc.utils.versioned import Versioned

Floats = NDArray[np.floating[Any]]

#: Kinds of answers.
KINDS = ("proba", "log_proba", "logits")


class AnsweringTeacher(Versioned, ClassifierMixin, BaseEstimator, metaclass=ABCMeta):
    """A classifier that was trained elsewhere: a subclass defines `classes_` and `predict_log_proba`."""

    @abstractmethod
    def predict_log_proba(self, X: Any) -> Floats:
        """Return log-probabilities."""

    def fit(self, X: Any, y: Any = None) -> Any:
        """Do nothing: the model is trained already.

        Parameters
        ----------
        X : ignored
            Not used, present for API consistency by convention.
        y : ignored
            Not used, present for API consistency by convention.

        Returns
        -------
        self
        """
        return self

    def predict_proba(self, X: Any) -> Floats:
        """Return probabilities.

        Parameters
        ----------
        X : array-like with n rows
            See `predict_log_proba`.

        Returns
        -------
        proba : ndarray of shape (n, k)
        """
        proba: Floats = np.exp(self.predict_log_proba(X))
        return proba

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the most probable class of every row.

        Parameters
        ----------
        X : array-like with n rows
            See `predict_log_proba`.

        Returns
        -------
        labels : ndarray of shape (n,)
        """
        log_p = self.predict_log_proba(X)
        silent = np.isnan(log_p).all(axis=1)
        if silent.any():
            raise ValueError(
                f"{type(self).__name__} has no answer for {int(silent.sum())} of {len(log_p)} rows, first for row "
                f"{int(np.argmax(silent))}, so it cannot predict a class. predict_proba returns NaN there."
            )
        labels: NDArray[Any] = self.classes_[log_p.argmax(axis=1)]
        return labels

    def _decides_answers(self) -> Any:
        """Return everything the answers depend on, for the key of a store; None means all attributes."""
        return None

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = tags.input_tags.allow_nan = tags.input_tags.string = True
        return tags


def check_kind(name: str, kind: Any, *more: str) -> None:
    """Raise an error unless a parameter names a kind of answers."""
    if kind not in (allowed := (*more, *KINDS)):
        raise ValueError(f"{name} must be one of {', '.join(map(repr, allowed))}, got {kind!r}.")


def to_log_proba(answer: Any, kind: str, n_rows: int, n_classes: int, name: str, remedy: str = "") -> Floats:
    """Convert an answer to (n, k) log-probabilities; rows of NaN are kept.

    A single column for two classes is that of the second class, like the output of a logistic function.
    """
    values = np.asarray(answer)
    if values.dtype.kind not in "fiub":
        raise ValueError(f"{name} returned values of type {values.dtype} instead of numbers.")
    if values.dtype.kind != "f" or values.dtype.itemsize < 4:
        values = values.astype(np.float32 if values.dtype.itemsize < 4 else np.float64)
    if n_classes == 2 and values.shape in ((n_rows,), (n_rows, 1)):
        values = _both_classes(values.reshape(-1), kind)
    if values.shape != (n_rows, n_classes):
        raise ValueError(
            f"{name} returned an output of shape {values.shape} for {n_rows} rows and {n_classes} classes: it must "
            "return one number per row and class, and the class list must name every output, in its order."
        )
    if kind == "logits":
        limit = np.finfo(values.dtype).max / 4  # inf - inf would be NaN
        return np.asarray(log_softmax(np.clip(values, -limit, limit), axis=1))
    _check_probabilities(values if kind == "proba" else np.exp(values), name, remedy)
    with np.errstate(divide="ignore"):
        return np.log(values) if kind == "proba" else values


def look_like_probabilities(values: Any) -> bool:
    """Return whether all rows are nonnegative and sum to 1."""
    values = np.asarray(values)
    if values.ndim != 2 or values.shape[1] < 2:
        return False
    return bool((values >= 0).all() and (np.abs(values.sum(axis=1) - 1) <= SUM_TOLERANCE).all())


def _both_classes(values: Floats, kind: str) -> Floats:
    if kind == "logits":
        return np.column_stack([np.zeros_like(values) + 0 * values, values])
    if kind == "proba":
        return np.column_stack([1 - values, values])
    with np.errstate(divide="ignore"):
        return np.column_stack([np.log(-np.expm1(values)), values])


def _check_probabilities(proba: Floats, name: str, remedy: str) -> None:
    """Raise an error for rows that are not probabilities; rows of NaN are allowed, they mean no answer."""
    silent = np.isnan(proba).all(axis=1)
    total, negative = proba.sum(axis=1), np.asarray((proba < 0).any(axis=1))
    off = (negative | ~(np.abs(total - 1) <= SUM_TOLERANCE)) & ~silent
    if off.any():
        row = int(np.argmax(off))
        problem = f"has the value {proba[row].min():.4g}" if negative[row] else f"sums to {total[row]:.6g}"
        raise ValueError(f"{name} returned rows that are not probabilities: row {row} {problem}. {remedy}".rstrip())
