"""Teacher packages: every kind of model can be packed, and gives the same answers when loaded."""

import json
import pickle
import zipfile

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import make_column_transformer
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import (
    AdaBoostClassifier,
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
    VotingClassifier,
)
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier

from sklearn_uhc import OTHER, HeterogeneousDistiller, TeacherOutputs, fit_membership, load_teacher, pack_teacher
from sklearn_uhc.membership import MembershipScorer

MODELS = [
    LogisticRegression(),
    make_pipeline(StandardScaler(), LogisticRegression()),
    make_pipeline(StandardScaler(), ExtraTreesClassifier(10, random_state=0)),
    RandomForestClassifier(10, random_state=0),
    DecisionTreeClassifier(random_state=0),
    GradientBoostingClassifier(n_estimators=5),
    HistGradientBoostingClassifier(max_iter=10),
    AdaBoostClassifier(n_estimators=5, random_state=0),
    GaussianNB(),
    LinearDiscriminantAnalysis(),
    MLPClassifier(max_iter=1000, random_state=0),
    SVC(),
    CalibratedClassifierCV(LogisticRegression(), cv=2),
    VotingClassifier([("a", LogisticRegression()), ("b", GaussianNB())], voting="soft"),
    GridSearchCV(LogisticRegression(), {"C": [0.1, 1]}, cv=2),
]


def log_answers(model, X):
    return TeacherOutputs([model], floor=1e-9).fit_transform(X)


@pytest.mark.parametrize("two", [False, True], ids=["four classes", "two"])
@pytest.mark.parametrize("model", MODELS, ids=lambda m: str(m).split("(")[0] + ("+" if "steps" in str(m) else ""))
def test_models_of_scikit_learn_answer_the_same(model, two, data, tmp_path):
    X, y = data
    fitted = clone(model).fit(X[y < 2] if two else X, y[y < 2] if two else y)
    teacher = load_teacher(pack_teacher(fitted, tmp_path / "t", X))
    np.testing.assert_allclose(np.exp(log_answers(teacher, X)), np.exp(log_answers(fitted, X)), atol=1e-5)
    assert teacher.classes_.tolist() == fitted.classes_.tolist()
    clear = np.sort(teacher.predict_proba(X), axis=1)[:, -2] < 0.499
    assert (teacher.predict(X)[clear] == fitted.predict(X)[clear]).mean() > 0.98


@pytest.mark.parametrize("two", [False, True], ids=["four classes", "two"])
@pytest.mark.parametrize("library", ["lightgbm", "xgboost", "catboost"])
def test_boosters_answer_the_same(library, two, data, tmp_path):
    package = pytest.importorskip(library)
    X, y = data
    model = {
        "lightgbm": lambda: package.LGBMClassifier(n_estimators=10, verbose=-1),
        "xgboost": lambda: package.XGBClassifier(n_estimators=10),
        "catboost": lambda: package.CatBoostClassifier(iterations=10, verbose=0, allow_writing_files=False),
    }[library]()
    fitted = model.fit(X[y < 2] if two else X, y[y < 2] if two else y)
    teacher = load_teacher(pack_teacher(fitted, tmp_path / "t", X))
    np.testing.assert_allclose(teacher.predict_proba(X), fitted.predict_proba(X), atol=1e-5)


def test_a_lightgbm_model_with_categories(tmp_path):
    lightgbm = pytest.importorskip("lightgbm")
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.integers(0, 6, 400), rng.normal(size=400)]).astype(np.float32)
    y = (X[:, 0].astype(int) * 7 + 3) % 3
    model = lightgbm.LGBMClassifier(n_estimators=8, verbose=-1, min_data_per_group=5).fit(X, y, categorical_feature=[0])
    teacher = load_teacher(pack_teacher(model, tmp_path / "t", X))
    np.testing.assert_allclose(teacher.predict_proba(X), model.predict_proba(X), atol=1e-5)


def test_double_precision_is_kept(data, tmp_path):
    # The training rows themselves lie on the thresholds of histograms: single precision would send them elsewhere.
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 3))
    y = (X.sum(axis=1) + rng.normal(size=2000) > 0).astype(int)
    model = HistGradientBoostingClassifier(max_iter=20).fit(X, y)
    assert np.abs(model.predict_proba(X) - model.predict_proba(X.astype(np.float32))).max() > 1e-3
    teacher = load_teacher(pack_teacher(model, tmp_path / "t", X))
    np.testing.assert_allclose(teacher.predict_proba(X), model.predict_proba(X), atol=1e-6)


@pytest.mark.parametrize(
    "model",
    [LogisticRegression(), GaussianNB(), KNeighborsClassifier(), make_pipeline(PCA(2), LogisticRegression())],
    ids=["logistic", "naive Bayes", "k-NN", "PCA"],
)
def test_models_of_a_matrix_are_packed_from_a_frame_too(model, data, tmp_path):
    X, y = data
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(X, columns=list("abcd"))
    model = clone(model).fit(frame, y)
    teacher = load_teacher(pack_teacher(model, tmp_path / "t", frame))
    assert teacher.feature_names_in_.tolist() == list("abcd")
    np.testing.assert_allclose(teacher.predict_proba(frame), model.predict_proba(frame), atol=1e-5)


def test_frames_have_their_columns_by_name(data, tmp_path):
    pd = pytest.importorskip("pandas")
    X, y = data
    frame = pd.DataFrame(X, columns=["a", "b (cm)", "c", "d"])
    model = make_pipeline(StandardScaler(), LogisticRegression()).fit(frame, y)
    teacher = load_teacher(pack_teacher(model, tmp_path / "t", frame))
    assert teacher.feature_names_in_.tolist() == ["a", "b (cm)", "c", "d"]
    other = frame[["d", "c", "b (cm)", "a"]].assign(more=1)
    np.testing.assert_allclose(teacher.predict_proba(other), model.predict_proba(frame), atol=1e-5)
    assert [entry["name"] for entry in teacher.card_["inputs"]] == ["a", "b (cm)", "c", "d"]


def test_classes_may_be_renamed(data, tmp_path):
    X, y = data
    model = LogisticRegression().fit(X, y)
    names = ["z", "y", "x", "w"]
    teacher = load_teacher(pack_teacher(model, tmp_path / "t", X, classes=names))
    assert teacher.classes_.tolist() == names
    assert (teacher.predict(X) == np.array(names)[model.predict(X)]).all()
    with pytest.raises(ValueError, match="has 2 entries"):
        pack_teacher(model, tmp_path / "t", X, classes=["a", "b"])
    with pytest.raises(ValueError, match="twice"):
        pack_teacher(model, tmp_path / "t", X, classes=["a", "b", "a", "c"])


def test_what_the_card_says_and_what_comes_along(package, data):
    X, _ = data
    teacher = load_teacher(package)
    card = teacher.card_
    assert (card["description"], card["model"]) == ("four trees", "LogisticRegression")
    assert card["classes"] == ["ash", "birch", "cedar", "düne"]
    assert card["inputs"] == [{"name": "X", "dtype": "float64", "shape": [4]}]
    assert card["versions"]["scikit-learn"]
    known = teacher.membership_.predict_membership(X)
    assert known.shape == (len(X),)
    assert ((known >= 0) & (known <= 1)).all()
    for copy in (clone(teacher), pickle.loads(pickle.dumps(teacher))):
        np.testing.assert_array_equal(copy.predict_proba(X), teacher.predict_proba(X))
        np.testing.assert_array_equal(copy.membership_.predict_membership(X), known)


def test_membership_is_the_second_probability_or_refused(data, tmp_path):
    X, y = data
    model, judge = LogisticRegression().fit(X, y), LogisticRegression().fit(X, y < 2)

    class Scorer:
        classifier_ = judge
        power = 1.0

        def predict_membership(self, X):
            return judge.predict_proba(X)[:, 1] ** self.power

    teacher = load_teacher(pack_teacher(model, tmp_path / "t", X, membership=Scorer()))
    np.testing.assert_allclose(teacher.membership_.predict_membership(X), judge.predict_proba(X)[:, 1], atol=1e-5)
    Scorer.power = 2.0
    with pytest.raises(TypeError, match="not the second probability"):
        pack_teacher(model, tmp_path / "t", X, membership=Scorer())
    with pytest.raises(TypeError, match="two classes"):
        pack_teacher(model, tmp_path / "t", X, membership=model)
    with pytest.raises(NotFittedError):
        pack_teacher(model, tmp_path / "t", X, membership=MembershipScorer())


@pytest.mark.filterwarnings("ignore:The scorer tells")  # own rows are public too
@pytest.mark.parametrize("by_class", [False, True])
@pytest.mark.parametrize("estimator", [None, RandomForestClassifier(10, random_state=0)])
def test_a_membership_scorer_comes_along(estimator, by_class, data, tmp_path):
    X, y = data
    scorer = fit_membership(X[y < 2], X, estimator, y_own=y[y < 2] if by_class else None)
    assert len(scorer.estimator_.classes_) == 2 + by_class
    model = LogisticRegression().fit(X[y < 2], y[y < 2])
    teacher = load_teacher(pack_teacher(model, tmp_path / "t", X, membership=scorer))
    d = scorer.predict_membership(X)
    assert d.min() < 0.5 < d.max()
    np.testing.assert_allclose(teacher.membership_.predict_membership(X), d, atol=1e-4)


def test_a_scorer_with_classes_of_other_frequencies_comes_along(data, tmp_path):
    X, y = data
    own, public = np.flatnonzero(y < 2), np.concatenate([np.flatnonzero(y == 0), np.flatnonzero(y > 0)[::8]])
    own = np.concatenate([own[y[own] == 0][::8], own[y[own] == 1]])
    scorer = fit_membership(X[own], X[public], y_own=y[own])
    assert scorer.class_offsets_.any()
    teacher = load_teacher(pack_teacher(LogisticRegression().fit(X, y), tmp_path / "t", X, membership=scorer))
    np.testing.assert_allclose(teacher.membership_.predict_membership(X), scorer.predict_membership(X), atol=1e-4)


def test_the_scorer_that_a_model_has_comes_along(data, tmp_path):
    X, y = data
    model = LogisticRegression().fit(X, y)
    model.membership_ = LogisticRegression().fit(X, y < 2)
    assert load_teacher(pack_teacher(model, tmp_path / "with", X)).membership_ is not None
    assert load_teacher(pack_teacher(model, tmp_path / "without", X, membership=None)).membership_ is None
    with pytest.raises(ValueError, match="membership must be a scorer"):
        pack_teacher(model, tmp_path / "t", X, membership="yes")
    model.membership_ = np.ones((3, 4))  # as fuzzy clusters have it
    assert load_teacher(pack_teacher(model, tmp_path / "array", X)).membership_ is None


def test_how_many_rows_are_stored(data, tmp_path):
    X, y = data
    model = LogisticRegression().fit(X, y)
    for n in (0, 1, 7):
        path = pack_teacher(model, tmp_path / "t", X, n_examples=n)
        assert len(json.loads(zipfile.ZipFile(path).read("example.json"))["answers"]) == n
        load_teacher(path)
    with pytest.raises(ValueError, match="n_examples"):
        pack_teacher(model, tmp_path / "t", X, n_examples=-1)


def test_the_same_model_gives_the_same_file(data, tmp_path):
    X, y = data
    model = LogisticRegression().fit(X, y)
    files = [pack_teacher(model, tmp_path / name, X).read_bytes() for name in "ab"]
    assert files[0] == files[1]


def test_missing_values_in_example_rows(data, tmp_path):
    X, y = data
    holes = np.where(np.random.default_rng(0).random(X.shape) < 0.2, np.nan, X)
    model = HistGradientBoostingClassifier(max_iter=5).fit(holes, y)
    teacher = load_teacher(pack_teacher(model, tmp_path / "t", holes))
    np.testing.assert_allclose(teacher.predict_proba(holes), model.predict_proba(holes), atol=1e-5)


def test_imputers_and_columns_of_all_kinds(tmp_path):
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"age": rng.integers(20, 90, 300), "bmi": rng.normal(25, 4, 300)})
    frame = frame.assign(ward=rng.choice(["A", "B", "C"], 300), smoker=rng.random(300) < 0.3)
    frame["bmi"] = frame["bmi"].where(rng.random(300) > 0.1)
    y = rng.choice(["flu", "cold", "covid"], 300)
    columns = make_column_transformer(
        (make_pipeline(SimpleImputer(), StandardScaler()), ["age", "bmi"]),
        (OneHotEncoder(handle_unknown="ignore"), ["ward"]),
        remainder="passthrough",
    )
    for last in (LogisticRegression(), HistGradientBoostingClassifier(max_iter=10), RandomForestClassifier(5)):
        model = make_pipeline(clone(columns), last).fit(frame, y)
        teacher = load_teacher(pack_teacher(model, tmp_path / "t", frame))
        np.testing.assert_allclose(teacher.predict_proba(frame), model.predict_proba(frame), atol=1e-5)


def test_what_cannot_be_packed_is_refused_before_anything_is_written(data, tmp_path):
    X, y = data
    path = tmp_path / "t"
    with pytest.raises(TypeError, match="fitted classifier"):
        pack_teacher(LogisticRegression(), path, X)
    with pytest.raises(TypeError, match="fitted classifier"):
        pack_teacher(Ridge().fit(X, y), path, X)
    with pytest.raises(TypeError, match="is a file"):
        pack_teacher("model.pkl", path, X)
    with pytest.raises(TypeError, match=r"one class per output.*pass class_lists there"):
        pack_teacher(LogisticRegression().fit(X, y), path, X, classes=["a", ("b", "c"), "d", OTHER])
    with pytest.raises(FileNotFoundError, match="no folder"):
        pack_teacher(LogisticRegression().fit(X, y), tmp_path / "none" / "t", X)

    class Own:
        classes_ = np.arange(4)

        def predict_proba(self, X):
            return np.full((len(X), 4), 0.25)

    with pytest.raises(TypeError, match="Own cannot be written as ONNX"):
        pack_teacher(Own(), path, X)
    nearest = KNeighborsClassifier(weights="distance").fit(X, y)
    with pytest.raises(TypeError, match=r"(differ from the original|cannot be written)"):
        pack_teacher(nearest, path, X)
    assert list(tmp_path.iterdir()) == []


def test_frozen_models_and_merged_ones_can_be_packed(data, tmp_path):
    X, y = data
    frozen = FrozenEstimator(LogisticRegression().fit(X, y))
    np.testing.assert_allclose(
        load_teacher(pack_teacher(frozen, tmp_path / "t", X)).predict_proba(X), frozen.predict_proba(X), atol=1e-5
    )
    teachers = [LogisticRegression().fit(X[y != k], y[y != k]) for k in (0, 1)]
    merged = HeterogeneousDistiller(teachers, RandomForestClassifier(5, random_state=0)).fit(X)
    teacher = load_teacher(pack_teacher(merged, tmp_path / "m", X))
    np.testing.assert_allclose(teacher.predict_proba(X), merged.predict_proba(X), atol=1e-5)
