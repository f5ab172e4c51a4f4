"""Columns that stand for sets of classes: coarse classes, OTHER, "in my list".

With q = exp(T u), u the tempered logits of q, the logit of column k at temperature T is

    phi_k(u) = log q(S_k) / T,      q(S) = sum of q over the classes of S

which is u_l if the column is a single class. A teacher's tempered answer is compared with it: tempered sums, not sums
of tempered values, so that consistent answers are fitted exactly at every temperature. Its derivative R has the rows
r_kl = q_l / q(S_k), the shares of the classes of the set.

With many classes, OTHER and the complement of a membership include nearly all of them. The sum over such a *wide* set
is the total minus the sum over the classes left out, so it costs only the classes that the teacher names. If the
difference is tiny relative to the total, digits would be lost. Such pairs of a sample and a set (`Thin`) are summed
member by member. They are few: teachers that name all classes that matter for the sample.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from array_api_compat import device
from numpy.typing import NDArray

from sklearn_uhc.solvers.blocks import At, Bend, Blocks
from sklearn_uhc.solvers.incidence import Array, Incidence, array_namespace, like_array, samples_first, to_cpu
from sklearn_uhc.spaces.label_space import LabelSpace

#: With fewer classes, matrices of classes by classes are faster than sums by index.
FEW_CLASSES = 256
#: The sum over a wide set below this share of the total is thin: three of sixteen digits are lost.
THIN = 1e-3
#: Largest array for thin sets, in numbers.
THIN_NUMBERS = 2**21


class Thin(NamedTuple):
    """Pairs of a sample and a wide set whose sum is a tiny share of the total."""

    rows: Array
    sets: Array


@dataclass(frozen=True)
class SetBlocks(Blocks):
    """A label space with sets."""

    source: Array  #: (K,), index of phi_k among L classes and S sets
    space: LabelSpace

    @classmethod
    def of(cls, space: LabelSpace) -> SetBlocks:
        """Build the index vectors."""
        L, sets = space.n_classes, np.flatnonzero(space.set_sizes > 1)
        source = space.members[space.offsets[:-1]].copy()
        source[sets] = L + np.arange(len(sets))
        return cls(
            teacher_of=space.teacher_of,
            sizes=np.array([float(len(labels)) for labels in space.class_lists]),
            component_of=space.components,
            slices=tuple(space.blocks),
            n_classes=L,
            n_components=space.n_components,
            source=source,
            space=space,
        )

    @property
    def is_small(self) -> bool:
        """Whether there are so few classes that matrices of classes by classes are faster."""
        return self.n_classes < FEW_CLASSES

    @property
    def batch_rows(self) -> int:
        """Number of samples solved together: few, since each has a matrix of classes by classes, or many columns."""
        per_row = self.n_classes**2 if self.is_small else len(self.teacher_of) + self.n_classes
        return max(4, min(2000, 2**19 // per_row))

    @cached_property
    def sets(self) -> NDArray[np.int_]:
        """(S,), the columns that stand for sets."""
        return np.flatnonzero(self.space.set_sizes > 1)

    @cached_property
    def curved(self) -> Array:
        """(K,), 1 where the column is a set."""
        return like_array((self.space.set_sizes > 1).astype(float), self.sizes)

    @cached_property
    def has_own(self) -> Array:
        """(L,), whether a class has a column of its own."""
        own = np.zeros(self.n_classes, dtype=bool)
        own[to_cpu(self.source)[self.space.set_sizes == 1]] = True
        return array_namespace(self.sizes).asarray(own, device=device(self.sizes))

    @cached_property
    def M(self) -> Array:
        """(N, L), 1 where class l is in a column of teacher i."""
        return like_array(self.space.mask.astype(float), self.sizes)

    @cached_property
    def in_set(self) -> Array:
        """(S, L), members; for few classes."""
        return like_array(self._table(np.arange(len(self.sets))).astype(float), self.sizes)

    def _table(self, sets: NDArray[np.int_]) -> NDArray[np.bool_]:
        """(S, L), the members of some sets; none for the others."""
        table = np.zeros((len(self.sets), self.n_classes), dtype=bool)
        for s in sets.tolist():
            table[s, self._members(s)] = True
        return table

    def _members(self, s: int) -> NDArray[np.int_]:
        start, end = self.space.offsets[self.sets[s] : self.sets[s] + 2]
        return self.space.members[start:end]

    # Sums over sets

    @cached_property
    def is_wide(self) -> Array:
        """(S,), 1 for sets of nearly all of many classes."""
        wide = (2 * self.space.set_sizes[self.sets] > self.n_classes) & (not self.is_small)
        return like_array(wide.astype(float), self.sizes)

    @cached_property
    def _signed(self) -> tuple[Incidence, Incidence]:
        """(S, L) twice: the members of sets that are not wide, and what wide ones leave out."""
        S, L, wide = len(self.sets), self.n_classes, to_cpu(self.is_wide) > 0
        members = [self._members(s) for s in range(S)]
        left_out = [np.setdiff1d(np.arange(L), own) if far else own[:0] for own, far in zip(members, wide, strict=True)]
        listed = [own[:0] if far else own for own, far in zip(members, wide, strict=True)]
        none = [np.zeros(0, dtype=int)]
        where = ((np.repeat(np.arange(S), list(map(len, p))), np.concatenate(p + none)) for p in (listed, left_out))
        listed_in, left_out_of = (Incidence(rows, columns, (S, L), self.sizes) for rows, columns in where)
        return listed_in, left_out_of

    @cached_property
    def _inside(self) -> Array:
        """(S, L), members of the wide sets, as booleans, for thin sums."""
        table = self._table(np.flatnonzero(to_cpu(self.is_wide)))
        return array_namespace(self.sizes).asarray(table, device=device(self.sizes))

    def sum_sets(self, x: Array, thin: Thin | None = None) -> Array:
        """(n, L) to (n, S): sum over the members of every set."""
        xp, (listed, left_out) = array_namespace(x), self._signed
        if not len(left_out.rows):
            return listed(x)
        out = listed(x) + self.is_wide * xp.sum(x, axis=1, keepdims=True) - left_out(x)
        for rows, sets, members in self._thin_pieces(thin, x.dtype):
            out[rows, sets] = xp.sum(xp.take(x, rows, axis=0) * members, axis=1)
        return out

    def give(self, y: Array, thin: Thin | None = None) -> Array:
        """(n, S) to (n, L): sum over the sets that a class is in."""
        xp, (listed, left_out) = array_namespace(y), self._signed
        if not len(left_out.rows):
            return listed.transposed(y)
        rest = y
        if thin is not None:
            rest = xp.asarray(y, copy=True)
            rest[thin.rows, thin.sets] = 0.0
        wide = rest * self.is_wide
        out = listed.transposed(rest) + xp.sum(wide, axis=1, keepdims=True) - left_out.transposed(wide)
        for rows, sets, members in self._thin_pieces(thin, y.dtype):
            _add_rows(out, rows, y[rows, sets][:, None] * members)
        return out

    def _thin_pieces(self, thin: Thin | None, dtype: object) -> list[tuple[Array, Array, Array]]:
        """Return thin pairs with the members of their sets, in pieces of bounded memory."""
        if thin is None:
            return []
        xp, step = array_namespace(thin.rows), max(1, THIN_NUMBERS // self.n_classes)
        parts = [slice(i, i + step) for i in range(0, thin.rows.shape[0], step)]
        return [
            (thin.rows[p], thin.sets[p], xp.astype(xp.take(self._inside, thin.sets[p], axis=0), dtype)) for p in parts
        ]

    @staticmethod
    def thin_of(thin: Thin | None, rows: Array) -> Thin | None:
        """Return the thin pairs of some samples, given by their increasing indices."""
        if thin is None:
            return None
        xp = array_namespace(rows)
        place = xp.searchsorted(rows, thin.rows)
        here = xp.nonzero(xp.take(rows, xp.clip(place, None, rows.shape[0] - 1)) == thin.rows)[0]
        return Thin(place[here], thin.sets[here]) if here.shape[0] else None

    # Columns and their derivatives

    def at(self, U: Array, T: float) -> At:
        """phi_k(u) = log q(S_k) / T with q = exp(T u), up to a shift per sample."""
        xp, tiny, thin = array_namespace(U), float(array_namespace(U).finfo(U.dtype).tiny), None
        U = U - xp.max(U, axis=1, keepdims=True)
        q = xp.exp(T * U)
        qS = self.sum_sets(q)
        if len(self._signed[1].rows):
            rows, sets = xp.nonzero((qS < THIN * xp.sum(q, axis=1, keepdims=True)) & (self.is_wide > 0))
            thin = Thin(rows, sets) if rows.shape[0] else None
            qS = qS if thin is None else self.sum_sets(q, thin)
        qS = xp.where(qS > tiny, qS, xp.full_like(qS, tiny))
        return At(self._by_source(U, xp.log(qS) / T), q, qS, thin)

    def _by_source(self, U: Array, sets: Array) -> Array:
        """(n, L) and (n, S) to (n, K): the value of the class or set of each column."""
        xp = array_namespace(U)
        return xp.take(xp.concat([U.T, sets.T]), self.source, axis=0).T

    @cached_property
    def _sources(self) -> Incidence:
        """(L + S, K), the columns of a class or set."""
        K = len(self.source)
        return Incidence(to_cpu(self.source), np.arange(K), (self.n_classes + len(self.sets), K), self.sizes)

    def _parted(self, F: Array) -> tuple[Array, Array]:
        """(n, K) to (n, L) and (n, S): sum over the columns of a class alone, and the values of sets."""
        out = self._sources(F)
        return out[:, : self.n_classes], out[:, self.n_classes :]

    def pull(self, G: Array, at: At) -> Array:
        """R'G, each column's value distributed over its classes in proportion to r."""
        single, sets = self._parted(G)
        return single + at.q * self.give(sets / at.qS, at.thin)

    def push(self, x: Array, at: At) -> Array:
        """R x, the mean of x over every set, weighted by r."""
        return self._by_source(x, self.sum_sets(at.q * x, at.thin) / at.qS)

    def diagonal(self, bend: Bend, at: At) -> Array:
        """Sum over the columns k of h_k r_kl^2."""
        single, sets = self._parted(bend.h)
        return single + at.q**2 * self.give(sets / at.qS / at.qS, at.thin)

    def sandwich(self, bend: Bend, at: At) -> tuple[Array, Array]:
        """sum_sets h_k r_k r_k' - sum_i c_i (R'a_i)(R'a_i)', and diag(h) of the columns of single classes."""
        xp, (single, sets) = array_namespace(bend.h), self._parted(bend.h)
        r = samples_first(at.q)[:, None, :] * (self.in_set / at.qS[:, :, None])
        factors = xp.concat([r, self._by_teacher_and_class(bend.a, at)], axis=1)
        weights = xp.concat([sets, -bend.c], axis=1)
        return xp.matmul(xp.permute_dims(factors * weights[:, :, None], (0, 2, 1)), factors), single

    @cached_property
    def _cells(self) -> tuple[Array, Array]:
        """(N, L) twice: the column of teacher i that has class l, or K if none does, and whether it has others too."""
        space, K = self.space, len(self.source)
        column = np.repeat(np.arange(K), space.set_sizes)
        cells, several = np.full((space.n_teachers, space.n_classes), K), np.zeros(space.mask.shape)
        cells[space.teacher_of[column], space.members] = column
        several[space.teacher_of[column], space.members] = space.set_sizes[column] > 1
        return like_array(cells.ravel(), self.sizes), like_array(several, self.sizes)

    def cells(self, A: Array) -> Array:
        """(n, K) to (n, N, L): the value of the teacher's column that contains the class, 0 if none does."""
        xp = array_namespace(A)
        padded = xp.concat([samples_first(A), xp.zeros_like(A[:, :1])], axis=1)
        return xp.reshape(xp.take(padded, self._cells[0], axis=1), (A.shape[0], self.n_teachers, self.n_classes))

    def _by_teacher_and_class(self, A: Array, at: At) -> Array:
        """(n, K) to (n, N, L): R'A for each teacher separately."""
        xp = array_namespace(A)
        below = self._by_source(xp.ones_like(at.q), at.qS)
        return self.cells(A / below) * xp.where(self._cells[1] > 0, samples_first(at.q)[:, None, :], 1.0)


def _add_rows(out: Array, rows: Array, parts: Array) -> None:
    """Add parts (m, L) to rows (m,) of out; rows may repeat."""
    if isinstance(out, np.ndarray):
        np.add.at(out, rows, parts)
    else:
        out.index_add_(0, rows, parts)
