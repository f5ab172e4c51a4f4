"""Answers of teachers, (n, K): checked, and grouped by who is silent.

A teacher that cannot say anything about a row answers NaN for all its classes. Rows with the same silent teachers share
one smaller label space, so there is one merge per pattern and never a loop over rows.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from array_api_compat import array_namespace, is_torch_array
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.utils import gen_batches
from sklearn.utils.validation import _get_feature_names, validate_data

from sklearn_uhc.label_space import LabelSpace
from sklearn_uhc.utils.rows import take_rows

#: Rows checked at a time.
CHECKED_ROWS = 1024
#: Rows looked at, more or less, to tell what kind of numbers they hold.
SEEN_ROWS = 100
#: So many sums of a teacher's row or more tell probabilities, even if they were rounded.
ENOUGH_SUMS = 5


class Pattern(NamedTuple):
    """Rows for which the same teachers answer."""

    rows: NDArray[np.int_]
    teachers: NDArray[np.int_]  #: who answers
    space: LabelSpace  #: of those teachers
    columns: NDArray[np.int_]  #: their columns among the K
    classes: NDArray[np.int_]  #: their classes among the L


def read_answers(estimator: Any, X: Any, *, reset: bool) -> Any:
    """Validate a matrix of floats that may hold NaN and infinities; a torch tensor stays one."""
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


def to_numpy(X: Any) -> NDArray[Any]:
    """Return an array of numpy; a tensor may be on any device."""
    return np.asarray(X.detach().cpu() if is_torch_array(X) else X)


def space_of_answers(X: Any, class_lists: Sequence[Any] | None, names: Any) -> LabelSpace:
    """Return the label space of X; without lists, X is one block and `names`, or its columns' numbers, the classes."""
    own = range(X.shape[1]) if names is None else names
    if class_lists is None and all(re.match(r"teacher\d+__", str(name)) for name in own):
        raise ValueError("These are the answers of several teachers: say which with class_lists=outputs.class_lists_.")
    if class_lists is None:
        _refuse_side_by_side(X)
    space = LabelSpace([own] if class_lists is None else class_lists)
    if class_lists is not None and names is not None:
        _compare_names(names, space)
    if space.n_outputs != X.shape[1]:
        raise ValueError(
            f"X has {X.shape[1]} columns, but the {space.n_teachers} class lists name "
            f"{space.n_outputs} classes in all: X must have one column per teacher and class."
        )
    return space


def _compare_names(names: Any, space: LabelSpace) -> None:
    """Refuse columns named `teacher<i>__<class>` whose classes are not those of the class lists, in their order."""
    found = [re.match(r"teacher\d+__(.*)", str(name), re.DOTALL) for name in names]
    for name, match, label in zip(names, found, space.column_names, strict=False):
        if all(found) and match is not None and match[1] != label:
            raise ValueError(
                f"The column {name!r} stands where the class lists name {label!r}: give the lists in the order of the "
                "columns (outputs.class_lists_), or, to rename classes, an array without names."
            )


def check_given(log_p: Any, space: LabelSpace, n: int | None = None) -> Any:
    """Check form, names and kind of answers that were computed before, and return them without names.

    NaN and infinity are left to `check_answers`.
    """
    if issparse(log_p):
        raise TypeError("log_p is sparse, but every class has a log-probability: pass log_p.toarray().")
    if isinstance(log_p, (list, tuple)):
        if len(log_p) and np.ndim(log_p[0]) == 2:
            raise ValueError(
                f"log_p is a list of {len(log_p)} arrays: put them side by side, teacher by teacher, with "
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
    if hasattr(log_p, "to_numpy"):  # a frame, perhaps of objects
        values = log_p.to_numpy()
        log_p = values if values.dtype.kind == "f" else values.astype(float)
    refuse_probabilities(log_p, space, name="log_p")
    return log_p


def _some_rows(X: Any) -> NDArray[np.float64]:
    """Return some rows from all over X."""
    return to_numpy(take_rows(X, slice(None, None, max(1, len(X) // SEEN_ROWS)))).astype(float)


def refuse_probabilities(X: Any, space: LabelSpace, name: str = "X") -> None:
    """Raise if some rows are probabilities, as they are or in percent, of which somebody forgot to take logarithms."""
    rows = _some_rows(X)
    lengths = np.array([len(labels) for labels in space.class_lists])
    sums = np.stack([rows[:, block].sum(axis=1) for block in space.blocks], axis=1)
    answered = ~np.isnan(sums) & (lengths > 1)  # a single class may have the logit 1
    if answered.sum() < 2 or (rows < 0).any():  # one sum of logits may be 1 by chance
        return
    many = answered.sum() >= ENOUGH_SUMS
    for whole, unit in ((1, ""), (100, " in percent")):
        off = np.abs(sums / whole - 1)
        exact = (off <= (1e-3 if many else 1e-5))[answered].all()  # half precision needs the former
        if exact or (many and _are_rounded(rows / whole, np.where(answered, off, 0), lengths)):
            raise ValueError(f"{name} holds probabilities{unit}: what is needed are their logarithms, or logits.")


def _are_rounded(P: NDArray[np.float64], off: NDArray[np.float64], lengths: NDArray[np.int_]) -> bool:
    """Say whether these are rounded to some digits, some is a clear answer, and sums miss 1 by no more than rounding.

    Logits that sum to about 1, as cosines may, are none of the first two.
    """
    if not 0.5 < np.nanmax(P) < np.inf:
        return False
    for digits in (2, 3, 4):
        on_grid = not (np.abs(P - P.round(digits)) > 1e-3 * 10.0**-digits).any()
        if on_grid and (off <= np.minimum(0.5 * 10.0**-digits * lengths, 0.05) + 1e-6).all():
            return True
    return False


def _refuse_side_by_side(X: Any) -> None:
    """Raise if rows that should be of one teacher are several distributions side by side, the same split in all."""
    rows = _some_rows(X)
    rows = rows[~np.isnan(rows).any(axis=1)]
    if len(rows) < ENOUGH_SUMS or (rows > 0).any() or np.isin(rows, (0, -np.inf)).all():
        return
    upto = np.exp(rows).cumsum(axis=1)
    n = round(float(upto[0, -1]))
    ends = [(np.abs(upto - m) < 1e-3).all(axis=0).any() for m in range(1, n)]
    if 2 <= n < rows.shape[1] and all(ends) and (np.abs(upto[:, -1] - n) < 1e-3).all():
        raise ValueError(
            f"Every row holds {n} distributions side by side, the answers of several teachers: say which with "
            "class_lists=outputs.class_lists_."
        )


def check_answers(X: Any, slices: Sequence[slice], abstain: bool, name: str = "The array of answers") -> None:
    """Refuse +inf and NaN, but for teachers that are silent about a row if they may be."""
    for rows in gen_batches(len(X), CHECKED_ROWS):
        part = X[rows]
        xp = array_namespace(part)
        if bool(xp.any(xp.isnan(part))):
            _check_silence(np.isnan(to_numpy(part)), slices, abstain, rows.start, name)
        bad = xp.isinf(part) & (part > 0)
        if bool(xp.any(bad)):
            row, column = (int(index[0]) for index in xp.nonzero(bad))
            raise ValueError(
                f"{name} contains infinity, first in row {rows.start + row}, column {column}. Only -inf, the "
                "logarithm of zero, is allowed."
            )


def _check_silence(missing: NDArray[np.bool_], slices: Sequence[slice], abstain: bool, first: int, name: str) -> None:
    whole = np.stack([missing[:, block].all(axis=1) for block in slices], axis=1)
    part = np.stack([missing[:, block].any(axis=1) for block in slices], axis=1) & ~whole
    bad = part if abstain else part | whole
    if bad.any():
        row, teacher = (int(index[0]) for index in np.nonzero(bad))
        column = slices[teacher].start + int(np.argmax(missing[row, slices[teacher]]))
        why = (
            "A teacher must answer for all its classes, or for none of them."
            if part[row, teacher]
            else ("A teacher must answer every row; with abstain=True it may leave rows out.")
        )
        raise ValueError(f"{name} contains NaN, first in row {first + row}, column {column} (teacher {teacher}). {why}")


def silent_teachers(X: Any, slices: Sequence[slice]) -> NDArray[np.bool_]:
    """Return (n, N): True where a teacher says nothing about a row."""
    xp = array_namespace(X)
    return to_numpy(xp.stack([xp.isnan(X[:, block.start]) for block in slices], axis=1))


def kinds_of_rows(silent: NDArray[np.bool_]) -> NDArray[np.int_]:
    """Return (n,): a number for every set of silent teachers."""
    kind_of = np.zeros(len(silent), dtype=np.int64)
    for first in range(0, silent.shape[1], 31):  # numbers for rows of bits: sorting the rows themselves is slow
        bits = silent[:, first : first + 31]
        kind_of = np.unique(kind_of * 2**31 + bits @ (2 ** np.arange(bits.shape[1])), return_inverse=True)[1]
    return kind_of


def rows_by_speakers(speaking: NDArray[np.bool_], most: int) -> Iterator[tuple[NDArray[np.bool_], NDArray[np.int_]]]:
    """Yield the sets of two teachers or more that most often answer together, `most` at most, each with its rows.

    A row of another set goes to the largest one that all answer it, or to none.
    """
    speaking = speaking & (speaking.sum(axis=1) > 1)[:, None]
    _, example, count = np.unique(kinds_of_rows(~speaking), return_index=True, return_counts=True)
    order = np.argsort(-count, kind="stable")
    sets = speaking[example[order]]
    sets = sets[sets.any(axis=1)][:most]
    if not len(sets):
        return
    sets = sets[np.argsort(-sets.sum(axis=1), kind="stable")]
    missing = sets.astype(np.float32) @ (~speaking).T.astype(np.float32)
    fits = missing < 0.5
    goes_to = np.where(fits.any(axis=0), fits.argmax(axis=0), -1)
    for k, members in enumerate(sets):
        yield members, np.flatnonzero(goes_to == k)


def patterns(silent: NDArray[np.bool_], space: LabelSpace) -> Iterator[Pattern]:
    """Group rows by their silent teachers; rows without any answer are in no group."""
    kind_of = kinds_of_rows(silent)
    for k, example in enumerate(np.unique(kind_of, return_index=True)[1]):
        if not silent[example].all():
            teachers = np.flatnonzero(~silent[example])
            part = space.restrict(teachers)
            columns = np.concatenate([np.arange(space.n_outputs)[space.blocks[i]] for i in teachers])
            rows = np.flatnonzero(kind_of == k)
            yield Pattern(rows, teachers, part, columns, np.flatnonzero(space.mask[teachers].any(axis=0)))
