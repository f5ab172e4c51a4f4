"""Which rows to label next."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from sklearn_uhc.answers import to_numpy
from sklearn_uhc.labels import is_labelled
from sklearn_uhc.merger import TeacherMerger
from sklearn_uhc.utils.rows import count_rows
from sklearn_uhc.utils.simplex import sharpen

__all__ = ["rank_to_label"]

#: Share of the mean error that is added to each row's error, so that rows without error can be drawn too.
LEAST_CHANCE = 0.1


def rank_to_label(estimator: Any, X: Any, y: Any = None, *, random_state: Any = None) -> NDArray[np.int_]:
    """Rank rows for labelling: from all classes in turn, preferring rows on which teachers are hard to reconcile.

    Rows are taken in turn from the classes that the merge gives them, so that no class is forgotten. Within a class
    they are drawn at random, with probabilities in proportion to the `reconciliation_error` of the merge. Taking only
    the hardest rows is worse: labels also show how good the teachers are, and hard rows alone give a wrong picture.
    Label some of the first rows, fit again with them, and rank again.

    On average this gains nothing over rows drawn at random. Labels that are spread over the classes do not show how
    frequent classes are: where these are imbalanced, label rows at random, or pass `class_prior`.

    Parameters
    ----------
    estimator : HeterogeneousDistiller, UnifiedEnsemble or TeacherMerger, fitted
        Its teachers are called on X.
    X : array-like with n rows
        Rows to choose from, of the kind given to `fit`.
    y : array-like of shape (n,), default=None
        Labels that you already have, with None, NaN or -1 for the other rows. Labelled rows are left out.
    random_state : int, RandomState instance or None, default=None
        An int gives the same ranking at every call.

    Returns
    -------
    rows : ndarray of int
        Rows without a label, the most useful first.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn_uhc import UnifiedEnsemble, rank_to_label
    >>> X, y = load_iris(return_X_y=True)
    >>> a = LogisticRegression(max_iter=500).fit(X[y != 2], y[y != 2])
    >>> b = LogisticRegression(max_iter=500).fit(X[y != 0], y[y != 0])
    >>> merged = UnifiedEnsemble([a, b]).fit(X)
    >>> rows = rank_to_label(merged, X, random_state=0)
    >>> sorted(merged.predict(X[rows[:3]]).tolist())
    [0, 1, 2]
    """
    merger = estimator if isinstance(estimator, TeacherMerger) else getattr(estimator, "merger_", None)
    if not isinstance(merger, TeacherMerger):
        raise TypeError(
            f"rank_to_label needs a fitted HeterogeneousDistiller, UnifiedEnsemble or TeacherMerger, got {estimator!r}."
        )
    check_is_fitted(merger, "method_")
    free = np.ones(count_rows(X), dtype=bool) if y is None else ~is_labelled(y, merger.classes_)
    if len(free) != count_rows(X):
        raise ValueError(f"y has {len(free)} entries for {count_rows(X)} rows of X.")
    answers = merger.adjust(merger.answers(X), X)
    if not hasattr(merger.method_, "reconciliation_error"):
        raise TypeError(
            f"{type(merger.method_).__name__} cannot say how hard rows are: it has no reconciliation_error."
        )
    Q = sharpen(to_numpy(merger.merge(answers, X)), merger.method_.temperature)
    hard = to_numpy(merger.method_.reconciliation_error(answers.log_p))
    chance = np.log(hard + LEAST_CHANCE * hard.mean() + np.finfo(float).tiny)
    drawn = chance + check_random_state(random_state).gumbel(size=len(chance))  # weighted draw by the Gumbel trick
    return in_turns(drawn, Q.argmax(axis=1), np.flatnonzero(free))


def in_turns(value: NDArray[Any], kind: NDArray[np.int_], rows: NDArray[np.int_]) -> NDArray[np.int_]:
    """Return rows in turns, each with one row per kind, largest values first; rows of one turn are sorted by value."""
    order = rows[np.lexsort([-value[rows], kind[rows]])]
    same = kind[order]
    turn = np.arange(len(order)) - np.searchsorted(same, same)
    ranked: NDArray[np.int_] = order[np.lexsort([-value[order], turn])]
    return ranked
