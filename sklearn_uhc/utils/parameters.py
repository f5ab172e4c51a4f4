"""Checks of parameters before anything is computed."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np

#: Maximum ratio of teacher weights; at larger ones the smallest would be lost to rounding.
MAX_WEIGHT_RATIO = 1e8


def check_positive(name: str, value: Any, integer: bool = False) -> None:
    """Raise an error if a parameter is not a positive finite number."""
    number = isinstance(value, Real) and not isinstance(value, bool) and 0 < float(value) < np.inf
    if not number or (integer and float(value) != int(value)):
        raise ValueError(f"{name} must be a positive {'integer' if integer else 'number'}, got {value!r}.")


def check_weights(weights: Any, n_teachers: int | None = None) -> None:
    """Raise an error unless these are positive finite numbers, one per teacher."""
    w = np.asarray(weights)
    numbers = w.ndim == 1 and len(w) > 0 and w.dtype.kind in "iuf"
    if not numbers or not (np.isfinite(w) & (w > 0)).all():
        raise ValueError(f"teacher_weight must be None or one positive number per teacher, got {weights!r}.")
    if w.min() < w.max() / MAX_WEIGHT_RATIO:
        raise ValueError(
            f"teacher_weight may differ by a factor of at most {MAX_WEIGHT_RATIO:.0e}, since smaller weights are lost "
            f"in rounding, got {weights!r}. Leave a teacher out instead."
        )
    if n_teachers not in (None, len(w)):
        raise ValueError(f"teacher_weight has {len(w)} numbers for {n_teachers} teachers: pass one for each.")


def check_flag(name: str, value: Any) -> None:
    """Raise an error if a parameter is neither True nor False."""
    if not isinstance(value, (bool, np.bool_)):
        raise ValueError(f"{name} must be True or False, got {value!r}.")
