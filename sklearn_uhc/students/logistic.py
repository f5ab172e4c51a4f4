"""LogisticRegression on soft labels: L-BFGS on the penalised soft cross-entropy, matrix products only.

    min over W, b of  mean_i w_i ( - sum_l q_il log softmax(x_i W' + b)_l ) + ||W||^2 / (2 C sum_i w_i)

With two classes W is one row, the logit of the second class, as in scikit-learn.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.sparse import issparse
from scipy.special import expit, log_expit
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.extmath import safe_sparse_dot
from sklearn.utils.sparsefuncs import mean_variance_axis
from sklearn.utils.validation import validate_data

from sklearn_uhc.students.soft_data import SoftData
from sklearn_uhc.utils.notes import warn_user


def accepts(estimator: Any) -> bool:
    """Return whether the penalty is l2 or none; l1, and liblinear, which penalises the intercept, are not supported."""
    given = estimator.get_params(deep=False)
    penalty = given.get("penalty", "deprecated")
    smooth = penalty in ("l2", None) or (penalty == "deprecated" and not given.get("l1_ratio"))
    return smooth and given["solver"] != "liblinear" and given.get("multi_class", "deprecated") != "ovr"


def fit(estimator: Any, data: SoftData) -> Any:
    """Set `coef_` and `intercept_` to the optimum, which does not depend on the solver."""
    estimator._validate_params()
    if data.eval_set:
        raise ValueError("LogisticRegression does not stop early, so it does not accept eval_set.")
    X = validate_data(estimator, data.X, accept_sparse="csr", dtype=[np.float64, np.float32])
    weight = data.row_weights / data.row_weights.sum()
    unpenalised = estimator.get_params(deep=False).get("penalty", "deprecated") is None
    strength = 0.0 if unpenalised else 1.0 / (estimator.C * data.row_weights.sum())
    loss = SoftLogisticLoss(X, data.Q, weight, strength, bool(estimator.fit_intercept))
    options = {"maxiter": estimator.max_iter, "gtol": estimator.tol, "ftol": 64 * np.finfo(float).eps, "maxls": 50}
    found = minimize(loss, loss.start(), jac=True, method="L-BFGS-B", options=options)
    if not found.success:
        warn_user(
            f"LogisticRegression on soft labels stopped after {found.nit} iterations: {found.message}. Raise max_iter, "
            "or scale the features (StandardScaler).",
            ConvergenceWarning,
        )
    estimator.coef_, estimator.intercept_ = loss.unpack(found.x)
    estimator.classes_, estimator.n_iter_ = data.classes, np.array([found.nit], dtype=np.int32)
    return estimator


class SoftLogisticLoss:
    """Value and gradient with respect to the parameters, as one vector.

    The parameters are those of features with mean 0 and curvature about 1, so that L-BFGS needs few steps. X itself is
    not changed, sparse or not.
    """

    def __init__(self, X: Any, Q: NDArray[Any], weight: NDArray[Any], strength: float, fit_intercept: bool) -> None:
        self.X, self.weight, self.strength, self.fit_intercept = X, weight, strength, fit_intercept
        self.Q = Q[:, 1:] if Q.shape[1] == 2 else Q
        self.shape = self.Q.shape[1], X.shape[1] + fit_intercept
        mean, variance = _mean_and_variance(X, weight)
        self.mean = mean if fit_intercept else 0 * mean
        spread = np.sqrt(variance + (mean - self.mean) ** 2 + strength)
        self.spread = np.where(spread > 0, spread, 1.0)

    def start(self) -> NDArray[np.float64]:
        """Return zeros."""
        return np.zeros(self.shape[0] * self.shape[1])

    def unpack(self, x: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return W (L, p) and b (L,)."""
        V = x.reshape(self.shape)
        W = V[:, : len(self.spread)] / self.spread
        return W, V[:, -1] - W @ self.mean if self.fit_intercept else np.zeros(len(W))

    def __call__(self, x: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        """Return value and gradient."""
        W, b = self.unpack(x)
        F = safe_sparse_dot(self.X, W.T.astype(self.X.dtype)) + b
        if F.shape[1] == 1:
            losses = -(self.Q * log_expit(F) + (1 - self.Q) * log_expit(-F))[:, 0]
            S = expit(F)
        else:
            F -= F.max(axis=1, keepdims=True)  # scipy's logsumexp would take longer than everything else here
            S = np.exp(F)
            total = S.sum(axis=1, keepdims=True)
            losses = np.log(total[:, 0]) - np.sum(self.Q * F, axis=1)
            S /= total
        error = self.weight[:, None] * (S - self.Q)
        by_b = error.sum(axis=0)
        by_W = safe_sparse_dot(error.T.astype(self.X.dtype), self.X) - np.outer(by_b, self.mean) + self.strength * W
        gradient = np.hstack([by_W / self.spread, by_b[:, None]]) if self.fit_intercept else by_W / self.spread
        return float(self.weight @ losses + 0.5 * self.strength * np.sum(W**2)), gradient.ravel()


def _mean_and_variance(X: Any, weight: NDArray[Any]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return weighted mean and variance of every feature; weight 2 is the same as the row twice."""
    if issparse(X):
        mean, variance = mean_variance_axis(X, axis=0, weights=weight.astype(X.dtype))
    else:
        total = weight.sum()
        mean = weight @ X / total
        variance = np.maximum(np.einsum("i,ij,ij->j", weight, X, X) / total - mean**2, 0.0)
    return mean.astype(float), variance.astype(float)
