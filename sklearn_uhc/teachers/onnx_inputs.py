"""Convert rows of X to the inputs of an ONNX model: one matrix or one input per column, of the right shape and type."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from sklearn_uhc.utils.missing import is_missing
from sklearn_uhc.utils.rows import column_names

#: NumPy's types by onnxruntime's names.
DTYPES: dict[str, Any] = {
    "tensor(float)": np.float32,
    "tensor(double)": np.float64,
    "tensor(float16)": np.float16,
    "tensor(string)": np.str_,
    "tensor(bool)": np.bool_,
} | {f"tensor({sign}int{size})": np.dtype(f"{sign}int{size}") for sign in ("", "u") for size in (8, 16, 32, 64)}


@dataclass
class Input:
    """One input of a model."""

    name: str
    dtype: Any
    shape: list[Any]  # None or a name for a dimension of any size

    @property
    def is_column(self) -> bool:
        """Whether this input takes one number or string per row."""
        return len(self.shape) == 1 or (len(self.shape) == 2 and self.shape[1] == 1)

    @property
    def batch(self) -> int | None:
        """The fixed batch size, or None if any number of rows is accepted."""
        return self.shape[0] if self.shape and isinstance(self.shape[0], int) and self.shape[0] > 0 else None


def read_inputs(session: Any) -> list[Input]:
    """Return the inputs of a model; raise an error if their types or shapes are not supported."""
    inputs = []
    for given in session.get_inputs():
        if given.type not in DTYPES:
            raise ValueError(f"Input {given.name!r} of the model is a {given.type}, which is not supported.")
        inputs.append(Input(given.name, DTYPES[given.type], list(given.shape or [])))
    wide = [i.name for i in inputs if len(inputs) > 1 and not i.is_column]
    if wide:
        raise ValueError(
            f"The model has {len(inputs)} inputs, of which {wide[:8]} take more than one number per row. Only one "
            "matrix, or one input per column, is supported. Use FunctionTeacher with a session of your own."
        )
    return inputs


def by_column(inputs: list[Input], X: Any) -> bool:
    """Return whether each input is a column of X."""
    return len(inputs) > 1 or (inputs[0].is_column and inputs[0].name in (column_names(X) or []))


def make_feed(inputs: list[Input], X: Any) -> dict[str, NDArray[Any]]:
    """Return a batch of rows as inputs of a session; the columns of X are in the order of the inputs."""
    if issparse(X):
        X = X.toarray()
    if not by_column(inputs, X):
        return {inputs[0].name: _matrix(inputs[0], X)}
    return {given.name: _column(given, _take(X, j)) for j, given in enumerate(inputs)}


def padded(feed: dict[str, NDArray[Any]], n_rows: int) -> dict[str, NDArray[Any]]:
    """Repeat the last row to fill up the fixed batch size of a model."""
    return {name: np.concatenate([a, np.repeat(a[-1:], n_rows - len(a), axis=0)]) for name, a in feed.items()}


def _take(X: Any, j: int) -> Any:
    """Return a column by position."""
    if hasattr(X, "iloc"):
        return X.iloc[:, j]
    names = column_names(X)
    if names is not None:
        return X[names[j]]
    X = np.asarray(X)
    if X.ndim != 2:
        raise ValueError(f"The model has one input per column, but X has rows of shape {X.shape[1:]}.")
    return X[:, j]


def _column(given: Input, values: Any) -> NDArray[Any]:
    array = _converted(np.asarray(values), given)
    return array if len(given.shape) == 1 else array.reshape(-1, 1)


def _matrix(given: Input, X: Any) -> NDArray[Any]:
    array = _converted(np.asarray(X), given)
    if array.ndim == 1 and len(given.shape) == 2:
        array = array.reshape(-1, 1)
    expected = given.shape[1:]
    fits = not given.shape or (
        len(array.shape) == len(given.shape)
        and all(size == want for size, want in zip(array.shape[1:], expected, strict=True) if isinstance(want, int))
    )
    if not fits:
        raise ValueError(
            f"The model expects rows of shape {_shown(expected)}, but X has rows of shape {_shown(array.shape[1:])}. "
            "Reshape or select them in a Pipeline of a FunctionTransformer and the teacher."
        )
    return array


def _shown(shape: Any) -> str:
    return f"({', '.join(str(size) if isinstance(size, int) else 'any' for size in shape)})"


def _converted(array: NDArray[Any], given: Input) -> NDArray[Any]:
    """Convert values to the type of an input; raise an error if this changes them by more than rounding."""
    if given.dtype is np.str_:
        return _strings(array, given)
    try:
        if array.dtype.kind in "OUST":  # a frame with columns of several types
            array = array.astype(np.float64)
        with np.errstate(invalid="ignore"):
            new = np.ascontiguousarray(array, dtype=given.dtype)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"Input {given.name!r} of the model expects numbers ({np.dtype(given.dtype)}), but X holds something else: "
            f"{error}."
        ) from error
    if new.dtype.kind in "iub" and new.dtype != array.dtype and not (new == array).all():
        raise ValueError(
            f"Input {given.name!r} of the model expects {new.dtype}, but X has values there that would change, such as "
            "fractions or missing values. Pass whole numbers."
        )
    return new


def _strings(array: NDArray[Any], given: Input) -> NDArray[Any]:
    missing = is_missing(array)
    if missing.any():
        row = int(np.argmax(missing.reshape(len(array), -1).any(axis=1)))
        raise ValueError(
            f"Input {given.name!r} of the model expects strings, but X has missing values there, first in row {row} of "
            "the batch. ONNX has no missing strings: fill them as in the model's training data, for example with ''."
        )
    return array.astype(str).astype(object)
