"""Compare what teachers mean by shared classes, on the rows where each is surest, without labels.

Column a of teacher i stands for class c. Its surest rows are those with the largest p_a. Their number is MASS times the
smaller of n / L and the sum of p_a. Rows of classes that the teacher has never seen are seldom among them. Teacher j
answers the same rows; t is its mean answer there, restricted to the classes that both know and normalised. It
*confirms* c if t is largest there:

    margin = t_c - max over other shared classes of t,        strength = (t_c - 1 / s) / (1 - 1 / s)

with s shared classes, so that strength is 1 if j is as sure and 0 if j guesses. There is one comparison for every class
and ordered pair of teachers that share it and at least one more.

Weak teachers are unsure (strength falls), but seldom prefer another class (margins stay positive). If names are wrong,
or rows belong to no teacher's classes, they do.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csc_array

from sklearn_uhc.answers import Answers, to_numpy
from sklearn_uhc.label_space import LabelSpace
from sklearn_uhc.suggestions.behaviour import surest_rows
from sklearn_uhc.utils.rows import some_rows

Floats = NDArray[np.float64]

#: Number of surest rows of a class, as a share of n / L: fewer than a class has, so that uneven classes do little harm.
MASS = 0.5
#: A class with fewer surest rows is not compared.
LEAST_ROWS = 12
#: A teacher must answer at least this share of another's surest rows.
LEAST_ANSWERED = 0.2
#: Up to this many columns, dense matrix products are faster than sparse ones.
DENSE = 200
#: Number of rows used: this many per class, within bounds, and at most MOST_ANSWERS answers.
ROWS_PER_CLASS, FEWEST_ROWS, MOST_ROWS, MOST_ANSWERS = 40, 600, 5_000, 4_000_000


@dataclass(frozen=True)
class Comparisons:
    """One entry for each class c of teacher i and each other teacher j that knows it."""

    teacher: NDArray[np.int_]  #: (m,), i
    other: NDArray[np.int_]  #: (m,), j
    label: NDArray[np.int_]  #: (m,), c
    choice: NDArray[np.int_]  #: (m,), the class that j prefers there among the shared ones
    strength: Floats  #: (m,)
    margin: Floats  #: (m,)
    n_rows: Floats  #: (m,), number of surest rows

    @classmethod
    def joined(cls, parts: list[Comparisons]) -> Comparisons:
        """Concatenate comparisons."""
        names = [field.name for field in fields(cls)]
        return cls(**{name: np.concatenate([getattr(part, name) for part in parts]) for name in names})

    def __len__(self) -> int:
        return len(self.margin)

    def where(self, mask: NDArray[np.bool_]) -> Comparisons:
        """Return those where the mask holds."""
        return Comparisons(**{field.name: getattr(self, field.name)[mask] for field in fields(self)})

    def twice(self) -> Comparisons:
        """Return each comparison twice, with the roles of the two teachers exchanged."""
        return Comparisons.joined([self, replace(self, teacher=self.other, other=self.teacher)])

    def of(self, i: int) -> Comparisons:
        """Return those that involve teacher i, on either side."""
        return self.where((self.teacher == i) | (self.other == i))

    def without(self, teachers: Any) -> Comparisons:
        """Return those that involve none of these teachers."""
        gone = list(teachers)
        return self.where(~np.isin(self.teacher, gone) & ~np.isin(self.other, gone))

    @property
    def confirmed(self) -> float:
        """Share of comparisons in which the other teacher prefers the same class."""
        return float((self.margin > 0).mean()) if len(self) else np.nan

    @property
    def mean_strength(self) -> float:
        """Mean strength."""
        return float(self.strength.mean()) if len(self) else np.nan

    @property
    def against(self) -> float:
        """Mean excess of the class that the other teacher prefers instead."""
        return float(np.maximum(0.0, -self.margin).mean()) if len(self) else np.nan


class _Columns(NamedTuple):
    """The columns of single classes, of teachers that have some."""

    at: NDArray[np.int_]  #: (K',), indices among the K columns
    teacher_of: NDArray[np.int_]  #: (K',)
    class_of: NDArray[np.int_]  #: (K',)
    who: NDArray[np.int_]  #: (N',), the teachers
    starts: NDArray[np.int_]  #: (N',), start of their columns
    where: NDArray[np.int_]  #: (N', L), the column of each class, -1 if there is none

    @classmethod
    def of(cls, space: LabelSpace) -> _Columns:
        at = np.flatnonzero(space.set_sizes == 1)
        teacher_of, class_of = space.teacher_of[at], space.members[space.offsets[at]]
        who, starts, index = np.unique(teacher_of, return_index=True, return_inverse=True)
        where = np.full((len(who), space.n_classes), -1)
        where[index, class_of] = np.arange(len(at))
        return cls(at, teacher_of, class_of, who, starts, where)


def enough_rows(answers: Answers) -> Answers | None:
    """Return evenly spaced rows to compare on, or None if they are too few for the number of classes."""
    space = answers.space
    wanted = int(np.clip(ROWS_PER_CLASS * space.n_classes, FEWEST_ROWS, MOST_ROWS))
    some = answers.take(some_rows(len(answers), max(1, min(wanted, MOST_ANSWERS // space.n_outputs))))
    return some if MASS * len(some) / space.n_classes >= LEAST_ROWS else None


def compare(answers: Answers) -> Comparisons:
    """Compare all teachers on the classes that they share."""
    space, columns = answers.space, _Columns.of(answers.space)
    Z = to_numpy(answers.log_p).astype(np.float64)
    silent = np.isnan(Z)
    P = np.exp(space.matrices.log_softmax(np.where(silent, 0.0, Z)))[:, columns.at]
    answered = ~silent[:, columns.at]
    P *= answered
    T, heard, sizes = _responses(P, answered, space.n_classes)
    enough = (heard >= LEAST_ANSWERED) & (sizes >= LEAST_ROWS)[:, None]
    return Comparisons.joined([_of_teacher(k, T, enough, sizes, columns) for k in range(len(columns.who))])


def _responses(P: Floats, answered: NDArray[np.bool_], n_classes: int) -> tuple[Floats, Floats, Floats]:
    """Return the mean of column b on the surest rows of a, (K, K), the share answered there, and their number, (K,)."""
    sizes = MASS * np.minimum(answered.sum(axis=0) / n_classes, P.sum(axis=0))
    surest = surest_rows(P, sizes)[0] * answered
    surest = (surest if P.shape[1] <= DENSE else csc_array(surest)).T
    heard = np.ones((P.shape[1], P.shape[1])) if answered.all() else surest @ answered.astype(float)
    return (surest @ P) / np.maximum(heard, 1e-12), heard, sizes


def _of_teacher(k: int, T: Floats, enough: NDArray[np.bool_], sizes: Floats, columns: _Columns) -> Comparisons:
    """Compare the classes of the k-th teacher with the answers of all others on its surest rows."""
    own, starts = np.flatnonzero(columns.teacher_of == columns.who[k]), columns.starts
    shares = (columns.where >= 0) & (columns.where[k] >= 0)  # (N', L)
    shared, known = shares.sum(axis=1), shares[k][columns.class_of]
    labels, same = columns.class_of[own], columns.where[:, columns.class_of[own]].T  # (k, N'), columns of others
    a, j = np.nonzero((same >= 0) & (shared > 1) & (np.arange(len(shared)) != k))
    t = np.where(known, T[own], 0.0)
    total, choice = np.add.reduceat(t, starts, axis=1)[a, j], _largest(t, known, columns)[a, j]
    right = t[a, same[a, j]]
    t[a, same[a, j]] = -1.0
    rival = np.maximum.reduceat(t, starts, axis=1)[a, j]
    valid = (total > 0) & enough[own[a], same[a, j]]
    total, chance = np.where(valid, total, 1.0), 1 / shared[j]
    strength = (right / total - chance) / (1 - chance)
    who = np.full(len(a), columns.who[k])
    margin, n_rows = (right - rival) / total, sizes[own[a]]
    return Comparisons(who, columns.who[j], labels[a], choice, strength, margin, n_rows).where(valid)


def _largest(t: Floats, known: NDArray[np.bool_], columns: _Columns) -> NDArray[np.int_]:
    """Return (k, N'), the class with each teacher's largest answer; in a tie, the first."""
    lengths = np.diff(np.append(columns.starts, t.shape[1]))
    best = np.repeat(np.maximum.reduceat(t, columns.starts, axis=1), lengths, axis=1)
    candidates = np.where(known & (t == best), columns.class_of, columns.where.shape[1])
    return np.asarray(np.minimum.reduceat(candidates, columns.starts, axis=1))
