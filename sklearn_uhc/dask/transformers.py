"""Transformers on Dask collections: fitted on a sample, applied lazily block by block."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn import get_config
from sklearn.utils.validation import check_is_fitted

from sklearn_uhc.answers import remembering
from sklearn_uhc.answers.check import read_log_p
from sklearn_uhc.dask.blocks import is_frame, map_rows
from sklearn_uhc.dask.outputs import merger_for_workers, outputs_for_workers
from sklearn_uhc.dask.sampling import check_columns, rows_of_calibrator, sample
from sklearn_uhc.estimators.merger import TeacherMerger
from sklearn_uhc.teachers import TeacherOutputs
from sklearn_uhc.teachers.input import check_input


def fit(estimator: Any, X: Any, y: Any = None, **kwargs: Any) -> Any:
    """Fit on a sample of rows."""
    fit_on_sample(estimator, X, y, **kwargs)
    return estimator


def fit_on_sample(estimator: Any, X: Any, y: Any = None, **kwargs: Any) -> NDArray[np.int_]:
    """Fit on evenly spaced rows in memory, and return the number of rows of each block."""
    refuse_given(y=y, **kwargs)
    some, lengths = sample(X, rows_of_calibrator(getattr(estimator, "calibrate", estimator)))
    estimator.fit(remembering(some, X.label_space) if hasattr(X, "label_space") else some)
    outputs = getattr(estimator, "teacher_outputs_", estimator)
    if hasattr(outputs, "_kept"):
        outputs._kept = None  # these are rows of a sample
    return lengths


def fit_transform(estimator: Any, X: Any, y: Any = None, **kwargs: Any) -> Any:
    """Fit on a sample of rows, and return all rows transformed, lazily."""
    fit(estimator, X, y, **kwargs)
    return transform(estimator, X)


def transform(estimator: Any, X: Any) -> Any:
    """Return the transformed blocks, lazily."""
    _refuse_containers(estimator)
    if isinstance(estimator, TeacherOutputs):
        check_is_fitted(estimator, "floor_")
        check_columns(estimator, X, check_input)
        light: Any = outputs_for_workers(estimator, estimator.store)
        return _remember(_mapped(light, "transform", X, np.dtype(float)), estimator.label_space_)
    if isinstance(estimator, TeacherMerger):
        check_is_fitted(estimator, "method_")
        check_columns(estimator, X, check_input)
        return _mapped(merger_for_workers(estimator), "transform", X, np.dtype(float))
    check_is_fitted(estimator, "label_space_")
    check_columns(estimator, X, read_log_p)
    out = _mapped(estimator, "transform", X, _float_of(X))
    return out if hasattr(estimator, "classes_") else _remember(out, estimator.label_space_)


def reconciliation_error(estimator: Any, X: Any) -> Any:
    """Return the reconciliation error of every row, lazily."""
    check_is_fitted(estimator, "label_space_")
    return map_rows(estimator, "reconciliation_error", X, np.empty(0, _float_of(X)), "reconciliation_error")


def refuse_given(**given: Any) -> None:
    """Raise an error for arguments that are not supported with Dask collections."""
    for name, value in given.items():
        if value is not None:
            raise ValueError(
                f"{name} is not supported with a Dask collection: leave it out, or compute X first and fit in memory."
            )


def _mapped(estimator: Any, method: str, X: Any, dtype: np.dtype[Any]) -> Any:
    names = [str(name) for name in estimator.get_feature_names_out()]
    return map_rows(estimator, method, X, np.empty((0, len(names)), dtype), names)


def _float_of(X: Any) -> np.dtype[Any]:
    """Return the float type of a method's output, which is that of its input."""
    single = (X.dtypes == np.float32).all() if is_frame(X) else X.dtype == np.float32
    return np.dtype(np.float32 if single else np.float64)


def _remember(collection: Any, space: Any) -> Any:
    """Store the meaning of a collection's columns with it, for the next step of a Pipeline."""
    collection.label_space = space
    return collection


def _refuse_containers(estimator: Any) -> None:
    """Raise an error if `set_output` asks for a table, which would have to be in memory."""
    config = getattr(estimator, "_sklearn_output_config", {})
    wanted = config.get("transform", get_config()["transform_output"])
    if wanted != "default":
        raise ValueError(
            f"set_output(transform={wanted!r}) needs a table in memory, but X is a Dask collection: use 'default'. "
            "A Dask DataFrame gives a Dask DataFrame with named columns."
        )
