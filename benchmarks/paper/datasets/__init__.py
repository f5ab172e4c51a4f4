"""Datasets of the experiments, by name.

========================  ==========================================================================
``imagenet``              ILSVRC2012, 64 x 64; its unlabelled test images are U
``places365``             Places365-Standard, 64 x 64; 100,000 of its unlabelled test images are U
``lsun``                  LSUN scenes, 64 x 64; 1,000 training images a class, 20,000 others as U
``tinyimagenet``          Tiny-ImageNet-200; its unlabelled test images are U
``features``              features extracted before, an .npz file
``digits``                scikit-learn's digits; nothing to download
``synthetic``             Gaussian classes, for smoke tests
========================  ==========================================================================

Each module says which files it expects where. Images are read from disk when they are asked for.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.paper.datasets.base import ArrayImages, Data, Images, Part

__all__ = ["DATASETS", "ArrayImages", "Data", "Images", "Part", "load"]

#: Each is a module here with a function ``load(folder, **options)``.
DATASETS = ("imagenet", "places365", "lsun", "tinyimagenet", "features", "digits", "synthetic")


def load(name: str, folder: Path | str | None = None, **options: Any) -> Data:
    """Return a dataset.

    Parameters
    ----------
    name : str
        One of ``DATASETS``.
    folder : path, optional
        Where the downloaded files stand; not needed by ``digits`` and ``synthetic``.
    **options
        The dataset's own, such as ``n_unlabelled`` of ``places365``: see its module.
    """
    if name not in DATASETS:
        raise ValueError(f"there is no dataset {name!r}; take one of {', '.join(DATASETS)}")
    module = import_module(f"{__name__}.{name}")
    data: Data = module.load(None if folder is None else Path(folder), **options)
    return data
