"""Merge fitted classifiers that know different classes into one classifier, with unlabelled data only."""

from sklearn_uhc.estimators import HeterogeneousDistiller, TeacherHoldoutSearch, TeacherMerger, UnifiedEnsemble
from sklearn_uhc.evidence import FindingWarning
from sklearn_uhc.exporting import export
from sklearn_uhc.labels import LabelledKFold, labelled_scorer
from sklearn_uhc.membership import fit_membership
from sklearn_uhc.merging import (
    CrossEntropyUnifier,
    LogitFactorization,
    ProbabilityFactorization,
    StandardDistillation,
    TeacherCalibrator,
)
from sklearn_uhc.packages import load_teacher, pack_teacher
from sklearn_uhc.spaces import OTHER, LabelSpace, harmonize
from sklearn_uhc.students import SoftLabelClassifier
from sklearn_uhc.teachers import FunctionTeacher, OnnxTeacher, RemoteTeacher, TeacherOutputs, TorchTeacher, read_answers

__version__ = "0.1.0"

__all__ = [
    "OTHER",
    "CrossEntropyUnifier",
    "FindingWarning",
    "FunctionTeacher",
    "HeterogeneousDistiller",
    "LabelSpace",
    "LabelledKFold",
    "LogitFactorization",
    "OnnxTeacher",
    "ProbabilityFactorization",
    "RemoteTeacher",
    "SoftLabelClassifier",
    "StandardDistillation",
    "TeacherCalibrator",
    "TeacherHoldoutSearch",
    "TeacherMerger",
    "TeacherOutputs",
    "TorchTeacher",
    "UnifiedEnsemble",
    "export",
    "fit_membership",
    "harmonize",
    "labelled_scorer",
    "load_teacher",
    "pack_teacher",
    "read_answers",
]
