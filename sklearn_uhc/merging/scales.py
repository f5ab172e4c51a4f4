"""Scaling of a chunk of rows: temperature, teacher weights, precision."""

from __future__ import annotations

import numpy as np
from array_api_compat import array_namespace, device
from numpy.typing import NDArray

from sklearn_uhc.solvers.blocks import MIN_LOG_P, Blocks, softmax
from sklearn_uhc.solvers.incidence import Array


def temper_rest(Q: Array, known: Array, T: float) -> Array:
    """Return soft labels at temperature T, if only the `known` classes are tempered in Q.

    The probability of the others ("none of these") is at temperature 1, as their scorers define it. So the known
    classes are taken back to temperature 1, and then all classes are tempered.
    """
    xp = array_namespace(Q)
    log_q = xp.log(xp.clip(Q, float(np.exp(MIN_LOG_P)), None))
    zero, low = xp.zeros_like(Q), xp.full_like(Q, -xp.inf)
    rest = xp.sum(xp.where(known, zero, Q), axis=1, keepdims=True)
    top = xp.max(xp.where(known, log_q, low), axis=1, keepdims=True)
    sharp = xp.where(known, T * (log_q - top), low)
    total = xp.log(xp.sum(xp.exp(sharp), axis=1, keepdims=True))
    share = xp.log(xp.clip(1 - rest, float(np.exp(MIN_LOG_P)), None))
    return softmax(xp.where(known, sharp - total + share, log_q) / T)


def of_mean_one(teacher_weight: NDArray[np.float64] | None, like: Array) -> Array | None:
    """Return the teacher weights scaled to mean 1, or None for equal weights."""
    if teacher_weight is None:
        return None
    w = teacher_weight / teacher_weight.max()  # a sum of very large weights would overflow
    return array_namespace(like).asarray(w / w.mean(), dtype=like.dtype, device=device(like))


def root_of(weight: Array | None, blocks: Blocks) -> Array:
    """Return the square roots of the weights, (1, N)."""
    xp = array_namespace(blocks.sizes)
    return xp.ones_like(blocks.sizes)[None, :] if weight is None else xp.sqrt(weight)[None, :]


def to_double(X: Array) -> Array:
    """Return X in double precision, or unchanged on devices without it, such as Apple's MPS."""
    xp = array_namespace(X)
    if X.dtype == xp.float64:
        return X
    known = xp.__array_namespace_info__().dtypes(device=device(X), kind="real floating")
    return xp.astype(X, known["float64"], copy=False) if "float64" in known else X
