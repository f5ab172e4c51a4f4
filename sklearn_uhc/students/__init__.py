"""Students: any learner, trained on soft labels.

May import utils, spaces; not teachers, labels, membership.
"""

from sklearn_uhc.students.soft_label_classifier import (
    SoftLabelClassifier,
    check_readable,
    check_routing,
    check_student,
)

__all__ = ["SoftLabelClassifier", "check_readable", "check_routing", "check_student"]
