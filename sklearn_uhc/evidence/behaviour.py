"""Find columns that behave alike on unlabelled rows.

The *surest rows* of column a are those with the largest p_a. Their number is the smaller of n / L and the sum of p_a.
Foreign rows, of classes that the teacher has never seen, are seldom among them. R_ab is the mean of column b of another
teacher on the surest rows of a, divided by its mean on its own surest rows. Two names mean the same class if R_ab and
R_ba are near 1, and R_ca and R_cb are not for any third name c. The score is the smaller of the two.

A teacher assigns a class that it does not know to the most similar one it knows. So two classes that no teacher
distinguishes can look like one. Usually the teachers are less sure then, but not in small tables with well separated
classes. Teachers that are always sure (a tree) have many ties among their surest rows, and count less if there are
others. The limits are chosen for high precision on constructed cases (`benchmarks/names.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

#: A column with fewer surest rows is not compared.
LEAST_ROWS = 10
#: Smallest score of two names for one class; .8 gave 3 wrong suggestions of 27, .85 none of 20. If a third name has as
#: large an R with one of them, that may be a coarse class, or all three only look alike.
ALIKE = 0.85


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
        self.sizes = np.minimum(n / L, self.P.sum(axis=0))
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
        return bool(within.max() >= ALIKE)

    def _stands_out(self) -> NDArray[np.bool_]:
        """Return (K,), whether a column distinguishes some rows from the others."""
        mean = self.P.sum(axis=0) / np.maximum(self.answered.sum(axis=0), 1)
        return np.asarray((self.surest * self.P).sum(axis=0) > mean)

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
