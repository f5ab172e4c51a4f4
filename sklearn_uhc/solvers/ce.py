"""CE: cross-entropy against every teacher's restriction of q, by Newton's method on a dual of N variables.

    J(u) = - sum_l a_l u_l + sum_i log sum_{k in L_i} exp(u_k),      a_l = sum_{i: l in L_i} p_i(l)

Its stationary points are q_l = a_l / (M't)_l with t = exp(theta), theta the minimiser of the convex

    f(theta) = sum_l a_l log (M't)_l - sum_i theta_i + (ridge / 2) ||theta||^2

The ridge is there for the directions in which f is flat: the common shift of theta in a connected component,
and more when zeros in a disconnect the classes of one sample.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sklearn_uhc.solvers.blocks import Array, Blocks, Solution

RIDGE = 1e-10
#: Longest step in theta; keeps exp(theta) in range and the quadratic model honest.
MAX_STEP = 4.0


def dual_value(theta: Array, a: Array, M: Array) -> Array:
    """f(theta) per sample."""
    log_s = np.log(np.exp(theta) @ M)
    return (a * log_s).sum(axis=1) - theta.sum(axis=1) + 0.5 * RIDGE * (theta**2).sum(axis=1)


def dual_gradient(theta: Array, a: Array, M: Array) -> Array:
    """Gradient of f per sample, (n, N); its largest entry is the optimality certificate."""
    t = np.exp(theta)
    return t * ((a / (t @ M)) @ M.T) - 1 + RIDGE * theta


def _newton_direction(theta: Array, gradient: Array, a: Array, pairs: Array, blocks: Blocks) -> Array:
    """- Hessian^-1 gradient; `pairs` holds M_il M_jl as an (L, N * N) matrix."""
    M = blocks.M
    n, N = theta.shape
    t = np.exp(theta)
    H = -((a / (t @ M) ** 2) @ pairs).reshape(n, N, N) * t[:, :, None] * t[:, None, :]
    diagonal = np.arange(N)
    H[:, diagonal, diagonal] += gradient + 1 - RIDGE * theta + RIDGE
    # The null space of the Hessian holds the indicators of the components: filling them in changes no step, as the
    # gradient is orthogonal to them, and keeps the system well conditioned.
    H += blocks.teacher_component_mean
    step = -np.linalg.solve(H, gradient[:, :, None])[:, :, 0]
    longest = np.abs(step).max(axis=1, keepdims=True)
    return step * np.minimum(1.0, MAX_STEP / np.maximum(longest, 1e-300))


def _damped_step(theta: Array, step: Array, gradient: Array, a: Array, M: Array) -> Array:
    """Halve the step of each sample until f decreases enough (Armijo)."""
    value, slope = dual_value(theta, a, M), (gradient * step).sum(axis=1)
    size = np.ones(len(theta))
    # Near the optimum a true decrease drowns in rounding: allow for it.
    slack = 1e-13 * (1 + np.abs(value))
    for _ in range(40):
        trial = theta + size[:, None] * step
        worse = dual_value(trial, a, M) > value + 1e-4 * size * slope + slack
        if not worse.any():
            break
        size[worse] *= 0.5
    return theta + size[:, None] * step


def solve_ce(P: Array, blocks: Blocks, *, tol: float = 1e-9, max_iter: int = 100) -> Solution:
    """Minimise J for every row of P; `u` of the answer is q itself, `v` is theta."""
    M, (n, N) = blocks.M, (len(P), len(blocks.M))
    pairs = (M[:, None, :] * M[None, :, :]).reshape(N * N, -1).T
    a = P @ blocks.to_class
    theta = np.zeros((n, N))
    n_iter = np.full(n, max_iter)
    active: NDArray[np.int_] = np.arange(n)
    for iteration in range(max_iter + 1):
        gradient = dual_gradient(theta[active], a[active], M)
        going = np.abs(gradient).max(axis=1) > tol
        n_iter[active[~going]] = max(iteration, 1)
        active, gradient = active[going], gradient[going]
        if len(active) == 0 or iteration == max_iter:
            break
        step = _newton_direction(theta[active], gradient, a[active], pairs, blocks)
        theta[active] = _damped_step(theta[active], step, gradient, a[active], M)
    converged = np.ones(n, dtype=bool)
    converged[active] = False
    return Solution(blocks.level_components(a / (np.exp(theta) @ M)), theta, n_iter, converged)
