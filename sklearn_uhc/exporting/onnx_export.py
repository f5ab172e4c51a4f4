"""A student as one ONNX file that runs without this library."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from sklearn_uhc.estimators.lineage import KEY as LINEAGE
from sklearn_uhc.estimators.lineage import lineage_to_json
from sklearn_uhc.exporting.report import ExportReport
from sklearn_uhc.students import SoftLabelClassifier
from sklearn_uhc.utils.notes import warn_user
from sklearn_uhc.utils.response import log_proba
from sklearn_uhc.utils.rows import count_rows


def write_onnx(student: SoftLabelClassifier, path: Path, X_example: Any) -> ExportReport:
    """Write a student as an ONNX file; nothing is written unless its answers agree."""
    from sklearn_uhc.exporting.converters import load

    for package in ("onnx", "onnxruntime"):
        load(package)
    from sklearn_uhc.exporting.inputs import Inputs
    from sklearn_uhc.exporting.verified import TOLERANCE, convert_and_verify

    inputs = Inputs.of(X_example, "float32")
    metadata = {"classes": json.dumps(student.classes_.tolist())}
    if hasattr(student, "lineage_"):
        metadata[LINEAGE] = lineage_to_json(student.lineage_)
    made = convert_and_verify(student, X_example, student.classes_, inputs, metadata, single_output=True)
    changed = _count_changed(student, X_example, inputs, TOLERANCE)
    if changed:
        warn_user(
            f"The ONNX model takes its input in single precision, which changes the answer of the student itself in "
            f"{changed} of {count_rows(X_example)} example rows: their features lie within rounding of a tree's "
            "threshold. Train the student on X.astype('float32') to get the same answers everywhere."
        )
    path.write_bytes(made.content)
    return ExportReport(path, count_rows(X_example), made.max_error, changed)


def _count_changed(student: Any, X: Any, inputs: Any, tolerance: float) -> int:
    """Count rows whose answer changes if X is cast, with and without casting back: steps may compute in X's type."""
    name = type(student).__name__
    P = np.exp(log_proba(student, X, name))
    changed = np.zeros(len(P), dtype=bool)
    for keep_types in (True, False):
        cast = np.exp(log_proba(student, inputs.cast(X, keep_types), name))
        changed |= np.abs(P - cast).max(axis=1) > tolerance
    return int(changed.sum())
