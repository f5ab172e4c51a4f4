"""Rows of probabilities that were rounded when they were written: how far their sums may be from 1.

A number with d decimals is off by half a unit of the last one at most, the sum of k such numbers by k / 2 units. The
decimals are those of the whole table: 0.5 among numbers with four decimals has four as well.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating[Any]]

#: More decimals than this are not rounded by anybody.
MOST_DECIMALS = 9
#: What sums of single precision are off by.
FLOAT_ERROR = 1e-5
#: A sum that is off by more says that something else is wrong, however few the decimals.
LARGEST = 0.5


class RoundedRows:
    """The sums of the rows of one table, chunk by chunk."""

    def __init__(self) -> None:
        self.decimals = self.n_rows = self.n_off = 0
        self.worst, self.worst_row, self.worst_values = 0.0, 0, np.zeros(0)

    def add(self, proba: Floats, precision: float) -> None:
        """Look at the next rows, whose numbers were stored with this precision; rows of NaN do not count."""
        deviation = np.nan_to_num(np.abs(proba.sum(axis=1) - 1))
        row = int(np.argmax(deviation))
        if deviation[row] > self.worst:
            self.worst, self.worst_row, self.worst_values = deviation[row], self.n_rows + row, proba[row].copy()
        self.decimals = max(self.decimals, count_decimals(proba, precision))
        self.n_off += int((deviation > FLOAT_ERROR).sum())
        self.n_rows += len(proba)

    def tolerance(self) -> float:
        """Return what rounding allows a sum to be off by. Zeros and ones alone are votes: nothing was rounded."""
        if self.decimals == 0 or self.decimals > MOST_DECIMALS:
            return FLOAT_ERROR
        units = len(self.worst_values) / 2 * (1 + 1e-6)
        return min(LARGEST, max(FLOAT_ERROR, units * 10.0**-self.decimals))


def count_decimals(values: Floats, precision: float = 0.0) -> int:
    """Return how many decimals the numbers have; one more than `MOST_DECIMALS` if they are not rounded."""
    values, tolerance = values[np.isfinite(values)], max(precision, 1e-12)
    for decimals in range(MOST_DECIMALS + 1):
        values = values[np.abs(values - values.round(decimals)) > tolerance]  # the others have no more
        if not len(values):
            return decimals
    return MOST_DECIMALS + 1
