"""Export of the merged classifier to formats that run without this library."""

from sklearn_uhc.export.boosters import export_booster
from sklearn_uhc.export.onnx_export import ExportReport, export_onnx

__all__ = ["ExportReport", "export_booster", "export_onnx"]
