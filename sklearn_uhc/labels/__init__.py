"""Labels of some rows: reading them from y, learning from them beside a merge, folds and scores.

May import utils, spaces, answers; not teachers, students, membership.
"""

from sklearn_uhc.labels.folds import LabelledKFold
from sklearn_uhc.labels.pool import Pool, fit_pool
from sklearn_uhc.labels.reading import Labels, is_labelled, read_labels
from sklearn_uhc.labels.scorer import labelled_part, labelled_scorer

__all__ = [
    "LabelledKFold",
    "Labels",
    "Pool",
    "fit_pool",
    "is_labelled",
    "labelled_part",
    "labelled_scorer",
    "read_labels",
]
