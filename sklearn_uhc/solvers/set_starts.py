"""Where to begin with columns that mean sets: none of the objectives is convex, but consistent answers are a line away.

The answers p_k of teachers that share one q satisfy q(S_k) = p_k q(U_i), U_i the union of the teacher's sets: a linear
system in q, whatever the sets. Its least-squares solution is q itself where the answers agree, so it tells whether an
optimum at the edge, where a class has lost all its probability, is a bad one.
"""

from __future__ import annotations

from typing import Protocol

from array_api_compat import array_namespace, device

from sklearn_uhc.solvers.blocks import Array
from sklearn_uhc.solvers.newton import Point, solve_each
from sklearn_uhc.solvers.sets import SetBlocks

#: Least q of the linear start, relative to 1 / L.
LEAST = 1e-6
#: Added to the normal equations: what the answers leave open becomes even.
RIDGE = 1e-13


class Valued(Protocol):
    """What has an objective."""

    def at(self, x: Array) -> Point:
        """Evaluate it."""


def linear_start(Z: Array, blocks: SetBlocks) -> Array:
    """Return u = log q (n, L) at temperature 1, q the least-squares solution, for logits Z at temperature 1.

    For few classes: it takes a matrix of classes by classes for every sample.
    """
    xp, L = array_namespace(Z), blocks.n_classes
    E = xp.exp(Z)
    P = E / blocks.by_teacher(blocks.sum_teachers(E))
    # ||q(S_k) - p_k q(U_i)||^2 + ||q(group) - 1||^2; the groups' shares are the same for all.
    rows = blocks.to_class - P[:, :, None] * xp.take(blocks.M, blocks.teacher_of, axis=0)
    A = xp.matmul(xp.permute_dims(rows, (0, 2, 1)), rows)
    same = xp.astype(blocks.component_mean > 0, Z.dtype)
    A = A + same + RIDGE * xp.eye(L, dtype=Z.dtype, device=device(Z))
    q = solve_each(A, xp.ones_like(A[:, :, 0]))
    return xp.log(xp.clip(q, LEAST / L, None))


def lowest_of(problem: Valued, *starts: Array) -> Array:
    """Return, for every sample, the start (n, L) of the lowest value; the first of equals."""
    xp, best = array_namespace(starts[0]), starts[0]
    value = problem.at(best).value
    for other in starts[1:]:
        new = problem.at(other).value
        best = xp.where((new < value)[:, None], other, best)
        value = xp.minimum(new, value)
    return best
