"""MF-LF: matrix factorization in logit space with v fixed to one, in closed form.

    min over u of  sum_i || C_i (z_i - S_i u) ||^2,      C_i = I - 11'/k_i removes the mean

S_i picks the classes of teacher i. With a shift c_i per teacher this is z_il = u_l + c_i with missing cells, a two-way
analysis of variance. Eliminating the classes leaves one unknown per teacher,

    (diag(w k) - M_w D^-1 M_w') c = w r - M_w D^-1 b,      u = D^-1 (b - M_w' c)

with weights w_i of the squared norms, M_w = diag(w) M, D = diag(M' w), and b and r the sums of w z over the teachers
that know a class and of z over a list. The matrix is the same for all samples. Its null space has the indicators of the
groups of teachers linked by shared classes, since c can be shifted there against u; every group gets mean logit 0.
"""

from __future__ import annotations

from typing import NamedTuple

from sklearn_uhc.solvers.blocks import Bend, Blocks
from sklearn_uhc.solvers.incidence import Array, array_namespace
from sklearn_uhc.solvers.newton import add_diagonal
from sklearn_uhc.solvers.plain_blocks import PlainBlocks


class LogitError:
    """MF-LF for any kind of columns, as a function of phi: 1/2 sum_i w_i sum_k (z_k - c_i - phi_k)^2, c_i at its best.

    `class_fit.py` minimises it if columns stand for sets.
    """

    @staticmethod
    def at(phi: Array, Z: Array, w: Array, blocks: Blocks) -> tuple[Array, Array]:
        """Return the value (n,) and its derivative by phi, - w_i C_i (z - phi), (n, K)."""
        error = blocks.center(Z - phi)
        weighted = blocks.by_teacher(w) * error
        return 0.5 * array_namespace(phi).sum(weighted * error, axis=1), -weighted

    @staticmethod
    def curvature(phi: Array, Z: Array, w: Array, blocks: Blocks, near: Array) -> Bend:
        """Return w_i C_i for every teacher."""
        ones = array_namespace(phi).ones_like(phi)
        h = blocks.by_teacher(w) * ones
        return Bend(h, ones, w / blocks.sizes + 0 * phi[:, :1], h)


class LogitAverage(NamedTuple):
    """Shared by all samples."""

    blocks: PlainBlocks
    w: Array  #: (1, N)
    D: Array  #: (1, L), sum of the weights of the teachers that know a class
    inverse: Array  #: (N, N), maps the right-hand side to c

    @classmethod
    def of(cls, blocks: PlainBlocks, weight: Array | None = None) -> LogitAverage:
        """Prepare the class lists of `blocks` with a weight (N,) per teacher."""
        xp = array_namespace(blocks.sizes)
        if weight is None:
            average: LogitAverage = blocks.once("mf_lf", lambda: cls.of(blocks, xp.ones_like(blocks.sizes)))
            return average
        w = weight[None, :]
        D = blocks.sum_owners(w)
        core = system(blocks, w, D)
        # The right-hand side is orthogonal to the null space: filling it, in the matrix's own scale, makes the matrix
        # invertible and changes nothing else.
        return cls(blocks, w, D, xp.linalg.inv(core + xp.max(w * blocks.sizes) * blocks.teacher_component_mean))

    def solve(self, Z: Array) -> tuple[Array, Array]:
        """Return u (n, L) for logits Z (n, K), and the largest entry per sample of the gradient: the certificate."""
        xp, blocks, w = array_namespace(Z), self.blocks, self.w
        weighted = Z if bool(xp.all(w == 1)) else Z * blocks.by_teacher(w)
        b, r = blocks.sum_classes(weighted), blocks.sum_teachers(Z)
        c = (w * (r - blocks.sum_lists(b / self.D))) @ self.inverse
        U = (b - blocks.sum_owners(w * c)) / self.D
        U -= blocks.group_means(U)
        # By class: sum_i w_i of the error, minus its mean over the list of teacher i.
        means = (blocks.sum_lists(U) - r) / blocks.sizes
        error = self.D * U
        error -= b
        error -= blocks.sum_owners(w * means)
        return U, xp.maximum(xp.max(error, axis=1), -xp.min(error, axis=1))


def system(blocks: PlainBlocks, w: Array, D: Array) -> Array:
    """Return diag(w k) - M_w D^-1 M_w', (N, N)."""
    core = -blocks.pairs.sums(1 / D) * (w[:, :, None] * w[:, None, :])
    add_diagonal(core, w * blocks.sizes)
    return core[0]


def agreement(P: Array, blocks: PlainBlocks) -> tuple[Array, Array]:
    """Return the answers that q of MF-LF implies, (n, K), and log v, (n, N), with v_i = w_i / q(L_i).

    P (n, K) is positive and its blocks sum to w_i. If teachers agree, these are their own answers. Computed in
    logarithms, since exp() could overflow.
    """
    xp = array_namespace(P)
    u = blocks.by_class(LogitAverage.of(blocks).solve(xp.log(P))[0])
    top = blocks.largest(u)
    E = xp.exp(u - blocks.by_teacher(top))
    v = blocks.sum_teachers(P) / blocks.sum_teachers(E)
    return E * blocks.by_teacher(v), xp.log(v) - top
