"""Diagnostics of teachers without labels: numbers, text, and an HTML page to share."""

from sklearn_uhc.report.measure import TeacherReport, teacher_report

__all__ = ["TeacherReport", "teacher_report"]
