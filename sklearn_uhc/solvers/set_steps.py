"""CE and MF-P with columns that stand for sets, by accelerated steps with one matrix for all samples.

With m the masses of the classes (`set_sources.py`), and m0 and C the masses and Hessian for teachers with uniform
answers,

    u <- u - C^-1 (m0 gradient / m)

Relative to the masses, Hessians of different samples are similar, so that Anderson's acceleration needs ten to fifteen
such steps, each of a few sums over classes and sets. Together they take as long as one Newton step with a Hessian per
sample. Samples that do not converge, or end above their start, are left to Newton's method.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

from array_api_compat import device

from sklearn_uhc.solvers.anderson import Rest, Step, accelerate
from sklearn_uhc.solvers.blas import one_blas_thread
from sklearn_uhc.solvers.blocks import Array
from sklearn_uhc.solvers.incidence import array_namespace, at_least
from sklearn_uhc.solvers.set_sources import CrossEntropyTerms, ProbabilityTerms, Sources, Terms
from sklearn_uhc.solvers.sets import SetBlocks

#: Maximum number of steps.
MOST_STEPS = 40
#: Maximum length of the last step in u, relative to the square root of the tolerance, and of the next one before
#: acceleration, relative to the tolerance.
SHORT, STILL = 1e-2, 0.1
#: Curvature that is treated as zero for uniform answers: no step is taken along it.
FLOOR = 1e-9
#: Smallest mass of a class.
LEAST_MASS = 1e-200
#: Maximum size of a batch, in numbers: what fits into the cache of a core.
BATCH_NUMBERS = 2**19


#: The objectives that are supported.
Kind = type[CrossEntropyTerms] | type[ProbabilityTerms]


class Common(NamedTuple):
    """Shared by all samples."""

    sources: Sources
    matrix: Array  #: (L, L), C^-1 diag(m0)

    @classmethod
    def of(cls, kind: Kind, blocks: SetBlocks, weight: Array | None, T: float) -> Common:
        """Prepare a weight (N,) per teacher; without weights, only once for all calls."""
        if weight is None:
            ones = array_namespace(blocks.sizes).ones_like(blocks.sizes)
            common: Common = blocks.once(f"{kind.__name__} {T}", lambda: cls.of(kind, blocks, ones, T))
            return common
        sources = Sources.of(blocks, weight, T)
        return cls(sources, alike(kind, sources))


def alike(kind: Kind, sources: Sources) -> Array:
    """Return C^-1 diag(m0), (L, L), for teachers with uniform answers, as far as these determine u."""
    blocks, xp = sources.blocks, array_namespace(sources.has)
    e, q, qS = sources.sums(xp.zeros_like(sources.has[:1, : blocks.n_classes].T))
    each, weights = kind.of(xp.zeros_like(blocks.source[None, :] * sources.w[:1, :]), sources).each(e)
    J = xp.concat([xp.eye(blocks.n_classes, dtype=e.dtype, device=device(e)), blocks.in_set / qS])
    mass = xp.sum(each, axis=0)[:, None]
    H = J.T @ (mass * J) - (each @ J).T @ (weights * (each @ J))
    root = xp.sqrt(sources.pull(mass, q, qS)[:, 0])
    return xp.linalg.pinv(H / (root[:, None] * root), rtol=FLOOR) * (root / root[:, None])


@dataclass(frozen=True)
class CommonSteps:
    """The iteration for some samples."""

    terms: Terms
    matrix: Array
    size: Array  #: (n,), the scale of the residual

    def step(self, U: Array) -> Step:
        """Return the step at U (L, n), the gradient, and its largest entry."""
        xp, sources = array_namespace(U), self.terms.sources
        e, q, qS = sources.sums(U - xp.max(U, axis=0))
        mass, G = self.terms.masses(e)
        slope = sources.pull(G, q, qS)
        relative = slope / at_least(sources.pull(mass, q, qS), LEAST_MASS, in_place=True)
        largest = xp.maximum(xp.max(slope, axis=0), -xp.min(slope, axis=0))
        return Step(-(self.matrix @ relative), slope, largest / self.size)

    def value(self, U: Array) -> Array:
        """(n,), the objective up to a constant per sample."""
        return self.terms.value(self.terms.sources.sums(U - array_namespace(U).max(U, axis=0))[0])

    def keep(self, rows: Array) -> CommonSteps:
        """Return the problem of some samples."""
        return replace(self, terms=self.terms.keep(rows), size=self.size[rows])


def take_steps(kind: Kind, P: Array, first: Array, size: Array, common: Common, *, tol: float, close: bool) -> Rest:
    """Return the results for tempered probabilities P (n, K), from `first` (n, L), as (L, n).

    `solved` marks samples at an optimum: the residual, relative to `size` (n,), is within the tolerance and, with
    `close`, the last step and the next one are short.
    """
    xp, found, n = array_namespace(P), Rest.nothing_yet(first.T), P.shape[0]
    room = max(64, min(2048, BATCH_NUMBERS // (12 * common.sources.has.shape[1])))
    short, still = (SHORT * tol**0.5, STILL * tol) if close else (float("inf"), float("inf"))
    with one_blas_thread():
        for start in range(0, n, room):
            rows = xp.arange(start, min(start + room, n), device=device(P))
            problem = CommonSteps(kind.of(P[rows, :], common.sources), common.matrix, size[rows])
            U = found.U[:, rows]
            rest = accelerate(problem, U, tol=tol, short=short, still=still, max_iter=MOST_STEPS)
            lower = problem.value(rest.U) <= problem.value(U) + 1e-3 * tol
            found.write(rows, rest._replace(solved=rest.solved & lower))
    return found
