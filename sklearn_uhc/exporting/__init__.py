"""The merged classifier in files that run without this library: ONNX and the boosters' own formats.

Every file is compared with the original before it is kept. May import all but packages and dask.
"""

from sklearn_uhc.exporting.export import export
from sklearn_uhc.exporting.report import ExportReport

__all__ = ["ExportReport", "export"]
