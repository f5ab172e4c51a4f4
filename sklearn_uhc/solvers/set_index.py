"""Sums over sets of classes by index: a set costs its members, or the classes that it leaves out if these are fewer.

OTHER and the complement of a teacher's membership include nearly all classes. The sum over such a set is the total
minus the sum over the classes left out, so it costs only the classes that the teacher names. If the difference is tiny
relative to the total, digits would be lost. Such pairs of a sample and a set (`Thin`) are summed member by member. They
are few: teachers that name all classes that matter for the sample.
"""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np
from array_api_compat import array_namespace, device
from numpy.typing import NDArray

from sklearn_uhc.label_space import LabelSpace
from sklearn_uhc.solvers.incidence import Array, Incidence, like_array

#: With fewer classes, the members of all sets are listed.
FEW_CLASSES = 256
#: A sum below this share of the total is thin.
THIN = 1e-3
#: Maximum size of arrays for thin sets, in numbers.
THIN_NUMBERS = 2**21


class Thin(NamedTuple):
    """Pairs of a sample and a set of nearly all classes whose sum is a tiny share of the total."""

    rows: Array  #: which samples
    sets: Array  #: which of the sets of nearly all classes

    @classmethod
    def of(cls, thin: Thin | None, rows: Array) -> Thin | None:
        """Return the pairs of some samples, given by their increasing indices."""
        if thin is None:
            return None
        xp = array_namespace(rows)
        place = xp.searchsorted(rows, thin.rows)
        here = xp.nonzero(xp.take(rows, xp.clip(place, None, rows.shape[0] - 1)) == thin.rows)[0]
        return cls(place[here], thin.sets[here]) if here.shape[0] else None


class SetIndex:
    """Sums over the members of sets and over the sets of a class.

    Parameters
    ----------
    space : LabelSpace
    like : Array
        Its library, device and precision count.
    """

    def __init__(self, space: LabelSpace, like: Array) -> None:
        K, L, sizes = space.n_outputs, space.n_classes, space.set_sizes
        self.space, self.like, self.n_classes = space, like, L
        self.sets = np.flatnonzero(sizes > 1)
        self.singles = np.flatnonzero(sizes == 1)
        first = space.members[space.offsets[:-1]]
        self.single_classes = Incidence(first[self.singles], self.singles, (L, K), like)
        self.teachers = Incidence(
            space.teacher_of[self.sets], np.arange(len(self.sets)), (space.n_teachers, len(self.sets)), like
        )
        wide = (2 * sizes[self.sets] > L) & (FEW_CLASSES <= L)
        self.n_sets, self.wide = len(self.sets), np.flatnonzero(wide)
        listed = np.flatnonzero(~wide)
        rows, members = self._members(listed)
        self.listed = Incidence(rows, members, (self.n_sets, L), like)
        self.listing = Incidence(members, rows, (L, self.n_sets), like)
        rows, left_out = self._left_out()
        self.left_out = Incidence(rows, left_out, (self.n_sets, L), like)
        self.leaving_out = Incidence(left_out, rows, (L, self.n_sets), like)

    def _members(self, listed: NDArray[np.int_]) -> tuple[NDArray[np.int_], NDArray[np.int_]]:
        """Return the members of some sets, as indices of sets and of classes."""
        space, columns = self.space, self.sets[listed]
        parts = [space.members[space.offsets[k] : space.offsets[k + 1]] for k in columns]
        return np.repeat(listed, list(map(len, parts))), _joined(parts)

    def _left_out(self) -> tuple[NDArray[np.int_], NDArray[np.int_]]:
        """Return the classes that the wide sets leave out."""
        space, parts = self.space, []
        for k in self.sets[self.wide]:
            outside = np.ones(self.n_classes, dtype=bool)
            outside[space.members[space.offsets[k] : space.offsets[k + 1]]] = False
            parts.append(np.flatnonzero(outside))
        return np.repeat(self.wide, list(map(len, parts))), _joined(parts)

    @cached_property
    def is_wide(self) -> Array:
        """(S,), 1 for the sets of nearly all classes."""
        table = np.zeros(self.n_sets)
        table[self.wide] = 1.0
        return like_array(table, self.like)

    @cached_property
    def table(self) -> Array:
        """(S, L), members of all sets."""
        table = np.zeros((self.n_sets, self.n_classes))
        table[self._members(np.arange(self.n_sets))] = 1.0
        return like_array(table, self.like)

    @cached_property
    def _inside(self) -> Array:
        """(S, L), members of the wide sets, as booleans, for thin sums."""
        table = np.zeros((self.n_sets, self.n_classes), dtype=bool)
        rows, members = self._members(self.wide)
        table[rows, members] = True
        return array_namespace(self.like).asarray(table, device=device(self.like))

    def sums(self, x: Array, thin: Thin | None = None) -> Array:
        """(n, L) to (n, S): sum over every set."""
        out = self.listed(x)
        if not len(self.wide):
            return out
        xp = array_namespace(x)
        total = xp.sum(x, axis=1, keepdims=True)
        out = out + self.is_wide * total - self.left_out(x)
        return out if thin is None else self.refine(out, x, thin)

    def refine(self, sums: Array, x: Array, thin: Thin) -> Array:
        """Sum thin pairs member by member."""
        xp = array_namespace(x)
        for rows, sets in self._pieces(thin):
            members = xp.astype(xp.take(self._inside, sets, axis=0), x.dtype)
            sums[rows, sets] = xp.sum(xp.take(x, rows, axis=0) * members, axis=1)
        return sums

    def thin(self, sums: Array, total: Array) -> Thin | None:
        """Return the thin pairs, given sums (n, S) of nonnegative numbers and their total (n, 1)."""
        if not len(self.wide):
            return None
        xp = array_namespace(sums)
        rows, sets = xp.nonzero((sums < THIN * total) & (self.is_wide > 0))
        return Thin(rows, sets) if rows.shape[0] else None

    def give(self, y: Array, thin: Thin | None = None) -> Array:
        """(n, S) to (n, L): sum over the sets that contain a class."""
        if not len(self.wide):
            return self.listing(y)
        xp, rest = array_namespace(y), y
        if thin is not None:
            rest = xp.asarray(y, copy=True)
            rest[thin.rows, thin.sets] = 0.0
        wide = rest * self.is_wide
        out = self.listing(rest - wide) + xp.sum(wide, axis=1, keepdims=True) - self.leaving_out(wide)
        for rows, sets in [] if thin is None else self._pieces(thin):
            members = xp.astype(xp.take(self._inside, sets, axis=0), y.dtype)
            _add_rows(out, rows, y[rows, sets][:, None] * members)
        return out

    def _pieces(self, thin: Thin) -> list[Thin]:
        """Split thin pairs into pieces of bounded memory."""
        step = max(1, THIN_NUMBERS // self.n_classes)
        n = thin.rows.shape[0]
        return [Thin(thin.rows[i : i + step], thin.sets[i : i + step]) for i in range(0, n, step)]


def _add_rows(out: Array, rows: Array, parts: Array) -> None:
    """Add parts (m, L) to rows (m,) of out; rows may repeat."""
    if isinstance(out, np.ndarray):
        np.add.at(out, rows, parts)
    else:
        out.index_add_(0, rows, parts)


def _joined(parts: list[NDArray[np.int_]]) -> NDArray[np.int_]:
    return np.concatenate(parts) if parts else np.zeros(0, dtype=int)
