"""Reports of teachers and of merges: numbers, text, and an HTML page to share."""

from sklearn_uhc.inspection.report.measure import teacher_report
from sklearn_uhc.inspection.report.merge import MergeReport, merge_report
from sklearn_uhc.inspection.report.result import TeacherReport

__all__ = ["MergeReport", "TeacherReport", "merge_report", "teacher_report"]
