"""Sums by index, as products with sparse matrices of zeros and ones.

All solvers store their arrays (n, K), (n, L) and (n, N) with the samples contiguous in memory ("samples last"). A sum
over the columns of a class then adds contiguous rows of memory, and costs one addition per column and sample, however
many classes there are.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import array_api_compat
import array_api_compat.numpy
import numpy as np
from array_api_compat import device, is_torch_array
from numpy.typing import NDArray
from scipy.sparse import csr_array

#: An array of numpy or torch.
Array = Any

#: A dense product multiplies this many numbers in the time a sparse one adds one.
DENSE = 7
#: Overhead of calling a sparse product, in multiplications of a dense one.
CALL = 50_000


def array_namespace(X: Array) -> Any:
    """Return the namespace of an array's library; numpy is handled first, since solvers call this very often."""
    return array_api_compat.numpy if isinstance(X, np.ndarray) else array_api_compat.array_namespace(X)


class Incidence:
    """A matrix of zeros and ones that takes (n, columns) to (n, rows): out[:, r] = sum of F[:, c] over the ones (r, c).

    Parameters
    ----------
    rows, columns : ndarray of int
        Where the ones are; a place that comes twice is a two.
    shape : tuple of int
        Number of rows and columns.
    like : Array
        Its library, device and precision count.
    """

    def __init__(self, rows: NDArray[np.int_], columns: NDArray[np.int_], shape: tuple[int, int], like: Array) -> None:
        self.rows, self.columns, self.shape = np.asarray(rows), np.asarray(columns), shape
        self._like = like
        self._spare = max(0, shape[0] * shape[1] - DENSE * len(self.rows))

    def __call__(self, F: Array) -> Array:
        """(n, columns) to (n, rows), samples last."""
        if self._spare * F.shape[0] <= CALL:
            return (self.dense @ F.T).T
        return (self._sparse @ F.T).T

    @cached_property
    def transposed(self) -> Incidence:
        """The matrix that takes (n, rows) to (n, columns)."""
        return Incidence(self.columns, self.rows, self.shape[::-1], self._like)

    @cached_property
    def dense(self) -> Array:
        """The matrix itself, (rows, columns)."""
        table = np.zeros(self.shape)
        np.add.at(table, (self.rows, self.columns), 1.0)
        return like_array(table, self._like)

    @cached_property
    def _sparse(self) -> Any:
        like = self._like
        if not is_torch_array(like):
            ones = np.ones(len(self.rows), dtype=like.dtype)
            return csr_array((ones, (self.rows, self.columns)), shape=self.shape)
        import torch

        where = torch.as_tensor(np.stack([self.rows, self.columns]), device=like.device)
        ones_ = torch.ones(len(self.rows), dtype=like.dtype, device=like.device)
        return torch.sparse_coo_tensor(where, ones_, self.shape, check_invariants=False).coalesce()


def like_array(values: NDArray[Any], like: Array) -> Array:
    """Convert a numpy array to the library and device of `like`, and floats to its precision."""
    xp = array_namespace(like)
    return xp.asarray(values, dtype=like.dtype if values.dtype.kind == "f" else xp.int64, device=device(like))


def to_cpu(index: Array) -> NDArray[Any]:
    """Return a numpy array; a tensor may be on any device."""
    return np.asarray(index.cpu() if is_torch_array(index) else index)


def at_least(X: Array, low: float, *, in_place: bool = False) -> Array:
    """Return max(X, low); NaN stays NaN."""
    if is_torch_array(X):
        return X.clamp_min_(low) if in_place else X.clamp_min(low)
    return np.maximum(X, low, out=X if in_place else None)


def at_most(X: Array, high: float) -> Array:
    """Return min(X, high); NaN stays NaN."""
    return X.clamp_max(high) if is_torch_array(X) else np.minimum(X, high)


def square_sum(F: Array) -> Array:
    """(n, m) to (n,): sum of squares; numpy needs no array of squares for it."""
    return (F * F).sum(1) if is_torch_array(F) else np.einsum("nm,nm->n", F, F)


def exponentials(X: Array) -> Array:
    """Return exp(X), computed in place."""
    return X.exp_() if is_torch_array(X) else np.exp(X, out=X)


def samples_last(X: Array, *, copy: bool = False) -> Array:
    """Return X with samples contiguous in memory; without `copy`, X itself if they already are."""
    if is_torch_array(X):
        return (X.T.clone() if copy and X.T.is_contiguous() else X.T.contiguous()).T
    return (np.array(X.T, order="C") if copy else np.ascontiguousarray(X.T)).T


def samples_first(X: Array) -> Array:
    """Return X with each sample contiguous in memory; X itself if it already is."""
    return X.contiguous() if is_torch_array(X) else np.ascontiguousarray(X)


def take_samples(X: Array, rows: Array) -> Array:
    """Return some samples, by slice, mask or indices, with the same memory layout."""
    if X.ndim == 1 or not is_samples_last(X):
        return X[rows]
    if isinstance(rows, slice):
        return samples_last(X[rows])
    xp = array_namespace(X)
    return xp.take(X.T, xp.nonzero(rows)[0] if rows.dtype == xp.bool else rows, axis=1).T


def is_samples_last(X: Array) -> bool:
    """Return whether the samples of (n, m) are contiguous in memory."""
    if X.ndim != 2 or X.shape[1] == 1:
        return False
    return X.stride(0) == 1 if is_torch_array(X) else bool(X.flags.f_contiguous and not X.flags.c_contiguous)
