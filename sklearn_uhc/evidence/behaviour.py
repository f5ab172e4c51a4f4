"""Find columns that behave alike, or add up, on unlabelled rows.

The *surest rows* of column a are those with the largest p_a. Their number is MASS times the smaller of n / L and the
sum of p_a. Foreign rows, of classes that the teacher has never seen, are seldom among them. R_ab is the mean of column
b of another teacher on the surest rows of a, divided by its mean on its own surest rows.

- Same class: R_ab and R_ba are near 1, and R_ca and R_cb are not for any third name c. The score is the smaller of the
  two.
- Part of a coarse class C: R_bC is near 1, but R_Cb is not. Parts that one teacher knows together must add up to C:
  their sum s is compared with C as above, and where that teacher calls a row of C one of the parts, it must be as sure
  of it as it is elsewhere. The score is the product of R_Cs, R_sC, the smallest R_bC, and that sureness.

A teacher assigns a class that it does not know to the most similar one it knows. So two classes that no teacher
distinguishes can look like one, or like parts of one. Usually the teachers are less sure then, but not in small tables
with well separated classes. Teachers that are always sure (a tree) have many ties among their surest rows, and count
less if there are others. The thresholds are chosen for high precision on constructed cases (`benchmarks/names.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

#: Number of surest rows of a class, as a share of n / L.
MASS = 0.8
#: A column with fewer surest rows is not compared.
LEAST_ROWS = 10
#: A column is compared if its mean on its surest rows is at least this many times its overall mean.
STANDS_OUT = 1.1
#: Smallest score of two names for one class.
ALIKE = 0.85
#: Smallest R_bC of a part b of a coarse class C, and smallest score of a coarse class and its parts.
PART = 0.8
#: If a third name c has R_ca or R_cb this large, a or b may be a coarse class, or all three only look alike.
RIVAL = 0.7


class Columns(NamedTuple):
    """What the K columns of the answers are."""

    names: list[Any]  #: the L distinct names
    name_of: NDArray[np.int_]  #: (K,), index of each column's name
    teacher_of: NDArray[np.int_]  #: (K,), teacher of each column
    is_class: NDArray[np.bool_]  #: (K,), whether a column is a single class; sets and OTHER are not compared

    def of(self, name: int) -> NDArray[np.int_]:
        """Return the columns with a name."""
        return np.flatnonzero(self.name_of == name)


@dataclass(frozen=True)
class Alike:
    """Two names and how alike their columns are."""

    a: int
    b: int
    score: float
    forward: float  #: R_ab
    backward: float  #: R_ba
    n_rows: int  #: number of surest rows compared


@dataclass(frozen=True)
class Sum:
    """A coarse class and parts that one teacher knows together."""

    whole: int
    parts: tuple[int, ...]
    teacher: int
    score: float
    forward: float  #: R_Cs: the parts' share on rows of the whole
    backward: float  #: R_sC
    weakest: float  #: the smallest R_bC
    sureness: float


class Behaviour:
    """Compares answers column by column, whatever their names.

    Parameters
    ----------
    P : ndarray of shape (n, K)
        Probabilities, each teacher's block normalised; NaN in a teacher's whole block where it is silent.
    columns : Columns
        What the columns are.
    """

    def __init__(self, P: Floats, columns: Columns) -> None:
        self.answered = ~np.isnan(P)
        self.P = np.nan_to_num(P, nan=0.0)
        self.columns = columns
        n, L = len(P), len(columns.names)
        self.per_class = n / L
        self.sizes = MASS * np.minimum(self.per_class, self.P.sum(axis=0))
        self.surest, ties = surest_rows(self.P, self.sizes)
        lengths = np.bincount(columns.teacher_of)[columns.teacher_of]
        enough = (self.sizes >= LEAST_ROWS) & (lengths > 1) & columns.is_class & self._stands_out()
        self.weight = np.where(enough, 1 / ties, 0.0)
        self.R = self._relative(self.surest)
        self.between = self._between_names()

    @property
    def enough_rows(self) -> bool:
        """Whether any column can be compared."""
        return bool(self.weight.any())

    def alike(self, a: int, b: int) -> Alike:
        """Return how alike two names are; the score is NaN if it cannot be determined."""
        forward, backward = float(self.between[a, b]), float(self.between[b, a])
        rows = min(self.sizes[self.columns.of(name)].max() for name in (a, b))
        return Alike(a, b, min(forward, backward), forward, backward, int(rows))

    def alikes(self) -> list[Alike]:
        """Return the pairs of names that behave like one class, most alike first."""
        both = np.minimum(self.between, self.between.T)
        pairs = np.argwhere(np.triu(np.nan_to_num(both, nan=0.0) >= ALIKE, k=1))
        clear = [self.alike(int(a), int(b)) for a, b in pairs if not self._has_rival(a, b)]
        return sorted(clear, key=lambda pair: -pair.score)

    def _has_rival(self, a: int, b: int) -> bool:
        """Return whether a third name lies within one of the two."""
        within = np.nan_to_num(self.between[:, [a, b]], nan=0.0)
        within[[a, b]] = 0.0
        return bool(within.max() >= RIVAL)

    def sums(self) -> list[Sum]:
        """Return coarse classes with their parts, highest score first."""
        found = (self._sum(whole, teacher, cols) for whole, teacher, cols in self._candidates())
        return sorted((one for one in found if one.score >= PART), key=lambda one: -one.score)

    def _stands_out(self) -> NDArray[np.bool_]:
        """Return (K,), whether a column distinguishes some rows from the others."""
        mean = self.P.sum(axis=0) / np.maximum(self.answered.sum(axis=0), 1)
        return np.asarray((self.surest * self.P).sum(axis=0) >= STANDS_OUT * mean)

    def _between_names(self) -> Floats:
        """Return the mean of R over the columns of two names (L, L), NaN for names that one teacher distinguishes."""
        C, L = self.columns, len(self.columns.names)
        one_hot = np.zeros((len(C.name_of), L))
        one_hot[np.arange(len(C.name_of)), C.name_of] = 1.0
        weighted = one_hot * self.weight[:, None]
        total = weighted.sum(axis=0)
        owners = np.zeros((C.teacher_of.max() + 1, L))
        owners[C.teacher_of, C.name_of] = 1.0
        with np.errstate(divide="ignore", invalid="ignore"):
            mean = (weighted.T @ self.R @ weighted) / np.outer(total, total)
        mean[(owners.T @ owners) > 0] = np.nan
        return mean

    def _relative(self, weights: Floats) -> Floats:
        """Return R (K, K): the mean of column b on the surest rows of a, if answered, relative to b's own."""
        mean = (weights.T @ self.P) / np.maximum(weights.T @ self.answered, 1e-12)
        return mean / np.maximum(np.diag(mean), 1e-12)

    def _candidates(self) -> Iterator[tuple[int, int, NDArray[np.int_]]]:
        """Yield names, teachers, and two or more of the teacher's columns that lie within the name."""
        inside = np.nan_to_num(self.between, nan=0.0) >= PART  # (b, C)
        for whole in np.flatnonzero(inside.sum(axis=0) >= 2):
            members = np.flatnonzero(inside[:, whole])
            for teacher in range(self.columns.teacher_of.max() + 1):
                own = np.flatnonzero((self.columns.teacher_of == teacher) & (self.weight > 0))
                cols = own[np.isin(self.columns.name_of[own], members)]
                if len(cols) >= 2:
                    yield int(whole), teacher, cols

    def _sum(self, whole: int, teacher: int, cols: NDArray[np.int_]) -> Sum:
        """Compare a name with the sum of one teacher's columns."""
        parts = self.columns.name_of[cols].tolist()
        wholes = self.columns.of(whole)
        weight = self.weight[wholes]
        s = self.P[:, cols].sum(axis=1)
        values = np.column_stack([s, self.P[:, wholes]])
        answered = np.column_stack([self.answered[:, cols[0]], self.answered[:, wholes]])
        W, _ = surest_rows(values, MASS * np.minimum(len(parts) * self.per_class, values.sum(axis=0)))
        mean = (W.T @ values) / np.maximum(W.T @ answered, 1e-12)
        R = mean / np.maximum(np.diag(mean), 1e-12)
        forward, backward = np.average(R[1:, 0], weights=weight), np.average(R[0, 1:], weights=weight)
        weakest = min(self.between[b, whole] for b in parts)
        sureness = np.average(self._sureness(W[:, 1:], cols).min(axis=1), weights=weight)
        score = min(forward, 1.0) * min(backward, 1.0) * min(weakest, 1.0) * min(sureness, 1.0)
        return Sum(whole, tuple(parts), teacher, *map(float, (score, forward, backward, weakest, sureness)))

    def _sureness(self, W: Floats, cols: NDArray[np.int_]) -> Floats:
        """Return how sure a teacher is of its parts on rows of the whole, relative to its surest rows."""
        P, own = self.P[:, cols], self.surest[:, cols]
        there = (W.T @ P**2) / np.maximum(W.T @ P, 1e-12)
        here = (own * P**2).sum(axis=0) / np.maximum((own * P).sum(axis=0), 1e-12)
        return there / np.maximum(here, 1e-12)


def surest_rows(P: Floats, sizes: Floats) -> tuple[Floats, Floats]:
    """Return weights (n, K) of each column's surest rows, which sum to 1, and the number of candidates per place, (K,).

    Rows that tie for the last places share them equally, so that the order of the rows does not matter.
    """
    n = len(P)
    counts = np.clip(sizes.astype(int), 1, n)
    limit = -np.sort(-P, axis=0)[counts - 1, np.arange(P.shape[1])]
    above, at = limit < P, limit == P
    share = (counts - above.sum(axis=0)) / at.sum(axis=0)
    ties = (above | at).sum(axis=0) / counts
    return (above + at * share) / counts, ties
