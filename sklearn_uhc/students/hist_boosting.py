"""HistGradientBoostingClassifier on soft labels: its own training, with the soft cross-entropy as its loss.

scikit-learn accepts a loss object in place of the name. This one has the gradient s - q instead of s - y. Labels only
tell the number of classes, and mark validation rows. Row weights are part of the loss: passed to scikit-learn, they
would also weight the quantiles by which features are binned, which takes longer than the training.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from scipy.special import expit, softmax
from sklearn._loss.loss import HalfBinomialLoss, HalfMultinomialLoss
from sklearn.utils.validation import has_fit_parameter

from sklearn_uhc.students.direct import soft_log_loss
from sklearn_uhc.students.replicate import ReplicateStrategy
from sklearn_uhc.students.soft_data import SoftData


def accepts(estimator: Any) -> bool:
    """Return whether it stops early by its loss on given rows, or not at all."""
    by_loss = estimator.scoring == "loss" and has_fit_parameter(estimator, "X_val")
    return estimator.loss == "log_loss" and (estimator.early_stopping is not True or by_loss)


class _SoftLoss:
    """The loss that boosting needs, for soft labels of training rows (y = 0, 1, ...) or validation rows (y all 1)."""

    data: SoftData

    def fit_intercept_only(self, y_true: Any, sample_weight: Any = None) -> Any:
        mean = np.clip(self.data.mean, np.finfo(float).eps, 1 - np.finfo(float).eps)
        return np.log(mean) - np.log(mean).mean() if len(mean) > 2 else np.log(mean[1] / mean[0])

    def gradient_hessian(
        self,
        y_true: Any,
        raw_prediction: Any,
        sample_weight: Any = None,
        gradient_out: Any = None,
        hessian_out: Any = None,
        n_threads: int = 1,
    ) -> Any:
        two = self.data.Q.shape[1] == 2
        F = raw_prediction.reshape(len(y_true), -1)
        S, Q = (expit(F), self.data.Q[:, 1:]) if two else (softmax(F, axis=1), self.data.Q)
        w = self.data.row_weights[:, None]
        gradient_out[...] = (w * (S - Q)).reshape(gradient_out.shape)
        hessian_out[...] = (w * S * (1 - S)).reshape(hessian_out.shape)
        return gradient_out, hessian_out

    def __call__(self, y_true: Any, raw_prediction: Any, sample_weight: Any = None, n_threads: int = 1) -> float:
        rows = self.data.eval_set[0] if y_true[0] == 1 else self.data
        F = raw_prediction.ravel() if rows.Q.shape[1] == 2 else raw_prediction
        return soft_log_loss(rows.Q, F, rows.weight)


class _SoftMultinomialLoss(_SoftLoss, HalfMultinomialLoss):
    """For three classes or more."""


class _SoftBinomialLoss(_SoftLoss, HalfBinomialLoss):
    """For two classes."""


def fit(estimator: Any, data: SoftData, **params: Any) -> Any:
    """Boost on the soft cross-entropy."""
    n, L = data.Q.shape
    if estimator.early_stopping is True or data.eval_set:
        if not has_fit_parameter(estimator, "X_val"):
            raise ValueError("HistGradientBoostingClassifier does not accept eval_set before scikit-learn 1.7.")
        data = data.with_validation()
        rows = data.one_eval_set("HistGradientBoostingClassifier")
        n = len(data.Q)
        params |= {"X_val": rows.X, "y_val": np.repeat(data.classes[1], len(rows.Q))}
    if n < L:  # labels could not include all classes
        return ReplicateStrategy.fit(estimator, replace(data, copies="all"), **params)
    stopping = estimator.early_stopping
    loss = _SoftBinomialLoss() if L == 2 else _SoftMultinomialLoss(n_classes=L)
    loss.data = data
    estimator.set_params(loss=loss, early_stopping=bool(data.eval_set))
    estimator.fit(data.X, data.classes[np.arange(n) % L], **params)
    estimator.set_params(loss="log_loss", early_stopping=stopping)
    estimator._loss = HalfBinomialLoss() if L == 2 else HalfMultinomialLoss(n_classes=L)  # without the data
    return estimator
