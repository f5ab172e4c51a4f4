"""Any objective of the columns' logits phi, minimised with one variable per class: Newton's method in u.

With G the derivative of the objective by phi, R the derivative of phi by u (`blocks.py`), T the temperature,

    gradient = R' G
    Hessian  = R' (diag(h) - sum_i c_i a_i a_i' - T diag(G)) R + T diag(R' G),      G only of columns that are sets

where the objective defines h, c and a. For few classes the Hessian is a matrix per sample; for many, a product, and
conjugate gradients solve for the step. Far from the optimum, negative G are left out, so that it is not indefinite.
What the answers leave undetermined stays as even as at the start: a small curvature keeps it out of the step.

A class that is in sets only may be best at q = 0. Its logit then goes to minus infinity, by about 1 / T a step, and its
slope vanishes with q. Once that slope is negligible the class is held, and in the end it moves to the smallest logit.
So it does in MF-P and in SD, where any class may vanish. Residual: largest entry of the gradient, divided by `size`.

If columns are sets, no objective is convex. There are two starts, and each sample begins at the one with the lower
value. The first is one Gauss-Newton step of MF-LF from equal classes. The second uses that answers of teachers who
share one q satisfy q(S_k) = p_k q(U_i), U_i the union of the sets of the teacher: a linear system in q, whatever the
sets. Its least-squares solution is q itself if the answers agree. For many classes only the first is used.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Protocol

from array_api_compat import device

from sklearn_uhc.solvers.blocks import At, Bend, Blocks, Solution, group_mean, softmax
from sklearn_uhc.solvers.conjugate import solve_system
from sklearn_uhc.solvers.incidence import Array, array_namespace, at_least, at_most, like_array, take_samples, to_cpu
from sklearn_uhc.solvers.mf_lf import LogitError
from sklearn_uhc.solvers.newton import WELL_CONDITIONED, Found, Hessian, Point, minimize, solve_each
from sklearn_uhc.solvers.set_blocks import SetBlocks

#: Longest step in T u.
MAX_STEP = 4.0
#: Residual below which negative parts of the Hessian are used.
NEAR = 1e-2
#: Smallest curvature relative to a variable's scale; without it, rounding would decide what answers leave undetermined.
FLOOR = 1e-11
#: Share of its sets, and slope relative to the tolerance, below which a class that wants less is held.
EMPTY, HELD = 1e-6, 1e-3
#: Smallest T u relative to the largest, in double and single precision, such that exp() does not underflow.
LOWEST, LOWEST_SINGLE = -600.0, -80.0
#: Smallest q of the linear start, relative to 1 / L, and what is added to its equations to decide what they leave open.
LEAST, RIDGE = 1e-6, 1e-13


class Objective(Protocol):
    """An objective as a function of phi, for answers X (n, K)."""

    def at(self, phi: Array, X: Array, w: Array, blocks: Blocks) -> tuple[Array, Array]:
        """Return the value (n,) and the derivative by phi, (n, K)."""

    def curvature(self, phi: Array, X: Array, w: Array, blocks: Blocks, near: Array) -> Bend:
        """Return second derivatives by phi; not indefinite where `near` (n, 1) does not hold."""


@dataclass(frozen=True)
class ClassFit:
    """An objective as a function of u (n, L)."""

    objective: Objective
    X: Array  #: (n, K), tempered answers
    first: Array  #: (n, L), the start
    size: Array  #: (n,), the scale of the residual
    w: Array  #: (1, N)
    T: float
    blocks: Blocks
    small: float  #: slopes below this, relative to `size`, count as none if a class vanishes
    may_vanish: Array  #: (L,), classes for which q = 0 may be optimal
    gain: float = 0.0  #: gain that is not worth a step where the objective is flat, relative to `size`
    flat: float = FLOOR

    def __len__(self) -> int:
        return int(self.X.shape[0])

    @property
    def rounding(self) -> float:
        """Return the size of the terms of the objective: about one per teacher."""
        return float(self.blocks.n_teachers)

    @property
    def still(self) -> float:
        """Return the residual at which steps end: along what answers leave open, rounding decides their length."""
        return self.small

    @property
    def nothing(self) -> Array:
        """Gain below which a step is not worthwhile, (n,)."""
        return self.gain * self.size

    def start(self) -> Array:
        """Return the start, with mean 0 in every group."""
        return level(self.first, self.blocks, self.T)

    def at(self, U: Array) -> Point:
        """Return objective, gradient and its largest entry; the derivative by phi is stored."""
        xp, at = array_namespace(U), self.blocks.at(U, self.T)
        value, G = self.objective.at(at.phi, self.X, self.w, self.blocks)
        gradient = self._hold(self.blocks.pull(G, at), at)
        return Point(U, G, value, gradient, xp.max(xp.abs(gradient), axis=1) / self.size)

    def _hold(self, gradient: Array, at: At) -> Array:
        """Set the slope of classes that are far enough down to 0."""
        down = (gradient > 0) & (gradient <= self.small * self.size[:, None])
        return array_namespace(gradient).where(self._empty(down, at), 0 * gradient, gradient)

    def _empty(self, of: Array, at: At) -> Array:
        """(n, L), which of some classes may vanish and have next to nothing of their sets and of everything."""
        xp, of = array_namespace(of), of & self.may_vanish
        if not bool(xp.any(of)):
            return of
        assert isinstance(self.blocks, SetBlocks)
        left = at.q ** xp.where(self.blocks.has_own, 1 / self.T, 1.0)  # a column of its own has the tempered q
        return of & (left * at_least(self.blocks.give(1 / at.qS, at.thin), 1.0) < EMPTY)

    def model(self, point: Point, mu: Array | None = None) -> Any:
        """Return the Hessian as a matrix, or, for many classes, as a product."""
        xp, blocks, T = array_namespace(point.x), self.blocks, self.T
        at, near = blocks.at(point.x, T), (point.residual < NEAR)[:, None]
        bend = self.objective.curvature(at.phi, self.X, self.w, blocks, near)
        G = blocks.curved * xp.where(near, point.u, at_least(point.u, 0.0))
        scale = blocks.pull(bend.size, at)
        scale = xp.maximum(scale, at_least(1e-13 * xp.max(scale, axis=1, keepdims=True), 1e-300))
        more, held = T * blocks.pull(G, at) + FLOOR * scale, self._empty(point.gradient == 0, at)
        bend = bend._replace(h=bend.h - T * G)
        if isinstance(blocks, SetBlocks) and not blocks.is_small:
            more = xp.where(held, scale, more) + (0.0 if mu is None else mu[:, None] * scale)
            about = xp.maximum(blocks.diagonal(bend, at) + more, 0.1 * scale)
            return Products(bend, at, more, about, point.gradient, blocks, 0.0 if self.gain else 1.0)
        B, diagonal = blocks.sandwich(bend, at)
        diagonal = xp.where(held, scale, diagonal + more)  # these stay where they are
        # The gradient has no component along the common shift of a group: filling that null space keeps it out of the
        # step as well.
        mass = scale / (scale @ self._together)
        B += self._together * (mass[:, :, None] * scale[:, None, :])
        least = WELL_CONDITIONED if self.gain else -WELL_CONDITIONED / 2  # whether it is flat matters in MF-P only
        return replace(Hessian.of(B, diagonal, scale, point.gradient, mu), least=least)

    @property
    def _together(self) -> Array:
        """(L, L), 1 for classes of the same group."""
        blocks = self.blocks
        make = lambda: like_array((group_mean(to_cpu(blocks.component_of)) > 0).astype(float), blocks.sizes)  # noqa: E731
        return blocks.once("together", make)

    def safe(self, point: Point) -> Array:
        """Return the result of a short step down the gradient."""
        at, far = self.blocks.at(point.x, self.T), (point.residual < 0)[:, None]
        size = self.blocks.pull(self.objective.curvature(at.phi, self.X, self.w, self.blocks, far).size, at)
        return self.move(point.x, -point.gradient / (2 * self.T * at_least(size, 1e-30)))

    def move(self, U: Array, step: Array) -> Array:
        """Add the step, with each entry limited on its own: a vanishing class must not hold up the others."""
        longest = MAX_STEP / self.T
        return level(U + at_most(at_least(step, -longest), longest), self.blocks, self.T)

    def reach(self, U: Array) -> float:
        """Return 1 / T: a step in T u is relative."""
        return 1 / self.T

    def held(self, U: Array) -> Array:
        """Return that no variable is at a bound."""
        return U != U

    def keep(self, rows: Array) -> ClassFit:
        """Return the problem of some samples."""
        X, first = (take_samples(part, rows) for part in (self.X, self.first))
        return replace(self, X=X, first=first, size=self.size[rows])

    def at_bottom(self, U: Array) -> Array:
        """(n, L), u with held classes that are in sets only as far down as possible: tempered, the rest would count."""
        xp = array_namespace(U)
        bottom = xp.max(U, axis=1, keepdims=True) + lowest(U) / self.T
        held = self._empty(self.at(U).gradient == 0, self.blocks.at(U, self.T))
        if isinstance(self.blocks, SetBlocks):
            held = held & ~self.blocks.has_own  # a column of its own compares it with others that vanish
        return xp.where(held, bottom, U)


@dataclass(frozen=True)
class Products:
    """The damped Hessian of `ClassFit` for many classes, as a product. Its eigenvalues are not known."""

    bend: Bend
    at: At
    more: Array  #: (n, L), added to the diagonal
    about: Array  #: (n, L), positive: about the diagonal
    gradient: Array
    blocks: SetBlocks
    curvature: float  #: what `lowest` returns

    def product(self, x: Array) -> Array:
        """H x, (n, L) to (n, L)."""
        return self.blocks.pull(self.bend.product(self.blocks.push(x, self.at), self.blocks), self.at) + self.more * x

    def step(self) -> Array:
        """Return Newton's step, the more exact the shorter it is."""
        xp, about = array_namespace(self.about), self.about
        length = xp.sqrt(xp.sum(self.gradient**2 / about, axis=1) / xp.sum(about, axis=1))
        return solve_system(self, -self.gradient, xp.clip(xp.sqrt(length), 1e-5, 0.1))

    def bent_step(self, flat: float) -> Array:
        """Return the same: conjugate gradients take negative curvature as positive."""
        return self.step()

    def lowest(self) -> Array:
        """Return that no curvature is negative, or, if flatness matters, that it may be flat."""
        return self.curvature * array_namespace(self.about).ones_like(self.about[:, 0])

    def take(self, rows: Array) -> Products:
        """Return the system of some samples, of which only `lowest` is used."""
        return replace(self, about=self.about[rows])

    def keep(self, rows: Array) -> Products:
        """Return the system of some samples, given by their increasing indices."""
        bend, (phi, q, qS, thin) = Bend(*(take_samples(part, rows) for part in self.bend)), self.at
        at = At(phi[:0], take_samples(q, rows), take_samples(qS, rows), self.blocks.thin_of(thin, rows))
        more, about = (take_samples(part, rows) for part in (self.more, self.about))
        return Products(bend, at, more, about, self.gradient, self.blocks, self.curvature)


def lowest(U: Array) -> float:
    """Return the smallest T u that differs from minus infinity in the precision of U."""
    return LOWEST if float(array_namespace(U).finfo(U.dtype).eps) < 1e-10 else LOWEST_SINGLE


def level(U: Array, blocks: Blocks, T: float) -> Array:
    """Set the mean of every group of linked classes to 0, and raise entries for which exp(T u) would underflow."""
    xp, U = array_namespace(U), U - blocks.group_means(U)
    return xp.maximum(U, xp.max(U, axis=1, keepdims=True) + lowest(U) / T)


def solve_by_classes(
    objective: Objective,
    X: Array,
    first: Array,
    blocks: Blocks,
    *,
    tol: float,
    max_iter: int,
    weight: Array | None = None,
    T: float = 1.0,
    size: Array | None = None,
    vanish: bool = False,
    gain: float = 0.0,
) -> Found:
    """Minimise from `first` (n, L); `x` of the result are logits with mean 0 in every group.

    With `vanish`, q = 0 may be optimal for any class, otherwise only for those that are in sets only. Where the
    objective is flat, steps end when they gain less than `gain`, relative to `size`.
    """
    xp = array_namespace(X)
    w = (xp.ones_like(blocks.sizes) if weight is None else weight)[None, :]
    size = xp.ones_like(X[:, 0]) if size is None else size
    none = xp.zeros_like(first[0, :]) > 0
    lonely = ~blocks.has_own | vanish if isinstance(blocks, SetBlocks) else none
    problem = ClassFit(objective, X, first, size, w, T, blocks, HELD * tol, lonely, gain)
    room = blocks.batch_rows if isinstance(blocks, SetBlocks) else max(16, blocks.batch_rows // 4)
    found = minimize(problem, room=room, tol=tol, max_iter=max_iter)
    # The gradient is the certificate, also if the last step was long along what answers hardly determine.
    return found._replace(x=problem.at_bottom(found.x), converged=found.converged | (found.residual <= tol))


def solve_sets(
    objective: Objective,
    X: Array,
    logits: Array,
    blocks: SetBlocks,
    *,
    tol: float,
    max_iter: int,
    weight: Array | None = None,
    T: float = 1.0,
    vanish: bool = False,
    size: Array | None = None,
    gain: float = 0.0,
) -> Solution:
    """Minimise for tempered answers X (n, K), with the teachers' `logits` at temperature 1; `u` are logits at T."""
    first = lower_start(objective, X, starts(logits, blocks, weight), blocks, weight, T)
    options: Any = {
        "tol": tol,
        "max_iter": max_iter,
        "weight": weight,
        "T": T,
        "size": size,
        "vanish": vanish,
        "gain": gain,
    }
    found = solve_by_classes(objective, X, first, blocks, **options)
    # What sets leave undetermined is told by the label space, so flat rows are not counted again.
    return Solution(
        same_for_twins(found.x, blocks), found.x[:, :0], found.n_iter, found.residual, found.converged, found.converged
    )


def starts(Z: Array, blocks: SetBlocks, weight: Array | None) -> list[Array]:
    """Return the starts, (n, L) each, at temperature 1, for logits Z at temperature 1."""
    both = [even_start(Z, blocks, weight), *([linear_start(Z, blocks)] if blocks.is_small else [])]
    return [same_for_twins(start, blocks) for start in both]


def same_for_twins(U: Array, blocks: SetBlocks) -> Array:
    """Give classes that are in the same columns everywhere their mean: only rounding tells them apart. In place."""
    xp = array_namespace(U)
    for group in blocks.space.identification.never_apart:
        U[:, group] = xp.mean(U[:, group], axis=1, keepdims=True)
    return U


def lower_start(
    objective: Objective, X: Array, starts: list[Array], blocks: SetBlocks, weight: Array | None, T: float
) -> Array:
    """Return, for every sample, the start at temperature 1 with the lowest value, (n, L) at T; in a tie, the first."""
    xp, best = array_namespace(X), starts[0] / T
    w = (xp.ones_like(blocks.sizes) if weight is None else weight)[None, :]
    value = objective.at(blocks.at(best, T).phi, X, w, blocks)[0]
    for other in starts[1:]:
        new = objective.at(blocks.at(other / T, T).phi, X, w, blocks)[0]
        best, value = xp.where((new < value)[:, None], other / T, best), xp.minimum(new, value)
    return best


def even_start(Z: Array, blocks: SetBlocks, weight: Array | None) -> Array:
    """Return (n, L), a Gauss-Newton step of MF-LF from equal classes: the solution if every set is split evenly."""
    xp = array_namespace(Z)
    w = (xp.ones_like(blocks.sizes) if weight is None else weight)[None, :]
    zero = Z[:, :1] * xp.zeros_like(blocks.has_own, dtype=Z.dtype)
    fit = ClassFit(LogitError(), Z, zero, xp.ones_like(Z[:, 0]), w, 1.0, blocks, 0.0, xp.zeros_like(blocks.has_own))
    point = fit.at(zero)
    return fit.model(point._replace(u=0 * point.u)).step()


def linear_start(Z: Array, blocks: SetBlocks) -> Array:
    """Return u = log q (n, L), q the least-squares solution of the linear system, for logits Z; for few classes."""
    xp, L = array_namespace(Z), blocks.n_classes
    P = xp.exp(blocks.log_softmax(Z))
    # ||q(S_k) - p_k q(U_i)||^2 + ||q(group) - 1||^2; all groups get the same probability. With m_k and M_i the members
    # of S_k and U_i, teacher i adds  sum_k m_k m_k' - a_i M_i' - M_i a_i' + ||p_i||^2 M_i M_i',  a_i = sum_k p_k m_k.
    spread = blocks.cells(P) - 0.5 * blocks.sum_teachers(P * P)[:, :, None] * blocks.M
    crossed = xp.matmul(xp.permute_dims(spread, (0, 2, 1)), blocks.M)
    members = like_array(blocks.space.membership().astype(float), Z)
    A = members.T @ members - crossed - xp.permute_dims(crossed, (0, 2, 1))
    same = like_array((group_mean(to_cpu(blocks.component_of)) > 0).astype(float), Z)
    A = A + same + RIDGE * xp.eye(L, dtype=Z.dtype, device=device(Z))
    return xp.log(xp.clip(solve_each(A, xp.ones_like(A[:, :, 0])), LEAST / L, None))


def tempered(Z: Array, T: float, blocks: Blocks) -> Array:
    """Return the teachers' probabilities at temperature T, of logits whose largest is 0."""
    E = array_namespace(Z).exp(Z / T)
    return E / blocks.by_teacher(blocks.sum_teachers(E))


__all__ = ["ClassFit", "Objective", "softmax", "solve_by_classes", "solve_sets", "tempered"]
