"""MF-LF: matrix factorization in logit space with v fixed to one, in closed form.

    min over u of  sum_i || C_i (z_i - S_i u) ||^2,      C_i = I - 11'/k_i removes the mean

S_i picks the classes of teacher i. The normal equations A u = B z with A = sum_i S_i' C_i S_i and
B = [S_1' C_1, ...] are the same for all samples, so the answer is a matrix product.
"""

from __future__ import annotations

from array_api_compat import array_namespace, device

from sklearn_uhc.solvers.blocks import Array, Blocks


def laplacian(blocks: Blocks) -> Array:
    """Return A (L, L): the Laplacian of the graph in which teacher i joins its classes with weight 1 / k_i."""
    xp, M = array_namespace(blocks.M), blocks.M
    eye = xp.eye(M.shape[1], dtype=M.dtype, device=device(M))
    return xp.sum(M, axis=0)[:, None] * eye - M.T @ (M / blocks.sizes[:, None])


def inverse(blocks: Blocks) -> Array:
    """Return the (L, L) matrix that takes B z to the u of mean zero in every component."""
    # A's null space is spanned by the indicators of the components. Adding the projector on it makes A
    # invertible and, as B's range is orthogonal to it, picks the solution with mean zero there.
    return array_namespace(blocks.M).linalg.inv(laplacian(blocks) + blocks.component_mean)


def solve_mf_lf(Z: Array, blocks: Blocks, inverse_of_A: Array) -> Array:
    """Return U (n, L) for logits Z (n, K)."""
    Bz = Z @ blocks.to_class - ((Z @ blocks.to_teacher) / blocks.sizes) @ blocks.M
    return Bz @ inverse_of_A


def residual(Z: Array, U: Array, blocks: Blocks) -> Array:
    """Largest entry of A u - B z, per sample: the optimality certificate."""
    xp = array_namespace(Z)
    error = blocks.center(Z - blocks.by_class(U))
    return xp.max(xp.abs(error @ blocks.to_class), axis=1)
