"""Answers of one teacher on disk: memory-mapped, written chunk by chunk, so that an interrupted reading goes on.

A store has two files, both named by a key made of the teacher and the data: `<key>.npy` with the answers, and
`<key>.rows` with the number of rows that are done, replaced after every chunk.
"""

from __future__ import annotations

import os
from pathlib import Path
from pickle import PicklingError
from typing import Any

import joblib
import numpy as np
from numpy.typing import NDArray

from sklearn_uhc._rows import count_rows, is_dataset, take_rows

#: Rows of a Dataset that go into its key: all of them would have to be read for more.
SAMPLED = 64


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


def fingerprint(teacher: Any) -> str:
    """Hash what decides a teacher's answers: its parameters and what it learnt."""
    module: Any = getattr(teacher, "module_", getattr(teacher, "module", None))
    if not hasattr(module, "state_dict"):
        try:
            return str(joblib.hash(teacher))
        except PicklingError as error:
            raise ValueError(
                f"{type(teacher).__name__} cannot be pickled, so its answers cannot be found again in a store: use "
                "functions that can be imported instead of lambdas in it, or leave store out."
            ) from error
    weights = {name: value.detach().cpu().numpy() for name, value in module.state_dict().items()}
    # Code cannot be hashed; a preprocessing function counts by its name.
    own = [str(getattr(teacher, name, None)) for name in ("classes", "dtype")]
    preprocess = getattr(getattr(teacher, "preprocess", None), "__qualname__", "")
    return str(joblib.hash((type(teacher).__qualname__, repr(module), weights, own, preprocess)))


def fingerprint_of_data(X: Any) -> str:
    """Hash X; of a Dataset its length and some of its rows."""
    if not is_dataset(X):
        return str(joblib.hash(X if not hasattr(X, "detach") else X.detach().cpu().numpy()))
    n = count_rows(X)
    return str(joblib.hash((n, take_rows(X, np.unique(np.linspace(0, n - 1, SAMPLED).astype(int))))))
