"""Starts of MF-LU with sets: accelerated steps with one matrix for all samples, with separate Newton steps in v.

    u <- u - C^-1 (m0 gradient_u / m),      v_i <- max(0, v_i - gradient_v_i / curvature_v_i)

m are the masses of the classes, sums of w_i v_i^2 times their shares in columns; C and m0 are the Hessian by u and
the masses if every set is split evenly and v = 1. The matrix ignores the coupling of u and v, so the steps would take
long to converge. But after a few of them, Newton's method, with its Hessian per sample, needs a third of its steps.
Samples are the last axis, and sets are lists of pairs of a set and a member.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from array_api_compat import device

from sklearn_uhc.solvers.anderson import Step, accelerate
from sklearn_uhc.solvers.blas import one_blas_thread
from sklearn_uhc.solvers.blocks import Array
from sklearn_uhc.solvers.incidence import Incidence, array_namespace, at_least, at_most, like_array, to_cpu
from sklearn_uhc.solvers.sets import SetBlocks, lowest

#: Maximum number of steps, and the residual at which Newton's method takes over.
MOST_STEPS, CLOSE = 24, 1e-5
#: Number of changes that the acceleration stores.
MEMORY = 6
#: Maximum size of a batch, in numbers: what fits into the cache of a core.
BATCH_NUMBERS = 2**19


class Pairs(NamedTuple):
    """Index vectors of the columns of single classes, and of the pairs of a set and a member."""

    blocks: SetBlocks
    single: Array  #: columns of single classes,
    single_class: Array  #: their classes,
    single_teacher: Array  #: and their teachers
    sets: Array  #: (S,), columns of sets,
    set_teacher: Array  #: (S,), and their teachers
    member: Array  #: class of every pair,
    set_of: Array  #: and set
    to_class: Incidence  #: sums over the single columns of a class
    member_to_class: Incidence  #: sums over the pairs of a class
    to_set: Incidence  #: sums over the pairs of a set

    @classmethod
    def of(cls, blocks: SetBlocks) -> Pairs:
        """Collect the index vectors."""
        space, like, L = blocks.space, blocks.sizes, blocks.n_classes
        single, sets = np.flatnonzero(space.set_sizes == 1), to_cpu(blocks.set_columns)
        classes = space.members[space.offsets[single]]
        member = np.concatenate([space.members[space.offsets[k] : space.offsets[k + 1]] for k in sets])
        set_of = np.repeat(np.arange(len(sets)), space.set_sizes[sets])
        pairs = np.arange(len(member))
        to_class = Incidence(classes, np.arange(len(single)), (L, len(single)), like)
        member_to_class = Incidence(member, pairs, (L, len(member)), like)
        to_set = Incidence(set_of, pairs, (len(sets), len(member)), like)
        index = (single, classes, space.teacher_of[single], sets, space.teacher_of[sets], member, set_of)
        arrays = [like_array(each, like) for each in index]
        return cls._make([blocks, *arrays, to_class, member_to_class, to_set])

    def give(self, F: Array, r: Array) -> Array:
        """(K, n) to (L, n): sum over the columns of a class, sets in proportion to their shares r."""
        xp = array_namespace(F)
        sets = xp.take(F, xp.take(self.sets, self.set_of), axis=0)
        sets *= r
        return self.to_class(xp.take(F, self.single, axis=0).T).T + self.member_to_class(sets.T).T

    def sum_teachers(self, F: Array) -> Array:
        """(K, n) to (N, n)."""
        return self.blocks.index.teachers(F.T).T

    def by_teacher(self, V: Array) -> Array:
        """(N, n) to (K, n)."""
        return array_namespace(V).take(V, self.blocks.teacher_of, axis=0)


class Common(NamedTuple):
    """Shared by all samples."""

    pairs: Pairs
    matrix: Array  #: (L, L), C^-1 diag(m0)
    w: Array  #: (N, 1)
    T: float
    lam: float

    @classmethod
    def of(cls, blocks: SetBlocks, A: Array, w: Array, T: float, lam: float) -> Common:
        """Prepare, given the quadratic A (L + S, L + S) of MF-LF (`set_mf_lf.EvenSplit`)."""
        xp, L, pairs = array_namespace(A), blocks.n_classes, Pairs.of(blocks)
        eye = xp.eye(L, dtype=A.dtype, device=device(A))
        sizes = xp.sum(blocks.in_set, axis=1)
        even = xp.concat([eye, blocks.in_set / sizes[:, None]])
        shares = xp.take(1 / sizes, pairs.set_of)[:, None]
        mass = lam + pairs.give(pairs.by_teacher(w[:, None]), shares)[:, 0]
        return cls(pairs, xp.linalg.inv(even.T @ A @ even + lam * eye) * mass, w[:, None], T, lam)

    @property
    def least(self) -> Array:
        """(L + N, 1), lower bounds: v is nonnegative."""
        xp, w = array_namespace(self.w), self.w
        return xp.concat([xp.full_like(self.matrix[:, :1], -xp.inf), xp.zeros_like(w)])


class At(NamedTuple):
    """The columns' errors and derivatives for u and v."""

    error: Array  #: (K, n), centred
    b: Array  #: (K, n), derivatives of the logits by v
    r: Array  #: (pairs, n), shares


@dataclass(frozen=True)
class StretchedSteps:
    """The iteration of x = (u, v), (L + N, n), for centred tempered logits Z (K, n)."""

    Z: Array
    size: Array  #: (n,), ||Z||^2 + lam
    common: Common

    def step(self, x: Array) -> Step:
        """Return the step, the projected gradient, and its largest entry, relative."""
        xp, (pairs, matrix, w, _, lam) = array_namespace(x), self.common
        U, V = x[: matrix.shape[0], :], x[matrix.shape[0] :, :]
        at = self._at(U, V)
        by_v = lam * w * V - w * pairs.sum_teachers(at.error * at.b)
        by_u = lam * U - pairs.give(at.error * pairs.by_teacher(w * V), at.r)
        mass = lam + pairs.give(pairs.by_teacher(w * V * V), at.r)
        sums = pairs.sum_teachers(at.b)
        bend = w * (lam + pairs.sum_teachers(at.b * at.b) - sums * sums / pairs.blocks.sizes[:, None])
        step_v = at_least(V - by_v / bend, 0.0, in_place=True) - V
        projected = xp.where(V > 0, by_v, at_most(by_v, 0.0))
        slope = xp.concat([by_u, projected])
        return Step(xp.concat([-(matrix @ (by_u / mass)), step_v]), slope, xp.max(xp.abs(slope), axis=0) / self.size)

    def _at(self, U: Array, V: Array) -> At:
        """Compare the columns' logits with the answers."""
        xp, pairs, T = array_namespace(U), self.common.pairs, self.common.T
        vs, top = xp.take(V, pairs.set_teacher, axis=0), xp.max(U, axis=0)
        members = xp.take(U - top, pairs.member, axis=0)
        r = xp.exp(T * xp.take(vs, pairs.set_of, axis=0) * members)
        r += math.exp(lowest(U))  # so that no set is empty
        total = pairs.to_set(r.T).T
        r /= xp.take(total, pairs.set_of, axis=0)
        error, b = xp.empty_like(self.Z), xp.empty_like(self.Z)
        own = xp.take(U, pairs.single_class, axis=0)
        b[pairs.single, :] = own
        error[pairs.single, :] = own * xp.take(V, pairs.single_teacher, axis=0)
        b[pairs.sets, :] = pairs.to_set((r * members).T).T + top
        error[pairs.sets, :] = xp.log(total) / T + vs * top
        error = self.Z - error
        error -= pairs.by_teacher(pairs.sum_teachers(error) / pairs.blocks.sizes[:, None])
        return At(error, b, r)

    def value(self, x: Array) -> Array:
        """(n,), the objective."""
        xp, L, w = array_namespace(x), self.common.matrix.shape[0], self.common.w
        U, V = x[:L, :], x[L:, :]
        error = self._at(U, V).error
        fit = xp.sum(w * self.common.pairs.sum_teachers(error * error), axis=0)
        return 0.5 * (fit + self.common.lam * (xp.sum(U * U, axis=0) + xp.sum(w * V * V, axis=0)))

    def keep(self, rows: Array) -> StretchedSteps:
        """Return the problem of some samples."""
        return replace(self, Z=self.Z[:, rows], size=self.size[rows])


def approach(Z: Array, first: Array, size: Array, common: Common) -> tuple[Array, Array]:
    """Return a better start than `first` (n, L + N) and its residual, for centred tempered logits Z (n, K)."""
    xp, (n, K) = array_namespace(Z), Z.shape
    out, residual = xp.asarray(first, copy=True), xp.empty_like(size)
    room = max(64, min(1000, BATCH_NUMBERS // (2 * MEMORY * first.shape[1] + 4 * K)))
    with one_blas_thread():
        for start in range(0, n, room):
            rows = slice(start, min(start + room, n))
            problem = StretchedSteps(xp.asarray(Z[rows, :].T, copy=True), size[rows], common)
            x = xp.asarray(first[rows, :].T, copy=True)
            found = accelerate(
                problem,
                x,
                tol=CLOSE,
                short=float("inf"),
                max_iter=MOST_STEPS,
                memory=MEMORY,
                least=common.least,
                downhill=False,
            )
            lower = problem.value(found.U) < problem.value(x)
            out[rows, :] = xp.where(lower, found.U, x).T
            residual[rows] = xp.where(lower, found.residual, xp.full_like(found.residual, xp.inf))
    return out, residual
