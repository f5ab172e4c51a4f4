"""Whether a row belongs to a teacher's classes at all: scorers on the owner's side, and their place in the merge.

May import utils, spaces, answers; not teachers, students, labels.
"""

from sklearn_uhc.membership.scorer import MembershipScorer, fit_membership

__all__ = ["MembershipScorer", "fit_membership"]
