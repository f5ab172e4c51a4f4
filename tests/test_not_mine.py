"""Scorers of "not mine" in a merge."""

import pickle
import sys
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.tree import DecisionTreeClassifier

from sklearn_uhc import (
    OTHER,
    CrossEntropyUnifier,
    FindingWarning,
    FunctionTeacher,
    HeterogeneousDistiller,
    TeacherMerger,
    TeacherOutputs,
    UnifiedEnsemble,
    fit_membership,
    load_teacher,
    pack_teacher,
)
from sklearn_uhc.inspection import teacher_report
from sklearn_uhc.membership import MembershipScorer
from sklearn_uhc.membership.out_of_list import LEAST
from tests.helpers import SET_METHODS, linear_teachers, random_outputs
from tests.memberships import SITES, SMALL, ByFeature, Fixed, small


class Broken:
    def predict_membership(self, X):
        raise IndexError("no such row")


def test_scorers_of_owners_help_labels_and_students(sites):
    X, y, X_test, y_test, teachers, scorers = sites
    plain = TeacherMerger(teachers).fit_transform(X).argmax(axis=1)
    merger = TeacherMerger(teachers, membership=scorers).fit(X)
    with_scorers = merger.transform(X).argmax(axis=1)
    assert (with_scorers == y).mean() > (plain == y).mean() + 0.01
    fits = [
        HeterogeneousDistiller(teachers, KNeighborsClassifier(), membership=m).fit(X).score(X_test, y_test)
        for m in (None, scorers)
    ]
    assert fits[1] > fits[0]
    ensembles = [UnifiedEnsemble(teachers, membership=m).fit(X).score(X_test, y_test) for m in (None, scorers)]
    assert ensembles[1] > ensembles[0]


def test_fit_warns_of_rows_that_no_scorer_takes_for_its_own():
    def scorers(share):
        """Return scorers that take a share of 120 rows for nobody's, the others for the first teacher's."""
        return [Fixed(np.where(np.arange(120) < 120 * share, 0.3, 0.9)), Fixed(np.full(120, 0.2))]

    X, merger = small(120, membership=scorers(0.5))
    with pytest.warns(FindingWarning, match="scorers take 50%"):
        merger.fit(X)
    assert [finding.kind for finding in merger.findings_] == ["foreign"]
    # Warnings are errors here: none is given for fewer such rows, with "none of these", or where one has no scorer.
    for params in ({"membership": scorers(0.25)}, {"none_label": "none"}, {"membership": [scorers(0.5)[0], None]}):
        assert not clone(merger).set_params(**params).fit(X).findings_


@pytest.mark.filterwarnings("ignore:none_label='none' rests on one column")
@pytest.mark.parametrize("make", [clone, UnifiedEnsemble, HeterogeneousDistiller])
@pytest.mark.parametrize("second", [0.1, None])
def test_fit_warns_of_rows_that_are_all_none_of_these(make, second):
    X, merger = small(100, none_label="none")
    student = [KNeighborsClassifier(1)] if make is HeterogeneousDistiller else []

    def fit(n_known):
        """Fit where the first scorer takes some rows for its own, and the second none of them, or does not exist."""
        scorers = [Fixed(np.where(np.arange(100) < n_known, 0.9, 0.01)), second and Fixed(np.full(100, second))]
        clf = make(merger.set_params(membership=scorers, membership_weight=5.0), *student)
        return clf.fit(X)

    with pytest.warns(FindingWarning, match="look foreign.* 100% of them.*add rows like those") as said:
        clf = fit(0)
    assert sum(issubclass(one.category, FindingWarning) for one in said) == 1
    assert [finding.kind for finding in getattr(clf, "merger_", clf).findings_] == ["foreign"]
    fit(5)  # warnings are errors: where some rows are of known classes, foreign ones are what none_label is for


def test_the_report_says_that_no_scorer_takes_rows_for_its_own():
    X, merger = small(120)
    scorers = [Fixed(np.full(120, 0.3)), Fixed(np.full(120, 0.2))]
    with pytest.warns(FindingWarning) as said:
        clone(merger).set_params(membership=scorers).fit(X)
    report = teacher_report(merger.teachers, X, membership=scorers)
    assert str(said[0].message) in report["warnings"]
    for teacher, scorer in zip(merger.teachers, scorers, strict=True):
        teacher.membership_ = scorer
    assert [finding["kind"] for finding in teacher_report(merger.teachers, X)["findings"]] == ["foreign"]
    for params in ({"membership": None}, {"membership": [scorers[0], None]}):
        findings = teacher_report(merger.teachers, X, **params)["findings"]
        assert "foreign" not in [finding["kind"] for finding in findings]
    with pytest.raises(ValueError, match="Memberships need X"):
        teacher_report(log_p=np.zeros((120, 4)), class_lists=SMALL, membership=scorers)


def test_scorers_explain_why_teachers_contradict_each_other():
    lists = [[0, 1, 2, 3], [2, 3, 4, 5], [4, 5, 0, 1], [1, 2, 4, 5], [2, 5, 3, 0]]  # the last in the wrong order
    right = [*lists[:4], [0, 3, 5, 2]]
    log_p, X = random_outputs(np.random.default_rng(0), right, 400, spread=2.5, noise=0.7), np.zeros((400, 1))
    found = []
    for d in (0.9, 0.2):
        merger = TeacherMerger(None, class_lists=lists, membership=[Fixed(np.full(400, d))] * 5)
        with pytest.warns(FindingWarning):
            merger.fit(X, log_p=log_p)
        found += [finding.kind for finding in merger.findings_]
    assert found == ["contradiction", "foreign"]


@pytest.mark.parametrize("method", SET_METHODS)
def test_a_membership_is_one_more_teacher_with_two_columns(method):
    d = np.array([0.9, 0.5, 0.1, 1.0, 0.0, 0.7])
    X, merger = small(method=method, membership=[Fixed(d), None], membership_weight=0.5, calibrate=False)
    Q = merger.fit_transform(X)
    log_p = TeacherOutputs(merger.teachers).fit_transform(X)
    kept = np.clip(d, LEAST, 1 - LEAST)[:, None]
    lists = [*SMALL, [("a", "b"), OTHER]]
    answers = np.hstack([log_p, np.log(kept), np.log(1 - kept)])
    by_hand = clone(merger.method_).set_params(class_lists=lists, teacher_weight=[1, 1, 0.5], temperature=1.0)
    np.testing.assert_allclose(Q, by_hand.fit_transform(answers), atol=1e-9)
    np.testing.assert_allclose(merger.transform(X), Q, atol=1e-9)


@pytest.mark.parametrize("method", SET_METHODS)
def test_all_methods_take_real_scorers(sites, method):
    X, y, _, _, teachers, scorers = sites
    merged = [
        TeacherMerger(teachers, method=method, membership=m).fit_transform(X[:300]).argmax(axis=1)
        for m in (None, scorers)
    ]
    assert (merged[1] == y[:300]).mean() > (merged[0] == y[:300]).mean()


def test_teachers_carry_their_scorers(sites):
    X, _, _, _, teachers, scorers = sites
    carrying = [pickle.loads(pickle.dumps(teacher)) for teacher in teachers]
    for teacher, scorer in zip(carrying, scorers, strict=True):
        teacher.membership_ = scorer
    Q = TeacherMerger(teachers, membership=scorers).fit_transform(X[:50])
    np.testing.assert_array_equal(TeacherMerger(carrying).fit_transform(X[:50]), Q)
    frozen = [FrozenEstimator(teacher) for teacher in carrying]
    np.testing.assert_array_equal(TeacherMerger(frozen).fit_transform(X[:50]), Q)
    plain = TeacherMerger(teachers).fit(X[:50])
    assert plain.memberships_ is None
    np.testing.assert_array_equal(
        TeacherMerger(carrying, membership=None).fit_transform(X[:50]), plain.transform(X[:50])
    )


def test_packages_bring_their_scorers(tmp_path):
    pytest.importorskip("onnxruntime")
    pytest.importorskip("skl2onnx")
    X = np.random.default_rng(0).normal(size=(80, 3)).astype(np.float32)
    y, inside = (X[:, 1] > 0).astype(int), LogisticRegression().fit(X, X[:, 0] > 0)
    pack_teacher(LogisticRegression().fit(X, y), tmp_path / "a.teacher", X_example=X[:5], membership=inside)
    teachers = [load_teacher(tmp_path / "a.teacher"), LogisticRegression().fit(X, y + 1)]
    merger = TeacherMerger(teachers).fit(X)
    np.testing.assert_allclose(merger.memberships_.read(X)[:, 0], inside.predict_proba(X)[:, 1], atol=1e-6)


def test_auto_leaves_arrays_of_that_name_alone():
    X, merger = small()
    merger.teachers[0].membership_ = np.ones((6, 2))  # as fuzzy clustering calls it
    assert merger.fit(X).memberships_ is None


def test_scorers_by_name_are_put_in_order(sites):
    X, _, _, _, teachers, scorers = sites
    named = dict(zip(["north", "south", "west"], teachers, strict=True))
    by_name = TeacherMerger(named, membership={"west": scorers[2], "north": scorers[0]}).fit(X[:60])
    in_order = TeacherMerger(teachers, membership=[scorers[0], None, scorers[2]]).fit(X[:60])
    np.testing.assert_array_equal(by_name.transform(X[:60]), in_order.transform(X[:60]))
    assert by_name.memberships_.space.teacher_names[3:] == ["membership of north", "membership of west"]
    assert by_name.label_space_.n_teachers == 3
    with pytest.raises(ValueError, match=r"unknown teachers: .'east'.*'north', 'south', 'west'"):
        TeacherMerger(named, membership={"east": scorers[0]}).fit(X)


def test_weight_zero_leaves_memberships_out():
    X, merger = small(membership=[ByFeature(), None], membership_weight=0)
    np.testing.assert_array_equal(
        merger.fit_transform(X), TeacherMerger(merger.teachers, temperature=1).fit_transform(X)
    )


def test_weight_is_relative_to_the_trust_in_teachers():
    X, merger = small(membership=[ByFeature(), None], membership_weight=0.5)
    Q = merger.fit_transform(X)
    np.testing.assert_allclose(merger.set_params(teacher_weight=[7, 7]).fit_transform(X), Q, atol=1e-10)
    assert merger.teacher_weight_.tolist() == [7, 7]


def test_memberships_are_never_calibrated_nor_scored_as_teachers(sites):
    X, _, _, _, teachers, scorers = sites
    plain, merged = (UnifiedEnsemble(teachers, membership=m).fit(X) for m in (None, scorers))
    temperatures = [clf.merger_.calibrator_.temperatures_ for clf in (plain, merged)]
    np.testing.assert_array_equal(*temperatures)
    assert merged.merger_.answers(X).space.n_teachers == 3
    assert merged.score(X) < 0
    alone = linear_teachers([["a"], ["a", "b"]])  # a list of one: both columns of the membership mean one class
    merger = TeacherMerger(alone, membership=[ByFeature(), None], calibrate=True)
    merger.fit(np.random.default_rng(0).uniform(size=(40, 3)))
    assert merger.calibrator_.temperatures_.shape == (2,)


def test_a_teacher_of_all_classes_says_nothing():
    X, lists = np.random.default_rng(0).uniform(size=(8, 3)), [["a", "b", "c"], ["b", "c"]]
    teachers = linear_teachers(lists)
    merger = TeacherMerger(teachers, membership=[ByFeature(), ByFeature()])
    with pytest.warns(UserWarning, match="membership of teacher 0 is ignored"):
        merger.fit(X)
    assert merger.memberships_.whose == [1]
    teachers[0].membership_ = ByFeature()
    assert TeacherMerger(teachers).fit(X).memberships_ is None  # without a word: nobody asked for it
    assert TeacherMerger(teachers, none_label="none").fit(X).memberships_.whose == [0]


@pytest.mark.filterwarnings("ignore:A search without labels:UserWarning")
def test_a_frozen_scorer_stays_fitted_in_a_grid():
    X, merger = small()
    scorer = MembershipScorer(LogisticRegression()).fit(X[:3].repeat(5, axis=0), X.repeat(5, axis=0))
    ensemble = UnifiedEnsemble(merger.teachers)
    with pytest.raises(NotFittedError, match="FrozenEstimator"):
        GridSearchCV(ensemble, {"membership": [[scorer, None]]}, cv=2, error_score="raise").fit(X.repeat(4, axis=0))
    grid = {"membership": [[FrozenEstimator(scorer), None]]}
    found = GridSearchCV(ensemble, grid, cv=2, error_score="raise").fit(X.repeat(4, axis=0))
    assert found.best_estimator_.merger_.memberships_.whose == [0]


@pytest.mark.parametrize("carried", [lambda X: X[:, 0], "mine", MembershipScorer])
def test_a_teacher_with_a_membership_that_is_no_scorer_is_named(carried):
    X, merger = small()
    merger.teachers[1].membership_ = carried
    with pytest.raises(TypeError, match="teacher 1 must be a fitted scorer"):
        merger.fit(X)
    merger.teachers[1].membership_ = None
    assert merger.fit(X).memberships_ is None


@pytest.mark.parametrize(
    ("membership", "error", "message"),
    [
        ("yes", ValueError, "membership must be None"),
        (5, TypeError, "membership must be None"),
        ([None], ValueError, "1 entries for 2 teachers"),
        ([None, MembershipScorer], TypeError, "teacher 1 must be a fitted scorer"),
        ([None, LogisticRegression()], TypeError, "membership of teacher 1 must be"),
        ([None, MembershipScorer()], NotFittedError, "scorer of teacher 1 is not fitted.*FrozenEstimator"),
        (
            [None, Fixed([0.5, 0.5])],
            ValueError,
            r"per row; the membership scorer of teacher 1.*\(2,\) for 6",
        ),
        ([None, Fixed(np.full((6, 1), 0.5))], ValueError, r"one number per row.*teacher 1"),
        ([None, Fixed(["a"] * 6)], ValueError, "one number per row"),
        ([None, Fixed([0.5, 0.5, np.nan, 0, 0, 0])], ValueError, "teacher 1.* nan for row 2"),
        ([Fixed([0.5, 0.5, 0, 0, 0, 1.1]), None], ValueError, "teacher 0.* 1.1 for row 5"),
    ],
)
def test_what_is_wrong_with_a_scorer_is_said(membership, error, message):
    X, merger = small(membership=membership)
    with pytest.raises(error, match=message):
        merger.fit(X)
    assert not hasattr(merger, "method_")


def test_a_scorer_that_does_not_work_is_found_before_teachers_are_called():
    called = []

    class Watched:
        classes_ = np.array(["b", "c"])

        def predict_proba(self, X):
            called.append(len(X))
            return np.full((len(X), 2), 0.5)

    X, merger = small()
    wrong = [None, Fixed([0.5, 2.0, 0.5, 0.5, 0.5, 0.5])]
    with pytest.raises(ValueError, match="gave 2 for row 1"):
        UnifiedEnsemble([merger.teachers[0], Watched()], membership=wrong).fit(X)
    assert called == []


@pytest.mark.skipif(sys.version_info < (3, 11), reason="errors take no notes")
def test_a_scorer_that_fails_is_named():
    X, merger = small(membership={"teacher1": Broken()})
    with pytest.raises(IndexError) as caught:
        merger.fit(X)
    assert caught.value.__notes__ == ["This came from the membership scorer of teacher 1."]


@pytest.mark.parametrize("weight", [-1, np.nan, np.inf, True, "1", None])
def test_the_weight_is_checked(weight):
    X, merger = small(membership_weight=weight)
    with pytest.raises(ValueError, match="membership_weight must be a number"):
        merger.fit(X)


def test_clone_and_pickle_keep_scorers(sites):
    X, _, _, _, teachers, scorers = sites
    clf = UnifiedEnsemble(TeacherMerger(teachers, membership_weight=0.3), membership=scorers).fit(X[:50])
    copied = clone(clf)
    assert copied.membership is scorers
    assert not hasattr(copied, "merger_")
    np.testing.assert_array_equal(copied.fit(X[:50]).predict_proba(X[:9]), clf.predict_proba(X[:9]))
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(clf)).predict_proba(X[:9]), clf.predict_proba(X[:9]))


def test_a_search_over_the_weight(sites):
    X, y, _, _, teachers, scorers = sites
    clf = HeterogeneousDistiller(TeacherMerger(teachers, membership=scorers), KNeighborsClassifier())
    search = GridSearchCV(clf, {"teachers__membership_weight": [0, 1.0]}, cv=2, error_score="raise").fit(X, y)
    assert search.best_score_ > 0.9
    without = GridSearchCV(clf, {"teachers__membership_weight": [0.3, 1.0]}, cv=2, error_score="raise")
    with pytest.warns(UserWarning, match="TeacherHoldoutSearch"):
        assert np.isfinite(without.fit(X).best_score_)


def test_answers_computed_before_need_rows_for_the_scorers(sites):
    X, _, _, _, teachers, scorers = sites
    expected = TeacherMerger(teachers, membership=scorers).fit_transform(X[:50])
    log_p = TeacherOutputs(teachers).fit_transform(X[:50])
    lists = [teacher.classes_ for teacher in teachers]
    given = TeacherMerger(None, class_lists=lists, membership=scorers)
    np.testing.assert_allclose(given.fit_transform(X[:50], log_p=log_p), expected, atol=1e-12)
    with pytest.raises(ValueError, match="Memberships need X, which is None"):
        given.fit(None, log_p=log_p)
    assert TeacherMerger(None, class_lists=lists).fit(None, log_p=log_p).memberships_ is None
    answers = TeacherOutputs(teachers).fit_answers(X[:50])
    none = TeacherMerger(teachers, membership=scorers, none_label=-1)
    np.testing.assert_allclose(none.fit_transform(X[:50], log_p=answers), none.fit_transform(X[:50]), atol=1e-12)
    with pytest.raises(ValueError, match="pass the rows with the answers"):
        none.fit(X[:50]).adjust(none.answers(X[:50]))
    with pytest.raises(ValueError, match=r"has 40 rows, but .* have 50"):
        none.adjust(none.answers(X[:50]), X[:40])


def silent_teacher(classes, rows, seed):
    def answer(X):
        proba = np.random.default_rng(seed).dirichlet(np.ones(len(classes)), size=len(X))
        proba[X[:, 1] < rows] = np.nan
        return proba

    return FunctionTeacher(answer, classes)


@pytest.mark.parametrize("method", SET_METHODS)
def test_silent_teachers(method):
    X = np.column_stack([np.linspace(0, 1, 12), np.arange(12.0)])
    teachers = [silent_teacher(["a", "b"], 2, 0), silent_teacher(["b", "c"], 4, 1)]
    merger = TeacherMerger(teachers, method=method, abstain=True, membership=[None, ByFeature()])
    with pytest.warns(UserWarning, match="answers for 2 of 12"):
        Q = merger.fit_transform(X)
    np.testing.assert_allclose(Q[:2], 1 / 3)  # whatever the scorer says
    np.testing.assert_allclose(Q.sum(axis=1), 1)
    assert Q[2, 0] > Q[2, 2]  # the second teacher is silent, but its scorer says that c is unlikely
    clf = UnifiedEnsemble(TeacherMerger(teachers, abstain=True), method=method, membership=[None, ByFeature()])
    with pytest.warns(UserWarning, match="No teacher answers"):
        proba = clf.fit(X).predict_proba(X)
    np.testing.assert_allclose(proba[:2], 1 / 3)


def test_tensors_and_stores(tmp_path):
    torch = pytest.importorskip("torch")
    X, merger = small(membership=[ByFeature(), None])
    Q = merger.fit_transform(X)
    log_p = torch.from_numpy(np.array(TeacherOutputs(merger.teachers).fit_transform(X)))
    tensors = merger.fit_transform(X, log_p=log_p)
    np.testing.assert_allclose(np.asarray(tensors), Q, atol=1e-12)
    stored = clone(merger).set_params(store=tmp_path)
    np.testing.assert_array_equal(stored.fit_transform(X), Q)


def test_scorers_find_their_columns_in_frames(sites):
    X = sites[0]
    names = [f"pixel{i}" for i in range(64)]
    frame = pd.DataFrame(X, columns=names)
    with pytest.warns(UserWarning, match="no better than chance"):  # both are of all digits
        scorer = fit_membership(frame[names[:30]][:100], frame[names[:30]][100:])
    wide = frame.assign(more=1.0)
    named = [LogisticRegression(max_iter=50, C=0.01).fit(frame[:50], np.arange(50) % 2 + i) for i in range(2)]
    merged = TeacherMerger(named, membership=[scorer, None]).fit(wide)
    np.testing.assert_array_equal(merged.memberships_.read(wide)[:, 0], scorer.predict_membership(frame))


def test_mf_lu_leaves_out_scorers_that_teachers_carry_and_refuses_given_ones(sites):
    """So that a search over methods runs where teachers carry scorers."""
    X, _, _, _, _, scorers = sites
    carrying = linear_teachers(SITES)
    carrying[0].membership_ = scorers[0]
    with pytest.warns(UserWarning, match="MF-LU does not support .*teacher 0 are left out"):
        found = TeacherMerger(carrying, method="mf_lu", calibrate=False).fit_transform(X)
    alone = TeacherMerger(carrying, method="mf_lu", calibrate=False, membership=None).fit_transform(X)
    np.testing.assert_array_equal(found, alone)
    with pytest.raises(ValueError, match=r"MF-LU does not support .* membership=None also helps"):
        TeacherMerger(carrying, method="mf_lu", membership=scorers).fit(X)
    with pytest.raises(ValueError, match=r"MF-LU does not support .* membership=None also helps"):
        TeacherMerger(carrying, method="mf_lu", membership=scorers, none_label=-1).fit(X)
    student = DecisionTreeClassifier(max_depth=3, random_state=0)
    clf = HeterogeneousDistiller(TeacherMerger(carrying, calibrate=False), student)
    search = GridSearchCV(clf, {"method": ["ce", "mf_lu"]}, cv=2, error_score="raise")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        search.fit(X[:100])
    assert any("those of teacher 0 are left out" in str(each.message) for each in caught)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()


def test_memberships_link_groups_that_no_teacher_links():
    teachers = linear_teachers([["a", "b"], ["c", "d"]])
    X = np.random.default_rng(0).uniform(size=(20, 3))
    d = np.linspace(0.05, 0.95, 20)
    merger = TeacherMerger(teachers, method=CrossEntropyUnifier(), membership=[Fixed(d), None], temperature=1)
    Q = merger.fit_transform(X)  # no warning of groups
    np.testing.assert_allclose(Q[:, :2].sum(axis=1), d, atol=1e-7)


@pytest.mark.parametrize("method", SET_METHODS)
def test_scorers_are_compared_with_tempered_labels_as_they_are(method):
    """At T the teachers' answers are tempered first; then all is as at temperature 1, with scorers at 1 / T."""
    d = np.array([0.9, 0.5, 0.1, 1.0, 0.0, 0.7])
    params = {"method": method, "membership": [Fixed(d), None], "calibrate": False}
    X, merger = small(**params)
    log_p = TeacherOutputs(merger.teachers).fit_transform(X)
    hot = TeacherMerger(None, class_lists=SMALL, temperature=3.0, **params).fit_transform(X, log_p=log_p)
    one = TeacherMerger(None, class_lists=SMALL, temperature=1.0, membership_weight=1 / 3, **params)
    np.testing.assert_allclose(hot, one.fit_transform(X, log_p=log_p / 3), atol=1e-7)


@pytest.mark.filterwarnings("ignore:These classes are named in one set")
def test_teachers_with_sets_keep_scorers_tempered_alike():
    X, merger = small()
    log_p = TeacherOutputs(merger.teachers).fit_transform(X)
    lists, d = [["a", "b"], [("b", "c"), "a"]], np.full(6, 0.8)
    params = {"class_lists": lists, "temperature": 3.0, "calibrate": False, "method": "ce"}
    merged = TeacherMerger(None, membership=[Fixed(d), None], **params).fit_transform(X, log_p=log_p)
    by_hand = CrossEntropyUnifier([*lists, [("a", "b"), OTHER]], temperature=3.0)
    np.testing.assert_allclose(merged, by_hand.fit_transform(np.hstack([log_p, np.log(np.c_[d, 1 - d])])), atol=1e-7)
