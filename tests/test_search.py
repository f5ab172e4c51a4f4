"""The search with held-out teachers: its interface, what it reads, and its errors."""

import pickle
import warnings

import numpy as np
import pytest
from sklearn.base import clone, is_classifier
from sklearn.datasets import load_digits
from sklearn.exceptions import FitFailedWarning, NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, ParameterSampler
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.tree import DecisionTreeClassifier

from sklearn_uhc import (
    CrossEntropyUnifier,
    HeterogeneousDistiller,
    TeacherHoldoutSearch,
    TeacherMerger,
    UnifiedEnsemble,
)
from sklearn_uhc.inspection import DistillationCurveDisplay
from tests.helpers import LinearTeacher

LISTS = {"north": [0, 1, 2, 3, 4], "south": [3, 4, 5, 6, 7], "east": [0, 6, 7, 8, 9], "west": [1, 2, 5, 8, 9]}
GRID = {"student__n_neighbors": [5, 100], "temperature": [1, 3]}


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return X / 16, y


@pytest.fixture(scope="module")
def teachers(digits):
    X, y = digits
    own = {name: np.flatnonzero(np.isin(y[:500], known)) for name, known in LISTS.items()}
    return {name: LogisticRegression().fit(X[rows], y[rows]) for name, rows in own.items()}


@pytest.fixture(scope="module")
def rows(digits):
    return digits[0][500:800]


@pytest.fixture
def clf(teachers):
    return HeterogeneousDistiller(teachers, KNeighborsClassifier())


@pytest.fixture(scope="module")
def search(teachers, rows):
    clf = HeterogeneousDistiller(teachers, KNeighborsClassifier())
    return TeacherHoldoutSearch(clf, GRID).fit(rows)


def test_a_student_that_smooths_everything_loses(search, digits):
    X, y = digits
    assert search.best_params_["student__n_neighbors"] == 5
    assert search.score(X[800:], y[800:]) > 0.85
    assert 0.5 < search.best_score_ < 1
    assert search.best_index_ == search.cv_results_["rank_test_score"].argmin()


@pytest.mark.filterwarnings("ignore:A search without labels:UserWarning")
def test_it_looks_like_a_search_of_scikit_learn(search, rows, teachers):
    reference = GridSearchCV(search.estimator, GRID, cv=4).fit(rows)
    assert set(search.cv_results_) == set(reference.cv_results_)
    for name in ("param_temperature", "param_student__n_neighbors"):
        assert search.cv_results_[name].tolist() == reference.cv_results_[name].tolist()
    assert search.cv_results_["params"] == reference.cv_results_["params"]
    shared = {name for name in vars(reference) if name.endswith("_")} - {"scorer_"}
    assert shared <= set(vars(search))
    assert is_classifier(search)
    assert search.held_out_ == list(LISTS)
    assert search.n_splits_ == 4
    splits = np.stack([search.cv_results_[f"split{k}_test_score"] for k in range(4)])
    np.testing.assert_allclose(search.cv_results_["mean_test_score"], splits.mean(axis=0))
    np.testing.assert_allclose(search.cv_results_["std_test_score"], splits.std(axis=0))
    assert search.refit_time_ > 0
    DistillationCurveDisplay.from_search(search, by="student__n_neighbors")


def test_predictions_are_those_of_the_best_estimator(search, rows, clf):
    best = clone(clf).set_params(**search.best_params_).fit(rows)
    np.testing.assert_allclose(search.predict_proba(rows), best.predict_proba(rows))
    np.testing.assert_allclose(search.predict_log_proba(rows), best.predict_log_proba(rows))
    assert (search.predict(rows) == best.predict(rows)).all()
    assert (search.classes_ == best.classes_).all()
    assert search.n_features_in_ == 64
    assert search.score(rows) == pytest.approx(best.score(rows))  # its teachers can be asked again


def test_clone_pickle_and_diagram(search, rows, teachers):
    new = clone(search)
    assert new.estimator.teachers is teachers
    assert not hasattr(new, "cv_results_")
    assert not hasattr(new, "classes_")
    revived = pickle.loads(pickle.dumps(search))
    np.testing.assert_array_equal(revived.predict_proba(rows), search.predict_proba(rows))
    assert "best_estimator_: HeterogeneousDistiller" in search._repr_html_()
    assert "estimator: HeterogeneousDistiller" in new._repr_html_()


class Counting(LinearTeacher):
    calls: list = []

    def predict_log_proba(self, X):
        Counting.calls.append(len(X))
        return super().predict_log_proba(X)


class Scorer:
    calls: list = []

    def predict_membership(self, X):
        Scorer.calls.append(len(X))
        return np.full(len(X), 0.7)


def counting_teachers(X):
    return [Counting(known, seed).fit(X) for seed, known in enumerate([(0, 1, 2), (1, 2, 3), (2, 3, 0), (0, 1, 3)])]


@pytest.mark.parametrize("kind", [HeterogeneousDistiller, UnifiedEnsemble])
def test_teachers_and_scorers_are_asked_once(kind):
    X = np.random.default_rng(0).normal(size=(60, 3))
    Counting.calls.clear()
    Scorer.calls.clear()
    student = {"student": DecisionTreeClassifier()} if kind is HeterogeneousDistiller else {}
    clf = kind(counting_teachers(X), membership=[Scorer(), None, None, None], **student)
    search = TeacherHoldoutSearch(clf, {"method": ["ce", "mf_lf"], "balance": [True, False]}).fit(X)
    assert Counting.calls == [60] * 4
    assert len(Scorer.calls) <= 2  # the last fit asks them once more
    assert search.predict(X[:5]).shape == (5,)


def test_floors_are_read_once_each_and_compared():
    X = np.random.default_rng(0).normal(size=(60, 3))
    Counting.calls.clear()
    clf = HeterogeneousDistiller(TeacherMerger(counting_teachers(X)), DecisionTreeClassifier())
    TeacherHoldoutSearch(clf, {"teachers__floor": [1e-3, 0.1], "temperature": [1, 3]}, refit=False).fit(X)
    assert Counting.calls == [60] * 8


def test_answers_that_were_computed_before(clf, teachers, rows, search):
    merger = TeacherMerger(teachers).fit(rows)
    log_p = merger.answers(rows).log_p
    given = HeterogeneousDistiller(None, KNeighborsClassifier(), class_lists=LISTS)
    found = TeacherHoldoutSearch(given, GRID).fit(rows, log_p=log_p)
    np.testing.assert_allclose(found.cv_results_["mean_test_score"], search.cv_results_["mean_test_score"])
    assert found.held_out_ == search.held_out_
    again = TeacherHoldoutSearch(clf, GRID).fit(rows, log_p=merger.answers(rows))
    np.testing.assert_allclose(again.cv_results_["mean_test_score"], search.cv_results_["mean_test_score"])


def test_in_processes_it_finds_the_same(clf, rows, search):
    found = TeacherHoldoutSearch(clf, GRID, n_jobs=2).fit(rows)
    np.testing.assert_allclose(found.cv_results_["mean_test_score"], search.cv_results_["mean_test_score"])


def test_a_pipeline_before_the_merge(digits, rows):
    X, y = digits
    scaler = StandardScaler().fit(rows)
    own = [np.flatnonzero(np.isin(y[:500], known)) for known in LISTS.values()]
    teachers = [LogisticRegression().fit(scaler.transform(X[mine]), y[mine]) for mine in own]
    pipe = make_pipeline(StandardScaler(), HeterogeneousDistiller(teachers, KNeighborsClassifier()))
    grid = {"heterogeneousdistiller__temperature": [1, 3], "standardscaler__with_mean": [True, False]}
    found = TeacherHoldoutSearch(pipe, grid).fit(rows)
    assert found.best_params_["standardscaler__with_mean"] is True  # as the teachers were trained
    np.testing.assert_allclose(
        found.predict_proba(X[800:]), clone(pipe).set_params(**found.best_params_).fit(rows).predict_proba(X[800:])
    )


def test_steps_before_are_fitted_once_per_setting(rows, clf):
    seen = []
    pipe = make_pipeline(FunctionTransformer(lambda X: (seen.append(len(X)), X)[1]), clf)
    TeacherHoldoutSearch(pipe, {"heterogeneousdistiller__temperature": [1, 3, 6]}, refit=False).fit(rows)
    assert seen == [len(rows)]


def test_random_candidates_and_a_choice_of_ones_own(clf, rows):
    sampler = ParameterSampler({"temperature": [1, 2, 3, 6], "method": ["ce", "mf_lf"]}, 3, random_state=0)
    found = TeacherHoldoutSearch(clf, sampler, folds=2, refit=lambda results: 1).fit(rows)
    assert len(found.cv_results_["params"]) == 3
    assert found.best_index_ == 1
    assert found.best_params_ == found.cv_results_["params"][1]
    assert found.best_score_ == found.cv_results_["mean_test_score"][1]


def test_settings_that_only_some_candidates_have(clf, rows):
    grids = [{"temperature": [1]}, {"student": [DecisionTreeClassifier()]}]
    found = TeacherHoldoutSearch(clf, grids, folds=2, refit=False).fit(rows)
    assert found.cv_results_["param_temperature"].mask.tolist() == [False, True]
    with pytest.raises(NotFittedError, match="refit=False"):
        found.predict(rows)


def test_weights_of_teachers(clf, teachers, rows):
    """A teacher of little weight hardly counts in the mean, wherever its weight is given."""
    weight = [1, 1, 1, 1e-7]
    for given in (
        {"teachers": TeacherMerger(teachers, teacher_weight=weight)},
        {"method": CrossEntropyUnifier(teacher_weight=weight)},
    ):
        found = TeacherHoldoutSearch(clone(clf).set_params(**given), {"temperature": [1, 3]}).fit(rows)
        splits = np.stack([found.cv_results_[f"split{k}_test_score"] for k in range(4)])
        np.testing.assert_allclose(found.cv_results_["mean_test_score"], splits[:3].mean(axis=0), atol=1e-5)


def test_a_candidate_that_fails_is_told_and_never_chosen(clf, rows):
    grid = {"student__n_neighbors": [5, 10_000]}
    with pytest.warns(FitFailedWarning, match="4 of 8 fits failed"):
        found = TeacherHoldoutSearch(clf, grid).fit(rows)
    assert found.best_params_ == {"student__n_neighbors": 5}
    assert np.isnan(found.cv_results_["mean_test_score"]).tolist() == [False, True]
    with pytest.warns(FitFailedWarning):
        bad = TeacherHoldoutSearch(clf, grid, error_score=0, refit=False).fit(rows)
    assert bad.cv_results_["mean_test_score"][1] == 0
    with pytest.raises(ValueError, match="n_neighbors"):
        TeacherHoldoutSearch(clf, grid, error_score="raise").fit(rows)
    with pytest.raises(ValueError, match="All 4 fits failed"):
        TeacherHoldoutSearch(clf, {"student__n_neighbors": [10_000]}).fit(rows)


def test_silent_teachers_are_not_compared_where_they_are_silent(rows, teachers):
    log_p = np.array(TeacherMerger(teachers).fit(rows).answers(rows).log_p)
    log_p[::2, :5] = np.nan
    clf = HeterogeneousDistiller(TeacherMerger(None, abstain=True), KNeighborsClassifier(), class_lists=LISTS)
    found = TeacherHoldoutSearch(clf, GRID).fit(rows, log_p=log_p)
    assert np.isfinite(found.cv_results_["mean_test_score"]).all()
    assert found.best_params_["student__n_neighbors"] == 5


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"estimator": LogisticRegression()}, TypeError, "needs a HeterogeneousDistiller"),
        ({"estimator": TeacherMerger([])}, TypeError, "search over UnifiedEnsemble"),
        ({"param_grid": {"teachers": [[]]}}, ValueError, "cannot search over 'teachers'"),
        ({"param_grid": {"class_lists": [None]}}, ValueError, "same held-out teachers"),
        ({"param_grid": {"method": ["ce", "magic"]}}, ValueError, "magic"),
        ({"param_grid": {"nonsense": [1]}}, ValueError, "Invalid parameter 'nonsense'"),
        ({"param_grid": {"balance": ["sometimes"]}}, ValueError, "balance"),
        ({"param_grid": {"calibrate": ["maybe"]}}, ValueError, "calibrate"),
        ({"param_grid": {"teacher_weight": [[1, 2, 3]]}}, ValueError, "teacher_weight"),
        ({"param_grid": {"student": [object()]}}, TypeError, "student"),
        ({"param_grid": []}, ValueError, "no candidates"),
        ({"param_grid": "temperature"}, TypeError, "param_grid must be"),
        ({"error_score": "ignore"}, ValueError, "error_score must be"),
        ({"refit": "accuracy"}, ValueError, "refit must be"),
        ({"folds": 1}, ValueError, "folds must be at least 2"),
        ({"folds": "all"}, TypeError, "folds must be"),
        ({"folds": [["north"], ["nowhere"]]}, ValueError, r"unknown teachers: \['nowhere'\]"),
        ({"folds": [["north"], ["north", "west"]]}, ValueError, "twice"),
        ({"folds": [["north", "west", "east"]]}, ValueError, "two must be left"),
    ],
)
def test_what_is_refused_before_any_teacher_is_asked(clf, changes, error, message):
    arguments = {"estimator": clf, "param_grid": {"temperature": [1, 3]}, **changes}
    with pytest.raises(error, match=message):
        TeacherHoldoutSearch(**arguments).fit(None)


def messages_of(search, *data):
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        search.fit(*data)
    return [str(message.message) for message in seen]


def test_a_search_by_agreement_says_once_what_it_cannot_choose(clf, digits):
    X, y = digits[0][500:600], digits[1][500:600]
    grid = {"method": ["ce", "mf_lf"], "student__n_neighbors": [5]}
    told = [message for message in messages_of(GridSearchCV(clf, grid, cv=2), X) if "score(X)" in message]
    assert len(told) == 1
    assert "TeacherHoldoutSearch" in told[0]
    assert not any("score(X)" in message for message in messages_of(GridSearchCV(clf, grid, cv=2), X, y))


def test_two_teachers_are_too_few(teachers, rows):
    two = {name: teachers[name] for name in ("north", "south")}
    with pytest.raises(ValueError, match=r"at least 3 teachers.*got 2"):
        TeacherHoldoutSearch(UnifiedEnsemble(two), {"temperature": [1, 3]}).fit(rows)


def test_no_teachers_and_no_answers(rows):
    with pytest.raises(TypeError, match="teachers of the estimator is None"):
        TeacherHoldoutSearch(UnifiedEnsemble(None), {"temperature": [1, 3]}).fit(rows)


def test_lists_that_nobody_shares(rows):
    lonely = [LinearTeacher(known, seed).fit(None) for seed, known in enumerate([(0, 1), (2, 3), (4, 5)])]
    with pytest.raises(ValueError, match="No teacher can be compared"):
        TeacherHoldoutSearch(UnifiedEnsemble(lonely), {"temperature": [1, 3]}).fit(rows)


def test_a_failed_fit_leaves_the_search_as_it_was(clf, rows):
    found = TeacherHoldoutSearch(clf, {"temperature": [1, 3]}, folds=2).fit(rows)
    best = found.best_estimator_
    found.set_params(param_grid={"student__n_neighbors": [10_000]})
    with pytest.raises(ValueError, match="All 2 fits failed"):
        found.fit(rows)
    assert found.best_estimator_ is best
