"""Gaussian classes around random centres, for smoke tests."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from benchmarks.paper.datasets.base import Array, ArrayImages, Data, Part, key_of


def load(
    folder: Path | None = None,
    n_classes: int = 20,
    n_features: int = 32,
    sizes: tuple[int, int, int] = (4000, 1000, 2000),
    spread: float = 1.0,
    seed: int = 0,
) -> Data:
    """Return classes of equal size; ``folder`` is not used.

    ``sizes`` are the rows to train on, to test on and without labels, over all classes. Centres are drawn with variance
    1 per feature, rows around them with standard deviation ``spread``.
    """
    rng = np.random.default_rng(seed)
    centres = rng.standard_normal((n_classes, n_features))

    def draw(n: int) -> tuple[Array, Array]:
        y = rng.permutation(np.arange(n) % n_classes)
        X = centres[y] + spread * rng.standard_normal((n, n_features))
        return X.astype(np.float32), y.astype(np.int64)

    (X_train, y_train), (X_test, y_test), (X_u, _) = (draw(n) for n in sizes)
    train, test = Part(ArrayImages(X_train), y_train), Part(ArrayImages(X_test), y_test)
    names = tuple(f"class {k}" for k in range(n_classes))
    key = key_of("synthetic", [X_train, X_test, X_u])
    return Data("synthetic", train, test, Part(ArrayImages(X_u)), names, key)
