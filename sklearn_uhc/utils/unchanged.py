"""Calls that leave X unchanged, whatever the estimator does with its input.

A `StandardScaler(copy=False)` in one teacher's Pipeline would overwrite the X of the next teacher, the student and the
user. So scikit-learn's estimators get a read-only view: it costs a microsecond, and they copy if they need to write.
Libraries that only read get X itself. All others get a copy of the rows.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer

from sklearn_uhc.utils.rows import is_dataset

#: Packages that copy what they read, and raise errors or warn for read-only arrays; our own estimators come here again.
READ_ONLY_PACKAGES = ("sklearn_uhc", "lightgbm", "xgboost", "catboost", "skorch")
#: Packages that respect read-only arrays.
CAREFUL_PACKAGES = ("sklearn", "numpy", "scipy")
#: Errors of NumPy, SciPy and Cython about read-only arrays.
REFUSALS = re.compile(r"read-?only|not writeable|WRITEBACKIFCOPY", re.IGNORECASE)


def unchanged(estimator: Any, function: Callable[[Any], Any], X: Any) -> Any:
    """Return `function(X)`, in which the estimator reads X, and leave X unchanged."""
    package = package_of(first_step(estimator))
    if package in READ_ONLY_PACKAGES or is_dataset(X):
        return function(X)
    if package not in CAREFUL_PACKAGES:
        return function(copy_of(X))
    shown = view_of(X)
    try:
        return function(shown)
    except (ValueError, TypeError) as error:
        if not _is_about_writing(error, shown):
            raise
    return function(copy_of(X))


def first_step(estimator: Any) -> Any:
    """Return the estimator that reads X: the first step of a Pipeline, a frozen estimator, the best one of a search."""
    inner = None
    if isinstance(estimator, FrozenEstimator):
        inner = estimator.estimator
    elif isinstance(estimator, Pipeline):
        inner = next((step for _, step in estimator.steps if step is not None and not isinstance(step, str)), None)
    elif hasattr(estimator, "best_estimator_"):
        inner = estimator.best_estimator_
    return estimator if inner is None else first_step(inner)


def package_of(step: Any) -> str:
    """Return the package of an estimator, or of the function that it applies."""
    if isinstance(step, FunctionTransformer) and step.func is not None:
        step = step.func
    return str(getattr(step, "__module__", None) or type(step).__module__).partition(".")[0]


def view_of(X: Any) -> Any:
    """Return a read-only view of an array or sparse matrix, and a copy of anything else but lists.

    Pandas frames are copied: with copy=False scikit-learn writes to them, even with pandas' copy on write.
    """
    if isinstance(X, np.ndarray):
        return _locked(X)
    if issparse(X) and X.format == "csr":
        parts = tuple(map(_locked, (X.data, X.indices, X.indptr)))
        return type(X)(parts, shape=X.shape, copy=False)
    return X if isinstance(X, list) else copy_of(X)  # scikit-learn does not write to lists


def copy_of(X: Any) -> Any:
    """Return a writeable copy; frames of Polars and Arrow are immutable, so they are shared."""
    if isinstance(X, list):
        return copy.deepcopy(X)
    if hasattr(type(X), "detach"):  # a tensor
        return X.clone()
    return X.copy() if hasattr(X, "copy") else X


def _locked(array: Any) -> Any:
    view = array.view()
    view.flags.writeable = False
    return view


def _is_about_writing(error: Exception, shown: Any) -> bool:
    """Return whether the error is about the read-only flag, not about the content of X."""
    return (isinstance(shown, np.ndarray) or issparse(shown)) and REFUSALS.search(str(error)) is not None
