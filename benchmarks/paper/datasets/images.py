"""Images on disk: read when asked for, cropped to the central square and scaled as in the paper."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.paper.datasets.base import Array

#: Side of all images, in pixels.
SIZE = 64


def square(source: Any, size: int = SIZE) -> Array:
    """Decode an image file (path or bytes), crop its central square and scale it: uint8 (size, size, 3)."""
    from PIL import Image, ImageOps

    with Image.open(io.BytesIO(source) if isinstance(source, bytes) else source) as image:
        # A JPEG file can be decoded at half its size or less; four times the wanted one loses nothing visible.
        image.draft("RGB", (4 * size, 4 * size))
        fitted = ImageOps.fit(image.convert("RGB"), (size, size), method=Image.Resampling.BICUBIC)
        return np.asarray(fitted, dtype=np.uint8)


def read_squares(decode: Callable[[int], Array], rows: Array, size: int = SIZE) -> Array:
    """Return ``decode(row)`` of all rows as one array; Pillow decodes outside Python's lock, so threads help."""
    images = np.empty((len(rows), size, size, 3), dtype=np.uint8)
    with ThreadPoolExecutor() as pool:
        for k, image in enumerate(pool.map(decode, np.asarray(rows).tolist())):
            images[k] = image
    return images


@dataclass(frozen=True)
class FileImages:
    """Image files in a folder, by their names in it."""

    folder: Path
    names: Sequence[str]

    def __len__(self) -> int:
        return len(self.names)

    def read(self, rows: Array) -> Array:
        """Read the given images: uint8 (n, 64, 64, 3)."""
        return read_squares(self._decode, rows)

    def _decode(self, row: int) -> Array:
        """Read one image; if that fails, say which."""
        path = self.folder / self.names[row]
        try:
            return square(path)
        except OSError as error:
            raise OSError(f"{path} cannot be read ({error}); unpack it again from the archive it came in") from error


def files_in(folder: Path, what: str, suffix: str) -> list[str]:
    """Return the names of the files in a folder that end so (in any case), sorted; if there are none, say ``what``."""
    names = os.listdir(folder) if folder.is_dir() else []
    found = sorted(name for name in names if name.lower().endswith(suffix) and not name.startswith("."))
    if not found:
        raise FileNotFoundError(f"{folder} holds no *{suffix} files. {what}")
    return found


def labelled_files(root: Path, folders: Sequence[str], what: str, suffix: str) -> tuple[list[str], Array]:
    """Return the files of one folder per class, by their names under ``root``, and the class of each."""
    files = [[f"{folder}/{name}" for name in files_in(root / folder, what, suffix)] for folder in folders]
    y = np.repeat(np.arange(len(files)), [len(own) for own in files]).astype(np.int64)
    return [name for own in files for name in own], y
