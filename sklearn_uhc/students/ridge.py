"""RidgeClassifier on soft labels: ridge regression on 2 q - 1, the mean of its targets 1 and -1 over all copies.

RidgeClassifierCV chooses its penalty by leaving out rows, not copies, at the cost of one fit, as on hard labels.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.linear_model import Ridge, RidgeClassifierCV, RidgeCV

from sklearn_uhc.students.replicate import fit_classifier
from sklearn_uhc.students.soft_data import SoftData
from sklearn_uhc.utils.rows import take_rows

#: Attributes set by the choice of a penalty.
CHOSEN = ("alpha_", "best_score_", "cv_results_")


def accepts(estimator: Any) -> bool:
    """Accept RidgeClassifier, and RidgeClassifierCV without `cv`, whose folds would be of copies."""
    return not isinstance(estimator, RidgeClassifierCV) or estimator.cv is None


def fit(estimator: Any, data: SoftData, **params: Any) -> Any:
    """Fit the regression, and copy its coefficients to the classifier."""
    name = type(estimator).__name__
    if data.eval_set:
        raise ValueError(f"{name} does not accept eval_set.")
    given = estimator.get_params(deep=False)
    if given.get("scoring") is not None:
        raise ValueError(f"scoring of {name} needs labels: set cv as well, or leave it at None for squared errors.")
    known = np.flatnonzero((data.Q > 0).any(axis=0))
    if len(known) == 1:
        return fit_classifier(estimator, data.X, known, data.classes, {})
    kind = RidgeCV if isinstance(estimator, RidgeClassifierCV) else Ridge
    regression = kind(**{name: given[name] for name in kind().get_params() if name in given})
    targets = 2 * data.Q[:, known] - 1
    regression.fit(data.X, targets if len(known) > 2 else targets[:, 1], sample_weight=data.weight)
    # Fitting a few rows sets its classes and features.
    estimator.fit(take_rows(data.X, np.arange(len(known)) % len(data.Q)), data.classes[known], **params)
    estimator.coef_ = np.atleast_2d(regression.coef_)
    estimator.intercept_ = np.atleast_1d(regression.intercept_) if estimator.fit_intercept else 0.0
    vars(estimator).update({name: getattr(regression, name) for name in CHOSEN if hasattr(regression, name)})
    if hasattr(regression, "n_iter_"):
        estimator.n_iter_ = regression.n_iter_
    return estimator
