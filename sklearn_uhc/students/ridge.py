"""RidgeClassifier on soft labels: ridge regression on 2 q - 1, the mean of its targets 1 and -1 over all copies."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.linear_model import Ridge

from sklearn_uhc.students.replicate import fit_classifier
from sklearn_uhc.students.soft_data import SoftData
from sklearn_uhc.utils.rows import take_rows


def accepts(estimator: Any) -> bool:
    """Every RidgeClassifier."""
    return True


def fit(estimator: Any, data: SoftData, **params: Any) -> Any:
    """Fit the regression, and put its coefficients into the classifier."""
    if data.eval_set:
        raise ValueError("RidgeClassifier does not accept eval_set.")
    known = np.flatnonzero((data.Q > 0).any(axis=0))
    if len(known) == 1:
        return fit_classifier(estimator, data.X, known, data.classes, {})
    given = estimator.get_params(deep=False)
    regression = Ridge(**{name: given[name] for name in Ridge().get_params() if name in given})
    targets = 2 * data.Q[:, known] - 1
    regression.fit(data.X, targets if len(known) > 2 else targets[:, 1], sample_weight=data.weight)
    # A few rows tell it classes and features.
    estimator.fit(take_rows(data.X, np.arange(len(known)) % len(data.Q)), data.classes[known], **params)
    estimator.coef_ = np.atleast_2d(regression.coef_)
    estimator.intercept_ = np.atleast_1d(regression.intercept_) if estimator.fit_intercept else 0.0
    estimator.n_iter_ = regression.n_iter_
    return estimator
