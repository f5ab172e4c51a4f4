"""What answers show without labels: findings that `fit` warns of, the comparisons they rest on, metrics.

It changes nothing and calls no teacher. May import utils to membership, but not estimators.
"""

from sklearn_uhc.evidence.find import DOUBTED_WEIGHT, Judgement, examine, find, warn_of
from sklearn_uhc.evidence.finding import Finding, FindingWarning
from sklearn_uhc.evidence.members import accepted, find_foreign, find_only_none
from sklearn_uhc.evidence.metrics import pairwise_agreement, teacher_agreement, teacher_agreement_scorer
from sklearn_uhc.evidence.shares import find_uneven
from sklearn_uhc.evidence.wrong_labels import find_wrong_labels

__all__ = [
    "DOUBTED_WEIGHT",
    "Finding",
    "FindingWarning",
    "Judgement",
    "accepted",
    "examine",
    "find",
    "find_foreign",
    "find_only_none",
    "find_uneven",
    "find_wrong_labels",
    "pairwise_agreement",
    "teacher_agreement",
    "teacher_agreement_scorer",
    "warn_of",
]
