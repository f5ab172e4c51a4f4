"""What a dataset is: three parts whose images are read when they are asked for."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


class Images(Protocol):
    """Rows that can be read in any order: images, or feature vectors."""

    def __len__(self) -> int:
        """Return the number of rows."""

    def read(self, rows: Array) -> Array:
        """Return the given rows: uint8 images (n, H, W, 3) or float32 features (n, d)."""


@dataclass(frozen=True)
class ArrayImages:
    """Rows of an array in memory; half precision comes out as single."""

    values: Array

    def __len__(self) -> int:
        return len(self.values)

    def read(self, rows: Array) -> Array:
        """Return a copy of the given rows."""
        picked = self.values[np.asarray(rows)]
        return picked.astype(np.float32) if picked.dtype.kind == "f" else picked


@dataclass(frozen=True)
class Part:
    """Images and their classes: ``y`` has a class index per row, or is None for unlabelled images."""

    images: Images
    y: NDArray[np.int64] | None = None


@dataclass(frozen=True)
class Data:
    """A dataset; ``key`` tells its content from others in the cache of features."""

    name: str
    train: Part
    test: Part
    unlabelled: Part
    class_names: tuple[str, ...]
    key: str


def key_of(name: str, contents: Iterable[str | Array]) -> str:
    """Return a key made of the dataset's name and a hash of its file names or arrays."""
    digest = hashlib.sha256()
    for content in contents:
        if isinstance(content, str):
            digest.update(content.encode() + b"\0")
        else:
            digest.update(f"{content.dtype} {content.shape}".encode())
            digest.update(np.ascontiguousarray(content).data)
    return f"{name}-{digest.hexdigest()[:16]}"


def need(path: Path, what: str) -> Path:
    """Return the path; if nothing stands there, say what to download."""
    if not path.exists():
        raise FileNotFoundError(f"{path} is missing. {what}")
    return path


def need_folder(name: str, folder: Path | None, what: str) -> Path:
    """Return the folder of a dataset that does not come with the project."""
    if folder is None:
        raise ValueError(
            f"dataset {name!r} needs the folder that holds it (folder=..., --data on the command line). {what}"
        )
    return need(Path(folder), what)
