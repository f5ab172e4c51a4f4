"""CE: cross-entropy against every teacher's restriction of q.

    J(u) = sum_i w_i ( log sum_k exp(phi_k) - sum_k p_k phi_k ),      phi_k the logits of the columns of teacher i for u

`CrossEntropy` is J for any kind of columns; `class_fit.py` minimises it with one variable per class. If every column
is one class, phi_k = u_l, J is convex, and there is a dual with one variable per teacher, `CrossEntropyDual`. The
solution depends on the teachers only through a_l = sum_i w_i p_i(l):

    q_l        = a_l / (M't)_l,  t = exp(theta),  theta the minimiser of the convex
    f(theta)   = sum_l a_l log (M't)_l - sum_i w_i theta_i
    gradient_i = t_i (M (a / M't))_i - w_i
    Hessian    = diag(t * (M (a / M't))) - T M diag(a / (M't)^2) M' T,     T = diag(t)

Residual: largest entry of the gradient. The MM step t_i = w_i / (M (a / M't))_i never increases f.

**Weak links.** If answers near zero are all that links two teachers, rounding hides the link in this Hessian: for
q = (.2, 1e-20, .8), known in two pairs, it is flat to 1e-20. Without classes that only one teacher knows, and with
r_il = t_i / (M't)_l, the share of teacher i in class l, the same f is a sum over pairs of teachers,

    gradient_i = sum_j F_ij,      F_ij = sum_l (r_il w_j p_j(l) - r_jl w_i p_i(l))
    Hessian    = Laplacian of the graph with weights W_ij = sum_l a_l r_il r_jl

so Newton's step x is the weighted least-squares fit of the differences x_i - x_j to -F_ij / W_ij. Eliminating one
teacher after the other takes only sums, products and ratios of positive weights and averages of differences, so a link
of 1e-30 is as exact as one of 1. The third derivative of f is at most its second times the range R of a step, so
log(1 + R) / R of Newton's step always leads downhill, and f, in which such a link is invisible, is not compared.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from sklearn_uhc.solvers.blas import one_blas_thread
from sklearn_uhc.solvers.blocks import MIN_LOG_P, Bend, Blocks, Solution
from sklearn_uhc.solvers.class_fit import solve_by_classes
from sklearn_uhc.solvers.incidence import Array, array_namespace, at_least, samples_last, take_samples
from sklearn_uhc.solvers.mf_lf import agreement
from sklearn_uhc.solvers.newton import Found, Hessian, Point, add_diagonal, limit_step, minimize
from sklearn_uhc.solvers.plain_blocks import PlainBlocks

#: Longest step in theta; keeps exp(theta) in range.
MAX_STEP = 4.0
#: Number of steps with the Hessian of uniform answers before Newton's: each costs an eighth of one of those, and they
#: replace one or two unless answers are sharp.
FIRST_STEPS = 3
#: Range of the last step along weak links; the next one would be about its square.
LAST_STEP = 1e-6
#: Smallest number whose logarithm is taken.
TINY = 1e-30


class CrossEntropy:
    """J as a function of phi, for tempered probabilities P (n, K)."""

    @staticmethod
    def at(phi: Array, P: Array, w: Array, blocks: Blocks) -> tuple[Array, Array]:
        """Return J (n,) and its derivative by phi, w_i (softmax of phi - p), (n, K)."""
        xp, top = array_namespace(phi), blocks.largest(phi)
        E = xp.exp(phi - blocks.by_teacher(top))
        total, wk = blocks.sum_teachers(E), blocks.by_teacher(w)
        value = xp.sum(w * (xp.log(total) + top), axis=1) - xp.sum(wk * P * phi, axis=1)
        return value, wk * (E / blocks.by_teacher(total) - P)

    @staticmethod
    def curvature(phi: Array, P: Array, w: Array, blocks: Blocks, near: Array) -> Bend:
        """Return diag(w_i s) - sum_i w_i s_i s_i', s_i the softmax of phi."""
        E = array_namespace(phi).exp(phi - blocks.by_teacher(blocks.largest(phi)))
        s = E / blocks.by_teacher(blocks.sum_teachers(E))
        h = blocks.by_teacher(w) * s
        return Bend(h, s, w + 0 * phi[:, :1], h)


@dataclass(frozen=True)
class CrossEntropyDual:
    """f(theta) for the sums a (n, L) of the teachers' weighted probabilities."""

    a: Array
    blocks: PlainBlocks
    w: Array  #: (N,)
    inverse: Array  #: (N, N), inverse of the Hessian for uniform answers
    rounding: float = 1.0
    flat: float = 1e-15
    nothing: float = 0.0
    still: float = 0.0

    @classmethod
    def of(cls, a: Array, blocks: PlainBlocks, weight: Array | None = None) -> CrossEntropyDual:
        """Prepare what all samples share."""
        if weight is not None:
            return cls(a, blocks, weight, cls.for_uniform_answers(blocks, weight))
        ones = array_namespace(a).ones_like(blocks.sizes)
        return cls(a, blocks, ones, blocks.once("ce", lambda: cls.for_uniform_answers(blocks, ones)))

    @staticmethod
    def for_uniform_answers(blocks: PlainBlocks, w: Array) -> Array:
        """Return the inverse of the Hessian for teachers with uniform answers, its null space filled."""
        xp, t = array_namespace(w), (w / blocks.sizes)[None, :]
        H = blocks.pairs.sums(1 / blocks.sum_owners(t))
        H *= -t[:, :, None] * t[:, None, :]
        add_diagonal(H, w[None, :])
        return xp.linalg.inv(H[0] + xp.max(w) * blocks.teacher_component_mean)

    def __len__(self) -> int:
        return int(self.a.shape[0])

    def start(self) -> Array:
        """Return a few steps with one Hessian for all samples, from the optimum of uniform answers without overlap."""
        xp, blocks = array_namespace(self.a), self.blocks
        theta = (xp.log(self.w / blocks.sizes)[:, None] + 0 * self.a[:, :1].T).T
        for _ in range(FIRST_STEPS):
            t = xp.exp(theta)
            masses = t * blocks.sum_lists(self.a / blocks.sum_owners(t))
            slope = self.w * xp.log(at_least(masses / self.w, TINY))
            theta = self.move(theta, -(self.inverse @ slope.T).T)
        return theta

    def at(self, theta: Array) -> Point:
        """Return f, its gradient, and the largest entry of the gradient; M't is stored."""
        xp, blocks = array_namespace(theta), self.blocks
        t = xp.exp(theta)
        s = blocks.sum_owners(t)
        value = xp.sum(self.a * xp.log(s), axis=1) - xp.sum(self.w * theta, axis=1)
        gradient = t * blocks.sum_lists(self.a / s) - self.w
        return Point(theta, s, value, gradient, xp.max(xp.abs(gradient), axis=1))

    def model(self, point: Point, mu: Array | None = None) -> Hessian:
        """Return the Hessian, its diagonal term as the scale."""
        t, diagonal = array_namespace(point.x).exp(point.x), at_least(point.gradient + self.w, 1e-12)
        B = self.blocks.pairs.sums(self.a / point.u**2)
        B *= t[:, :, None]
        B *= -t[:, None, :]
        # The gradient has no component along the common shift of a group: filling that null space keeps it out of the
        # step as well.
        B += self.blocks.teacher_component_mean
        return Hessian.of(B, diagonal, diagonal, point.gradient, mu)

    def safe(self, point: Point) -> Array:
        """Return the next point of the MM iteration: t_i = w_i / (M (a / M't))_i."""
        return point.x - array_namespace(point.x).log(at_least(point.gradient + self.w, TINY) / self.w)

    def move(self, theta: Array, step: Array) -> Array:
        """Add the step, shortened if it is too long."""
        return theta + limit_step(step, MAX_STEP)

    def reach(self, theta: Array) -> float:
        """Return 1: a step in theta is relative."""
        return 1.0

    def held(self, theta: Array) -> Array:
        """Return that no variable is at a bound."""
        return theta != theta

    def keep(self, rows: Array) -> CrossEntropyDual:
        """Return the problem of some samples."""
        return replace(self, a=take_samples(self.a, rows))


def solve_ce(
    P: Array, blocks: PlainBlocks, *, tol: float = 1e-9, max_iter: int = 200, weight: Array | None = None
) -> Solution:
    """Minimise J for every row of P; in the result, `u` is q itself and `v` is theta."""
    with one_blas_thread():
        xp, dual = array_namespace(P), CrossEntropyDual.of(P, blocks, weight)
        wP = P if weight is None else P * blocks.by_teacher(weight[None, :])
        dual = replace(dual, a=blocks.sum_classes(samples_last(wP)))
        if blocks.n_teachers > blocks.n_classes:
            found = _solve_by_classes(P, dual, tol, max_iter)
        else:
            found = minimize(dual, room=blocks.batch_rows, tol=tol, max_iter=max_iter, damping=1e-8)
        theta = found.x - xp.max(found.x, axis=1, keepdims=True)
        Q = dual.a / at_least(blocks.sum_owners(xp.exp(theta)), float(xp.finfo(P.dtype).tiny))
        rows = xp.nonzero(~(found.converged & found.well_conditioned))[0]
        for start in range(0, rows.shape[0], blocks.batch_rows):
            some = rows[start : start + blocks.batch_rows]
            for column, new in zip(found, minimize_links(wP[some], blocks, tol=tol, max_iter=max_iter), strict=True):
                column[some, ...] = new
            Q[some, :] = _best_q(dual.a[some], found.x[some], blocks)
    return Solution.of(found, blocks.level_components(Q), found.x)


def _solve_by_classes(P: Array, dual: CrossEntropyDual, tol: float, max_iter: int) -> Found:
    """Minimise J itself, for more teachers than classes; theta_i = log w_i - log sum_k exp(u_k), residual of the dual.

    Scaled by its diagonal, its Hessian is I - A A' where that of the dual is I - A'A: both are as well conditioned.
    """
    xp, blocks = array_namespace(P), dual.blocks
    u = xp.log(at_least(dual.a, float(xp.finfo(P.dtype).tiny))) - xp.log(blocks.sum_owners(xp.exp(dual.start())))
    found = solve_by_classes(CrossEntropy, P, u, blocks, weight=dual.w, tol=tol, max_iter=max_iter)
    phi = blocks.by_class(found.x)
    top = blocks.largest(phi)
    theta = xp.log(dual.w) - top - xp.log(blocks.sum_teachers(xp.exp(phi - blocks.by_teacher(top))))
    theta -= xp.max(theta, axis=1, keepdims=True)
    residual = dual.at(theta).residual
    return found._replace(x=theta, residual=residual, converged=found.converged & (residual <= tol))


def _best_q(a: Array, theta: Array, blocks: PlainBlocks) -> Array:
    """Return a / (M't), up to a factor; exp(theta) may overflow."""
    xp = array_namespace(theta)
    top = blocks.largest_owner(theta)
    log_s = top + xp.log(blocks.sum_classes(xp.exp(blocks.by_teacher(theta) - blocks.by_class(top))))
    log_q = xp.log(xp.clip(a, float(xp.finfo(a.dtype).tiny), None)) - log_s
    log_q = xp.where(a > 0, log_q, xp.asarray(-xp.inf, dtype=a.dtype))
    return xp.exp(log_q - xp.max(log_q, axis=1, keepdims=True))


def minimize_links(P: Array, blocks: PlainBlocks, *, tol: float, max_iter: int) -> Found:
    """Minimise f along weak links, for weighted probabilities P (n, K); the start is the optimum if teachers agree."""
    xp = array_namespace(P)
    P = xp.clip(P, float(np.exp(MIN_LOG_P)), None)
    theta, P = agreement(P, blocks)[1], samples_last(P * blocks.shared)
    n_iter, residual = xp.zeros_like(theta[:, 0], dtype=xp.int64), 0 * theta[:, 0]
    converged = n_iter < 0
    rows = xp.nonzero(~converged)[0]
    for age in range(max_iter + 1):
        x, length, residual[rows] = _step_along_links(take_samples(P, rows), theta[rows], blocks)
        converged[rows], n_iter[rows] = (length <= LAST_STEP) & (residual[rows] <= tol), age
        if age < max_iter:
            damped = xp.log1p(length) / xp.where(length > 0, length, xp.ones_like(length))
            theta[rows] = theta[rows] + xp.where(length > LAST_STEP, damped, xp.ones_like(length))[:, None] * x
        rows = rows[~converged[rows]]
        if not rows.shape[0]:
            break
    return Found(theta, n_iter, residual, converged, converged)


def _step_along_links(P: Array, theta: Array, blocks: PlainBlocks) -> tuple[Array, Array, Array]:
    """Return Newton's step, its range, and the largest entry of the gradient."""
    xp, pairs = array_namespace(theta), blocks.pairs
    E = xp.exp(blocks.by_teacher(theta) - blocks.by_class(blocks.largest_owner(theta)))
    R = blocks.shared * E / blocks.by_class(blocks.sum_classes(E))
    A = pairs.products(P, R)
    F = xp.permute_dims(A, (0, 2, 1)) - A
    W = pairs.products(R * blocks.by_class(blocks.sum_classes(P)), R)
    x = fit_differences(xp.where(W > 0, -F / xp.where(W > 0, W, xp.ones_like(W)), xp.zeros_like(F)), W)
    return x, xp.max(x, axis=1) - xp.min(x, axis=1), xp.max(xp.abs(xp.sum(F, axis=2)), axis=1)


def fit_differences(E: Array, W: Array) -> Array:
    """Return x (n, N) of mean zero: least-squares fit of x_i - x_j to E_ij with weights W_ij, both (n, N, N)."""
    xp, N = array_namespace(E), E.shape[1]
    E, W = E + 0, W + 0
    columns = [xp.zeros_like(E[:, 0, 0])]
    for k in range(N - 1, 0, -1):
        w = W[:, k, :k]
        total = xp.sum(w, axis=1, keepdims=True)
        share = w / xp.where(total > 0, total, xp.ones_like(total))
        added = share[:, :, None] * w[:, None, :]
        W[:, k, :k] = share  # w is a view of it
        both = W[:, :k, :k] + added
        through = E[:, :k, k, None] + E[:, k, None, :k]
        mean = (W[:, :k, :k] * E[:, :k, :k] + added * through) / xp.where(both > 0, both, xp.ones_like(both))
        E[:, :k, :k], W[:, :k, :k] = mean, both
    for k in range(1, N):
        so_far = xp.stack(columns, axis=1)
        columns.append(xp.sum(W[:, k, :k] * (so_far + E[:, k, :k]), axis=1))
    x = xp.stack(columns, axis=1)
    return x - xp.mean(x, axis=1, keepdims=True)
