"""Answers of one teacher on disk: memory-mapped, written chunk by chunk, so that an interrupted reading goes on.

A store has two files, both named by a key made of the teacher and the data: `<key>.npy` with the answers, and
`<key>.rows` with the number of rows that are done, replaced after every chunk.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import joblib
import numpy as np
from numpy.typing import NDArray

from sklearn_uhc._rows import count_rows
from sklearn_uhc.teachers.fingerprint import fingerprint, fingerprint_of_data


class AnswerStore:
    """The log-probabilities of one teacher for all rows of X, in a folder."""

    def __init__(self, folder: str | os.PathLike[str], teacher: Any, X: Any, n_classes: int) -> None:
        self.shape = count_rows(X), n_classes
        key = joblib.hash((fingerprint(teacher), fingerprint_of_data(X), self.shape))
        Path(folder).mkdir(parents=True, exist_ok=True)
        self.file, self.rows = Path(folder) / f"{key}.npy", Path(folder) / f"{key}.rows"

    @property
    def done(self) -> int:
        """Number of rows that are there already."""
        return int(self.rows.read_text()) if self.rows.exists() and self.file.exists() else 0

    def open(self, dtype: Any) -> NDArray[Any]:
        """Return the array to write to, new or as it was left."""
        if self.done:
            return np.load(self.file, mmap_mode="r+", allow_pickle=False)
        return np.lib.format.open_memmap(self.file, mode="w+", dtype=dtype, shape=self.shape)

    def load(self) -> NDArray[Any]:
        """Return the array to read from."""
        return np.load(self.file, mmap_mode="r", allow_pickle=False)

    def commit(self, array: NDArray[Any], done: int) -> None:
        """Make sure that the first `done` rows survive whatever happens next."""
        if isinstance(array, np.memmap):
            array.flush()
        part = self.rows.with_suffix(".part")
        part.write_text(str(done))
        part.replace(self.rows)
