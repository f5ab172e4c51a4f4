"""Shared by tests of memberships: class lists, a merger, and scorers with fixed answers."""

import numpy as np

from sklearn_uhc import TeacherMerger
from tests.helpers import linear_teachers

SITES = [[0, 1, 2, 3, 4], [3, 4, 5, 6, 7], [6, 7, 8, 9, 0]]
SMALL = [["a", "b"], ["b", "c"]]


class Fixed:
    """A scorer with given answers, row by row."""

    def __init__(self, d):
        self.d = np.asarray(d)

    def predict_membership(self, X):
        return self.d


class ByFeature:
    """A scorer whose answer is the first feature."""

    def predict_membership(self, X):
        return np.asarray(X)[:, 0]


def small(n=6, **params):
    X = np.random.default_rng(1).uniform(size=(n, 3))
    return X, TeacherMerger(linear_teachers(SMALL), temperature=1.0, **params)
