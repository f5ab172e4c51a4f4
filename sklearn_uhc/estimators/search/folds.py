"""Which teachers are held out together, and which of their columns can be compared with the others."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sklearn_uhc.spaces.label_space import LabelSpace, shorten

#: Default maximum number of folds; a search needs this many fits per candidate.
MOST_FOLDS = 10


class Comparison(NamedTuple):
    """The columns of a held-out teacher that can be compared with the merge of the others."""

    teacher: int
    columns: NDArray[np.int_]  #: the teacher's columns, among all K
    column_of: NDArray[np.int_]  #: (classes of the others,), position in `columns` of each class's column, or -1
    group: NDArray[np.int_]  #: (columns,), group of each column; the others link only classes of the same group


class Fold(NamedTuple):
    """Teachers that are held out together, and those that are merged."""

    rest: NDArray[np.int_]
    space: LabelSpace  #: of the rest
    comparisons: list[Comparison]


def make_folds(space: LabelSpace, folds: Any) -> list[Fold]:
    """Return the folds of teachers; raise an error if teachers cannot be held out."""
    if space.n_teachers < 3:
        raise ValueError(
            f"Holding a teacher out needs at least 3 teachers, so that two are left to merge; got {space.n_teachers}. "
            "If you have labelled rows, use GridSearchCV(estimator, grid).fit(X, y); else keep the default settings."
        )
    groups = _groups(space, folds)
    made = [_fold(space, held) for held in groups]
    found = [fold for fold in made if fold.comparisons]
    if not found:
        raise ValueError(
            "No teacher can be compared with the others: none shares two classes with them that they link. "
            f"{space.describe()}. If you have labelled rows, use GridSearchCV(estimator, grid).fit(X, y); else keep "
            "the default settings."
        )
    return found


def _groups(space: LabelSpace, folds: Any) -> list[list[int]]:
    """Return the teachers of every fold."""
    N = space.n_teachers
    if folds is None:
        return spread(space, min(N, MOST_FOLDS))
    if isinstance(folds, Integral) and not isinstance(folds, bool):
        least = 2 if N > 3 else 3
        if folds < least:
            raise ValueError(f"folds must be at least {least} with {N} teachers, so that two are left; got {folds}.")
        return spread(space, min(N, int(folds)))
    if isinstance(folds, str) or not isinstance(folds, Sequence) or not len(folds):
        raise TypeError(
            f"folds must be None, a number, or a list of groups of teachers that are held out together, got {folds!r}."
        )
    return _given(space, folds)


def _given(space: LabelSpace, folds: Sequence[Any]) -> list[list[int]]:
    """Return groups passed by the user, as names or numbers."""
    numbers: dict[Any, int] = {name: i for i, name in enumerate(space.teacher_names)}
    numbers |= {i: i for i in range(space.n_teachers)}
    groups: list[list[Any]] = [[group] if isinstance(group, (str, Integral)) else list(group) for group in folds]
    wrong = [t for group in groups for t in group if t not in numbers]
    if wrong:
        raise ValueError(
            f"folds names unknown teachers: {shorten(wrong)}; the teachers are "
            f"{shorten(space.teacher_names)}, or 0 to {space.n_teachers - 1}."
        )
    held = [[numbers[t] for t in group] for group in groups]
    flat = [t for group in held for t in group]
    if len(set(flat)) < len(flat):
        raise ValueError("folds holds the same teacher out twice: each may be in one group only.")
    _check_sizes(held, space.n_teachers)
    return held


def _check_sizes(held: list[list[int]], n_teachers: int) -> None:
    """Raise an error for a group without teachers, and for one that leaves fewer than two to merge."""
    for group in held:
        if not group or n_teachers - len(group) < 2:
            raise ValueError(
                f"A group of {len(group)} of {n_teachers} teachers cannot be held out: each group needs at least one "
                "teacher, and two must be left to merge."
            )


def spread(space: LabelSpace, n_folds: int) -> list[list[int]]:
    """Spread teachers over folds of equal size; those that share few classes go together, so that few are lost."""
    groups: list[list[int]] = [[] for _ in range(n_folds)]
    shared = space.mask.astype(int) @ space.mask.T.astype(int)
    for teacher in np.argsort(-space.mask.sum(axis=1), kind="stable").tolist():
        smallest = min(map(len, groups))
        free = [group for group in groups if len(group) == smallest]
        min(free, key=lambda group: shared[teacher, group].sum()).append(teacher)
    return sorted(sorted(group) for group in groups)


def _fold(space: LabelSpace, held: list[int]) -> Fold:
    rest = np.setdiff1d(np.arange(space.n_teachers), held)
    others = space.restrict(rest)
    found = (compare(space, teacher, others) for teacher in held)
    return Fold(rest, others, [comparison for comparison in found if comparison is not None])


def compare(space: LabelSpace, teacher: int, others: LabelSpace) -> Comparison | None:
    """Return how a teacher can be compared, or None if it has no two columns that the others link.

    A column counts if the others know all its classes and link them. Classes that they do not link are a guess.
    """
    at = {label: j for j, label in enumerate(others.classes.tolist())}
    place = np.array([at.get(label, -1) for label in space.classes.tolist()])
    columns, groups = [], []
    block = space.blocks[teacher]
    for column in range(block.start, block.stop):
        classes = place[space.members[space.offsets[column] : space.offsets[column + 1]]]
        linked = set(others.components[classes].tolist())
        if (classes >= 0).all() and len(linked) == 1:
            columns.append(column)
            groups.append(linked.pop())
    group = np.array(groups, dtype=int)
    several = np.isin(group, np.flatnonzero(np.bincount(group, minlength=1) > 1))
    if not several.any():
        return None
    kept = np.array(columns)[several]
    column_of = np.full(others.n_classes, -1)
    for k, column in enumerate(kept):
        column_of[place[space.members[space.offsets[column] : space.offsets[column + 1]]]] = k
    return Comparison(teacher, kept, column_of, group[several])
