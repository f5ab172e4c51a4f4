"""scikit-learn's digits: 1,797 grey images of 8 x 8 pixels as 64 features in [0, 1]; nothing to download."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from benchmarks.paper.datasets.base import ArrayImages, Data, Part, key_of


def load(folder: Path | None = None) -> Data:
    """Return a fixed stratified split: 40 % to train on, 40 % unlabelled, 20 % to test on; ``folder`` is not used."""
    X, y = load_digits(return_X_y=True)
    X, y = (X / 16).astype(np.float32), y.astype(np.int64)
    X_rest, X_test, y_rest, y_test = train_test_split(X, y, test_size=0.2, stratify=y, random_state=0)
    X_train, X_u, y_train, _ = train_test_split(X_rest, y_rest, test_size=0.5, stratify=y_rest, random_state=0)
    train, test = Part(ArrayImages(X_train), y_train), Part(ArrayImages(X_test), y_test)
    names = tuple(str(k) for k in range(10))
    return Data("digits", train, test, Part(ArrayImages(X_u)), names, key_of("digits", [X_train, X_test, X_u]))
