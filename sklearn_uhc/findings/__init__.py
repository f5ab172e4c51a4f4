"""Problems with teachers and rows that `fit` finds without labels, each with evidence and a remedy."""

from sklearn_uhc.findings.find import contradicting, find, warn_of
from sklearn_uhc.findings.members import find_foreign, find_only_none
from sklearn_uhc.findings.result import Finding, FindingWarning
from sklearn_uhc.findings.shares import find_uneven
from sklearn_uhc.findings.wrong_labels import find_wrong_labels

__all__ = [
    "Finding",
    "FindingWarning",
    "contradicting",
    "find",
    "find_foreign",
    "find_only_none",
    "find_uneven",
    "find_wrong_labels",
    "warn_of",
]
