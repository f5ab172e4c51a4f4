"""Checks of the distiller and the ensemble before and during the merge."""

import warnings
from functools import partial
from threading import Barrier, BrokenBarrierError

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier

from sklearn_uhc import (
    CrossEntropyUnifier,
    HeterogeneousDistiller,
    LogitFactorization,
    TeacherCalibrator,
    TeacherMerger,
    TeacherOutputs,
    UnifiedEnsemble,
)
from tests.helpers import Meeting, configured, linear_teachers

LISTS = [[0, 1, 2], [1, 2, 3], [0, 3, 4], [2, 4]]
X = np.random.default_rng(0).normal(size=(60, 3))


def merged(**params):
    return configured(HeterogeneousDistiller, linear_teachers(LISTS), KNeighborsClassifier(3), **params)


def test_numpys_truth_values_count_as_pythons():
    for name in ("calibrate", "balance"):
        for value in (True, False):
            expected = merged(**{name: value}).fit(X)
            found = merged(**{name: np.bool_(value)}).fit(X)
            assert (found.merger_.calibrator_ is None) == (expected.merger_.calibrator_ is None)
            assert (found.class_weight_ is None) == (expected.class_weight_ is None)
            np.testing.assert_array_equal(found.predict_proba(X), expected.predict_proba(X))
    assert merged(calibrate=np.False_).fit(X).merger_.calibrator_ is None


@pytest.mark.parametrize(
    "make",
    [TeacherOutputs, UnifiedEnsemble, partial(HeterogeneousDistiller, student=KNeighborsClassifier(3))],
    ids=["outputs", "ensemble", "distiller"],
)
def test_n_jobs_teachers_answer_at_the_same_time(make):
    def fit(n_jobs, timeout):
        gate = Barrier(2, timeout=timeout)
        return make([Meeting((0, 1, 2), seed, gate).fit(None) for seed in (0, 1)], n_jobs=n_jobs).fit(X)

    fit(n_jobs=2, timeout=60)
    with pytest.raises(BrokenBarrierError):  # one after the other, the first waits in vain
        fit(n_jobs=None, timeout=0.1)


class Untouched:
    """A teacher that must not be called."""

    def __init__(self, classes):
        self.classes_ = np.asarray(classes)

    def predict_proba(self, X):
        raise AssertionError("was asked")


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"teacher_weight": [1, 2]}, "teacher_weight has 2 numbers for 4 teachers"),
        ({"teacher_weight": [1, 2, 0, 1]}, "teacher_weight must be None or one positive number"),
        ({"method": CrossEntropyUnifier(teacher_weight=[1, 2])}, "teacher_weight has 2 numbers for 4 teachers"),
        ({"temperature": -1}, "temperature must be a positive number"),
        ({"method": LogitFactorization(scale="what")}, "scale must be"),
        ({"calibrate": TeacherCalibrator(tolerance=-1)}, "tolerance must be"),
        ({"method": "magic"}, "method must be one of"),
    ],
)
def test_wrong_parameters_are_told_before_anybody_is_asked(params, message):
    teachers = [Untouched(labels) for labels in LISTS]
    for clf in (
        configured(HeterogeneousDistiller, teachers, KNeighborsClassifier(), **params),
        configured(UnifiedEnsemble, teachers, **params),
    ):
        with pytest.raises(ValueError, match=message):
            clf.fit(X)


@pytest.mark.parametrize("calibrate", [True, False])
def test_named_answers_are_compared_with_the_class_lists(calibrate):
    outputs = TeacherOutputs(linear_teachers(LISTS)).fit(X)
    log_p = pd.DataFrame(outputs.transform(X), columns=outputs.get_feature_names_out())

    def fitted(log_p, lists):
        student = KNeighborsClassifier(3)
        return HeterogeneousDistiller(TeacherMerger(None, calibrate=calibrate), student, class_lists=lists).fit(
            X, log_p=log_p
        )

    proba = fitted(log_p, LISTS).predict_proba(X)
    np.testing.assert_array_equal(proba, fitted(log_p.to_numpy(), LISTS).predict_proba(X))
    with pytest.raises(ValueError, match=r"'teacher0__0' is where .*'1'.*outputs.class_"):
        fitted(log_p, [LISTS[1], LISTS[0], *LISTS[2:]])
    names = [[f"class {label}" for label in labels] for labels in LISTS]
    assert fitted(log_p.to_numpy(), names).classes_[0] == "class 0"
    some = log_p.iloc[:, 3:]  # a teacher may be left out
    assert fitted(some, LISTS[1:]).classes_.tolist() == [0, 1, 2, 3, 4]
    other = log_p.set_axis([f"column {i}" for i in range(11)], axis=1)
    np.testing.assert_array_equal(fitted(other, LISTS).predict_proba(X), proba)


@pytest.mark.parametrize("method", ["mf_lf", "sd"])
@pytest.mark.parametrize("calibrate", [True, False])
def test_nearly_equal_names_are_told_once(method, calibrate):
    teachers = linear_teachers([["cat", "dog", "eel"], ["Cat ", "dog", "eel"]])
    params = {"method": method, "calibrate": calibrate}
    for clf in (
        configured(HeterogeneousDistiller, teachers, KNeighborsClassifier(3), **params),
        configured(UnifiedEnsemble, teachers, **params),
    ):
        with pytest.warns(UserWarning, match=r"'cat' \(teacher 0\) and 'Cat ' \(teacher 1\).*class_lists") as told:
            clf.fit(X)
        assert [warning.filename for warning in told if warning.category is UserWarning] == [__file__]
        clf.set_params(class_lists=[None, ["cat", "dog", "eel"]]).fit(X)
        assert len(clf.classes_) == 3


@pytest.mark.parametrize("given", [False, True])
@pytest.mark.parametrize("kind", [str, object])
def test_another_order_is_told_once_in_plain_words(given, kind):
    teachers = linear_teachers([["a", "b", "c"], ["b", "c"]])
    for teacher in teachers:
        teacher.classes_ = teacher.classes_.astype(kind)
    lists = [np.array(list(map(np.str_, "bac")), dtype=kind), None]
    clf = HeterogeneousDistiller(teachers, KNeighborsClassifier(3), class_lists=lists)
    with pytest.warns(UserWarning, match=r"\['a', 'b', 'c'\] become \['b', 'a', 'c'\]") as told:
        clf.fit(X, log_p=TeacherOutputs(teachers).fit_transform(X) if given else None)
    assert [warning.filename for warning in told] == [__file__]


@pytest.mark.parametrize(
    ("lists", "message"),
    [
        ({0: [0, 1], 1: [1, 2]}, r"class_lists names unknown teachers: \[0, 1\]; .* have no names"),
        (5, "class_lists must be a list .* got 5"),
        (iter([[0, 1], [1, 2]]), r"class_lists can be read only once, got .*: pass list\(class_lists\)"),
        ([{0, 1}, {1, 2}], "Class list 0 must be an ordered list of classes, .* got {0, 1}"),
        ([3, None], "must be a list of lists, one for each of the 2 teachers"),
    ],
)
def test_wrong_class_lists_are_told_alone(lists, message):
    for clf in (
        HeterogeneousDistiller(linear_teachers([[0, 1], [1, 2]]), KNeighborsClassifier(3), class_lists=lists),
        UnifiedEnsemble(linear_teachers([[0, 1], [1, 2]]), class_lists=lists),
        TeacherOutputs(linear_teachers([[0, 1], [1, 2]]), class_lists=lists),
    ):
        with pytest.raises((TypeError, ValueError), match=message):
            clf.fit(X)


# A TeacherMerger in the place of teachers


@pytest.mark.parametrize("kind", [UnifiedEnsemble, partial(HeterogeneousDistiller, student=KNeighborsClassifier(3))])
def test_a_merger_carries_further_settings(kind):
    teachers, weight = linear_teachers(LISTS), [1, 2, 3, 4]
    merger = TeacherMerger(teachers, teacher_weight=weight, calibrate=False, temperature=2)
    clf = kind(merger, method="mf_lf").fit(X)
    assert clf.merger_.teacher_weight_.tolist() == weight
    assert clf.merger_.method_.temperature == 2
    assert type(clf.merger_.method_) is LogitFactorization
    assert clf.merger_.teachers is teachers
    assert not hasattr(merger, "method_")  # it was cloned
    Q = clone(merger).set_params(method="mf_lf", class_prior="auto").fit(X).transform(X)
    np.testing.assert_array_equal(clf.merger_.transform(X), Q)


@pytest.mark.parametrize("n_jobs", [None, 2])
def test_a_search_never_changes_the_merger_that_it_was_given(n_jobs):
    teachers, y = linear_teachers(LISTS), np.arange(60) % 5
    merger = TeacherMerger(teachers, calibrate=False)
    clf = HeterogeneousDistiller(merger, KNeighborsClassifier(3))
    grid = {"teachers__calibrate": [False, True], "method": ["ce", "mf_lf"], "student__n_neighbors": [3]}
    given = np.where(np.arange(60) % 3 == 0, y, -1)
    search = GridSearchCV(clf, grid, cv=2, n_jobs=n_jobs, error_score="raise").fit(X, given)
    assert search.best_estimator_.teachers is not merger
    assert search.best_estimator_.teachers.teachers[0] is teachers[0]
    assert clf.teachers is merger
    assert merger.get_params(deep=False) == TeacherMerger(teachers, calibrate=False).get_params(deep=False)


@pytest.mark.parametrize(
    ("params", "given"),
    [
        ({"method": "sd"}, {"method": "mf_lf"}),
        ({"temperature": 2}, {"temperature": 2}),
        ({"class_prior": np.ones(5) / 5}, {"class_prior": [0.2] * 5}),
        ({"n_jobs": 1}, {"n_jobs": 2}),
    ],
)
def test_a_setting_in_both_places_is_an_error(params, given):
    teachers = [Untouched(labels) for labels in LISTS]
    with pytest.raises(ValueError, match=f"{next(iter(params))} is given twice.*one place"):
        UnifiedEnsemble(TeacherMerger(teachers, **given), **params).fit(X)


def test_labels_of_all_rows_leave_nothing_to_the_teachers():
    clf = merged()
    y = clf.fit(X).predict(X)
    with pytest.warns(UserWarning, match="labels every row.*None into y"):
        clf.fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        clf.fit(X, np.where(np.arange(60) < 30, y, -1))


def test_frequencies_are_estimated_unless_told_or_balanced():
    teachers, prior = linear_teachers(LISTS), np.array([0.3, 0.1, 0.2, 0.2, 0.2])
    for clf, expected in (
        (UnifiedEnsemble(teachers), "auto"),
        (UnifiedEnsemble(TeacherMerger(teachers)), "auto"),
        (UnifiedEnsemble(teachers, balance=False), None),
        (UnifiedEnsemble(TeacherMerger(teachers), balance=True), None),
        (UnifiedEnsemble(TeacherMerger(teachers, class_prior="auto"), balance=False), "auto"),
        (UnifiedEnsemble(TeacherMerger(teachers, class_prior=prior), balance=True), "told"),
        (UnifiedEnsemble(teachers, class_prior=prior), "told"),
    ):
        found = clf.fit(X).merger_
        assert (found.class_scale_ is None) == (expected is None)
        if expected == "told":
            np.testing.assert_allclose(found.class_frequencies_, prior, atol=0.02)
        else:
            assert found.class_prior == expected
