"""Starts for columns that stand for sets: no objective is convex, but consistent answers solve a linear system.

The answers p_k of teachers that share one q satisfy q(S_k) = p_k q(U_i), with U_i the union of the teacher's sets: a
linear system in q, whatever the sets. Its least-squares solution is q itself if the answers agree. So it shows whether
an optimum at the boundary, where a class has lost all its probability, is a bad one.
"""

from __future__ import annotations

from typing import Protocol

from array_api_compat import array_namespace, device

from sklearn_uhc.solvers.blocks import Array
from sklearn_uhc.solvers.newton import Point, solve_each
from sklearn_uhc.solvers.sets import SetBlocks

#: Smallest q of the linear start, relative to 1 / L.
LEAST = 1e-6
#: Added to the normal equations, so that what answers leave undetermined becomes even.
RIDGE = 1e-13


class Valued(Protocol):
    """An object with an objective."""

    def at(self, x: Array) -> Point:
        """Evaluate it."""


def linear_start(Z: Array, blocks: SetBlocks) -> Array:
    """Return u = log q (n, L) at temperature 1, q the least-squares solution, for logits Z at temperature 1.

    For few classes: it takes a matrix of classes by classes for every sample.
    """
    xp, L = array_namespace(Z), blocks.n_classes
    E = xp.exp(blocks.shift(Z))
    P = E / blocks.by_teacher(blocks.sum_teachers(E))
    # ||q(S_k) - p_k q(U_i)||^2 + ||q(group) - 1||^2; all groups get the same probability. With m_k and M_i the members
    # of S_k and U_i, teacher i adds  sum_k m_k m_k' - a_i M_i' - M_i a_i' + ||p_i||^2 M_i M_i',  a_i = sum_k p_k m_k.
    spread = blocks.cells(P) - 0.5 * blocks.sum_teachers(P * P)[:, :, None] * blocks.M
    crossed = xp.matmul(xp.permute_dims(spread, (0, 2, 1)), blocks.M)
    A = blocks.to_class.T @ blocks.to_class - crossed - xp.permute_dims(crossed, (0, 2, 1))
    same = xp.astype(blocks.component_mean > 0, Z.dtype)
    A = A + same + RIDGE * xp.eye(L, dtype=Z.dtype, device=device(Z))
    q = solve_each(A, xp.ones_like(A[:, :, 0]))
    return xp.log(xp.clip(q, LEAST / L, None))


def lowest_of(problem: Valued, *starts: Array) -> Array:
    """Return, for every sample, the start (n, L) with the lowest value; in a tie, the first."""
    xp, best = array_namespace(starts[0]), starts[0]
    value = problem.at(best).value
    for other in starts[1:]:
        new = problem.at(other).value
        best = xp.where((new < value)[:, None], other, best)
        value = xp.minimum(new, value)
    return best
