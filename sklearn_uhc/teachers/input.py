"""X as input of teachers and student: validated if scikit-learn supports its type, otherwise unchanged."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.utils import InputTags, get_tags
from sklearn.utils.validation import validate_data

from sklearn_uhc.utils.rows import count_rows, is_loader


def check_input(estimator: Any, X: Any, *, reset: bool) -> Any:
    """Validate numeric matrices and tables; for anything else only count the rows.

    Missing and infinite values are left to the teachers and the student, which know whether they accept them.
    """
    if is_loader(X):  # we choose batches and their order
        X = X.dataset
    _refuse_pairs(X)
    _refuse_others(X)
    if _is_matrix(X):
        return validate_data(estimator, X, reset=reset, accept_sparse="csr", dtype=None, ensure_all_finite=False)
    count_rows(X)
    if getattr(X, "ndim", None) == 2 or hasattr(X, "columns"):
        validate_data(estimator, X, reset=reset, skip_check_array=True)
    elif reset:
        for name in ("n_features_in_", "feature_names_in_"):  # from an earlier fit on a table
            vars(estimator).pop(name, None)
    return X


def _refuse_pairs(X: Any) -> None:
    """Raise an error for a list of items of a torch Dataset, which scikit-learn's searches make of a Dataset."""
    if isinstance(X, list) and X and isinstance(X[0], tuple) and X[0] and getattr(X[0][0], "ndim", 0) > 0:
        raise TypeError(
            f"X is a list of tuples that begin with {type(X[0][0]).__name__}s, which scikit-learn's searches make from "
            "a torch Dataset: pass skorch.helper.SliceDataset(dataset) to the search."
        )


def _refuse_others(X: Any) -> None:
    """Raise an error for a single text, and for an AnnData, whose rows are in one of its matrices."""
    if isinstance(X, (str, bytes)):
        raise TypeError("X is a single text: pass a list of texts, one per row.")
    if type(X).__module__.split(".")[0] == "anndata":
        raise TypeError("X is an AnnData: pass its matrix, adata.X, or adata.to_df() for teachers that know columns.")


def _is_matrix(X: Any) -> bool:
    """Return whether X is, or can be read as, a two-dimensional array of numbers."""
    if issparse(X):
        return True
    if isinstance(X, np.ndarray):
        return X.dtype.kind in "biufc" and X.ndim <= 2
    if isinstance(X, (list, tuple)) and len(X):
        first = X[0][0] if isinstance(X[0], (list, tuple)) and len(X[0]) else X[0]
        return np.ndim(X[0]) <= 1 and not isinstance(first, (str, bytes, dict))
    frame = hasattr(X, "columns") or hasattr(X, "to_frame")  # Polars stays as it is, since teachers may need names
    return np.isscalar(X) or (hasattr(X, "__array__") and not hasattr(X, "ndim") and not frame)


def input_tags(tags: Any, teachers: Any, *others: Any) -> Any:
    """Return tags that all wrapped estimators accept, field by field; `teachers` may have any form that users pass."""
    wrapped = [_tags_of(estimator) for estimator in (*listed(teachers), *others)]
    new = copy.copy(tags)
    for name in ("sparse", "allow_nan", "string"):
        setattr(new, name, all([getattr(t, name) for t in wrapped]))
    return new


def listed(teachers: Any) -> list[Any]:
    """Return teachers without their names; an empty list if it is no list or dict (tags come before checks)."""
    teachers = getattr(teachers, "teachers", teachers)  # of a TeacherMerger
    found = teachers.values() if isinstance(teachers, Mapping) else teachers if isinstance(teachers, Sequence) else ()
    return [teacher[1] if isinstance(teacher, tuple) and len(teacher) == 2 else teacher for teacher in found]


def _tags_of(estimator: Any) -> Any:
    if not hasattr(estimator, "__sklearn_tags__"):  # without tags: assume the least
        return InputTags()
    try:
        return get_tags(estimator).input_tags
    except Exception:  # a Pipeline of such estimators
        return InputTags()
