"""Soft labels for any classifier with `sample_weight`: each row once per class, weighted by its probability.

For a learner that minimises a weighted sum of losses this is the soft cross-entropy itself, up to the entries that are
left out: those below `DROPPED` / L, together at most `DROPPED` of a row's mass, which the others of the row take over.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn import get_config
from sklearn.base import is_classifier
from sklearn.dummy import DummyClassifier
from sklearn.utils import get_tags
from sklearn.utils.validation import has_fit_parameter

from sklearn_uhc._response import log_proba
from sklearn_uhc._rows import row_bytes, take_rows

#: Largest share of a row's mass that may be left out.
DROPPED = 1e-3


class ReplicateStrategy:
    """Train a classifier on weighted copies of the rows."""

    name = "replicate"
    students = "every classifier whose fit takes sample_weight"

    @staticmethod
    def accepts(estimator: Any) -> bool:
        """Whether the estimator is a classifier that takes sample weights and does not split the copies by itself."""
        takes_weights = is_classifier(estimator) and has_fit_parameter(estimator, "sample_weight")
        return takes_weights and get_tags(estimator).target_tags.single_output and not hasattr(estimator, "cv")

    @staticmethod
    def fit(
        estimator: Any,
        X: Any,
        Q: NDArray[Any],
        sample_weight: NDArray[Any] | None,
        classes: NDArray[Any],
        **params: Any,
    ) -> Any:
        """Fit the classifier itself, on the class names."""
        _keep_copies_together(estimator)
        rows, labels, weights = replicate(Q, sample_weight)
        _warn_if_large(X, len(rows))
        if len(np.unique(labels)) == 1:  # most classifiers refuse a single class
            return DummyClassifier(strategy="prior").fit(np.zeros((1, 1)), classes[labels[:1]])
        return estimator.fit(take_rows(X, rows), classes[labels], sample_weight=weights, **params)

    @staticmethod
    def predict_proba(fitted: Any, X: Any, classes: NDArray[Any]) -> NDArray[np.float64]:
        """Probabilities over all classes; one that had no weight at all has probability 0."""
        P = np.exp(log_proba(fitted, X, type(fitted).__name__).astype(float))
        out = np.zeros((len(P), len(classes)))
        out[:, np.searchsorted(classes, fitted.classes_)] = P
        return out


def _keep_copies_together(estimator: Any) -> None:
    """Switch off, or refuse, what would tear the copies of one row apart or count them as rows."""
    params = estimator.get_params(deep=False)
    if params.get("early_stopping") == "auto":
        estimator.set_params(early_stopping=False)
    boosting_stops = "subsample" in params and params.get("n_iter_no_change") is not None
    if params.get("early_stopping") is True or boosting_stops:
        raise ValueError(
            f"Early stopping of {type(estimator).__name__} would validate on copies of its training rows. Switch it "
            "off and set the number of iterations, for instance by a search."
        )
    if params.get("class_weight") == "balanced":
        raise ValueError(
            f"class_weight='balanced' of {type(estimator).__name__} would count copies of rows. Leave it at None; the "
            "soft labels can be balanced instead (balance=True of HeterogeneousDistiller)."
        )


def _warn_if_large(X: Any, n_copies: int) -> None:
    size = n_copies * row_bytes(X) / 2**20
    if size > get_config()["working_memory"]:
        warnings.warn(
            f"Training on {n_copies} weighted copies of rows takes {size:.0f} MiB. A forest or nearest neighbours "
            "learn from soft labels without copies; a lower temperature leaves fewer.",
            UserWarning,
            stacklevel=5,
        )


def replicate(
    Q: NDArray[Any], sample_weight: NDArray[Any] | None = None
) -> tuple[NDArray[np.int_], NDArray[np.int_], NDArray[np.float64]]:
    """Return row numbers, class numbers and weights of the copies that stand for soft labels Q."""
    keep = DROPPED / Q.shape[1] <= Q
    # A class that is nowhere probable keeps its best row, so that the classifier knows of it.
    best = Q.argmax(axis=0)
    known = Q[best, np.arange(Q.shape[1])] > 0
    keep[best[known], np.flatnonzero(known)] = True
    kept = np.where(keep, Q, 0.0)
    weights = kept / kept.sum(axis=1, keepdims=True)
    if sample_weight is not None:
        weights = weights * sample_weight[:, None]
    rows, labels = np.nonzero(keep & (weights > 0))
    return rows, labels, weights[rows, labels]
