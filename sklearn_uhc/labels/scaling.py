"""Scaling of labelled rows, for a classifier that the library chooses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, issparse


@dataclass(frozen=True, eq=False)
class Scaling:
    """Scales a matrix to mean 0 and standard deviation 1; a sparse one is only scaled, not centred."""

    mean: NDArray[np.float64]
    scale: NDArray[np.float64]

    def __call__(self, X: Any) -> Any:
        """Return scaled features; missing and infinite values become the mean."""
        if issparse(X):
            return csr_array(csr_array(X).multiply(1 / self.scale[None, :]))
        Z = (as_matrix(X) - self.mean) / self.scale
        return np.where(np.isfinite(Z), Z, 0.0)


def is_matrix(X: Any) -> bool:
    """Return whether X is a numeric matrix: an array, a sparse matrix, or a table of numbers."""
    if issparse(X):
        return True
    table = X.to_numpy() if hasattr(X, "to_numpy") else X
    return isinstance(table, np.ndarray) and table.ndim == 2 and table.dtype.kind in "biuf"


def as_matrix(X: Any) -> NDArray[np.float64]:
    """Return a matrix of floats, with infinite values as missing."""
    Z = np.asarray(X.to_numpy() if hasattr(X, "to_numpy") else X, dtype=float)
    return np.where(np.isfinite(Z), Z, np.nan)


def fit_scaling(X: Any, row_weight: NDArray[np.float64]) -> Scaling:
    """Return the scaling of these weighted rows; constant features are not scaled."""
    if issparse(X):
        mean = np.zeros(X.shape[1])
        squares = np.asarray(X.multiply(X).T @ row_weight).ravel() / row_weight.sum()
    else:
        Z = as_matrix(X)
        there = ~np.isnan(Z) * row_weight[:, None]
        total = np.maximum(there.sum(axis=0), np.finfo(float).tiny)
        mean = (there * np.nan_to_num(Z)).sum(axis=0) / total
        squares = (there * np.nan_to_num(Z - mean) ** 2).sum(axis=0) / total
    return Scaling(mean, np.where(squares > 0, np.sqrt(squares), 1.0))
