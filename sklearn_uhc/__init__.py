"""Merge fitted classifiers that know different classes into one classifier, with unlabelled data only."""

from sklearn_uhc.answers import Answers, AnswerTransformer
from sklearn_uhc.calibration import TeacherCalibrator
from sklearn_uhc.distiller import HeterogeneousDistiller
from sklearn_uhc.ensemble import UnifiedEnsemble
from sklearn_uhc.export import ExportReport, export_booster, export_onnx
from sklearn_uhc.findings import Finding, FindingWarning
from sklearn_uhc.harmonize import harmonize
from sklearn_uhc.label_space import OTHER, LabelSpace
from sklearn_uhc.labels import LabelledKFold, labelled_scorer
from sklearn_uhc.membership import MembershipScorer, fit_membership
from sklearn_uhc.merger import TeacherMerger
from sklearn_uhc.metrics import pairwise_agreement, teacher_agreement, teacher_agreement_scorer
from sklearn_uhc.packages import load_teacher, pack_teacher
from sklearn_uhc.plots import (
    ClassOverlapDisplay,
    DistillationCurveDisplay,
    SoftLabelDisplay,
    TeacherAgreementDisplay,
)
from sklearn_uhc.report import TeacherReport, teacher_report
from sklearn_uhc.search import TeacherHoldoutSearch
from sklearn_uhc.soft_labels import (
    CrossEntropyUnifier,
    LogitFactorization,
    ProbabilityFactorization,
    SoftLabelMethod,
    StandardDistillation,
)
from sklearn_uhc.students import SoftLabelClassifier
from sklearn_uhc.suggestions import Suggestion, Suggestions, suggest_harmonization
from sklearn_uhc.teachers import FunctionTeacher, OnnxTeacher, RemoteTeacher, TeacherOutputs, TorchTeacher, read_answers

__version__ = "0.1.0"

__all__ = [
    "OTHER",
    "AnswerTransformer",
    "Answers",
    "ClassOverlapDisplay",
    "CrossEntropyUnifier",
    "DistillationCurveDisplay",
    "ExportReport",
    "Finding",
    "FindingWarning",
    "FunctionTeacher",
    "HeterogeneousDistiller",
    "LabelSpace",
    "LabelledKFold",
    "LogitFactorization",
    "MembershipScorer",
    "OnnxTeacher",
    "ProbabilityFactorization",
    "RemoteTeacher",
    "SoftLabelClassifier",
    "SoftLabelDisplay",
    "SoftLabelMethod",
    "StandardDistillation",
    "Suggestion",
    "Suggestions",
    "TeacherAgreementDisplay",
    "TeacherCalibrator",
    "TeacherHoldoutSearch",
    "TeacherMerger",
    "TeacherOutputs",
    "TeacherReport",
    "TorchTeacher",
    "UnifiedEnsemble",
    "export_booster",
    "export_onnx",
    "fit_membership",
    "harmonize",
    "labelled_scorer",
    "load_teacher",
    "pack_teacher",
    "pairwise_agreement",
    "read_answers",
    "suggest_harmonization",
    "teacher_agreement",
    "teacher_agreement_scorer",
    "teacher_report",
]
