"""SGDClassifier, Perceptron and LinearSVC on soft labels: one class against the rest, each row twice.

These learn a class by a problem of their own, in which it stands against all others. On soft labels the row counts for
the class with weight q and against it with weight 1 - q:

    loss of class l = sum_i w_i [ q_il loss(f_l(x_i)) + (1 - q_il) loss(-f_l(x_i)) ]

This is what all weighted copies of the rows amount to, at twice the price of hard labels instead of L times.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from sklearn_uhc.students.replicate import answers_of, fit_classifier
from sklearn_uhc.students.soft_data import SoftData
from sklearn_uhc.utils.notes import warn_user
from sklearn_uhc.utils.rows import take_rows

#: Fit parameters that hold one row or number per class.
PER_CLASS = ("coef_init", "intercept_init")


def accepts(estimator: Any) -> bool:
    """Those that take the classes one by one, and do not set rows aside to stop by, which would split the pairs."""
    params = estimator.get_params(deep=False)
    return params.get("multi_class", "ovr") == "ovr" and params.get("early_stopping") is not True


def log_answers(fitted: Any, X: Any, classes: NDArray[Any], prior: NDArray[Any]) -> NDArray[np.float64]:
    """Log-probabilities, or scores; a class that is nowhere probable has probability 0."""
    return answers_of(fitted, X, classes)


def fit(estimator: Any, data: SoftData, **params: Any) -> Any:
    """Fit a binary problem per class, and put their coefficients into one estimator."""
    if data.eval_set:
        raise ValueError(f"{type(estimator).__name__} takes no eval_set unless it has, and is set to, early_stopping.")
    known = np.flatnonzero((data.Q > 0).any(axis=0))
    if len(known) == 1:
        return fit_classifier(estimator, data.X, known, data.classes, {})
    solved = known if len(known) > 2 else known[1:]  # of two classes, the second against the first
    seeds = check_random_state(estimator.get_params().get("random_state")).randint(2**31 - 1, size=len(solved))
    twice = take_rows(data.X, np.tile(np.arange(len(data.Q)), 2))
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        models = Parallel(n_jobs=estimator.get_params().get("n_jobs"), prefer="threads")(
            delayed(_against_the_rest)(estimator, data, twice, l, seed, _of_class(params, k))
            for k, (l, seed) in enumerate(zip(solved, seeds, strict=True))
        )
        _put_together(estimator, data, known, models)
    for warning in {(str(w.message), w.category) for w in told}:
        warn_user(*warning)
    return estimator


def _against_the_rest(estimator: Any, data: SoftData, X: Any, label: int, seed: int, params: dict[str, Any]) -> Any:
    """Fit one class against the others; rows that are certain count once."""
    q, w = data.Q[:, label], data.row_weights
    weights = np.concatenate([w * q, w * (1 - q)])
    seen = weights > 0
    rows = X if seen.all() else take_rows(X, np.flatnonzero(seen))
    model = clone(estimator).set_params(random_state=int(seed))
    return model.fit(rows, np.repeat([1, 0], len(q))[seen], sample_weight=weights[seen], **params)


def _put_together(estimator: Any, data: SoftData, known: NDArray[np.int_], models: list[Any]) -> None:
    """Fit the estimator on a few rows, so that it knows classes and features, and give it the coefficients."""
    some = take_rows(data.X, np.arange(len(known)) % len(data.Q))
    given = estimator.get_params(deep=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        estimator.set_params(max_iter=1).fit(some, data.classes[known])
    estimator.set_params(max_iter=given["max_iter"])
    estimator.coef_ = np.concatenate([model.coef_ for model in models])
    intercepts = [np.atleast_1d(model.intercept_) for model in models]
    estimator.intercept_ = np.concatenate(intercepts)
    estimator.n_iter_ = max(model.n_iter_ for model in models)
    if hasattr(estimator, "t_"):
        estimator.t_ = max(model.t_ for model in models)


def _of_class(params: dict[str, Any], k: int) -> dict[str, Any]:
    return {name: np.atleast_1d(value)[k] if name in PER_CLASS else value for name, value in params.items()}
