"""MF-P: rank-one factorization of the probabilities with missing entries (the paper's Algorithm 1).

min over u, v of  || M * (P - u v') ||_F^2,      u on the simplex, v >= 0
"""

from __future__ import annotations

import numpy as np

from sklearn_uhc.solvers.als import alternate
from sklearn_uhc.solvers.blocks import Array, Blocks, Solution

#: Keeps 0 / 0 away when u vanishes on a whole class list; far below any probability that matters.
TINY = 1e-200


def objective(P: Array, U: Array, V: Array, blocks: Blocks) -> Array:
    """Squared error of the factorization, per sample."""
    error: Array = ((P - U[:, blocks.class_of] * V[:, blocks.teacher_of]) ** 2).sum(axis=1)
    return error


def solve_mf_p(P: Array, blocks: Blocks, *, tol: float = 1e-4, max_iter: int = 3000) -> Solution:
    """Alternate from v = 1, as in the paper; `u` of the answer lies on the simplex."""

    def best_u(P: Array, V: Array) -> Array:
        U = ((P * V[:, blocks.teacher_of]) @ blocks.to_class) / (V**2 @ blocks.M + TINY)
        return U / U.sum(axis=1, keepdims=True)

    def best_v(P: Array, U: Array) -> Array:
        V: Array = ((P * U[:, blocks.class_of]) @ blocks.to_teacher) / (U**2 @ blocks.M.T + TINY)
        return V

    def sweep(data: Array, U: Array, V: Array) -> tuple[Array, Array]:
        U = best_u(data, V)
        return U, best_v(data, U)

    V = np.ones((len(P), len(blocks.M)))
    return alternate(sweep, P, best_u(P, V), V, tol=tol, max_iter=max_iter)
