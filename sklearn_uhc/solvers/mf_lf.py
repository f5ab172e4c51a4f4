"""MF-LF: matrix factorization in logit space with v fixed to one, in closed form.

    min over u of  sum_i || C_i (z_i - S_i u) ||^2,      C_i = I - 11'/k_i removes the mean

S_i picks the classes of teacher i. The normal equations A u = B z with A = sum_i S_i' C_i S_i and
B = [S_1' C_1, ...] are the same for all samples, so the answer is a matrix product. Weights w_i of the squared norms
multiply the terms of both sums.
"""

from __future__ import annotations

from typing import NamedTuple

from array_api_compat import array_namespace, device

from sklearn_uhc.solvers.blocks import Array, Blocks


def laplacian(blocks: Blocks, weight: Array | None = None) -> Array:
    """Return A (L, L): the Laplacian of the graph in which teacher i joins its classes with weight w_i / k_i."""
    xp, M = array_namespace(blocks.M), blocks.M
    eye = xp.eye(M.shape[1], dtype=M.dtype, device=device(M))
    W = M if weight is None else weight[:, None] * M
    return xp.sum(W, axis=0)[:, None] * eye - M.T @ (W / blocks.sizes[:, None])


class LogitAverage(NamedTuple):
    """The matrices of the normal equations, once for all samples."""

    A: Array  #: (L, L)
    B: Array  #: (L, K)
    inverse: Array  #: (L, L), takes B z to the u of mean zero in every component

    @classmethod
    def of(cls, blocks: Blocks, weight: Array | None = None) -> LogitAverage:
        """Prepare for the class lists of `blocks` and a weight (N,) per teacher."""
        A = laplacian(blocks, weight)
        B = (blocks.to_class - (blocks.to_teacher / blocks.sizes) @ blocks.M).T
        B = B if weight is None else B * (blocks.to_teacher @ weight)
        # A's null space is spanned by the indicators of the components. Adding the projector on it makes A
        # invertible and, as B's range is orthogonal to it, picks the solution with mean zero there.
        return cls(A, B, array_namespace(A).linalg.inv(A + blocks.component_mean))

    def solve(self, Z: Array) -> tuple[Array, Array]:
        """Return u (n, L) for logits Z (n, K), and the largest entry of A u - B z per sample: the certificate."""
        # Samples last: the products take as long, and the largest entry is found for many samples at once.
        xp, Bz = array_namespace(Z), self.B @ Z.T
        U = self.inverse @ Bz
        error = self.A @ U
        error -= Bz
        return U.T, xp.maximum(xp.max(error, axis=0), -xp.min(error, axis=0))


def shifts_out(Z: Array, blocks: Blocks) -> Array:
    """Return the same u for logits Z (n, K) by systems of one unknown per teacher, its shift c_i.

    (diag(k) - M D^-1 M') c = r - M D^-1 b,   u = D^-1 (b - M' c),   with D the number of teachers that know a class, b
    and r the sums of z over teachers and over classes. No certificate: a start, not an answer.
    """
    xp, M = array_namespace(Z), blocks.M
    D = xp.sum(M, axis=0)
    eye = xp.eye(M.shape[0], dtype=M.dtype, device=device(M))
    core = blocks.sizes[:, None] * eye - (M / D) @ M.T
    b = Z @ blocks.to_class
    c = (Z @ blocks.to_teacher - (b / D) @ M.T) @ xp.linalg.inv(core + blocks.teacher_component_mean)
    return (b - c @ M) / D


def agreement(P: Array, blocks: Blocks) -> tuple[Array, Array]:
    """Return what q of MF-LF makes every teacher say, (n, K), and log v, (n, N), with v_i = w_i / q(L_i).

    P (n, K) is positive and its blocks sum to w_i. Where teachers agree they say just that. In logarithms, as q may be
    beyond what exp can hold.
    """
    xp = array_namespace(P)
    u = blocks.by_class(shifts_out(xp.log(P), blocks))
    top = xp.stack([xp.max(u[:, block], axis=1) for block in blocks.slices], axis=1)
    E = xp.exp(u - blocks.by_teacher(top))
    v = (P @ blocks.to_teacher) / (E @ blocks.to_teacher)
    return E * blocks.by_teacher(v), xp.log(v) - top
