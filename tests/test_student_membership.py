"""An out-of-fold student in place of scorers."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.neighbors import KNeighborsClassifier

from sklearn_uhc import HeterogeneousDistiller, TeacherMerger, TeacherOutputs, UnifiedEnsemble
from sklearn_uhc.student_membership import judge_by_student
from tests.helpers import linear_teachers


def test_a_student_in_the_place_of_scorers(sites):
    X, y, X_test, y_test, teachers, _ = sites
    params = {"student": KNeighborsClassifier(), "store_soft_labels": True}
    plain, judged = (HeterogeneousDistiller(teachers, membership=m, **params).fit(X) for m in (None, "student"))
    right = [(clf.soft_labels_.argmax(axis=1) == y).mean() for clf in (plain, judged)]
    assert right[1] > right[0]
    assert judged.score(X_test, y_test) > plain.score(X_test, y_test) - 0.01
    np.testing.assert_array_equal(judged.merger_.transform(X[:9]), plain.merger_.transform(X[:9]))
    assert clone(judged).membership == "student"
    none = HeterogeneousDistiller(teachers, membership="student", membership_weight=0, **params).fit(X)
    np.testing.assert_array_equal(none.soft_labels_, plain.soft_labels_)


def test_the_student_s_mass_is_the_membership():
    lists = [["a", "b"], ["b", "c"], ["a", "b", "c"]]
    answers = TeacherOutputs(linear_teachers(lists)).fit_answers(np.ones((2, 3)))
    S = np.array([[0.5, 0.3, 0.2], [0.1, 0.3, 0.6]])
    judged = judge_by_student(answers, S, 1.0)
    assert judged.space.n_teachers == 5  # the third knows all classes
    np.testing.assert_allclose(np.exp(judged.log_p[:, 7:]), [[0.8, 0.2, 0.5, 0.5], [0.4, 0.6, 0.9, 0.1]])


def test_only_a_distiller_has_a_student(sites):
    X, _, _, _, teachers, _ = sites
    for merge in (TeacherMerger(teachers, membership="student"), UnifiedEnsemble(teachers, membership="student")):
        with pytest.raises(ValueError, match="only HeterogeneousDistiller accepts it"):
            merge.fit(X)
    clf = HeterogeneousDistiller(teachers, KNeighborsClassifier(1), membership="student")
    with pytest.raises(ValueError, match="needs at least 5 rows, got 4"):
        clf.fit(X[:4])
    with pytest.raises(ValueError, match=r'none_label=-1 would be undetermined.*"student" cannot determine none_label'):
        clf.set_params(none_label=-1).fit(X)
