"""A search that holds teachers out, over networks, whose number of outputs is fixed."""

import numpy as np
import pytest
import torch
from sklearn.datasets import load_iris
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sklearn_uhc import HeterogeneousDistiller, SoftLabelClassifier, TeacherHoldoutSearch

X, y = load_iris(return_X_y=True)
X = X.astype(np.float32)


def teachers_of(lists):
    return [GaussianNB().fit(X[np.isin(y, known)], y[np.isin(y, known)]) for known in lists]


class Silent(GaussianNB):
    """A teacher that must not be called."""

    def predict_log_proba(self, X):
        raise AssertionError


def test_a_network_is_refused_before_any_fit_where_classes_would_be_missing():
    lists = [[0, 1], [0, 1], [0, 1, 2]]
    teachers = [Silent().fit(X[np.isin(y, known)], y[np.isin(y, known)]) for known in lists]
    net = torch.nn.Linear(4, 3)
    for student in (net, SoftLabelClassifier(net), make_pipeline(StandardScaler(), net)):
        clf = HeterogeneousDistiller(teachers, student)
        message = r"without teacher 2, 2 of 3 classes are left. Pass as folds only teachers"
        with pytest.raises(ValueError, match=message):
            TeacherHoldoutSearch(clf, {"temperature": [1, 3]}).fit(X)


def test_a_network_is_searched_over_where_all_classes_are_left():
    clf = HeterogeneousDistiller(teachers_of([[0, 1], [1, 2], [0, 2], [0, 1, 2]]), torch.nn.Linear(4, 3))
    search = TeacherHoldoutSearch(clf, {"temperature": [1, 3]}, folds=[[3]], error_score="raise", refit=False).fit(X)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
