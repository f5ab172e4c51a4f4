"""MF-P: rank-one factorization of the probabilities with missing entries.

    min over u, v of  || M * (P - u v') ||_F^2,      u on the simplex, v >= 0

Given v, u is closed form: u = a / b with a_l = sum_i P_il v_i and b_l = sum_i v_i^2 over the teachers that know l. What
is left is a problem in theta = log v, one variable per teacher:

    F(theta) = - 1/2 sum_l a_l^2 / b_l,     gradient_i = - sum_l y_il (P_il - y_il),     y = u v'
    Hessian  = diag(d) - G diag(1 / b) G',  G_il = v_i (P_il - 2 y_il),  d_i = - sum_l u_l G_il

The paper alternates between u and v, which is the step - gradient / sum_l y^2. A Levenberg-Marquardt step takes
its place where it decreases F, so a sample is never worse off than with the paper's sweep.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sklearn_uhc.solvers.blocks import Array, Blocks, Solution

#: Keeps 0 / 0 away when a class or a whole list has no probability; far below any that matters.
TINY = 1e-200
#: Sweeps of the paper's algorithm before the first Newton step, so that the basin is the paper's.
WARM_UP = 5


def objective(P: Array, U: Array, V: Array, blocks: Blocks) -> Array:
    """Squared error of the factorization, per sample."""
    error: Array = ((P - U[:, blocks.class_of] * V[:, blocks.teacher_of]) ** 2).sum(axis=1)
    return error


def best_u(P: Array, V: Array, blocks: Blocks) -> Array:
    """Least squares for u given v."""
    U: Array = ((P * V[:, blocks.teacher_of]) @ blocks.to_class) / (V**2 @ blocks.M + TINY)
    return U


def best_v(P: Array, U: Array, blocks: Blocks) -> Array:
    """Least squares for v given u; not negative, as nothing in it is."""
    V: Array = ((P * U[:, blocks.class_of]) @ blocks.to_teacher) / (U**2 @ blocks.M.T + TINY)
    return V


def sweep(P: Array, V: Array, blocks: Blocks) -> Array:
    """One round of the paper's Algorithm 1: v from u from v, with u on the simplex."""
    U = best_u(P, V, blocks)
    return best_v(P, U / U.sum(axis=1, keepdims=True), blocks)


def gradient(P: Array, V: Array, blocks: Blocks) -> Array:
    """Return the derivative of F by log v, (n, N); relative to ||P||^2 it is the optimality certificate."""
    Y = best_u(P, V, blocks)[:, blocks.class_of] * V[:, blocks.teacher_of]
    slope: Array = -((Y * (P - Y)) @ blocks.to_teacher)
    return slope


def _newton_step(P: Array, V: Array, slope: Array, damping: Array, blocks: Blocks) -> Array:
    """Levenberg-Marquardt step in log v: (Hessian + damping * sum_l y^2) step = - gradient."""
    n, N, L = len(P), *blocks.M.shape
    U, B = best_u(P, V, blocks), V**2 @ blocks.M + TINY
    Y = U[:, blocks.class_of] * V[:, blocks.teacher_of]
    flat = V[:, blocks.teacher_of] * P - 2 * Y * V[:, blocks.teacher_of]
    # Work in units of sqrt(sum_l y^2), so that teachers with a tiny v do not spoil the system.
    unit = 1 / np.sqrt(np.maximum(Y**2 @ blocks.to_teacher, 1e-14 * (P**2).sum(axis=1, keepdims=True)))
    G = np.zeros((n, N, L))
    G[:, blocks.teacher_of, blocks.class_of] = flat * unit[:, blocks.teacher_of] / np.sqrt(B)[:, blocks.class_of]
    H = -G @ G.transpose(0, 2, 1)
    diagonal = np.arange(N)
    H[:, diagonal, diagonal] += damping[:, None] - unit**2 * ((U[:, blocks.class_of] * flat) @ blocks.to_teacher)
    # F does not change when all v of a component grow alike: fill that direction in.
    H += blocks.teacher_component_mean / (unit[:, :, None] * unit[:, None, :]) * (unit**2).min(axis=1)[:, None, None]
    try:
        step = unit * np.linalg.solve(H, -(unit * slope)[:, :, None])[:, :, 0]
    except np.linalg.LinAlgError:  # some sample's system is exactly singular: the paper's sweep will do
        return np.zeros_like(V)
    return np.asarray(np.clip(step, -2.0, 2.0))


def solve_mf_p(P: Array, blocks: Blocks, *, tol: float = 1e-10, max_iter: int = 1000) -> Solution:
    """Minimise from v = 1, as in the paper, until no entry of the relative gradient exceeds `tol`."""
    n = len(P)
    V = np.ones((n, len(blocks.M)))
    for _ in range(WARM_UP):
        V = sweep(P, V, blocks)
    size = (P**2).sum(axis=1, keepdims=True)
    n_iter, damping = np.full(n, max_iter), np.full(n, 1e-2)
    active: NDArray[np.int_] = np.arange(n)
    for iteration in range(WARM_UP, max_iter + 1):
        p, v = P[active], V[active]
        slope = gradient(p, v, blocks)
        going = np.abs(slope / size[active]).max(axis=1) > tol
        n_iter[active[~going]] = iteration
        active, p, v, slope = active[going], p[going], v[going], slope[going]
        if len(active) == 0 or iteration >= max_iter:
            break
        V[active], damping[active] = _advance(p, v, slope, damping[active], blocks)
    converged = np.ones(n, dtype=bool)
    converged[active] = False
    U = best_u(P, V, blocks)
    total = U.sum(axis=1, keepdims=True)
    return Solution(U / total, V * total, n_iter, converged)


def _advance(P: Array, V: Array, slope: Array, damping: Array, blocks: Blocks) -> tuple[Array, Array]:
    """Take the Newton step where it beats a sweep of the paper's algorithm, else that sweep."""
    newton = V * np.exp(_newton_step(P, V, slope, damping, blocks))
    plain = sweep(P, V, blocks)
    value = [objective(P, best_u(P, v, blocks), v, blocks) for v in (newton, plain)]
    better = value[0] <= value[1]
    V = np.where(better[:, None], newton, plain)
    damping = np.where(better, damping / 8, damping * 8)
    # Beyond some damping a Newton step is only a shorter sweep: begin again.
    return V / V.max(axis=1, keepdims=True), np.where(damping > 10, 1e-2, np.maximum(damping, 1e-12))
