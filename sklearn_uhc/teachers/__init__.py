"""Reading teachers: from X to log-probabilities."""

from sklearn_uhc.teachers.teacher_outputs import TeacherOutputs

__all__ = ["TeacherOutputs"]
