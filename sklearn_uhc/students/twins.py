"""Classifiers whose regressor twin learns from soft labels exactly: trees, forests, nearest neighbours.

A multi-output regression tree with squared error is a Gini tree on soft labels: its impurity is the Gini impurity of
the mean target divided by the number of classes, and its leaf value is that mean.
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

TWINS = {
    DecisionTreeClassifier: DecisionTreeRegressor,
    ExtraTreeClassifier: ExtraTreeRegressor,
    RandomForestClassifier: RandomForestRegressor,
    ExtraTreesClassifier: ExtraTreesRegressor,
    KNeighborsClassifier: KNeighborsRegressor,
    RadiusNeighborsClassifier: RadiusNeighborsRegressor,
}

NEIGHBORS = (KNeighborsRegressor, RadiusNeighborsRegressor)


class TwinStrategy:
    """Train a multi-output regressor on the soft labels: a classifier's twin, or a regressor given as the student."""

    name = "twin"
    students = "trees, forests, extra trees, nearest neighbours; multi-output regressors such as Ridge"

    @staticmethod
    def accepts(estimator: Any) -> bool:
        """Whether the estimator has a twin or is a multi-output regressor."""
        if type(estimator) in TWINS:
            return True
        return is_regressor(estimator) and get_tags(estimator).target_tags.multi_output

    @staticmethod
    def fit(
        estimator: Any,
        X: Any,
        Q: NDArray[Any],
        sample_weight: NDArray[Any] | None,
        classes: NDArray[Any],
        **params: Any,
    ) -> Any:
        """Fit the twin on (X, Q)."""
        twin = regressor_twin(estimator, Q.shape[1]) if type(estimator) in TWINS else estimator
        if sample_weight is not None and isinstance(twin, NEIGHBORS):
            # A weighted mean of neighbours is the mean of weighted targets, normalised when it is read.
            Q, sample_weight = Q * sample_weight[:, None], None
        if sample_weight is not None:
            params["sample_weight"] = _check_takes_weights(twin, sample_weight)
        # A single class is a single output, which scikit-learn wants as a vector.
        return twin.fit(X, Q[:, 0] if Q.shape[1] == 1 else Q, **params)

    @staticmethod
    def predict_proba(fitted: Any, X: Any, classes: NDArray[Any]) -> NDArray[np.float64]:
        """Regression output as it is: not negative, but not normalised; a row without neighbours is zero."""
        if isinstance(fitted, RadiusNeighborsRegressor):
            with warnings.catch_warnings():  # it says that it predicts NaN there, which nobody gets to see
                warnings.filterwarnings("ignore", message="One or more samples have no neighbors")
                S = fitted.predict(X)
        else:
            S = fitted.predict(X)
        S = np.asarray(S, dtype=float).reshape(-1, len(classes))
        return np.maximum(np.nan_to_num(S, nan=0.0), 0.0)


def regressor_twin(classifier: Any, n_classes: int) -> Any:
    """Build the regressor with all hyper-parameters of the classifier; one it cannot honour is an error."""
    twin = TWINS[type(classifier)]()
    given, known = classifier.get_params(deep=False), twin.get_params(deep=False)
    default = type(classifier)().get_params(deep=False)
    criterion = given.pop("criterion", "gini")
    if criterion != "gini":
        warnings.warn(
            f"criterion={criterion!r} of {type(classifier).__name__} has no counterpart on soft labels; its "
            "regressor twin grows trees with squared error, which is the Gini criterion there.",
            UserWarning,
            stacklevel=4,
        )
    if given.get("monotonic_cst") is not None:
        raise ValueError(
            "monotonic_cst cannot be kept by a regressor of several outputs; use "
            f"SoftLabelClassifier({type(classifier).__name__}(...), strategy='replicate')."
        )
    for name in sorted(set(given) - set(known)):
        if given[name] != default[name]:
            raise ValueError(
                f"{name}={given[name]!r} of {type(classifier).__name__} has no meaning on soft labels. Leave it at "
                f"{default[name]!r}; weigh rows with sample_weight, and classes in the soft labels themselves."
            )
    twin.set_params(**{name: value for name, value in given.items() if name in known})
    # Squared error averaged over the outputs is Gini divided by their number: keep the thresholds' meaning.
    for name in {"min_impurity_decrease", "ccp_alpha"} & set(known):
        twin.set_params(**{name: given[name] / n_classes})
    return twin


def _check_takes_weights(regressor: Any, sample_weight: NDArray[Any]) -> NDArray[Any]:
    if not has_fit_parameter(regressor, "sample_weight"):
        raise ValueError(
            f"{type(regressor).__name__} cannot weigh samples, which balanced soft labels need. "
            "Use balance=False, or a student whose fit takes sample_weight."
        )
    return sample_weight
