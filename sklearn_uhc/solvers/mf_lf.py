"""MF-LF: matrix factorization in logit space with v fixed to one, in closed form.

    min over u of  sum_i || C_i (z_i - S_i u) ||^2,      C_i = I - 11'/k_i removes the mean

S_i picks the classes of teacher i. The normal equations A u = B z with A = sum_i S_i' C_i S_i and
B = [S_1' C_1, ...] are the same for all samples, so the answer is one matrix product.
"""

from __future__ import annotations

import numpy as np

from sklearn_uhc.solvers.blocks import Array, Blocks


def normal_equations(blocks: Blocks) -> tuple[Array, Array]:
    """Return A (L, L), a graph Laplacian, and B (L, K)."""
    C = np.eye(len(blocks.to_teacher)) - blocks.to_teacher @ (blocks.to_teacher / blocks.sizes).T
    B = blocks.to_class.T @ C
    return B @ blocks.to_class, B


def solution_operator(blocks: Blocks) -> Array:
    """Return the (K, L) matrix that takes logits Z to U = Z @ operator, mean zero in every component."""
    A, B = normal_equations(blocks)
    # A's null space is spanned by the indicators of the components. Adding the projector on it makes A
    # invertible and, as B's range is orthogonal to it, picks the solution with mean zero there.
    return np.asarray(np.linalg.solve(A + blocks.component_mean, B).T, dtype=float)
