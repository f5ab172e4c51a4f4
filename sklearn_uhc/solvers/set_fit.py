"""CE, MF-LF and MF-P with columns that stand for sets, by Newton's method in u.

With f the method's objective by phi (`set_terms.py`), G its derivative, R the (K, L) matrix of shares r_kl:

    gradient = R' G
    Hessian  = R' (diag(h) - sum_i c_i a_i a_i') R + T sum_k G_k (diag(r_k) - r_k r_k')

A column of a single class adds to the diagonal only, so the Hessian is a diagonal plus one rank-one term per set and
per teacher. What the answers leave undetermined stays as even as at the start: damping keeps it out of the step.
Residual: largest entry of the gradient, divided by ||P||^2 for MF-P.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

from array_api_compat import array_namespace, device

from sklearn_uhc.solvers import set_terms
from sklearn_uhc.solvers.blocks import Array, Solution, softmax
from sklearn_uhc.solvers.incidence import at_least, at_most
from sklearn_uhc.solvers.many_terms import CrossEntropy, LogitError, ProbabilityError, Terms
from sklearn_uhc.solvers.newton import add_diagonal, solve_each
from sklearn_uhc.solvers.set_groups import SMALL_SHARE, Group, groups_of
from sklearn_uhc.solvers.set_newton import Point
from sklearn_uhc.solvers.set_sources import CrossEntropyTerms, ProbabilityTerms
from sklearn_uhc.solvers.set_steps import FEW_STEPS, MOST_STEPS, Kind
from sklearn_uhc.solvers.set_terms import Bend
from sklearn_uhc.solvers.set_vanishing import Entry
from sklearn_uhc.solvers.sets import Columns, SetBlocks, level, lowest

#: Longest step in T u.
MAX_STEP = 4.0
#: Smallest curvature relative to a variable's scale; without it, rounding would decide what answers leave undetermined.
FLOOR = 1e-11
#: Slope of a group of classes that is far enough down, in units of the one of a class.
DOWN = 1e3
#: Smallest relative change of q in a step.
LEAST_CHANGE = -0.98
#: Share of a set that is most of it; two classes that are never apart have one half each.
MOST = 0.8
#: Weight in a mean of classes without probability.
TINY = 1e-30
#: Objective of a sample that fits poorly, relative to the median of so many.
POOR, SAMPLE = 4.0, 200
#: The last step of MF-P must be shorter by this factor.
CAUTION = 100.0
#: Shares that hint at a bad local optimum: of a class that is in sets only, and of any other.
LITTLE_SHARE, NO_SHARE = 1e-4, 1e-7
#: MF-P is flat if a long step gains less than this, relative to the objective; where answers agree it never is.
NOTHING = 1e-12


class Objective(NamedTuple):
    """The terms of a method as functions of phi."""

    slope: Callable[..., tuple[Array, Array]]
    bend: Callable[..., Bend]
    near: float  #: residual below which the full Hessian is used
    many: Terms  #: the objective for many classes
    vanish: bool = False  #: whether q = 0 may be optimal also for a class with its own column
    nothing: float = 0.0  #: relative gain that is not worth a step, however long
    terms: Kind | None = None  #: the objective for steps with one matrix for all samples, if any
    most: int = MOST_STEPS  #: maximum number of these steps
    goes_on: bool = True  #: whether Newton's method may begin where they end


CE = Objective(set_terms.cross_entropy, set_terms.bend_cross_entropy, 1e-2, CrossEntropy(), terms=CrossEntropyTerms)
MF_LF = Objective(set_terms.logit_error, set_terms.bend_logit_error, 1e-1, LogitError())
MF_P = Objective(
    set_terms.probability_error,
    set_terms.bend_probability_error,
    1e-2,
    ProbabilityError(),
    vanish=True,
    nothing=NOTHING,
    terms=ProbabilityTerms,
    most=FEW_STEPS,
    goes_on=False,  # where they do not converge, rounding decides where they are, and so which local optimum is next
)


@dataclass(frozen=True)
class SetFit:
    """An objective as a function of u (n, L), for tempered answers X (n, K)."""

    X: Array
    first: Array  #: (n, L), the start
    size: Array  #: (n,), the scale of the residual
    objective: Objective
    w: Array  #: (N,)
    T: float
    blocks: SetBlocks
    small: float = 1e-11  #: slopes below this are treated as zero if a class vanishes
    careful: bool = True

    def __len__(self) -> int:
        return int(self.X.shape[0])

    @property
    def batch_rows(self) -> int:
        """Number of samples solved together."""
        return self.blocks.batch_rows

    def start(self) -> Array:
        """Return the start, with mean 0 in every group."""
        return level(self.first, self.blocks, self.T)

    def at(self, U: Array) -> Point:
        """Return objective, gradient and its largest entry; the derivative by phi is stored."""
        xp, at = array_namespace(U), self.blocks.columns(U, self.T)
        value, G = self.objective.slope(at.phi, self.X, self.w, self.blocks)
        gradient = self._settle(self.blocks.pull(G, at), U, at)
        return Point(U, G, value, gradient, xp.max(xp.abs(gradient), axis=1) / self.size)

    def _may_vanish(self) -> Array:
        """(L,), classes for which q = 0 may be optimal: then u goes to -inf, and the objective falls exponentially."""
        return self.objective.vanish | ~self.blocks.has_own

    def _by_q(self, at: Columns) -> Array:
        """(n, L), classes whose variable is q in Newton's step, since it changes their sets along straight lines.

        Where two classes in sets only share a set, one often grows as much as the other shrinks. If a class has most of
        a set, u is the better variable, as it is in MF-P.
        """
        lonely = ~self.blocks.has_own & (not self.objective.vanish)
        return lonely & (at.q < MOST * self.blocks.smallest_set(at.qS))

    def _is_small(self, U: Array, shares: Array) -> Array:
        """(n, L), classes that may vanish and have next to nothing of their sets, or of everything."""
        small = self._may_vanish() & (shares < SMALL_SHARE)
        return small & (softmax(U) < SMALL_SHARE) if self.objective.vanish else small

    def _settle(self, gradient: Array, U: Array, at: Columns) -> Array:
        """Set a negligible slope to zero where a class vanishes: it is far enough down."""
        xp, small = array_namespace(gradient), self.small * self.size[:, None]
        tiny = xp.abs(gradient) <= small
        if not bool(xp.any(tiny)):
            return gradient
        tiny = tiny & self._is_small(U, at.q * self.blocks.give(1 / at.qS, at.thin))
        return xp.where(tiny, xp.zeros_like(gradient), gradient)

    def _settled(self, point: Point) -> Array:
        """(n, L), vanishing classes that are far enough down."""
        return self._may_vanish() & (point.gradient == 0)

    def vanished(self, U: Array) -> Array:
        """(n, L), classes whose optimum is q = 0, at an optimum otherwise: all their sets want less, or have enough.

        With tempering, what is left of them after a finite number of steps would still count.
        """
        xp, blocks = array_namespace(U), self.blocks
        at = blocks.columns(U, self.T)
        G = self.objective.slope(at.phi, self.X, self.w, blocks)[1]
        small = self._is_small(U, blocks.set_shares(U, self.T))
        error = 1e-3 * xp.abs(G) + 1e3 * self.small * self.size[:, None]  # where answers agree, G is that small
        return small & (blocks.pull(G, at) > blocks.pull(error, at))

    def _groups_down(self, at: Columns, gradient: Array) -> list[tuple[Group, Array]]:
        """Return groups of classes that vanish together, and where (n,) they are far enough down."""
        if not self.blocks.is_small:
            return []
        small = DOWN * self.small * self.size
        return [(group, group.is_down(at, gradient, small)) for group in groups_of(self.blocks)]

    def at_bottom(self, U: Array) -> Array:
        """(n, L), u with all that vanishes as far down as possible; what vanishes together keeps its differences."""
        xp, blocks, gone = array_namespace(U), self.blocks, self.vanished(U)
        if blocks.is_small and groups_of(blocks):
            at = blocks.columns(U, self.T)
            G = self.objective.slope(at.phi, self.X, self.w, blocks)[1]
            for group, down in self._groups_down(at, blocks.pull(G, at)):
                down = down & group.wants_less(at, blocks.of_sets(G))
                gone[:, group.classes] = xp.take(gone, group.classes, axis=1) | down[:, None]
        lowest_gone = xp.min(xp.where(gone, U, xp.inf), axis=1, keepdims=True)
        bottom = xp.max(U, axis=1, keepdims=True) + lowest(U) / self.T
        return xp.where(gone, U - lowest_gone + bottom, U)

    def returning(self, U: Array) -> Array:
        """(n, L), u with Newton's step in q for classes in sets only that are next to 0 and should not be.

        In u their slope vanishes with q, so that steps may end there.
        """
        xp, blocks = array_namespace(U), self.blocks
        at = blocks.columns(U, self.T)
        G = blocks.of_sets(self.objective.slope(at.phi, self.X, self.w, blocks)[1])
        h = blocks.of_sets(self.objective.bend(at.phi, self.X, self.w, blocks, self.size[:, None] > 0).h)
        entry = Entry.of(G.T, h.T / self.T, at.qS.T, 1e3 * self.small * self.size, blocks)
        slope, least, bend = (part.T for part in entry)
        back = ~blocks.has_own & (blocks.set_shares(U, self.T) < SMALL_SHARE) & (slope < -least) & (bend > 0)
        q = xp.where(back, -slope / xp.where(back, bend, xp.ones_like(bend)), xp.ones_like(bend))
        return xp.where(back, xp.max(U, axis=1, keepdims=True) + xp.log(q) / self.T, U)

    def loses_a_class(self, U: Array) -> Array:
        """(n,), whether a class that may vanish has next to nothing left."""
        return array_namespace(U).any(self._is_small(U, self.blocks.set_shares(U, self.T)), axis=1)

    def is_suspect(self, U: Array) -> Array:
        """(n,), whether a class has lost its sets, as in bad local optima: nearly, or fully if it has other columns."""
        shares = self.blocks.set_shares(U, self.T)
        lost = ~self.blocks.has_own & (shares < LITTLE_SHARE) | self._is_small(U, shares)
        return array_namespace(U).any(lost | (self.blocks.in_sets & (shares < NO_SHARE)), axis=1)

    def is_doubtful(self, found: Solution, certain: Array) -> Array:
        """(n,), samples that may be in a bad local optimum.

        `certain` ones (n,) only if they fit much worse than others, or if classes with own columns lost their sets.
        """
        xp, blocks = array_namespace(certain), self.blocks
        doubtful, rows = ~found.converged | self.is_suspect(found.u), xp.nonzero(certain)[0]
        if rows.shape[0]:
            usual = self._values(found.u, xp.arange(0, len(self), 1 + len(self) // SAMPLE, device=device(certain)))
            poor = self._values(found.u, rows) > POOR * xp.sort(usual)[usual.shape[0] // 2] + self.small
            lost = blocks.has_own & blocks.in_sets & (blocks.set_shares(found.u[rows, :], self.T) < NO_SHARE)
            doubtful[rows] = poor | doubtful[rows] & xp.any(lost, axis=1)
        return doubtful

    def _values(self, U: Array, rows: Array) -> Array:
        """Return the objective of some samples."""
        phi = self.blocks.columns(U[rows, :], self.T).phi
        value: Array = self.objective.slope(phi, self.X[rows, :], self.w, self.blocks)[0]
        return value

    def length(self, point: Point, step: Array) -> Array:
        """Return the length of a step in u; the next is about its square. For MF-P, flat at small u, in q.

        The curvature of MF-P changes quickly, so that its next step may be much longer.
        """
        xp = array_namespace(step)
        size = CAUTION * xp.abs(step) * xp.sqrt(softmax(point.x)) if self.objective.vanish else xp.abs(step)
        return xp.max(xp.where(self._settled(point), xp.zeros_like(size), size), axis=1)

    @property
    def nothing(self) -> float:
        """Return the gain, relative to the objective, that is not worth a step."""
        return self.objective.nothing

    def curvature(self, point: Point) -> tuple[Array, Array, Array]:
        """Return the Hessian as a matrix plus a diagonal, and the scale of every class.

        Far from the optimum, parts that may be negative are left out.
        """
        xp, blocks = array_namespace(point.x), self.blocks
        at, near = blocks.columns(point.x, self.T), (point.residual < self.objective.near)[:, None]
        bend = self.objective.bend(at.phi, self.X, self.w, blocks, near)
        sets = self.T * blocks.of_sets(point.u)
        upwards = xp.where(near, sets, at_least(sets, 0.0))
        scale = blocks.pull(bend.size, at)
        scale = xp.maximum(scale, 1e-13 * xp.max(scale, axis=1, keepdims=True))
        B = self._matrix(bend, upwards if self.objective.vanish else xp.where(near, sets, 0 * sets), at)
        diagonal = blocks.sum_singles(bend.h) + at.q * blocks.give(upwards / at.qS, at.thin)
        diagonal = xp.where(self._by_q(at), 0 * diagonal, self._hasten(diagonal, B, point.gradient)) + FLOOR * scale
        diagonal = xp.where(self._settled(point), scale, diagonal)  # these stay where they are
        # The gradient has no component along the common shift of a group: filling that null space keeps it out of the
        # step as well.
        root = xp.sqrt(scale)
        B += blocks.component_mean * (root[:, :, None] * root[:, None, :])
        for group, down in self._groups_down(at, point.gradient):
            own = xp.where(down[:, None], xp.take(root, group.classes, axis=1), 0.0)
            B[:, group.classes[:, None], group.classes] += own[:, :, None] * own[:, None, :] / own.shape[1]
        return B, diagonal, scale

    def newton(self, point: Point, mu: Array) -> Array:
        """Return the damped step, with each variable in its own scale."""
        H, unit, bend = self._scaled(point)
        add_diagonal(H, mu[:, None] + 0 * unit)
        return self._leap(unit * solve_each(H, -(unit * point.gradient)), bend, point)

    @property
    def has_eigenvalues(self) -> bool:
        """Whether the Hessian is a matrix."""
        return self.blocks.is_small

    def flipped(self, point: Point, mu: Array) -> Array:
        """Return the damped step with negative curvature taken as positive; more expensive."""
        H, unit, bend = self._scaled(point)
        xp = array_namespace(H)
        values, vectors = xp.linalg.eigh(H)
        along = xp.matmul(xp.permute_dims(vectors, (0, 2, 1)), -(unit * point.gradient)[:, :, None])
        step = xp.matmul(vectors, along / (xp.abs(values) + mu[:, None])[:, :, None])[:, :, 0]
        return self._leap(unit * step, bend, point)

    def _scaled(self, point: Point) -> tuple[Array, Array, Array]:
        """Return the Hessian with each variable in its own scale, that scale, and the second derivatives by u."""
        B, d, scale = self.curvature(point)
        i, unit = array_namespace(B).arange(B.shape[1], device=device(B)), 1 / array_namespace(B).sqrt(scale)
        bend = B[:, i, i] + d - self.blocks.component_mean[i, i] * scale
        B *= unit[:, :, None]  # in place, since a batch of matrices is the largest array
        B *= unit[:, None, :]
        add_diagonal(B, d * unit**2)
        return B, unit, bend

    def _matrix(self, bend: Bend, sets: Array, at: Columns) -> Array:
        """Return the sum of the rank-one terms of the sets and of the teachers."""
        xp, blocks = array_namespace(at.q), self.blocks
        factors = xp.concat([blocks.shares(at), blocks.spread(bend.a, at)], axis=1)
        weights = xp.concat([bend.h @ blocks.to_set - sets, -bend.c], axis=1)
        return xp.matmul(xp.permute_dims(factors * weights[:, :, None], (0, 2, 1)), factors)

    def _hasten(self, diagonal: Array, B: Array, gradient: Array) -> Array:
        """Let a class on its way to q = 0 take four Newton steps, of 1 in T u each, at once."""
        xp, i = array_namespace(B), array_namespace(B).arange(B.shape[1], device=device(B))
        falling = (gradient > 0) & (diagonal < 1.5 * self.T * gradient)
        vanishing = self._may_vanish() & falling & (xp.abs(B[:, i, i]) < 0.1 * diagonal)
        return xp.where(vanishing, diagonal / MAX_STEP, diagonal)

    def _leap(self, step: Array, bend: Array, point: Point) -> Array:
        """Return the step in u; a class in sets only takes Newton's in q where that is the better one.

        If it grows from next to nothing, the objective curves downwards in u. `bend` (n, L) is its second derivative.
        """
        xp, pull = array_namespace(step), -self.T * point.gradient
        if not self.objective.vanish:
            at = self.blocks.columns(point.x, self.T)
            return xp.where(self._by_q(at), by_q(step, point.x, self.T, self.blocks), step)
        grows = ~self.blocks.has_own & (pull > 0) & (bend < 0.5 * pull)
        if not bool(xp.any(grows)):
            return step
        more = xp.where(grows, pull / xp.maximum(bend + pull, 1e-12 * xp.abs(pull) + 1e-300), 0 * pull)
        return xp.where(grows, xp.log1p(more) / self.T, step)

    def safe(self, point: Point) -> Array:
        """Return the result of a short step down the gradient."""
        at = self.blocks.columns(point.x, self.T)
        near = (point.residual < 0)[:, None]
        size = self.blocks.pull(self.objective.bend(at.phi, self.X, self.w, self.blocks, near).size, at)
        return self.move(point.x, -point.gradient / (2 * self.T * at_least(size, 1e-30)))

    def move(self, U: Array, step: Array) -> Array:
        """Add the step, with each entry limited on its own: a vanishing class must not hold up the others."""
        longest = MAX_STEP / self.T
        return level(U + at_most(at_least(step, -longest), longest), self.blocks, self.T)

    def keep(self, rows: Array) -> SetFit:
        """Return the problem of some samples."""
        return replace(self, X=self.X[rows], first=self.first[rows], size=self.size[rows])


def by_q(step: Array, U: Array, T: float, blocks: SetBlocks) -> Array:
    """Return the step (n, L) in u of a relative change T step of q.

    What all classes of a group have in common is a shift of u, which does not change q.
    """
    xp = array_namespace(U)
    q = xp.exp(T * (U - xp.max(U, axis=1, keepdims=True))) + TINY
    common = (q * step) @ blocks.component_mean / (q @ blocks.component_mean)
    return common + xp.log1p(at_least(T * (step - common), LEAST_CHANGE)) / T
