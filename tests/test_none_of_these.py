"""The class "none of these" in a merge."""

import numpy as np
import pytest
from sklearn.datasets import make_blobs
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.neighbors import KNeighborsClassifier

from sklearn_uhc import OTHER, HeterogeneousDistiller, TeacherMerger, TeacherOutputs, UnifiedEnsemble
from sklearn_uhc.estimators.targets import known_weights
from sklearn_uhc.inspection.plots import SoftLabelDisplay
from sklearn_uhc.labels import Labels
from sklearn_uhc.merging.scales import temper_rest
from tests.helpers import linear_teachers
from tests.memberships import SMALL, ByFeature, Fixed, small


def test_none_of_these_is_a_class_of_its_own(sites):
    X, _, X_test, y_test, teachers, scorers = sites
    known = [0, 1]  # nobody knows 8 and 9
    params = {"membership": [scorers[i] for i in known], "none_label": -1}
    few = [teachers[i] for i in known]
    foreign = np.isin(y_test, [8, 9])
    clf = UnifiedEnsemble(few, **params).fit(X)
    assert clf.classes_.tolist() == [-1, 0, 1, 2, 3, 4, 5, 6, 7]
    assert roc_auc_score(foreign, clf.predict_proba(X_test)[:, 0]) > 0.85
    assert clf.score(X_test[~foreign], y_test[~foreign]) > 0.7
    assert clf.score(X_test) < 0  # agreement with the teachers, who do not know of it
    student = HeterogeneousDistiller(few, KNeighborsClassifier(), **params).fit(X)
    assert student.classes_.tolist() == clf.classes_.tolist()
    assert roc_auc_score(foreign, student.predict_proba(X_test)[:, 0]) > 0.85
    assert student.score(X_test) < 0
    SoftLabelDisplay.from_estimator(student, X_test[:20])


def test_none_of_these_leaves_the_class_frequencies():
    """Rows that are imbalanced stay so, with or without "none of these"."""
    X, y = make_blobs(4000, 6, centers=4, cluster_std=3.0, random_state=0)
    lists = [[0, 1, 2], [1, 2, 3], [3, 0, 1]]
    own = [np.flatnonzero(np.isin(y[:600], known)) for known in lists]
    teachers = [LogisticRegression(max_iter=500).fit(X[rows], y[rows]) for rows in own]
    rest = np.arange(600, 4000)
    rows = rest[np.random.default_rng(0).random(len(rest)) < np.array([1, 0.5, 0.1, 0.03])[y[rest]]]
    scorers = [Knows(X, np.isin(y, known)) for known in lists]
    plain = UnifiedEnsemble(teachers, membership=scorers).fit(X[rows])
    none = UnifiedEnsemble(teachers, membership=scorers, none_label=-1).fit(X[rows])
    found = none.merger_.class_frequencies_
    np.testing.assert_allclose(found[1:] / found[1:].sum(), plain.merger_.class_frequencies_, atol=0.02)
    assert none.score(X[rows], y[rows]) > plain.score(X[rows], y[rows]) - 0.02


class Knows:
    """A scorer that knows the rows, nearly."""

    def __init__(self, X, inside):
        self.inside = dict(zip(map(bytes, X), inside, strict=True))

    def predict_membership(self, X):
        return np.array([0.95 if self.inside[bytes(row)] else 0.05 for row in X])


def test_classes_that_only_labels_have_are_not_taken_for_none(sites):
    X, y, X_test, y_test, teachers, scorers = sites
    given = np.where(np.arange(len(y)) < 150, y.astype(object), None)
    with pytest.warns(UserWarning, match="classes that no teacher knows"):
        clf = UnifiedEnsemble(teachers[:2], membership=scorers[:2], none_label=-1).fit(X, given)
    foreign = y_test > 7
    assert (clf.predict(X_test[foreign]) == -1).mean() < 0.3
    assert clf.score(X_test[foreign], y_test[foreign]) > 0.6


@pytest.mark.parametrize("none", [-1, 99])
def test_rows_on_which_all_teachers_are_silent_may_be_none_of_these(sites, none):
    """Then scorers decide alone, whatever the class is called."""
    X, _, X_test, y_test, teachers, scorers = sites
    few = [Quiet(*pair) for pair in zip(teachers[:2], scorers[:2], strict=True)]
    clf = UnifiedEnsemble(TeacherMerger(few, abstain=True), membership=scorers[:2], none_label=none).fit(X)
    assert (clf.predict(X_test[y_test > 7]) == none).mean() > 0.8
    student = HeterogeneousDistiller(
        TeacherMerger(few, abstain=True), KNeighborsClassifier(), membership=scorers[:2], none_label=none
    )
    assert (student.fit(X).predict(X_test[y_test > 7]) == none).mean() > 0.6


class Quiet:
    """A teacher that is silent where its scorer says that a row is not its own."""

    def __init__(self, teacher, scorer):
        self.teacher, self.scorer, self.classes_ = teacher, scorer, teacher.classes_

    def predict_proba(self, X):
        own = self.scorer.predict_membership(X) >= 0.5
        return np.where(own[:, None], self.teacher.predict_proba(X), np.nan)


def test_none_of_these_keeps_its_probability_where_others_have_none():
    Q, known = np.array([[0.2, 0.8, 0.0], [0.5, 0.0, 0.5], [1.0, 0.0, 0.0]]), np.array([[False, True, True]])
    tempered = temper_rest(Q, known, 2.0)
    assert np.isfinite(tempered).all()
    np.testing.assert_allclose(tempered.sum(axis=1), 1)
    untempered = tempered**2 / (tempered**2).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(untempered[:, 0], Q[:, 0], atol=1e-9)


def test_other_is_enough_for_none_of_these():
    X = np.random.default_rng(0).normal(size=(7, 3))
    teachers, lists = linear_teachers([range(3), range(2)]), [["a", "b", OTHER], ["a", "b"]]
    merger = TeacherMerger(teachers, class_lists=lists, none_label="none", class_prior=None).fit(X)
    assert merger.classes_.tolist() == ["a", "b", "none"]
    plain = TeacherMerger(teachers, class_lists=[["a", "b", "none"], ["a", "b"]], class_prior=None)
    expected = plain.fit_transform(X)
    np.testing.assert_allclose(merger.transform(X), expected, atol=1e-7)
    with pytest.raises(TypeError, match=r"\[0\], .*must have the type of"):
        merger.set_params(none_label=0).fit(X)
    with pytest.raises(ValueError, match=r"none_label must be .*got nan"):
        merger.set_params(none_label=float("nan")).fit(X)


def test_fit_warns_if_none_of_these_rests_on_one_column(sites):
    X, _, _, _, teachers, scorers = sites
    with pytest.warns(UserWarning, match="none_label=-1 rests on .*membership of teacher 0"):
        TeacherMerger(teachers[:2], membership=[scorers[0], None], none_label=-1).fit(X)
    lists = [[*teachers[0].classes_.tolist()[:-1], OTHER], teachers[1].classes_]
    with pytest.warns(UserWarning, match="none_label=-1 rests on .*OTHER of teacher 0"):
        TeacherMerger(teachers[:2], class_lists=lists, none_label=-1).fit(X)


def test_rows_that_belong_nowhere_hardly_count(sites):
    X, y, _, _, teachers, scorers = sites
    clf = HeterogeneousDistiller(
        teachers[:2],
        KNeighborsClassifier(),
        membership=scorers[:2],
        none_label=-1,
        temperature=1.0,
        balance=False,
    ).fit(X)
    Q = clf.merger_.transform(X)
    none = Q[:, 0]
    assert none[np.isin(y, [8, 9])].mean() > 0.5 > 0.3 > none[y < 8].mean()
    weighted = HeterogeneousDistiller(
        teachers[:2], KNeighborsClassifier(), membership=scorers[:2], none_label=-1, temperature=1.0, balance=True
    ).fit(X)
    by_hand = 1 / np.average(Q, axis=0, weights=1 - none)
    np.testing.assert_allclose(weighted.class_weight_[1:], by_hand[1:], rtol=1e-6)
    assert weighted.class_weight_[0] == np.median(weighted.class_weight_[1:])


@pytest.mark.parametrize(
    ("none", "error", "message"),
    [
        ("a", ValueError, "'a' is already a class of a teacher"),
        (0, TypeError, "none_label=0 must have the type of the classes"),
        (("x", "y"), ValueError, "none_label must be one label"),
        (OTHER, ValueError, "none_label must be one label"),
        (["x"], ValueError, "none_label must be one label"),
    ],
)
def test_what_is_wrong_with_none_label_is_said(none, error, message):
    X, merger = small(membership=[ByFeature(), None], none_label=none)
    with pytest.raises(error, match=message):
        merger.fit(X)


def test_none_of_these_must_be_determined():
    for params in ({}, {"membership": [ByFeature(), None], "membership_weight": 0}):
        X, merger = small(none_label="none", **params)
        with pytest.raises(ValueError, match="none_label='none' would be undetermined"):
            merger.fit(X)


def test_none_of_these_is_as_likely_as_scorers_say_at_every_temperature():
    d = np.linspace(0.05, 0.95, 6)
    params = {"membership": [Fixed(d), Fixed(1 - d)], "none_label": "none", "calibrate": False, "class_prior": None}
    X, merger = small(**params)
    log_p = TeacherOutputs(merger.teachers).fit_transform(X)
    hot = TeacherMerger(None, class_lists=SMALL, temperature=4.0, **params).fit_transform(X, log_p=log_p)
    params["membership_weight"] = 1 / 4
    one = TeacherMerger(None, class_lists=SMALL, temperature=1.0, **params).fit_transform(X, log_p=log_p / 4)
    sharp = hot**4 / (hot**4).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(sharp[:, 3], one[:, 3], atol=1e-7)
    np.testing.assert_allclose(hot[:, :2] / hot[:, 1:3], one[:, :2] / one[:, 1:3], rtol=1e-5)


def test_rows_labelled_none_of_these_count(sites):
    """With a label for every row the student learns "none" like any other class."""
    X, y, X_test, y_test, teachers, scorers = sites
    labels, truth = np.where(y > 7, 99, y), np.where(y_test > 7, 99, y_test)
    student = KNeighborsClassifier()
    clf = HeterogeneousDistiller(teachers[:2], student, membership=scorers[:2], none_label=99).fit(X, labels)
    assert clf.score(X_test, truth) > KNeighborsClassifier().fit(X, labels).score(X_test, truth) - 0.02
    assert (clf.predict(X_test) == 99).sum() > 0.8 * (truth == 99).sum()


def test_labelled_rows_count_in_full():
    Q, classes = np.array([[0.9, 0.1], [0.9, 0.1], [0.2, 0.8]]), np.array([-1, 0])
    only_known = Labels(np.array([0]), np.array([1]), classes, np.zeros(2, dtype=bool), 3)
    np.testing.assert_allclose(known_weights(Q, classes, -1, 1.0, None, only_known), [1, 0.1, 0.8])
    with_none = Labels(np.array([0]), np.array([0]), classes, np.zeros(2, dtype=bool), 3)
    assert known_weights(Q, classes, -1, 1.0, None, with_none) is None
