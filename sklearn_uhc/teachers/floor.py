"""The smallest probability that a teacher is taken to mean, learnt from its answers.

A forest, a k-NN or a tree says exactly 0 where it has counted no vote, naive Bayes says 1e-300 where it multiplied
what it should not have, and in logit space such an answer outvotes everybody. The tail of a network's softmax is
information. So the floor is decided per teacher; `docs/floor.md` has the measurements behind the numbers.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sklearn_uhc.utils.rows import chunks

#: Floor of a teacher whose small values mean something.
SMOOTH_FLOOR = 1e-6
#: No calibrated classifier means a probability below this one.
ABSURD = 1e-20
#: A teacher is saturated if at least this share of its answers is absurd; the underflow of a network is rarer.
SATURATED_SHARE = 0.02
#: The k classes of a saturated teacher share this much probability, whatever it says.
SATURATED_MASS = 0.05
#: Rows that are looked at together: answers may be on disk, and more than the memory holds.
ROWS = 4096


def learn_floor(log_p: NDArray[np.floating[Any]]) -> float:
    """Choose the floor of one teacher from its (n, k) log-probabilities."""
    answered = absurd = 0
    for rows in chunks(len(log_p), 10 * log_p.shape[1], ROWS):
        part = log_p[rows]
        answered += int(np.count_nonzero(~np.isnan(part)))
        absurd += int(np.count_nonzero(part < math.log(ABSURD)))
    saturated = answered > 0 and absurd / answered >= SATURATED_SHARE
    return SATURATED_MASS / log_p.shape[1] if saturated else SMOOTH_FLOOR


def apply_floor(log_p: NDArray[np.floating[Any]], floor: float) -> NDArray[np.floating[Any]]:
    """Raise probabilities below the floor to it and normalise again."""
    raised = np.maximum(log_p, math.log(floor))
    return raised - np.log(np.exp(raised).sum(axis=1, keepdims=True))
