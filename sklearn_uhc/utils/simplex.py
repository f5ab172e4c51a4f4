"""Probabilities at other temperatures."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax


def sharpen(P: NDArray[Any], temperature: float) -> NDArray[np.float64]:
    """Raise probabilities to the power of the temperature and normalise: soft labels at T become those at 1."""
    P = np.asarray(P, dtype=float)
    if temperature == 1:
        return P
    with np.errstate(divide="ignore"):
        log_p = np.log(P)
    sharpened: NDArray[np.float64] = softmax(temperature * log_p, axis=1)
    return sharpened
