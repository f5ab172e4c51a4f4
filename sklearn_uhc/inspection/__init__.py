"""What people look at: reports of teachers and merges, plots, suggestions for class names.

Nothing is fitted or changed here. May import all rooms above it, and no leaf (exporting, packages, dask).
"""

from sklearn_uhc.inspection.plots import (
    ClassOverlapDisplay,
    DistillationCurveDisplay,
    RowDisplay,
    SoftLabelDisplay,
    TeacherAgreementDisplay,
)
from sklearn_uhc.inspection.report import MergeReport, TeacherReport, merge_report, teacher_report
from sklearn_uhc.inspection.suggestions import Suggestion, Suggestions, suggest_harmonization

__all__ = [
    "ClassOverlapDisplay",
    "DistillationCurveDisplay",
    "MergeReport",
    "RowDisplay",
    "SoftLabelDisplay",
    "Suggestion",
    "Suggestions",
    "TeacherAgreementDisplay",
    "TeacherReport",
    "merge_report",
    "suggest_harmonization",
    "teacher_report",
]
