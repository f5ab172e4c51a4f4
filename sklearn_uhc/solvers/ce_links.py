"""CE for teachers that are linked very weakly: differences of theta instead of theta.

A class that only one teacher knows does not affect the dual of `ce.py`, and the rest is a sum over pairs of teachers.
With r_il = t_i / (M't)_l, the share of teacher i in class l,

    gradient_i = sum_j F_ij,      F_ij = sum_l (r_il p_j(l) - r_jl p_i(l))
    Hessian    = Laplacian of the graph with weights W_ij = sum_l a_l r_il r_jl

so Newton's step x is the weighted least-squares fit of the differences x_i - x_j to -F_ij / W_ij. Eliminating one
teacher after the other takes only sums, products and ratios of positive weights and averages of differences. So a link
of 1e-30 is as exact as one of 1, while a general solver would lose it in the rounding of the others.

The third derivative of the dual is at most its second times the range R of a step, so log(1 + R) / R of Newton's step
always leads downhill. The objective, in which such a link would be invisible, need not be compared.
"""

from __future__ import annotations

import numpy as np

from sklearn_uhc.solvers.blocks import MIN_LOG_P, Array, Blocks
from sklearn_uhc.solvers.incidence import array_namespace, samples_last, take_samples
from sklearn_uhc.solvers.mf_lf import agreement
from sklearn_uhc.solvers.newton import Found

#: Range of the last step; the next one would be about its square.
LAST_STEP = 1e-6


class Links:
    """The dual for weighted probabilities P (n, K), none of them zero."""

    def __init__(self, P: Array, blocks: Blocks) -> None:
        self.P, self.blocks = samples_last(P * blocks.shared), blocks
        self.a = blocks.by_class(blocks.sum_classes(self.P))

    def take(self, rows: Array) -> Links:
        """Return the problem for some samples."""
        part = object.__new__(Links)
        part.P, part.a, part.blocks = take_samples(self.P, rows), take_samples(self.a, rows), self.blocks
        return part

    def shares(self, theta: Array) -> Array:
        """Return r (n, K), 0 for classes that no other teacher knows."""
        xp, blocks = array_namespace(theta), self.blocks
        E = xp.exp(blocks.by_teacher(theta) - blocks.by_class(blocks.largest_owner(theta)))
        return blocks.shared * E / blocks.by_class(blocks.sum_classes(E))

    def step(self, theta: Array) -> tuple[Array, Array, Array]:
        """Return Newton's step, its range, and the largest entry of the gradient."""
        xp, R, pairs = array_namespace(theta), self.shares(theta), self.blocks.pairs
        A = pairs.products(self.P, R)
        F = xp.permute_dims(A, (0, 2, 1)) - A
        W = pairs.products(R * self.a, R)
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


def minimize_links(P: Array, blocks: Blocks, *, tol: float, max_iter: int) -> Found:
    """Minimise the dual for weighted probabilities P (n, K); the start is the optimum if teachers agree."""
    xp = array_namespace(P)
    P = xp.clip(P, float(np.exp(MIN_LOG_P)), None)
    links, theta = Links(P, blocks), agreement(P, blocks)[1]
    n_iter, residual = xp.zeros_like(theta[:, 0], dtype=xp.int64), 0 * theta[:, 0]
    converged = n_iter < 0
    rows = xp.nonzero(~converged)[0]
    for age in range(max_iter + 1):
        x, length, residual[rows] = links.take(rows).step(theta[rows])
        converged[rows], n_iter[rows] = (length <= LAST_STEP) & (residual[rows] <= tol), age
        if age < max_iter:
            damped = xp.log1p(length) / xp.where(length > 0, length, xp.ones_like(length))
            theta[rows] = theta[rows] + xp.where(length > LAST_STEP, damped, xp.ones_like(length))[:, None] * x
        rows = rows[~converged[rows]]
        if not rows.shape[0]:
            break
    return Found(theta, n_iter, residual, converged, converged)
