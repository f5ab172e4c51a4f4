"""Choice of settings without labels: each teacher is held out once, and the merge of the others has to predict it."""

from sklearn_uhc.estimators.search.holdout_search import TeacherHoldoutSearch

__all__ = ["TeacherHoldoutSearch"]
