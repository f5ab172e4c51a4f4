"""Reading teachers: from X to log-probabilities."""

from sklearn_uhc.teachers.onnx_teacher import OnnxTeacher
from sklearn_uhc.teachers.teacher_outputs import TeacherOutputs
from sklearn_uhc.teachers.torch_teacher import TorchTeacher

__all__ = ["OnnxTeacher", "TeacherOutputs", "TorchTeacher"]
