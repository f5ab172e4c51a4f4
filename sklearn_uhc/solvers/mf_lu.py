"""MF-LU: rank-one factorization of the logits with a free scale per teacher (the paper's Algorithm 2).

    min over u, v, c of  || M * (Z - u v' - 1 c') ||_F^2 + lam (||u||^2 + ||v||^2),      v >= 0

Each step minimises over some of the variables: u given v and c, then v and c together given u. c is the mean of
z_i - v_i u over the list of teacher i, so with Z centred per block it is minus v_i times the mean of u there.
"""

from __future__ import annotations

import numpy as np

from sklearn_uhc.solvers.als import alternate
from sklearn_uhc.solvers.blocks import Array, Blocks, Solution


def objective(Z: Array, U: Array, V: Array, lam: float, blocks: Blocks) -> Array:
    """Regularised squared error, c at its best, per sample."""
    error = blocks.center(Z - U[:, blocks.class_of] * V[:, blocks.teacher_of])
    value: Array = (error**2).sum(axis=1) + lam * ((U**2).sum(axis=1) + (V**2).sum(axis=1))
    return value


def _ratio_of_norms(U: Array, V: Array) -> Array:
    """Return s (n, 1) with ||u / s|| = ||v s||, or 1 where one of them is zero."""
    squares = (U**2).sum(axis=1, keepdims=True), (V**2).sum(axis=1, keepdims=True)
    usable = (squares[0] > 0) & (squares[1] > 0)
    ratio: Array = np.where(usable, squares[0], 1.0) / np.where(usable, squares[1], 1.0)
    return ratio**0.25


def solve_mf_lu(Z: Array, blocks: Blocks, *, lam: float = 0.01, tol: float = 1e-4, max_iter: int = 3000) -> Solution:
    """Alternate from v = 1 and c = mean logit, as in the paper; `u` has mean zero in every component."""

    def best_u(Z: Array, V: Array, mean_u: Array) -> Array:
        Z_minus_c = Z + (V * mean_u)[:, blocks.teacher_of]
        U = ((Z_minus_c * V[:, blocks.teacher_of]) @ blocks.to_class) / (lam + V**2 @ blocks.M)
        # A common shift of u within a component is absorbed by c and only adds to ||u||: take it out.
        return U - U @ blocks.component_mean

    def best_v(Z: Array, U: Array, mean_u: Array) -> Array:
        V = ((Z * U[:, blocks.class_of]) @ blocks.to_teacher) / (
            lam + np.maximum(U**2 @ blocks.M.T - blocks.sizes * mean_u**2, 0.0)
        )
        return np.maximum(V, 0.0)

    def mean_over_lists(U: Array) -> Array:
        mean: Array = (U @ blocks.M.T) / blocks.sizes
        return mean

    def sweep(data: Array, U: Array, V: Array) -> tuple[Array, Array]:
        U = best_u(data, V, mean_over_lists(U))
        V = best_v(data, U, mean_over_lists(U))
        # u / s and v * s fit alike; the ridge is smallest at equal norms, where plain alternation creeps to.
        s = _ratio_of_norms(U, V)
        return U / s, V * s

    Z = blocks.center(Z)
    V = np.ones((len(Z), len(blocks.M)))
    return alternate(sweep, Z, best_u(Z, V, np.zeros_like(V)), V, tol=tol, max_iter=max_iter)
