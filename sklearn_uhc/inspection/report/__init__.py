"""Diagnostics of teachers without labels: numbers, text, and an HTML page to share."""

from sklearn_uhc.inspection.report.measure import teacher_report
from sklearn_uhc.inspection.report.result import TeacherReport

__all__ = ["TeacherReport", "teacher_report"]
