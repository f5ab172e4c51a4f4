"""What is known about teachers without labels: numbers, words, a page to send to a colleague."""

from sklearn_uhc.report.measure import TeacherReport, teacher_report

__all__ = ["TeacherReport", "teacher_report"]
