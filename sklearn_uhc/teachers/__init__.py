"""Calling teachers of any kind: from X to log-probabilities, kept in a store if there is one.

May import utils, spaces, answers, merging; not students, labels, membership.
"""

from sklearn_uhc.teachers.function_teacher import FunctionTeacher
from sklearn_uhc.teachers.onnx_teacher import OnnxTeacher
from sklearn_uhc.teachers.read_answers import read_answers
from sklearn_uhc.teachers.remote_teacher import RemoteTeacher
from sklearn_uhc.teachers.teacher_outputs import TeacherOutputs
from sklearn_uhc.teachers.torch_teacher import TorchTeacher

__all__ = ["FunctionTeacher", "OnnxTeacher", "RemoteTeacher", "TeacherOutputs", "TorchTeacher", "read_answers"]
