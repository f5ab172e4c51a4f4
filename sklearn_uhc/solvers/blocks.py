"""What the columns of all teachers stand for, as arrays: the contract of the two kinds, plain lists and sets.

Conventions, for every solver. Arrays are numpy's or torch's; answers come back in the same library, on the same device
and in the same precision. Samples are side by side in memory (see `incidence.py`).

====  =========  ===========================================================
P, Z  (n, K)     tempered probabilities or logits, teachers side by side
phi   (n, K)     logits of the columns, for logits u of q
U, Q  (n, L)     what is solved for, one column per merged class
V     (n, N)     one number per teacher (a scale or a normaliser)
w     (1, N)     weight of every teacher, of mean 1; (n, N) if it differs by row
M     (N, L)     1 where teacher i knows class l
====  =========  ===========================================================

`plain_blocks.py`: every column is one class, so phi_k is u of that class. `set_blocks.py`: a column may be a set of
classes. Nothing here has K times L, L times L or L times N^2 numbers: a sum costs K additions a sample.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

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
    def of(cls, found: Any, U: Array, V: Array, before: int = 0) -> Solution:
        """Take the diagnostics of `newton.minimize` after some steps before it."""
        return cls(U, V, found.n_iter + before, found.residual, found.converged, found.well_conditioned)


class At(NamedTuple):
    """The columns' logits for u, and what their derivatives need."""

    phi: Array  #: (n, K)
    q: Array = None  #: (n, L), exp(T u), largest entry 1
    qS: Array = None  #: (n, S), its sums over the columns that mean sets
    thin: Any = None  #: sets of nearly all classes whose sum is tiny


class Bend(NamedTuple):
    """Second derivatives of an objective by phi: diag(h) - sum_i c_i a_i a_i', a_i on the columns of teacher i."""

    h: Array  #: (n, K)
    a: Array  #: (n, K)
    c: Array  #: (n, N)
    size: Array  #: (n, K), not negative: the scale of every column

    def product(self, x: Array, blocks: Blocks) -> Array:
        """(n, K) to (n, K): the product with x."""
        out = self.a * blocks.by_teacher(self.c * blocks.sum_teachers(self.a * x))
        return self.h * x - out


@dataclass(frozen=True)
class Blocks(ABC):
    """The columns of every teacher: what both kinds of columns have in common, and what each must define."""

    teacher_of: Array  #: (K,)
    sizes: Array  #: (N,), number of columns of every teacher
    component_of: Array  #: (L,), group of linked classes of every class
    slices: tuple[slice, ...]  #: the columns of each teacher
    n_classes: int
    n_components: int

    @property
    @abstractmethod
    def batch_rows(self) -> int:
        """Number of samples solved together."""

    @property
    @abstractmethod
    def M(self) -> Array:
        """(N, L), 1 where a column of teacher i has class l; for small label spaces."""

    @property
    @abstractmethod
    def curved(self) -> Array:
        """(K,), 1 where phi_k is not linear in u: the column stands for several classes."""

    @abstractmethod
    def at(self, U: Array, T: float) -> At:
        """phi_k(u) = log q(S_k) / T with q = exp(T u), up to a shift per sample, for u (n, L)."""

    @abstractmethod
    def pull(self, G: Array, at: At) -> Array:
        """R'G: (n, K) to (n, L), a derivative by phi as one by u; R (K, L) is the derivative of phi by u."""

    @abstractmethod
    def push(self, x: Array, at: At) -> Array:
        """R x: (n, L) to (n, K), the change of phi for a change x of u."""

    @abstractmethod
    def sandwich(self, bend: Bend, at: At) -> tuple[Array, Array]:
        """R'(diag(h) - sum_i c_i a_i a_i') R as a matrix (n, L, L) plus a diagonal (n, L); for small label spaces."""

    @abstractmethod
    def diagonal(self, bend: Bend, at: At) -> Array:
        """About the diagonal of that, (n, L): the teachers' terms are left out."""

    def column_logits(self, U: Array, temperature: float = 1.0) -> Array:
        """(n, L) to (n, K): phi, the columns' logits for logits U of q at a temperature, up to a shift per sample."""
        return self.at(U, temperature).phi

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

    def like(self, X: Array) -> Any:
        """Return the same blocks in the library, device and precision of X."""
        if isinstance(X, np.ndarray) and X.dtype == self.sizes.dtype:
            return self
        arrays = {field.name: getattr(self, field.name) for field in fields(self)}
        return replace(self, **{k: like_array(v, X) for k, v in arrays.items() if isinstance(v, np.ndarray)})

    @cached_property
    def _teachers(self) -> Incidence:
        """(N, K), the columns of a teacher."""
        K, N = len(self.teacher_of), self.n_teachers
        return Incidence(to_cpu(self.teacher_of), np.arange(K), (N, K), self.sizes)

    def sum_teachers(self, F: Array) -> Array:
        """(n, K) to (n, N): sum over the columns of a teacher."""
        return self._teachers(F)

    def by_teacher(self, V: Array) -> Array:
        """(n, N) to (n, K): the value of the teacher that each column belongs to."""
        return array_namespace(V).take(V.T, self.teacher_of, axis=0).T

    def scaled(self, F: Array, V: Array, *, in_place: bool = False) -> Array:
        """(n, K) times (n, N): multiply every teacher's columns by its number; `in_place` overwrites F."""
        factor = self.by_teacher(V)
        out, other = (F, factor) if in_place else (factor, F)
        out *= other
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
        return xp.max(xp.reshape(xp.take(Z, self._padded, axis=1), (Z.shape[0], self.n_teachers, -1)), axis=2)

    @cached_property
    def _padded(self) -> Array:
        """(N * longest list,), the columns of every teacher; shorter lists repeat their last column."""
        longest = max(own.stop - own.start for own in self.slices)
        rows = [[min(own.start + j, own.stop - 1) for j in range(longest)] for own in self.slices]
        return like_array(np.array(rows).ravel(), self.sizes)

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


def group_mean(groups: Array) -> Array:
    """Return the projector on vectors that are constant within every group."""
    same = (groups[:, None] == groups[None, :]).astype(float)
    return same / same.sum(axis=1, keepdims=True)


def softmax(U: Array) -> Array:
    """Exponentiate and normalise the rows."""
    xp = array_namespace(U)
    E = exponentials(U - xp.max(U, axis=1, keepdims=True))
    E /= xp.sum(E, axis=1, keepdims=True)
    return E
