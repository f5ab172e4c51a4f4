"""The whole path: fitted teachers in, one classifier out."""

import pickle

import joblib
import numpy as np
import pandas as pd
import pytest
import sklearn
from scipy.sparse import csr_matrix
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_digits, load_iris, make_blobs
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV, cross_val_predict, cross_val_score
from sklearn.naive_bayes import MultinomialNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from sklearn_uhc import (
    HeterogeneousDistiller,
    LogitFactorization,
    SoftLabelClassifier,
    TeacherMerger,
    TeacherOutputs,
    UnifiedEnsemble,
)
from sklearn_uhc.evidence import teacher_agreement_scorer
from tests.helpers import METHOD_NAMES, LinearTeacher, linear_teachers


@pytest.fixture(scope="module")
def iris():
    X, y = load_iris(return_X_y=True)
    return X, y


@pytest.fixture(scope="module")
def teachers(iris):
    X, y = iris
    pairs = ([0, 1], [1, 2], [0, 2])
    return [LogisticRegression(max_iter=500).fit(X[np.isin(y, p)], y[np.isin(y, p)]) for p in pairs]


def forest():
    return RandomForestClassifier(20, random_state=0)


@pytest.mark.parametrize("balance", [True, False])
@pytest.mark.parametrize("method", METHOD_NAMES)
def test_it_merges_iris(iris, teachers, method, balance):
    X, y = iris
    clf = HeterogeneousDistiller(teachers, forest(), method=method, balance=balance).fit(X)
    assert clf.classes_.tolist() == [0, 1, 2]
    assert clf.predict_proba(X).shape == (150, 3)
    np.testing.assert_allclose(clf.predict_proba(X).sum(axis=1), 1)
    # Two classes per teacher: what they say of a third class is extrapolation, which balance or CE has to put right.
    assert clf.score(X, y) > (0.85 if balance or method == "ce" else 0.55)
    assert clf.score(X) < 0
    assert isinstance(clf.student_, SoftLabelClassifier)
    np.testing.assert_allclose(np.exp(clf.predict_log_proba(X)), clf.predict_proba(X))


def test_the_steps_by_hand_are_the_distiller(iris, teachers):
    X, _ = iris
    clf = HeterogeneousDistiller(teachers, forest(), method="ce", balance=False, temperature=2).fit(X)
    outputs = TeacherOutputs(teachers).fit(X)
    Q = clf.merger_.method_.transform(outputs.transform(X))
    by_hand = SoftLabelClassifier(forest(), temperature=2, classes=clf.classes_).fit(X, Q)
    np.testing.assert_array_equal(by_hand.predict_proba(X), clf.predict_proba(X))


def test_temperature_of_the_distiller_wins_over_that_of_the_method(iris, teachers):
    X, _ = iris
    method = LogitFactorization(temperature=7)
    own = HeterogeneousDistiller(teachers, forest(), method=method).fit(X)
    assert own.merger_.method_.temperature == own.student_.temperature == 7
    given = HeterogeneousDistiller(teachers, forest(), method=method, temperature=2).fit(X)
    assert given.merger_.method_.temperature == given.student_.temperature == 2
    assert method.temperature == 7
    assert not hasattr(method, "classes_")
    assert HeterogeneousDistiller(teachers, forest()).fit(X).merger_.method_.temperature == 1


@pytest.mark.parametrize("student", [LogisticRegression(), KNeighborsClassifier(10), forest()], ids=str)
def test_probabilities_are_at_temperature_one(iris, teachers, student):
    """A high temperature smooths the labels, not the predictions."""
    X, y = iris
    clf = HeterogeneousDistiller(teachers, student, method="mf_lf", balance=True)
    losses = {T: log_loss(y, clf.set_params(temperature=T).fit(X).predict_proba(X)) for T in (1, 3)}
    assert losses[3] < losses[1] + 0.05
    assert losses[3] < 0.4


def test_teachers_are_never_changed_or_cloned(iris, teachers):
    X, _ = iris
    before = [joblib.hash(teacher) for teacher in teachers]
    clf = HeterogeneousDistiller(teachers, forest())
    copied = clone(clone(make_pipeline(StandardScaler(), clf)))[-1]
    assert copied.teachers is teachers
    assert copied.student is not clf.student
    clf.fit(X)
    assert [joblib.hash(teacher) for teacher in teachers] == before
    revived = pickle.loads(pickle.dumps(clf))
    np.testing.assert_array_equal(revived.predict_proba(X), clf.predict_proba(X))
    assert revived.score(X) == pytest.approx(clf.score(X))


@pytest.mark.filterwarnings("ignore:A search without labels:UserWarning")
def test_search_over_temperature_method_and_student_without_labels(iris, teachers):
    X, _ = iris
    grid = {"temperature": [1, 3], "method": ["ce", "mf_lf"], "student__max_depth": [1, None]}
    search = GridSearchCV(HeterogeneousDistiller(teachers, forest()), grid, cv=3, n_jobs=2).fit(X)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    assert search.best_params_["student__max_depth"] is None
    assert search.score(X) == search.best_estimator_.score(X)
    assert search.predict(X).shape == (150,)


def test_search_over_parameters_of_a_method_and_with_labels(iris, teachers):
    X, y = iris
    clf = HeterogeneousDistiller(teachers, forest(), method=LogitFactorization(scale="free"))
    scoring = {"accuracy": "accuracy", "agreement": teacher_agreement_scorer}
    grid = {"method__lam": [0.01, 0.1]}
    search = GridSearchCV(clf, grid, scoring=scoring, refit="accuracy", cv=3).fit(X, y)
    assert (search.cv_results_["mean_test_accuracy"] > 0.8).all()
    assert (search.cv_results_["mean_test_agreement"] < 0).all()
    assert cross_val_score(clf, X, y, cv=3).min() > 0.8


class Counting(LinearTeacher):
    calls: list = []

    def predict_log_proba(self, X):
        Counting.calls.append(len(X))
        return super().predict_log_proba(X)


def test_the_store_lets_a_search_call_each_teacher_once_per_fold(tmp_path):
    X = np.random.default_rng(0).normal(size=(60, 3))
    Counting.calls.clear()
    teachers = [Counting((0, 1), 0).fit(X), Counting((1, 2), 1).fit(X)]
    clf = HeterogeneousDistiller(TeacherMerger(teachers, store=tmp_path), DecisionTreeClassifier())
    GridSearchCV(clf, {"student__max_depth": [1, 2, 3, 4]}, cv=3, refit=False).fit(X)
    # per fold, each of the two teachers: once for training, once for scoring
    assert len(Counting.calls) == 3 * 2 * 2


def test_in_a_pipeline(iris):
    X, y = iris
    scaled = StandardScaler().fit_transform(X)
    teachers = [LogisticRegression().fit(scaled[y != k], y[y != k]) for k in (0, 2)]
    pipe = make_pipeline(StandardScaler(), HeterogeneousDistiller(teachers, forest())).fit(X)
    assert pipe.score(X, y) > 0.85
    assert teacher_agreement_scorer(pipe, X) == pytest.approx(pipe[-1].score(scaled))


def test_sample_weight_reaches_balance_and_student(iris, teachers):
    X, _ = iris
    weight = np.tile([1.0, 0.0], 75)
    weighted = HeterogeneousDistiller(teachers, LogisticRegression(), balance=True)
    weighted.fit(X, sample_weight=weight)
    np.testing.assert_allclose(weighted.class_weight_, 1 / weighted.merger_.transform(X[::2]).mean(axis=0))
    half = HeterogeneousDistiller(teachers, LogisticRegression(), balance=True).fit(X[::2])
    np.testing.assert_allclose(weighted.predict_proba(X), half.predict_proba(X), atol=1e-3)


def test_auto_estimates_class_frequencies_and_false_leaves_labels_as_merged(iris, teachers):
    X, _ = iris
    for clf in (HeterogeneousDistiller(teachers, LogisticRegression(max_iter=500)), UnifiedEnsemble(teachers)):
        auto, merged = clone(clf).fit(X), clone(clf).set_params(balance=False).fit(X)
        assert auto.class_weight_ is merged.class_weight_ is merged.merger_.class_scale_ is None
        told = clone(clf).set_params(class_prior=auto.merger_.class_scale_.prior).fit(X)
        np.testing.assert_allclose(auto.predict_proba(X), told.predict_proba(X), atol=1e-6)


def test_an_easy_case_with_uneven_classes():
    """Estimating class frequencies from the answers alone once gave .40 here."""
    X, y = make_blobs([600] * 4, n_features=5, center_box=(-8, 8), random_state=23)
    own = [np.concatenate([np.flatnonzero(y == k)[:150] for k in known]) for known in ([1, 2, 3], [0, 2, 3], [1, 2, 3])]
    teachers = [KNeighborsClassifier().fit(X[rows], y[rows]) for rows in own]
    counts = zip(range(4), (240, 45, 20, 95), strict=True)
    rows = np.concatenate([np.flatnonzero(y == k)[150 : 150 + n] for k, n in counts])
    assert HeterogeneousDistiller(teachers, KNeighborsClassifier()).fit(X[rows]).score(X[rows], y[rows]) > 0.99


def test_weights_count_in_the_score_without_labels(iris, teachers):
    X, _ = iris
    clf = HeterogeneousDistiller(teachers, forest()).fit(X)
    weight = np.r_[np.ones(50), np.zeros(100)]
    assert clf.score(X, sample_weight=weight) == pytest.approx(clf.score(X[:50]))
    with pytest.raises(ValueError, match=r"[Ss]ample.weight"):
        clf.score(X, sample_weight=np.zeros(150))


def test_refitting_takes_new_parameters(iris, teachers):
    X, _ = iris
    clf = HeterogeneousDistiller(teachers, DecisionTreeClassifier()).fit(X)
    assert clf.class_weight_ is None
    assert clf.set_params(balance=True).fit(X[:2]).class_weight_ is not None


def test_a_wrong_y_is_noticed_before_any_teacher_is_read(iris):
    X, y = iris
    Counting.calls.clear()
    with pytest.raises(ValueError, match="No teacher knows any"):
        HeterogeneousDistiller([Counting((0, 1, 2)).fit(X)], forest()).fit(X, y + 10)
    with pytest.raises(TypeError, match="cannot learn from soft labels"):
        HeterogeneousDistiller([Counting((0, 1, 2)).fit(X)], LinearDiscriminantAnalysis()).fit(X)
    assert Counting.calls == []


def test_nested_pipelines_are_students(iris, teachers):
    X, y = iris
    student = make_pipeline(StandardScaler(), make_pipeline(StandardScaler(), forest()))
    assert HeterogeneousDistiller(teachers, student).fit(X).score(X, y) > 0.85


def test_the_student_alone_predicts_the_same(iris, teachers):
    X, _ = iris
    clf = HeterogeneousDistiller(teachers, forest()).fit(X)
    alone = pickle.loads(pickle.dumps(clf.student_))
    np.testing.assert_array_equal(alone.predict(X), clf.predict(X))


def test_metadata_is_routed_to_the_student(iris, teachers):
    X, _ = iris
    clf = HeterogeneousDistiller(teachers, SGDClassifier())
    with pytest.raises(ValueError, match="enable_metadata_routing"):
        clf.fit(X, coef_init=np.zeros((3, 4)))
    with sklearn.config_context(enable_metadata_routing=True):
        student = SGDClassifier(loss="log_loss", max_iter=1, tol=None, eta0=1e-9, learning_rate="constant")
        student.set_fit_request(coef_init=True, intercept_init=True, sample_weight=False)
        clf = HeterogeneousDistiller(teachers, student).set_fit_request(sample_weight=True)
        clf.set_score_request(sample_weight=False)
        start = np.arange(12.0).reshape(3, 4)
        clf.fit(X, sample_weight=np.ones(150), coef_init=start, intercept_init=np.zeros(3))
        np.testing.assert_allclose(clf.student_.estimator_.coef_, start, atol=1e-3)
        search = GridSearchCV(clf, {"student__alpha": [1e-4, 1e-3]}, cv=2)
        search.fit(X, sample_weight=np.ones(150))
        assert np.isfinite(search.cv_results_["mean_test_score"]).all()


def test_precomputed_answers_need_no_teacher(iris, teachers):
    X, y = iris
    outputs = TeacherOutputs(teachers).fit(X)
    log_p = outputs.transform(X)
    direct = HeterogeneousDistiller(teachers, forest()).fit(X)
    lists = [[0, 1], [1, 2], [0, 2]]
    alone = HeterogeneousDistiller(None, forest(), class_lists=lists).fit(X, log_p=log_p)
    np.testing.assert_array_equal(alone.predict_proba(X), direct.predict_proba(X))
    assert alone.score(X, y) == direct.score(X, y)
    with pytest.raises(ValueError, match="teacher_agreement"):
        alone.score(X)
    with pytest.raises(TypeError, match=r"class_lists and fit\(X, log_p=...\)"):
        HeterogeneousDistiller(None, forest()).fit(X, log_p=log_p)
    with pytest.raises(TypeError, match=r"teachers is None.*class_lists and fit\(X, log_p=...\)"):
        clone(alone).fit(X)
    with pytest.raises(ValueError, match=r"log_p must have shape \(150, 6\).*got \(149, 6\)"):
        HeterogeneousDistiller(teachers, forest()).fit(X, log_p=log_p[:-1])
    search = GridSearchCV(direct, {"temperature": [1, 3]}, cv=3, scoring="accuracy").fit(X, y, log_p=log_p)
    assert search.best_score_ > 0.8


@pytest.mark.parametrize(
    "names", [np.array(["ash", "birch", "cedar"]), np.array(["ash", "birch", "cedar"], dtype=object), [10, 20, 30]],
    ids=["str", "object", "int"],
)  # fmt: skip
def test_labels_of_every_sort(iris, names):
    X, y = iris
    named = np.asarray(names)[y]
    teachers = [KNeighborsClassifier().fit(X[y != k], named[y != k]) for k in range(3)]
    clf = HeterogeneousDistiller(teachers, forest()).fit(X, named)
    assert set(clf.predict(X).tolist()) <= set(np.asarray(names).tolist())
    assert clf.score(X, named) > 0.9


def test_class_lists_give_one_name_to_one_thing(iris, teachers):
    X, y = iris
    lists = [["setosa", "versicolor"], ["versicolor", "virginica"], ["setosa", "virginica"]]
    clf = HeterogeneousDistiller(teachers, forest(), class_lists=lists).fit(X)
    assert clf.score(X, np.array(["setosa", "versicolor", "virginica"])[y]) > 0.85


@pytest.mark.parametrize("student", [LogisticRegression(max_iter=1000), KNeighborsClassifier(2), forest()], ids=str)
def test_one_teacher_and_one_class(iris, student):
    X, y = iris
    one = HeterogeneousDistiller([LogisticRegression(max_iter=500).fit(X, y)], student).fit(X)
    assert one.score(X, y) > 0.9
    only = HeterogeneousDistiller([DummyClassifier().fit(X, np.full(150, "only"))], student).fit(X)
    assert set(only.predict(X)) == {"only"}
    assert only.score(X) == pytest.approx(0)


def test_disjoint_teachers_are_warned_of_once(iris):
    X, _ = iris
    digits = linear_teachers([["a", "b"], ["c", "d"]])
    with pytest.warns(UserWarning, match=r"do not connect.*\{a, b\}, \{c, d\}") as caught:
        clf = HeterogeneousDistiller(digits, forest()).fit(X)
    assert sum("do not connect" in str(warning.message) for warning in caught) == 1
    assert clf.merger_.label_space_.n_components == 2
    assert np.isfinite(clf.predict_proba(X)).all()


@pytest.mark.parametrize("convert", [csr_matrix, pd.DataFrame, lambda X: X.astype(np.float32), lambda X: X.tolist()],
                         ids=["sparse", "frame", "float32", "list"])  # fmt: skip
def test_kinds_of_x(convert):
    X = np.random.default_rng(0).normal(size=(80, 4))
    teachers = linear_teachers([[0, 1], [1, 2]])
    expected = HeterogeneousDistiller(teachers, LogisticRegression()).fit(X).predict_proba(X)
    clf = HeterogeneousDistiller(teachers, LogisticRegression()).fit(convert(X))
    np.testing.assert_allclose(clf.predict_proba(convert(X)), expected, atol=1e-3)
    assert clf.n_features_in_ == 4


def test_frames_keep_their_columns(iris):
    X, y = iris
    frame = pd.DataFrame(X, columns=["sl", "sw", "pl", "pw"])
    petals = make_column_transformer((StandardScaler(), ["pl", "pw"]))
    teachers = [make_pipeline(clone(petals), LogisticRegression()).fit(frame[y != k], y[y != k]) for k in (0, 2)]
    student = make_pipeline(clone(petals), forest())
    clf = HeterogeneousDistiller(teachers, student).fit(frame)
    assert clf.feature_names_in_.tolist() == ["sl", "sw", "pl", "pw"]
    assert clf.score(frame, y) > 0.85
    assert clf.score(frame) < 0
    with pytest.raises(ValueError, match="feature names"):
        clf.predict(frame[["sw", "sl", "pl", "pw"]])


def test_texts():
    texts = ["good film", "bad film", "dull film", "good day", "bad day", "dull day"]
    first = make_pipeline(TfidfVectorizer(), MultinomialNB()).fit(texts[:2] + texts[3:5], ["+", "-", "+", "-"])
    second = make_pipeline(TfidfVectorizer(), MultinomialNB()).fit(texts[1:3] + texts[4:], ["-", "0", "-", "0"])
    student = make_pipeline(TfidfVectorizer(), LogisticRegression())
    clf = HeterogeneousDistiller([first, second], student).fit(texts)
    assert clf.predict(["good night"]).tolist() == ["+"]
    assert not hasattr(clf, "n_features_in_")
    assert cross_val_predict(clf, texts, cv=2).tolist() == ["+", "-", "0", "+", "-", "0"]
    assert (cross_val_score(clf, texts, cv=2) < 0).all()  # agreement with the teachers


def test_missing_values_are_up_to_teachers_and_student(iris):
    X, y = iris
    X = X.copy()
    X[::7, 0] = np.nan
    teachers = [HistGradientBoostingClassifier(max_iter=10).fit(X[y != k], y[y != k]) for k in (0, 2)]
    clf = HeterogeneousDistiller(teachers, HistGradientBoostingClassifier(max_iter=10)).fit(X)
    assert clf.score(X, y) > 0.8
    with pytest.raises(ValueError, match="NaN"):
        HeterogeneousDistiller(teachers, LogisticRegression()).fit(X)


def test_pandas_config_does_not_leak(iris, teachers):
    X, _ = iris
    expected = HeterogeneousDistiller(teachers, forest()).fit(X)
    with sklearn.config_context(transform_output="pandas"):
        clf = HeterogeneousDistiller(teachers, forest()).fit(X)
        np.testing.assert_array_equal(clf.predict_proba(X), expected.predict_proba(X))
        assert clf.score(X) == expected.score(X)


def test_a_soft_label_classifier_is_taken_as_it_is(iris, teachers):
    X, _ = iris
    student = SoftLabelClassifier(DecisionTreeClassifier(random_state=0, max_depth=3), strategy="replicate")
    clf = HeterogeneousDistiller(teachers, student, temperature=3).fit(X)
    assert clf.student_.strategy_ == "replicate"
    assert clf.student_.temperature == 3
    assert student.temperature == 1
    search = GridSearchCV(clf, {"student__estimator__max_depth": [1, 3]}, cv=2).fit(X)
    assert np.isfinite(search.best_score_)


def test_verbose(iris, teachers, capsys):
    X, _ = iris
    HeterogeneousDistiller(teachers, forest(), verbose=1).fit(X)
    shown = "".join(capsys.readouterr())
    trained = "Training RandomForestClassifier on 150 rows, 3 classes"
    for step in ("Calling teachers", "Soft labels", trained):
        assert step in shown
    HeterogeneousDistiller(teachers, forest()).fit(X)
    assert "".join(capsys.readouterr()) == ""


def test_labels_that_no_teacher_knows(iris, teachers):
    X, y = iris
    with pytest.warns(UserWarning, match=r"no teacher knows: \[7\]"):
        HeterogeneousDistiller(teachers, forest()).fit(X, np.where(y == 2, 7, y))
    with pytest.raises(ValueError, match="No teacher knows any"):
        HeterogeneousDistiller(teachers, forest()).fit(X, y.astype(str))
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        HeterogeneousDistiller(teachers, forest()).fit(X, y[:-1])


@pytest.mark.parametrize("missing", [np.nan, None, pd.NA])
@pytest.mark.parametrize("kind", [object, "Int64", "string", "category", float])
def test_missing_labels_are_rows_without_a_label(iris, teachers, missing, kind):
    X, y = iris
    marked = np.where(np.arange(150) == 3, -1, y)
    labels = y.astype(object)
    labels[3] = np.nan if kind is float else missing
    labels = labels.astype(kind) if kind in (object, float) else pd.Series(labels, dtype=kind)
    if kind == "string":
        teachers = [clone(teacher).fit(X[y != k], y[y != k].astype(str)) for k, teacher in enumerate(teachers)]
        labels, marked = labels.astype(kind), marked.astype(str)
    same = [HeterogeneousDistiller(teachers, forest()).fit(X, given) for given in (labels, marked)]
    np.testing.assert_array_equal(same[0].merger_.labels_.rows, np.delete(np.arange(150), 3))
    np.testing.assert_array_equal(same[0].predict_proba(X), same[1].predict_proba(X))


@pytest.mark.parametrize(
    ("params", "error", "message"),
    [
        ({"teachers": []}, TypeError, "teachers must be a list of fitted classifiers"),
        ({"method": "magic"}, ValueError, "method must be one of"),
        ({"balance": "yes"}, ValueError, "balance must be True, False or"),
        ({"temperature": -1}, ValueError, "temperature must be a positive number"),
        ({"student": 5}, TypeError, "must be an estimator, .* got 5"),
        ({"student": DummyClassifier}, TypeError, "must be an estimator"),
        ({"student": LinearDiscriminantAnalysis()}, TypeError, "cannot learn from soft labels"),
        ({"student": make_pipeline(LinearDiscriminantAnalysis())}, TypeError, "cannot learn from soft labels"),
    ],
)
def test_bad_parameters(iris, teachers, params, error, message):
    X, _ = iris
    clf = HeterogeneousDistiller(**({"teachers": teachers, "student": forest()} | params))
    with pytest.raises(error, match=message):
        clf.fit(X)


def test_digits_with_few_classes_each():
    """The library's promise in one small case: far above the naive extension, no label used."""
    X, y = load_digits(return_X_y=True)
    groups = [[0, 1, 2, 3], [3, 4, 5, 6], [6, 7, 8, 9], [0, 4, 8, 9], [1, 5, 7]]
    seen = np.arange(len(y)) < 900
    teachers = [
        make_pipeline(StandardScaler(), LogisticRegression(max_iter=500)).fit(X[m], y[m])
        for m in (seen & np.isin(y, group) for group in groups)
    ]
    accuracy = {
        method: HeterogeneousDistiller(teachers, KNeighborsClassifier(5), method=method, balance=False)
        .fit(X[900:1400])
        .score(X[1400:], y[1400:])
        for method in METHOD_NAMES
    }
    assert all(accuracy[method] > accuracy["sd"] + 0.05 for method in METHOD_NAMES if method != "sd")
    assert accuracy["mf_lf"] > 0.85
