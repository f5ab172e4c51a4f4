"""The floor of a teacher: its smallest probability, learned from its answers.

A forest, a k-NN or a tree returns exactly 0 for a class without votes, and naive Bayes returns 1e-300 where its
independence assumption is wrong. In logit space such an answer outweighs all other teachers. But small probabilities
of a network's softmax are information. So each teacher has its own floor; `docs/evidence.md` has the measurements.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sklearn_uhc.utils.rows import chunks

#: Floor of a teacher whose small probabilities are informative.
SMOOTH_FLOOR = 1e-6
#: Answers below this probability are absurd: no calibrated classifier means them.
ABSURD = 1e-20
#: A teacher is saturated if at least this share of its answers is absurd. Underflow of networks is rarer.
SATURATED_SHARE = 0.02
#: The floor of a saturated teacher with k classes is this value divided by k.
SATURATED_MASS = 0.05
#: Maximum number of rows read at a time, since answers may be on disk and larger than memory.
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
    """Raise probabilities below the floor to it, and normalise."""
    raised = np.maximum(log_p, math.log(floor))
    return raised - np.log(np.exp(raised).sum(axis=1, keepdims=True))
