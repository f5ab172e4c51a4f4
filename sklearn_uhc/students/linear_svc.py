"""LinearSVC on soft labels: one class against the rest, each row twice.

Each class is a separate problem, the class against all others. On soft labels a row counts for the class with weight q
and against it with weight 1 - q:

    loss of class l = sum_i w_i [ q_il loss(f_l(x_i)) + (1 - q_il) loss(-f_l(x_i)) ]

This equals training on all weighted copies of the rows, at twice the cost of hard labels instead of L times.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from sklearn_uhc.students.one_vs_rest import binary_problems
from sklearn_uhc.students.replicate import fit_classifier
from sklearn_uhc.students.soft_data import SoftData
from sklearn_uhc.utils.rows import take_rows


def accepts(estimator: Any) -> bool:
    """Return whether classes are learned one by one."""
    return bool(estimator.multi_class == "ovr")


def fit(estimator: Any, data: SoftData, **params: Any) -> Any:
    """Fit a binary problem per class, and put their coefficients into one estimator."""
    known, solved = binary_problems(estimator, data)
    if len(known) == 1:
        return fit_classifier(estimator, data.X, known, data.classes, {})
    twice = take_rows(data.X, np.tile(np.arange(len(data.Q)), 2))
    models = [_against_the_rest(estimator, data, twice, label, params) for label in solved]
    some = take_rows(data.X, np.arange(len(known)) % len(data.Q))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        fitted = clone(estimator).set_params(max_iter=1).fit(some, data.classes[known])  # sets its classes and features
    fitted.set_params(max_iter=estimator.max_iter)
    fitted.coef_ = np.concatenate([model.coef_ for model in models])
    fitted.intercept_ = np.concatenate([np.atleast_1d(model.intercept_) for model in models])
    fitted.n_iter_ = max(model.n_iter_ for model in models)
    return fitted


def _against_the_rest(estimator: Any, data: SoftData, twice: Any, label: int, params: dict[str, Any]) -> Any:
    """Fit one class against the others; a row that is certain is used once."""
    q, w = data.Q[:, label], data.row_weights
    weights = np.concatenate([w * q, w * (1 - q)])
    seen = np.flatnonzero(weights > 0)
    rows = twice if len(seen) == len(weights) else take_rows(twice, seen)
    return clone(estimator).fit(rows, np.repeat([1, 0], len(q))[seen], sample_weight=weights[seen], **params)
