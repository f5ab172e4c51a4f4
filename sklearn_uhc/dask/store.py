"""A store of blocks: answers and soft labels of each block of rows, in the same kind of files as any other store.

A folder holds the answers of one teacher, `answers-<key>`, or the labels of one merge, `soft_labels-<key>`. The key is
a hash of everything that affects the numbers. `manifest.json` describes it in words, for people: it is never read. A
file is named after a hash of its rows of X. So a second run, or one that was interrupted, finds finished blocks in any
order, and never uses answers for other rows, teachers or settings.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sklearn_uhc.teachers.fingerprint import Hasher
from sklearn_uhc.teachers.store import ArrayFolder
from sklearn_uhc.utils.notes import warn_user


def key_of_block(block: Any) -> str:
    """Hash the rows of a block: values and column names, but not the index."""
    if hasattr(block, "columns"):
        parts = [(str(name), block.iloc[:, i].to_numpy()) for i, name in enumerate(block.columns)]
        return Hasher().of(parts).hex()
    return Hasher().of(block.to_numpy() if hasattr(block, "to_numpy") else np.asarray(block)).hex()


class BlockStore(ArrayFolder):
    """Matrices, one for each block of X, in a folder with a manifest.

    Parameters
    ----------
    folder : str or path
        The user's store. All workers must see it.
    kind : str
        What the matrices are, the first part of the folder's name.
    key : str
        Hash of all that decides them.
    columns : list of str
        Names of the columns.
    about : dict
        What else the manifest says.
    """

    def __init__(
        self, folder: str | os.PathLike[str], kind: str, key: str, columns: list[str], about: dict[str, Any]
    ) -> None:
        self.n_columns = len(columns)
        name = f"{kind}-{key}"
        super().__init__(Path(folder).absolute() / name, owner=f"{name}/")
        self.publish("manifest.json", [json.dumps({"columns": columns, **about}, indent=1, default=str).encode()])

    def load(self, key: str, n_rows: int) -> NDArray[np.float64] | None:
        """Return the numbers of a block, or None if the file is missing or was changed."""
        found = self.read(f"{key}.npy", (n_rows, self.n_columns))
        return None if found is None else found.astype(np.float64)

    def save(self, key: str, values: NDArray[Any]) -> NDArray[np.float64]:
        """Write the numbers of a block, and return them as `load` would."""
        return self.write(f"{key}.npy", values.astype(np.float64))

    def note(self, name: str) -> None:
        """Warn about a file that is not used; a worker reads only a few."""
        warn_user(
            f"{str(self.folder / name)!r} has changed since it was written (truncated, modified or foreign): it is not "
            "used, and the teacher is called again."
        )
