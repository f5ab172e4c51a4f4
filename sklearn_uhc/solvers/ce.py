"""CE: cross-entropy against every teacher's restriction of q, by Newton's method on a dual of N variables.

    J(u) = - sum_l a_l u_l + sum_i log sum_{k in L_i} exp(u_k),      a_l = sum_{i: l in L_i} p_i(l)

Its stationary points are q_l = a_l / (M't)_l with t = exp(theta), theta the minimiser of the convex

    f(theta)   = sum_l a_l log (M't)_l - sum_i theta_i
    gradient_i = t_i (M (a / M't))_i - 1
    Hessian    = diag(t * (M (a / M't))) - T M diag(a / (M't)^2) M' T,     T = diag(t)

Where answers next to zero link teachers so weakly that rounding hides it, those samples are solved by `ce_links.py`. A
weight w_i of the cross-entropy against teacher i makes a_l = sum_i w_i p_i(l) and takes the place of the 1 in the
gradient and before theta_i. Residual: largest entry of the gradient.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from sklearn_uhc.solvers.blocks import Array, Blocks, Solution
from sklearn_uhc.solvers.ce_links import minimize_links
from sklearn_uhc.solvers.incidence import array_namespace, at_least, samples_last, take_samples
from sklearn_uhc.solvers.newton import Point, add_diagonal, limit_step, minimize

#: Longest step in theta; keeps exp(theta) in range and the quadratic model honest.
MAX_STEP = 4.0
#: Steps with the Hessian of uniform answers before the first of Newton's.
WARM_UP = 4


@dataclass(frozen=True)
class CrossEntropyDual:
    """f(theta) for the sums a (n, L) of the teachers' probabilities."""

    a: Array
    blocks: Blocks
    w: Array  #: (N,), or one number for all
    uniform: Array  #: (N, N), inverse of the Hessian where all teachers say that all classes are alike
    rounding: float = 1.0
    flat: float = 1e-15
    nothing: float = 0.0

    @classmethod
    def of(cls, a: Array, blocks: Blocks, weight: Array | None = None) -> CrossEntropyDual:
        """Prepare what all samples share."""
        if weight is None:
            ones = array_namespace(a).ones_like(blocks.sizes)
            return cls(a, blocks, 1.0, blocks.once("ce", lambda: inverse_of_uniform(blocks, ones)))
        return cls(a, blocks, weight, inverse_of_uniform(blocks, weight))

    def __len__(self) -> int:
        return int(self.a.shape[0])

    def start(self) -> Array:
        """Return where steps with the Hessian of uniform answers lead: each costs a fifth of one of Newton's."""
        xp, w = array_namespace(self.a), self.w + 0 * self.blocks.sizes[None, :]
        theta = xp.log(w / self.blocks.sizes) + 0 * self.a[:, :1]
        best, step, least = theta, 0 * theta, xp.inf + 0 * theta[:, :1]
        for _ in range(WARM_UP):
            ratio = self._masses(theta) / w  # 1 at the optimum
            away = xp.max(xp.abs(ratio - 1), axis=1, keepdims=True)
            better = away < least
            best, least = xp.where(better, theta, best), xp.where(better, away, least)
            step = xp.where(better, xp.log(at_least(ratio, 1e-30)), step / 4)
            theta = best - limit_step((w * step) @ self.uniform, MAX_STEP)
        return theta

    def _masses(self, theta: Array) -> Array:
        """Return t_i (M (a / M't))_i, (n, N): gradient + w."""
        t = array_namespace(theta).exp(theta)
        return t * self.blocks.sum_lists(self.a / self.blocks.sum_owners(t))

    def at(self, theta: Array) -> Point:
        """f, its gradient, and the largest entry of that; keeps M't."""
        xp, blocks = array_namespace(theta), self.blocks
        t = xp.exp(theta)
        s = blocks.sum_owners(t)
        value = xp.sum(self.a * xp.log(s), axis=1) - xp.sum(self.w * theta, axis=1)
        gradient = t * blocks.sum_lists(self.a / s) - self.w
        return Point(theta, s, value, gradient, xp.max(xp.abs(gradient), axis=1))

    def curvature(self, point: Point) -> tuple[Array, Array, Array]:
        """Hessian, and its diagonal term as the scale."""
        xp = array_namespace(point.x)
        t = xp.exp(point.x)
        diagonal = at_least(point.gradient + self.w, 1e-12)
        B = self.blocks.pairs.sums(self.a / point.u**2)
        B *= t[:, :, None]
        B *= -t[:, None, :]
        # The gradient has no part along the common shift of a component: filling that null space in keeps it out of
        # the step as well.
        B += self.blocks.teacher_component_mean
        return B, diagonal, diagonal

    def safe(self, point: Point) -> Array:
        """Return the next point of the MM iteration: t_i = w_i / (M (a / M't))_i."""
        xp = array_namespace(point.x)
        return point.x - xp.log(at_least(point.gradient + self.w, 1e-30) / self.w)

    def move(self, theta: Array, step: Array) -> Array:
        """Take the step, shortened if it is too long to be trusted."""
        return theta + limit_step(step, MAX_STEP)

    def reach(self, theta: Array) -> float:
        """Return 1: a step in theta is relative."""
        return 1.0

    def keep(self, rows: Array) -> CrossEntropyDual:
        """Return the problem of some samples."""
        return replace(self, a=take_samples(self.a, rows))


def inverse_of_uniform(blocks: Blocks, w: Array) -> Array:
    """Return the inverse of the Hessian where all teachers say that all classes are alike, (N, N)."""
    xp, t = array_namespace(w), (w / blocks.sizes)[None, :]
    H = blocks.pairs.sums(1 / blocks.sum_owners(t))
    H *= -t[:, :, None]
    H *= t[:, None, :]
    add_diagonal(H, w[None, :])
    return xp.linalg.inv(H[0] + xp.max(w) * blocks.teacher_component_mean)


def solve_ce(
    P: Array, blocks: Blocks, *, tol: float = 1e-9, max_iter: int = 200, weight: Array | None = None
) -> Solution:
    """Minimise J for every row of P; `u` of the answer is q itself, `v` is theta."""
    xp = array_namespace(P)
    P = P if weight is None else P * blocks.by_teacher(weight[None, :])
    a = blocks.sum_classes(samples_last(P))
    dual = CrossEntropyDual.of(a, blocks, weight)
    found = minimize(dual, tol=tol, max_iter=max_iter, damping=1e-8)
    theta = found.x - xp.max(found.x, axis=1, keepdims=True)
    Q = a / at_least(blocks.sum_owners(xp.exp(theta)), float(xp.finfo(a.dtype).tiny))
    rows = xp.nonzero(~(found.converged & found.well_conditioned))[0]
    for start in range(0, rows.shape[0], blocks.batch_rows):
        some = rows[start : start + blocks.batch_rows]
        for column, better in zip(found, minimize_links(P[some], blocks, tol=tol, max_iter=max_iter), strict=True):
            column[some, ...] = better
        Q[some, :] = _best_q(a[some], found.x[some], blocks)
    return Solution.of(found, blocks.level_components(Q), found.x)


def _best_q(a: Array, theta: Array, blocks: Blocks) -> Array:
    """Return a / (M't), up to a factor; theta may be beyond what exp can hold."""
    xp = array_namespace(theta)
    top = blocks.largest_owner(theta)
    log_s = top + xp.log(blocks.sum_classes(xp.exp(blocks.by_teacher(theta) - blocks.by_class(top))))
    log_q = xp.log(xp.clip(a, float(xp.finfo(a.dtype).tiny), None)) - log_s
    log_q = xp.where(a > 0, log_q, xp.asarray(-xp.inf, dtype=a.dtype))
    return xp.exp(log_q - xp.max(log_q, axis=1, keepdims=True))
