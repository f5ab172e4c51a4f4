"""Dask collections as X: `fit` computes, everything else is lazy. `utils.lazy` passes calls to `run`.

Fitted estimators are sent to each worker once, and teachers only where they are called (`docs/guide/scale.md`). A leaf:
it may import everything, and nobody imports it.
"""

from __future__ import annotations

from typing import Any

# Import all modules here: unpickling the first task then imports them together, in one thread.
from sklearn_uhc.dask import classifiers, students, transformers
from sklearn_uhc.dask.shared import SharedTeachers
from sklearn_uhc.estimators.merged_classifier import MergedClassifier
from sklearn_uhc.students import SoftLabelClassifier

__all__ = ["SharedTeachers"]


def run(estimator: Any, method: str, X: Any, *args: Any, **kwargs: Any) -> Any:
    """Run a method of an estimator on a Dask collection.

    Parameters
    ----------
    estimator : estimator
        One of this package.
    method : str
        The name of a method whose first argument is X.
    X : dask.array or dask.dataframe
        The collection.
    *args, **kwargs : Any
        Passed on.

    Returns
    -------
    result : Any
        The estimator from `fit`, a lazy collection from most other methods.
    """
    where: Any = transformers
    if isinstance(estimator, (MergedClassifier, SoftLabelClassifier)):
        where = students if isinstance(estimator, SoftLabelClassifier) and method == "fit" else classifiers
    return getattr(where, method)(estimator, X, *args, **kwargs)
