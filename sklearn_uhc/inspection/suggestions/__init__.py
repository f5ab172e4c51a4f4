"""Suggestions of names and columns that may mean the same class, with evidence; never applied."""

from sklearn_uhc.inspection.suggestions.result import Suggestion, Suggestions
from sklearn_uhc.inspection.suggestions.suggest import suggest_harmonization

__all__ = ["Suggestion", "Suggestions", "suggest_harmonization"]
