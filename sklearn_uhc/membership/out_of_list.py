"""Memberships in a merge: a teacher's scorer acts as one more teacher with two columns, (its classes, OTHER).

A scorer is any object with `predict_membership(X)`, shape (n,), values in [0, 1]: d(x), the probability that a row
belongs to any of the teacher's classes. The answers (d, 1 - d) are added to those of the teachers after calibration,
with their own weight. "None of these" is an additional class that is only part of OTHER.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
from array_api_compat import array_namespace, device, is_torch_array
from numpy.typing import NDArray
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from sklearn_uhc.answers import Answers
from sklearn_uhc.spaces.class_sets import OTHER, is_missing
from sklearn_uhc.spaces.label_space import LabelSpace, shorten
from sklearn_uhc.utils.disk import stack
from sklearn_uhc.utils.features import own_columns
from sklearn_uhc.utils.notes import add_note, warn_user
from sklearn_uhc.utils.rows import chunks, count_rows, row_bytes, take_columns, take_rows
from sklearn_uhc.utils.unchanged import unchanged

#: Smallest d and 1 - d; smaller ones are raised to it, since scorers return 0 and 1. It is the floor of a binary tree.
LEAST = 0.025
#: Rounding error by which d may leave [0, 1]: that of float32.
ROUNDING = float(np.finfo(np.float32).eps)


@dataclass(frozen=True, eq=False)
class Memberships:
    """The scorers that take part in a merge, and the label space with them.

    Parameters
    ----------
    scorers : list of M scorers
        Those that say something.
    whose : list of M int
        The teacher of each.
    titles : list of M str
        What messages call them.
    space : LabelSpace
        The teachers, followed by one list of two columns per scorer.
    weight : float
        Weight of a scorer relative to the mean weight of the teachers.
    folder : str, path or None
        Where large arrays are kept; None: in memory.
    """

    scorers: list[Any]
    whose: list[int]
    titles: list[str]
    space: LabelSpace
    weight: float
    folder: Any = None

    def join(self, answers: Answers, X: Any) -> Answers:
        """Return answers with those of the scorers added.

        A row that no teacher answers stays unanswered, unless there is "none of these": then scorers decide alone.
        """
        return self.join_scores(answers, self.read(X))

    def join_scores(self, answers: Answers, D: NDArray[np.float64]) -> Answers:
        """Return answers with memberships (n, M) added."""
        if len(D) != len(answers):
            raise ValueError(f"Membership has {len(D)} rows, but the teachers' answers have {len(answers)}.")
        D = np.clip(D, LEAST, 1 - LEAST)
        more = np.stack([np.log(D), np.log1p(-D)], axis=2).reshape(len(D), -1)
        named = answers.space.named.any(axis=0).sum()
        unanswered = ~answers.answered & (named == self.space.n_classes)
        more[unanswered] = np.nan
        silent = answers.silent
        if silent is not None:
            silent = np.hstack([silent, np.repeat(unanswered[:, None], D.shape[1], axis=1)])
        # Sets of teachers are right at every temperature only if all columns are tempered alike.
        untempered = None if answers.space.has_sets else np.arange(self.space.n_teachers) >= answers.space.n_teachers
        return Answers(
            self._beside(answers.log_p, more), self.space, silent, self._teacher_weights(answers), untempered
        )

    def read(self, X: Any) -> NDArray[np.float64]:
        """Call all scorers, and return (n, M)."""
        return np.stack([read_scorer(*each, X) for each in zip(self.scorers, self.titles, strict=True)], axis=1)

    def _teacher_weights(self, answers: Answers) -> NDArray[np.float64]:
        teacher_weight = (
            np.ones(answers.space.n_teachers)
            if answers.teacher_weight is None
            else answers.teacher_weight / answers.teacher_weight.max()
        )
        return np.append(teacher_weight, np.full(len(self.whose), self.weight * teacher_weight.mean()))

    def _beside(self, log_p: Any, more: NDArray[np.float64]) -> Any:
        if is_torch_array(log_p):
            xp = array_namespace(log_p)
            return xp.concat([log_p, xp.asarray(more, dtype=log_p.dtype, device=device(log_p))], axis=1)
        parts = chunks(len(log_p), 2 * log_p.dtype.itemsize * self.space.n_outputs)
        joined = (np.hstack([log_p[rows], more[rows].astype(log_p.dtype)]) for rows in parts)
        return stack(joined, len(log_p), self.folder)


def make_memberships(
    membership: Any, weight: Any, none_label: Any, space: LabelSpace, teachers: Sequence[Any] = (), folder: Any = None
) -> Memberships | None:
    """Return the memberships for these parameters of a merge, or None; raise an error if one of them is wrong."""
    _check_weight(weight)
    scorers = find_scorers(membership, space, teachers)
    found = [i for i, scorer in enumerate(scorers) if scorer is not None] if weight > 0 else []
    new = [] if none_label is None or none_label in space.classes.tolist() else [none_label]
    whose = found if new else _informative(found, space, say=not isinstance(membership, str))
    if none_label is not None:
        _check_none(none_label, space, whose)
    if not whose:
        return None
    titles = [f"the membership scorer of {space.called(i)}" for i in whose]
    return Memberships(
        [scorers[i] for i in whose], whose, titles, extended_space(space, whose, new), float(weight), folder
    )


def _informative(found: list[int], space: LabelSpace, say: bool) -> list[int]:
    """Return the scorers whose teachers do not know all classes."""
    empty = [i for i in found if space.mask[i].all()]
    if empty and say:
        names = ", ".join(space.called(i) for i in empty)
        warn_user(f"The membership of {names} is ignored: it covers all classes, so it says nothing.")
    return [i for i in found if i not in empty]


def _check_weight(weight: Any) -> None:
    number = isinstance(weight, Real) and not isinstance(weight, bool) and 0 <= float(weight) < np.inf
    if not number:
        raise ValueError(f"membership_weight must be a number of at least 0, got {weight!r}.")


def find_scorers(membership: Any, space: LabelSpace, teachers: Sequence[Any] = ()) -> list[Any]:
    """Return a scorer or None for every teacher, checked as far as possible without rows."""
    N = space.n_teachers
    if membership is None:
        return [None] * N
    if isinstance(membership, str):
        if membership != "auto":
            raise ValueError(f'membership must be None, "auto", or a scorer or None per teacher, got {membership!r}.')
        given = [_carried(teacher) for teacher in teachers] or [None] * N
    else:
        given = _in_order(membership, space)
    for i, scorer in enumerate(given):
        if scorer is not None and (isinstance(scorer, type) or not hasattr(scorer, "predict_membership")):
            raise TypeError(
                f"The membership of {space.called(i)} must be a fitted scorer with predict_membership(X), or None, got "
                f"{scorer!r}. fit_membership makes one."
            )
        _check_fitted(scorer, space.called(i))
    return given


def _check_fitted(scorer: Any, who: str) -> None:
    """Raise an error for a scorer that is not fitted; objects without fit cannot be."""
    if scorer is None or not hasattr(scorer, "fit"):
        return
    try:
        check_is_fitted(scorer)
    except NotFittedError as error:
        raise NotFittedError(
            f"The membership scorer of {who} is not fitted: fit_membership makes one that is. In a search over "
            "`membership` itself, wrap each scorer in sklearn.frozen.FrozenEstimator."
        ) from error


def _carried(teacher: Any) -> Any:
    """Return what a teacher has as `membership_`; None for an array, such as the memberships of fuzzy clusters."""
    scorer = getattr(teacher, "membership_", None)
    return None if hasattr(scorer, "shape") else scorer


def _in_order(membership: Any, space: LabelSpace) -> list[Any]:
    """Return scorers in the order of the teachers; None for teachers missing from a dict."""
    if isinstance(membership, Mapping):
        names = space.teacher_names
        if unknown := [name for name in membership if name not in names]:
            raise ValueError(
                f"membership names unknown teachers: {shorten(unknown)}; the teachers are {shorten(names)}."
            )
        return [membership.get(name) for name in names]
    if not isinstance(membership, Sequence):
        raise TypeError(
            f'membership must be None, "auto", a list with a scorer or None per teacher, or a dict of scorers by '
            f"teacher name, got {membership!r}."
        )
    if len(membership) != space.n_teachers:
        raise ValueError(
            f"membership has {len(membership)} entries for {space.n_teachers} teachers: pass a scorer or None for each."
        )
    return list(membership)


def extended_space(space: LabelSpace, whose: list[int], new: list[Any]) -> LabelSpace:
    """Return the space with a list (classes of the teacher, OTHER) for every scorer, and new classes in OTHER."""
    lists: dict[str, Any] = dict(zip(space.teacher_names, space.class_lists, strict=True))
    for i in whose:
        name = f"membership of {space.teacher_names[i]}"
        while name in lists:
            name += "'"
        lists[name] = [tuple(space.classes[space.mask[i]].tolist()), OTHER]
    return LabelSpace(lists, universe=[*space.classes.tolist(), *new])


def universe_of(none_label: Any) -> list[Any] | None:
    """Return the classes that are only part of OTHER."""
    if none_label is None:
        return None
    if isinstance(none_label, tuple) or none_label is OTHER or np.ndim(none_label) > 0 or is_missing(none_label):
        raise ValueError(f"none_label must be one label of the type of the classes, got {none_label!r}.")
    return [none_label]


def with_none(answers: Answers, none_label: Any) -> Answers:
    """Return answers in which OTHER includes "none of these"."""
    space = answers.space
    lists = dict(zip(space.teacher_names, space.class_lists, strict=True)) if space.is_named else space.class_lists
    wider = LabelSpace(lists, universe=[*space.classes.tolist(), none_label])
    return Answers(answers.log_p, wider, answers.silent, answers.teacher_weight)


def _check_none(none_label: Any, space: LabelSpace, whose: list[int]) -> None:
    """Raise an error if "none of these" is already a class, of another type, or not in any OTHER."""
    values = space.classes.tolist()
    whole = all(isinstance(value, int) for value in values)
    if isinstance(none_label, str) != isinstance(values[0], str) or (whole and isinstance(none_label, float)):
        raise TypeError(
            f"none_label={none_label!r} must have the type of the classes, since it becomes one of them. They are "
            f"{shorten(values)}."
        )
    if none_label in values and space.named[:, values.index(none_label)].any():
        raise ValueError(f"none_label={none_label!r} is already a class of a teacher: choose another label.")
    if none_label not in values and not whose:
        raise ValueError(
            f"none_label={none_label!r} would be undetermined: no teacher has OTHER among its classes, and no "
            "membership scorer is in use. Pass scorers as membership=, or leave none_label out."
        )
    others = np.flatnonzero(space.mask[:, values.index(none_label)]).tolist() if none_label in values else []
    known = space.named[:, space.classes != none_label]
    if len(others) + len(whose) == 1 and not known[[*others, *whose]].all():
        what = f"OTHER of {space.called(others[0])}" if others else f"the membership of {space.called(whose[0])}"
        warn_user(
            f"none_label={none_label!r} rests on one column, {what}: small errors of small probabilities become large "
            "there, and rows of known classes may be taken for it. Give other teachers a membership scorer or OTHER as "
            "well."
        )


def read_scorer(scorer: Any, title: str, X: Any) -> NDArray[np.float64]:
    """Return one scorer's answers for all rows, called in chunks and checked."""
    columns, n = own_columns(scorer, X, title), count_rows(X)
    out = np.empty(n)
    for rows in chunks(n, 2 * row_bytes(X)):
        part = X if rows == slice(0, n) else take_rows(X, rows)
        part = part if columns is None else take_columns(part, columns)
        try:
            found = unchanged(scorer, scorer.predict_membership, part)
        except Exception as error:
            add_note(error, f"This came from {title}.")
            raise
        out[rows] = _checked(found, rows, title)
    return out


def _checked(found: Any, rows: slice, title: str) -> NDArray[np.float64]:
    n = rows.stop - rows.start
    d = np.asarray(found)
    if d.shape != (n,) or d.dtype.kind not in "fiub":
        raise ValueError(
            f"predict_membership must return one number per row; {title} gave {d.dtype} of shape {d.shape} for "
            f"{n} rows."
        )
    bad = ~((d >= -ROUNDING) & (d <= 1 + ROUNDING))  # also NaN
    if bad.any():
        row = int(np.argmax(bad))
        raise ValueError(
            f"predict_membership must return numbers from 0 to 1; {title} gave {float(d[row]):.4g} for row "
            f"{rows.start + row}."
        )
    return d.astype(float)
