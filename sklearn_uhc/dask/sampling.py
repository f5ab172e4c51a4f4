"""The sample that `fit` learns from before teachers are called on all rows: evenly spaced rows of the collection."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sklearn_uhc.dask.blocks import check_collection, example_of, is_frame, row_bytes, rows_per_block, take
from sklearn_uhc.utils.rows import some_rows

#: Number of rows from which temperatures are learned, if the calibrator does not define it.
LEARNT_FROM = 5_000
#: The sample, from which floors, warnings and diagnostics are learned too, has up to this many times as many rows.
TIMES = 4
#: Maximum size of the sample, in bytes.
BUDGET = 2**28


def sample(X: Any, most: int | None = None) -> tuple[Any, NDArray[np.int_]]:
    """Return some rows of X in memory, and the number of rows of each block.

    If a step learns from `most` evenly spaced rows of all rows, it selects the same rows from this sample: the size of
    the sample minus 1 is a multiple of most - 1. So the result is the same as in memory.
    """
    whole = check_collection(X)
    lengths = rows_per_block(X if is_frame(X) else whole)  # for X as passed, reading a single column is enough
    n, most = int(lengths.sum()), LEARNT_FROM if most is None else max(2, int(most))
    if n == 0:
        raise ValueError("X has no rows: pass at least one unlabelled row.")
    affordable = max(2, int(BUDGET // max(row_bytes(X), 1.0)))
    times = int(np.clip((affordable - 1) // (most - 1), 1, TIMES))
    rows = some_rows(n, min(times * (most - 1) + 1, max(affordable, most)))
    return take(whole, lengths, np.arange(n) if isinstance(rows, slice) else rows), lengths


def rows_of_calibrator(calibrate: Any) -> int | None:
    """Return the number of rows that the calibrator of a merge uses, or None if it does not define it."""
    return getattr(calibrate, "max_samples", None)


def check_columns(estimator: Any, X: Any, check: Any) -> None:
    """Raise an error if X has other columns than in `fit`, before any block is computed; `check` takes X in memory."""
    check(estimator, example_of(check_collection(X)), reset=False)
