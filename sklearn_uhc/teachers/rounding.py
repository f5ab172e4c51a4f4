"""Rows of probabilities that were rounded when written: how far their sums may be from 1.

A number with d decimals is off by at most half a unit of the last one, and a sum of k such numbers by at most k / 2
units. d is the largest number of decimals in the table: 0.5 among numbers with four decimals has four as well.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating[Any]]

#: Numbers with more decimals are not considered rounded.
MOST_DECIMALS = 9
#: Error of sums in single precision.
FLOAT_ERROR = 1e-5
#: A larger deviation is always an error, however few the decimals.
LARGEST = 0.5


class RoundedRows:
    """Sums of the rows of a table, collected chunk by chunk."""

    def __init__(self) -> None:
        self.decimals = self.n_rows = self.n_off = 0
        self.worst, self.worst_row, self.worst_values = 0.0, 0, np.zeros(0)

    def add(self, proba: Floats, precision: float) -> None:
        """Add the next rows, whose values have this precision; rows of NaN are ignored."""
        deviation = np.nan_to_num(np.abs(proba.sum(axis=1) - 1))
        row = int(np.argmax(deviation))
        if deviation[row] > self.worst:
            self.worst, self.worst_row, self.worst_values = deviation[row], self.n_rows + row, proba[row].copy()
        self.decimals = max(self.decimals, count_decimals(proba, precision))
        self.n_off += int((deviation > FLOAT_ERROR).sum())
        self.n_rows += len(proba)

    def tolerance(self) -> float:
        """Return the largest deviation that rounding explains; if all values are integers, nothing was rounded."""
        if self.decimals == 0 or self.decimals > MOST_DECIMALS:
            return FLOAT_ERROR
        units = len(self.worst_values) / 2 * (1 + 1e-6)
        return min(LARGEST, max(FLOAT_ERROR, units * 10.0**-self.decimals))


def count_decimals(values: Floats, precision: float = 0.0) -> int:
    """Return the number of decimals, or `MOST_DECIMALS` + 1 if the numbers are not rounded."""
    values, tolerance = values[np.isfinite(values)], max(precision, 1e-12)
    for decimals in range(MOST_DECIMALS + 1):
        values = values[np.abs(values - values.round(decimals)) > tolerance]  # the others have no more decimals
        if not len(values):
            return decimals
    return MOST_DECIMALS + 1
