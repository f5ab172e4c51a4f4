"""Stack the rows of two data sets of the same form: arrays, sparse matrices, lists, frames of pandas or Polars."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse
from scipy.sparse import vstack as sparse_vstack

from sklearn_uhc.utils.notes import add_note
from sklearn_uhc.utils.rows import column_names, count_rows, take_columns


def stack_own_and_public(X_own: Any, X_public: Any) -> tuple[Any, NDArray[np.int_]]:
    """Stack own rows above public ones, and return a mask of own rows."""
    n_own, n_public = (_count(X, name) for X, name in ((X_own, "X_own"), (X_public, "X_public")))
    own = np.repeat([1, 0], [n_own, n_public])
    if issparse(X_own) or issparse(X_public):
        return sparse_vstack([X_own, X_public], format="csr"), own
    if isinstance(X_own, (list, tuple)) and not np.ndim(X_own[0]):
        return [*X_own, *X_public], own
    names, others = column_names(X_own), column_names(X_public)
    if names is None and others is None:
        parts = np.asarray(X_own), np.asarray(X_public)
        if parts[0].shape[1:] != parts[1].shape[1:]:
            raise ValueError(f"X_own and X_public have rows of different shape: {parts[0].shape}, {parts[1].shape}.")
        return np.concatenate(parts), own
    return _stack_frames(X_own, X_public, names, others), own


def _count(X: Any, name: str) -> int:
    try:
        return count_rows(X)
    except (TypeError, ValueError) as error:
        add_note(error, f"This is {name}.")
        raise


def _stack_frames(X_own: Any, X_public: Any, names: list[str] | None, others: list[str] | None) -> Any:
    """Stack frames of pandas or Polars, with columns matched by name."""
    if names is None or others is None or not set(names) <= set(others):
        shown = [(own or [type(X).__name__])[:8] for own, X in ((names, X_own), (others, X_public))]
        raise ValueError(
            f"X_own and X_public must have the same form and the same columns, got {shown[0]}, {shown[1]}."
        )
    return below(X_own, take_columns(X_public, names))


def below(upper: Any, lower: Any) -> Any:
    """Stack two frames of pandas or Polars with the same columns."""
    if hasattr(upper, "iloc"):
        import pandas as pd

        return pd.concat([upper, lower], ignore_index=True)
    return upper.vstack(lower.cast(upper.schema))
