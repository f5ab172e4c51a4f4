"""Plots in scikit-learn's Display convention; matplotlib is imported when something is drawn."""

from sklearn_uhc.inspection.plots.agreement import TeacherAgreementDisplay
from sklearn_uhc.inspection.plots.curve import DistillationCurveDisplay
from sklearn_uhc.inspection.plots.overlap import ClassOverlapDisplay
from sklearn_uhc.inspection.plots.row import RowDisplay
from sklearn_uhc.inspection.plots.soft_labels import SoftLabelDisplay

__all__ = [
    "ClassOverlapDisplay",
    "DistillationCurveDisplay",
    "RowDisplay",
    "SoftLabelDisplay",
    "TeacherAgreementDisplay",
]
