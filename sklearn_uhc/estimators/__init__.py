"""What users fit: the merge, the distiller, the ensemble, and the search that holds teachers out.

Each checks its parameters and calls the rooms above; no numerics here. May import utils to evidence.
"""

from sklearn_uhc.estimators.distiller import HeterogeneousDistiller
from sklearn_uhc.estimators.ensemble import UnifiedEnsemble
from sklearn_uhc.estimators.merger import TeacherMerger
from sklearn_uhc.estimators.search import TeacherHoldoutSearch

__all__ = ["HeterogeneousDistiller", "TeacherHoldoutSearch", "TeacherMerger", "UnifiedEnsemble"]
