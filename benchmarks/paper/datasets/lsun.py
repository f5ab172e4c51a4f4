"""LSUN scenes, one LMDB database per category, from the LSUN project (its download script is fyu/lsun on GitHub).

Expected in the folder, for each category (archives ``bedroom_train_lmdb.zip``, ``bedroom_val_lmdb.zip``)::

    bedroom_train_lmdb/data.mdb   bedroom_val_lmdb/data.mdb   ...
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np

from benchmarks.paper.datasets.base import Array, Data, Part, key_of, need, need_folder
from benchmarks.paper.datasets.images import read_squares, square

CATEGORIES = (
    "bedroom",
    "bridge",
    "church_outdoor",
    "classroom",
    "conference_room",
    "dining_room",
    "kitchen",
    "living_room",
    "restaurant",
    "tower",
)
SOURCE = "with the LSUN project's download script (fyu/lsun on GitHub)"
_ONE_READER = Lock()


@dataclass(frozen=True)
class LmdbImages:
    """Images in databases of one category each: row k has the key ``keys[k]`` in ``databases[which[k]]``."""

    databases: Sequence[Path]
    which: Array
    keys: Sequence[bytes]

    def __len__(self) -> int:
        return len(self.keys)

    def read(self, rows: Array) -> Array:
        """Read the given images: uint8 (n, 64, 64, 3)."""
        # Databases are closed again: LMDB opens none twice in a process, and a forked one must not use its parent's.
        with _ONE_READER, ExitStack() as stack:
            needed = np.unique(self.which[np.asarray(rows)]).tolist()
            opened = {k: stack.enter_context(_open(self.databases[k])) for k in needed}
            return read_squares(lambda row: self._decode(opened[self.which[row]], row), rows)

    def _decode(self, database: Any, row: int) -> Array:
        """Read one image; if that fails, say which."""
        with database.begin() as transaction:
            content = transaction.get(self.keys[row])
        try:
            return square(content)
        except OSError as error:
            place = f"image {self.keys[row]!r} in {database.path()}"
            raise OSError(f"{place} cannot be read ({error}); unpack the archive again") from error


def load(
    folder: Path | None,
    n_train: int = 1000,
    n_unlabelled: int = 20_000,
    seed: int = 0,
    categories: Sequence[str] = CATEGORIES,
) -> Data:
    """Draw ``n_train`` images a class to train on and ``n_unlabelled`` others as U; validation images are to test on.

    The keys of the databases are listed first, which takes a while for millions of images.
    """
    what = f"It must hold the databases bedroom_train_lmdb, bedroom_val_lmdb, ...: download them {SOURCE}."
    root = need_folder("lsun", folder, what)
    rng = np.random.default_rng(seed)
    train, unlabelled, test = [], [], []
    for category in categories:
        keys = _keys(_database(root, f"{category}_train_lmdb"))
        test.append(_keys(_database(root, f"{category}_val_lmdb")))
        if len(keys) < n_train + n_unlabelled:
            wanted = f"{n_train} images to train on and {n_unlabelled} unlabelled ones"
            raise ValueError(
                f"{root / category}_train_lmdb has {len(keys)} images, too few for {wanted}; lower the two"
            )
        picked = rng.choice(len(keys), n_train + n_unlabelled, replace=False)
        train.append([keys[k] for k in np.sort(picked[:n_train])])
        unlabelled.append([keys[k] for k in np.sort(picked[n_train:])])
    content = [key.decode("latin1") for lists in (train, test, unlabelled) for keys in lists for key in keys]
    return Data(
        "lsun",
        _part(root, categories, "train", train),
        _part(root, categories, "val", test),
        Part(_part(root, categories, "train", unlabelled).images),
        tuple(categories),
        key_of("lsun", [*categories, *content]),
    )


def _part(root: Path, categories: Sequence[str], split: str, keys: Sequence[Sequence[bytes]]) -> Part:
    """Join the categories' images into one labelled part."""
    y = np.repeat(np.arange(len(keys)), [len(own) for own in keys]).astype(np.int64)
    databases = [root / f"{category}_{split}_lmdb" for category in categories]
    return Part(LmdbImages(databases, y, [key for own in keys for key in own]), y)


def _database(root: Path, name: str) -> Path:
    """Return the folder of a database."""
    need(root / name / "data.mdb", f"Download {name}.zip {SOURCE} and unpack it into {root}.")
    return root / name


def _keys(path: Path) -> list[bytes]:
    """Return the keys of all images of a database, in its order."""
    with _ONE_READER, _open(path) as database, database.begin() as transaction:
        return [bytes(key) for key in transaction.cursor().iternext(keys=True, values=False)]


def _open(path: Path) -> Any:
    """Open a database to read from."""
    try:
        import lmdb
    except ImportError as error:
        raise ImportError("dataset 'lsun' needs lmdb: pip install lmdb") from error
    return lmdb.open(str(path), readonly=True, lock=False, readahead=False)
