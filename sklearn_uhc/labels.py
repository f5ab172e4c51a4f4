"""Labels that are given to `fit`: checked, although nothing is learnt from them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import assert_all_finite, check_consistent_length, column_or_1d
from sklearn.utils.multiclass import check_classification_targets

from sklearn_uhc.utils.notes import warn_user


def check_labels(y: Any, X: Any, classes: NDArray[Any]) -> None:
    """Validate a y that is given but not learnt from, as a wrong one would spoil every score."""
    if y is None:
        return
    y = column_or_1d(y, warn=True)
    if any(map(_is_missing, set(y.tolist()))):
        raise ValueError(
            "y contains NaN or other missing labels. Nothing is learnt from y: leave it out of fit, or, if a "
            "search needs it for its score, give rows with labels only."
        )
    assert_all_finite(y, input_name="y")
    check_classification_targets(y)
    if X is not None:
        check_consistent_length(X, y)
    known, seen = set(classes.tolist()), set(np.unique(y).tolist())
    if not seen & known:
        raise ValueError(
            f"No teacher knows any class of y: y has {sorted(seen)[:8]}, the teachers know {sorted(known)[:8]}. "
            "Use the same names, or rename the teachers' classes with class_lists. Some tools of scikit-learn "
            "number the classes before they call fit: leave y out there, it is not needed."
        )
    if seen - known:
        warn_user(
            f"y holds classes that no teacher knows: {sorted(seen - known)[:8]}. They can never be predicted and "
            "count as errors in every score."
        )


def _is_missing(label: Any) -> bool:
    """Whether a label is None, NaN or pandas' NA, whose comparisons are neither true nor false."""
    return label is None or type(label).__name__ == "NAType" or bool(label != label)
