"""Naive Bayes on soft labels: its statistics are weighted sums over rows, so soft labels cost one matrix product.

    N_l = sum_i w_i q_il,      sum over rows of class l:  sum_i w_i q_il x_i,      and of x_i^2 for Gaussians

CategoricalNB has such sums for every value of a feature.

All weighted copies of the rows have the same sums.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix
from sklearn.naive_bayes import BernoulliNB, CategoricalNB, GaussianNB
from sklearn.preprocessing import binarize
from sklearn.utils.validation import validate_data

from sklearn_uhc.students.replicate import fit_classifier
from sklearn_uhc.students.soft_data import SoftData


def accepts(estimator: Any) -> bool:
    """Accept every naive Bayes."""
    return True


def fit(estimator: Any, data: SoftData, **params: Any) -> Any:
    """Fit on the class means, one row per class, weighted by the class."""
    if data.eval_set:
        raise ValueError(f"{type(estimator).__name__} does not accept eval_set.")
    known = np.flatnonzero((data.Q > 0).any(axis=0))
    if len(known) == 1:
        return fit_classifier(estimator, data.X, known, data.classes, {})
    if isinstance(estimator, CategoricalNB):
        return _categorical(estimator, data, known)
    gaussian = isinstance(estimator, GaussianNB)
    X = validate_data(estimator, data.X, accept_sparse=False if gaussian else "csr", dtype=[np.float64, np.float32])
    W = data.Q[:, known] * data.row_weights[:, None]
    fitted = (_gaussian if gaussian else _discrete)(estimator, X, W, data.classes[known])
    validate_data(fitted, data.X, skip_check_array=True)  # sets the feature names
    return fitted


def _categorical(estimator: Any, data: SoftData, known: NDArray[np.int_]) -> Any:
    """Fit on the rows with labels that include all classes, then replace its counts by those of the soft labels."""
    estimator.fit(data.X, data.classes[known[np.arange(len(data.Q)) % len(known)]])
    X = validate_data(estimator, data.X, dtype="int", reset=False)
    W = data.Q[:, known] * data.row_weights[:, None]
    estimator.class_count_ = N = W.sum(axis=0)
    alpha = max(estimator.alpha, 1e-10) if not estimator.force_alpha else estimator.alpha
    rows = np.arange(len(X) + 1)
    for j, values in enumerate(X.T):
        shape = len(X), int(estimator.n_categories_[j])
        counts = np.asarray((csr_matrix((np.ones(len(X)), values, rows), shape=shape).T @ W).T)
        smoothed = counts + alpha
        estimator.category_count_[j] = counts
        with np.errstate(divide="ignore"):  # without smoothing, a value that a class never has is impossible
            estimator.feature_log_prob_[j] = np.log(smoothed) - np.log(smoothed.sum(axis=1, keepdims=True))
    if estimator.class_prior is None and estimator.fit_prior:
        estimator.class_log_prior_ = np.log(N) - np.log(N.sum())
    return estimator


def _gaussian(estimator: Any, X: NDArray[Any], W: NDArray[np.float64], classes: NDArray[Any]) -> Any:
    centre = X.mean(axis=0, dtype=float)
    X = X - centre  # else squares would lose the digits of small variances
    N = W.sum(axis=0)
    theta = W.T @ X / N[:, None]
    variance = np.maximum(W.T @ X**2 / N[:, None] - theta**2, 0.0)
    estimator.fit(theta, classes)  # checks parameters and priors, and sets the classes
    estimator.epsilon_ = estimator.var_smoothing * np.var(X, axis=0).max()
    estimator.theta_, estimator.var_ = theta + centre, variance + estimator.epsilon_
    estimator.class_count_ = N
    if estimator.priors is None:
        estimator.class_prior_ = N / N.sum()
    return estimator


def _discrete(estimator: Any, X: Any, W: NDArray[np.float64], classes: NDArray[Any]) -> Any:
    threshold = getattr(estimator, "binarize", None)
    if threshold is not None:
        X = binarize(X, threshold=threshold)
    N = W.sum(axis=0)
    means = np.asarray(W.T @ X) / N[:, None]
    if isinstance(estimator, BernoulliNB):
        estimator.set_params(binarize=None)
    estimator.fit(means, classes, sample_weight=N)
    return estimator.set_params(binarize=threshold) if isinstance(estimator, BernoulliNB) else estimator
