"""Soft labels for any classifier with `sample_weight`: copies of the rows, weighted by the probabilities of classes.

For a learner that minimises a weighted sum of losses, all copies are the soft cross-entropy itself, up to entries below
`DROPPED` / L. Together these are at most `DROPPED` of a row's probability, and the row's other entries take it over.
All copies cost up to L times the training on hard labels. A few copies per row, drawn at random
(`students/copies.py`), have the same expected loss. Kernel support vector machines, whose time grows with the square
of the rows, and AdaBoost, which would overfit unlikely labels, get each row once by default, as its
most probable class. An estimator that cross-validates gets folds in which all copies of a row are on the same side.
"""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn import get_config
from sklearn.base import is_classifier
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import AdaBoostClassifier
from sklearn.model_selection import check_cv
from sklearn.svm import SVC, NuSVC
from sklearn.utils import get_tags
from sklearn.utils.validation import has_fit_parameter

from sklearn_uhc.students.copies import leading_classes, replicate
from sklearn_uhc.students.soft_data import SoftData
from sklearn_uhc.utils.notes import warn_user
from sklearn_uhc.utils.response import log_proba
from sklearn_uhc.utils.rows import row_bytes, take_rows

#: Default number of copies per row.
FEW = 4
#: Learners that get each row once: margin-based ones whose time grows faster than the number of rows, and AdaBoost. It
#: weights what it gets wrong ever more, and of two copies of a row with different classes one is always wrong.
ONCE = (SVC, NuSVC, AdaBoostClassifier)


class ReplicateStrategy:
    """Train a classifier on weighted copies of the rows."""

    name = "replicate"
    students = "every classifier whose fit takes sample_weight"

    @staticmethod
    def accepts(estimator: Any) -> bool:
        """Return whether this is a classifier that takes sample weights."""
        takes_weights = is_classifier(estimator) and has_fit_parameter(estimator, "sample_weight")
        return takes_weights and get_tags(estimator).target_tags.single_output

    @staticmethod
    def fit(estimator: Any, data: SoftData, **params: Any) -> Any:
        """Fit the classifier itself, on the class names."""
        if keep_copies_together(estimator, bool(data.eval_set)):
            data = data.with_validation()
        if isinstance(estimator, ONCE) and data.copies == "auto":
            rows, labels, weights = leading_classes(data.Q, data.weight)
        else:
            rows, labels, weights = replicate(data.Q, data.weight, _copies(data), data.rng(estimator))
        count_rows_not_copies(estimator, len(rows) / len(data.Q))
        if data.eval_set:
            params |= _validation(estimator, data, labels)
        X, given = take_rows(data.X, rows), estimator.get_params(deep=False)
        if "cv" in given:
            estimator.set_params(cv=folds_of_copies(given["cv"], data, rows))
        fitted = fit_classifier(estimator, X, labels, data.classes, params | {"sample_weight": weights})
        return fitted.set_params(cv=given["cv"]) if "cv" in given and fitted is estimator else fitted

    @staticmethod
    def log_answers(fitted: Any, X: Any, classes: NDArray[Any], prior: NDArray[Any]) -> NDArray[np.float64]:
        """Return log-probabilities over all classes; a class without any weight gets probability 0."""
        return answers_of(fitted, X, classes)


def fit_classifier(
    estimator: Any, X: Any, labels: NDArray[np.int_], classes: NDArray[Any], params: dict[str, Any]
) -> Any:
    """Fit on class names; a single class needs no training, and most classifiers do not accept it."""
    if len(np.unique(labels)) == 1:
        return DummyClassifier(strategy="prior").fit(np.zeros((1, 1)), classes[labels[:1]])
    return estimator.fit(X, classes[labels], **params)


def answers_of(fitted: Any, X: Any, classes: NDArray[Any]) -> NDArray[np.float64]:
    """Return log-probabilities over all classes; classes that the fitted classifier has not seen get -inf."""
    log_p = log_proba(fitted, X, type(fitted).__name__)
    out = np.full((len(log_p), len(classes)), -np.inf)
    out[:, np.searchsorted(classes, fitted.classes_)] = log_p
    return out


def keep_copies_together(estimator: Any, eval_set: bool) -> bool:
    """Disable, or reject, settings that would separate copies of a row; return whether validation rows are needed."""
    params, name = estimator.get_params(), type(estimator).__name__
    takes_rows = has_fit_parameter(estimator, "X_val")
    if takes_rows and params.get("early_stopping") == "auto" and eval_set:
        estimator.set_params(early_stopping=True)
    wanted = takes_rows and estimator.early_stopping is True
    for key, value in params.items():  # also those of inner estimators
        inner, _, last = key.rpartition("__")
        stops = last == "early_stopping" and not (wanted and not inner)
        if stops and value == "auto":
            estimator.set_params(**{key: False})
        boosting_stops = last == "n_iter_no_change" and value is not None and f"{key[: -len(last)]}subsample" in params
        if (stops and value is True) or boosting_stops:
            raise ValueError(
                f"Early stopping of {name} would validate on copies of its training rows. Switch it off and set the "
                "number of iterations, for example by a search."
            )
        _refuse_scores_of_copies(name, last, value)
    return wanted


def _refuse_scores_of_copies(name: str, setting: str, value: Any) -> None:
    """Raise an error for a setting that would score a copy of a row with its other copies."""
    if setting == "oob_score" and value:
        raise ValueError(
            f"oob_score of {name} would score rows with copies of themselves. Leave it out and score on other rows."
        )
    if setting == "probability" and value is True:
        raise ValueError(
            f"probability=True of {name} cross-validates internally and would split copies of a row. Leave it at "
            "False: its decision_function is used instead."
        )


def count_rows_not_copies(estimator: Any, copies_per_row: float) -> None:
    """Scale minimum leaf sizes, which users give in rows, to the number of copies."""
    for name in ("min_samples_leaf", "min_samples_split"):
        value = estimator.get_params(deep=False).get(name)
        if isinstance(value, Integral) and copies_per_row > 1:
            estimator.set_params(**{name: max(int(value), round(int(value) * copies_per_row))})


def _validation(estimator: Any, data: SoftData, trained: NDArray[np.int_]) -> dict[str, Any]:
    """Return the validation rows as copies, for estimators that accept some."""
    if not has_fit_parameter(estimator, "X_val"):
        raise ValueError(f"{type(estimator).__name__} does not accept eval_set.")
    X, Q, weight = data.one_eval_set(type(estimator).__name__)
    known = np.isin(np.arange(Q.shape[1]), trained)
    rows, labels, weights = replicate(np.where(known, Q, 0.0), weight)
    return {"X_val": take_rows(X, rows), "y_val": data.classes[labels], "sample_weight_val": weights}


def folds_of_copies(cv: Any, data: SoftData, rows: NDArray[np.int_]) -> list[tuple[NDArray[np.int_], NDArray[np.int_]]]:
    """Return the folds of an estimator for copies: those of the rows, stratified by their most probable classes."""
    labels = data.classes[data.Q.argmax(axis=1)]
    folds = check_cv(cv, labels, classifier=True).split(data.X, labels)
    return [(np.flatnonzero(np.isin(rows, train)), np.flatnonzero(np.isin(rows, test))) for train, test in folds]


def _copies(data: SoftData) -> int:
    """Return the maximum number of copies per row: as requested, or fewer if `working_memory` is too small."""
    wanted = data.copies_or(FEW)
    limit = max(1, int(get_config()["working_memory"] * 2**20 / max(row_bytes(data.X), 1.0)) // len(data.Q))
    if limit < wanted <= data.Q.shape[1]:
        warn_user(
            f"{wanted} copies of every row need more than working_memory: {limit} of them are drawn, by their "
            "weight. A forest, a booster, LogisticRegression or nearest neighbours learn from soft labels without "
            "copies; sklearn.set_config(working_memory=...) allows more.",
        )
    return min(wanted, limit)
