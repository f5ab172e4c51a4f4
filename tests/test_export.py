"""A merged classifier as an ONNX file: the same answers with onnxruntime alone, or a clear error."""

import json

import numpy as np
import onnx
import onnxruntime
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import make_column_transformer
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import (
    AdaBoostClassifier,
    BaggingClassifier,
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression, Perceptron, Ridge, RidgeClassifier, SGDClassifier
from sklearn.naive_bayes import BernoulliNB, GaussianNB
from sklearn.neighbors import KNeighborsClassifier, RadiusNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import SVC, LinearSVC
from sklearn.tree import DecisionTreeClassifier

from sklearn_uhc import HeterogeneousDistiller, SoftLabelClassifier, UnifiedEnsemble, export
from tests.helpers import TREES

STUDENTS = [
    *TREES,
    KNeighborsClassifier(),
    KNeighborsClassifier(metric="manhattan"),
    Ridge(),
    LogisticRegression(),
    make_pipeline(StandardScaler(), LogisticRegression()),
    make_pipeline(StandardScaler(), PCA(2), RandomForestClassifier(10, random_state=0)),
    GaussianNB(),
    BernoulliNB(),
    SVC(),
    LinearSVC(),
    RidgeClassifier(),
    Perceptron(),
    SGDClassifier(loss="log_loss", random_state=0),
    AdaBoostClassifier(DecisionTreeClassifier(max_depth=2), n_estimators=5, random_state=0),
    BaggingClassifier(random_state=0),
    GradientBoostingClassifier(n_estimators=5),
    HistGradientBoostingClassifier(max_iter=5, early_stopping=False),
]
DRAWN = [MLPClassifier(max_iter=400, random_state=0), LinearDiscriminantAnalysis()]  # they take no weights


def run(path, X):
    """Run the model like a user without this library."""
    session = onnxruntime.InferenceSession(path)
    names = [given.name for given in session.get_inputs()]
    if hasattr(X, "columns"):
        number = {given.name: given.type == "tensor(float)" for given in session.get_inputs()}
        feed = {name: X[[name]].to_numpy("float32" if number[name] else object) for name in names}
    else:
        X = np.asarray(X)
        feed = {"X": X.astype(np.float32) if X.dtype.kind in "fi" else X.astype(object)}
    return session.run(None, feed)


def check_export(clf, path, X):
    report = export(clf, path, X)
    label, proba = run(path, X)
    own = clf.predict_proba(X)
    np.testing.assert_allclose(proba, own, atol=1e-5)
    ranked = np.sort(own, axis=1)
    clear = ranked[:, -1] - ranked[:, -2] > 1e-5
    assert clear.sum() > 0.9 * len(X)
    assert (label[clear] == clf.predict(X)[clear]).all()
    assert report.max_error <= 1e-5
    assert (report.n_rows, report.n_changed_by_cast) == (len(X), 0)
    return report


@pytest.fixture(scope="module")
def single(data, soft):
    """Features that are exact in single precision, so that no row crosses a threshold."""
    X, _ = data
    return X.astype(np.float32).astype(float), soft


@pytest.mark.parametrize("L", [2, 4])
@pytest.mark.parametrize("student", STUDENTS + DRAWN, ids=lambda s: str(s).split("(")[0])
@pytest.mark.filterwarnings("ignore:.*not converge|.*converged yet")
def test_students_answer_the_same_elsewhere(student, L, single, tmp_path):
    X, Q = single
    if L == 2:
        Q = np.column_stack([Q[:, :2].sum(axis=1), Q[:, 2:].sum(axis=1)])
    strategy = "sample" if student in DRAWN else "auto"
    clf = SoftLabelClassifier(student, temperature=3, strategy=strategy, random_state=0).fit(X, Q)
    check_export(clf, tmp_path / "m.onnx", X)


@pytest.mark.parametrize("L", [2, 4])
@pytest.mark.parametrize("library", ["lightgbm", "xgboost", "catboost"])
def test_boosters(library, L, single, tmp_path):
    package = pytest.importorskip(library)
    X, Q = single
    if L == 2:
        Q = np.column_stack([Q[:, :2].sum(axis=1), Q[:, 2:].sum(axis=1)])
    student = {
        "lightgbm": lambda: package.LGBMClassifier(n_estimators=8, verbose=-1),
        "xgboost": lambda: package.XGBClassifier(n_estimators=8),
        "catboost": lambda: package.CatBoostClassifier(iterations=8, verbose=0, allow_writing_files=False),
    }[library]()
    check_export(SoftLabelClassifier(student, temperature=3).fit(X, Q), tmp_path / "m.onnx", X)


def test_missing_values_go_where_the_booster_sends_them(single, tmp_path):
    lightgbm = pytest.importorskip("lightgbm")
    X, Q = single
    holes = np.where(np.random.default_rng(0).random(X.shape) < 0.2, np.nan, X)
    for student in (lightgbm.LGBMClassifier(n_estimators=8, verbose=-1), STUDENTS[-1]):
        check_export(SoftLabelClassifier(student, temperature=3).fit(holes, Q), tmp_path / "m.onnx", holes)
        filled = SoftLabelClassifier(student, temperature=3).fit(X, Q)  # it has seen none
        export(filled, tmp_path / "m.onnx", X)
        np.testing.assert_allclose(run(tmp_path / "m.onnx", holes)[1], filled.predict_proba(holes), atol=1e-5)


@pytest.mark.parametrize("classes", [["a", "b", "ü c", "d"], [3, 1, 7, 5], [0.5, 1.5, 2.5, 3.5], None])
def test_class_names_are_inside(classes, single, tmp_path):
    X, Q = single
    clf = SoftLabelClassifier(LogisticRegression(), classes=classes).fit(X, Q)
    check_export(clf, tmp_path / "m.onnx", X)
    model = onnx.load(tmp_path / "m.onnx")
    (names,) = [entry.value for entry in model.metadata_props if entry.key == "classes"]
    assert json.loads(names) == clf.classes_.tolist()
    assert run(tmp_path / "m.onnx", X)[0].dtype == (object if classes and classes[0] == "a" else clf.classes_.dtype)


def test_a_distiller_and_hard_labels(data, tmp_path):
    X, y = data
    X = X.astype(np.float32).astype(float)
    teachers = [LogisticRegression().fit(X[y != k], y[y != k]) for k in (0, 1)]
    clf = HeterogeneousDistiller(teachers, ExtraTreesClassifier(10, random_state=0)).fit(X)
    check_export(clf, tmp_path / "m.onnx", X)
    check_export(SoftLabelClassifier(RandomForestClassifier(10, random_state=0)).fit(X, y), tmp_path / "h.onnx", X)
    calibrated = CalibratedClassifierCV(LogisticRegression(), cv=3)
    check_export(SoftLabelClassifier(calibrated).fit(X, y), tmp_path / "c.onnx", X)


def test_classes_that_a_student_never_saw_have_probability_0(single, tmp_path):
    X, Q = single
    Q = np.column_stack([Q[:, :2], np.zeros(len(Q)), Q[:, 2:]])
    Q /= Q.sum(axis=1, keepdims=True)
    for student in (GaussianNB(), RandomForestClassifier(5, random_state=0)):
        check_export(SoftLabelClassifier(student).fit(X, Q), tmp_path / "m.onnx", X)
        assert (run(tmp_path / "m.onnx", X)[1][:, 2] == 0).all()


def test_one_class_only(single, tmp_path):
    X, _ = single
    for student in (GaussianNB(), LogisticRegression(), RandomForestClassifier(5)):
        clf = SoftLabelClassifier(student, classes=["only"]).fit(X, np.ones((len(X), 1)))
        export(clf, tmp_path / "m.onnx", X)
        label, proba = run(tmp_path / "m.onnx", X)
        assert set(label) == {"only"}
        assert (proba == 1).all()


def test_a_frame_gives_one_input_per_column(tmp_path):
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "size (cm)": rng.normal(size=200).astype(np.float32).astype(float),
            "age": rng.integers(20, 90, 200),
            "colour": rng.choice(["red", "green", "blue"], 200),
            "code": rng.integers(0, 4, 200),
        }
    )
    Q = rng.dirichlet([1, 1, 1], 200)
    columns = make_column_transformer((StandardScaler(), ["size (cm)"]), (OneHotEncoder(), ["colour", "code"]))
    check_export(
        SoftLabelClassifier(make_pipeline(columns, LogisticRegression())).fit(frame, Q), tmp_path / "m.onnx", frame
    )
    numbers = frame[["size (cm)", "age"]]
    for student in (RandomForestClassifier(5, random_state=0), make_pipeline(StandardScaler(), LogisticRegression())):
        check_export(SoftLabelClassifier(student, temperature=2).fit(numbers, Q), tmp_path / "n.onnx", numbers)
    for library, kind in [("lightgbm", "LGBMClassifier"), ("xgboost", "XGBClassifier")]:
        booster = getattr(pytest.importorskip(library), kind)(n_estimators=4, verbosity=-1 if kind[0] == "L" else 0)
        check_export(SoftLabelClassifier(booster, temperature=2).fit(numbers, Q), tmp_path / "b.onnx", numbers)


def test_texts(tmp_path):
    texts = [f"{a} fox and {b} dogs" for a in ("red", "grey", "old") for b in ("many", "some", "no")] * 5
    Q = np.random.default_rng(0).dirichlet([1, 1], len(texts))
    clf = SoftLabelClassifier(make_pipeline(TfidfVectorizer(lowercase=False), LogisticRegression())).fit(texts, Q)
    report = export(clf, tmp_path / "m.onnx", texts)
    assert report.n_rows == 45
    np.testing.assert_allclose(run(tmp_path / "m.onnx", texts)[1], clf.predict_proba(texts), atol=1e-5)


def test_rows_that_the_cast_takes_over_a_threshold_are_counted(tmp_path):
    # Thresholds of histograms of few values are midpoints; neighbours in double precision are one in single precision.
    X = np.repeat(1 + np.arange(6) * 1e-12, 50)[:, None]
    Q = np.repeat([[0.9, 0.1], [0.1, 0.9]] * 3, 50, axis=0)
    clf = SoftLabelClassifier(HistGradientBoostingClassifier(max_iter=5, early_stopping=False)).fit(X, Q)
    with pytest.warns(UserWarning, match=r"in \d+ of 300 example rows"):
        report = export(clf, tmp_path / "m.onnx", X)
    own, cast = clf.predict_proba(X), clf.predict_proba(X.astype(np.float32))
    assert report.n_changed_by_cast == (np.abs(own - cast).max(axis=1) > 1e-5).sum() > 100
    np.testing.assert_allclose(run(tmp_path / "m.onnx", X)[1], cast, atol=1e-5)


def test_nothing_is_written_where_answers_would_differ(single, tmp_path):
    X, Q = single
    for student in (KNeighborsClassifier(weights="distance"), RadiusNeighborsClassifier(2.0)):
        clf = SoftLabelClassifier(student).fit(X, Q)
        with pytest.raises(TypeError, match=f"{type(student).__name__[:6]}.*cannot be written as ONNX"):
            export(clf, tmp_path / "m.onnx", X)
    assert list(tmp_path.iterdir()) == []


def test_errors_name_the_way_out(data, single, tmp_path):
    X, y = data
    teachers = [LogisticRegression().fit(X[y != k], y[y != k]) for k in (0, 1)]
    with pytest.raises(TypeError, match="train a student"):
        export(UnifiedEnsemble(teachers).fit(X), tmp_path / "m.onnx", X)
    clf = SoftLabelClassifier(LogisticRegression())
    with pytest.raises(ValueError, match="not fitted"):
        export(clf, tmp_path / "m.onnx", X)
    clf.fit(*single)
    with pytest.raises(FileNotFoundError, match="no folder"):
        export(clf, tmp_path / "none" / "m.onnx", X)
    from scipy.sparse import csr_matrix

    with pytest.raises(TypeError, match="toarray"):
        export(clf, tmp_path / "m.onnx", csr_matrix(X))
