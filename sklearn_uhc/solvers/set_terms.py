"""The objectives of CE, MF-LF and MF-P as functions of the columns' logits phi, teacher by teacher.

CE      sum_i w_i [ log sum_k exp(phi_k) - sum_k p_k phi_k ]                        p, z: tempered answers
MF-LF   1/2 sum_i w_i sum_k (z_k - c_i - phi_k)^2,               c_i at its best
MF-P    1/2 sum_i w_i sum_k (p_k - v_i exp(phi_k))^2,            v_i >= 0 at its best

A shift per teacher changes nothing. Before exp(), the largest is subtracted: if all classes of a teacher vanish, they
still compare with each other.
If all columns are single classes, phi = u and these are the objectives of the plain solvers. The Hessian by phi is
always diag(h) - sum_i c_i a_i a_i', with a_i on the columns of teacher i.
"""

from __future__ import annotations

from typing import NamedTuple

from array_api_compat import array_namespace

from sklearn_uhc.solvers.blocks import Array
from sklearn_uhc.solvers.incidence import at_least
from sklearn_uhc.solvers.sets import SetBlocks


class Bend(NamedTuple):
    """Second derivatives by phi: diag(h) - sum_i c_i a_i a_i'."""

    h: Array  #: (n, K)
    a: Array  #: (n, K)
    c: Array  #: (n, N)
    size: Array  #: (n, K), nonnegative: the scale of every column


def below_largest(phi: Array, blocks: SetBlocks) -> Array:
    """(n, K), logits relative to the largest of the same teacher."""
    return phi - blocks.by_teacher(blocks.largest(phi))


def cross_entropy(phi: Array, P: Array, w: Array, blocks: SetBlocks) -> tuple[Array, Array]:
    """Value (n,) and derivative by phi (n, K) of CE."""
    xp, phi = array_namespace(phi), below_largest(phi, blocks)
    E = xp.exp(phi)
    total = blocks.sum_teachers(E)
    wk = blocks.by_teacher(w[None, :])
    value = xp.log(total) @ w - xp.sum(wk * P * phi, axis=1)
    return value, wk * (E / blocks.by_teacher(total) - P)


def bend_cross_entropy(phi: Array, P: Array, w: Array, blocks: SetBlocks, near: Array) -> Bend:
    """Second derivatives of CE."""
    E = array_namespace(phi).exp(below_largest(phi, blocks))
    s = E / blocks.by_teacher(blocks.sum_teachers(E))
    h = blocks.by_teacher(w[None, :]) * s
    return Bend(h, s, w + 0 * blocks.sum_teachers(s), h)


def logit_error(phi: Array, Z: Array, w: Array, blocks: SetBlocks) -> tuple[Array, Array]:
    """Value (n,) and derivative by phi (n, K) of MF-LF."""
    error = blocks.center(Z - phi)
    weighted = blocks.by_teacher(w[None, :]) * error
    return 0.5 * array_namespace(phi).sum(weighted * error, axis=1), -weighted


def bend_logit_error(phi: Array, Z: Array, w: Array, blocks: SetBlocks, near: Array) -> Bend:
    """Second derivatives of MF-LF."""
    ones = array_namespace(phi).ones_like(phi)
    h = blocks.by_teacher(w[None, :]) * ones
    return Bend(h, ones, (w / blocks.sizes) + 0 * blocks.sum_teachers(phi), h)


def best_scale(P: Array, E: Array, blocks: SetBlocks) -> Array:
    """(n, N): v of MF-P given exp(phi)."""
    xp = array_namespace(P)
    below = at_least(blocks.sum_teachers(E * E), float(xp.finfo(P.dtype).tiny))
    return blocks.sum_teachers(P * E) / below


def probability_error(phi: Array, P: Array, w: Array, blocks: SetBlocks) -> tuple[Array, Array]:
    """Value (n,) and derivative by phi (n, K) of MF-P."""
    E, wk = array_namespace(phi).exp(below_largest(phi, blocks)), blocks.by_teacher(w[None, :])
    Y = E * blocks.by_teacher(best_scale(P, E, blocks))
    return 0.5 * array_namespace(phi).sum(wk * (P - Y) ** 2, axis=1), -wk * Y * (P - Y)


def bend_probability_error(phi: Array, P: Array, w: Array, blocks: SetBlocks, near: Array) -> Bend:
    """Return second derivatives of MF-P, with log v eliminated. Far from the optimum, those of Gauss-Newton."""
    xp = array_namespace(phi)
    E, wk = xp.exp(below_largest(phi, blocks)), blocks.by_teacher(w[None, :])
    Y = E * blocks.by_teacher(best_scale(P, E, blocks))
    size = wk * Y * Y
    h = xp.where(near, wk * Y * (2 * Y - P), size)
    return Bend(h, h, 1 / at_least(blocks.sum_teachers(size), 1e-200), size)
