"""Students in formats other than ONNX: boosters' own files, and skops."""

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from sklearn_uhc import HeterogeneousDistiller, SoftLabelClassifier, export

OURS = "sklearn_uhc.students.soft_label_classifier.SoftLabelClassifier"


def lightgbm_answers(path, X):
    return pytest.importorskip("lightgbm").Booster(model_file=path).predict(X)


def xgboost_answers(path, X):
    xgboost = pytest.importorskip("xgboost")
    return xgboost.Booster(model_file=path).predict(xgboost.DMatrix(X))


def catboost_answers(path, X):
    return pytest.importorskip("catboost").CatBoostClassifier().load_model(str(path)).predict_proba(X)


BOOSTERS = {
    "lightgbm": ("LGBMClassifier", {"n_estimators": 8, "verbose": -1}, "m.txt", lightgbm_answers),
    "xgboost": ("XGBClassifier", {"n_estimators": 8}, "m.ubj", xgboost_answers),
    "catboost": ("CatBoostClassifier", {"iterations": 8, "verbose": 0, "allow_writing_files": False}, "m.cbm",
                 catboost_answers),
}  # fmt: skip


@pytest.mark.parametrize("L", [2, 4])
@pytest.mark.parametrize("library", BOOSTERS)
def test_boosters_answer_at_temperature_1_by_themselves(library, L, data, soft, tmp_path):
    name, params, file, read = BOOSTERS[library]
    student = getattr(pytest.importorskip(library), name)(**params)
    X, _ = data
    Q = soft if L == 4 else np.column_stack([soft[:, :2].sum(axis=1), soft[:, 2:].sum(axis=1)])
    clf = SoftLabelClassifier(student, temperature=3).fit(X, Q)
    before = clf.estimator_.predict_proba(X)
    path = export(clf, tmp_path / file, X).path
    P = read(path, X)
    P = np.column_stack([1 - P, P]) if P.ndim == 1 else P
    np.testing.assert_allclose(P, clf.predict_proba(X), atol=1e-5)
    assert np.abs(before - P).max() > 0.1  # what the estimator's own file would have given
    np.testing.assert_array_equal(clf.estimator_.predict_proba(X), before)  # it was not changed


def test_a_booster_that_stopped_early(data, soft, tmp_path):
    lightgbm = pytest.importorskip("lightgbm")
    X, _ = data
    student = lightgbm.LGBMClassifier(n_estimators=200, verbose=-1, early_stopping_round=3)
    clf = SoftLabelClassifier(student, temperature=3, random_state=0).fit(X, soft)
    assert clf.estimator_.best_iteration_ < 200
    path = export(clf, tmp_path / "m.txt", X).path
    np.testing.assert_allclose(lightgbm_answers(path, X), clf.predict_proba(X), atol=1e-5)


def test_what_is_no_booster_is_refused(data, soft, tmp_path):
    X, y = data
    clf = SoftLabelClassifier(LogisticRegression()).fit(X, soft)
    for suffix in (".txt", ".json", ".ubj", ".cbm"):
        with pytest.raises(TypeError, match=r"LogisticRegression.*use the suffix \.onnx"):
            export(clf, tmp_path / f"m{suffix}", X)
    with pytest.raises(ValueError, match=r"'m\.pkl' must be one of \.onnx"):
        export(clf, tmp_path / "m.pkl", X)
    with pytest.raises(TypeError, match="needs a fitted HeterogeneousDistiller"):
        export(LogisticRegression().fit(X, y), tmp_path / "m.txt", X)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("student", "types"),
    [
        (LogisticRegression(), []),
        (make_pipeline(StandardScaler(), LogisticRegression()), []),
        (GaussianNB(), []),
        (SVC(), []),
        (RandomForestClassifier(5, random_state=0), ["sklearn.tree._tree.Tree"]),
        (
            HistGradientBoostingClassifier(max_iter=3, early_stopping=False),
            ["sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor"],
        ),
        (
            KNeighborsClassifier(algorithm="kd_tree"),
            ["sklearn.metrics._dist_metrics.EuclideanDistance64", "sklearn.neighbors._kd_tree.KDTree"],
        ),
    ],
    ids=lambda s: str(s).split("(")[0],
)
def test_skops_needs_no_more_trust_than_the_page_says(student, types, data, tmp_path):
    sio = pytest.importorskip("skops.io")
    X, y = data
    teachers = [LogisticRegression().fit(X[y != k], y[y != k]) for k in (0, 1)]
    clf = HeterogeneousDistiller(teachers, student).fit(X)
    sio.dump(clf.student_, tmp_path / "student.skops")
    assert sorted(sio.get_untrusted_types(file=tmp_path / "student.skops")) == sorted([OURS, *types])
    loaded = sio.load(tmp_path / "student.skops", trusted=[OURS, *types])
    np.testing.assert_array_equal(loaded.predict_proba(X), clf.predict_proba(X))
