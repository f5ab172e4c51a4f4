"""Answers passed as arrays: the only place that checks their shape, column names and kind of numbers."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from array_api_compat import array_namespace, is_torch_array
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.utils.validation import _get_feature_names, validate_data

from sklearn_uhc.answers.value import Answers, to_numpy
from sklearn_uhc.spaces.label_space import LabelSpace
from sklearn_uhc.utils.parameters import check_weights
from sklearn_uhc.utils.rows import take_rows

#: Approximate number of rows inspected to find out what kind of numbers they hold.
SEEN_ROWS = 100
#: With this many row sums, probabilities are recognised even in half precision.
ENOUGH_SUMS = 5


def answers_of_input(estimator: Any, X: Any, *, reset: bool) -> Answers:
    """Make answers from the input of a transformer of `log_p`: the only place where such input is checked.

    `estimator` has the parameters `class_lists`, `teacher_weight` and `abstain`; unless `reset`, it also has a
    `label_space_`.
    """
    remembered = getattr(X, "label_space", None) if isinstance(X, np.ndarray) else None
    log_p = read_log_p(estimator, X, reset=reset)
    space = None if reset else estimator.label_space_
    if space is None:
        lists, names = estimator.class_lists, getattr(estimator, "feature_names_in_", None)
        space = remembered if lists is None and remembered is not None else space_of_answers(log_p, lists, names)
        if estimator.teacher_weight is not None:
            check_weights(estimator.teacher_weight, space.n_teachers)
    answers = Answers.of(log_p, space, abstain=bool(estimator.abstain), teacher_weight=estimator.teacher_weight)
    if reset:  # only in fit: later a row's result must not depend on its batch
        refuse_probabilities(log_p, space)
    return answers


def read_log_p(estimator: Any, X: Any, *, reset: bool) -> Any:
    """Validate a matrix of floats, which may have NaN and infinities; a torch tensor stays a tensor."""
    if not is_torch_array(X):
        return validate_data(estimator, X, reset=reset, dtype=[np.float64, np.float32], ensure_all_finite=False)
    xp = array_namespace(X)
    if X.ndim != 2 or len(X) == 0:
        raise ValueError(f"Expected a tensor of shape (n, K) with at least one row, got {tuple(X.shape)}.")
    if X.dtype not in (xp.float32, xp.float64):
        raise ValueError(f"Expected a tensor of float32 or float64, got {X.dtype}: convert it with .float().")
    if reset:
        estimator.n_features_in_ = X.shape[1]
    elif X.shape[1] != estimator.n_features_in_:
        name, expected = type(estimator).__name__, estimator.n_features_in_
        raise ValueError(f"X has {X.shape[1]} features, but {name} is expecting {expected}.")
    return X.detach()


def space_of_answers(X: Any, class_lists: Any, names: Any) -> LabelSpace:
    """Return the label space of X; without lists, from columns named `<teacher>__<class>`, else X is one block."""
    own = range(X.shape[1]) if names is None else names
    if class_lists is None:
        return LabelSpace(lists_in_names(names) or [own])
    space = LabelSpace(class_lists)
    if names is not None:
        _compare_names(names, space)
    if space.n_outputs != X.shape[1]:
        raise ValueError(
            f"X has {X.shape[1]} columns, but the {space.n_teachers} class lists have "
            f"{space.n_outputs} entries in all: X must have one column per teacher and class."
        )
    return space


def lists_in_names(names: Any) -> dict[str, list[str]] | None:
    """Read class lists from columns named `<teacher>__<class>`; return None if they are named otherwise."""
    pairs = [re.match(r"(.+?)__(.*)", str(name), re.DOTALL) for name in ([] if names is None else names)]
    lists: dict[str, list[str]] = {}
    for pair in pairs:
        if pair is None:
            return None
        lists.setdefault(pair[1], []).append(pair[2])
    in_blocks = [f"{teacher}__{label}" for teacher, labels in lists.items() for label in labels]
    several = len(lists) > 1 or "teacher0" in lists
    return lists if several and in_blocks == [str(name) for name in names] else None


def _compare_names(names: Any, space: LabelSpace) -> None:
    """Raise an error if columns named `<teacher>__<class>` do not match the class lists and their order."""
    found = lists_in_names(names)
    if found is None:
        return
    in_columns = [label for labels in found.values() for label in labels]
    for name, column, label in zip(names, in_columns, space.column_names, strict=False):
        if column != label:
            raise ValueError(
                f"The column {name!r} is where the class lists have {label!r}: pass the lists in the order of the "
                "columns (outputs.class_lists_), or, to rename classes, an array without column names."
            )


def answers_given(
    log_p: Any,
    space: LabelSpace,
    *,
    abstain: bool,
    n: int | None = None,
    teacher_weight: Any = None,
    source: str = "log_p",
) -> Answers:
    """Make answers from a precomputed `log_p`, after checks of shape, names, kind of numbers and silence."""
    if isinstance(log_p, Answers):
        if log_p.space != space or n not in (None, len(log_p)):
            raise ValueError(
                f"These answers are from other teachers or rows: {len(log_p)} rows, {log_p.space.describe()}."
            )
        return log_p.with_weights(teacher_weight)
    log_p = _as_floats(log_p, space, n)
    refuse_probabilities(log_p, space, name="log_p")
    return Answers.of(log_p, space, abstain=abstain, teacher_weight=teacher_weight, source=source)


def _as_floats(log_p: Any, space: LabelSpace, n: int | None) -> Any:
    """Check the shape and names of answers, and return them without names."""
    if issparse(log_p):
        raise TypeError("log_p is sparse, but every class has a log-probability: pass log_p.toarray().")
    if isinstance(log_p, (list, tuple)):
        if len(log_p) and np.ndim(log_p[0]) == 2:
            raise ValueError(
                f"log_p is a list of {len(log_p)} arrays: join them side by side, teacher by teacher, with "
                "np.hstack(log_p)."
            )
        log_p = np.asarray(log_p, dtype=float)
    shape = tuple(np.shape(log_p))
    if len(shape) != 2 or shape[1] != space.n_outputs or n not in (None, shape[0]):
        raise ValueError(
            f"log_p must have shape ({'n' if n is None else n}, {space.n_outputs}) for these class lists, one row per "
            f"row of X and one column per teacher and class, got {shape}."
        )
    if (names := _get_feature_names(log_p)) is not None:
        _compare_names(names, space)
    if is_torch_array(log_p):
        return log_p.detach()
    if hasattr(log_p, "to_numpy"):  # a frame, possibly with object columns
        log_p = log_p.to_numpy()
    values = np.asarray(log_p)
    return values if values.dtype in (np.float32, np.float64) else values.astype(float)


def _some_rows(X: Any) -> NDArray[np.float64]:
    """Return evenly spaced rows of X."""
    return to_numpy(take_rows(X, slice(None, None, max(1, len(X) // SEEN_ROWS)))).astype(float)


def refuse_probabilities(X: Any, space: LabelSpace, name: str = "X") -> None:
    """Raise an error if X has probabilities, also in percent, instead of their logarithms."""
    rows = _some_rows(X)
    lengths = np.array([len(labels) for labels in space.class_lists])
    sums = np.stack([rows[:, block].sum(axis=1) for block in space.blocks], axis=1)
    answered = ~np.isnan(sums) & (lengths > 1)  # a single class may have logit 1
    if answered.sum() < 2 or (rows < 0).any():  # a single sum of logits may be 1 by chance
        return
    exact = 1e-3 if answered.sum() >= ENOUGH_SUMS else 1e-5  # the larger tolerance is for half precision
    for whole, unit in ((1, ""), (100, " in percent")):
        if (np.abs(sums / whole - 1) <= exact)[answered].all():
            raise ValueError(f"{name} holds probabilities{unit}: pass their logarithms, or logits.")
