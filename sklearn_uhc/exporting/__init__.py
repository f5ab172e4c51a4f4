"""The merged classifier in files that run without this library: ONNX and the boosters' own formats.

Every file is compared with the original before it is kept. May import all but packages and dask.
"""

from sklearn_uhc.exporting.boosters import export_booster
from sklearn_uhc.exporting.onnx_export import ExportReport, export_onnx

__all__ = ["ExportReport", "export_booster", "export_onnx"]
