"""Answers of teachers on disk: files that are whole or not there, so that any number of readers may share a folder.

A file holds one teacher's answers for a chunk of rows. Its name is `<teacher>-<data>-<first>-<stop>.npy`, with a hash
of the teacher and one of the data. It is written under a name of its own and then renamed: nobody sees half a file,
those who write at the same time write the same, and an interrupted reading goes on after its last chunk. It is an
ordinary `.npy` file with a checksum at its end. A file that is not exactly what would have been written is not used,
and its rows are read anew.

No file that others can change is ever memory-mapped: a file that shrinks while it is mapped kills the process.
"""

from __future__ import annotations

import io
import os
import secrets
import stat
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from hashlib import blake2b
from itertools import chain
from mmap import mmap
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sklearn_uhc.utils.notes import warn_user

#: Bytes of the checksum at the end of a file.
CHECKSUM = 20
#: How answers may be stored; the size of a file tells which it is.
DTYPES = [np.dtype(f"<f{size}") for size in (2, 4, 8)]
#: Do not follow symlinks and do not wait for pipes, where the system can be told so.
AS_IT_IS = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)


class AnswerStore:
    """The log-probabilities of one teacher for rows of X, in a folder."""

    def __init__(self, folder: str | os.PathLike[str], key: str, n_classes: int) -> None:
        self.folder, self.key, self.n_classes = Path(folder), key, n_classes
        self.not_used: list[str] = []
        with _say_where(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)

    def load(self, rows: slice) -> NDArray[Any] | None:
        """Return the answers for a chunk; None if they are not there, or not as they were written."""
        name, shape = self._name(rows), (rows.stop - rows.start, self.n_classes)
        n_values = shape[0] * shape[1]
        heads = [_header(dtype, shape) for dtype in DTYPES]
        sizes = [len(head) + dtype.itemsize * n_values for head, dtype in zip(heads, DTYPES, strict=True)]
        content = _read(self.folder / name, [size + CHECKSUM for size in sizes])
        if content is None:
            return None
        for head, size, dtype in zip(heads, sizes, DTYPES, strict=True):
            values = memoryview(content)[len(head) : size]
            if content[size:] == _checksum(name, head, values) and content.startswith(head):
                return np.frombuffer(values, dtype).reshape(shape)
        self.not_used.append(name)
        return None

    def save(self, rows: slice, answer: NDArray[np.floating[Any]]) -> NDArray[Any]:
        """Put the answers for a chunk into the folder, where they survive whatever happens next; return what is stored.

        There is no fsync: what a power failure leaves of a file does not have its checksum.
        """
        name = self._name(rows)
        values = np.ascontiguousarray(answer, dtype=f"<f{min(answer.dtype.itemsize, 8)}")
        head = _header(values.dtype, values.shape)
        own = self.folder / f"{name}.{secrets.token_hex(8)}.part"
        with _say_where(self.folder):
            try:
                with open(own, "xb") as file:  # new, so never through a symlink
                    file.writelines([head, values.data, _checksum(name, head, values.data)])
                self._publish(own, rows)
            finally:
                own.unlink(missing_ok=True)
        return values

    def warn_of_files_not_used(self, reader: str) -> None:
        """Say which files were not believed, once they are replaced."""
        if self.not_used:
            warn_user(
                f"{len(self.not_used)} files in the store {str(self.folder)!r} had changed since they were written "
                f"(truncated, modified or foreign), so {reader} was called again and they were replaced: "
                f"{', '.join(self.not_used[:3])}{', ...' if len(self.not_used) > 3 else ''}."
            )

    def _name(self, rows: slice) -> str:
        return f"{self.key}-{rows.start}-{rows.stop}.npy"

    def _publish(self, own: Path, rows: slice) -> None:
        """Rename a finished file. Windows refuses while somebody reads the one that is there: it is as good."""
        try:
            own.replace(self.folder / self._name(rows))
        except PermissionError:
            if self.load(rows) is None:
                raise


def stack(blocks: Iterable[NDArray[Any]], n_rows: int, folder: str | os.PathLike[str] | None) -> NDArray[Any]:
    """Put blocks of rows below each other: in memory, or in a nameless file in the folder that is mapped."""
    first = next(blocks := iter(blocks))
    if folder is None:
        out, start = np.empty((n_rows, first.shape[1]), first.dtype), 0
        for block in chain([first], blocks):
            out[start : start + len(block)] = block
            start += len(block)
        return out
    with _nameless_file(folder) as file:
        for block in chain([first], blocks):
            with _say_where(folder):
                _write(file, np.ascontiguousarray(block, first.dtype))
        return np.ndarray((n_rows, first.shape[1]), first.dtype, mmap(file.fileno(), 0))


def _nameless_file(folder: str | os.PathLike[str]) -> Any:
    """Open a file that nobody else can find, and that is gone when nobody uses it any more."""
    with _say_where(folder):
        return tempfile.TemporaryFile(dir=folder, buffering=0)


def _write(file: Any, values: NDArray[Any]) -> None:
    """Write all of an array to a file without a buffer: a full disk is told here and not again when it is closed."""
    rest = values.data.cast("B")
    while rest:
        rest = rest[file.write(rest) :]


def _header(dtype: np.dtype[Any], shape: tuple[int, ...]) -> bytes:
    """Return the first bytes of a `.npy` file."""
    head = io.BytesIO()
    np.lib.format.write_array_header_1_0(head, {"descr": dtype.str, "fortran_order": False, "shape": shape})
    return head.getvalue()


def _checksum(name: str, *parts: Any) -> bytes:
    """Hash a file's name and content: a file of other rows or another teacher does not pass for this one."""
    total = blake2b(name.encode(), digest_size=CHECKSUM)
    for part in parts:
        total.update(part)
    return total.digest()


def _read(path: Path, sizes: list[int]) -> bytes | None:
    """Return what an ordinary file of one of these sizes holds, nothing of any other; None if there is no file."""
    try:
        if not stat.S_ISREG(os.lstat(path).st_mode):
            return b""
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | AS_IT_IS)) as file:
            size = os.fstat(file.fileno()).st_size
            return file.read(size) if size in sizes else b""
    except FileNotFoundError:
        return None
    except OSError:
        return b""


@contextmanager
def _say_where(folder: str | os.PathLike[str]) -> Iterator[None]:
    """Say of an error of the disk that it is the store's, and that nothing is lost."""
    try:
        yield
    except OSError as error:
        raise OSError(
            error.errno,
            f"{error.strerror or error}: answers could not be written to the store. Those already stored are kept: "
            "free some space, or repair the folder, and run again to resume. The folder is",
            os.fspath(folder),
        ) from error
