"""Rows of any data: count them, select some, iterate over them in chunks of bounded memory."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from math import ceil
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn import get_config
from sklearn.utils.validation import _check_sample_weight, _num_samples

#: If the largest weight is in this range, sums and products of weights do not overflow or underflow.
MODERATE = 1e-100, 1e100


def count_rows(X: Any) -> int:
    """Return the number of rows; raise an error if there are none, and for dicts of inputs and streams."""
    if isinstance(X, Mapping) and not issparse(X):  # a dok matrix of scipy before 1.13 is a dict
        raise TypeError(
            f"X is a {type(X).__name__} with {sorted(map(str, X))[:8]}: only one input per row is supported. Put the "
            "inputs side by side in one array or table, and separate them in the module or the Pipeline."
        )
    if X is None:
        raise TypeError("X is None: pass the unlabelled rows, which teachers and student read.")
    _refuse_stream(X)
    n = int(_num_samples(X))
    if n == 0:
        raise ValueError(
            "X has no rows: found array with 0 sample(s) while a minimum of 1 is required. "
            "Pass at least one unlabelled row."
        )
    return n


def _refuse_stream(X: Any) -> None:
    """Raise an error for torch data without access by row number, or whose length is not the number of rows."""
    if is_loader(X):
        raise TypeError(f"X is a {type(X).__name__}, which yields batches in its own order: pass its dataset.")
    if is_dataset(X) and (_is_a(X, "torch.utils.data", "IterableDataset") or not hasattr(X, "__len__")):
        raise TypeError(
            f"X is a torch Dataset, {type(X).__name__}, without random access: teachers and student must read the same "
            "rows, by index. Add __len__ and __getitem__, or load it first: "
            "X = np.stack([np.asarray(row) for row in dataset])."
        )


def is_dataset(X: Any) -> bool:
    """Return whether X is a torch Dataset, possibly in skorch's wrapper for scikit-learn's searches."""
    return "torch" in sys.modules and (
        _is_a(X, "torch.utils.data", "Dataset") or _is_a(X, "skorch.helper", "SliceDataset")
    )


def is_loader(X: Any) -> bool:
    """Return whether X is a torch DataLoader."""
    return "torch" in sys.modules and _is_a(X, "torch.utils.data", "DataLoader")


def _is_a(X: Any, module: str, name: str) -> bool:
    loaded = sys.modules.get(module)  # if not loaded, X cannot be one
    return loaded is not None and isinstance(X, getattr(loaded, name))


def take_rows(X: Any, rows: Any) -> Any:
    """Select rows, by slice or index array, of an array, frame, sparse matrix, list or torch Dataset.

    For a Dataset, the inputs are read and stacked into an array; other parts of its items are ignored.
    """
    if is_dataset(X):
        items = [X[int(i)] for i in (range(len(X))[rows] if isinstance(rows, slice) else rows)]
        return np.stack([np.asarray(item[0] if isinstance(item, (tuple, list)) else item) for item in items])
    if hasattr(X, "iloc"):
        return X.iloc[rows]
    if hasattr(type(X), "column_names") and not isinstance(rows, slice):  # an Arrow table
        return X.take(rows)
    if issparse(X):
        return X.tocsr()[rows]
    if hasattr(X, "shape") or isinstance(rows, slice):
        return X[rows]
    return [X[i] for i in rows]


def column_names(X: Any) -> list[str] | None:
    """Return the column names of a frame (pandas, Polars, Arrow and others), or None if it has no names."""
    names = getattr(X, "column_names" if hasattr(type(X), "column_names") else "columns", None)
    if names is None or not all(isinstance(name, str) for name in names):
        return None
    return [str(name) for name in names]


def take_columns(X: Any, names: list[str]) -> Any:
    """Select columns of a frame, in this order."""
    return X.select(names) if hasattr(type(X), "select") else X[names]


def chunks(n: int, bytes_per_row: float, most: int | None = None, workers: int = 1) -> Iterator[slice]:
    """Yield slices of rows such that `bytes_per_row` times their length fits into scikit-learn's `working_memory`.

    Several `workers` get slices of the same length, and equally many if there are enough: none waits for the others.
    """
    budget = get_config()["working_memory"] * 2**20
    step = max(1, min(int(budget // max(bytes_per_row, 1)), most or n))
    if workers > 1 and n > step:
        count = ceil(n / step)
        step = ceil(n / (count if count < workers else workers * ceil(count / workers)))
    yield from (slice(start, min(start + step, n)) for start in range(0, n, step))


def some_rows(n: int, most: int | None) -> Any:
    """Return `most` of n rows, evenly spaced and including the first and last; all rows if n <= most."""
    if most is None or n <= most:
        return slice(None)
    return np.linspace(0, n - 1, int(most)).round().astype(np.int64)


def row_bytes(X: Any) -> float:
    """Return the bytes per row of X, or a guess if unknown."""
    if is_dataset(X):
        return float(take_rows(X, slice(0, 1)).nbytes)
    size = X.data.nbytes if issparse(X) else getattr(X, "nbytes", None)
    if size is None and hasattr(X, "memory_usage"):
        size = X.memory_usage(deep=False).sum()
    if size is None and hasattr(X, "estimated_size"):  # Polars
        size = X.estimated_size()
    return float(size) / max(_num_samples(X), 1) if isinstance(size, (int, np.integer)) else 1024.0


def check_row_weights(sample_weight: Any, X: Any) -> NDArray[np.float64] | None:
    """Check row weights: one per row, finite, not negative, not all zero. None stays None."""
    if sample_weight is None:
        return None
    weights: NDArray[np.float64] = _check_sample_weight(sample_weight, X, dtype=np.float64)
    if (weights < 0).any() or not weights.any():
        what = "negative values" if (weights < 0).any() else "only zeros"
        raise ValueError(f"sample_weight has {what}: weights must be at least zero, and some above zero.")
    return in_range(weights)


def in_range(weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return weights unchanged, or divided by the largest if their sums could overflow or underflow."""
    top = float(weights.max(initial=0.0))
    return weights if MODERATE[0] < top < MODERATE[1] or not 0 < top < np.inf else weights / top
