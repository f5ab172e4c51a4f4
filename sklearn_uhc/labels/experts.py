"""Classifiers trained on labelled rows only, and their out-of-fold answers.

An expert knows the classes in its training rows. For the others it repeats the merge, so that it does not affect the
choice between classes that it knows and classes that it does not.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from sklearn_uhc.utils.rows import take_rows

#: Number of folds of the cross-validation that determines the weights; five is scikit-learn's default.
N_FOLDS = 5


@dataclass(frozen=True, eq=False)
class Expert:
    """A classifier trained on labelled rows; the model is None if they are all of one class."""

    model: Any
    known: NDArray[np.bool_]  #: (L,), the classes in its training rows

    def says(self, X: Any, Q: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return probabilities (n, L) of rows X, given those of the merge, Q (n, L)."""
        if not self.known.any():
            return Q
        P = np.ones((len(Q), 1)) if self.model is None else self._proba(X)
        out = Q.copy()
        out[:, self.known] = P * Q[:, self.known].sum(axis=1, keepdims=True)
        return out

    def _proba(self, X: Any) -> NDArray[np.float64]:
        """Return probabilities of the classes in its training rows."""
        P: NDArray[np.float64] = _quietly(self.model.predict_proba, X)
        P = P[:, np.isin(self.model.classes_, np.flatnonzero(self.known))]
        return P / np.maximum(P.sum(axis=1, keepdims=True), np.finfo(float).tiny)


def train_expert(
    template: Any, X: Any, codes: NDArray[np.int_], n_classes: int, row_weight: NDArray[np.float64]
) -> Expert:
    """Train a copy of a `SoftLabelClassifier` on labelled rows, as soft labels.

    Its `classes` are those in the rows, or all classes if `classes` of the template is set, since networks have one
    output per class.
    """
    known = np.bincount(codes, minlength=n_classes) > 0
    if known.sum() < 2:
        return Expert(None, known)
    columns = np.flatnonzero(known) if template.classes is None else np.arange(n_classes)
    Y = np.eye(len(columns))[np.searchsorted(columns, codes)]
    even = row_weight.max() == row_weight.min()  # some estimators do not accept weights
    model = clone(template).set_params(classes=columns)
    _quietly(model.fit, X, Y, None if even else row_weight)
    return Expert(model, known)


def fold_of_rows(A: NDArray[np.float64], codes: NDArray[np.int_]) -> NDArray[np.int_]:
    """Return the fold of every labelled row: classes are spread evenly, and identical rows share a fold.

    Rows are assigned in the order of A, (m, F), so that folds depend neither on the order of rows nor on chance, and a
    row of weight 2 counts as much as two copies of it.
    """
    alike = A.astype(np.float32)  # matrix products round copies of a row differently
    different, kind = np.unique(np.column_stack([codes, alike]), axis=0, return_inverse=True)
    return np.arange(len(different))[kind.reshape(-1)] % min(N_FOLDS, len(different))


def out_of_fold(
    template: Any,
    X: Any,
    codes: NDArray[np.int_],
    Q: NDArray[np.float64],
    fold_of: NDArray[np.int_],
    row_weight: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Return (m, L), out-of-fold probabilities of labelled rows X."""
    out = Q.copy()
    for fold in range(fold_of.max() + 1):
        train, test = np.flatnonzero(fold_of != fold), np.flatnonzero(fold_of == fold)
        if len(train):
            expert = train_expert(template, take_rows(X, train), codes[train], Q.shape[1], row_weight[train])
            out[test] = expert.says(take_rows(X, test), Q[test])
    return out


def _quietly(function: Any, *args: Any) -> Any:
    """Call without warnings: that there are few rows is known, and five folds would say so five times."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return function(*args)
