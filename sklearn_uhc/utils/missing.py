"""Missing values of all kinds."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray


def is_missing(array: NDArray[Any]) -> NDArray[np.bool_]:
    """Return where an array has NaN, None, or pandas' NA if pandas is loaded."""
    pandas = sys.modules.get("pandas")
    missing = pandas.isna(array) if pandas is not None else (array != array) | (array == np.array(None))
    return np.asarray(missing, dtype=bool)
