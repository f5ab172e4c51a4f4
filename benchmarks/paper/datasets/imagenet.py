"""ImageNet (ILSVRC2012), from image-net.org.

Expected in the folder::

    train/n01440764/*.JPEG   ...             ILSVRC2012_img_train.tar: each archive in it in a folder of its name
    val/*.JPEG                               ILSVRC2012_img_val.tar
    test/*.JPEG                              ILSVRC2012_img_test_v10102019.tar
    ILSVRC2012_devkit_t12/data/meta.mat      ILSVRC2012_devkit_t12.tar.gz
    ILSVRC2012_devkit_t12/data/ILSVRC2012_validation_ground_truth.txt

If the validation images are already sorted into folders (``val/n01440764/*.JPEG``), the development kit is only needed
for the classes' names. Classes are numbered in the order of their WordNet ids.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from benchmarks.paper.datasets.base import Array, Data, Part, key_of, need, need_folder
from benchmarks.paper.datasets.images import FileImages, files_in, labelled_files

TRAIN = (
    "Download ILSVRC2012_img_train.tar from image-net.org; each archive in it (n01440764.tar) goes into a folder of \
its name under train/ (train/n01440764/*.JPEG)."
)
VAL = "Download ILSVRC2012_img_val.tar from image-net.org and unpack it into val/ (val/ILSVRC2012_val_00000001.JPEG)."
TEST = "Download ILSVRC2012_img_test_v10102019.tar from image-net.org; its images go into test/ (test/*.JPEG)."
DEVKIT = "Download ILSVRC2012_devkit_t12.tar.gz from image-net.org and unpack it here, next to train/."


def load(folder: Path | None) -> Data:
    """List the files: training images, validation images to test on, test images as U."""
    root = need_folder("imagenet", folder, "It must hold train/, val/, test/ and ILSVRC2012_devkit_t12/. " + TRAIN)
    wnids = sorted(path.name for path in need(root / "train", TRAIN).iterdir() if path.is_dir())
    if not wnids:
        raise FileNotFoundError(f"{root / 'train'} holds no folders. {TRAIN}")
    devkit = root / "ILSVRC2012_devkit_t12" / "data"
    names, y = labelled_files(root / "train", wnids, TRAIN, ".jpeg")
    val_names, val_y = _validation(need(root / "val", VAL), wnids, devkit)
    test_names = files_in(root / "test", TEST, ".jpeg")
    words = {wnid: text for wnid, text in _synsets(devkit).values()} if (devkit / "meta.mat").exists() else {}
    return Data(
        "imagenet",
        Part(FileImages(root / "train", names), y),
        Part(FileImages(root / "val", val_names), val_y),
        Part(FileImages(root / "test", test_names)),
        tuple(words.get(wnid, wnid) for wnid in wnids),
        key_of("imagenet", [*names, *val_names, *test_names]),
    )


def _validation(val: Path, wnids: list[str], devkit: Path) -> tuple[list[str], Array]:
    """Return files and classes of the validation images, sorted into folders or with the kit's ground truth."""
    if any(path.is_dir() for path in val.iterdir()):
        return labelled_files(val, wnids, VAL, ".jpeg")
    names = files_in(val, VAL, ".jpeg")
    truth_file = need(devkit / "ILSVRC2012_validation_ground_truth.txt", DEVKIT)
    truth = np.loadtxt(truth_file, dtype=np.int64, ndmin=1)
    if len(truth) != len(names):
        raise ValueError(f"{val} holds {len(names)} images, but {truth_file} has {len(truth)} lines. {VAL}")
    number = {wnid: k for k, wnid in enumerate(wnids)}
    synsets = _synsets(devkit)
    unknown = {synsets[i][0] for i in np.unique(truth).tolist()} - set(number)
    if unknown:
        raise FileNotFoundError(f"{val.parent / 'train'} has no folder {', '.join(sorted(unknown)[:5])}. {TRAIN}")
    return names, np.array([number[synsets[i][0]] for i in truth.tolist()], dtype=np.int64)


def _synsets(devkit: Path) -> dict[int, tuple[str, str]]:
    """Return WordNet id and words of each ILSVRC2012_ID: the ground truth's numbers are not the order of the ids."""
    from scipy.io import loadmat

    synsets = np.atleast_1d(loadmat(need(devkit / "meta.mat", DEVKIT), squeeze_me=True)["synsets"])
    return {int(row["ILSVRC2012_ID"]): (str(row["WNID"]), str(row["words"])) for row in synsets}
