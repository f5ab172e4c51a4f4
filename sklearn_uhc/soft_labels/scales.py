"""Scales of a chunk of rows: temperature, weights of teachers, precision."""

from __future__ import annotations

import numpy as np
from array_api_compat import array_namespace, device
from numpy.typing import NDArray

from sklearn_uhc.solvers.blocks import MIN_LOG_P, Array, Blocks, softmax


def temper_rest(Q: Array, known: Array, T: float) -> Array:
    """Take soft labels whose classes that are not `known` have their probability at temperature 1 to T as a whole.

    "None of these" is as likely as its scorers say. The other classes are tempered already.
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


def of_mean_one(trust: NDArray[np.float64] | None, like: Array) -> Array | None:
    """Return the trust in every teacher, of mean 1; None: all alike."""
    if trust is None:
        return None
    w = trust / trust.max()  # a sum of very large ones would overflow
    return array_namespace(like).asarray(w / w.mean(), dtype=like.dtype, device=device(like))


def root_of(weight: Array | None, blocks: Blocks) -> Array:
    """Return the square roots of the weights, (1, N)."""
    xp = array_namespace(blocks.sizes)
    return xp.ones_like(blocks.sizes)[None, :] if weight is None else xp.sqrt(weight)[None, :]


def to_double(X: Array) -> Array:
    """Return X in double precision; as it is on devices that have none, such as Apple's MPS."""
    xp = array_namespace(X)
    if X.dtype == xp.float64:
        return X
    known = xp.__array_namespace_info__().dtypes(device=device(X), kind="real floating")
    return xp.astype(X, known["float64"], copy=False) if "float64" in known else X
