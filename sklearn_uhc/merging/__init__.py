"""From answers to soft labels: the five methods, calibration, class frequencies and balance, losses for networks.

Checks and warnings are here, numerics in `solvers`. May import utils, spaces, answers, solvers.
"""

from sklearn_uhc.merging.calibration import TeacherCalibrator
from sklearn_uhc.merging.cross_entropy import CrossEntropyUnifier
from sklearn_uhc.merging.factorization import LogitFactorization, ProbabilityFactorization
from sklearn_uhc.merging.method import Merged, SoftLabelMethod
from sklearn_uhc.merging.methods import METHODS, resolve_method, takes_sets
from sklearn_uhc.merging.standard_distillation import StandardDistillation

__all__ = [
    "METHODS",
    "CrossEntropyUnifier",
    "LogitFactorization",
    "Merged",
    "ProbabilityFactorization",
    "SoftLabelMethod",
    "StandardDistillation",
    "TeacherCalibrator",
    "resolve_method",
    "takes_sets",
]
