"""fit(X, y) with labels of some rows."""

import pickle

import numpy as np
import pandas as pd
import pytest
from scipy.special import softmax
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_digits, load_iris
from sklearn.dummy import DummyClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score, cross_validate
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from sklearn_uhc import (
    FindingWarning,
    HeterogeneousDistiller,
    LabelledKFold,
    SoftLabelClassifier,
    TeacherMerger,
    UnifiedEnsemble,
    labelled_scorer,
)
from sklearn_uhc.evidence import find_wrong_labels
from sklearn_uhc.labels import read_labels
from sklearn_uhc.labels.learning import all_groups
from sklearn_uhc.labels.sampling import drawn_at_random
from sklearn_uhc.spaces.label_space import LabelSpace

NAMES = np.array(["ant", "bee", "cat"])


@pytest.fixture(scope="module")
def iris():
    X, y = load_iris(return_X_y=True)
    return X, NAMES[y]


@pytest.fixture(scope="module")
def teachers(iris):
    X, y = iris
    return [LogisticRegression(max_iter=500).fit(X[y != name], y[y != name]) for name in ("ant", "cat")]


@pytest.fixture(scope="module")
def digits():
    """Six weak teachers of three digits each; 700 rows to transfer, the rest to test."""
    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))
    X, y = X[order] / 16, y[order]
    lists = [[0, 1, 2], [2, 3, 4], [4, 5, 6], [6, 7, 8], [8, 9, 0], [1, 5, 9]]
    models = [DecisionTreeClassifier(max_depth=4, random_state=0), LogisticRegression(C=0.01), KNeighborsClassifier(5)]
    seen = np.arange(len(y)) < 300
    fitted = [
        clone(models[i % 3]).fit(X[seen & np.isin(y, known)], y[seen & np.isin(y, known)])
        for i, known in enumerate(lists)
    ]
    return fitted, X[300:1000], y[300:1000], X[1000:], y[1000:]


def some(y, n, seed=0):
    """Return y with the labels of n rows, None elsewhere."""
    out = np.full(len(y), None, dtype=object)
    rows = np.random.default_rng(seed).choice(len(y), n, replace=False)
    out[rows] = y[rows]
    return out


@pytest.mark.parametrize("student", [KNeighborsClassifier(10), LogisticRegression(max_iter=300)])
def test_labels_add_to_teachers_and_teachers_to_labels(digits, student):
    teachers, X, y, X_test, y_test = digits
    given = some(y, 60)
    rows = np.flatnonzero(given != None)  # noqa: E711
    clf = HeterogeneousDistiller(teachers, student, method="ce", temperature=1)
    none = clone(clf).fit(X).score(X_test, y_test)
    alone = clone(student).fit(X[rows], y[rows]).score(X_test, y_test)
    both = clf.fit(X, given).score(X_test, y_test)
    assert both > max(none, alone) + 0.02
    np.testing.assert_array_equal(clf.merger_.labels_.rows, rows)


def test_the_ensemble_and_the_merger_learn_too(digits):
    teachers, X, y, X_test, y_test = digits
    ensemble = UnifiedEnsemble(teachers, method="ce", temperature=1)
    none, given = clone(ensemble).fit(X).score(X_test, y_test), some(y, 60)
    assert ensemble.fit(X, given).score(X_test, y_test) > none + 0.05
    assert (
        clone(ensemble)
        .set_params(teachers=TeacherMerger(teachers, label_model=None))
        .fit(X, given)
        .score(X_test, y_test)
        > none
    )
    merger = TeacherMerger(teachers, method="ce", temperature=1)
    before = merger.fit(X).transform(X_test).argmax(axis=1)
    Q = merger.fit(X, given).transform(X_test)
    np.testing.assert_allclose(Q.sum(axis=1), 1)
    assert (Q.argmax(axis=1) == y_test).mean() > (before == y_test).mean() + 0.05
    np.testing.assert_array_equal(merger.fit_transform(X, given), merger.transform(X))
    assert merger.label_pool_.pool.weight.shape == (3,)


def test_labelled_rows_keep_their_labels(iris, teachers):
    X, y = iris
    given = some(y, 20)
    rows = np.flatnonzero(given != None)  # noqa: E711
    clf = HeterogeneousDistiller(teachers, KNeighborsClassifier(1), temperature=2)
    clf.fit(X, given)
    np.testing.assert_array_equal(clf.predict(X[rows]), y[rows])
    full = HeterogeneousDistiller(teachers, LogisticRegression(max_iter=500), temperature=1).fit(X, y)
    supervised = LogisticRegression(max_iter=500).fit(X, y)
    assert (full.predict(X) == supervised.predict(X)).mean() > 0.98


def test_if_all_rows_have_labels_the_method_has_no_influence_but_the_temperature_has(iris, teachers):
    X, y = iris
    clf = HeterogeneousDistiller(teachers, LogisticRegression(max_iter=500))
    found = clf.fit(X, y).predict_proba(X)
    np.testing.assert_array_equal(clf.set_params(method="mf_lf").fit(X, y).predict_proba(X), found)
    assert np.abs(clf.set_params(temperature=3).fit(X, y).predict_proba(X) - found).max() > 0.01


@pytest.mark.parametrize("make", [HeterogeneousDistiller, UnifiedEnsemble])
def test_no_labels_in_y_is_no_y(iris, teachers, make):
    X, _ = iris
    clf = make(teachers, KNeighborsClassifier()) if make is HeterogeneousDistiller else make(teachers)
    without = clone(clf).fit(X).predict_proba(X)
    np.testing.assert_array_equal(clf.fit(X, [None] * 150).predict_proba(X), without)
    assert clf.merger_.label_pool_ is None
    assert clf.merger_.labels_ is None


@pytest.mark.parametrize("n", [1, 2, 5])
def test_very_few_labels(iris, teachers, n):
    X, y = iris
    clf = HeterogeneousDistiller(teachers, DecisionTreeClassifier(random_state=0)).fit(X, some(y, n))
    assert np.isfinite(clf.predict_proba(X)).all()
    assert clf.score(X, y) > 0.8
    assert UnifiedEnsemble(teachers).fit(X, some(y, n)).score(X, y) > 0.8


def test_a_student_that_needs_more_rows_is_left_out(iris, teachers):
    X, y = iris
    clf = HeterogeneousDistiller(teachers, KNeighborsClassifier(10))
    with pytest.warns(UserWarning, match=r"KNeighborsClassifier cannot be trained.*6 labelled rows"):
        clf.fit(X, some(y, 6))
    assert clf.score(X, y) > 0.8
    clf.set_params(teachers=TeacherMerger(teachers, label_model=None)).fit(X, some(y, 6))
    assert clf.merger_.label_pool_.of_rows.expert is None


def test_a_class_that_only_labels_name(iris, teachers):
    X, y = iris
    renamed = np.where((y == "cat") & (X[:, 2] > 5.5), "dog", y)
    with pytest.warns(UserWarning, match=r"no teacher knows: \['dog'\]. They are learned"):
        clf = HeterogeneousDistiller(teachers, KNeighborsClassifier(3)).fit(X, some(renamed, 90))
    assert clf.classes_.tolist() == ["ant", "bee", "cat", "dog"]
    assert clf.score(X, renamed) > 0.85
    assert np.isfinite(clf.score(X))
    with pytest.warns(UserWarning, match="dog"):
        ensemble = UnifiedEnsemble(teachers).fit(X, some(renamed, 90))
    assert ensemble.score(X, renamed) > 0.85
    assert ensemble.predict_proba(X).shape == (150, 4)


@pytest.mark.filterwarnings("ignore:The class lists do not connect:UserWarning")
def test_labels_fix_the_level_of_groups_that_nobody_links():
    X, y = load_digits(return_X_y=True)
    X = X / 16
    teachers = [
        LogisticRegression(max_iter=300).fit(X[:600][known], y[:600][known]) for known in (y[:600] < 5, y[:600] >= 5)
    ]
    ensemble = UnifiedEnsemble(teachers)
    guessed = ensemble.fit(X[600:1200]).score(X[1200:], y[1200:])
    assert ensemble.fit(X[600:1200], some(y[600:1200], 100)).score(X[1200:], y[1200:]) > guessed + 0.01
    assert ensemble.merger_.label_pool_.pool.weight.shape == (6,)


def test_class_frequencies_follow_random_labels(digits):
    teachers, X, y, *_ = digits
    rare = np.flatnonzero((y != 7) | (np.arange(len(y)) % 10 == 0))
    X, y = X[rare], y[rare]
    merger = TeacherMerger(teachers).fit(X, some(y, 200))
    assert merger.label_pool_.random
    there = np.bincount(y, minlength=10) / len(y)
    without = TeacherMerger(teachers).fit(X).class_frequencies_
    assert np.abs(merger.class_frequencies_ - there).sum() < np.abs(without - there).sum() / 2


@pytest.mark.parametrize("student", [None, LogisticRegression(max_iter=300)])
def test_classes_that_neither_rows_nor_labels_have_are_left_out(digits, student):
    teachers, X, y, X_test, y_test = digits
    X, y, X_test, y_test = X[y < 5], y[y < 5], X_test[y_test < 5], y_test[y_test < 5]
    clf = UnifiedEnsemble(teachers) if student is None else HeterogeneousDistiller(teachers, student)
    none = clone(clf).fit(X).score(X_test, y_test)
    scores = [clone(clf).fit(X, some(y, 20, seed)).score(X_test, y_test) for seed in range(5)]
    assert np.mean(scores) > none + 0.1


@pytest.mark.parametrize("student", [None, LogisticRegression(max_iter=300), KNeighborsClassifier(10)])
def test_labels_overrule_a_teacher_that_claims_every_row(student):
    X, y = load_digits(return_X_y=True)
    X = X / 16
    teachers = [
        LogisticRegression(max_iter=300).fit(X[:600][own], y[:600][own])
        for own in (np.isin(y[:600], known) for known in (range(5), range(3, 8), [0, 5, 6, 7, 8]))
    ]
    teachers.append(DummyClassifier(strategy="constant", constant=9).fit(X[:600], np.resize([0, 6, 7, 8, 9], 600)))
    X, y, X_test, y_test = X[600:1200][y[600:1200] < 9], y[600:1200][y[600:1200] < 9], X[1200:], y[1200:]
    clf = UnifiedEnsemble(teachers) if student is None else HeterogeneousDistiller(teachers, student)
    assert clf.fit(X, some(y, 100)).score(X_test[y_test < 9], y_test[y_test < 9]) > 0.85


WRONG = {
    "other order": lambda y, rng: rng.permutation(y),
    "random": lambda y, rng: rng.integers(0, 10, len(y)),
    "zeros": lambda y, rng: np.zeros_like(y),
    "other names": lambda y, rng: (y + 1) % 10,
}


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("n", [60, 700])
def test_labels_that_the_teachers_rule_out_are_not_followed(digits, wrong, n):
    teachers, X, y, X_test, _ = digits
    given = some(WRONG[wrong](y, np.random.default_rng(1)), n)
    ensemble = UnifiedEnsemble(teachers)
    without = ensemble.fit(X).predict_proba(X_test)
    with pytest.warns(FindingWarning, match=rf"^y contradicts the teachers: .* of {n} labelled") as told:
        ensemble.fit(X, given)
    assert len(told) == 1
    np.testing.assert_array_equal(ensemble.predict_proba(X_test), without)
    assert ensemble.merger_.labels_ is None
    assert [found.kind for found in ensemble.merger_.findings_] == ["labels"]


def test_a_y_of_another_index_is_named(digits):
    teachers, X, y, X_test, y_test = digits
    order = np.random.default_rng(0).permutation(len(y))
    frame = pd.DataFrame(X)
    clf = HeterogeneousDistiller(teachers, KNeighborsClassifier(10))
    with pytest.warns(FindingWarning, match=r"indices of X and y differ.*by position"):
        clf.fit(frame, pd.Series(y[order], index=order))
    clf.fit(frame, pd.Series(y, index=order))  # matched by position, these are right
    assert clf.score(X_test, y_test) > 0.9


def test_wrong_labels_take_the_classes_along_that_only_they_have(digits):
    teachers, X, y, *_ = digits
    given = np.random.default_rng(1).permutation(np.where(y == 3, 33, y))
    prior = {**dict.fromkeys(range(10), 0.09), 33: 0.1}
    merger = TeacherMerger(teachers, class_prior=prior)
    with pytest.warns(UserWarning, match="contradicts the teachers|no teacher knows"):
        Q = merger.fit_transform(X, given)
    assert merger.classes_.tolist() == list(range(10))
    np.testing.assert_allclose(Q.mean(axis=0), 0.1, atol=0.01)


@pytest.mark.parametrize("n", [5, 10, 20, 60])
def test_right_labels_are_never_taken_for_wrong(digits, n):
    teachers, X, y, *_ = digits
    rare = np.flatnonzero((y < 3) | (np.arange(len(y)) % 20 == 0))
    for rows in (slice(None), rare, y < 3, y == 8):
        merger = TeacherMerger(teachers).fit(X[rows])
        answers = merger.adjust(merger.answers(X[rows]))
        Q, counts = merger.merge(answers), np.ones(len(answers), dtype=bool)
        for seed in range(20):
            labels = read_labels(some(y[rows], min(n, len(answers)), seed), None, merger.classes_)
            assert find_wrong_labels(Q, merger.classes_, labels, counts) == []


@pytest.mark.parametrize("known", [[8], [1, 8]], ids=str)
def test_labels_of_some_classes_only_say_nothing_about_frequencies(digits, known):
    teachers, X, y, X_test, y_test = digits
    of_these = np.flatnonzero(np.isin(y, list(known)))[:60]
    labels = np.full(len(y), -1)
    labels[of_these] = y[of_these]
    clf = HeterogeneousDistiller(teachers, KNeighborsClassifier(10))
    without = clf.fit(X).score(X_test, y_test)
    assert clf.fit(X, labels).score(X_test, y_test) > without - 0.02
    assert not clf.merger_.label_pool_.random
    ensemble = UnifiedEnsemble(teachers)
    without = ensemble.fit(X).score(X_test, y_test)
    assert ensemble.fit(X, labels).score(X_test, y_test) > without - 0.02


@pytest.mark.parametrize("others", [3, 12, 40])
def test_a_class_of_y_alone_counts_as_one_of_average_frequency(digits, others):
    teachers, X, y, X_test, _ = digits
    labels, few = np.full(len(y), -1), np.flatnonzero(y != 3)[:others]
    labels[few] = y[few]
    new = np.flatnonzero(y == 3)[:40]
    labels[new] = 33
    clf = HeterogeneousDistiller(teachers, KNeighborsClassifier(10))
    with pytest.warns(UserWarning, match="classes that no teacher knows: "):
        clf.fit(X, labels)
    assert (clf.predict(X_test) == 33).mean() < 0.25


def test_random_rows_look_random():
    rng = np.random.default_rng(0)
    merged = rng.choice(12, 400, p=np.r_[0.4, 0.3, np.full(10, 0.03)])
    Q = softmax(3 * np.eye(12)[merged] + rng.normal(size=(400, 12)), axis=1)
    for m in (5, 40, 200, 400):
        draws = [rng.choice(400, m, replace=False) for _ in range(20)]
        found = [drawn_at_random(Q, rows) for rows in draws]
        assert sum(found) >= 19
    even = np.concatenate([np.flatnonzero(merged == k)[:5] for k in range(12)])  # as many of each
    assert not drawn_at_random(Q, even)


def test_groups_of_new_classes():
    space = LabelSpace([["ant", "bee"], ["cat", "eel"]])
    assert all_groups(space, np.array(["ant", "bee", "cat", "dog", "eel"])).tolist() == [0, 0, 1, 2, 1]


def test_weights_count_like_copies(iris, teachers):
    X, y = iris
    given, weight = some(y, 40), np.arange(150) % 3
    copies = np.repeat(np.arange(150), weight)
    copied = UnifiedEnsemble(TeacherMerger(teachers, calibrate=False)).fit(X[copies], given[copies])
    weighted = UnifiedEnsemble(TeacherMerger(teachers, calibrate=False)).fit(X, given, sample_weight=weight)
    np.testing.assert_allclose(weighted.predict_proba(X), copied.predict_proba(X), atol=1e-3)


FORMS = {
    "objects": lambda y, known: np.where(known, y.astype(object), None),
    "list": lambda y, known: np.where(known, y.astype(object), None).tolist(),
    "pandas": lambda y, known: pd.Series(np.where(known, y.astype(object), None)),
    "string": lambda y, known: pd.Series(np.where(known, y.astype(object), None), dtype="string"),
    "category": lambda y, known: pd.Series(np.where(known, y.astype(object), None), dtype="category"),
}


@pytest.mark.parametrize("form", FORMS)
def test_searches_score_labelled_rows(iris, teachers, form):
    X, y = iris
    given = FORMS[form](y, np.arange(150) % 3 == 0)
    clf = HeterogeneousDistiller(teachers, KNeighborsClassifier(5))
    search = GridSearchCV(clf, {"temperature": [1, 3]}, cv=LabelledKFold(2), error_score="raise").fit(X, given)
    assert search.best_score_ > 0.85
    scorer = labelled_scorer("neg_log_loss")
    scores = cross_val_score(clf, X, given, cv=LabelledKFold(2), scoring=scorer, error_score="raise")
    assert (scores > -1).all()


@pytest.mark.parametrize("missing", [-1, np.nan])
def test_searches_with_numbers(iris, missing):
    X, names = iris
    y = np.searchsorted(NAMES, names)
    teachers = [LogisticRegression(max_iter=500).fit(X[y != k], y[y != k]) for k in (0, 2)]
    given = np.where(np.arange(150) % 3 == 0, y, missing)
    pipe = make_pipeline(StandardScaler(), LogisticRegression())
    clf = HeterogeneousDistiller(teachers, pipe)
    grid = {"student__logisticregression__C": [0.1, 1]}
    search = GridSearchCV(clf, grid, cv=LabelledKFold(2), error_score="raise").fit(X, given)
    assert search.best_score_ > 0.85
    if missing == -1:  # scikit-learn's own folds take it for a class, and so spread it
        assert GridSearchCV(clf, grid, cv=2, error_score="raise").fit(X, given).best_score_ > 0.85


def test_texts_with_minus_one_pass_scikit_learns_own_folds(iris, teachers):
    X, y = iris
    given = np.where(np.arange(150) % 3 == 0, y, "-1")  # the first row has a label
    clf = HeterogeneousDistiller(teachers, KNeighborsClassifier(5))
    assert cross_val_score(clf, X, given, cv=2, error_score="raise").mean() > 0.85


def test_score_counts_labelled_rows(iris, teachers):
    X, y = iris
    clf = UnifiedEnsemble(teachers).fit(X)
    known = np.arange(150) % 4 == 0
    given = np.where(known, y.astype(object), None)
    assert clf.score(X, given) == clf.score(X[known], y[known])
    weight = np.arange(150.0)
    assert clf.score(X, given, weight) == clf.score(X[known], y[known], weight[known])
    with pytest.raises(ValueError, match=r"No row has a label.*LabelledKFold"):
        clf.score(X, [None] * 150)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        clf.score(X, given[:-1])


def test_labels_and_answers_computed_before(iris, teachers):
    X, y = iris
    answers = TeacherMerger(teachers).fit(X).answers(X)
    clf = HeterogeneousDistiller(teachers, KNeighborsClassifier(5)).fit(X, some(y, 30), log_p=answers)
    same = HeterogeneousDistiller(teachers, KNeighborsClassifier(5)).fit(X, some(y, 30))
    np.testing.assert_array_equal(clf.predict_proba(X), same.predict_proba(X))
    merger = TeacherMerger(teachers).fit(None, some(y, 30), log_p=answers)
    assert merger.label_pool_.of_rows.expert is None


def test_rows_that_only_a_label_speaks_for(iris, teachers):
    X, y = iris
    log_p = np.asarray(TeacherMerger(teachers).fit(X).answers(X).log_p).copy()
    log_p[:50] = np.nan  # nobody answers for any ant
    clf = HeterogeneousDistiller(TeacherMerger(teachers, abstain=True), KNeighborsClassifier(3))
    with pytest.warns(UserWarning, match="answers for 50 of 150"):
        clf.fit(X, np.where(np.arange(150) % 5 == 0, y.astype(object), None), log_p=log_p)
    assert (clf.predict(X[:50]) == "ant").mean() > 0.9


def test_it_is_pickled_and_cloned(iris, teachers):
    X, y = iris
    model = LogisticRegression(C=0.5)
    clf = UnifiedEnsemble(TeacherMerger(teachers, label_model=model)).fit(X, some(y, 30))
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(clf)).predict_proba(X), clf.predict_proba(X))
    assert clone(clf).teachers.label_model is not model
    assert clf.get_params()["teachers__label_model__C"] == 0.5
    wrapped = SoftLabelClassifier(LogisticRegression())
    assert UnifiedEnsemble(TeacherMerger(teachers, label_model=wrapped)).fit(X, some(y, 30)).score(X, y) > 0.9


@pytest.mark.parametrize("label_model", ["logistic", 5, LogisticRegression])
def test_what_a_label_model_must_be(iris, teachers, label_model):
    X, y = iris
    with pytest.raises(ValueError, match="label_model must be a classifier"):
        UnifiedEnsemble(TeacherMerger(teachers, label_model=label_model)).fit(X, some(y, 30))


def test_a_later_step_may_have_a_y_of_its_own(iris, teachers):
    X, _ = iris
    y = np.arange(150) % 2
    pipe = make_pipeline(TeacherMerger(teachers), LogisticRegression()).fit(X, y)
    assert pipe[0].labels_ is None


def test_rows_that_are_no_matrix(iris, teachers):
    X, y = iris
    frame = pd.DataFrame(X, columns=list("abcd")).assign(e="text")
    readers = [_OwnColumns(teacher) for teacher in teachers]
    ensemble = UnifiedEnsemble(readers).fit(frame, some(y, 30))
    assert ensemble.merger_.label_pool_.of_rows.expert is None
    assert ensemble.score(frame, y) > 0.85


class _OwnColumns:
    """A teacher that reads the numbers of a table."""

    def __init__(self, teacher):
        self.teacher, self.classes_ = teacher, teacher.classes_

    def predict_proba(self, X):
        return self.teacher.predict_proba(X[list("abcd")].to_numpy())


def test_backpropagation_says_that_it_ignores_labels(iris, teachers):
    torch = pytest.importorskip("torch")
    X, y = iris
    torch.manual_seed(0)
    clf = HeterogeneousDistiller(teachers, torch.nn.Linear(4, 3), backprop=True)
    with pytest.warns(UserWarning, match="backprop=True ignores y"):
        clf.fit(X.astype(np.float32), some(y, 30))
    clf.fit(X.astype(np.float32), np.full(len(y), None))  # no labels, no warning
    clf.fit(X.astype(np.float32))


@pytest.mark.parametrize("scoring", ["accuracy", ["accuracy", "balanced_accuracy"]])
@pytest.mark.parametrize("mark", [-1, "-1"])
def test_metrics_that_take_the_missing_label_for_a_class_are_refused(mark, scoring, iris, teachers):
    X, names = iris
    y = names if mark == "-1" else np.unique(names, return_inverse=True)[1]
    clf = UnifiedEnsemble(teachers, class_lists=[np.unique(y)[1:], np.unique(y)[:-1]])
    some = np.where(np.arange(150) % 3 == 0, y, mark)
    with pytest.raises(ValueError, match=r"the metric '\w+' takes for a class. Leave scoring out"):
        cross_validate(clf, X, some, scoring=scoring, cv=2, error_score="raise")
    with pytest.raises(ValueError, match=r"the metric '\w+' takes for a class. Leave scoring out"):
        GridSearchCV(clf, {"method": ["ce"]}, scoring=scoring, cv=2, refit=False, error_score="raise").fit(X, some)


def test_calibration_that_takes_the_missing_label_for_a_class_is_refused(iris, teachers):
    X, y = iris
    known = np.arange(150) % 3 == 0
    with pytest.raises(ValueError, match=r"which CalibratedClassifierCV takes for a class.*FrozenEstimator"):
        CalibratedClassifierCV(UnifiedEnsemble(teachers), cv=2).fit(X, np.where(known, y, "-1"))
    calibrated = CalibratedClassifierCV(FrozenEstimator(UnifiedEnsemble(teachers).fit(X)), cv=2).fit(X[known], y[known])
    assert calibrated.score(X, y) > 0.9
