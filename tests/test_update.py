"""An update with other teachers calls only these, and is what a new fit would be."""

import pickle

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier

from sklearn_uhc import HeterogeneousDistiller, TeacherMerger, UnifiedEnsemble
from tests.helpers import LinearTeacher

LISTS = {"a": [0, 1, 2, 3], "b": [2, 3, 4, 5], "c": [4, 5, 6, 7], "d": [6, 7, 8, 9], "e": [8, 9, 0, 1]}


class Counted(LogisticRegression):
    calls: list = []

    def predict_log_proba(self, X):
        Counted.calls.append((self.classes_.tolist(), len(X)))
        return super().predict_log_proba(X)


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    own = {name: np.flatnonzero(np.isin(y[:900], known)) for name, known in LISTS.items()}
    teachers = {name: Counted(max_iter=300).fit(X[rows], y[rows]) for name, rows in own.items()}
    better = Counted(max_iter=300, C=0.01).fit(X[own["a"]], y[own["a"]])
    return X[900:1300], y[900:1300], X[1300:], teachers, better


def kinds(teachers, **params):
    yield UnifiedEnsemble(teachers, **params)
    yield HeterogeneousDistiller(teachers, KNeighborsClassifier(), **params)


def test_only_new_teachers_are_called_and_the_result_is_that_of_a_new_fit(digits):
    X, _, X_test, teachers, better = digits
    few = {name: teachers[name] for name in "abcd"}
    now = {"a": better, "c": teachers["c"], "d": teachers["d"], "e": teachers["e"]}
    for clf, anew in zip(kinds(few), kinds(now), strict=True):
        clf.fit(X)
        before, Counted.calls = clf.predict(X), []
        report = clf.update({"e": teachers["e"], "a": better, "b": None})
        assert sorted(Counted.calls) == sorted([([0, 1, 2, 3], 400), ([0, 1, 8, 9], 400)])
        assert report.called == ["teacher 'a' (Counted)", "teacher 'e' (Counted)"]
        assert (report.added, report.replaced, report.removed) == (["e"], ["a"], ["b"])
        assert (report.classes_gained, report.classes_lost) == ([], [])
        assert report.moved == np.mean(before != clf.predict(X))
        assert clf.teachers.keys() == {"a", "c", "d", "e"}
        np.testing.assert_array_equal(clf.predict_proba(X_test), anew.fit(X).predict_proba(X_test))


def test_labels_and_classes(digits):
    X, y, _, teachers, _ = digits
    some = np.where(np.arange(400) % 8 == 0, y, -1)
    clf = UnifiedEnsemble({name: teachers[name] for name in "abc"}).fit(X[y < 8], some[y < 8])
    report = clf.update({"d": teachers["d"]})
    assert report.classes_gained == [8, 9]
    assert len(clf.merger_.labels_) == (some[y < 8] >= 0).sum()
    assert all(0.5 < accuracy <= 1 for accuracy in report.accuracy)
    assert "Added: ['d']. Classes gained: [8, 9]." in str(report)
    back = clf.update({"d": None})
    assert (back.called, back.classes_lost, back.removed) == ([], [8, 9], ["d"])
    assert str(back).startswith("Called no teacher. Removed: ['d'].")


def test_a_list_holds_all_teachers_and_a_merger_keeps_its_settings(digits):
    X, _, _, teachers, better = digits
    merger = TeacherMerger(list(teachers.values()), calibrate=False)
    clf = UnifiedEnsemble(merger).fit(X)
    report = clf.update([better, *list(teachers.values())[1:]])
    assert report.called == ["teacher 0 (Counted)"]
    assert clf.merger_.calibrate is False
    assert merger.teachers[0] is teachers["a"]
    with pytest.raises(ValueError, match=r"no names.*list of all"):
        clf.update({"a": better})


def test_class_lists_follow_their_teachers(digits):
    X, _, _, teachers, better = digits
    names = [[f"digit {k}" for k in known] for known in LISTS.values()]
    clf = UnifiedEnsemble(teachers, class_lists=names).fit(X)
    clf.update({"b": None, "a": better})
    assert clf.classes_.tolist() == [f"digit {k}" for k in range(10)]
    assert list(clf.class_lists) == ["a", "c", "d", "e"]


def test_after_pickling_rows_are_passed_and_the_store_has_the_answers(digits, tmp_path):
    X, _, _, teachers, better = digits
    for clf in kinds(TeacherMerger(teachers, store=tmp_path)):
        revived = pickle.loads(pickle.dumps(clf.fit(X)))
        with pytest.raises(ValueError, match="pass them as X"):
            revived.update({"a": better})
        Counted.calls = []
        report = revived.update({"a": better}, X)
        assert {tuple(labels) for labels, _ in Counted.calls} <= {(0, 1, 2, 3)}
        assert report.replaced == ["a"]
        assert (report.moved is None) == isinstance(clf, UnifiedEnsemble)


def test_a_failed_update_changes_nothing(digits):
    X, _, X_test, teachers, _ = digits
    clf = UnifiedEnsemble(teachers).fit(X)
    before, state = clf.predict_proba(X_test), dict(vars(clf))
    with pytest.raises(ValueError, match=r"no teacher .'x'. to remove"):
        clf.update({"x": None})
    with pytest.raises(Exception, match="not fitted"):
        clf.update({"x": LogisticRegression()})
    given = UnifiedEnsemble(None, class_lists=[[0, 1], [1, 2]]).fit(None, log_p=np.log(np.full((9, 4), 0.5)))
    with pytest.raises(ValueError, match="given log_p"):
        given.update({"x": LinearTeacher().fit(None)})
    assert vars(clf) == state
    np.testing.assert_array_equal(clf.predict_proba(X_test), before)
