"""Classifiers that are trained on labelled rows alone, and what they say of rows that they have not learnt from.

An expert knows the classes that it was shown. Of the others it says what the merge says, so that it takes no part in
the choice between the classes that it knows and those that it does not.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from sklearn_uhc.utils.rows import take_rows

#: Folds of the cross-validation that decides whom to trust.
N_FOLDS = 5


@dataclass(frozen=True, eq=False)
class Expert:
    """A classifier trained on labelled rows; None if these are all of one class."""

    model: Any
    known: NDArray[np.bool_]  #: (L,), which classes it was shown

    def says(self, X: Any, Q: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return probabilities (n, L) of rows for which the merge says Q, (n, L)."""
        if not self.known.any():
            return Q
        P = np.ones((len(Q), 1)) if self.model is None else self._proba(X)
        out = Q.copy()
        out[:, self.known] = P * Q[:, self.known].sum(axis=1, keepdims=True)
        return out

    def _proba(self, X: Any) -> NDArray[np.float64]:
        """Return probabilities of the classes that it was shown."""
        P: NDArray[np.float64] = _quietly(self.model.predict_proba, X)
        P = P[:, np.isin(self.model.classes_, np.flatnonzero(self.known))]
        return P / np.maximum(P.sum(axis=1, keepdims=True), np.finfo(float).tiny)


def train_expert(
    template: Any, X: Any, codes: NDArray[np.int_], n_classes: int, row_weight: NDArray[np.float64]
) -> Expert:
    """Train a copy of a `SoftLabelClassifier` on labelled rows, as soft labels.

    Its `classes` are those that the rows show; all of them for a template whose `classes` are set, as networks have as
    many outputs as there are classes.
    """
    known = np.bincount(codes, minlength=n_classes) > 0
    if known.sum() < 2:
        return Expert(None, known)
    columns = np.flatnonzero(known) if template.classes is None else np.arange(n_classes)
    Y = np.eye(len(columns))[np.searchsorted(columns, codes)]
    even = row_weight.max() == row_weight.min()  # some estimators take no weights
    model = clone(template).set_params(classes=columns)
    _quietly(model.fit, X, Y, None if even else row_weight)
    return Expert(model, known)


def fold_of_rows(A: NDArray[np.float64], codes: NDArray[np.int_]) -> NDArray[np.int_]:
    """Return the fold of every labelled row: classes are spread, and rows that are alike share a fold.

    Rows are dealt out in the order of A, (m, F), so that the folds depend neither on their order nor on chance, and a
    row of weight 2 counts as much as two copies of it.
    """
    different, kind = np.unique(np.column_stack([codes, A]), axis=0, return_inverse=True)
    return np.arange(len(different))[kind.reshape(-1)] % min(N_FOLDS, len(different))


def out_of_fold(
    template: Any,
    X: Any,
    codes: NDArray[np.int_],
    Q: NDArray[np.float64],
    fold_of: NDArray[np.int_],
    row_weight: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Return (m, L): what experts that were trained on the other folds say of labelled rows X."""
    out = Q.copy()
    for fold in range(fold_of.max() + 1):
        train, test = np.flatnonzero(fold_of != fold), np.flatnonzero(fold_of == fold)
        if len(train):
            expert = train_expert(template, take_rows(X, train), codes[train], Q.shape[1], row_weight[train])
            out[test] = expert.says(take_rows(X, test), Q[test])
    return out


def _quietly(function: Any, *args: Any) -> Any:
    """Call without warnings: that few rows are few is known, and five folds would say so five times."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return function(*args)
