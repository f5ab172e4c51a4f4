"""The merge as a transformer, names of teachers, and fits that fail."""

import pickle

import numpy as np
import pytest
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.utils.validation import check_is_fitted

from sklearn_uhc import (
    CrossEntropyUnifier,
    HeterogeneousDistiller,
    LogitFactorization,
    SoftLabelClassifier,
    TeacherCalibrator,
    TeacherMerger,
    TeacherOutputs,
    UnifiedEnsemble,
)
from sklearn_uhc.answers import Answers, AnswerTransformer
from sklearn_uhc.inspection import teacher_report
from tests.helpers import LinearTeacher, linear_teachers

LISTS = [["ant", "bee", "cat"], ["bee", "cat", "dog"], ["cat", "dog", "ant"]]
X = np.random.default_rng(0).normal(size=(80, 3))


def teachers():
    return linear_teachers(LISTS)


def named():
    return dict(zip(["north", "south", "west"], teachers(), strict=True))


class Counting(LinearTeacher):
    """A teacher that counts its calls."""

    asked = 0

    def predict_log_proba(self, X):
        type(self).asked += 1
        return super().predict_log_proba(X)


class Failing(BaseEstimator):
    """A teacher that fails when called."""

    classes_ = np.array(["ant", "eel"])

    def predict_proba(self, X):
        raise RuntimeError("no answer")


def test_it_gives_what_the_steps_give_one_by_one():
    merger = TeacherMerger(teachers(), class_prior=None, temperature=2).fit(X)
    outputs = TeacherOutputs(teachers())
    steps = make_pipeline(outputs, TeacherCalibrator(), CrossEntropyUnifier(temperature=2)).fit(X)
    np.testing.assert_array_equal(merger.transform(X), steps.transform(X))
    np.testing.assert_array_equal(merger.fit_transform(X), steps.transform(X))
    assert merger.classes_.tolist() == ["ant", "bee", "cat", "dog"] == steps[-1].classes_.tolist()
    assert merger.n_features_in_ == 3


def test_it_is_what_the_classifiers_use():
    distiller = HeterogeneousDistiller(teachers(), KNeighborsClassifier(3)).fit(X)
    merger = TeacherMerger(teachers(), class_prior="auto")
    np.testing.assert_array_equal(distiller.merger_.transform(X), merger.fit_transform(X))


def test_it_works_in_pipelines_and_searches():
    pipeline = make_pipeline(TeacherMerger(teachers()), LogisticRegression())
    y = np.arange(80) % 2
    search = GridSearchCV(pipeline, {"teachermerger__temperature": [1, 3]}, cv=2).fit(X, y)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    frame = TeacherMerger(teachers()).set_output(transform="pandas").fit_transform(X)
    assert list(frame.columns) == ["ant", "bee", "cat", "dog"]
    copied = pickle.loads(pickle.dumps(TeacherMerger(teachers()).fit(X)))
    np.testing.assert_array_equal(copied.transform(X), frame)
    assert clone(TeacherMerger(named())).teachers["north"].classes_.tolist() == LISTS[0]


def test_answers_can_be_read_once_and_used_again():
    merger = TeacherMerger(teachers()).fit(X)
    answers = merger.answers(X)
    assert isinstance(answers, Answers)
    again = TeacherMerger(teachers()).fit_transform(None, log_p=answers)
    np.testing.assert_array_equal(again, merger.transform(X))
    with pytest.raises(ValueError, match="answers are from other"):
        TeacherMerger(teachers()[:2]).fit(None, log_p=answers)
    with pytest.raises(ValueError, match="no teacher can be called"):
        TeacherMerger(teachers()).fit(None, log_p=answers).transform(X)


@pytest.mark.parametrize("given", [named(), list(named().items())], ids=["dict", "pairs"])
def test_names_reach_columns_messages_report_and_diagram(given):
    outputs = TeacherOutputs(given).fit(X)
    assert outputs.get_feature_names_out()[3] == "south__bee"
    np.testing.assert_array_equal(outputs.transform(X), TeacherOutputs(teachers()).fit_transform(X))
    assert [row["name"] for row in teacher_report(given, X)["teachers"]] == ["north", "south", "west"]
    assert "west: cat, dog, ant" in HeterogeneousDistiller(given, KNeighborsClassifier())._repr_html_()
    with pytest.raises(RuntimeError) as failed:
        TeacherOutputs({**named(), "east": Failing()}).fit(X)
    assert "teacher 'east' (Failing)" in str(getattr(failed.value, "__notes__", "teacher 'east' (Failing)"))


def test_lists_by_name():
    merger = TeacherMerger(named(), class_lists={"south": ["bee", "cat", "elk"]}).fit(X)
    assert merger.label_space_.class_lists[1].tolist() == ["bee", "cat", "elk"]
    assert merger.label_space_.class_lists[0].tolist() == LISTS[0]
    with pytest.raises(
        ValueError, match=r"unknown teachers: \['east'\]; the teachers are \['north', 'south', 'west'\]"
    ):
        TeacherMerger(named(), class_lists={"east": ["a"]}).fit(X)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([("a", linear_teachers(LISTS)[0]), linear_teachers(LISTS)[1]], "name all, or none"),
        ([("a", linear_teachers(LISTS)[0]), ("a", linear_teachers(LISTS)[1])], "Two teachers are named 'a'"),
        ({"a__b": linear_teachers(LISTS)[0]}, "a string without '__'"),
        ({1: linear_teachers(LISTS)[0]}, "must be a string"),
        ({}, "must be a list of fitted classifiers"),
    ],
)
def test_wrong_names(given, message):
    with pytest.raises((TypeError, ValueError), match=message):
        TeacherMerger(given).fit(X)


@pytest.mark.parametrize(
    "make",
    [TeacherOutputs, TeacherMerger, UnifiedEnsemble, lambda t: HeterogeneousDistiller(t, KNeighborsClassifier(3))],
    ids=["outputs", "merger", "ensemble", "distiller"],
)
def test_a_fit_that_fails_leaves_everything_as_it_was(make):
    estimator = make([*teachers(), Failing()])
    with pytest.raises(RuntimeError, match="no answer"):
        estimator.fit(X)
    with pytest.raises(NotFittedError):
        check_is_fitted(estimator)
    ask = "predict" if hasattr(estimator, "predict") else "transform"
    with pytest.raises(NotFittedError):
        getattr(estimator, ask)(X)
    estimator.set_params(teachers=teachers()).fit(X)
    before, known = getattr(estimator, ask)(X), dict(vars(estimator))
    estimator.set_params(teachers=[Failing(), *teachers()])
    with pytest.raises(RuntimeError, match="no answer"):
        estimator.fit(X[:, :2])
    np.testing.assert_array_equal(getattr(estimator, ask)(X), before)
    assert {**known, "teachers": estimator.teachers} == vars(estimator)


def test_a_student_that_fails_leaves_the_old_one_and_its_names():
    clf = HeterogeneousDistiller(teachers(), KNeighborsClassifier(3)).fit(X)
    before = clf.predict(X)
    clf.set_params(teachers=linear_teachers([["x", "y", "z"], ["y", "z", "w"]]), student=KNeighborsClassifier(-1))
    with pytest.raises(ValueError, match="n_neighbors"):
        clf.fit(X)
    np.testing.assert_array_equal(clf.predict(X), before)


def test_score_without_labels_asks_each_teacher_once():
    ensemble = UnifiedEnsemble([Counting(LISTS[0]).fit(None), *teachers()[1:]]).fit(X)
    Counting.asked = 0
    ensemble.score(X)
    assert Counting.asked == 1


def test_methods_and_calibrators_of_ones_own_need_no_base_class():
    class Halved(BaseEstimator):
        def fit_transform_answers(self, answers):
            return self.transform_answers(answers)

        def transform_answers(self, answers):
            return answers.saying(answers.log_p / 2)

    class Even(BaseEstimator):
        temperature = 1.0

        def fit_transform_answers(self, answers):
            return self.transform_answers(answers)

        def transform_answers(self, answers):
            self.seen = answers
            return np.full((len(answers), answers.space.n_classes), 1 / answers.space.n_classes)

    ensemble = UnifiedEnsemble(TeacherMerger(teachers(), calibrate=Halved()), method=Even()).fit(X)
    assert ensemble.predict_proba(X) == pytest.approx(0.25)
    raw = TeacherOutputs(teachers()).fit_transform(X)
    np.testing.assert_allclose(ensemble.merger_.method_.seen.log_p, raw / 2)


def test_an_answer_transformer_derives_two_methods():
    class Sharpened(AnswerTransformer):
        def __init__(self, class_lists=None, power=2.0):
            self.class_lists, self.power = class_lists, power

        def learn(self, answers):
            self.seen_ = len(answers)

        def apply(self, answers):
            return answers.log_p * self.power

    hot = LogitFactorization(temperature=2)
    merger = TeacherMerger(teachers(), calibrate=Sharpened(), method=hot, class_prior=None)
    plain = TeacherMerger(teachers(), calibrate=False, method=LogitFactorization(temperature=1), class_prior=None)
    np.testing.assert_allclose(merger.fit_transform(X), plain.fit_transform(X))
    assert merger.calibrator_.seen_ == 80


def test_overrides_are_refused():
    student = SoftLabelClassifier(KNeighborsClassifier(3), temperature=5.0)
    with pytest.raises(ValueError, match="temperature of the merge"):
        HeterogeneousDistiller(teachers(), student).fit(X)
    with pytest.raises(ValueError, match="class_lists of its own"):
        UnifiedEnsemble(teachers(), method=LogitFactorization([["x", "y"]])).fit(X)
    assert UnifiedEnsemble(teachers(), method=LogitFactorization(LISTS)).fit(X).classes_.tolist()[0] == "ant"
    with pytest.raises(ValueError, match="class_lists to the merge"):
        UnifiedEnsemble(TeacherMerger(teachers(), calibrate=TeacherCalibrator(LISTS))).fit(X)


def test_silence_is_a_matter_of_the_method_unless_the_merge_says():
    log_p = TeacherOutputs(teachers()).fit_transform(X)
    log_p[:10, :3] = np.nan
    method = CrossEntropyUnifier(abstain=True)
    quiet = TeacherMerger(None, class_lists=LISTS, method=method).fit_transform(None, log_p=log_p)
    assert np.isfinite(quiet).all()
    with pytest.raises(ValueError, match="contains NaN"):
        TeacherMerger(None, class_lists=LISTS, method=method, abstain=False).fit(None, log_p=log_p)
