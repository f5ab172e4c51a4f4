"""Places365-Standard, from places2.csail.mit.edu.

Expected in the folder (images in high resolution or, with 256 in place of large, small)::

    categories_places365.txt   places365_train_standard.txt       filelist_places365-standard.tar
    places365_val.txt   places365_test.txt
    data_large/a/airfield/*.jpg   ...                              train_large_places365standard.tar
    val_large/*.jpg                                                val_large.tar
    test_large/*.jpg                                               test_large.tar

The folder of the training images may also be called data_large_standard or data_256_standard.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from benchmarks.paper.datasets.base import Array, Data, Part, key_of, need, need_folder
from benchmarks.paper.datasets.images import FileImages

LISTS = "Download filelist_places365-standard.tar from places2.csail.mit.edu and unpack it here."
ARCHIVES = {
    "data": "train_large_places365standard.tar (or train_256_places365standard.tar)",
    "val": "val_large.tar (or val_256.tar)",
    "test": "test_large.tar (or test_256.tar)",
}


def load(folder: Path | None, n_unlabelled: int = 100_000, seed: int = 0) -> Data:
    """Read the file lists: training images, validation images to test on, at most ``n_unlabelled`` test images as U."""
    root = need_folder("places365", folder, LISTS)
    data, val, test = (_image_folder(root, part) for part in ARCHIVES)
    names, y = _read_list(root / "places365_train_standard.txt")
    val_names, val_y = _read_list(root / "places365_val.txt")
    test_names = need(root / "places365_test.txt", LISTS).read_text().split()
    rng = np.random.default_rng(seed)
    picked = np.sort(rng.permutation(len(test_names))[:n_unlabelled])
    test_names = [test_names[k] for k in picked]
    classes, numbers = _read_list(root / "categories_places365.txt")
    folders = [folder.name for folder in (data, val, test)]
    return Data(
        "places365",
        Part(FileImages(data, names), y),
        Part(FileImages(val, val_names), val_y),
        Part(FileImages(test, test_names)),
        tuple(classes[k].split("/", 1)[-1] for k in np.argsort(numbers)),
        key_of("places365", [*folders, *names, *val_names, *test_names]),
    )


def _image_folder(root: Path, part: str) -> Path:
    """Return the folder of large or small images, whichever is there."""
    for name in (f"{part}_large", f"{part}_large_standard", f"{part}_256", f"{part}_256_standard"):
        if (root / name).is_dir():
            return root / name
    what = f"Download {ARCHIVES[part]} from places2.csail.mit.edu and unpack it into {root}."
    raise FileNotFoundError(f"neither {root / part}_large nor {root / part}_256 is there. {what}")


def _read_list(path: Path) -> tuple[list[str], Array]:
    """Return the names of a file list, without a leading slash, and the class number after each."""
    rows = [line.rsplit(maxsplit=1) for line in need(path, LISTS).read_text().splitlines() if line.strip()]
    return [name.lstrip("/") for name, _ in rows], np.array([int(number) for _, number in rows], dtype=np.int64)
