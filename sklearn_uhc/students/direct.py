"""Estimators trained on the soft cross-entropy, or on their own loss over soft labels, without copies of rows.

    loss = - sum_i w_i sum_l q_il log s_il,      s_i = softmax of the scores of row i

Its gradient with respect to the scores is w_i (s_i - q_i), at the cost of hard labels. Each library has its own module
here, which is imported when one of its estimators is used.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, log_expit, log_softmax, softmax
from sklearn.base import clone
from sklearn.dummy import DummyClassifier
from sklearn.pipeline import Pipeline

from sklearn_uhc.students.replicate import answers_of
from sklearn_uhc.students.soft_data import SoftData
from sklearn_uhc.students.temperature import log_on_simplex

#: Module that trains an estimator, by package and class.
MODULES = {
    ("lightgbm", "LGBMClassifier"): "lightgbm",
    ("xgboost", "XGBClassifier"): "xgboost",
    ("xgboost", "XGBRFClassifier"): "xgboost",
    ("catboost", "CatBoostClassifier"): "catboost",
    ("sklearn", "LogisticRegression"): "logistic",
    ("sklearn", "LinearSVC"): "linear_svc",
    ("sklearn", "RidgeClassifier"): "ridge",
    ("sklearn", "RidgeClassifierCV"): "ridge",
    ("sklearn", "OneVsRestClassifier"): "one_vs_rest",
    ("sklearn", "MLPClassifier"): "private_training",
    ("sklearn", "HistGradientBoostingClassifier"): "private_training",
    ("sklearn", "GaussianNB"): "naive_bayes",
    ("sklearn", "MultinomialNB"): "naive_bayes",
    ("sklearn", "ComplementNB"): "naive_bayes",
    ("sklearn", "BernoulliNB"): "naive_bayes",
    ("sklearn", "CategoricalNB"): "naive_bayes",
    ("skorch", "NeuralNet"): "skorch",
}
#: Extra to install for a missing package.
EXTRAS = {"skorch": "torch"}


class DirectStrategy:
    """Train a booster, a logistic regression or a network on the soft cross-entropy."""

    name = "direct"
    students = (
        "LGBMClassifier, XGBClassifier, CatBoostClassifier, HistGradientBoostingClassifier, LogisticRegression, "
        "LinearSVC, RidgeClassifier, OneVsRestClassifier, MLPClassifier, naive Bayes, skorch nets, torch modules"
    )

    @staticmethod
    def accepts(estimator: Any) -> bool:
        """Return whether there is a module for the estimator that supports its penalty."""
        module = _module_of(estimator)
        return module is not None and bool(module.accepts(estimator))

    @staticmethod
    def fit(estimator: Any, data: SoftData, **params: Any) -> Any:
        """Fit the estimator itself; its own `predict_proba` has one column per class."""
        module = _module_of(estimator)
        assert module is not None
        if data.Q.shape[1] == 1:
            return DummyClassifier(strategy="prior").fit(np.zeros((1, 1)), data.classes)
        return module.fit(estimator, data, **params)

    @staticmethod
    def log_answers(fitted: Any, X: Any, classes: NDArray[Any], prior: NDArray[Any]) -> NDArray[np.float64]:
        """Return log-probabilities, or scores, of the estimator."""
        module = _module_of(fitted)
        if type(fitted).__module__.startswith("sklearn."):  # it may not know a class that has no probability anywhere
            return answers_of(fitted, X, classes)
        own = module.predict_proba(fitted, X) if hasattr(module, "predict_proba") else fitted.predict_proba(X)
        return log_on_simplex(np.asarray(own, dtype=float), prior)


def clone_student(estimator: Any) -> Any:
    """Clone the estimator; CatBoost by its own method, since scikit-learn's fails if a parameter is a list."""
    return estimator.copy() if type(estimator).__module__.split(".")[0] == "catboost" else clone(estimator, safe=False)


def is_net(estimator: Any) -> bool:
    """Return whether this is a skorch net."""
    return any(base.__module__ == "skorch.net" and base.__name__ == "NeuralNet" for base in type(estimator).__mro__)


def as_estimator(student: Any) -> Any:
    """Return the student; a bare torch module, or a class of one, becomes a skorch net with simple settings."""
    torch = sys.modules.get("torch")
    if torch is None:  # then it cannot be a module
        return student
    kind = student if isinstance(student, type) else type(student)
    if not issubclass(kind, torch.nn.Module):
        return student
    try:
        module = import_module("sklearn_uhc.students.skorch")
    except ImportError as error:
        raise ImportError("A torch module as the student needs skorch: pip install 'sklearn-uhc[torch]'.") from error
    return module.wrap(student)


def with_tags(estimator: Any) -> Any:
    """Return an estimator with tags: a bare module, alone or at the end of a Pipeline, becomes a net."""
    if not isinstance(estimator, Pipeline):
        return as_estimator(estimator)
    name, last = estimator.steps[-1]
    net = as_estimator(last)
    return estimator if net is last else Pipeline([*estimator.steps[:-1], (name, net)])


def _module_of(estimator: Any) -> Any:
    kind = type(estimator)
    if is_net(estimator):
        kind = next(base for base in kind.__mro__ if base.__module__ == "skorch.net")
    package = kind.__module__.split(".")[0]
    name = MODULES.get((package, kind.__name__))
    if name is None:
        return None
    try:
        return import_module(f"sklearn_uhc.students.{name}")
    except ImportError as error:
        raise ImportError(
            f"{kind.__name__} needs {package}, which cannot be imported: "
            f"pip install 'sklearn-uhc[{EXTRAS.get(package, 'boosters')}]'."
        ) from error


class SoftCrossEntropy:
    """Gradient and diagonal Hessian of the loss for a booster: scores (n, L), or (n,) for the second of two classes."""

    def __init__(self, data: SoftData, hessian_factor: float, least_hessian: float = 0.0, order: str = "C") -> None:
        self.Q = np.asarray(data.Q, order=order)  # type: ignore[call-overload]
        self.weight = None if data.weight is None else data.weight[:, None]
        self.hessian_factor = hessian_factor
        self.least_hessian = least_hessian

    def __call__(self, y_true: Any, F: NDArray[Any], sample_weight: Any = None) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return gradient and Hessian; arguments other than the scores are ignored."""
        if F.ndim == 1:
            S, Q, factor = expit(F)[:, None], self.Q[:, 1:], 1.0
        else:
            S, Q, factor = softmax(F, axis=1), self.Q, self.hessian_factor
        gradient, hessian = S - Q, factor * S * (1 - S)
        if self.weight is not None:
            gradient, hessian = gradient * self.weight, hessian * self.weight
        if self.least_hessian:
            hessian = np.maximum(hessian, self.least_hessian)
        return (gradient[:, 0], hessian[:, 0]) if F.ndim == 1 else (gradient, hessian)


def soft_log_loss(Q: NDArray[Any], F: NDArray[Any], weight: NDArray[Any] | None = None) -> float:
    """Mean soft cross-entropy of scores (n, L), or (n,) for the second of two classes."""
    if F.ndim == 1:
        losses = -(Q[:, 1] * log_expit(F) + Q[:, 0] * log_expit(-F))
    else:
        losses = -np.sum(Q * log_softmax(F, axis=1), axis=1)
    return float(np.average(losses, weights=weight))


def evaluation(data: SoftData) -> tuple[list[tuple[Any, NDArray[np.int_]]], Callable[[Any, NDArray[Any]], float]]:
    """Return evaluation sets whose labels are the index of the set, and the loss that reads them."""
    if len(data.eval_set) > data.Q.shape[1]:
        raise ValueError(
            f"eval_set has {len(data.eval_set)} sets: boosters accept at most as many as there are classes."
        )
    sets = [(rows.X, np.full(len(rows.Q), k)) for k, rows in enumerate(data.eval_set)]

    def soft_logloss(y_true: NDArray[Any], F: NDArray[Any]) -> float:
        _, Q, weight = data.eval_set[int(y_true[0])]
        return soft_log_loss(Q, F, weight)

    return sets, soft_logloss


def stand_in_labels(data: SoftData, name: str) -> NDArray[np.int_]:
    """Return labels in which every class occurs; boosters infer only the number of classes from them."""
    n, L = data.Q.shape
    if n < L:
        raise ValueError(f"{name} needs at least as many rows as classes, got {n} training rows and {L} classes.")
    return np.arange(n) % L


def refuse(estimator: Any, wrong: dict[str, str]) -> None:
    """Raise an error for parameters that are not supported on soft labels; `wrong` has the remedies."""
    given = estimator.get_params(deep=False)
    for name, remedy in wrong.items():
        if given.get(name) is True or given.get(name) not in (None, False, 1):
            raise ValueError(f"{name}={given[name]!r} of {type(estimator).__name__} is not supported: {remedy}.")
