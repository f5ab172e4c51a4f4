"""CE and MF-P with columns that stand for sets, as functions of the distinct columns: L classes and S sets.

Columns of the same class or set share their logit, so both objectives depend only on x = (u, phi of the sets), L + S
numbers, however many columns there are. Samples are the last axis. With N the matrix of which teacher has which column,
and e = exp(x),

    CE      sum_i w_i log (N e)_i - a'x,                    a the sums of w_i p over columns
    MF-P    1/2 sum_i w_i sum_k (p_k - v_i e_k)^2,          optimal v_i

The masses m, e N'(w / N e) for CE and e^2 N'(w v^2) for MF-P, are the diagonal of both Hessians by x at an optimum of
consistent answers.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

import numpy as np

from sklearn_uhc.solvers.blocks import Array
from sklearn_uhc.solvers.incidence import Incidence, array_namespace, at_least, to_cpu
from sklearn_uhc.solvers.sets import SetBlocks


class Sources(NamedTuple):
    """Shared by all samples."""

    blocks: SetBlocks
    w: Array  #: (N, 1)
    T: float
    has: Array  #: (N, L + S), 1 if teacher i has such a column
    columns: Incidence  #: sums over the columns of a class or set

    @classmethod
    def of(cls, blocks: SetBlocks, w: Array, T: float) -> Sources:
        """Prepare a weight (N,) per teacher."""
        source, K = to_cpu(blocks.source), len(blocks.source)
        M = blocks.n_classes + len(blocks.set_columns)
        has = Incidence(to_cpu(blocks.teacher_of), source, (blocks.n_teachers, M), blocks.sizes)
        return cls(blocks, w[:, None], T, has.dense, Incidence(source, np.arange(K), (M, K), blocks.sizes))

    def sums(self, U: Array) -> tuple[Array, Array, Array]:
        """Return e (L + S, n), q (L, n) and its sums over the sets (S, n), for u (L, n) whose largest entry is 0."""
        xp, T = array_namespace(U), self.T
        e = xp.exp(U)
        q = e if T == 1 else xp.exp(T * U)
        qS = self.blocks.in_set @ q
        qS += float(xp.finfo(U.dtype).tiny)
        return xp.concat([e, qS if T == 1 else xp.exp(xp.log(qS) / T)]), q, qS

    def pull(self, G: Array, q: Array, qS: Array) -> Array:
        """(L + S, n) to (L, n): turn a derivative by x into one by u."""
        L = q.shape[0]
        out = self.blocks.in_set.T @ (G[L:, :] / qS)
        out *= q
        out += G[:L, :]
        return out


class Terms(Protocol):
    """An objective as a function of x."""

    @property
    def sources(self) -> Sources:
        """Shared by all samples."""

    def masses(self, e: Array) -> tuple[Array, Array]:
        """Return the masses (L + S, n) and the derivative by x."""

    def value(self, e: Array) -> Array:
        """(n,), the objective up to a constant per sample."""

    def each(self, e: Array) -> tuple[Array, Array]:
        """Return the masses by teacher, (N, L + S), if all answer e (L + S, 1), and the weights of their products.

        The Hessian by x is then diag(sum of the masses) minus the sum of the weights (N, 1) times m_i m_i'.
        """

    def keep(self, rows: Array) -> Terms:
        """Return the problem of some samples."""


@dataclass(frozen=True)
class CrossEntropyTerms:
    """CE for the sums a (L + S, n)."""

    sources: Sources
    a: Array

    @classmethod
    def of(cls, P: Array, sources: Sources) -> CrossEntropyTerms:
        """Sum tempered probabilities P (n, K)."""
        weighted = P * array_namespace(P).take(sources.w[:, 0], sources.blocks.teacher_of)
        return cls(sources, array_namespace(P).asarray(sources.columns(weighted).T, copy=True))

    def masses(self, e: Array) -> tuple[Array, Array]:
        """Return masses and derivative."""
        mass = self.sources.has.T @ (self.sources.w / (self.sources.has @ e))
        mass *= e
        return mass, mass - self.a

    def value(self, e: Array) -> Array:
        """(n,)."""
        xp = array_namespace(e)
        return xp.sum(self.sources.w * xp.log(self.sources.has @ e), axis=0) - xp.sum(self.a * xp.log(e), axis=0)

    def each(self, e: Array) -> tuple[Array, Array]:
        """Return the masses of every teacher, and the weights of their products."""
        mass = self.sources.w * self.sources.has * e[:, 0] / (self.sources.has @ e)
        return mass, 1 / self.sources.w

    def keep(self, rows: Array) -> CrossEntropyTerms:
        """Return the problem of some samples."""
        return replace(self, a=self.a[:, rows])

    def without(self, sources: Sources, join: Array) -> CrossEntropyTerms:
        """Return the problem of a smaller label space, in which some columns are joined."""
        return CrossEntropyTerms(sources, join @ self.a)


@dataclass(frozen=True)
class ProbabilityTerms:
    """MF-P for tempered probabilities P (K, n)."""

    sources: Sources
    P: Array

    @classmethod
    def of(cls, P: Array, sources: Sources) -> ProbabilityTerms:
        """Take P (n, K)."""
        return cls(sources, array_namespace(P).asarray(P.T, copy=True))

    def masses(self, e: Array) -> tuple[Array, Array]:
        """Return masses and derivative."""
        xp, sources = array_namespace(e), self.sources
        v = self._scales(e)
        pulled = self.P * xp.take(sources.w * v, sources.blocks.teacher_of, axis=0)
        mass = sources.has.T @ (sources.w * v * v)
        mass *= e
        mass *= e
        return mass, mass - e * sources.columns(pulled.T).T

    def _scales(self, e: Array) -> Array:
        """(N, n), v given e."""
        xp, blocks = array_namespace(e), self.sources.blocks
        products = self.P * xp.take(e, blocks.source, axis=0)
        return blocks.index.teachers(products.T).T / self._squares(e)

    def _squares(self, e: Array) -> Array:
        """(N, n), sums of e^2."""
        return at_least(self.sources.has @ (e * e), float(array_namespace(e).finfo(e.dtype).tiny))

    def value(self, e: Array) -> Array:
        """(n,)."""
        return -0.5 * array_namespace(e).sum(self.sources.w * self._scales(e) ** 2 * self._squares(e), axis=0)

    def each(self, e: Array) -> tuple[Array, Array]:
        """Return the squared answers of every teacher, and the weights of their products."""
        mass = self.sources.w * (self.sources.has * e[:, 0] / (self.sources.has @ e)) ** 2
        return mass, 1 / array_namespace(e).sum(mass, axis=1)[:, None]

    def keep(self, rows: Array) -> ProbabilityTerms:
        """Return the problem of some samples."""
        return replace(self, P=self.P[:, rows])

    def without(self, sources: Sources, join: Array) -> ProbabilityTerms:
        """Return the problem of a smaller label space."""
        return ProbabilityTerms(sources, self.P)
