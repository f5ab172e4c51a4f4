"""Log-probabilities of any fitted classifier, from its most precise method."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_softmax

#: Tolerance for sums of probabilities: float32 networks with a thousand classes need this much.
SUM_TOLERANCE = 1e-3

RESPONSES = ("predict_log_proba", "predict_proba", "decision_function")


def log_proba(estimator: Any, X: Any, name: str, abstain: bool = False) -> NDArray[np.floating[Any]]:
    """Return (n, k) normalised log-probabilities; exact zeros are -inf; with `abstain`, whole rows may be NaN.

    The first available of `predict_log_proba` (naive Bayes is most precise there), `predict_proba` and
    `decision_function` is used; of the last, the softmax, or the logistic function of a single binary score.
    """
    response = next((r for r in RESPONSES if hasattr(estimator, r)), None)
    if response is None:
        raise TypeError(f"{name} has none of {', '.join(RESPONSES)}: it cannot say how probable its classes are.")
    if response == "decision_function":
        _refuse_one_versus_one(estimator, name)
    with np.errstate(divide="ignore"):  # scikit-learn takes the log of zero
        answer = getattr(estimator, response)(X)
    values = _as_matrix(answer, response, name)
    if response == "decision_function":
        check_not_nan(values, name, response, abstain)
        return _log_softmax(values)
    log_p = values if response == "predict_log_proba" else _log_of_probabilities(values, name)
    check_not_nan(log_p, name, response, abstain)
    return _normalize(log_p, name, response)


def _refuse_one_versus_one(estimator: Any, name: str) -> None:
    """Raise an error for pairwise scores: they are not class scores, but look like them for three classes."""
    while hasattr(estimator, "steps"):
        estimator = estimator.steps[-1][1]
    if getattr(estimator, "decision_function_shape", None) == "ovo" and len(estimator.classes_) > 2:
        raise ValueError(
            f"{name} returns one score per pair of classes. Call its set_params(decision_function_shape='ovr'); "
            "it need not be fitted again."
        )


def _as_matrix(answer: Any, response: str, name: str) -> NDArray[np.floating[Any]]:
    values = np.asarray(answer)
    if not np.issubdtype(values.dtype, np.floating):
        values = values.astype(float)
    if response == "decision_function" and values.ndim == 1:
        # A single score is that of classes_[1]; if it is NaN, the whole answer is.
        values = np.column_stack([np.where(np.isnan(values), values, 0), values])
    if values.ndim != 2:
        raise ValueError(f"{response} of {name} must return one row per sample, got shape {values.shape}.")
    return values


def _log_of_probabilities(values: NDArray[np.floating[Any]], name: str) -> NDArray[np.floating[Any]]:
    if (values < 0).any():
        row = int(np.argmax((values < 0).any(axis=1)))
        raise ValueError(f"predict_proba of {name} returns the negative value {values[row].min():.4g} in row {row}.")
    with np.errstate(divide="ignore"):
        return np.log(values)


def check_not_nan(values: NDArray[np.floating[Any]], name: str, response: str, abstain: bool, first: int = 0) -> None:
    """Raise an error for NaN; with `abstain`, whole rows of NaN are allowed. `first` is the number of the first row."""
    bad = np.isnan(values)
    if abstain:
        bad &= ~bad.all(axis=1, keepdims=True)
    if not bad.any():
        return
    n_bad, row = int(bad.any(axis=1).sum()), int(np.argmax(bad.any(axis=1)))
    extent = "whole row" if bad[row].all() else "part of the row"
    remedy = (
        "To leave a row unanswered, a teacher must return NaN for all its classes."
        if abstain
        else "Every row needs an answer: remove those rows from X, or impute inside the estimator. With abstain=True "
        "a teacher may return NaN for a whole row."
    )
    raise ValueError(
        f"{response} of {name} returns NaN in {n_bad} of {len(values)} rows, first in row {first + row} "
        f"({extent}). {remedy}"
    )


def _normalize(log_p: NDArray[np.floating[Any]], name: str, response: str) -> NDArray[np.floating[Any]]:
    total = np.exp(log_p).sum(axis=1)
    off = np.abs(total - 1) > SUM_TOLERANCE
    if off.any():
        row = int(np.argmax(off))
        raise ValueError(
            f"{response} of {name} returns rows that do not sum to 1 as probabilities: row {row} sums to "
            f"{total[row]:.6g}. If the values are scores or logits, return them from `decision_function`."
        )
    return log_p - np.log(total)[:, None]


def _log_softmax(scores: NDArray[np.floating[Any]]) -> NDArray[np.floating[Any]]:
    limit = np.finfo(scores.dtype).max / 4
    scores = np.clip(scores, -limit, limit)  # infinite scores stay the largest, without inf - inf
    return log_softmax(scores, axis=1)
