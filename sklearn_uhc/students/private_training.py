"""Students of scikit-learn that are trained exactly, through two of its private parts, which may change.

- HistGradientBoostingClassifier accepts a loss object in place of the name. This one has the gradient s - q instead of
  s - y. Labels only tell the number of classes, and mark validation rows. Row weights are part of the loss: passed to
  scikit-learn, they would also weight the quantiles by which features are binned, which takes longer than the training.
- MLPClassifier turns labels into targets in one step, which is replaced by the probabilities themselves. The gradient
  of its loss at the output is the prediction minus the target, for soft targets as for 0 and 1.

If a release has no such part, or another one, `accepts` says no, and rows are copied for each class instead
(`replicate`): that costs 1 to 3 points and 1.7 to 4 times the time.
"""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from inspect import signature
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, softmax
from sklearn.neural_network import MLPClassifier
from sklearn.preprocessing import LabelBinarizer
from sklearn.utils.validation import has_fit_parameter, validate_data

from sklearn_uhc.students.direct import soft_log_loss
from sklearn_uhc.students.replicate import ReplicateStrategy
from sklearn_uhc.students.sample import draw_rows
from sklearn_uhc.students.soft_data import SoftData

#: What boosting calls on its loss, with the names of the arguments.
GRADIENTS = ["y_true", "raw_prediction", "sample_weight", "gradient_out", "hessian_out", "n_threads"]


def accepts(estimator: Any) -> bool:
    """Return whether this release has the private part, and the estimator does not stop early by a score of its own."""
    if isinstance(estimator, MLPClassifier):
        step = getattr(MLPClassifier, "_validate_input", None)
        return step is not None and list(signature(step).parameters)[1:] == ["X", "y", "incremental", "reset"]
    by_loss = estimator.scoring == "loss" and has_fit_parameter(estimator, "X_val")
    return _losses() is not None and estimator.loss == "log_loss" and (estimator.early_stopping is not True or by_loss)


def fit(estimator: Any, data: SoftData, **params: Any) -> Any:
    """Fit the estimator on soft labels."""
    way = _fit_perceptron if isinstance(estimator, MLPClassifier) else _fit_boosting
    return way(estimator, data, **params)


def _losses() -> Any:
    """Return scikit-learn's module of losses, or None if it has another form."""
    try:
        found = import_module("sklearn._loss.loss")
        known = list(signature(found.HalfMultinomialLoss.gradient_hessian).parameters)[1:] == GRADIENTS
    except (ImportError, AttributeError):
        return None
    return found if known else None


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


def _make_loss(data: SoftData) -> Any:
    """Return the loss for two or more classes, of a class that scikit-learn accepts."""
    losses, L = _losses(), data.Q.shape[1]
    if L == 2:
        loss = type("SoftBinomialLoss", (_SoftLoss, losses.HalfBinomialLoss), {})()
    else:
        loss = type("SoftMultinomialLoss", (_SoftLoss, losses.HalfMultinomialLoss), {})(n_classes=L)
    loss.data = data
    return loss


def _fit_boosting(estimator: Any, data: SoftData, **params: Any) -> Any:
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
    losses = _losses()
    estimator.set_params(loss=_make_loss(data), early_stopping=bool(data.eval_set))
    estimator.fit(data.X, data.classes[np.arange(n) % L], **params)
    estimator.set_params(loss="log_loss", early_stopping=stopping)
    estimator._loss = (
        losses.HalfBinomialLoss() if L == 2 else losses.HalfMultinomialLoss(n_classes=L)
    )  # without the data
    return estimator


class _SoftMLP(MLPClassifier):
    """A perceptron whose `fit` takes a column of probabilities per class."""

    def _validate_input(self, X: Any, y: Any, incremental: bool, reset: bool) -> tuple[Any, NDArray[Any]]:
        X = validate_data(self, X, accept_sparse=["csr", "csc"], dtype=(np.float64, np.float32), reset=reset)
        self.classes_ = np.arange(y.shape[1])
        self._label_binarizer = LabelBinarizer().fit(self.classes_)
        return X, (y if y.shape[1] > 2 else y[:, 1:]).astype(X.dtype)


def _fit_perceptron(estimator: Any, data: SoftData, **params: Any) -> Any:
    """Fit the perceptron."""
    if data.eval_set:
        raise ValueError("MLPClassifier does not accept eval_set: early_stopping=True sets rows aside itself.")
    X, Q = data.X, data.Q
    if data.weight is not None and has_fit_parameter(estimator, "sample_weight"):
        params["sample_weight"] = data.weight
    elif data.weight is not None:
        rows = draw_rows(data.weight, data.rng(estimator))
        X, Q = data.rows(rows).X, Q[rows]
    soft = _SoftMLP(**estimator.get_params(deep=False)).fit(X, Q, **params)
    vars(estimator).update(vars(soft))
    estimator.classes_ = data.classes
    estimator._label_binarizer = LabelBinarizer().fit(data.classes)
    return estimator
