"""What is known about teachers without labels: numbers, words, a page to send to a colleague."""

from sklearn_uhc.report.measure import teacher_report
from sklearn_uhc.report.result import TeacherReport

__all__ = ["TeacherReport", "teacher_report"]
