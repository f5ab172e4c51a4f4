"""What an export reports."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class ExportReport:
    """What was compared before a file was written.

    Attributes
    ----------
    path : Path
        The file.
    n_rows : int
        Number of rows on which answers were compared.
    max_error : float
        Largest difference between a probability of the file and of `predict_proba`; for ONNX on X in single precision.
    n_changed_by_cast : int
        Number of rows whose probabilities `predict_proba` itself changes by more than 1e-5 when X is rounded to single
        precision, as ONNX files need. Most of them cross the threshold of a tree.

    Examples
    --------
    >>> from sklearn_uhc.exporting import ExportReport
    >>> ExportReport("merged.onnx", n_rows=500, max_error=2e-7).n_changed_by_cast
    0
    """

    path: Path
    n_rows: int
    max_error: float
    n_changed_by_cast: int = 0
