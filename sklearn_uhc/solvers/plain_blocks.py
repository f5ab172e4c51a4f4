"""Columns of single classes, the paper's case: phi_k = u_l, and sums over the teachers that know a class."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sklearn_uhc.solvers.blocks import At, Bend, Blocks, group_mean
from sklearn_uhc.solvers.incidence import Array, Incidence, array_namespace, like_array, to_cpu
from sklearn_uhc.solvers.pairs import Pairs
from sklearn_uhc.spaces.label_space import LabelSpace


@dataclass(frozen=True)
class PlainBlocks(Blocks):
    """A label space without sets."""

    class_of: Array  #: (K,)
    shared: Array  #: (K,), 1 where another teacher knows the class too
    teacher_component_mean: Array  #: (N, N), maps to the mean over teachers of the same group

    @classmethod
    def of(cls, space: LabelSpace) -> PlainBlocks:
        """Build the index vectors, which depend only on the class lists."""
        class_of, starts = space.members, [block.start for block in space.blocks]
        owners = np.bincount(class_of, minlength=space.n_classes)
        return cls(
            teacher_of=space.teacher_of,
            sizes=np.array([float(len(labels)) for labels in space.class_lists]),
            component_of=space.components,
            slices=tuple(space.blocks),
            n_classes=space.n_classes,
            n_components=space.n_components,
            class_of=class_of,
            shared=(owners > 1)[class_of].astype(float),
            teacher_component_mean=group_mean(space.components[class_of[starts]]),
        )

    @property
    def batch_rows(self) -> int:
        """Number of samples solved together: large enough for efficient calls, small enough for the cache."""
        # Not a power of two: columns of memory at such distances compete for the same cache lines.
        return max(16, min(2000, 3 * 2**18 // (len(self.class_of) + self.n_teachers**2)))

    def _incidence(self, rows: Array, columns: Array, shape: tuple[int, int]) -> Incidence:
        return Incidence(to_cpu(rows), to_cpu(columns), shape, self.sizes)

    @cached_property
    def classes(self) -> Incidence:
        """(L, K), the columns of a class."""
        K = len(self.class_of)
        return self._incidence(self.class_of, np.arange(K), (self.n_classes, K))

    @cached_property
    def _lists(self) -> Incidence:
        return self._incidence(self.teacher_of, self.class_of, (self.n_teachers, self.n_classes))

    @cached_property
    def _owners(self) -> Incidence:
        return self._incidence(self.class_of, self.teacher_of, (self.n_classes, self.n_teachers))

    @cached_property
    def pairs(self) -> Pairs:
        """Sums over the classes that two teachers share."""
        return Pairs(to_cpu(self.class_of), to_cpu(self.teacher_of), self.n_teachers, self.n_classes, self.sizes)

    @property
    def M(self) -> Array:
        """(N, L), 1 where teacher i knows class l; for small label spaces."""
        return self._lists.dense

    @property
    def curved(self) -> Array:
        """(K,), 0."""
        return 0 * self.shared

    @property
    def to_class(self) -> Array:
        """(K, L), column k means class l; for small label spaces, `sum_classes` for all."""
        return self.classes.dense.T

    def sum_classes(self, F: Array) -> Array:
        """(n, K) to (n, L): sum over the columns that mean a class."""
        return self.classes(F)

    def sum_lists(self, U: Array) -> Array:
        """(n, L) to (n, N): M u, sum over the classes that a teacher knows."""
        return self._lists(U)

    def sum_owners(self, V: Array) -> Array:
        """(n, N) to (n, L): M'v, sum over the teachers that know a class."""
        return self._owners(V)

    def by_class(self, U: Array) -> Array:
        """(n, L) to (n, K): the value of the class that each column means."""
        return array_namespace(U).take(U.T, self.class_of, axis=0).T

    def times_class(self, F: Array, U: Array) -> Array:
        """(n, K) times (n, L): multiply every column by the value of its class."""
        out = self.by_class(U)
        out *= F
        return out

    @cached_property
    def _layers(self) -> list[tuple[Array, Array]]:
        """Classes with their first teacher, then classes with a second teacher and that teacher, and so on."""
        owners = self._owners
        by_class = np.argsort(owners.rows, kind="stable")
        counts = np.bincount(owners.rows, minlength=owners.shape[0])
        starts = np.cumsum(counts) - counts
        which = (np.flatnonzero(counts > rank) for rank in range(int(counts.max())))
        parts = ((own, owners.columns[by_class[starts[own] + rank]]) for rank, own in enumerate(which))
        return [(like_array(own, self.sizes), like_array(teachers, self.sizes)) for own, teachers in parts]

    def largest_owner(self, V: Array) -> Array:
        """(n, N) to (n, L): the largest value of the teachers that know a class."""
        xp, (_, teachers) = array_namespace(V), self._layers[0]
        top = xp.take(V.T, teachers, axis=0)
        for classes, teachers in self._layers[1:]:
            top[classes, :] = xp.maximum(top[classes, :], xp.take(V.T, teachers, axis=0))
        return top.T

    def at(self, U: Array, T: float) -> At:
        """phi_k = u_l, at every temperature."""
        return At(self.by_class(U))

    def pull(self, G: Array, at: At) -> Array:
        """R'G, the sum over the columns of a class."""
        return self.sum_classes(G)

    def push(self, x: Array, at: At) -> Array:
        """R x, the value of the class."""
        return self.by_class(x)

    def sandwich(self, bend: Bend, at: At) -> tuple[Array, Array]:
        """- sum_i c_i a_i a_i' and diag(sum of h over the columns of a class)."""
        xp = array_namespace(bend.a)
        A = self.pairs.cube(bend.a)
        return -xp.matmul(xp.permute_dims(A * bend.c[:, :, None], (0, 2, 1)), A), self.diagonal(bend, at)

    def diagonal(self, bend: Bend, at: At) -> Array:
        """Sum h over the columns of a class."""
        return self.sum_classes(bend.h)
