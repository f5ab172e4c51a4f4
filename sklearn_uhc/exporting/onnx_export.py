"""A merged classifier as one ONNX file that runs without this library."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from sklearn_uhc.students import SoftLabelClassifier
from sklearn_uhc.utils.notes import warn_user
from sklearn_uhc.utils.response import log_proba
from sklearn_uhc.utils.rows import count_rows

__all__ = ["ExportReport", "export_onnx"]


@dataclass(frozen=True)
class ExportReport:
    """What was compared before an ONNX file was written.

    Attributes
    ----------
    path : Path
        The file.
    n_rows : int
        Number of rows on which answers were compared.
    max_error : float
        Largest difference between a probability of the file and of `predict_proba`, on X in single precision.
    n_changed_by_cast : int
        Number of rows whose probabilities `predict_proba` itself changes by more than 1e-5 when X is rounded to single
        precision. Most of them cross the threshold of a tree.
    """

    path: Path
    n_rows: int
    max_error: float
    n_changed_by_cast: int


def export_onnx(clf: Any, path: str | os.PathLike[str], X_example: Any) -> ExportReport:
    """Write a fitted classifier as an ONNX file that runs with onnxruntime alone.

    The file is complete: it includes temperature, normalisation, class names, and the steps of a Pipeline. Its outputs
    are `label`, shape (n,), and `probabilities`, shape (n, L), in the order of `classes_`. Its input is `X`, in single
    precision, or one input per column if `X_example` is a DataFrame. Nothing is written unless its answers on
    `X_example` agree with `predict_proba` to 1e-5, and its labels wherever the two most probable classes differ by
    more.

    Parameters
    ----------
    clf : HeterogeneousDistiller or SoftLabelClassifier
        The fitted classifier.
    path : str or path-like
        The file to write.
    X_example : array-like with n rows
        Rows as for `predict_proba`, if possible a few hundred real ones. They define the names and types of the
        inputs, and answers are compared on them.

    Returns
    -------
    report : ExportReport
        What was compared: `n_rows`, `max_error`, `n_changed_by_cast`.

    Examples
    --------
    >>> import onnxruntime
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn_uhc import HeterogeneousDistiller, export_onnx
    >>> X, y = load_iris(return_X_y=True)
    >>> teachers = [LogisticRegression().fit(X[y != k], y[y != k]) for k in (0, 2)]
    >>> clf = HeterogeneousDistiller(teachers, RandomForestClassifier(20, random_state=0)).fit(X)
    >>> folder = getfixture("tmp_path")
    >>> report = export_onnx(clf, folder / "iris.onnx", X)
    >>> report.n_rows, report.max_error < 1e-5
    (150, True)
    >>> session = onnxruntime.InferenceSession(folder / "iris.onnx")
    >>> label, probabilities = session.run(None, {"X": X[:2].astype("float32")})
    >>> label.tolist(), probabilities.shape
    ([0, 0], (2, 3))
    """
    student = getattr(clf, "student_", clf)
    if not isinstance(student, SoftLabelClassifier):
        raise TypeError(
            f"export_onnx needs a fitted HeterogeneousDistiller or SoftLabelClassifier, got {type(clf).__name__}. "
            "A UnifiedEnsemble needs all its teachers: train a student. For other classifiers use pack_teacher, or "
            "their own converters."
        )
    check_is_fitted(student, "estimator_")
    _check_folder(path)
    from sklearn_uhc.exporting.converters import load

    for package in ("onnx", "onnxruntime"):
        load(package)
    from sklearn_uhc.exporting.inputs import Inputs
    from sklearn_uhc.exporting.verified import TOLERANCE, convert_and_verify

    inputs = Inputs.of(X_example, "float32")
    metadata = {"classes": json.dumps(student.classes_.tolist())}
    made = convert_and_verify(student, X_example, student.classes_, inputs, metadata, single_output=True)
    changed = _count_changed(student, X_example, inputs, TOLERANCE)
    if changed:
        warn_user(
            f"The ONNX model takes its input in single precision, which changes the answer of the student itself in "
            f"{changed} of {count_rows(X_example)} example rows: their features lie within rounding of a tree's "
            "threshold. Train the student on X.astype('float32') to get the same answers everywhere."
        )
    Path(path).write_bytes(made.content)
    return ExportReport(Path(path), count_rows(X_example), made.max_error, changed)


def _count_changed(student: Any, X: Any, inputs: Any, tolerance: float) -> int:
    """Count rows whose answer changes if X is cast, with and without casting back: steps may compute in X's type."""
    name = type(student).__name__
    P = np.exp(log_proba(student, X, name))
    changed = np.zeros(len(P), dtype=bool)
    for keep_types in (True, False):
        cast = np.exp(log_proba(student, inputs.cast(X, keep_types), name))
        changed |= np.abs(P - cast).max(axis=1) > tolerance
    return int(changed.sum())


def _check_folder(path: str | os.PathLike[str]) -> None:
    """Raise an error if the folder does not exist, before the model is converted."""
    folder = Path(path).resolve().parent
    if not folder.is_dir():
        raise FileNotFoundError(f"There is no folder {str(folder)!r} to write {Path(path).name!r} to.")
