"""What people look at: the report of the teachers, plots, suggestions for class names.

Nothing is fitted or changed here. May import all rooms above it, and no leaf (exporting, packages, dask).
"""

from sklearn_uhc.inspection.plots import (
    ClassOverlapDisplay,
    DistillationCurveDisplay,
    SoftLabelDisplay,
    TeacherAgreementDisplay,
)
from sklearn_uhc.inspection.report import TeacherReport, teacher_report
from sklearn_uhc.inspection.suggestions import Suggestion, Suggestions, suggest_harmonization

__all__ = [
    "ClassOverlapDisplay",
    "DistillationCurveDisplay",
    "SoftLabelDisplay",
    "Suggestion",
    "Suggestions",
    "TeacherAgreementDisplay",
    "TeacherReport",
    "suggest_harmonization",
    "teacher_report",
]
