"""The columns of all teachers as matrices: sums over blocks and over classes are matrix products.

Conventions, for every solver. Arrays are numpy's or torch's; answers come back in the same library, on the same device
and in the same precision.

====  =========  ===========================================================
P, Z  (n, K)     tempered probabilities or logits, teachers side by side
U, Q  (n, L)     what is solved for, one column per merged class
V     (n, N)     one number per teacher (a scale or a normaliser)
M     (N, L)     1 where teacher i knows class l
====  =========  ===========================================================
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple

import numpy as np
from array_api_compat import array_namespace, device

from sklearn_uhc.label_space import LabelSpace

#: An array of numpy or torch.
Array = Any

#: Log-probabilities are clipped here: the smallest normal float32, so that both precisions clip alike.
MIN_LOG_P = float(np.log(np.finfo(np.float32).tiny))


class Solution(NamedTuple):
    """What an iterative solver found, sample by sample."""

    u: Array  #: (n, L)
    v: Array  #: (n, N)
    n_iter: Array  #: (n,)
    residual: Array  #: (n,), the optimality measure of the solver's docstring
    converged: Array  #: (n,), certified as an optimum: residual within the tolerance, and no step leads further
    well_conditioned: Array  #: (n,), the optimum is determined to 1e-8 in double precision

    @classmethod
    def of(cls, found: Any, U: Array, V: Array, before: int = 0) -> Solution:
        """Take the diagnostics of `newton.minimize` after some steps before it."""
        return cls(U, V, found.n_iter + before, found.residual, found.converged, found.well_conditioned)


@dataclass(frozen=True)
class Blocks:
    """A label space as matrices of zeros and ones and as index vectors."""

    M: Array  #: (N, L), teacher i knows class l
    sizes: Array  #: (N,), length of every class list
    to_class: Array  #: (K, L), column k means class l
    to_teacher: Array  #: (K, N), column k belongs to teacher i
    component_mean: Array  #: (L, L), takes the mean over the connected component of each class
    teacher_component_mean: Array  #: (N, N), the same for teachers
    pairs: Array  #: (L, N (N + 1) / 2), classes that teachers i <= j share
    pair_of: Array  #: (N * N,), which column of `pairs` belongs to i, j
    class_of: Array  #: (K,)
    teacher_of: Array  #: (K,)
    cell_of: Array  #: (N * L,), which of the K columns is teacher i, class l; K where there is none
    shared: Array  #: (K,), 1 where another teacher knows the class too
    slices: tuple[slice, ...]  #: the columns of each teacher
    n_components: int

    @classmethod
    def from_label_space(cls, space: LabelSpace) -> Blocks:
        """Build the matrices; they depend on the class lists alone, never on a sample."""
        if space.has_sets:
            from sklearn_uhc.solvers.sets import SetBlocks  # which builds on this class

            return SetBlocks.from_label_space(space)
        N, L, K = space.n_teachers, space.n_classes, space.n_outputs
        M = space.mask.astype(float)
        class_of = np.concatenate(space.columns)
        teacher_of = np.repeat(np.arange(N), [len(c) for c in space.columns])
        component_of_teacher = space.components[[columns[0] for columns in space.columns]]
        upper_i, upper_j = np.triu_indices(N)
        pair_of = np.zeros((N, N), dtype=int)
        pair_of[upper_i, upper_j] = pair_of[upper_j, upper_i] = np.arange(len(upper_i))
        cell_of = np.full((N, L), K)
        cell_of[teacher_of, class_of] = np.arange(K)
        return cls(
            M=M,
            sizes=M.sum(axis=1),
            to_class=np.eye(L)[class_of],
            to_teacher=np.eye(N)[teacher_of],
            component_mean=_group_mean(space.components),
            teacher_component_mean=_group_mean(component_of_teacher),
            pairs=(M[upper_i] * M[upper_j]).T.copy(),
            pair_of=pair_of.ravel(),
            class_of=class_of,
            teacher_of=teacher_of,
            cell_of=cell_of.ravel(),
            shared=(M.sum(axis=0) > 1)[class_of].astype(float),
            slices=tuple(space.blocks),
            n_components=space.n_components,
        )

    @property
    def shares(self) -> Array:
        """(N,): whether a teacher knows a class that another knows too."""
        return self.shared @ self.to_teacher > 0

    @property
    def batch_rows(self) -> int:
        """How many samples are best solved together: enough for the matrix products, few enough for the cache."""
        return max(128, min(1024, 2**21 // (self.M.shape[0] * self.M.shape[1])))

    def like(self, X: Array) -> Blocks:
        """Return the same matrices in the library, on the device and in the precision of X."""
        xp, where = array_namespace(X), device(X)
        moved = {}
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, np.ndarray):
                dtype = X.dtype if value.dtype.kind == "f" else xp.int64
                moved[field.name] = xp.asarray(value, dtype=dtype, device=where)
        return replace(self, **moved)

    def single(self) -> Blocks:
        """Return the same matrices in single precision."""
        xp, parts = array_namespace(self.M), vars(self).items()
        floats = {name: part for name, part in parts if hasattr(part, "dtype") and part.dtype == self.M.dtype}
        return replace(self, **{name: xp.astype(part, xp.float32) for name, part in floats.items()})

    def by_class(self, U: Array) -> Array:
        """(n, L) to (n, K): the value of the class that each column means."""
        return array_namespace(U).take(U, self.class_of, axis=1)

    def by_teacher(self, V: Array) -> Array:
        """(n, N) to (n, K): the value of the teacher that each column belongs to."""
        return array_namespace(V).take(V, self.teacher_of, axis=1)

    def cube(self, F: Array) -> Array:
        """(n, K) to (n, N, L), zero where a teacher does not know a class."""
        xp = array_namespace(F)
        padded = xp.concat([F, xp.zeros_like(F[:, :1])], axis=1)
        return xp.reshape(xp.take(padded, self.cell_of, axis=1), (F.shape[0], *self.M.shape))

    def gram(self, w: Array) -> Array:
        """(n, L) weights to (n, N, N): sum over the classes that two teachers share."""
        xp = array_namespace(w)
        N = self.M.shape[0]
        return xp.reshape(xp.take(w @ self.pairs, self.pair_of, axis=1), (w.shape[0], N, N))

    def center(self, Z: Array) -> Array:
        """Remove each teacher's mean logit, per sample."""
        return Z - self.by_teacher((Z @ self.to_teacher) / self.sizes)

    def shift(self, Z: Array) -> Array:
        """Shift each teacher's logits so that the largest is 0; nothing falls below `MIN_LOG_P`, not even -inf."""
        xp = array_namespace(Z)
        top = xp.stack([xp.max(Z[:, block], axis=1) for block in self.slices], axis=1)
        top = xp.where(xp.isfinite(top), top, xp.zeros_like(top))  # a block of -inf only says nothing: uniform
        # Halved, so that the difference of the two largest numbers there are does not overflow.
        half = Z / 2
        half -= self.by_teacher(top / 2)
        half = xp.clip(half, MIN_LOG_P / 2, None)
        half *= 2
        return half

    def log_softmax(self, Z: Array) -> Array:
        """Normalise each teacher's block of logits, per sample, after `shift`."""
        xp, Z = array_namespace(Z), self.shift(Z)
        return Z - self.by_teacher(xp.log(xp.exp(Z) @ self.to_teacher))

    def column_logits(self, U: Array, temperature: float = 1.0) -> Array:
        """(n, L) to (n, K): what logits U of q, at a temperature, say about the columns, up to a shift per sample."""
        return self.by_class(U)

    def divergences(self, Z: Array, Q: Array, temperature: float = 1.0) -> Array:
        """(n, N): Kullback-Leibler divergence of Q, on a teacher's columns, from its answer; NaN where it is silent."""
        xp, silent = array_namespace(Z), array_namespace(Z).isnan(Z)
        log_p = self.log_softmax(xp.where(silent, xp.zeros_like(Z), Z))
        log_q = xp.log(xp.clip(Q, float(np.exp(MIN_LOG_P)), None))
        log_q = self.log_softmax(self.column_logits(log_q, temperature))
        # NaN of a silent teacher would spread to all in a product of matrices.
        parts = xp.where(silent, xp.zeros_like(Z), xp.exp(log_p) * (log_p - log_q)) @ self.to_teacher
        quiet = xp.astype(silent, Z.dtype) @ self.to_teacher > 0
        return xp.where(quiet, xp.full_like(parts, xp.nan), xp.clip(parts, 0.0, None))

    def level_components(self, Q: Array) -> Array:
        """Give every group of classes that no teacher links mean log q = 0, then normalise."""
        xp = array_namespace(Q)
        if self.n_components == 1:
            return Q / xp.sum(Q, axis=1, keepdims=True)
        U = xp.clip(xp.log(xp.clip(Q, float(np.exp(MIN_LOG_P)), None)), MIN_LOG_P, None)
        return softmax(U - U @ self.component_mean)


def _group_mean(groups: Array) -> Array:
    """Projector on vectors that are constant within every group."""
    same = (groups[:, None] == groups[None, :]).astype(float)
    return same / same.sum(axis=1, keepdims=True)


def softmax(U: Array) -> Array:
    """Exponentiate and normalise the rows."""
    xp = array_namespace(U)
    E = xp.exp(U - xp.max(U, axis=1, keepdims=True))
    return E / xp.sum(E, axis=1, keepdims=True)


def over_teachers(cube: Array, V: Array) -> Array:
    """(n, N, L) and weights (n, N) to (n, L): sums over the teachers. Far quicker than products with `to_class`."""
    return array_namespace(cube).matmul(V[:, None, :], cube)[:, 0, :]


def over_classes(cube: Array, U: Array) -> Array:
    """(n, N, L) and weights (n, L) to (n, N): sums over the classes."""
    return array_namespace(cube).matmul(cube, U[:, :, None])[:, :, 0]
