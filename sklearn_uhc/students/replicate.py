"""Soft labels for any classifier with `sample_weight`: each row once per class, weighted by its probability.

For a learner that minimises a weighted sum of losses this is the soft cross-entropy itself, up to the entries that are
left out: those below `DROPPED` / L, together at most `DROPPED` of a row's mass, which the others of the row take over.
Where the copies would not fit into scikit-learn's `working_memory`, small entries are thinned out at random: one of
weight w below a threshold is kept with probability w / threshold and then counts as the threshold, which leaves the
expected loss as it is.
"""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn import get_config
from sklearn.base import is_classifier
from sklearn.dummy import DummyClassifier
from sklearn.utils import check_random_state, get_tags
from sklearn.utils.validation import has_fit_parameter

from sklearn_uhc.students.soft_data import SoftData
from sklearn_uhc.utils.notes import warn_user
from sklearn_uhc.utils.response import log_proba
from sklearn_uhc.utils.rows import row_bytes, take_rows

#: Largest share of a row's mass that may be left out.
DROPPED = 1e-3


class ReplicateStrategy:
    """Train a classifier on weighted copies of the rows."""

    name = "replicate"
    students = "every classifier whose fit takes sample_weight"

    @staticmethod
    def accepts(estimator: Any) -> bool:
        """Whether the estimator is a classifier that takes sample weights and does not split the copies by itself."""
        takes_weights = is_classifier(estimator) and has_fit_parameter(estimator, "sample_weight")
        return takes_weights and get_tags(estimator).target_tags.single_output and not hasattr(estimator, "cv")

    @staticmethod
    def fit(estimator: Any, data: SoftData, **params: Any) -> Any:
        """Fit the classifier itself, on the class names."""
        if _keep_copies_together(estimator, bool(data.eval_set)):
            data = data.with_validation()
        rng = check_random_state(data.random_state)
        rows, labels, weights = replicate(data.Q, data.weight, _most_copies(data.X, len(data.Q)), rng)
        _count_rows_not_copies(estimator, len(rows) / len(data.Q))
        if data.eval_set:
            params |= _validation(estimator, data, labels)
        X = take_rows(data.X, rows)
        return fit_classifier(estimator, X, labels, data.classes, params | {"sample_weight": weights})

    @staticmethod
    def log_answers(fitted: Any, X: Any, classes: NDArray[Any], prior: NDArray[Any]) -> NDArray[np.float64]:
        """Log-probabilities over all classes; one that had no weight at all has probability 0."""
        return answers_of(fitted, X, classes)


def fit_classifier(
    estimator: Any, X: Any, labels: NDArray[np.int_], classes: NDArray[Any], params: dict[str, Any]
) -> Any:
    """Fit on class names; most classifiers refuse a single class, for which nothing has to be learnt."""
    if len(np.unique(labels)) == 1:
        return DummyClassifier(strategy="prior").fit(np.zeros((1, 1)), classes[labels[:1]])
    return estimator.fit(X, classes[labels], **params)


def answers_of(fitted: Any, X: Any, classes: NDArray[Any]) -> NDArray[np.float64]:
    """Return log-probabilities over all classes; those that the fitted classifier has not seen get -inf."""
    log_p = log_proba(fitted, X, type(fitted).__name__)
    out = np.full((len(log_p), len(classes)), -np.inf)
    out[:, np.searchsorted(classes, fitted.classes_)] = log_p
    return out


def _keep_copies_together(estimator: Any, eval_set: bool) -> bool:
    """Switch off, or refuse, what would tear the copies of a row apart; tell whether validation rows are wanted."""
    params, name = estimator.get_params(), type(estimator).__name__
    takes_rows = has_fit_parameter(estimator, "X_val")
    if takes_rows and params.get("early_stopping") == "auto" and eval_set:
        estimator.set_params(early_stopping=True)
    wanted = takes_rows and estimator.early_stopping is True
    for key, value in params.items():  # those of inner estimators as well
        inner, _, last = key.rpartition("__")
        if last == "early_stopping" and value == "auto" and not (wanted and not inner):
            estimator.set_params(**{key: False})
        boosting_stops = last == "n_iter_no_change" and value is not None and f"{key[: -len(last)]}subsample" in params
        if (last == "early_stopping" and value is True and not (wanted and not inner)) or boosting_stops:
            raise ValueError(
                f"Early stopping of {name} would validate on copies of its training rows. Switch it off and set the "
                "number of iterations, for instance by a search."
            )
        if last == "oob_score" and value:
            raise ValueError(
                f"oob_score of {name} would score rows by copies of themselves. Leave it out; score on other rows."
            )
        if last == "probability" and value is True:
            raise ValueError(
                f"probability=True of {name} cross-validates inside and would split copies of a row. Leave it at "
                "False: its decision_function is read as scores."
            )
    return wanted


def _count_rows_not_copies(estimator: Any, copies_per_row: float) -> None:
    """Let leaves be as small as the user allowed in rows, which copies would have made smaller."""
    for name in ("min_samples_leaf", "min_samples_split"):
        value = estimator.get_params(deep=False).get(name)
        if isinstance(value, Integral) and copies_per_row > 1:
            estimator.set_params(**{name: max(int(value), round(int(value) * copies_per_row))})


def _validation(estimator: Any, data: SoftData, trained: NDArray[np.int_]) -> dict[str, Any]:
    """Return the validation rows as copies, for estimators that take some."""
    if not has_fit_parameter(estimator, "X_val"):
        raise ValueError(f"{type(estimator).__name__} takes no eval_set.")
    X, Q, weight = data.one_eval_set(type(estimator).__name__)
    known = np.isin(np.arange(Q.shape[1]), trained)
    rows, labels, weights = replicate(np.where(known, Q, 0.0), weight)
    return {"X_val": take_rows(X, rows), "y_val": data.classes[labels], "sample_weight_val": weights}


def _most_copies(X: Any, n_rows: int) -> int:
    """Return how many rows of X the working memory holds; all of X at least."""
    return max(n_rows, int(get_config()["working_memory"] * 2**20 / max(row_bytes(X), 1.0)))


def replicate(
    Q: NDArray[Any],
    sample_weight: NDArray[Any] | None = None,
    most: int | None = None,
    rng: np.random.RandomState | None = None,
) -> tuple[NDArray[np.int_], NDArray[np.int_], NDArray[np.float64]]:
    """Return row numbers, class numbers and weights of the copies that stand for soft labels Q, about `most`."""
    keep = DROPPED / Q.shape[1] <= Q
    # A class that is nowhere probable keeps its best row, so that the classifier knows of it.
    best = Q.argmax(axis=0)
    known = Q[best, np.arange(Q.shape[1])] > 0
    keep[best[known], np.flatnonzero(known)] = True
    weights = np.where(keep, Q, 0.0)
    total = weights.sum(axis=1, keepdims=True)
    weights /= np.where(total > 0, total, 1.0)
    if most is not None and np.count_nonzero(weights) > most:
        warn_user(
            f"The soft labels stand for {np.count_nonzero(weights)} weighted copies of rows, more than working_memory "
            f"holds: about {most} of them are drawn by their weight. A forest, a booster, LogisticRegression or "
            "nearest neighbours learn from soft labels without copies; sklearn.set_config(working_memory=...) allows "
            "for more.",
        )
        weights = thin_out(weights, most, check_random_state(rng))
    if sample_weight is not None:
        weights = weights * sample_weight[:, None]
    rows, labels = np.nonzero(weights)
    return rows, labels, weights[rows, labels]


def thin_out(W: NDArray[np.float64], most: int, rng: np.random.RandomState) -> NDArray[np.float64]:
    """Keep about `most` entries, at least one per row, so that each is as large as before on average."""
    low, high = 0.0, 1.0  # at threshold 1 one entry per row is kept
    for _ in range(40):
        threshold = (low + high) / 2
        low, high = (threshold, high) if np.minimum(W / threshold, 1).sum() > most else (low, threshold)
    # Systematic sampling along each row: an entry is taken where the running sum of chances passes an integer.
    steps = np.cumsum(np.minimum(W / high, 1), axis=1) + rng.random_sample((len(W), 1))
    taken = np.diff(np.floor(steps), axis=1, prepend=0) > 0
    return np.where(taken & (W > 0), np.maximum(W, high), 0.0)
