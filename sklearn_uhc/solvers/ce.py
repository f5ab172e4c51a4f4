"""CE: cross-entropy against every teacher's restriction of q, by Newton's method on a dual of N variables.

    J(u) = - sum_l a_l u_l + sum_i log sum_{k in L_i} exp(u_k),      a_l = sum_{i: l in L_i} p_i(l)

Its stationary points are q_l = a_l / (M't)_l with t = exp(theta), theta the minimiser of the convex

    f(theta)   = sum_l a_l log (M't)_l - sum_i theta_i
    gradient_i = t_i (M (a / M't))_i - 1
    Hessian    = diag(t * (M (a / M't))) - T M diag(a / (M't)^2) M' T,     T = diag(t)

`ce_chords.py` comes first: its steps use one matrix for all samples and solve most of them unless answers are sharp.
With more teachers than classes, `ce_classes.py` follows, which has one variable per class.
Samples in which answers near zero link teachers so weakly that rounding hides it are solved by `ce_links.py`. With a
weight w_i of the cross-entropy against teacher i, a_l = sum_i w_i p_i(l), and w_i replaces the 1 in the gradient and
the factor 1 of theta_i. Residual: largest entry of the gradient.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from sklearn_uhc.solvers.blas import one_blas_thread
from sklearn_uhc.solvers.blocks import Array, Blocks, Solution
from sklearn_uhc.solvers.ce_chords import MAX_STEP, Uniform, first_theta, solve_by_chords
from sklearn_uhc.solvers.ce_classes import minimize_by_classes
from sklearn_uhc.solvers.ce_links import minimize_links
from sklearn_uhc.solvers.incidence import array_namespace, at_least, samples_last, take_samples
from sklearn_uhc.solvers.newton import Found, Point, limit_step, minimize


@dataclass(frozen=True)
class CrossEntropyDual:
    """f(theta) for the sums a (n, L) of the teachers' probabilities."""

    a: Array
    blocks: Blocks
    w: Array  #: (N,), or one number for all
    uniform: Uniform  #: the Hessian for teachers with uniform answers
    begin: Array | None = None  #: (n, N), start of Newton's method
    rounding: float = 1.0
    flat: float = 1e-15
    nothing: float = 0.0

    @classmethod
    def of(cls, a: Array, blocks: Blocks, weight: Array | None = None) -> CrossEntropyDual:
        """Prepare what all samples share."""
        if weight is None:
            ones = array_namespace(a).ones_like(blocks.sizes)
            return cls(a, blocks, 1.0, blocks.once("ce", lambda: Uniform.of(blocks, ones)))
        return cls(a, blocks, weight, Uniform.of(blocks, weight))

    def __len__(self) -> int:
        return int(self.a.shape[0])

    def start(self) -> Array:
        """Return the start."""
        return first_theta(self.blocks, self.w, self.a) if self.begin is None else self.begin

    def at(self, theta: Array) -> Point:
        """Return f, its gradient, and the largest entry of the gradient; M't is stored."""
        xp, blocks = array_namespace(theta), self.blocks
        t = xp.exp(theta)
        s = blocks.sum_owners(t)
        value = xp.sum(self.a * xp.log(s), axis=1) - xp.sum(self.w * theta, axis=1)
        gradient = t * blocks.sum_lists(self.a / s) - self.w
        return Point(theta, s, value, gradient, xp.max(xp.abs(gradient), axis=1))

    def curvature(self, point: Point) -> tuple[Array, Array, Array]:
        """Return the Hessian, and its diagonal term as the scale."""
        xp = array_namespace(point.x)
        t = xp.exp(point.x)
        diagonal = at_least(point.gradient + self.w, 1e-12)
        B = self.blocks.pairs.sums(self.a / point.u**2)
        B *= t[:, :, None]
        B *= -t[:, None, :]
        # The gradient has no component along the common shift of a group: filling that null space keeps it out of the
        # step as well.
        B += self.blocks.teacher_component_mean
        return B, diagonal, diagonal

    def safe(self, point: Point) -> Array:
        """Return the next point of the MM iteration: t_i = w_i / (M (a / M't))_i."""
        xp = array_namespace(point.x)
        return point.x - xp.log(at_least(point.gradient + self.w, 1e-30) / self.w)

    def move(self, theta: Array, step: Array) -> Array:
        """Add the step, shortened if it is too long."""
        return theta + limit_step(step, MAX_STEP)

    def reach(self, theta: Array) -> float:
        """Return 1: a step in theta is relative."""
        return 1.0

    def keep(self, rows: Array) -> CrossEntropyDual:
        """Return the problem of some samples."""
        begin = None if self.begin is None else self.begin[rows, :]
        return replace(self, a=take_samples(self.a, rows), begin=begin)


def solve_ce(
    P: Array, blocks: Blocks, *, tol: float = 1e-9, max_iter: int = 200, weight: Array | None = None
) -> Solution:
    """Minimise J for every row of P; in the result, `u` is q itself and `v` is theta."""
    with one_blas_thread():
        return _solve_ce(P, blocks, tol, max_iter, weight)


def _solve_ce(P: Array, blocks: Blocks, tol: float, max_iter: int, weight: Array | None) -> Solution:
    xp = array_namespace(P)
    P = P if weight is None else P * blocks.by_teacher(weight[None, :])
    a = blocks.sum_classes(samples_last(P))
    dual = CrossEntropyDual.of(a, blocks, weight)
    found = solve_by_chords(dual, tol=tol)
    rows = xp.nonzero(~found.converged)[0]
    if rows.shape[0] and blocks.n_teachers > blocks.n_classes:
        _solve_by_classes(dual, found, rows, tol, max_iter)
        rows = xp.nonzero(~found.converged)[0]
    if rows.shape[0]:
        rest = replace(dual, a=take_samples(a, rows), begin=found.x[rows, :])
        _put(found, rows, minimize(rest, tol=tol, max_iter=max_iter, damping=1e-8))
    theta = found.x - xp.max(found.x, axis=1, keepdims=True)
    Q = a / at_least(blocks.sum_owners(xp.exp(theta)), float(xp.finfo(a.dtype).tiny))
    rows = xp.nonzero(~(found.converged & found.well_conditioned))[0]
    for start in range(0, rows.shape[0], blocks.batch_rows):
        some = rows[start : start + blocks.batch_rows]
        _put(found, some, minimize_links(P[some], blocks, tol=tol, max_iter=max_iter))
        Q[some, :] = _best_q(a[some], found.x[some], blocks)
    return Solution.of(found, blocks.level_components(Q), found.x)


def _solve_by_classes(dual: CrossEntropyDual, found: Found, rows: Array, tol: float, max_iter: int) -> None:
    """Solve these samples with fewer variables; those whose residual is too large, as in the dual, are left."""
    a, w = take_samples(dual.a, rows), dual.w + 0 * dual.blocks.sizes
    better = minimize_by_classes(a, dual.blocks, w, found.x[rows, :], tol=tol, max_iter=max_iter)
    theta = better.x - array_namespace(a).max(better.x, axis=1, keepdims=True)
    residual = replace(dual, a=a).at(theta).residual
    _put(found, rows, better._replace(x=theta, residual=residual, converged=better.converged & (residual <= tol)))


def _put(found: Found, rows: Array, better: Found) -> None:
    for column, new in zip(found, better, strict=True):
        column[rows, ...] = new


def _best_q(a: Array, theta: Array, blocks: Blocks) -> Array:
    """Return a / (M't), up to a factor; exp(theta) may overflow."""
    xp = array_namespace(theta)
    top = blocks.largest_owner(theta)
    log_s = top + xp.log(blocks.sum_classes(xp.exp(blocks.by_teacher(theta) - blocks.by_class(top))))
    log_q = xp.log(xp.clip(a, float(xp.finfo(a.dtype).tiny), None)) - log_s
    log_q = xp.where(a > 0, log_q, xp.asarray(-xp.inf, dtype=a.dtype))
    return xp.exp(log_q - xp.max(log_q, axis=1, keepdims=True))
