"""OneVsRestClassifier on soft labels: one class against the rest, by the strategy of the inner classifier.

Class l is a separate problem with soft labels (1 - q_l, q_l): trained by epochs, directly, or on copies, each row at
most twice. Every inner classifier has its own stopping rule, as on hard labels; common epochs would continue
until the last of them has converged.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.dummy import DummyClassifier
from sklearn.utils.parallel import Parallel, delayed

from sklearn_uhc.students.replicate import ReplicateStrategy, fit_classifier
from sklearn_uhc.students.soft_data import SoftData
from sklearn_uhc.students.strategies import resolve_strategy, train
from sklearn_uhc.students.twins import TwinStrategy
from sklearn_uhc.utils.rows import take_rows


def accepts(estimator: Any) -> bool:
    """Return whether the inner classifier can learn from soft labels."""
    try:
        return resolve_strategy(estimator.estimator) is not None
    except TypeError:
        return False


def fit(estimator: Any, data: SoftData, **params: Any) -> Any:
    """Fit a binary problem per class."""
    known, solved = binary_problems(estimator, data)
    if len(known) == 1:
        return fit_classifier(estimator, data.X, known, data.classes, {})
    jobs = Parallel(n_jobs=estimator.n_jobs, verbose=estimator.verbose)
    models = jobs(delayed(_fit_one)(clone(estimator.estimator), data, label, params) for label in solved)
    some = take_rows(data.X, np.arange(len(known)) % len(data.Q))
    # A dummy sets the classes; the features are those of the models.
    fitted = clone(estimator).set_params(estimator=DummyClassifier()).fit(some, data.classes[known])
    fitted.set_params(estimator=estimator.estimator).estimators_ = models
    own = {name: getattr(models[0], name, None) for name in ("n_features_in_", "feature_names_in_")}
    vars(fitted).update({name: value for name, value in own.items() if value is not None})
    return fitted


def binary_problems(estimator: Any, data: SoftData) -> tuple[NDArray[np.int_], NDArray[np.int_]]:
    """Return the classes that some row has, and those that get a problem of their own; refuse an eval_set."""
    if data.eval_set:
        raise ValueError(f"{type(estimator).__name__} does not accept eval_set.")
    known = np.flatnonzero((data.Q > 0).any(axis=0))
    return known, known if len(known) > 2 else known[1:]  # for two classes, only the second against the first


def _fit_one(inner: Any, data: SoftData, label: int, params: dict[str, Any]) -> Any:
    """Fit one class against the others."""
    q = data.Q[:, label]
    two = replace(data, Q=np.column_stack([1 - q, q]), classes=np.arange(2), copies="all", temperature=1.0)
    # A regressor cannot replace a classifier in `estimators_`; both copies of a row give the same trees.
    way = ReplicateStrategy.name if resolve_strategy(inner) is TwinStrategy else "auto"
    fitted, _, _ = train(inner, two, way, dict(params))
    return fitted
