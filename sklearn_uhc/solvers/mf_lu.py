"""MF-LU: rank-one factorization of the logits with a free scale per teacher, by alternating least squares.

    min over u, v, c of  || M * (Z - u v' - 1 c') ||_F^2 + lam (||u||^2 + ||v||^2),      v >= 0

c is the mean of z_i - v_i u over the list of teacher i, so with Z centred per block it is minus v_i times the mean of
u there. The paper updates u, v, c in turn; so do the first sweeps here, which decide between the local optima. The
later ones also take the common shift out of u, solve v and c together, and set the scale that is left free, on which
plain alternation spends hundreds of sweeps.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sklearn_uhc.solvers.blocks import Array, Blocks, Solution

#: Sweeps of the paper's own algorithm before the faster ones.
WARM_UP = 20


def objective(Z: Array, U: Array, V: Array, lam: float, blocks: Blocks) -> Array:
    """Regularised squared error, c at its best, per sample."""
    error = blocks.center(Z - U[:, blocks.class_of] * V[:, blocks.teacher_of])
    value: Array = (error**2).sum(axis=1) + lam * ((U**2).sum(axis=1) + (V**2).sum(axis=1))
    return value


def gradient(Z: Array, U: Array, V: Array, lam: float, blocks: Blocks) -> tuple[Array, Array]:
    """Half the derivatives by u (n, L) and v (n, N), c at its best."""
    error = blocks.center(Z - U[:, blocks.class_of] * V[:, blocks.teacher_of])
    by_u = lam * U - (error * V[:, blocks.teacher_of]) @ blocks.to_class
    by_v = lam * V - (error * U[:, blocks.class_of]) @ blocks.to_teacher
    return by_u, by_v


def best_u(Z: Array, V: Array, C: Array, lam: float, blocks: Blocks) -> Array:
    """Least squares for u given v and c."""
    weighted = (Z - C[:, blocks.teacher_of]) * V[:, blocks.teacher_of]
    U: Array = (weighted @ blocks.to_class) / (lam + V**2 @ blocks.M)
    return U


def best_v(Z: Array, U: Array, lam: float, blocks: Blocks) -> Array:
    """Least squares for v and c together given u, v not negative."""
    variance = U**2 @ blocks.M.T - (U @ blocks.M.T) ** 2 / blocks.sizes
    V = ((Z * U[:, blocks.class_of]) @ blocks.to_teacher) / (lam + np.maximum(variance, 0.0))
    return np.maximum(V, 0.0)


def best_c(U: Array, V: Array, blocks: Blocks) -> Array:
    """Least squares for c given u and v, Z centred."""
    C: Array = -V * (U @ blocks.M.T) / blocks.sizes
    return C


def paper_sweep(Z: Array, V: Array, C: Array, lam: float, blocks: Blocks) -> tuple[Array, Array, Array]:
    """One round of the paper's Algorithm 2 on centred Z: u, then v, then c."""
    U = best_u(Z, V, C, lam, blocks)
    shifted = (Z - C[:, blocks.teacher_of]) * U[:, blocks.class_of]
    V = np.maximum((shifted @ blocks.to_teacher) / (lam + U**2 @ blocks.M.T), 0.0)
    return U, V, best_c(U, V, blocks)


def balance_norms(U: Array, V: Array) -> tuple[Array, Array]:
    """Scale to ||u|| = ||v||: u v' stays, the ridge is smallest. Alternation alone creeps there over many sweeps."""
    squares = (U**2).sum(axis=1, keepdims=True), (V**2).sum(axis=1, keepdims=True)
    usable = (squares[0] > 0) & (squares[1] > 0)
    s = (np.where(usable, squares[0], 1.0) / np.where(usable, squares[1], 1.0)) ** 0.25
    return U / s, V * s


def sweep(Z: Array, U: Array, V: Array, lam: float, blocks: Blocks) -> tuple[Array, Array]:
    """One round of updates on centred Z; none of them increases the objective."""
    U = best_u(Z, V, best_c(U, V, blocks), lam, blocks)
    # A common shift of u within a component is absorbed by c and only adds to ||u||: take it out.
    U = U - U @ blocks.component_mean
    return balance_norms(U, best_v(Z, U, lam, blocks))


def solve_mf_lu(Z: Array, blocks: Blocks, *, lam: float = 0.01, tol: float = 1e-4, max_iter: int = 3000) -> Solution:
    """Sweep from v = 1 and c = mean logit, as in the paper, until u and v of a sample change by less than `tol`."""
    Z = blocks.center(Z)
    n = len(Z)
    V = np.ones((n, len(blocks.M)))
    C = np.zeros_like(V)
    for _ in range(min(WARM_UP, max_iter)):
        U, V, C = paper_sweep(Z, V, C, lam, blocks)
    U, V = balance_norms(U - U @ blocks.component_mean, V)
    n_iter = np.full(n, max_iter)
    active: NDArray[np.int_] = np.arange(n)
    batch, u, v = Z, U, V
    for iteration in range(WARM_UP + 1, max_iter + 1):
        new_u, new_v = sweep(batch, u, v, lam, blocks)
        done = (_rmse(new_u, u) < tol) & (_rmse(new_v, v) < tol)
        u, v = new_u, new_v
        # Copying the batch costs as much as a sweep: let samples leave it only when enough of them are done.
        if done.mean() > 0.1 or iteration == max_iter:
            U[active], V[active] = u, v
            n_iter[active[done]] = iteration
            active, batch, u, v = active[~done], batch[~done], u[~done], v[~done]
        if len(active) == 0:
            break
    converged = np.ones(n, dtype=bool)
    converged[active] = False
    return Solution(U, V, n_iter, converged)


def _rmse(A: Array, B: Array) -> Array:
    root: Array = np.sqrt(((A - B) ** 2).mean(axis=1))
    return root
