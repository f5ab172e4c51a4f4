"""The merged classifier as a file for others; the suffix says of which kind."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from sklearn.utils.validation import check_is_fitted

from sklearn_uhc.exporting.boosters import LIBRARY_OF, write_booster
from sklearn_uhc.exporting.onnx_export import write_onnx
from sklearn_uhc.exporting.report import ExportReport
from sklearn_uhc.students import SoftLabelClassifier

__all__ = ["export"]


def export(clf: Any, path: str | os.PathLike[str], X_example: Any) -> ExportReport:
    """Write a fitted classifier as a file that runs without this library.

    Nothing is written unless the answers of the file on `X_example` agree with `predict_proba` to 1e-5, and, for ONNX,
    its labels wherever the two most probable classes differ by more.

    Parameters
    ----------
    clf : HeterogeneousDistiller or SoftLabelClassifier
        The fitted classifier.
    path : str or path-like
        The file to write. The suffix chooses the kind:

        - ".onnx": any supported student, for onnxruntime alone. The file is complete: it includes temperature,
          normalisation, class names, and the steps of a Pipeline. Its outputs are `label`, shape (n,), and
          `probabilities`, shape (n, L), in the order of `classes_`. Its input is `X`, in single precision, or one input
          per column if `X_example` is a DataFrame.
        - ".txt" (LightGBM), ".json" or ".ubj" (XGBoost), ".cbm" (CatBoost): a booster's own format, for its library
          alone. The temperature is multiplied into the leaves. Classes are numbers: column l is `clf.classes_[l]`.
    X_example : array-like with n rows
        Rows as for `predict_proba`, if possible a few hundred real ones. They define the names and types of the
        inputs of an ONNX file, and answers are compared on them.

    Returns
    -------
    report : ExportReport
        What was compared: `path`, `n_rows`, `max_error`, `n_changed_by_cast`.

    Examples
    --------
    >>> import onnxruntime
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn_uhc import HeterogeneousDistiller, export
    >>> X, y = load_iris(return_X_y=True)
    >>> teachers = [LogisticRegression().fit(X[y != k], y[y != k]) for k in (0, 2)]
    >>> clf = HeterogeneousDistiller(teachers, RandomForestClassifier(20, random_state=0)).fit(X)
    >>> folder = getfixture("tmp_path")
    >>> report = export(clf, folder / "iris.onnx", X)
    >>> report.n_rows, report.max_error < 1e-5
    (150, True)
    >>> session = onnxruntime.InferenceSession(folder / "iris.onnx")
    >>> label, probabilities = session.run(None, {"X": X[:2].astype("float32")})
    >>> label.tolist(), probabilities.shape
    ([0, 0], (2, 3))

    A booster in its own format:

    >>> import lightgbm
    >>> booster = lightgbm.LGBMClassifier(n_estimators=5, verbose=-1)
    >>> clf = HeterogeneousDistiller(teachers, booster, temperature=3).fit(X)
    >>> report = export(clf, folder / "iris.txt", X)
    >>> P = lightgbm.Booster(model_file=report.path).predict(X)
    >>> bool(abs(P - clf.predict_proba(X)).max() < 1e-5)
    True
    """
    path, student = Path(path), getattr(clf, "student_", clf)
    if not isinstance(student, SoftLabelClassifier):
        raise TypeError(
            f"export needs a fitted HeterogeneousDistiller or SoftLabelClassifier, got {type(clf).__name__}. A "
            "UnifiedEnsemble needs all its teachers: train a student. For other classifiers use pack_teacher, or their "
            "own converters."
        )
    check_is_fitted(student, "estimator_")
    folder = path.resolve().parent
    if not folder.is_dir():
        raise FileNotFoundError(f"There is no folder {str(folder)!r} to write {path.name!r} to.")
    if path.suffix == ".onnx":
        return write_onnx(student, path, X_example)
    if path.suffix in LIBRARY_OF:
        return write_booster(student, path, X_example)
    raise ValueError(f"The suffix of {path.name!r} must be one of .onnx, {', '.join(LIBRARY_OF)}.")
