"""SoftLabelClassifier: exact where claimed, and clear errors."""

import pickle
import sys

import numpy as np
import pandas as pd
import pytest
import sklearn
from scipy.sparse import csr_matrix
from scipy.special import softmax
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import (
    AdaBoostClassifier,
    BaggingClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.exceptions import NotFittedError
from sklearn.feature_selection import SelectKBest
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge, RidgeClassifier, SGDClassifier
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV
from sklearn.multioutput import MultiOutputClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.validation import has_fit_parameter

from sklearn_uhc import SoftLabelClassifier
from sklearn_uhc.students.strategies import resolve_strategy
from sklearn_uhc.students.temperature import sharpen
from tests.helpers import TREES


def test_nan_from_a_student_is_an_error(data, soft):
    class Broken(LinearRegression):
        def predict(self, X):
            return np.full((len(X), 4), np.nan)

    X, _ = data
    with pytest.raises(ValueError, match="student returns NaN"):
        SoftLabelClassifier(Broken()).fit(X, soft).predict(X)


def test_a_failed_fit_is_no_fit(data, soft):
    X, _ = data
    clf = SoftLabelClassifier(LogisticRegression(C=-1))
    with pytest.raises(ValueError, match="'C' parameter"):
        clf.fit(X, soft)
    with pytest.raises(NotFittedError):
        clf.predict(X)


def test_hard_labels_and_weights_in_a_pipeline(data):
    X, y = data
    pipe = make_pipeline(StandardScaler(), LogisticRegression())
    clf = SoftLabelClassifier(pipe).fit(X, y, sample_weight=y + 1.0)
    expected = pipe.fit(X, y, logisticregression__sample_weight=y + 1.0)
    np.testing.assert_allclose(clf.predict_proba(X), expected.predict_proba(X))


MLP_LEARNS = pytest.mark.skipif(
    not has_fit_parameter(MLPClassifier(), "sample_weight"),
    reason="MLPClassifier takes sample_weight since scikit-learn 1.7",
)
CLASSIFIERS = [
    LogisticRegression(),
    RidgeClassifier(),
    LinearSVC(),
    SVC(),
    SGDClassifier(loss="log_loss", random_state=0),
    GaussianNB(),
    HistGradientBoostingClassifier(max_iter=10, max_depth=3),
    GradientBoostingClassifier(n_estimators=10),
    AdaBoostClassifier(n_estimators=10, random_state=0),
    BaggingClassifier(n_estimators=5, random_state=0),
    pytest.param(MLPClassifier((8,), max_iter=500, tol=1e-2, random_state=0), marks=MLP_LEARNS),
]


@pytest.mark.parametrize("model", [*CLASSIFIERS, *TREES, KNeighborsClassifier()], ids=lambda m: type(m).__name__)
def test_every_student_learns_names_from_soft_labels(data, soft, model):
    X, y = data
    names = np.array(["ash", "birch", "cedar", "doum"])
    clf = SoftLabelClassifier(model, classes=names).fit(X, soft)
    proba = clf.predict_proba(X)
    assert proba.shape == (300, 4)
    np.testing.assert_allclose(proba.sum(axis=1), 1)
    assert clf.score(X, names[y]) > 0.7
    assert clf.score(X, soft) > 0.7
    np.testing.assert_allclose(np.exp(clf.predict_log_proba(X)), proba)
    revived = pickle.loads(pickle.dumps(clf))
    np.testing.assert_array_equal(revived.predict(X), clf.predict(X))


def test_hard_labels_are_the_plain_estimator(data):
    X, y = data
    for model in (LogisticRegression(), RandomForestClassifier(5, random_state=0), LinearDiscriminantAnalysis()):
        wrapped = SoftLabelClassifier(model, temperature=5).fit(X, y)
        assert wrapped.strategy_ == "hard"
        np.testing.assert_allclose(wrapped.predict_proba(X), clone(model).fit(X, y).predict_proba(X), atol=1e-12)
    weighted = SoftLabelClassifier(LogisticRegression()).fit(X, y, sample_weight=y + 1.0)
    expected = LogisticRegression().fit(X, y, sample_weight=y + 1.0)
    np.testing.assert_allclose(weighted.predict_proba(X), expected.predict_proba(X))
    with pytest.raises(TypeError, match="does not accept sample_weight"):
        SoftLabelClassifier(LinearDiscriminantAnalysis()).fit(X, y, sample_weight=y + 1.0)


def test_class_names_come_from_the_columns_and_are_sorted(data, soft):
    X, _ = data
    frame = pd.DataFrame(soft, columns=["d", "a", "c", "b"])
    clf = SoftLabelClassifier(KNeighborsClassifier(1)).fit(X, frame)
    assert clf.classes_.tolist() == ["a", "b", "c", "d"]
    np.testing.assert_allclose(clf.predict_proba(X), frame[["a", "b", "c", "d"]])
    assert clf.score(X, frame) == 1
    assert SoftLabelClassifier(KNeighborsClassifier(1)).fit(X, soft).classes_.tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(
    "model",
    [LogisticRegression(C=10), KNeighborsClassifier(5), RandomForestClassifier(50, random_state=0)],
    ids=lambda m: type(m).__name__,
)
def test_tempered_labels_come_back_at_temperature_one(data, model):
    """Training at temperature 3 does not spoil the log-loss on true labels."""
    X, y = data
    Q = LogisticRegression().fit(X, y).predict_proba(X)
    tempered = softmax(np.log(Q) / 3, axis=1)
    losses = {
        "plain": log_loss(y, SoftLabelClassifier(model).fit(X, Q).predict_proba(X)),
        "tempered": log_loss(y, SoftLabelClassifier(model, temperature=3).fit(X, tempered).predict_proba(X)),
        "ignored": log_loss(y, SoftLabelClassifier(model).fit(X, tempered).predict_proba(X)),
    }
    assert losses["tempered"] < losses["ignored"]
    assert losses["tempered"] < losses["plain"] + 0.05


def test_sharpening_inverts_tempering():
    Q = np.random.default_rng(0).dirichlet(np.ones(5), size=10)
    np.testing.assert_allclose(sharpen(softmax(np.log(Q) / 4, axis=1), 4), Q)
    np.testing.assert_array_equal(sharpen(np.array([[1.0, 0.0]]), 9), [[1, 0]])


def test_pipelines_fit_their_transformers_once_on_the_rows(data, soft):
    X, _ = data
    pipe = make_pipeline(StandardScaler(), SelectKBest(k=3), RandomForestClassifier(10, random_state=0))
    clf = SoftLabelClassifier(pipe, temperature=2).fit(X, soft)
    assert clf.strategy_ == "pipeline"
    np.testing.assert_allclose(clf.estimator_[0].mean_, X.mean(axis=0))
    assert clf.estimator_[-1].temperature == 2
    assert not hasattr(pipe[0], "mean_")
    assert clf.predict_proba(X).shape == (300, 4)
    replicated = SoftLabelClassifier(make_pipeline(StandardScaler(), LogisticRegression())).fit(X, soft)
    np.testing.assert_allclose(replicated.estimator_[0].mean_, X.mean(axis=0))
    alone = SoftLabelClassifier(make_pipeline(LogisticRegression())).fit(X, soft)
    np.testing.assert_allclose(
        alone.predict_proba(X), SoftLabelClassifier(LogisticRegression()).fit(X, soft).predict_proba(X), atol=1e-12
    )


@pytest.mark.parametrize("model", [Ridge(), LinearRegression(), RandomForestRegressor(10, random_state=0)], ids=str)
def test_multi_output_regressors_are_students(data, soft, model):
    X, _ = data
    proba = SoftLabelClassifier(model).fit(X, soft, sample_weight=np.ones(len(X))).predict_proba(X * 5)
    assert (proba >= 0).all()
    np.testing.assert_allclose(proba.sum(axis=1), 1)


def test_search_over_the_wrapped_estimator(data, soft):
    X, _ = data
    grid = {"estimator__max_depth": [1, 6]}
    search = GridSearchCV(SoftLabelClassifier(DecisionTreeClassifier(random_state=0)), grid, cv=3).fit(X, soft)
    assert search.best_params_ == {"estimator__max_depth": 6}


@pytest.mark.parametrize("model", [LogisticRegression(), KNeighborsClassifier(3), DecisionTreeClassifier()], ids=str)
def test_one_class_only(data, model):
    X, _ = data
    clf = SoftLabelClassifier(model, classes=["only"]).fit(X, np.ones((len(X), 1)))
    assert set(clf.predict(X)) == {"only"}
    np.testing.assert_array_equal(clf.predict_proba(X), 1)


@pytest.mark.parametrize("model", [LogisticRegression(), GaussianNB()], ids=str)
def test_a_class_without_any_weight_keeps_its_column(data, model):
    X, _ = data
    Q = np.zeros((len(X), 3))
    Q[:, 0], Q[:, 2] = 0.3, 0.7
    proba = SoftLabelClassifier(model).fit(X, Q).predict_proba(X)
    np.testing.assert_allclose(proba.mean(axis=0), [0.3, 0, 0.7], atol=1e-3)


def test_kinds_of_x(data, soft):
    X, _ = data
    expected = SoftLabelClassifier(LogisticRegression()).fit(X, soft).predict_proba(X)
    for convert in (csr_matrix, pd.DataFrame, lambda X: X.tolist()):
        clf = SoftLabelClassifier(LogisticRegression()).fit(convert(X), soft)
        np.testing.assert_allclose(clf.predict_proba(convert(X)), expected, atol=1e-4)
    named = pd.DataFrame(X, columns=list("abcd"))
    assert SoftLabelClassifier(LogisticRegression()).fit(named, soft).feature_names_in_.tolist() == list("abcd")


def test_routing_of_fit_parameters(data, soft):
    X, _ = data
    with pytest.raises(ValueError, match="enable_metadata_routing"):
        SoftLabelClassifier(SGDClassifier()).fit(X, soft, coef_init=np.zeros((4, 4)))
    with sklearn.config_context(enable_metadata_routing=True):
        student = SGDClassifier(loss="log_loss", max_iter=1, tol=None, eta0=1e-9, learning_rate="constant")
        student.set_fit_request(coef_init=True, intercept_init=True)
        start = np.arange(16.0).reshape(4, 4)
        clf = SoftLabelClassifier(student).fit(X, soft, coef_init=start, intercept_init=np.zeros(4))
        with pytest.raises(
            ValueError, match="cannot be passed to partial_fit of SGDClassifier: use strategy='replicate'"
        ):
            SoftLabelClassifier(student, strategy="epochs").fit(X, soft, coef_init=start)
    np.testing.assert_allclose(clf.estimator_.coef_, start, atol=1e-3)


@pytest.mark.parametrize(
    ("params", "Q", "error", "message"),
    [
        ({"estimator": LinearDiscriminantAnalysis()}, None, TypeError, "Analysis cannot learn .* These can"),
        ({"strategy": "twin"}, None, TypeError, "cannot learn from soft labels with strategy='twin'"),
        ({"strategy": "magic"}, None, ValueError, "strategy must be one of auto, twin, direct, epochs"),
        ({"temperature": 0}, None, ValueError, "temperature must be a positive number"),
        ({"classes": ["a", "b"]}, None, ValueError, "classes must have one distinct name for each of the 3 columns"),
        ({"classes": ["a", "b", "b"]}, None, ValueError, "repeats"),
        ({"classes": ["a", 1, "b"]}, None, TypeError, "strings only or numbers only"),
        ({"temperature": np.inf}, None, ValueError, "temperature must be a positive number"),
        ({"estimator": SVC(decision_function_shape="ovo")}, None, ValueError, "per pair"),
        ({"estimator": GradientBoostingClassifier(n_iter_no_change=3)}, None, ValueError, "Early stopping"),
        ({"estimator": BaggingClassifier(oob_score=True)}, None, ValueError, "copies of themselves"),
        ({"estimator": BaggingClassifier(MLPClassifier(early_stopping=True))}, None, ValueError, "Early stopping"),
        ({"estimator": SVC(probability=True)}, None, ValueError, "probability=True of SVC cross-validates"),
        ({"estimator": LogisticRegression(C=-1)}, None, ValueError, "'C' parameter"),
        ({"estimator": RandomForestClassifier(warm_start=True)}, None, ValueError, "warm_start .* has no effect"),
        ({"estimator": RandomForestClassifier(oob_score=len)}, None, ValueError, "True or False"),
        ({"estimator": LogisticRegression(class_weight={9: 2})}, None, ValueError, r"names \[9\], which are not"),
        ({"estimator": MultiOutputClassifier(LogisticRegression())}, None, TypeError, "cannot learn"),
        ({"estimator": GridSearchCV(LogisticRegression(), {})}, None, TypeError, "search around the distiller"),
        ({"estimator": RandomForestClassifier(monotonic_cst=[1, 0, 0, 0])}, None, ValueError, "two classes only"),
        ({}, [[0.5, 0.5, 0.5]] * 150, ValueError, "row 0 of y sums to 1.5"),
        ({}, [[1.5, -0.5, 0]] * 150, ValueError, "row 0 of y has the value -0.5. If they are logarithms"),
        ({}, [[np.nan, 0, 1]] * 150, ValueError, "y contains NaN"),
        ({}, [[1, 0, 0]] * 149, ValueError, "X has 150 rows, the soft labels y have 149"),
        ({"estimator": RandomForestClassifier(class_weight="balanced_subsample")}, None, ValueError, "must be 'balan"),
        ({"estimator": KNeighborsClassifier(metric="bad")}, None, ValueError, "metric"),
    ],
)  # fmt: skip
def test_bad_input(params, Q, error, message):
    X, y = load_iris(return_X_y=True)
    Q = np.eye(3)[y] if Q is None else Q
    with pytest.raises(error, match=message):
        SoftLabelClassifier(**({"estimator": LogisticRegression()} | params)).fit(X, Q).predict(X)


def test_rows_of_no_weight_do_not_exist(data, soft):
    """Not even as neighbours."""
    X, _ = data
    weight = np.random.default_rng(0).integers(0, 3, len(X)).astype(float)
    seen = weight > 0
    models = [KNeighborsClassifier(5), DecisionTreeClassifier(random_state=0), LogisticRegression()]
    for model in [*models, make_pipeline(StandardScaler(), KNeighborsClassifier(3))]:
        weighted = SoftLabelClassifier(model).fit(X, soft, weight)
        without = SoftLabelClassifier(model).fit(X[seen], soft[seen], weight[seen])
        np.testing.assert_allclose(weighted.predict_proba(X), without.predict_proba(X), atol=1e-9)


def test_weights_reach_the_last_step_of_a_pipeline(data, soft):
    X, _ = data
    weight = np.random.default_rng(0).random(len(X)) ** 3
    piped = SoftLabelClassifier(make_pipeline(DecisionTreeClassifier(max_depth=3, random_state=0)))
    alone = SoftLabelClassifier(DecisionTreeClassifier(max_depth=3, random_state=0))
    expected = alone.fit(X, soft, weight).predict_proba(X)
    np.testing.assert_allclose(piped.fit(X, soft, weight).predict_proba(X), expected)
    assert np.abs(piped.fit(X, soft).predict_proba(X) - expected).max() > 0.01
    np.testing.assert_allclose(alone.class_prior_, np.average(soft, axis=0, weights=weight))


def test_pipelines_within_pipelines_and_soft_label_classifiers_within(data, soft):
    X, _ = data
    tree = DecisionTreeClassifier(random_state=0, max_depth=3)
    expected = SoftLabelClassifier(tree).fit(X, soft).predict_proba(X)
    nested = make_pipeline(StandardScaler(), make_pipeline(StandardScaler(), tree))
    np.testing.assert_allclose(SoftLabelClassifier(nested).fit(X, soft).predict_proba(X), expected, atol=1e-9)
    inner = make_pipeline(StandardScaler(), SoftLabelClassifier(tree, strategy="twin"))
    clf = SoftLabelClassifier(inner, strategy="replicate").fit(X, soft)
    assert clf.estimator_[-1].strategy_ == "twin"


def test_classes_and_columns_must_agree(data, soft):
    X, _ = data
    frame = pd.DataFrame(soft, columns=["d", "a", "c", "b"])
    clf = SoftLabelClassifier(KNeighborsClassifier(1), classes=["a", "b", "c", "d"]).fit(X, frame)
    np.testing.assert_allclose(clf.predict_proba(X), frame[["a", "b", "c", "d"]])
    with pytest.raises(ValueError, match="differ from the columns of y"):
        SoftLabelClassifier(KNeighborsClassifier(1), classes=["a", "b", "c", "x"]).fit(X, frame)
    numbered = pd.DataFrame(soft)
    named = SoftLabelClassifier(KNeighborsClassifier(1), classes=["a", "b", "c", "x"]).fit(X, numbered)
    assert named.classes_.tolist() == ["a", "b", "c", "x"]
    with pytest.raises(ValueError, match="ordinary labels"):
        SoftLabelClassifier(KNeighborsClassifier(1), classes=["a"] * 4).fit(X, soft.argmax(axis=1))


def test_rows_to_stop_by_need_soft_labels(data, soft):
    X, y = data
    with pytest.raises(
        ValueError, match=r"classes \[0, 1, 2, 3\], got y of shape \(300,\)\. To use true labels as soft ones"
    ):
        SoftLabelClassifier(HistGradientBoostingClassifier()).fit(X, soft, eval_set=[(X, y)])


def test_a_missing_package_is_named(monkeypatch):
    from sklearn_uhc.students import direct

    class LGBMClassifier(LogisticRegression):
        __module__ = "lightgbm.sklearn"

    monkeypatch.setitem(sys.modules, "lightgbm", None)
    monkeypatch.delitem(sys.modules, "sklearn_uhc.students.lightgbm", raising=False)
    with pytest.raises(ImportError, match=r"pip install 'sklearn-uhc\[boosters\]'"):
        direct.DirectStrategy.accepts(LGBMClassifier())


def test_errors_of_the_student_say_so(soft):
    with pytest.raises(ValueError, match="could not convert") as caught:
        SoftLabelClassifier(LogisticRegression()).fit(np.full((300, 2), "text"), soft)
    assert "training the student, LogisticRegression" in caught.value.__notes__[0]


@pytest.mark.parametrize("weight", [np.zeros(300), np.full(300, -1.0), np.full(300, np.nan), np.ones(299)])
def test_bad_weights(data, soft, weight):
    X, _ = data
    with pytest.raises(ValueError, match=r"[Ss]ample.weight"):
        SoftLabelClassifier(LogisticRegression()).fit(X, soft, sample_weight=weight)


def test_scikit_learns_private_parts_are_left_alone_if_they_change(monkeypatch):
    boosting, perceptron = HistGradientBoostingClassifier(max_iter=5), MLPClassifier((4,), max_iter=300)
    assert [resolve_strategy(model).name for model in (boosting, perceptron)] == ["direct"] * 2
    old = MLPClassifier._validate_input
    monkeypatch.setattr(MLPClassifier, "_validate_input", lambda *given, more=None: old(*given))
    monkeypatch.setattr("sklearn._loss.loss.HalfMultinomialLoss.gradient_hessian", lambda self, y, scores: None)
    assert [resolve_strategy(model).name for model in (boosting, perceptron)] == ["replicate", "epochs"]
