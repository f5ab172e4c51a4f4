"""Arrays that may be larger than the memory, and errors of the disk that name the folder."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import chain
from mmap import mmap
from typing import Any

import numpy as np
from numpy.typing import NDArray


def stack(blocks: Iterable[NDArray[Any]], n_rows: int, folder: str | os.PathLike[str] | None) -> NDArray[Any]:
    """Concatenate blocks of rows: in memory, or in a memory-mapped file without a name in the folder."""
    first = next(blocks := iter(blocks))
    if folder is None:
        out, start = np.empty((n_rows, first.shape[1]), first.dtype), 0
        for block in chain([first], blocks):
            out[start : start + len(block)] = block
            start += len(block)
        return out
    with _nameless_file(folder) as file:
        for block in chain([first], blocks):
            with say_where(folder):
                _write(file, np.ascontiguousarray(block, first.dtype))
        return np.ndarray((n_rows, first.shape[1]), first.dtype, mmap(file.fileno(), 0))


def _nameless_file(folder: str | os.PathLike[str]) -> Any:
    """Open a file that is not visible to others and is deleted when it is closed."""
    with say_where(folder):
        return tempfile.TemporaryFile(dir=folder, buffering=0)


def _write(file: Any, values: NDArray[Any]) -> None:
    """Write an array to an unbuffered file, so that a full disk is reported here and not again on closing."""
    rest = values.data.cast("B")
    while rest:
        rest = rest[file.write(rest) :]


@contextmanager
def say_where(folder: str | os.PathLike[str]) -> Iterator[None]:
    """Turn errors of the disk into errors that name the store and say that nothing is lost."""
    try:
        yield
    except OSError as error:
        raise OSError(
            error.errno,
            f"{error.strerror or error}: answers could not be written to the store. Those already stored are kept: "
            "free some space, or repair the folder, and run again to resume. The folder is",
            os.fspath(folder),
        ) from error
