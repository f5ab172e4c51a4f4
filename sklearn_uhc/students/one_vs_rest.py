"""OneVsRestClassifier on soft labels: one class against the rest, by the inner classifier's own way to learn them.

Class l is a problem of its own, with soft labels (1 - q_l, q_l): by epochs, directly, or by copies, each row at most
twice. Every inner classifier stops by its own rule, as on hard labels; epochs of all classes at once would go on until
the last of them has come to rest.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.dummy import DummyClassifier
from sklearn.utils.parallel import Parallel, delayed

from sklearn_uhc.students.replicate import ReplicateStrategy, fit_classifier
from sklearn_uhc.students.soft_data import SoftData
from sklearn_uhc.students.strategies import resolve_strategy, train
from sklearn_uhc.students.twins import TwinStrategy
from sklearn_uhc.utils.rows import take_rows


def accepts(estimator: Any) -> bool:
    """Those whose inner classifier can learn from soft labels."""
    try:
        return resolve_strategy(estimator.estimator) is not None
    except TypeError:
        return False


def fit(estimator: Any, data: SoftData, **params: Any) -> Any:
    """Fit a problem of two classes per class."""
    if data.eval_set:
        raise ValueError("OneVsRestClassifier does not accept eval_set.")
    known = np.flatnonzero((data.Q > 0).any(axis=0))
    if len(known) == 1:
        return fit_classifier(estimator, data.X, known, data.classes, {})
    solved = known if len(known) > 2 else known[1:]  # of two classes, the second against the first
    jobs = Parallel(n_jobs=estimator.n_jobs, verbose=estimator.verbose)
    models = jobs(delayed(_fit_one)(clone(estimator.estimator), data, label, params) for label in solved)
    some = take_rows(data.X, np.arange(len(known)) % len(data.Q))
    # A stand-in for the classes; features are those of the models.
    fitted = clone(estimator).set_params(estimator=DummyClassifier()).fit(some, data.classes[known])
    fitted.set_params(estimator=estimator.estimator).estimators_ = models
    own = {name: getattr(models[0], name, None) for name in ("n_features_in_", "feature_names_in_")}
    vars(fitted).update({name: value for name, value in own.items() if value is not None})
    return fitted


def _fit_one(inner: Any, data: SoftData, label: int, params: dict[str, Any]) -> Any:
    """Fit one class against the others."""
    q = data.Q[:, label]
    two = replace(data, Q=np.column_stack([1 - q, q]), classes=np.arange(2), copies="all", temperature=1.0)
    # A regressor could not take the classifier's place in `estimators_`; both copies of the rows give the same trees.
    way = ReplicateStrategy.name if resolve_strategy(inner) is TwinStrategy else "auto"
    fitted, _, _ = train(inner, two, way, dict(params))
    return fitted
