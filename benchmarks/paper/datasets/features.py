"""Features extracted before, one .npz file.

Arrays: ``X_train`` (n, d), ``y_train``, ``X_test``, ``y_test``, ``X_unlabelled``, and ``class_names`` if the classes
have names; labels are 0, 1, ... . The folder is the file itself, or holds it under the name ``file``.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from benchmarks.paper.datasets.base import Array, ArrayImages, Data, Part, key_of, need, need_folder

WHAT = (
    "It must be an .npz file with the arrays X_train, y_train, X_test, y_test, X_unlabelled (and class_names), "
    "or a folder that holds {file}; another name goes into the option 'file'."
)
NAMES = ("X_train", "y_train", "X_test", "y_test", "X_unlabelled")


def load(folder: Path | None, file: str = "tinyimagenet_lite0_pca256.npz") -> Data:
    """Read the file; features are kept in the precision that they come in and read as float32."""
    what = WHAT.format(file=file)
    path = need_folder("features", folder, what)
    path = need(path / file, what) if path.is_dir() else path
    with np.load(path, allow_pickle=False) as archive:
        missing = [name for name in NAMES if name not in archive.files]
        if missing:
            raise ValueError(f"{path} has no array {', '.join(missing)}. {what}")
        arrays = {name: archive[name] for name in NAMES}
        names = archive["class_names"] if "class_names" in archive.files else np.unique(arrays["y_train"])
    class_names = tuple(str(name) for name in names)
    _check(path, arrays, len(class_names))
    train, test = (
        Part(ArrayImages(arrays[f"X_{part}"]), arrays[f"y_{part}"].astype(np.int64)) for part in ("train", "test")
    )
    unlabelled = Part(ArrayImages(arrays["X_unlabelled"]))
    return Data("features", train, test, unlabelled, class_names, key_of("features", arrays.values()))


def _check(path: Path, arrays: dict[str, Array], n_classes: int) -> None:
    """Refuse features that are not finite or not of one width, and labels that fit neither rows nor classes."""
    widths = {name: X.shape[1:] for name, X in arrays.items() if name.startswith("X")}
    if len(set(widths.values())) > 1 or len(widths["X_train"]) != 1:
        raise ValueError(f"{path}: features must be (n, d) with one d, but have the row shapes {widths}")
    for name in widths:
        if not np.isfinite(arrays[name]).all():
            raise ValueError(f"{path}: {name} holds NaN or infinite values; extract those features again")
    for part in ("train", "test"):
        X, y = arrays[f"X_{part}"], arrays[f"y_{part}"]
        if y.shape != (len(X),) or y.dtype.kind not in "iu":
            raise ValueError(f"{path}: y_{part} must hold {len(X)} integers, but is {y.dtype} of shape {y.shape}")
        if y.size and not 0 <= y.min() <= y.max() < n_classes:
            raise ValueError(f"{path}: y_{part} runs from {y.min()} to {y.max()}, but there are {n_classes} classes")
