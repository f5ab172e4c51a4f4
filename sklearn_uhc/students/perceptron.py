"""MLPClassifier on soft labels: its own training, with probabilities as the targets of the output layer.

The gradient of its loss at the output is the prediction minus the target, for soft targets as for 0 and 1. So this is
the soft cross-entropy at the cost of hard labels, with all solvers and stopping rules. Only the step that turns labels
into targets is replaced.
"""

from __future__ import annotations

from inspect import signature
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.neural_network import MLPClassifier
from sklearn.preprocessing import LabelBinarizer
from sklearn.utils.validation import has_fit_parameter, validate_data

from sklearn_uhc.students.sample import draw_rows
from sklearn_uhc.students.soft_data import SoftData


def accepts(estimator: Any) -> bool:
    """Return whether scikit-learn makes the targets in the method that is replaced here."""
    step = getattr(MLPClassifier, "_validate_input", None)
    return step is not None and list(signature(step).parameters)[1:] == ["X", "y", "incremental", "reset"]


class _SoftMLP(MLPClassifier):
    """A perceptron whose `fit` takes a column of probabilities per class."""

    def _validate_input(self, X: Any, y: Any, incremental: bool, reset: bool) -> tuple[Any, NDArray[Any]]:
        X = validate_data(self, X, accept_sparse=["csr", "csc"], dtype=(np.float64, np.float32), reset=reset)
        self.classes_ = np.arange(y.shape[1])
        self._label_binarizer = LabelBinarizer().fit(self.classes_)
        return X, (y if y.shape[1] > 2 else y[:, 1:]).astype(X.dtype)


def fit(estimator: Any, data: SoftData, **params: Any) -> Any:
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
