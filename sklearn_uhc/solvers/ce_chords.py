"""CE by steps with one matrix for all samples: the Hessian H_u of teachers with uniform answers.

    theta <- theta - H_u^-1 (w log(masses / w)),      masses_i = t_i (M (a / M't))_i, which is w_i at the optimum

A step costs sums over the classes, at most an eighth of a Newton step, and unless answers are very sharp a few steps
reach the optimum. The Hessian H is the Laplacian of the graph with weights W_ij = t_i t_j sum_l a_l / (M't)_l^2, and a
Laplacian grows with each of its weights, so that

    H >= c H_u,      c = smallest W_ij / W_ij of H_u

Hence the optimum is no further away than about 1 / c of the next step, and the smallest eigenvalue is at least c times
that of H_u: both certificates without H itself. Samples that are not certified are left to Newton's method.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from array_api_compat import device

from sklearn_uhc.solvers.blas import one_blas_thread
from sklearn_uhc.solvers.blocks import Array, Blocks
from sklearn_uhc.solvers.incidence import array_namespace, at_least, take_samples
from sklearn_uhc.solvers.newton import WELL_CONDITIONED, Found, add_diagonal, limit_step

#: Maximum number of steps, and number of steps after which hopeless samples are dropped.
MOST, SOME = 12, 4
#: Longest step in theta; keeps exp(theta) in range.
MAX_STEP = 4.0
#: Solved samples have a next step of at most this share of a negligible one, so that c may be as small as this.
MARGIN = 0.1


class Uniform(NamedTuple):
    """Shared by all samples: the Hessian for teachers with uniform answers."""

    inverse: Array  #: (N, N), inverse of the Hessian with its null space filled
    lowest: float  #: its smallest eigenvalue, scaled such that all masses are 1
    weights: Array  #: (1, pairs), W of the pairs of teachers that share classes

    @classmethod
    def of(cls, blocks: Blocks, w: Array) -> Uniform:
        """Prepare for the class lists of `blocks` and a weight (N,) per teacher."""
        xp, t = array_namespace(w), (w / blocks.sizes)[None, :]
        shares = 1 / blocks.sum_owners(t)
        H = blocks.pairs.sums(shares)
        H *= -t[:, :, None]
        H *= t[:, None, :]
        add_diagonal(H, w[None, :])
        filled = H[0] + xp.max(w) * blocks.teacher_component_mean
        scaled = filled / xp.sqrt(w[:, None] * w[None, :])
        return cls(xp.linalg.inv(filled), float(xp.linalg.eigvalsh(scaled)[0]), blocks.pairs.links(shares, t))


class Dual(Protocol):
    """The dual of CE."""

    @property
    def a(self) -> Array:
        """(n, L), sums of the teachers' probabilities."""

    @property
    def blocks(self) -> Blocks:
        """The label space."""

    @property
    def w(self) -> Array:
        """(N,), or one number for all."""

    @property
    def uniform(self) -> Uniform:
        """What all samples share."""


def solve_by_chords(dual: Dual, *, tol: float) -> Found:
    """Return the result of the steps; `converged` marks samples certified as optimal. Steps are not counted."""
    a, room = dual.a, 4 * dual.blocks.batch_rows
    xp, n = array_namespace(a), a.shape[0]
    theta = xp.empty((n, dual.blocks.n_teachers), dtype=a.dtype, device=device(a))
    residual, done = xp.empty_like(theta[:, 0]), xp.empty_like(theta[:, 0], dtype=xp.bool)
    with one_blas_thread():
        for start in range(0, n, room):
            rows = slice(start, start + room)
            theta[rows, :], residual[rows], done[rows] = _solve(dual, take_samples(a, rows), tol)
    return Found(theta, xp.zeros_like(residual, dtype=xp.int64), residual, done, done + False)


def _solve(dual: Dual, a: Array, tol: float) -> tuple[Array, Array, Array]:
    """Return theta, residual and certificate of the samples with sums a (n, L)."""
    xp, n = array_namespace(a), a.shape[0]
    x = first_theta(dual.blocks, dual.w, a)
    theta, residual, length = x + 0, xp.empty_like(x[:, 0]), xp.empty_like(x[:, 0])
    rows, some = xp.arange(n, device=device(a)), a
    step, least, goal = 0 * x, xp.inf + 0 * x[:, 0], MARGIN * 0.1 * tol
    for k in range(MOST + 1):
        trial = x - step
        ratio = masses(dual.blocks, some, trial) / dual.w
        away = xp.max(xp.abs(dual.w * (ratio - 1)), axis=1)
        better = away < least
        rate = xp.where(better, away / at_least(least, 1e-30), xp.ones_like(away))
        x, least = xp.where(better[:, None], trial, x), xp.where(better, away, least)
        slope = dual.w * xp.log(at_least(ratio, 1e-30))
        next_step = limit_step((dual.uniform.inverse @ slope.T).T, MAX_STEP)
        step = xp.where(better[:, None], next_step, step / 4)
        ahead = xp.max(xp.abs(step), axis=1)
        leaving = ahead <= goal
        if k >= SOME:
            leaving = leaving | (ahead * rate ** (MOST - k) > goal)
        if k == MOST or 4 * int(xp.sum(leaving)) >= leaving.shape[0]:
            theta[rows, :], residual[rows], length[rows] = x, least, ahead
            left = xp.nonzero(~leaving)[0]
            if k == MOST or not left.shape[0]:
                break
            rows, x, step, least = rows[left], x[left, :], step[left, :], least[left]
            some = take_samples(some, left)
    return theta, residual, _certified(dual, a, theta, residual, length, tol)


def _certified(dual: Dual, a: Array, theta: Array, residual: Array, length: Array, tol: float) -> Array:
    """Return which samples are at a well-conditioned optimum, given the lengths of their next steps."""
    xp = array_namespace(theta)
    done = (residual <= tol) & (length <= 0.1 * tol)
    rows = xp.nonzero(done)[0]
    if rows.shape[0]:
        t = xp.exp(theta[rows, :])
        W = dual.blocks.pairs.links(take_samples(a, rows) / dual.blocks.sum_owners(t) ** 2, t)
        c = xp.min(W / dual.uniform.weights, axis=1) if W.shape[1] else xp.ones_like(t[:, 0])
        done[rows] = (length[rows] <= 0.1 * tol * c) & (c * dual.uniform.lowest >= WELL_CONDITIONED)
    return done


def first_theta(blocks: Blocks, w: Array, a: Array) -> Array:
    """Return (n, N), the optimum for teachers with uniform answers that share no class."""
    theta = array_namespace(a).log((w + 0 * blocks.sizes) / blocks.sizes)
    return (theta[:, None] + 0 * a[:, :1].T).T


def masses(blocks: Blocks, a: Array, theta: Array) -> Array:
    """Return t_i (M (a / M't))_i, (n, N)."""
    t = array_namespace(theta).exp(theta)
    return t * blocks.sum_lists(a / blocks.sum_owners(t))
