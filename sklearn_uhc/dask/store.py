"""A store of blocks: answers and soft labels of each block of rows, in Parquet files that are always complete.

A folder holds the answers of one teacher, `answers-<key>`, or the labels of one merge, `soft_labels-<key>`. The key is
a hash of everything that affects the numbers, and `manifest.json` describes it in words. A file is named after a hash
of its rows of X. So a second run, or one that was interrupted, finds finished blocks in any order, and never uses
answers for other rows, teachers or settings. Files are written under a temporary name and then renamed.
"""

from __future__ import annotations

import json
import os
import secrets
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sklearn_uhc.teachers.fingerprint import Hasher
from sklearn_uhc.utils.notes import warn_user

#: Version of the file layout.
FORMAT = 1
#: Key of the checksum in a file's metadata.
CHECKSUM = b"sklearn_uhc.checksum"


def key_of_block(block: Any) -> str:
    """Hash the rows of a block: values and column names, but not the index."""
    if hasattr(block, "columns"):
        parts = [(str(name), block.iloc[:, i].to_numpy()) for i, name in enumerate(block.columns)]
        return Hasher().of(parts).hex()
    return Hasher().of(block.to_numpy() if hasattr(block, "to_numpy") else np.asarray(block)).hex()


class BlockStore:
    """Matrices with named columns, one for each block of X, in a folder.

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
    """

    def __init__(self, folder: str | os.PathLike[str], kind: str, key: str, columns: list[str]) -> None:
        self.path, self.columns = Path(folder).absolute() / f"{kind}-{key}", columns

    def open(self, **about: Any) -> BlockStore:
        """Create the folder and its manifest; raise an error if an existing manifest differs."""
        manifest = {"format": FORMAT, "columns": self.columns, **about}
        self.path.mkdir(parents=True, exist_ok=True)
        file = self.path / "manifest.json"
        if not file.exists():
            self._publish(file, json.dumps(manifest, indent=1, default=str).encode())
        found = json.loads(file.read_text())
        if {name: found.get(name) for name in ("format", "columns")} != {"format": FORMAT, "columns": self.columns}:
            raise ValueError(
                f"{str(file)!r} does not belong to these teachers and settings: it names the columns "
                f"{found.get('columns')} in format {found.get('format')}. Use another store, or delete that folder."
            )
        return self

    def load(self, key: str, n_rows: int) -> NDArray[np.float64] | None:
        """Return the numbers of a block, or None if the file is missing or was changed."""
        from pyarrow import ArrowException, parquet

        file = self.path / f"{key}.parquet"
        if not file.exists():
            return None
        try:
            table = parquet.read_table(file, memory_map=False)
        except (ArrowException, OSError):
            table = None
        if table is not None and table.column_names == self.columns and table.num_rows == n_rows:
            parts = [np.asarray(column) for column in table.columns]
            values = np.stack(parts, axis=1).astype(np.float64, copy=False) if n_rows else np.empty((0, len(parts)))
            if (table.schema.metadata or {}).get(CHECKSUM) == _checksum(key, values):
                return values
        warn_user(
            f"{str(file)!r} has changed since it was written (truncated, modified or foreign): the teacher is called "
            "again."
        )
        return None

    def save(self, key: str, values: NDArray[Any]) -> NDArray[np.float64]:
        """Write the numbers of a block, and return them as `load` would."""
        import pyarrow
        from pyarrow import parquet

        values = np.ascontiguousarray(values, dtype=np.float64)
        columns = [pyarrow.array(values[:, j]) for j in range(values.shape[1])]
        schema = pyarrow.schema([(name, pyarrow.float64()) for name in self.columns])
        table = pyarrow.Table.from_arrays(columns, schema=schema.with_metadata({CHECKSUM: _checksum(key, values)}))
        sink = pyarrow.BufferOutputStream()
        parquet.write_table(table, sink, compression="snappy", use_dictionary=False)
        self._publish(self.path / f"{key}.parquet", sink.getvalue())
        return values

    def _publish(self, file: Path, content: Any) -> None:
        """Write a file atomically: it is complete or missing, even if others write it at the same time."""
        own = file.with_name(f"{file.name}.{secrets.token_hex(8)}.part")
        try:
            own.write_bytes(content)
            own.replace(file)
        finally:
            own.unlink(missing_ok=True)


def _checksum(key: str, values: NDArray[np.float64]) -> bytes:
    total = blake2b(key.encode(), digest_size=16)
    total.update(np.ascontiguousarray(values).data)
    return total.hexdigest().encode()
