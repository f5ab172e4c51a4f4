import pickle

import numpy as np
import pandas as pd
import pytest
import sklearn
from scipy.sparse import coo_matrix, csr_matrix
from scipy.special import expit, log_softmax
from sklearn.base import clone
from sklearn.cluster import KMeans
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_digits, load_iris
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression, LogisticRegression, RidgeClassifier
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import GaussianNB, MultinomialNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import SVC, LinearSVC
from sklearn.tree import DecisionTreeClassifier

from sklearn_uhc import OTHER, TeacherOutputs
from tests.helpers import LinearTeacher, linear_teachers


class Answers:
    """A teacher that is not an estimator and gives fixed answers."""

    def __init__(self, answers, classes=("a", "b"), response="predict_proba"):
        self.classes_ = np.asarray(classes)
        setattr(self, response, lambda X: np.asarray(answers)[: len(X)])


@pytest.fixture(scope="module")
def iris():
    return load_iris(return_X_y=True)


def test_blocks_hold_each_teachers_log_probabilities(iris):
    X, y = iris
    a = LogisticRegression(max_iter=500).fit(X[y != 2], y[y != 2])
    b = GaussianNB().fit(X[y != 0], y[y != 0])
    outputs = TeacherOutputs([a, b], floor=1e-9).fit(X)
    log_p = outputs.transform(X)
    np.testing.assert_allclose(log_p[:, :2], a.predict_log_proba(X), atol=1e-6)
    np.testing.assert_allclose(np.exp(log_p).reshape(-1, 2, 2).sum(axis=2), 1)
    assert log_p.min() >= np.log(1e-9) - 1e-6
    assert [c.tolist() for c in outputs.class_lists_] == [[0, 1], [1, 2]]


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("model", [LinearSVC(), RidgeClassifier()], ids=str)
def test_decision_function_where_there_is_nothing_else(iris, model, n_classes):
    X, y = iris
    teacher = clone(model).fit(X[y < n_classes], y[y < n_classes])
    log_p = TeacherOutputs([teacher]).fit_transform(X)
    np.testing.assert_array_equal(teacher.classes_[log_p.argmax(axis=1)], teacher.predict(X))
    scores = teacher.decision_function(X)
    expected = np.log(expit(np.c_[-scores, scores])) if n_classes == 2 else log_softmax(scores, axis=1)
    np.testing.assert_allclose(log_p, np.maximum(expected, np.log(1e-6)), atol=1e-4)


def test_naive_bayes_is_read_by_its_logarithms(iris):
    """predict_proba would have underflowed."""
    X, y = iris
    teacher = GaussianNB().fit(X, y)
    raw = TeacherOutputs([teacher], floor=1e-300).fit_transform(X)
    assert np.isfinite(raw).all()
    assert raw.min() < -100


def test_class_lists_rename(iris):
    X, y = iris
    teachers = [GaussianNB().fit(X, y), LogisticRegression(max_iter=500).fit(X, y)]
    names = ["setosa", "versicolor", "virginica"]
    outputs = TeacherOutputs(teachers, class_lists=[names, names[::-1]]).fit(X)
    assert outputs.label_space_.classes.tolist() == names
    assert outputs.get_feature_names_out()[3] == "teacher1__virginica"
    own = TeacherOutputs(teachers, class_lists=[None, [0, 1, 5]]).fit(X)
    assert own.label_space_.classes.tolist() == [0, 1, 2, 5]


def test_pandas_output_and_global_config(iris):
    X, y = iris
    teacher = LogisticRegression(max_iter=500).fit(X, y)
    frame = TeacherOutputs([teacher]).set_output(transform="pandas").fit_transform(X)
    assert frame.columns.tolist() == ["teacher0__0", "teacher0__1", "teacher0__2"]
    with sklearn.config_context(transform_output="pandas"):
        assert isinstance(TeacherOutputs([teacher]).fit_transform(X), pd.DataFrame)


def test_teachers_on_columns_of_a_frame():
    frame = pd.DataFrame({"size": [1.0, 2, 3, 4], "colour": ["red", "blue", "red", "blue"]})
    y = [0, 0, 1, 1]
    by_size = make_pipeline(make_column_transformer((StandardScaler(), ["size"])), LogisticRegression()).fit(frame, y)
    by_colour = make_pipeline(make_column_transformer((OneHotEncoder(), ["colour"])), LogisticRegression())
    outputs = TeacherOutputs([by_size, by_colour.fit(frame, y)]).fit(frame)
    assert outputs.transform(frame).shape == (4, 4)
    assert outputs.feature_names_in_.tolist() == ["size", "colour"]


def test_texts_and_images():
    texts = ["good film", "bad film", "good day", "bad day"]
    teacher = make_pipeline(TfidfVectorizer(), MultinomialNB()).fit(texts, [1, 0, 1, 0])
    for X in (texts, np.array(texts), pd.Series(texts)):
        outputs = TeacherOutputs([teacher]).fit(X)
        assert outputs.transform(X).shape == (4, 2)
        assert not hasattr(outputs, "n_features_in_")
    images = np.zeros((5, 3, 4, 4))
    outputs = TeacherOutputs([Answers(np.full((5, 2), 0.5))]).fit(images)
    assert outputs.transform(images).shape == (5, 2)
    assert not hasattr(outputs, "n_features_in_")


@pytest.mark.parametrize("convert", [csr_matrix, coo_matrix, list, pd.DataFrame, lambda X: X.astype(np.float32)])
def test_kinds_of_x_in_chunks(convert):
    X = np.random.default_rng(0).normal(size=(60, 3))
    teachers = linear_teachers([[0, 1], [1, 2]])
    expected = TeacherOutputs(teachers).fit_transform(X)
    with sklearn.config_context(working_memory=0.001):
        found = TeacherOutputs(teachers, n_jobs=2).fit_transform(convert(X))
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_float32_teachers_give_float32():
    answers = np.array([[0.7, 0.3], [0.2, 0.8]], dtype=np.float32)
    assert TeacherOutputs([Answers(answers)]).fit_transform(np.zeros((2, 1))).dtype == np.float32


class Counting(LinearTeacher):
    """Counts its calls, in a list shared by all copies."""

    calls: list = []

    def predict_log_proba(self, X):
        Counting.calls.append(len(X))
        return super().predict_log_proba(X)


def test_clone_keeps_the_teachers_and_pickle_works(iris):
    X, y = iris
    teachers = [FrozenEstimator(GaussianNB().fit(X, y)), LogisticRegression(max_iter=500).fit(X, y)]
    outputs = TeacherOutputs(teachers, floor=0.01)
    copied = clone(outputs)
    assert copied.teachers is teachers
    assert copied.floor == 0.01
    assert outputs.teachers is teachers
    revived = pickle.loads(pickle.dumps(outputs.fit(X)))
    np.testing.assert_array_equal(revived.transform(X), outputs.transform(X))


def test_a_search_is_a_teacher(iris):
    X, y = iris
    search = GridSearchCV(DecisionTreeClassifier(), {"max_depth": [1, 3]}, cv=2).fit(X, y)
    assert TeacherOutputs([search]).fit_transform(X).shape == (150, 3)


def test_floors_are_learnt_per_teacher():
    X, y = load_digits(return_X_y=True)
    X_train, y_train, X_u = X[:600], y[:600], X[600:1200]
    saturated = [
        DecisionTreeClassifier(random_state=0),
        KNeighborsClassifier(5),
        RandomForestClassifier(30, random_state=0),
        GaussianNB(),
    ]
    smooth = [
        make_pipeline(StandardScaler(), LogisticRegression(max_iter=500)),
        make_pipeline(StandardScaler(), MLPClassifier((50,), max_iter=60, tol=1e-2, random_state=0)),
    ]
    outputs = TeacherOutputs([m.fit(X_train, y_train) for m in saturated + smooth]).fit(X_u)
    np.testing.assert_allclose(outputs.floor_, [0.005] * 4 + [1e-6] * 2)
    log_p = outputs.transform(X_u[:50])
    blocks = outputs.label_space_.blocks
    for block, floor in zip(blocks, outputs.floor_, strict=True):
        assert np.exp(log_p[:, block]).min() >= floor / (1 + 10 * floor) - 1e-12
    np.testing.assert_allclose(TeacherOutputs(saturated, floor=0.02).fit(X_u).floor_, 0.02)


def test_underflow_of_a_network_is_not_saturation():
    answers = np.full((1000, 10), 1e-3)
    answers[:, 0] = 1 - 9e-3
    answers[:5, 5] = 0
    answers[:5, 0] += 1e-3
    teacher = Answers(answers, classes=range(10))
    assert TeacherOutputs([teacher]).fit(np.zeros((1000, 1))).floor_ == [1e-6]


def test_verbose_shows_progress(capsys):
    X = np.zeros((3, 2))
    TeacherOutputs(linear_teachers([[0, 1]]), verbose=1).fit(X)
    assert "Calling teachers" in "".join(capsys.readouterr())
    TeacherOutputs(linear_teachers([[0, 1]])).fit(X)
    assert "".join(capsys.readouterr()) == ""


NAN = np.nan


@pytest.mark.parametrize(
    ("teacher", "error", "message"),
    [
        (LogisticRegression(), NotFittedError, r"teacher 1 \(LogisticRegression\) is not fitted"),
        (LogisticRegression, TypeError, "is a class, not a fitted classifier"),
        (
            Answers([[0.5, 0.5], [NAN, 0.5]]),
            ValueError,
            r"teacher 1 \(Answers\) returns NaN .* row 1 \(part of the row\)",
        ),
        (Answers([[0.5, 0.5], [NAN, NAN]]), ValueError, r"NaN in 1 of 2 rows, first in row 1 \(whole row\)"),
        (Answers([[0.5, 0.5], [0.6, 0.6]]), ValueError, r"teacher 1 .* row 1 sums to 1.2"),
        (Answers([[0.5, 0.5], [-0.5, 1.5]]), ValueError, "negative value -0.5 in row 1"),
        (Answers([[0.5, 0.5]] * 2, classes=("a", "b", "c")), ValueError, r"output of shape \(2, 2\), .* 3 entries"),
        (Answers([[0.5, 0.5]] * 2, classes=("a", "a")), ValueError, "Class list 1 repeats"),
        (Answers([[0.5, 0.5]] * 2, classes=(0, 1)), TypeError, "different types"),
        (Answers([[0.1, 0.2], [NAN, 3]], response="decision_function"), ValueError, "returns NaN"),
        (Answers([[0.5, 0.5]] * 2, response="predict"), TypeError, "none of predict_log_proba"),
        (Answers([0.5, 0.5]), ValueError, "one row per sample"),
        (Answers([[0.5, 0.5]]), ValueError, "teacher 1 .* gave 1 rows of output for 2 rows"),
        (("name", Answers([[0.5, 0.5]] * 2)), TypeError, "without a name"),
        (
            LinearRegression().fit([[0.0], [1.0]], [0, 1]),
            TypeError,
            r"teacher 1 \(LinearRegression\) is not a classifier",
        ),
        (KMeans(1).fit([[0.0], [1.0]]), TypeError, "is not a classifier"),
    ],
)
def test_bad_teachers(teacher, error, message):
    good = Answers([[0.5, 0.5]] * 2)
    with pytest.raises(error, match=message):
        TeacherOutputs([good, teacher]).fit(np.zeros((2, 1)))


def test_infinite_scores_stay_finite():
    outputs = TeacherOutputs([Answers([[np.inf, 0.0], [-np.inf, np.inf]], response="decision_function")])
    log_p = outputs.fit_transform(np.zeros((2, 1)))
    assert np.isfinite(log_p).all()
    assert log_p.argmax(axis=1).tolist() == [0, 1]


def test_several_outputs_are_refused(iris):
    X, y = iris
    forest = RandomForestClassifier(3).fit(X, np.c_[y, y])
    with pytest.raises(ValueError, match=r"teacher 0 \(RandomForestClassifier\) predicts several outputs"):
        TeacherOutputs([forest]).fit(X)


@pytest.mark.parametrize(
    ("params", "error", "message"),
    [
        ({"teachers": []}, TypeError, "list of fitted classifiers"),
        ({"teachers": None}, TypeError, "list of fitted classifiers"),
        ({"class_lists": [["a", "b"]]}, ValueError, "1 lists for 2 teachers"),
        ({"class_lists": [["a", "b"], ["a", "b", "c"]]}, ValueError, r"class_lists\[1\] has 3 classes"),
        ({"floor": 0}, ValueError, "floor must be"),
        ({"floor": 0.7}, ValueError, "floor must be"),
        ({"floor": "none"}, ValueError, "floor must be"),
        ({"class_lists": [list("abcde"), list("abcde")], "floor": 0.3}, ValueError, "has 5 classes"),
    ],
)
def test_bad_parameters(params, error, message):
    good = Answers([[0.5, 0.5]] * 2)
    with pytest.raises(error, match=message):
        TeacherOutputs(**({"teachers": [good, good]} | params)).fit(np.zeros((2, 1)))


def test_a_teacher_without_classes_needs_a_list():
    teacher = Answers([[0.5, 0.5]] * 2)
    del teacher.classes_
    with pytest.raises(ValueError, match=r"teacher 0 \(Answers\) has no classes_"):
        TeacherOutputs([teacher]).fit(np.zeros((2, 1)))
    assert TeacherOutputs([teacher], class_lists=[["x", "y"]]).fit_transform(np.zeros((2, 1))).shape == (2, 2)


def test_pairwise_scores_are_refused(iris):
    """With three classes they would look like class scores."""
    X, y = iris
    teacher = SVC(decision_function_shape="ovo").fit(X, y)
    with pytest.raises(ValueError, match=r"teacher 0 \(SVC\) .* set_params\(decision_function_shape='ovr'\)"):
        TeacherOutputs([teacher]).fit(X)
    with pytest.raises(ValueError, match="per pair"):
        TeacherOutputs([make_pipeline(StandardScaler(), SVC(decision_function_shape="ovo")).fit(X, y)]).fit(X)
    log_p = TeacherOutputs([teacher.set_params(decision_function_shape="ovr")]).fit_transform(X)
    assert (log_p.argmax(axis=1) == y).mean() > 0.9


def test_errors_of_a_teacher_say_which(iris):
    X, y = iris
    teachers = [LogisticRegression(max_iter=500).fit(X, y), LogisticRegression(max_iter=500).fit(X[:, :2], y)]
    with pytest.raises(ValueError, match="4 features") as caught:
        TeacherOutputs(teachers).fit(X)
    assert caught.value.__notes__ == ["This came from teacher 1 (LogisticRegression)."]


def test_lists_in_another_order_are_warned_of(iris):
    X, y = iris
    teacher = GaussianNB().fit(X, y)
    with pytest.warns(UserWarning, match=r"class_lists\[0\] holds the classes of teacher 0 .* in another order"):
        TeacherOutputs([teacher], class_lists=[[2, 1, 0]]).fit(X)


@pytest.mark.parametrize("entries", [["b", "new", "c"], ["b", OTHER, "c"], [("b", "new"), "a", "c"]])
def test_own_classes_in_other_places_are_warned_of(iris, entries):
    X, y = iris
    names = np.array(["a", "b", "c"])[y]
    teachers = [GaussianNB().fit(X, names), GaussianNB().fit(X, np.where(names == "c", "d", names))]
    with pytest.warns(UserWarning, match=r"teacher 0 .* its own class 'b' in another place: the output 'a' becomes"):
        TeacherOutputs(teachers, class_lists=[entries, None]).fit(X)
    # Numbers may be positions, and new names may be among them.
    TeacherOutputs([GaussianNB().fit(X, y)], class_lists=[[2, 5, 7]]).fit(X)
    TeacherOutputs(teachers, class_lists=[[("a", "new"), "b", OTHER], None]).fit(X)


def test_a_teacher_without_classes_of_its_own_is_named(iris):
    X, y = iris

    class Service:
        classes_ = None

        def predict_proba(self, X):
            return np.full((len(X), 3), 1 / 3)

    teachers = [Service(), GaussianNB().fit(X, y)]
    outputs = TeacherOutputs(teachers, class_lists=[[2, 0, 1], None]).fit(X)
    assert [labels.tolist() for labels in outputs.class_lists_] == [[2, 0, 1], [0, 1, 2]]
    with pytest.raises(ValueError, match=r"teacher 0 \(Service\) has no classes_"):
        TeacherOutputs(teachers).fit(X)


def test_odd_teachers_do_not_break_the_representation():
    for teachers in (None, np.array([LinearTeacher().fit(None)], dtype=object)):
        assert "TeacherOutputs" in TeacherOutputs(teachers)._repr_html_()
        with pytest.raises(TypeError, match="list of fitted classifiers"):
            TeacherOutputs(teachers).fit(np.zeros((2, 2)))


def test_token_lists_pass_and_features_are_forgotten():
    tokens = [["good", "film"], ["bad"], ["good"], ["bad", "day"]]
    teacher = make_pipeline(TfidfVectorizer(analyzer=set), MultinomialNB()).fit(tokens, [1, 0, 1, 0])
    assert TeacherOutputs([teacher]).fit_transform(tokens).shape == (4, 2)
    outputs = TeacherOutputs([Answers([[0.5, 0.5]] * 4)]).fit(np.zeros((4, 3)))
    assert outputs.n_features_in_ == 3
    assert not hasattr(outputs.fit(np.zeros((4, 3, 2, 2))), "n_features_in_")


@pytest.mark.parametrize("X", [np.zeros((0, 3)), [], pd.DataFrame({"a": []}), np.zeros((0, 3, 4, 4))])
def test_no_rows(X):
    with pytest.raises(ValueError, match=r"0 sample|Expected 2D array, got 1D"):
        TeacherOutputs(linear_teachers([[0, 1]])).fit(X)
