"""CE and MF-P with columns that stand for sets, by accelerated steps with one matrix for all samples.

With m the masses of the classes (`set_sources.py`), and m0 and C the masses and Hessian for teachers that find all
classes alike (those that are in sets only more probable, `SetBlocks.typical`),

    u <- u - C^-1 (m0 gradient / m)

Relative to the masses, Hessians of different samples are similar, so that Anderson's acceleration needs ten to fifteen
such steps, each of a few sums over classes and sets. Together they take as long as one Newton step with a Hessian per
sample. Samples in which a class vanishes are solved without it (`set_vanishing`). Samples that do not converge, or end
above their start, are left to Newton's method.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

from array_api_compat import device

from sklearn_uhc.solvers.anderson import Rest, Step, accelerate
from sklearn_uhc.solvers.blas import one_blas_thread
from sklearn_uhc.solvers.blocks import Array
from sklearn_uhc.solvers.incidence import array_namespace, at_least, at_most
from sklearn_uhc.solvers.set_sources import CrossEntropyTerms, ProbabilityTerms, Sources
from sklearn_uhc.solvers.set_vanishing import Entry, Smaller
from sklearn_uhc.solvers.sets import SetBlocks

#: Maximum number of steps of CE, and of MF-P: after more, rounding decides where a sample is.
MOST_STEPS, FEW_STEPS = 40, 30
#: Maximum length of the last step in u, relative to the square root of the tolerance, and of the next one before
#: acceleration, relative to the tolerance.
SHORT, STILL = 1e-2, 0.1
#: Curvature that is treated as zero for uniform answers: no step is taken along it.
FLOOR = 1e-9
#: Smallest mass of a class, and the largest gradient relative to it.
LEAST_MASS, MOST_RELATIVE = 1e-200, 1.0
#: Number of steps before vanishing classes are predicted.
LOOK = 4
#: Maximum size of a batch, in numbers: what fits into the cache of a core.
BATCH_NUMBERS = 2**19


#: The objectives that are supported.
Kind = type[CrossEntropyTerms] | type[ProbabilityTerms]


class Common(NamedTuple):
    """Shared by all samples."""

    sources: Sources
    matrix: Array  #: (L, L), C^-1 diag(m0)
    parts: dict[int, Common]  #: the same for smaller label spaces

    @classmethod
    def of(cls, kind: Kind, blocks: SetBlocks, weight: Array | None, T: float) -> Common:
        """Prepare a weight (N,) per teacher; without weights, only once for all calls."""
        if weight is None:
            ones = array_namespace(blocks.sizes).ones_like(blocks.sizes)
            common: Common = blocks.once(f"{kind.__name__} {T}", lambda: cls.of(kind, blocks, ones, T))
            return common
        sources = Sources.of(blocks, weight, T)
        return cls(sources, alike(kind, sources), {})

    def without(self, kind: Kind, part: Smaller) -> Common:
        """Return the same for a smaller label space; made once."""
        key, (_, w, T, *_) = id(part.blocks), self.sources
        if key not in self.parts:
            self.parts[key] = Common.of(kind, part.blocks, w[:, 0], T)
        return self.parts[key]


def alike(kind: Kind, sources: Sources) -> Array:
    """Return C^-1 diag(m0), (L, L), as far as teachers' answers determine u."""
    blocks, xp = sources.blocks, array_namespace(sources.has)
    e, q, qS = sources.sums(xp.log(blocks.typical)[:, None] / sources.T)
    each, weights = kind.of(xp.zeros_like(blocks.source[None, :] * sources.w[:1, :]), sources).each(e)
    J = xp.concat([xp.eye(blocks.n_classes, dtype=e.dtype, device=device(e)), blocks.in_set * (q.T / qS)])
    mass = xp.sum(each, axis=0)[:, None]
    H = J.T @ (mass * J) - (each @ J).T @ (weights * (each @ J))
    root = xp.sqrt(sources.pull(mass, q, qS)[:, 0])
    return xp.linalg.pinv(H / (root[:, None] * root), rtol=FLOOR) * (root / root[:, None])


@dataclass(frozen=True)
class CommonSteps:
    """The iteration for some samples, until the residual is within the tolerance, and the last and the next step short.

    With `rough` only the former counts.
    """

    terms: CrossEntropyTerms | ProbabilityTerms
    common: Common
    size: Array  #: (n,), the scale of the residual
    tol: float
    rough: bool = False
    look: int = LOOK

    @classmethod
    def of(cls, kind: Kind, P: Array, size: Array, common: Common, *, tol: float, rough: bool = False) -> CommonSteps:
        """Take tempered probabilities P (n, K)."""
        return cls(kind.of(P, common.sources), common, size, tol, rough)

    @property
    def blocks(self) -> SetBlocks:
        """The label space."""
        return self.common.sources.blocks

    @property
    def T(self) -> float:
        """The temperature."""
        return self.common.sources.T

    def run(self, U: Array, most: int) -> Rest:
        """Take steps from U (L, n); solved samples end no higher than they begin, others stay there if `rough`."""
        xp, found, n = array_namespace(U), Rest.nothing_yet(U), U.shape[1]
        room = max(64, min(2048, BATCH_NUMBERS // (12 * self.common.sources.has.shape[1])))
        inf, tol = float("inf"), self.tol
        short, still = (inf, inf) if self.rough else (SHORT * tol**0.5, STILL * tol)
        with one_blas_thread():
            for start in range(0, n, room):
                rows = xp.arange(start, min(start + room, n), device=device(U))
                some, first = self.keep(rows), U[:, rows]
                rest = accelerate(some, first, tol=tol, short=short, still=still, max_iter=most)
                lower = some.value(rest.U) <= some.value(first) + 1e-3 * tol
                rest = rest._replace(solved=rest.solved & lower)
                found.write(rows, rest._replace(U=xp.where(rest.solved, rest.U, first)) if self.rough else rest)
        return found

    def step(self, U: Array) -> Step:
        """Return the step at U (L, n), the gradient, and its largest entry."""
        xp, sources = array_namespace(U), self.terms.sources
        e, q, qS = sources.sums(U - xp.max(U, axis=0))
        mass, G = self.terms.masses(e)
        slope = sources.pull(G, q, qS)
        relative = slope / at_least(sources.pull(mass, q, qS), LEAST_MASS, in_place=True)
        relative = at_most(at_least(relative, -MOST_RELATIVE, in_place=True), MOST_RELATIVE)
        largest = xp.maximum(xp.max(slope, axis=0), -xp.min(slope, axis=0))
        return Step(-(self.common.matrix @ relative), slope, largest / self.size)

    def value(self, U: Array) -> Array:
        """(n,), the objective up to a constant per sample."""
        return self.terms.value(self.terms.sources.sums(U - array_namespace(U).max(U, axis=0))[0])

    def entry(self, U: Array) -> Entry:
        """Return how the objective changes if classes enter their sets."""
        L, T = U.shape[0], self.T
        e, _, qS = self.terms.sources.sums(U - array_namespace(U).max(U, axis=0))
        mass, G = self.terms.masses(e)
        return Entry.of(G[L:, :], mass[L:, :] / T, qS, self.tol * self.size, self.blocks)

    def keep(self, rows: Array) -> CommonSteps:
        """Return the problem of some samples."""
        return replace(self, terms=self.terms.keep(rows), size=self.size[rows])

    def without(self, part: Smaller) -> CommonSteps:
        """Return the problem in a smaller label space."""
        common = self.common.without(type(self.terms), part)
        return replace(self, terms=self.terms.without(common.sources, part.join), common=common)
