"""The smallest probability that a teacher is taken to mean, learnt from its answers.

A forest, a k-NN or a tree says exactly 0 where it has counted no vote, and in logit space such a zero outvotes
everybody. The tail of a network's softmax is information. So the floor is decided per teacher.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

#: Floor of a teacher whose small values mean something.
SMOOTH_FLOOR = 1e-6
#: A teacher that counts votes has exact zeros in at least this share of its answers; underflow is rarer.
ZERO_SHARE = 0.02
#: Half a vote, kept within these bounds.
COUNT_FLOOR = (0.01, 0.1)


def learn_floor(log_p: NDArray[np.floating[Any]]) -> float:
    """Choose the floor of one teacher from its (n, k) log-probabilities."""
    zero = np.isneginf(log_p)
    k = log_p.shape[1]
    if k == 1 or zero.mean() < ZERO_SHARE:
        return SMOOTH_FLOOR
    smallest = float(np.exp(log_p[~zero].min()))
    # k floors together must stay well below 1, or they would drown what the teacher does say.
    return min(float(np.clip(smallest / 2, *COUNT_FLOOR)), 0.5 / k)


def apply_floor(log_p: NDArray[np.floating[Any]], floor: float) -> NDArray[np.floating[Any]]:
    """Raise probabilities below the floor to it and normalise again."""
    raised = np.maximum(log_p, np.log(floor))
    return raised - np.log(np.exp(raised).sum(axis=1, keepdims=True))
