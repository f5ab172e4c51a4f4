"""Calls that leave X as it was, whatever the estimator does with its input.

A `StandardScaler(copy=False)` in one teacher's Pipeline overwrites what the next teacher, the student and the user see.
So scikit-learn's estimators get a view that cannot be written to: it costs a microsecond, and they make a copy where
they want to write. Libraries that only read get X itself, everybody else a copy of the rows in hand.
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

#: They copy what they read, and refuse or warn of arrays that cannot be written to; our own come back here.
READ_ONLY_PACKAGES = ("sklearn_uhc", "lightgbm", "xgboost", "catboost", "skorch")
#: They heed the flag of an array that it must not be written to.
CAREFUL_PACKAGES = ("sklearn", "numpy", "scipy")
#: What NumPy, SciPy and Cython say of such an array.
REFUSALS = re.compile(r"read-?only|not writeable|WRITEBACKIFCOPY", re.IGNORECASE)


def unchanged(estimator: Any, function: Callable[[Any], Any], X: Any) -> Any:
    """Return `function(X)`, where the estimator is the one that reads X, and X stays as it is."""
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
    """Return who reads X: the first step of a Pipeline, what is frozen, what a search has found."""
    inner = None
    if isinstance(estimator, FrozenEstimator):
        inner = estimator.estimator
    elif isinstance(estimator, Pipeline):
        inner = next((step for _, step in estimator.steps if step is not None and not isinstance(step, str)), None)
    elif hasattr(estimator, "best_estimator_"):
        inner = estimator.best_estimator_
    return estimator if inner is None else first_step(inner)


def package_of(step: Any) -> str:
    """Return the package that an estimator comes from, or the function that it applies."""
    if isinstance(step, FunctionTransformer) and step.func is not None:
        step = step.func
    return str(getattr(step, "__module__", None) or type(step).__module__).partition(".")[0]


def view_of(X: Any) -> Any:
    """Return an array or sparse matrix with the same memory that cannot be written to; of anything else a copy.

    That includes frames of pandas: with copy=False scikit-learn writes to them, whatever pandas says of copy on write.
    """
    if isinstance(X, np.ndarray):
        return _locked(X)
    if issparse(X) and X.format == "csr":
        parts = tuple(map(_locked, (X.data, X.indices, X.indptr)))
        return type(X)(parts, shape=X.shape, copy=False)
    return X if isinstance(X, list) else copy_of(X)  # scikit-learn writes to no list


def copy_of(X: Any) -> Any:
    """Return a copy that may be written to; frames of Polars and Arrow cannot be written to, so they are shared."""
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
    """Whether an estimator stumbled over the flag, and not over what is in X."""
    return (isinstance(shown, np.ndarray) or issparse(shown)) and REFUSALS.search(str(error)) is not None
