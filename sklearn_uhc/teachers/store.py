"""Teachers' answers on disk, in files that are always complete, so that any number of processes can share a folder.

A file holds one teacher's answers for a chunk of rows. Its name is `<teacher>-<data>-<first>-<stop>.npy`, with a hash
of the teacher and one of the data. It is written under a temporary name and then renamed: no reader sees an incomplete
file, simultaneous writers write the same content, and an interrupted run resumes after its last chunk. It is an
ordinary `.npy` file with a checksum at its end. A file with any other content is not used, and the teacher is called
again for its rows.

Files that others can change are never memory-mapped: a file that shrinks while it is mapped kills the process.
"""

from __future__ import annotations

import io
import os
import secrets
import stat
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sklearn_uhc.utils.disk import say_where
from sklearn_uhc.utils.notes import warn_user

#: Size of the checksum at the end of a file, in bytes.
CHECKSUM = 20
#: Types of stored answers; the file size tells which it is.
DTYPES = [np.dtype(f"<f{size}") for size in (2, 4, 8)]
#: Do not follow symlinks or wait for pipes, if the system supports these flags.
AS_IT_IS = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)


class ArrayFolder:
    """Matrices of numbers in the files of a folder."""

    def __init__(self, folder: Path, owner: str = "") -> None:
        self.folder, self.owner = folder, owner  # a file of another owner has another checksum
        with say_where(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)

    def read(self, name: str, shape: tuple[int, int]) -> NDArray[Any] | None:
        """Return the matrix of a file, or None if the file is missing or was changed, which is noted."""
        n_values = shape[0] * shape[1]
        heads = [_header(dtype, shape) for dtype in DTYPES]
        sizes = [len(head) + dtype.itemsize * n_values for head, dtype in zip(heads, DTYPES, strict=True)]
        content = _read(self.folder / name, [size + CHECKSUM for size in sizes])
        if content is None:
            return None
        for head, size, dtype in zip(heads, sizes, DTYPES, strict=True):
            values = memoryview(content)[len(head) : size]
            if content[size:] == _checksum(self.owner + name, head, values) and content.startswith(head):
                return np.frombuffer(values, dtype).reshape(shape)
        self.note(name)
        return None

    def write(self, name: str, answer: NDArray[np.floating[Any]]) -> NDArray[Any]:
        """Write a matrix, and return it as stored.

        There is no fsync: a file that is incomplete after a power failure does not match its checksum.
        """
        values = np.ascontiguousarray(answer, dtype=f"<f{min(answer.dtype.itemsize, 8)}")
        head = _header(values.dtype, values.shape)
        self.publish(name, [head, values.data, _checksum(self.owner + name, head, values.data)])
        return values

    def publish(self, name: str, parts: list[Any]) -> None:
        """Write a file under another name, and rename it: it is complete or missing."""
        own = self.folder / f"{name}.{secrets.token_hex(8)}.part"
        with say_where(self.folder):
            try:
                with open(own, "xb") as file:  # a new file, so never a symlink
                    file.writelines(parts)
                self._rename(own, self.folder / name)
            finally:
                own.unlink(missing_ok=True)

    def note(self, name: str) -> None:
        """Remember or say that a file is not used."""
        raise NotImplementedError

    def _rename(self, own: Path, file: Path) -> None:
        """Rename a finished file, unless a folder is in its place, or a reader that Windows protects."""
        try:
            own.replace(file)
        except OSError:
            busy = os.name == "nt" and file.is_file()  # another process reads it: its content is the same
            if not (busy or file.is_dir()):
                raise


class AnswerStore(ArrayFolder):
    """The log-probabilities of one teacher for rows of X, in a folder."""

    def __init__(self, folder: str | os.PathLike[str], key: str, n_classes: int) -> None:
        self.key, self.n_classes = key, n_classes
        self.not_used: list[str] = []
        super().__init__(Path(folder))

    def load(self, rows: slice) -> NDArray[Any] | None:
        """Return the answers for a chunk, or None if the file is missing or was changed."""
        return self.read(self._name(rows), (rows.stop - rows.start, self.n_classes))

    def save(self, rows: slice, answer: NDArray[np.floating[Any]]) -> NDArray[Any]:
        """Write the answers for a chunk to the folder, and return them as stored."""
        return self.write(self._name(rows), answer)

    def note(self, name: str) -> None:
        """Remember a file that is not used."""
        self.not_used.append(name)

    def warn_of_files_not_used(self, reader: str) -> None:
        """Warn about files that were not used and have been replaced."""
        if self.not_used:
            warn_user(
                f"{len(self.not_used)} files in the store {str(self.folder)!r} had changed since they were written "
                f"(truncated, modified or foreign), so {reader} was called again and they were replaced: "
                f"{', '.join(self.not_used[:3])}{', ...' if len(self.not_used) > 3 else ''}."
            )

    def _name(self, rows: slice) -> str:
        return f"{self.key}-{rows.start}-{rows.stop}.npy"


def _header(dtype: np.dtype[Any], shape: tuple[int, ...]) -> bytes:
    """Return the header of a `.npy` file."""
    head = io.BytesIO()
    np.lib.format.write_array_header_1_0(head, {"descr": dtype.str, "fortran_order": False, "shape": shape})
    return head.getvalue()


def _checksum(name: str, *parts: Any) -> bytes:
    """Hash the name and content of a file, so that a file of other rows or teachers is not accepted."""
    total = blake2b(name.encode(), digest_size=CHECKSUM)
    for part in parts:
        total.update(part)
    return total.digest()


def _read(path: Path, sizes: list[int]) -> bytes | None:
    """Return the content of a regular file of one of these sizes; None if there is no file, b"" for any other."""
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
