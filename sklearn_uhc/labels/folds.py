"""Folds in which labelled rows are stratified by class, and other rows are spread evenly."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import BaseCrossValidator
from sklearn.utils import check_random_state

from sklearn_uhc.labels.reading import is_labelled, known_values
from sklearn_uhc.utils.parameters import check_positive
from sklearn_uhc.utils.rows import count_rows

__all__ = ["LabelledKFold"]


class LabelledKFold(BaseCrossValidator):
    """K folds for a y that is known for some rows only. Labelled rows are stratified, and the others are spread evenly.

    With other splitters a fold may have no labelled row, and nothing to score. Pass it as `cv` of a search.

    Parameters
    ----------
    n_splits : int, default=5
        Number of folds, at most the number of labelled rows.
    random_state : int, RandomState instance or None, default=None
        Rows are shuffled before they are split. An int gives the same folds at every call.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_uhc import LabelledKFold
    >>> y = np.array(["cat", None, "dog", None, None, "cat", None, "dog"], dtype=object)
    >>> folds = LabelledKFold(2, random_state=0)
    >>> [sorted(y[test][y[test] != None]) for train, test in folds.split(np.zeros((8, 1)), y)]
    [['cat', 'dog'], ['cat', 'dog']]
    """

    def __init__(self, n_splits: int = 5, *, random_state: Any = None) -> None:
        self.n_splits = n_splits
        self.random_state = random_state

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:
        """Return the number of folds.

        Parameters
        ----------
        X, y, groups : ignored
            Not used, present for API consistency by convention.

        Returns
        -------
        n_splits : int
        """
        return int(self.n_splits)

    def split(self, X: Any, y: Any = None, groups: Any = None) -> Iterator[tuple[NDArray[np.int_], NDArray[np.int_]]]:
        """Yield the training rows and the test rows, fold by fold.

        Parameters
        ----------
        X : array-like with n rows
            The data; only its length is used.
        y : array-like of shape (n,)
            Labels of some rows, with None, NaN or -1 for the others.
        groups : ignored
            Not used, present for API consistency by convention.

        Yields
        ------
        train : ndarray of int
        test : ndarray of int
        """
        fold_of = self._fold_of(X, y)
        for fold in range(self.get_n_splits()):
            yield np.flatnonzero(fold_of != fold), np.flatnonzero(fold_of == fold)

    def _fold_of(self, X: Any, y: Any) -> NDArray[np.int_]:
        """Return the fold of every row: sorted by class and shuffled within, then assigned in turn."""
        check_positive("n_splits", self.n_splits, integer=True)
        if y is None:
            raise ValueError("LabelledKFold stratifies labelled rows: pass y, with None, NaN or -1 for unknown labels.")
        known, k = is_labelled(y), int(self.n_splits)
        if len(known) != count_rows(X):
            raise ValueError(f"y has {len(known)} entries for {count_rows(X)} rows of X.")
        if not 2 <= k <= known.sum():
            raise ValueError(
                f"n_splits={k} must be at least 2 and at most the number of labelled rows, {int(known.sum())}: every "
                "fold needs one."
            )
        kind = np.full(len(known), -1)
        kind[known] = np.unique(known_values(y, known).astype(str), return_inverse=True)[1]
        order = np.lexsort([check_random_state(self.random_state).permutation(len(kind)), kind])
        fold_of = np.empty(len(kind), dtype=int)
        fold_of[order] = np.arange(len(kind)) % k
        return fold_of
