"""The teachers' answers as one value: checked when it is made, then passed from step to step.

Answers are log-probabilities, (n, K) with the teachers side by side. A teacher that has no answer for a row returns NaN
for all its classes. Rows with the same silent teachers share one smaller label space, so there is one merge per pattern
and never a loop over rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from array_api_compat import array_namespace, device, is_torch_array
from numpy.typing import NDArray

from sklearn_uhc.spaces.label_space import LabelSpace

#: Number of rows checked at a time.
CHECKED_ROWS = 1024


class Pattern(NamedTuple):
    """Rows for which the same teachers answer."""

    rows: NDArray[np.int_]
    teachers: NDArray[np.int_]  #: teachers that answer
    space: LabelSpace  #: label space of those teachers
    columns: NDArray[np.int_]  #: their columns among all K
    classes: NDArray[np.int_]  #: their classes among all L


@dataclass(frozen=True, eq=False)
class Answers:
    """The teachers' answers for n rows, and what their columns stand for.

    Parameters
    ----------
    log_p : array or tensor of shape (n, K)
        Log-probabilities, or logits with any shift per teacher; -inf is the logarithm of 0.
    space : LabelSpace
        What the columns stand for, and the teachers' names.
    silent : ndarray of bool of shape (n, N) or None
        Where a teacher leaves a row unanswered (NaN in its whole block); None if all answer every row.
    teacher_weight : ndarray of shape (N,) or None
        Weight of every teacher; None if all are equal.
    untempered : ndarray of bool of shape (N,) or None
        Teachers whose answers a merge compares with its tempered soft labels without tempering them; None if all
        answers are tempered.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_uhc import LabelSpace
    >>> from sklearn_uhc.answers import Answers
    >>> log_p = np.log([[0.8, 0.2, 0.5, 0.5], [0.1, 0.9, np.nan, np.nan]])
    >>> answers = Answers.of(log_p, LabelSpace([["cat", "dog"], ["dog", "eel"]]), abstain=True)
    >>> answers.silent.tolist()
    [[False, False], [False, True]]
    """

    log_p: Any
    space: LabelSpace
    silent: NDArray[np.bool_] | None = None
    teacher_weight: NDArray[np.float64] | None = None
    untempered: NDArray[np.bool_] | None = None

    @classmethod
    def of(
        cls,
        log_p: Any,
        space: LabelSpace,
        *,
        abstain: bool,
        teacher_weight: Any = None,
        source: str = "The array of answers",
    ) -> Answers:
        """Check a matrix and find silent teachers; raise an error for +inf, and for NaN unless teachers may abstain."""
        silent = find_silence(log_p, space, abstain, source)
        return cls(log_p, space, silent, None if teacher_weight is None else np.asarray(teacher_weight, dtype=float))

    def __len__(self) -> int:
        return len(self.log_p)

    @property
    def answered(self) -> NDArray[np.bool_]:
        """(n,): whether any teacher answers for a row."""
        if self.silent is None:
            return np.ones(len(self), dtype=bool)
        return np.asarray(~self.silent.all(axis=1))

    @property
    def speaking(self) -> NDArray[np.bool_]:
        """(n, N): whether a teacher answers for a row."""
        return np.ones((len(self), self.space.n_teachers), dtype=bool) if self.silent is None else ~self.silent

    def take(self, rows: Any) -> Answers:
        """Return the answers for some rows."""
        silent = None if self.silent is None else self.silent[rows]
        where = rows
        if is_torch_array(self.log_p) and isinstance(rows, np.ndarray):
            where = array_namespace(self.log_p).asarray(rows, device=device(self.log_p))
        return replace(self, log_p=self.log_p[where], silent=silent)

    def saying(self, log_p: Any) -> Answers:
        """Return other answers of the same teachers, with the same silent rows."""
        return replace(self, log_p=log_p)

    def with_weights(self, teacher_weight: Any) -> Answers:
        """Return the same answers with other teacher weights; None means equal weights."""
        return replace(self, teacher_weight=None if teacher_weight is None else np.asarray(teacher_weight, dtype=float))

    def of_single_classes(self) -> tuple[Answers | None, NDArray[np.int_]]:
        """Return the answers in columns of single classes, and their teachers; None if no teacher has two such columns.

        A teacher's odds between such classes are those of the merge; a set would have to be split first.
        """
        space = self.space
        if not space.has_sets:
            return self, np.arange(space.n_teachers)
        single = np.where(space.set_sizes == 1, space.teacher_of, -1)
        whose = np.flatnonzero(np.bincount(single[single >= 0], minlength=space.n_teachers) > 1)
        if not len(whose):
            return None, whose
        columns = np.flatnonzero(np.isin(single, whose))
        named = zip(single[columns].tolist(), space.members[space.offsets[columns]].tolist(), strict=True)
        lists: dict[int, list[Any]] = {i: [] for i in whose.tolist()}
        for i, member in named:
            lists[i].append(space.classes[member])
        silent = None if self.silent is None else self.silent[:, whose]
        teacher_weight = None if self.teacher_weight is None else self.teacher_weight[whose]
        xp = array_namespace(self.log_p)
        log_p = xp.take(self.log_p, xp.asarray(columns, device=device(self.log_p)), axis=1)
        return Answers(
            log_p, LabelSpace([np.asarray(labels) for labels in lists.values()]), silent, teacher_weight
        ), whose

    def patterns(self) -> Iterator[Pattern]:
        """Group rows by their silent teachers; rows without any answer are left out."""
        silent = ~self.speaking
        kind_of = kinds_of_rows(silent)
        for k, example in enumerate(np.unique(kind_of, return_index=True)[1]):
            if not silent[example].all():
                yield _pattern(np.flatnonzero(kind_of == k), np.flatnonzero(~silent[example]), self.space)

    def part(self, pattern: Pattern, rows: NDArray[np.int_]) -> Answers:
        """Return the answers of a pattern's teachers for some of its rows."""
        xp, where = array_namespace(self.log_p), device(self.log_p)
        here, columns = (xp.asarray(index, device=where) for index in (rows, pattern.columns))
        teacher_weight = None if self.teacher_weight is None else self.teacher_weight[pattern.teachers]
        untempered = None if self.untempered is None else self.untempered[pattern.teachers]
        return Answers(xp.take(self.log_p[here], columns, axis=1), pattern.space, None, teacher_weight, untempered)


class AnswerArray(np.ndarray):
    """An array of answers that keeps its label space between the steps of a Pipeline."""

    label_space: LabelSpace | None

    def __array_finalize__(self, obj: Any) -> None:
        space = getattr(obj, "label_space", None)
        self.label_space = space if space is not None and self.shape[1:] == (space.n_outputs,) else None

    def __repr__(self) -> str:
        return repr(np.asarray(self))


def remembering(log_p: Any, space: LabelSpace) -> Any:
    """Return a numpy array with its label space attached; a tensor is returned as it is."""
    if not isinstance(log_p, np.ndarray):
        return log_p
    array = log_p.view(AnswerArray)
    array.label_space = space
    return array


def _pattern(rows: NDArray[np.int_], teachers: NDArray[np.int_], space: LabelSpace) -> Pattern:
    columns = np.concatenate([np.arange(space.n_outputs)[space.blocks[i]] for i in teachers])
    return Pattern(rows, teachers, space.restrict(teachers), columns, np.flatnonzero(space.mask[teachers].any(axis=0)))


def find_silence(X: Any, space: LabelSpace, abstain: bool, source: str) -> NDArray[np.bool_] | None:
    """Return (n, N), True where a teacher is silent, or None if none is; raise an error for +inf and forbidden NaN."""
    silent = None
    for start in range(0, len(X), CHECKED_ROWS):
        rows = slice(start, min(start + CHECKED_ROWS, len(X)))
        part = X[rows]
        xp = array_namespace(part)
        if float(xp.max(part)) < np.inf:  # False if there is NaN
            continue
        if bool(xp.any(xp.isnan(part))):
            silent = np.zeros((len(X), space.n_teachers), dtype=bool) if silent is None else silent
            silent[rows] = _silence(np.isnan(to_numpy(part)), space, abstain, rows.start, source)
        bad = xp.isinf(part) & (part > 0)
        if bool(xp.any(bad)):
            row, column = (int(index[0]) for index in xp.nonzero(bad))
            raise ValueError(
                f"{source} contains infinity, first in row {rows.start + row}, column {column}. Only -inf, the "
                "logarithm of zero, is allowed."
            )
    return silent


def _silence(
    missing: NDArray[np.bool_], space: LabelSpace, abstain: bool, first: int, source: str
) -> NDArray[np.bool_]:
    """Return which teachers are silent for these rows; raise an error if a teacher must not be."""
    whole = np.stack([missing[:, block].all(axis=1) for block in space.blocks], axis=1)
    part = np.stack([missing[:, block].any(axis=1) for block in space.blocks], axis=1) & ~whole
    bad = part if abstain else part | whole
    if bad.any():
        row, teacher = (int(index[0]) for index in np.nonzero(bad))
        column = space.blocks[teacher].start + int(np.argmax(missing[row, space.blocks[teacher]]))
        why = (
            "A teacher must answer for all its classes, or for none of them."
            if part[row, teacher]
            else "A teacher must answer every row; with abstain=True it may leave rows out."
        )
        where = f"row {first + row}, column {column} ({space.called(teacher)})"
        raise ValueError(f"{source} contains NaN, first in {where}. {why}")
    return whole


def to_numpy(X: Any) -> NDArray[Any]:
    """Return a numpy array; a tensor may be on any device."""
    return np.asarray(X.detach().cpu() if is_torch_array(X) else X)


def kinds_of_rows(silent: NDArray[np.bool_]) -> NDArray[np.int_]:
    """Return (n,): a number for each set of silent teachers."""
    kind_of = np.zeros(len(silent), dtype=np.int64)
    for first in range(0, silent.shape[1], 31):  # rows of bits as numbers, since sorting the rows themselves is slow
        bits = silent[:, first : first + 31]
        kind_of = np.unique(kind_of * 2**31 + bits @ (2 ** np.arange(bits.shape[1])), return_inverse=True)[1]
    return kind_of


def rows_by_speakers(speaking: NDArray[np.bool_], most: int) -> Iterator[tuple[NDArray[np.bool_], NDArray[np.int_]]]:
    """Yield the sets of two or more teachers that most often answer together, at most `most`, each with its rows.

    A row of another set is assigned to the largest set whose teachers all answer it, or to none.
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
