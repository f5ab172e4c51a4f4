"""Scorers that use labelled rows only."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import get_scorer, log_loss
from sklearn.utils import check_consistent_length, column_or_1d

from sklearn_uhc.labels.reading import as_array, is_labelled, known_values
from sklearn_uhc.utils.rows import take_rows

__all__ = ["labelled_scorer"]

#: Error message if no row has a label.
NONE_LABELLED = (
    "No row has a label, so there is nothing to score. In a search, some folds may have no labels: pass "
    "cv=LabelledKFold(), which spreads labelled rows over all folds."
)


class LabelledScorer:
    """A scorer of scikit-learn that gets the labelled rows of X and y only. Made by `labelled_scorer`."""

    def __init__(self, scoring: str | Callable[..., float]) -> None:
        self.scoring = scoring

    def __call__(self, estimator: Any, X: Any, y: Any, **params: Any) -> float:
        """Return the score of a fitted estimator on the labelled rows."""
        X, y, _ = labelled_part(X, y, getattr(estimator, "classes_", ()))
        if self.scoring == "neg_log_loss":  # scikit-learn's own needs every class among the labels
            return -float(log_loss(y, estimator.predict_proba(X), labels=estimator.classes_))
        scorer = get_scorer(self.scoring) if isinstance(self.scoring, str) else self.scoring
        return float(scorer(estimator, X, y, **params))

    def __repr__(self) -> str:
        return f"labelled_scorer({self.scoring!r})"


def labelled_scorer(scoring: str | Callable[..., float]) -> LabelledScorer:
    """Make a scorer for a y that is known for some rows only. Other rows are ignored.

    The estimators' own `score` does the same with accuracy. Unlabelled rows have None, NaN or -1 in y; -1 is a
    label if the estimator has such a class.

    Parameters
    ----------
    scoring : str or callable
        Name of a scikit-learn metric ("neg_log_loss", "balanced_accuracy", ...), or a function
        `scorer(estimator, X, y)`.

    Returns
    -------
    scorer : callable
        To be passed as `scoring` to searches and `cross_val_score`.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn_uhc import labelled_scorer
    >>> X, y = np.array([[0.0], [1.0], [2.0], [3.0]]), np.array([0, 0, 1, 1])
    >>> clf = LogisticRegression().fit(X, y)
    >>> labelled_scorer("accuracy")(clf, X, [0, -1, None, 0])
    0.5
    """
    if isinstance(scoring, str):
        get_scorer(scoring)  # raises an error for an unknown name now
    elif not callable(scoring):
        raise TypeError(f"scoring must be the name of a metric or a scorer(estimator, X, y), got {scoring!r}.")
    return LabelledScorer(scoring)


def labelled_part(X: Any, y: Any, classes: Any) -> tuple[Any, Any, NDArray[np.bool_]]:
    """Return the labelled rows, their labels, and a mask of them among all rows."""
    y = column_or_1d(as_array(y), warn=True)
    check_consistent_length(X, y)
    known = is_labelled(y, classes)
    if not known.any():
        raise ValueError(NONE_LABELLED)
    return (X if known.all() else take_rows(X, np.flatnonzero(known))), known_values(y, known), known
