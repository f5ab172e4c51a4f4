"""Inputs of a model: one matrix, images, texts, or the columns of a frame, each with a name and a type."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from sklearn_uhc.utils.rows import column_names, count_rows, is_dataset

if TYPE_CHECKING:  # inputs can be described without the onnx package
    from sklearn_uhc.exporting.graph import Graph

#: Name of the input if X is not a frame.
MATRIX = "X"


@dataclass(frozen=True)
class Input:
    """One input of a model: its name, its type ("float32", "float64" or "str") and its shape after the rows."""

    name: str
    dtype: str
    shape: tuple[int, ...]


@dataclass(frozen=True)
class Inputs:
    """All inputs of a model, in order; `columns` is True if each is a column of a frame."""

    parts: tuple[Input, ...]
    columns: bool

    @classmethod
    def of(cls, X: Any, dtype: str | None = None) -> Inputs:
        """Infer the inputs from an example; `dtype` is the type of numbers, None: float32 if X is, else float64."""
        if is_dataset(X) or issparse(X):
            raise TypeError(
                f"X_example is a {type(X).__name__}: pass a few rows as a dense array or a frame, as the model expects "
                "them. (A sparse matrix: X_example.toarray().)"
            )
        count_rows(X)
        if column_names(X) is not None:
            parts = [Input(name, _dtype(column, dtype, name), (1,)) for name, column in _columns(X)]
            return cls(tuple(parts), columns=True)
        array = _as_array(X)
        return cls((Input(MATRIX, _dtype(array, dtype, MATRIX), array.shape[1:]),), columns=False)

    def declare(self, graph: Graph) -> list[str]:
        """Add the inputs to a graph and return their names."""
        return [graph.input(part.name, part.dtype, (None, *part.shape)) for part in self.parts]

    def feed(self, X: Any) -> dict[str, NDArray[Any]]:
        """Return these rows as input of onnxruntime."""
        if not self.columns:
            return {MATRIX: _to(_as_array(X), self.parts[0].dtype)}
        found = dict(_columns(X))
        return {part.name: _to(found[part.name][:, None], part.dtype) for part in self.parts}

    def cast(self, X: Any, keep_types: bool = False) -> Any:
        """Return X rounded to the types of the model's inputs; with `keep_types`, converted back to its own types."""
        if not self.columns:
            array = _as_array(X)
            seen = array if self.parts[0].dtype == "str" else _to(array, self.parts[0].dtype)
            return seen.astype(array.dtype) if keep_types else seen
        numbers = {part.name: part.dtype for part in self.parts if part.dtype != "str"}
        return X.astype(numbers).astype(X.dtypes[list(numbers)] if keep_types else {})


def _columns(X: Any) -> list[tuple[str, NDArray[Any]]]:
    if not hasattr(X, "iloc"):
        raise TypeError(
            f"X_example is a {type(X).__name__}: pass a pandas DataFrame (X_example.to_pandas()) or an array."
        )
    return [(name, X[name].to_numpy()) for name in column_names(X) or ()]


def _as_array(X: Any) -> NDArray[Any]:
    array = X if isinstance(X, np.ndarray) else np.asarray(X)
    if array.dtype.kind not in "OUT" and array.ndim < 2:
        raise ValueError(f"X_example has shape {array.shape}: pass one row per sample.")
    return array


def _dtype(array: NDArray[Any], wanted: str | None, name: str) -> str:
    if array.dtype.kind in "fiub":
        return wanted or ("float32" if array.dtype == np.float32 else "float64")
    if all(isinstance(value, str) for value in array.ravel()):
        return "str"
    raise TypeError(
        f"{name!r} of X_example has neither only numbers nor only strings. ONNX models cannot take missing strings or "
        "other objects: fill them before the model."
    )


def _to(array: NDArray[Any], dtype: str) -> NDArray[Any]:
    return array.astype(object) if dtype == "str" else np.ascontiguousarray(array, dtype=dtype)
