"""Dask collections in the place of X: lazy in, lazy out. A leaf of the package: nothing imports it.

`utils.lazy` hands the calls of estimators over to `run` when X is a Dask collection. Then

- `fit` learns what is global from a sample and from sums over all blocks, and computes;
- `transform`, `predict` and `predict_proba` return lazy collections and compute nothing;
- fitted estimators go to each worker once, and teachers only where they are asked.

See `docs/dask.md`.
"""

from __future__ import annotations

from typing import Any

# All modules at once: what unpickles a task of theirs first then imports them all, in one thread.
from sklearn_uhc.dask import classifiers, students, transformers
from sklearn_uhc.dask.shared import SharedTeachers
from sklearn_uhc.merged_classifier import MergedClassifier
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
