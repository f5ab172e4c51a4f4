"""Tiny-ImageNet-200, the archive tiny-imagenet-200.zip of Stanford's course CS231n.

Expected in the folder, or in ``tiny-imagenet-200`` under it, as the archive unpacks::

    wnids.txt   words.txt
    train/n01443537/images/*.JPEG   ...
    val/images/*.JPEG   val/val_annotations.txt
    test/images/*.JPEG

Classes are numbered in the order of their WordNet ids.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from benchmarks.paper.datasets.base import Data, Part, key_of, need, need_folder
from benchmarks.paper.datasets.images import FileImages, files_in, labelled_files

WHAT = "Download tiny-imagenet-200.zip (cs231n.stanford.edu) and unpack it; the folder tiny-imagenet-200 goes here."


def load(folder: Path | None) -> Data:
    """List the files: training images, validation images to test on, test images as U."""
    root = need_folder("tinyimagenet", folder, WHAT)
    if (root / "tiny-imagenet-200").is_dir():
        root = root / "tiny-imagenet-200"
    wnids = sorted(need(root / "wnids.txt", WHAT).read_text().split())
    names, y = labelled_files(need(root / "train", WHAT), [f"{wnid}/images" for wnid in wnids], WHAT, ".jpeg")
    lines = need(root / "val" / "val_annotations.txt", WHAT).read_text().splitlines()
    labels = dict(line.split("\t")[:2] for line in lines if line)
    number = {wnid: k for k, wnid in enumerate(wnids)}
    val_y = np.array([number[wnid] for wnid in labels.values()], dtype=np.int64)
    test_names = files_in(root / "test" / "images", WHAT, ".jpeg")
    words = dict(line.split("\t", 1) for line in need(root / "words.txt", WHAT).read_text().splitlines() if line)
    return Data(
        "tinyimagenet",
        Part(FileImages(root / "train", names), y),
        Part(FileImages(root / "val" / "images", list(labels)), val_y),
        Part(FileImages(root / "test" / "images", test_names)),
        tuple(words.get(wnid, wnid) for wnid in wnids),
        key_of("tinyimagenet", [*names, *labels, *test_names]),
    )
