"""The columns of all teachers as index vectors, and sums over teachers and classes by them.

Conventions, for every solver. Arrays are numpy's or torch's; answers come back in the same library, on the same device
and in the same precision. Samples are side by side in memory (see `incidence.py`). Nothing here has K times L, L times
L or L times N^2 numbers: a sum over classes costs K additions a sample.

====  =========  ===========================================================
P, Z  (n, K)     tempered probabilities or logits, teachers side by side
U, Q  (n, L)     what is solved for, one column per merged class
V     (n, N)     one number per teacher (a scale or a normaliser)
M     (N, L)     1 where teacher i knows class l
====  =========  ===========================================================
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sklearn_uhc.label_space import LabelSpace
from sklearn_uhc.solvers.incidence import (
    Array,
    Incidence,
    array_namespace,
    at_least,
    exponentials,
    like_array,
    samples_last,
    to_cpu,
)
from sklearn_uhc.solvers.pairs import Pairs

__all__ = ["MIN_LOG_P", "Array", "Blocks", "Solution", "softmax"]

#: Smallest log-probability; smaller ones are raised to it. It is the smallest normal float32, for both precisions.
MIN_LOG_P = float(np.log(np.finfo(np.float32).tiny))
#: Larger logits lose digits unless they are shifted.
FAR = 1000.0


class Solution(NamedTuple):
    """The result of an iterative solver for every sample."""

    u: Array  #: (n, L)
    v: Array  #: (n, N)
    n_iter: Array  #: (n,)
    residual: Array  #: (n,), the optimality measure of the solver's docstring
    converged: Array  #: (n,), certified optimum: residual within the tolerance, and no further step leads downhill
    well_conditioned: Array  #: (n,), the optimum is determined to 1e-8 in double precision

    @classmethod
    def of(cls, found: Array, U: Array, V: Array, before: int = 0) -> Solution:
        """Take the diagnostics of `newton.minimize` after some steps before it."""
        return cls(U, V, found.n_iter + before, found.residual, found.converged, found.well_conditioned)


class Index:
    """Sums by class and by teacher, each created on first use."""

    def __init__(
        self, class_of: NDArray[np.int_], teacher_of: NDArray[np.int_], n_teachers: int, n_classes: int, like: Array
    ) -> None:
        columns, (N, L, K) = np.arange(len(class_of)), (n_teachers, n_classes, len(class_of))
        self.classes = Incidence(class_of, columns, (L, K), like)
        self.teachers = Incidence(teacher_of, columns, (N, K), like)
        self.lists = Incidence(teacher_of, class_of, (N, L), like)
        self.owners = Incidence(class_of, teacher_of, (L, N), like)
        self.pairs = Pairs(class_of, teacher_of, N, L, like)

    @cached_property
    def layers(self) -> list[tuple[Array, Array]]:
        """Classes with their first teacher, then classes with a second teacher and that teacher, and so on."""
        owners, like = self.owners, self.pairs.like
        by_class = np.argsort(owners.rows, kind="stable")
        counts = np.bincount(owners.rows, minlength=owners.shape[0])
        starts = np.cumsum(counts) - counts
        which = (np.flatnonzero(counts > rank) for rank in range(int(counts.max())))
        parts = ((own, owners.columns[by_class[starts[own] + rank]]) for rank, own in enumerate(which))
        return [(like_array(own, like), like_array(teachers, like)) for own, teachers in parts]


@dataclass(frozen=True)
class Blocks:
    """A label space as index vectors, with sums over them."""

    class_of: Array  #: (K,)
    teacher_of: Array  #: (K,)
    sizes: Array  #: (N,), length of every class list
    shared: Array  #: (K,), 1 where another teacher knows the class too
    component_of: Array  #: (L,), group of every class
    teacher_component_mean: Array  #: (N, N), maps to the mean over teachers of the same group
    slices: tuple[slice, ...]  #: the columns of each teacher
    n_classes: int
    n_components: int

    @classmethod
    def from_label_space(cls, space: LabelSpace) -> Blocks:
        """Build the index vectors, which depend only on the class lists."""
        if space.has_sets:
            from sklearn_uhc.solvers.sets import SetBlocks  # builds on this class

            return SetBlocks.from_label_space(space)
        class_of, starts = space.members, [block.start for block in space.blocks]
        owners = np.bincount(class_of, minlength=space.n_classes)
        return cls(
            class_of=class_of,
            teacher_of=space.teacher_of,
            sizes=np.array([float(len(labels)) for labels in space.class_lists]),
            shared=(owners > 1)[class_of].astype(float),
            component_of=space.components,
            teacher_component_mean=_group_mean(space.components[class_of[starts]]),
            slices=tuple(space.blocks),
            n_classes=space.n_classes,
            n_components=space.n_components,
        )

    @cached_property
    def _kept(self) -> dict[str, Any]:
        return {}

    def once(self, name: str, make: Callable[[], Any]) -> Any:
        """Return what a solver prepares for these class lists; it is computed on first use."""
        if name not in self._kept:
            self._kept[name] = make()
        return self._kept[name]

    @property
    def n_teachers(self) -> int:
        """N."""
        return len(self.slices)

    @property
    def shares(self) -> Array:
        """(N,): whether a teacher knows a class that another knows too."""
        return self.sum_teachers(self.shared[None, :])[0] > 0

    @property
    def batch_rows(self) -> int:
        """Number of samples solved together: large enough for efficient calls, small enough for the cache."""
        # Not a power of two: columns of memory at such distances compete for the same cache lines.
        return max(16, min(2000, 3 * 2**18 // (len(self.class_of) + self.n_teachers**2)))

    def like(self, X: Array) -> Blocks:
        """Return the same blocks in the library, device and precision of X."""
        if isinstance(X, np.ndarray) and X.dtype == self.sizes.dtype:
            return self
        arrays = {field.name: getattr(self, field.name) for field in fields(self)}
        return replace(self, **{k: like_array(v, X) for k, v in arrays.items() if isinstance(v, np.ndarray)})

    @cached_property
    def index(self) -> Index:
        """Sums by class and by teacher."""
        return Index(to_cpu(self.class_of), to_cpu(self.teacher_of), self.n_teachers, self.n_classes, self.sizes)

    @cached_property
    def M(self) -> Array:
        """(N, L), 1 where teacher i knows class l; for small label spaces."""
        return self.index.lists.dense

    @cached_property
    def to_class(self) -> Array:
        """(K, L), column k means class l; for small label spaces, `sum_classes` for all."""
        return self.index.classes.dense.T

    @cached_property
    def to_teacher(self) -> Array:
        """(K, N), column k belongs to teacher i; for small label spaces, `sum_teachers` for all."""
        return self.index.teachers.dense.T

    def sum_classes(self, F: Array) -> Array:
        """(n, K) to (n, L): sum over the columns that mean a class."""
        return self.index.classes(F)

    def sum_teachers(self, F: Array) -> Array:
        """(n, K) to (n, N): sum over the columns of a teacher."""
        return self.index.teachers(F)

    def sum_lists(self, U: Array) -> Array:
        """(n, L) to (n, N): sum over the classes that a teacher knows, M u."""
        return self.index.lists(U)

    def sum_owners(self, V: Array) -> Array:
        """(n, N) to (n, L): sum over the teachers that know a class, M'v."""
        return self.index.owners(V)

    def largest_owner(self, V: Array) -> Array:
        """(n, N) to (n, L): the largest value of the teachers that know a class."""
        xp, (classes, teachers) = array_namespace(V), self.index.layers[0]
        top = xp.take(V.T, teachers, axis=0)
        for classes, teachers in self.index.layers[1:]:
            top[classes, :] = xp.maximum(top[classes, :], xp.take(V.T, teachers, axis=0))
        return top.T

    def by_class(self, U: Array) -> Array:
        """(n, L) to (n, K): the value of the class that each column means."""
        return array_namespace(U).take(U.T, self.class_of, axis=0).T

    def by_teacher(self, V: Array) -> Array:
        """(n, N) to (n, K): the value of the teacher that each column belongs to."""
        return array_namespace(V).take(V.T, self.teacher_of, axis=0).T

    @property
    def pairs(self) -> Pairs:
        """Sums over the classes that two teachers share."""
        return self.index.pairs

    def scaled(self, F: Array, V: Array, *, in_place: bool = False) -> Array:
        """(n, K) times (n, N): multiply every teacher's columns by its number; `in_place` overwrites F."""
        factor = self.by_teacher(V)
        out, other = (F, factor) if in_place else (factor, F)
        out *= other
        return out

    def times_class(self, F: Array, U: Array) -> Array:
        """(n, K) times (n, L): multiply every column by the value of its class."""
        out = self.by_class(U)
        out *= F
        return out

    def group_means(self, U: Array) -> Array:
        """(n, L) to (n, L), or (n, 1) for one group: the mean over the group of each class."""
        xp = array_namespace(U)
        if self.n_components == 1:
            return xp.mean(U, axis=1, keepdims=True)
        groups = Incidence(to_cpu(self.component_of), np.arange(self.n_classes), (self.n_components, self.n_classes), U)
        means = groups(U) / groups(xp.ones_like(U[:1]))
        return xp.take(means.T, self.component_of, axis=0).T

    def center(self, Z: Array) -> Array:
        """Remove each teacher's mean logit, per sample."""
        out = self.by_teacher(self.sum_teachers(Z) / -self.sizes)
        out += Z
        return out

    def largest(self, Z: Array) -> Array:
        """(n, K) to (n, N): the largest value of every teacher."""
        if isinstance(Z, np.ndarray):
            return np.maximum.reduceat(np.ascontiguousarray(Z), [block.start for block in self.slices], axis=1)
        xp = array_namespace(Z)
        return xp.stack([xp.max(Z[:, block], axis=1) for block in self.slices], axis=1)

    def unshifted(self, Z: Array) -> Array:
        """Return the logits unchanged if they are close to each other and to 0, so that `shift` would clip nothing.

        For computations that do not depend on a shift per teacher. The range of all rows is found much faster than the
        largest logit of every teacher.
        """
        return samples_last(Z) if is_moderate(Z) else self.shift(Z)

    def shift(self, Z: Array) -> Array:
        """Shift each teacher's logits so that the largest is 0; entries below `MIN_LOG_P`, like -inf, become it."""
        xp, top = array_namespace(Z), self.largest(Z)
        said = xp.isfinite(top)  # a teacher with only -inf is uniform at any temperature
        top = xp.where(said, top, xp.zeros_like(top))
        # Differences of very large numbers would overflow; those of their halves do not.
        half = 0.5 if float(xp.max(top)) > float(xp.finfo(Z.dtype).max) * 1e-18 else 1.0
        out = samples_last(Z * half if half < 1 else Z, copy=half == 1)
        out -= self.by_teacher(half * top)
        out = at_least(out, half * MIN_LOG_P, in_place=True)
        if not bool(xp.all(said)):
            out = xp.where(self.by_teacher(said), out, xp.zeros_like(out))
        return out if half == 1 else out / half

    def log_softmax(self, Z: Array) -> Array:
        """Normalise each teacher's block of logits, per sample, after `shift`."""
        xp, Z = array_namespace(Z), self.shift(Z)
        return Z - self.by_teacher(xp.log(self.sum_teachers(xp.exp(Z))))

    def column_logits(self, U: Array, temperature: float = 1.0) -> Array:
        """(n, L) to (n, K): the columns' logits for logits U of q at a temperature, up to a shift per sample."""
        return self.by_class(U)

    def divergences(self, Z: Array, Q: Array, temperature: float = 1.0) -> Array:
        """(n, N): Kullback-Leibler divergence of Q, on a teacher's columns, from its answer; NaN where it is silent."""
        xp, silent = array_namespace(Z), array_namespace(Z).isnan(Z)
        log_p = self.log_softmax(xp.where(silent, xp.zeros_like(Z), Z))
        log_q = xp.log(xp.clip(Q, float(np.exp(MIN_LOG_P)), None))
        log_q = self.log_softmax(self.column_logits(log_q, temperature))
        # NaN of a silent teacher would spread to all teachers in a matrix product.
        parts = self.sum_teachers(xp.where(silent, xp.zeros_like(Z), xp.exp(log_p) * (log_p - log_q)))
        quiet = self.sum_teachers(xp.astype(silent, Z.dtype)) > 0
        return xp.where(quiet, xp.full_like(parts, xp.nan), xp.clip(parts, 0.0, None))

    def level_components(self, Q: Array) -> Array:
        """Set the mean of log q to 0 in every group of classes that no teacher links, then normalise."""
        xp = array_namespace(Q)
        if self.n_components == 1:
            return Q / xp.sum(Q, axis=1, keepdims=True)
        U = xp.clip(xp.log(xp.clip(Q, float(np.exp(MIN_LOG_P)), None)), MIN_LOG_P, None)
        return softmax(U - self.group_means(U))


def is_moderate(Z: Array) -> bool:
    """Return whether all logits are close to each other and to 0."""
    xp = array_namespace(Z)
    low, high = float(xp.min(Z)), float(xp.max(Z))
    return high - low <= -MIN_LOG_P and abs(high) <= FAR


def _group_mean(groups: Array) -> Array:
    """Return the projector on vectors that are constant within every group."""
    same = (groups[:, None] == groups[None, :]).astype(float)
    return same / same.sum(axis=1, keepdims=True)


def softmax(U: Array) -> Array:
    """Exponentiate and normalise the rows."""
    xp = array_namespace(U)
    E = exponentials(U - xp.max(U, axis=1, keepdims=True))
    E /= xp.sum(E, axis=1, keepdims=True)
    return E
