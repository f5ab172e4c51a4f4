"""CE, MF-LF and MF-P with columns that stand for sets, for too many classes to use matrices of them.

Newton's method in u, as in `set_fit`, with the objective as a function of one logit per class and per set
(`many_terms`). Newton's steps are found by conjugate gradients.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from array_api_compat import array_namespace, device

from sklearn_uhc.solvers.blocks import Array
from sklearn_uhc.solvers.conjugate import solve_system
from sklearn_uhc.solvers.incidence import take_samples
from sklearn_uhc.solvers.many_sources import Lists
from sklearn_uhc.solvers.many_terms import Bend, Parted, Terms
from sklearn_uhc.solvers.newton import Point, choose, rows_of
from sklearn_uhc.solvers.set_fit import FLOOR, Objective, SetFit
from sklearn_uhc.solvers.set_index import Thin
from sklearn_uhc.solvers.sets import Columns, SetBlocks

#: Rounding of the objective, relative.
NOISE = 1e-11
#: Lengths of steps that are tried after one that goes uphill.
SHRINK = (0.25, 0.06, 0.015, 0.004, 0.0003)


@dataclass(frozen=True)
class System:
    """The damped Hessian by u, as a product."""

    bend: Bend
    at: Columns  #: `phi` is not used
    more: Array  #: (n, L), added to the diagonal
    curve: Array  #: (n, S), T times the derivative by the logits of the sets
    about: Array  #: (n, L), positive: about the diagonal

    def product(self, x: Array) -> Array:
        """(n, L) to (n, L)."""
        at, lists = self.at, self.bend.lists
        within = lists.over_sets(at.q * x, at.thin) / at.qS
        by = self.bend.product(Parted(x, within))
        return by.u + self.more * x + at.q * lists.from_sets((by.sets - self.curve * within) / at.qS, at.thin)

    def keep(self, rows: Array) -> System:
        """Return the system of some samples."""
        q, qS = (take_samples(part, rows) for part in (self.at.q, self.at.qS))
        at = Columns(q, q, qS, Thin.of(self.at.thin, rows))
        parts = {name: take_samples(getattr(self, name), rows) for name in ("more", "curve", "about")}
        return System(self.bend.keep(rows), at, **parts)


@dataclass(frozen=True)
class ManyFit(SetFit):
    """Like `SetFit`, for what `terms.prepare` makes of the answers; `Point.u` is the derivative by the sets' logits."""

    noise: float = NOISE

    @classmethod
    def of(
        cls,
        X: Array,
        first: Array,
        size: Array,
        objective: Objective,
        w: Array,
        T: float,
        blocks: SetBlocks,
        small: float,
    ) -> ManyFit:
        """Prepare tempered answers X (n, K)."""
        return cls(objective.many.prepare(X, w, Lists.of(blocks)), first, size, objective, w, T, blocks, small)

    @property
    def still(self) -> float:
        """Residual at which steps end however long they are: in flat directions rounding decides them."""
        return 0.1 * self.small

    @property
    def terms(self) -> Terms:
        """The objective by x."""
        return self.objective.many

    @property
    def lists(self) -> Lists:
        """Sums over lists."""
        return Lists.of(self.blocks)

    def at(self, U: Array) -> Point:
        """Return objective, gradient and its largest entry."""
        xp, (x, at) = array_namespace(U), self._columns(U)
        value, by = self.terms.slope(x, self.X, self.w, self.lists)
        gradient = self._settle(self._pull(by, at), U, at)
        return Point(U, by.sets, value, gradient, xp.max(xp.abs(gradient), axis=1) / self.size)

    def _columns(self, U: Array) -> tuple[Parted, Columns]:
        """Return x and the sums of q over the sets."""
        xp = array_namespace(U)
        U = U - xp.max(U, axis=1, keepdims=True)
        q = xp.exp(self.T * U)
        sums = self.lists.sums(q)
        qS, members, tiny = self.lists.pick_sets(sums), self.blocks.members, float(xp.finfo(U.dtype).tiny)
        thin = members.thin(qS, sums.total)
        qS = qS if thin is None else members.refine(qS, q, thin)
        qS = xp.where(qS > tiny, qS, xp.full_like(qS, tiny))
        return Parted(U, xp.log(qS) / self.T), Columns(q, q, qS, thin)

    def _pull(self, by: Parted, at: Columns) -> Array:
        """Turn a derivative by x into one by u."""
        return by.u + at.q * self.lists.from_sets(by.sets / at.qS, at.thin)

    def vanished(self, U: Array) -> Array:
        """(n, L), see `SetFit`."""
        xp, (x, at) = array_namespace(U), self._columns(U)
        by = self.terms.slope(x, self.X, self.w, self.lists).by
        small = self._is_small(U, self.blocks.set_shares(U, self.T))
        return small & (self._pull(by, at) > 1e-3 * self._pull(Parted(xp.abs(by.u), xp.abs(by.sets)), at))

    def system(self, point: Point, mu: Array) -> System:
        """Return the damped Hessian."""
        xp, (x, at), lists = array_namespace(point.x), self._columns(point.x), self.lists
        bend = self.terms.bend(x, self.X, self.w, lists)
        curve = self.T * point.u
        scale = self._pull(bend.size, at)
        scale = xp.maximum(scale, 1e-13 * xp.max(scale, axis=1, keepdims=True))
        more = at.q * lists.from_sets(curve / at.qS, at.thin)
        own = bend.h.u + more
        more = xp.where(self._settled(point), scale - bend.h.u, more) + (mu[:, None] + FLOOR) * scale
        about = own + at.q**2 * lists.from_sets((bend.h.sets - curve) / at.qS**2, at.thin)
        return System(bend, at, more, curve, xp.maximum(about, 0.1 * scale))

    def newton(self, point: Point, mu: Array) -> Array:
        """Return the approximate damped step."""
        xp, system = array_namespace(point.x), self.system(point, mu)
        # About the length of the step, whatever the scale of the objective.
        length = xp.sqrt(xp.sum(point.gradient**2 / system.about, axis=1) / xp.sum(system.about, axis=1))
        return solve_system(system, -point.gradient, xp.clip(xp.sqrt(length), 1e-5, 0.1))

    def search(self, point: Point, step: Array, better: Callable[[Point, Point], Array]) -> Point:
        """See `shorter`."""
        return shorter(self, point, step, better)


def shorter(problem: Any, point: Point, step: Array, better: Callable[[Point, Point], Array]) -> Point:
    """Return the result of shorter steps, for samples that a step takes uphill; the point itself if none helps."""
    xp = array_namespace(step)
    out, rows = point, xp.arange(len(problem), device=device(step))
    for shrink in SHRINK:
        new = problem.at(problem.move(point.x, shrink * step))
        good = better(new, point)
        for old, part in zip(out, choose(xp, good, new, point), strict=True):
            old[rows, ...] = part
        left = xp.nonzero(~good)[0]
        if not left.shape[0]:
            break
        problem, rows, point, step = problem.keep(left), rows[left], rows_of(point, left), take_samples(step, left)
    return out
