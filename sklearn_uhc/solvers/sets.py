"""Columns that stand for sets of classes.

With q = exp(T u), u the tempered logits of q, the logit of column k at temperature T is

    phi_k(u) = log q(S_k) / T,      q(S) = sum of q over the classes of S

which is u_l if the column is a single class. A teacher's tempered answer is compared with it: tempered sums, not sums
of tempered values, so that consistent answers are fitted exactly at every temperature. Its derivative is
r_kl = q_l / q(S_k), the share of class l in its set, at temperature 1.

====  =========  ===========================================================
phi   (n, K)     logits of the columns
q     (n, L)     exp(T u), largest entry 1
qS    (n, S)     q(S_k) of the S columns that mean sets
====  =========  ===========================================================

Problems with few classes are solved with matrices of classes by classes, each sample contiguous in memory; those with
many classes by sums over index vectors only, samples last.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, cast

import numpy as np
from array_api_compat import array_namespace, device

from sklearn_uhc.label_space import LabelSpace
from sklearn_uhc.solvers import set_index
from sklearn_uhc.solvers.blocks import Array, Blocks, _group_mean, is_moderate
from sklearn_uhc.solvers.incidence import like_array, samples_first, samples_last, to_cpu
from sklearn_uhc.solvers.set_index import SetIndex, Thin

#: Probability of a class that is in sets only, relative to others, where all samples share one matrix: such a class is
#: more probable than others if it does not vanish.
LONELY = 5.0
#: Smallest T u relative to the largest, in double and single precision, such that exp() does not underflow.
LOWEST = {"float64": -600.0, "float32": -80.0}


class Columns(NamedTuple):
    """The columns' logits for u."""

    phi: Array  #: (n, K)
    q: Array  #: (n, L)
    qS: Array  #: (n, S)
    thin: Thin | None = None  #: sets of nearly all classes whose sum is tiny


@dataclass(frozen=True)
class SetBlocks(Blocks):
    """A label space with sets: `class_of` is the first member of a column, `sizes` (N,) counts columns."""

    set_sizes: Array  #: (K,), members of every column
    source: Array  #: (K,), index of phi_k among L classes and S sets
    set_columns: Array  #: (S,), the columns that stand for sets
    space: LabelSpace

    @classmethod
    def from_label_space(cls, space: LabelSpace) -> SetBlocks:
        """Build the index vectors."""
        K, L, sizes = space.n_outputs, space.n_classes, space.set_sizes
        sets = np.flatnonzero(sizes > 1)
        source, first = np.empty(K, dtype=int), space.members[space.offsets[:-1]]
        source[sizes == 1], source[sets] = first[sizes == 1], L + np.arange(len(sets))
        return cls(
            class_of=first,
            teacher_of=space.teacher_of,
            sizes=np.array([float(len(labels)) for labels in space.class_lists]),
            shared=np.zeros((0, 0)),
            component_of=space.components,
            teacher_component_mean=np.zeros((0, 0)),
            slices=tuple(space.blocks),
            n_classes=L,
            n_components=space.n_components,
            set_sizes=sizes.astype(float),
            source=source,
            set_columns=sets,
            space=space,
        )

    def like(self, X: Array) -> SetBlocks:
        """Return the same in the library, on the device and in the precision of X."""
        return cast(SetBlocks, super().like(X))

    @property
    def is_small(self) -> bool:
        """Whether there are so few classes that matrices of classes by classes are fastest."""
        return self.n_classes < set_index.FEW_CLASSES

    @property
    def batch_rows(self) -> int:
        """Number of samples solved together: few, since a system of L unknowns is stored for each."""
        if not self.is_small:
            return max(4, 2**21 // (len(self.class_of) + self.n_classes))
        L2 = self.n_classes**2
        return max(4, min(2**21 // L2, max(192, min(2048, 2**19 // L2))))

    @cached_property
    def members(self) -> SetIndex:
        """Sums over the members of sets."""
        return SetIndex(self.space, self.sizes)

    # Only for few classes:

    @cached_property
    def M(self) -> Array:
        """(N, L), 1 if class l is in a column of teacher i."""
        return like_array(self.space.mask.astype(float), self.sizes)

    @cached_property
    def to_class(self) -> Array:
        """(K, L), 1 if class l is a member of column k."""
        return like_array(self.space.membership().astype(float), self.sizes)

    @cached_property
    def to_single(self) -> Array:
        """(K, L), `to_class` of the columns of single classes, 0 for others."""
        return self.to_class * array_namespace(self.sizes).astype(self.set_sizes == 1, self.sizes.dtype)[:, None]

    @cached_property
    def to_set(self) -> Array:
        """(K, S), the set of each column."""
        return like_array(np.eye(len(self.class_of))[:, to_cpu(self.set_columns)], self.sizes)

    @cached_property
    def in_set(self) -> Array:
        """(S, L), members."""
        return array_namespace(self.sizes).take(self.to_class, self.set_columns, axis=0)

    @cached_property
    def alone(self) -> Array:
        """(N, L), 1 if teacher i has a column for class l alone."""
        return self.to_teacher.T @ self.to_single

    @cached_property
    def cell_of(self) -> Array:
        """(N * L,), the column of teacher i that contains class l, or K if there is none."""
        space, K = self.space, len(self.class_of)
        column = np.repeat(np.arange(K), space.set_sizes)
        cells = np.full((space.n_teachers, space.n_classes), K)
        cells[space.teacher_of[column], space.members] = column
        return like_array(cells.ravel(), self.sizes)

    @cached_property
    def alone_of(self) -> Array:
        """(N * L,), `cell_of` if the column is the class alone, else K."""
        K, L = len(self.class_of), self.n_classes
        cells, single = np.full((self.n_teachers, L), K), np.flatnonzero(to_cpu(self.set_sizes) == 1)
        cells[to_cpu(self.teacher_of)[single], to_cpu(self.class_of)[single]] = single
        return like_array(cells.ravel(), self.sizes)

    @cached_property
    def component_mean(self) -> Array:
        """(L, L), maps to the mean over the group of each class."""
        return like_array(_group_mean(self.space.components), self.sizes)

    @cached_property
    def rounds(self) -> list[tuple[Array, Array]]:
        """Teachers' first sets with their teachers, then the second ones, ...: no teacher is in a round twice."""
        whose = to_cpu(self.teacher_of)[to_cpu(self.set_columns)]
        nth = np.arange(len(whose)) - np.searchsorted(whose, whose)
        rounds = [np.flatnonzero(nth == k) for k in range(nth.max() + 1)]
        return [(like_array(own, self.sizes), like_array(whose[own], self.sizes)) for own in rounds]

    # For any number of classes:

    def arrange(self, X: Array) -> Array:
        """Return X (n, ...) in the memory layout for this label space."""
        return samples_first(X) if self.is_small else samples_last(X)

    def shift(self, Z: Array) -> Array:
        """Shift each teacher's logits so that the largest is 0; entries below `MIN_LOG_P`, like -inf, become it."""
        return self.arrange(super().shift(Z))

    def unshifted(self, Z: Array) -> Array:
        """Return the logits unchanged if `shift` would clip nothing, where a shift per teacher does not matter."""
        return self.arrange(Z) if is_moderate(Z) else self.shift(Z)

    def sum_teachers(self, F: Array) -> Array:
        """(n, K) to (n, N): sum over the columns of a teacher."""
        return F @ self.to_teacher if self.is_small else super().sum_teachers(F)

    def by_teacher(self, V: Array) -> Array:
        """(n, N) to (n, K): the value of the teacher that each column belongs to."""
        return array_namespace(V).take(V, self.teacher_of, axis=1) if self.is_small else super().by_teacher(V)

    def by_source(self, U: Array, sets: Array) -> Array:
        """(n, L) and (n, S) to (n, K): the value of the class or set of each column."""
        xp = array_namespace(U)
        if self.is_small:
            return xp.take(xp.concat([U, sets], axis=1), self.source, axis=1)
        return xp.take(xp.concat([U.T, sets.T]), self.source, axis=0).T

    def of_sets(self, G: Array) -> Array:
        """(n, K) to (n, S): the values of the columns of sets."""
        xp = array_namespace(G)
        return G @ self.to_set if self.is_small else xp.take(G.T, self.set_columns, axis=0).T

    def sum_own_sets(self, y: Array) -> Array:
        """(n, S) to (n, N): sum over the sets of a teacher."""
        if self.is_small:
            return y @ (self.to_set.T @ self.to_teacher)
        return self.members.teachers(y)

    def sum_singles(self, G: Array) -> Array:
        """(n, K) to (n, L): sum over the columns of single classes."""
        return G @ self.to_single if self.is_small else self.members.single_classes(G)

    def sum_sets(self, x: Array, thin: Thin | None = None) -> Array:
        """(n, L) to (n, S): sum over the members of every set."""
        return x @ self.in_set.T if self.is_small else self.members.sums(x, thin)

    def give(self, y: Array, thin: Thin | None = None) -> Array:
        """(n, S) to (n, L): sum over the sets that a class is in."""
        return y @ self.in_set if self.is_small else self.members.give(y, thin)

    @cached_property
    def twins(self) -> list[Array]:
        """Groups of classes that are in the same columns everywhere."""
        return [like_array(group, self.sizes) for group in self.space.identification.never_apart]

    def same_for_twins(self, U: Array) -> Array:
        """Give classes that are in the same columns everywhere their mean, in place; (n, L) or more columns."""
        xp = array_namespace(U)
        for group in self.twins:
            U[:, group] = xp.mean(U[:, group], axis=1, keepdims=True)
        return U

    @cached_property
    def has_own(self) -> Array:
        """(L,), whether a class has a column of its own."""
        own = np.zeros(self.n_classes, dtype=bool)
        own[to_cpu(self.class_of)[to_cpu(self.set_sizes) == 1]] = True
        return array_namespace(self.sizes).asarray(own, device=device(self.sizes))

    @cached_property
    def typical(self) -> Array:
        """(L,), the probabilities of classes relative to each other at which samples share one matrix."""
        return like_array(np.where(to_cpu(self.has_own), 1.0, LONELY), self.sizes)

    @cached_property
    def in_sets(self) -> Array:
        """(L,), whether a class is in a set."""
        xp = array_namespace(self.sizes)
        one = xp.ones_like(xp.astype(self.set_columns, self.sizes.dtype))[None, :]
        return self.give(one)[0, :] > 0.5

    def columns(self, U: Array, T: float) -> Columns:
        """Return the columns' logits and sums for u (n, L); phi up to a shift per sample."""
        xp = array_namespace(U)
        U = U - xp.max(U, axis=1, keepdims=True)
        q, qS, thin = self._sums(U, T)
        return Columns(self.by_source(U, xp.log(qS) / T), q, qS, thin)

    def set_shares(self, U: Array, T: float) -> Array:
        """(n, L) to (n, L): the shares of every class in all its sets, added up; 0 for a class that is in none."""
        q, qS, thin = self._sums(U - array_namespace(U).max(U, axis=1, keepdims=True), T)
        return q * self.give(1 / qS, thin)

    def _sums(self, U: Array, T: float) -> tuple[Array, Array, Thin | None]:
        """Return q, its sums over the sets, and which of them are thin, for u whose largest entry is 0."""
        xp = array_namespace(U)
        q, tiny, thin = xp.exp(T * U), float(xp.finfo(U.dtype).tiny), None
        qS = self.sum_sets(q)
        if not self.is_small:
            thin = self.members.thin(qS, xp.sum(q, axis=1, keepdims=True))
            qS = qS if thin is None else self.members.refine(qS, q, thin)
        return q, xp.where(qS > tiny, qS, xp.full_like(qS, tiny)), thin

    def column_logits(self, U: Array, temperature: float = 1.0) -> Array:
        """(n, L) to (n, K): log q(S_k) / T up to a shift per sample, U the logits of q at temperature T."""
        return self.columns(U, temperature).phi

    def pull(self, G: Array, at: Columns) -> Array:
        """(n, K) to (n, L): R' G, each column's value distributed over its classes in proportion to r."""
        return self.sum_singles(G) + at.q * self.give(self.of_sets(G) / at.qS, at.thin)

    def push(self, x: Array, at: Columns) -> Array:
        """(n, L) to (n, K): R x, the change of phi for a change x of u."""
        return self.by_source(x, self.sum_sets(at.q * x, at.thin) / at.qS)

    def smallest_set(self, qS: Array) -> Array:
        """(n, S) to (n, L): the smallest q(S) among the sets of a class, inf if there is none; only for few classes."""
        xp = array_namespace(qS)
        return xp.min(xp.where(self.in_set > 0, qS[:, :, None], xp.inf), axis=1)

    def shares(self, at: Columns) -> Array:
        """(n, S, L): r of the columns of sets; only for few classes."""
        return at.q[:, None, :] * (self.in_set / at.qS[:, :, None])

    def spread(self, A: Array, at: Columns) -> Array:
        """(n, K) to (n, N, L): R' A for each teacher separately; only for few classes."""
        xp = array_namespace(A)
        below = xp.take(xp.concat([xp.ones_like(at.q), at.qS], axis=1), self.source, axis=1)
        own = xp.where(self.alone > 0, xp.ones_like(at.q)[:, None, :], at.q[:, None, :])
        return self.cells(A / below) * own

    def cells(self, A: Array) -> Array:
        """(n, K) to (n, N, L): the value of the teacher's column that contains the class, 0 if none does."""
        xp = array_namespace(A)
        padded = xp.concat([A, xp.zeros_like(A[:, :1])], axis=1)
        return xp.reshape(xp.take(padded, self.cell_of, axis=1), (A.shape[0], self.n_teachers, self.n_classes))


def lowest(U: Array) -> float:
    """Return the smallest T u that differs from minus infinity in the precision of U."""
    return LOWEST["float64" if float(array_namespace(U).finfo(U.dtype).eps) < 1e-10 else "float32"]


def level(U: Array, blocks: SetBlocks, T: float) -> Array:
    """Set the mean of every group of linked classes to 0, and raise entries for which exp(T u) would underflow."""
    xp = array_namespace(U)
    U = U - (U @ blocks.component_mean if blocks.is_small else blocks.group_means(U))
    return xp.maximum(U, xp.max(U, axis=1, keepdims=True) + lowest(U) / T)
