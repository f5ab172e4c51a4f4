"""Classifiers whose regressor twin learns from soft labels exactly: trees, forests, nearest neighbours.

A multi-output regression tree with squared error is a Gini tree on soft labels: its impurity is the Gini impurity of
the mean target divided by the number of classes, and its leaf value is that mean.

A classification tree stops at leaves of one class. Leaves on soft labels are hardly ever of one kind, so trees would
grow down to single rows, with more than twice the nodes, each with L values. Unless `min_impurity_decrease` says
otherwise, a split must explain at least `LEAST_GAIN` times what a row has of the labels' variance on average:

    least decrease = LEAST_GAIN * (impurity of all rows) / n
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_regressor
from sklearn.ensemble import (
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.neighbors import (
    KNeighborsClassifier,
    KNeighborsRegressor,
    RadiusNeighborsClassifier,
    RadiusNeighborsRegressor,
)
from sklearn.tree import (
    DecisionTreeClassifier,
    DecisionTreeRegressor,
    ExtraTreeClassifier,
    ExtraTreeRegressor,
)
from sklearn.utils import get_tags
from sklearn.utils.validation import has_fit_parameter

from sklearn_uhc.students.soft_data import SoftData
from sklearn_uhc.students.temperature import log_on_simplex
from sklearn_uhc.utils.notes import warn_user

TWINS = {
    DecisionTreeClassifier: DecisionTreeRegressor,
    ExtraTreeClassifier: ExtraTreeRegressor,
    RandomForestClassifier: RandomForestRegressor,
    ExtraTreesClassifier: ExtraTreesRegressor,
    KNeighborsClassifier: KNeighborsRegressor,
    RadiusNeighborsClassifier: RadiusNeighborsRegressor,
}

#: Methods that a subclass must not override to keep its twin.
OWN_WAYS = ("fit", "predict_proba")

#: Minimum gain of a split, in rows: it halves the number of nodes without loss of accuracy (docs/evidence.md).
LEAST_GAIN = 0.3

NEIGHBORS = (KNeighborsRegressor, RadiusNeighborsRegressor)


class TwinStrategy:
    """Train a multi-output regressor on the soft labels: a classifier's twin, or a regressor given as the student."""

    name = "twin"
    students = "trees, forests, extra trees, nearest neighbours; multi-output regressors such as Ridge"

    @staticmethod
    def accepts(estimator: Any) -> bool:
        """Return whether the estimator has a twin or is a multi-output regressor."""
        if twin_kind(estimator) is not None:
            return True
        return is_regressor(estimator) and get_tags(estimator).target_tags.multi_output

    @staticmethod
    def fit(estimator: Any, data: SoftData, **params: Any) -> Any:
        """Fit the twin on (X, Q)."""
        Q, weight = data.Q, data.weight
        twin = estimator if twin_kind(estimator) is None else regressor_twin(estimator, Q.shape[1])
        if weight is not None and isinstance(twin, NEIGHBORS):
            # A weighted mean of neighbours is the mean of weighted targets, normalised in `log_answers`.
            Q, weight = Q * weight[:, None], None
        if weight is not None:
            params["sample_weight"] = _check_takes_weights(twin, weight)
        # A single output must be a vector: for one class, or the second of two with monotonic constraints.
        single = Q.shape[1] == 1 or getattr(twin, "monotonic_cst", None) is not None
        targets = Q[:, -1] if single else Q
        if twin is estimator or getattr(twin, "min_impurity_decrease", None) != 0:
            return twin.fit(data.X, targets, **params)
        twin.set_params(min_impurity_decrease=least_decrease(targets, weight))
        return twin.fit(data.X, targets, **params).set_params(min_impurity_decrease=0.0)

    @staticmethod
    def log_answers(fitted: Any, X: Any, classes: NDArray[Any], prior: NDArray[Any]) -> NDArray[np.float64]:
        """Return log of the normalised regression output; the prior for a row without neighbours or positive output."""
        if isinstance(fitted, RadiusNeighborsRegressor):
            with warnings.catch_warnings():  # it warns that it predicts NaN, which is replaced
                warnings.filterwarnings("ignore", message="One or more samples have no neighbors")
                S = _without_neighbours(fitted.predict(X))
        else:
            S = fitted.predict(X)
        S = np.asarray(S, dtype=float)
        if S.ndim == 1:
            S = S[:, None] if len(classes) == 1 else np.column_stack([1 - S, S])
        return log_on_simplex(np.maximum(S, 0.0), prior)


def _without_neighbours(S: NDArray[Any]) -> NDArray[Any]:
    """Return 0 for rows without neighbours, which have NaN, with a warning."""
    alone = int(np.isnan(S if S.ndim == 1 else S[:, 0]).sum())
    if alone:
        warn_user(
            f"{alone} of {len(S)} rows have no training row within the radius. They get the class frequencies of the "
            "training labels, which are equal if classes are balanced. Increase radius, or use KNeighborsClassifier."
        )
    return np.nan_to_num(S, nan=0.0)


def twin_kind(estimator: Any) -> Any:
    """Return the class whose twin an estimator has: its own, or a parent with the same `fit` and `predict_proba`."""
    kind = next((kind for kind in type(estimator).__mro__ if kind in TWINS), None)
    same = kind is not None and all(getattr(type(estimator), name) is getattr(kind, name) for name in OWN_WAYS)
    return kind if same else None


def regressor_twin(classifier: Any, n_classes: int) -> Any:
    """Return the regressor with all hyper-parameters of the classifier; raise an error if one is not supported."""
    kind = twin_kind(classifier)
    twin = TWINS[kind]()
    given, known = classifier.get_params(deep=False), twin.get_params(deep=False)
    default = kind().get_params(deep=False)
    criterion = given.pop("criterion", "gini")
    if criterion != "gini":
        warn_user(
            f"criterion={criterion!r} of {type(classifier).__name__} is not available on soft labels. It is trained as "
            "a regressor with squared error, which is the Gini criterion there.",
        )
    if given.get("monotonic_cst") is not None and n_classes > 2:
        raise ValueError("monotonic_cst is for two classes only, as in scikit-learn's own trees.")
    if callable(given.get("oob_score")):
        raise ValueError("oob_score of a forest on soft labels must be True or False: it is the accuracy.")
    for name in sorted(set(given) - set(known)):
        if name not in default or given[name] != default[name]:
            raise ValueError(
                f"{name}={given[name]!r} of {type(classifier).__name__} has no meaning on soft labels. Leave it at "
                f"{default[name]!r}; use sample_weight for rows, and put class weights into the soft labels."
            )
    twin.set_params(**{name: value for name, value in given.items() if name in known})
    if given.get("oob_score"):
        twin.set_params(oob_score=most_probable_agree)
    # Squared error averaged over outputs is Gini divided by their number; rescale thresholds accordingly.
    for name in {"min_impurity_decrease", "ccp_alpha"} & set(known):
        twin.set_params(**{name: given[name] / n_classes})
    return twin


def least_decrease(targets: NDArray[np.float64], weight: NDArray[np.float64] | None) -> float:
    """Return the smallest decrease of impurity that is worth a split; 0 for hard labels, whose leaves are pure."""
    if ((targets == 0) | (targets == 1)).all():
        return 0.0
    mean = np.average(targets, axis=0, weights=weight)
    return LEAST_GAIN * float(np.average((targets - mean) ** 2, axis=0, weights=weight).mean()) / len(targets)


def most_probable_agree(Q: NDArray[Any], S: NDArray[Any]) -> float:
    """Return the accuracy with soft labels as their most probable class: the out-of-bag score of a forest."""
    if Q.ndim == 1 or Q.shape[1] == 1:
        Q, S = (np.column_stack([0.5 - P.ravel(), P.ravel() - 0.5]) for P in (Q, S))
    return float(np.mean(Q.argmax(axis=1) == S.argmax(axis=1)))


def _check_takes_weights(regressor: Any, sample_weight: NDArray[Any]) -> NDArray[Any]:
    if not has_fit_parameter(regressor, "sample_weight"):
        raise ValueError(
            f"{type(regressor).__name__} does not accept sample weights, which balanced soft labels need. "
            "Use balance=False, or a student whose fit accepts sample_weight."
        )
    return sample_weight
