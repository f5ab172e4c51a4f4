"""The rows that `fit` looks at before it asks anybody about all of them: evenly spaced over the whole collection."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sklearn_uhc.dask.blocks import check_collection, example_of, is_frame, row_bytes, rows_per_block, take
from sklearn_uhc.utils.rows import some_rows

#: Rows that temperatures are learnt from, if a calibrator does not say.
LEARNT_FROM = 5_000
#: Rows that floors, warnings and diagnostics are learnt from, for each of these.
TIMES = 4
#: The sample takes no more memory than this.
BUDGET = 2**28


def sample(X: Any, most: int | None = None) -> tuple[Any, NDArray[np.int_]]:
    """Return some rows of X in memory, and the lengths of its blocks.

    If a step learns from `most` evenly spaced rows of all, it finds the very same ones among these: their number, less
    one, is a multiple of most - 1. So what is learnt is what would have been learnt in memory.
    """
    whole = check_collection(X)
    lengths = rows_per_block(X if is_frame(X) else whole)  # of X as it came, a single column can be read
    n, most = int(lengths.sum()), LEARNT_FROM if most is None else max(2, int(most))
    if n == 0:
        raise ValueError("X has no rows: pass at least one unlabelled row.")
    affordable = max(2, int(BUDGET // max(row_bytes(X), 1.0)))
    times = int(np.clip((affordable - 1) // (most - 1), 1, TIMES))
    rows = some_rows(n, min(times * (most - 1) + 1, max(affordable, most)))
    return take(whole, lengths, np.arange(n) if isinstance(rows, slice) else rows), lengths


def rows_of_calibrator(calibrate: Any) -> int | None:
    """Return how many rows the calibration of a merge looks at; None if it does not say."""
    return getattr(calibrate, "max_samples", None)


def check_columns(estimator: Any, X: Any, check: Any) -> None:
    """Raise if X has other columns than in `fit`, before any block is computed; `check` is of X in memory."""
    check(estimator, example_of(check_collection(X)), reset=False)
