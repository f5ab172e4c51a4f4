"""Dask collections as blocks of rows: checked, counted, mapped, sampled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import dask
import numpy as np
from numpy.typing import NDArray
from sklearn import config_context, get_config

from sklearn_uhc.dask.cluster import compute, send
from sklearn_uhc.dask.parcel import Parcel
from sklearn_uhc.utils.notes import add_note
from sklearn_uhc.utils.rows import take_rows

#: Assumed size of an entry of text or objects, in bytes.
OBJECT_BYTES = 64


def is_frame(X: Any) -> bool:
    """Return whether X is a Dask DataFrame or Series."""
    return hasattr(type(X), "map_partitions") and hasattr(X, "_meta")  # a Bag has map_partitions, but no _meta


def check_collection(X: Any) -> Any:
    """Return a collection whose blocks hold whole rows; raise an error if it has no rows."""
    if is_frame(X):
        return kept_apart(X)
    if not hasattr(type(X), "map_blocks"):  # test the type, since a Delayed has every attribute
        raise TypeError(
            f"X is a {type(X).__module__}.{type(X).__name__}: pass a dask.array or a dask.dataframe, such as "
            "bag.to_dataframe() or dask.array.from_delayed."
        )
    split = [axis for axis in range(1, X.ndim) if len(X.chunks[axis]) > 1]
    return X.rechunk(dict.fromkeys(split, -1)) if split else X


def kept_apart(X: Any) -> Any:
    """Return a frame whose computed partitions are those of its `npartitions`.

    If only some columns are read, Dask joins files of a Parquet folder, the more files the fewer columns. Then the
    computed blocks differ from those of X, and two columns of one folder can have different blocks.
    """
    if X.map_partitions(_itself, meta=X._meta).optimize(fuse=False).npartitions == X.npartitions:
        return X
    from dask.dataframe import from_delayed

    return from_delayed(delayed_blocks(X), meta=X._meta, divisions=X.divisions, verify_meta=False)


def _itself(block: Any) -> Any:
    return block


def example_of(X: Any) -> Any:
    """Return one or two rows in memory with the columns and types of X and made-up values."""
    if is_frame(X):
        return X._meta_nonempty
    return np.zeros((1, *X.shape[1:]), dtype=X.dtype)


def n_blocks(X: Any) -> int:
    """Return the number of blocks."""
    return X.npartitions if is_frame(X) else len(X.chunks[0])


def delayed_blocks(X: Any) -> list[Any]:
    """Return the blocks as delayed arrays or frames, one for each block of X (see `kept_apart`)."""
    if is_frame(X):
        return list(X.simplify().to_delayed(optimize_graph=False))
    return list(np.ravel(X.to_delayed()))


def rows_per_block(X: Any) -> NDArray[np.int_]:
    """Return the number of rows of each block; if unknown, one column is read to count them."""
    if not is_frame(X) and not np.isnan(X.chunks[0]).any():
        return np.asarray(X.chunks[0], dtype=int)
    if is_frame(X) and getattr(X, "ndim", 1) == 2:
        X = X[list(X.columns[:1])]
    return np.asarray(compute([dask.delayed(len)(block) for block in delayed_blocks(X)]), dtype=int)


def row_bytes(X: Any) -> float:
    """Return the approximate number of bytes per row."""
    if not is_frame(X):
        return float(max(X.dtype.itemsize, OBJECT_BYTES if X.dtype.hasobject else 1) * np.prod(X.shape[1:]))
    dtypes = X.dtypes.tolist() if getattr(X, "ndim", 1) == 2 else [X.dtype]
    return float(sum(d.itemsize if isinstance(d, np.dtype) and not d.hasobject else OBJECT_BYTES for d in dtypes))


def take(X: Any, lengths: NDArray[np.int_], rows: NDArray[np.int_]) -> Any:
    """Return the rows with these sorted row numbers, in memory."""
    ends = np.cumsum(lengths)
    cuts = np.searchsorted(rows, np.concatenate([[0], ends]))
    parts = []
    for i, block in enumerate(delayed_blocks(X)):
        wanted = rows[cuts[i] : cuts[i + 1]] - (ends[i] - lengths[i])
        if len(wanted):
            parts.append(dask.delayed(_rows)(block, wanted, int(lengths[i])))
    return stacked(compute(parts))


def _rows(block: Any, rows: NDArray[np.int_], length: int) -> Any:
    if len(block) != length:
        raise ValueError(f"A block of X had {length} rows and now has {len(block)}: it must be the same every time.")
    return block if len(rows) == length else take_rows(block, rows)


def stacked(parts: list[Any]) -> Any:
    """Concatenate arrays or frames along the rows."""
    if not hasattr(parts[0], "iloc"):
        return np.concatenate(parts)
    import pandas

    return pandas.concat(parts)


def map_rows(estimator: Any, method: str, X: Any, empty: NDArray[Any], names: Any = None) -> Any:
    """Apply a method of an estimator to every block of X, lazily.

    `empty` is an array without rows that has the shape and type of the result. For a frame the result is a frame with
    the columns `names` and the index of X, or a series of that name; for an array it is an array.
    """
    X = check_collection(X)
    ask = {"sent": send(estimator), "method": method, "empty": empty, "names": names, "config": worker_config()}
    name = f"uhc-{method}"
    if is_frame(X):
        meta = as_frame(empty, X._meta, names)
        return X.map_partitions(on_partition, **ask, meta=meta, enforce_metadata=False, token=name)
    chunks = (X.chunks[0], *((width,) for width in empty.shape[1:]))
    new_axis = list(range(1, empty.ndim)) or None
    dropped = list(range(1, X.ndim)) or None
    return X.map_blocks(
        on_block, **ask, drop_axis=dropped, new_axis=new_axis, chunks=chunks, dtype=empty.dtype, meta=empty, name=None,
        token=name,
    )  # fmt: skip


def on_block(
    block: Any, sent: Parcel, method: str, empty: Any, names: Any, config: dict[str, Any], block_info: Any = None
) -> NDArray[Any]:
    """Apply a method to a block of an array."""
    number = None if not block_info else block_info[0]["chunk-location"][0]
    return ask_about(sent.value, method, block, empty, number, config)


def on_partition(
    block: Any, sent: Parcel, method: str, empty: Any, names: Any, config: dict[str, Any], partition_info: Any = None
) -> Any:
    """Apply a method to a partition of a frame."""
    number = None if not partition_info else partition_info["number"]
    return as_frame(ask_about(sent.value, method, block, empty, number, config), block, names)


def ask_about(
    estimator: Any, method: str, block: Any, empty: NDArray[Any], number: int | None, config: dict[str, Any]
) -> NDArray[Any]:
    """Apply a method to a block, which may be empty; a note on errors names the block."""
    if len(block) == 0:
        return empty
    with named_block(number, block), config_context(**config):
        return np.asarray(getattr(estimator, method)(block)).astype(empty.dtype, copy=False)


class named_block:
    """A context manager that adds the number of the block to errors."""

    def __init__(self, number: int | None, block: Any) -> None:
        self.note = f"This came from block {number} of X, which has {len(block)} rows."

    def __enter__(self) -> None:
        """Do nothing."""

    def __exit__(self, kind: Any, error: BaseException | None, traceback: Any) -> None:
        """Add the note."""
        if error is not None:
            add_note(error, self.note)


def as_frame(values: NDArray[Any], like: Any, names: Any) -> Any:
    """Return values with the index of `like`: a frame with the columns `names`, or a series of that name."""
    import pandas

    index = like.index if len(values) else like.index[:0]
    if values.ndim == 1:
        return pandas.Series(values, index=index, name=names)
    return pandas.DataFrame(values, index=index, columns=list(names))


def worker_config() -> dict[str, Any]:
    """Return scikit-learn's settings for the workers, with arrays as the output of `transform`."""
    return {**get_config(), "transform_output": "default"}


def per_block(task: Callable[..., Any], name: str, blocks: list[Any], *columns: list[Any], **kwargs: Any) -> list[Any]:
    """Return delayed calls of a function, one per block; the name of each task ends in the number of its block."""
    call, token = dask.delayed(task, pure=False), dask.base.tokenize(blocks, columns, kwargs)
    return [
        call(*each, **kwargs, dask_key_name=f"uhc-{name}-{token}-block-{i}")
        for i, each in enumerate(zip(blocks, *columns, strict=True))
    ]
