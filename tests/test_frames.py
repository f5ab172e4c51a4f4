"""Frames of pandas, Polars and Arrow: teachers get their columns by name and in their own order."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import sklearn
from catboost import CatBoostClassifier
from lightgbm import LGBMClassifier
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_iris
from sklearn.ensemble import RandomForestClassifier, VotingClassifier
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import GaussianNB, MultinomialNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler
from xgboost import XGBClassifier

from sklearn_uhc import HeterogeneousDistiller, SoftLabelClassifier, TeacherOutputs, UnifiedEnsemble
from sklearn_uhc.utils.rows import column_names, row_bytes, take_rows

FRAMES = {"pandas": pd.DataFrame, "polars": pl.from_pandas, "arrow": pa.Table.from_pandas}
BOOSTERS = {
    "lightgbm": LGBMClassifier(n_estimators=5, verbose=-1, n_jobs=1),
    "xgboost": XGBClassifier(n_estimators=5, n_jobs=1),
    "catboost": CatBoostClassifier(iterations=5, verbose=0, thread_count=1, allow_writing_files=False),
}


TEACHERS = BOOSTERS | {
    "logistic": LogisticRegression(max_iter=1000),
    "pipeline": make_pipeline(StandardScaler(), LogisticRegression()),
    "passthrough": make_pipeline("passthrough", LogisticRegression(max_iter=1000)),
    "function of values": make_pipeline(FunctionTransformer(np.asarray), GaussianNB()),
    "search": GridSearchCV(BOOSTERS["lightgbm"], {"n_estimators": [5]}, cv=2),
    "calibrated": CalibratedClassifierCV(BOOSTERS["lightgbm"], cv=2),
    "voting": VotingClassifier([("a", GaussianNB()), ("b", LogisticRegression(max_iter=1000))], voting="soft"),
    "columns by name": make_pipeline(
        make_column_transformer((StandardScaler(), ["petal width (cm)", "sepal length (cm)"])), GaussianNB()
    ),
}


@pytest.fixture(scope="module")
def iris():
    return load_iris(return_X_y=True, as_frame=True)


@pytest.fixture(scope="module")
def fitted(iris):
    return {
        name: sklearn.clone(teacher).fit(*iris) if name != "catboost" else teacher.copy().fit(*iris)
        for name, teacher in TEACHERS.items()
    }


def answers(teacher, X):
    return np.exp(TeacherOutputs([teacher], floor=1e-12).fit_transform(X))


@pytest.mark.parametrize("frame", FRAMES)
@pytest.mark.parametrize("name", TEACHERS)
def test_columns_in_another_order_and_others_beside_them(name, frame, iris, fitted):
    X, _ = iris
    expected = fitted[name].predict_proba(X)
    mixed = X[X.columns[[2, 0, 3, 1]]].assign(other="of another teacher")
    np.testing.assert_allclose(answers(FrozenEstimator(fitted[name]), FRAMES[frame](mixed)), expected, atol=1e-6)
    with sklearn.config_context(working_memory=0.01):
        np.testing.assert_allclose(answers(fitted[name], FRAMES[frame](mixed)), expected, atol=1e-6)


@pytest.mark.parametrize("frame", FRAMES)
@pytest.mark.parametrize("name", sorted(set(TEACHERS) - {"function of values"}))
def test_missing_columns_are_named_before_any_teacher_is_asked(name, frame, iris, fitted):
    asked = []

    class Asked:
        classes_ = np.arange(3)

        def predict_proba(self, X):
            asked.append(X)
            return np.full((len(X), 3), 1 / 3)

    X = FRAMES[frame](iris[0].drop(columns="petal width (cm)"))
    with pytest.raises(
        ValueError, match=r"teacher 1 \(\w+\) was trained on columns that X does not have: \['petal.width"
    ):
        TeacherOutputs([Asked(), fitted[name]]).fit(X)
    assert not asked


def test_a_column_that_a_column_transformer_drops_may_be_missing(iris, fitted):
    X, _ = iris
    teacher = fitted["columns by name"]
    np.testing.assert_allclose(
        answers(teacher, X.drop(columns="sepal width (cm)")), teacher.predict_proba(X), atol=1e-6
    )


@pytest.mark.parametrize("frame", ["pandas", "polars"])
@pytest.mark.parametrize("name", BOOSTERS)
def test_names_that_boosters_make_up_for_arrays_mean_nothing(name, frame, iris):
    X, y = iris
    teacher = (BOOSTERS[name].copy() if name == "catboost" else sklearn.clone(BOOSTERS[name])).fit(X.to_numpy(), y)
    expected = teacher.predict_proba(X.to_numpy())
    np.testing.assert_allclose(answers(teacher, FRAMES[frame](X)), expected, atol=1e-6)

    with pytest.raises(ValueError, match=r"4 columns, but X has 5|expected: 4, got 5"):
        answers(teacher, FRAMES[frame](X.assign(other=1.0)))
    with pytest.raises(ValueError, match=r"4 columns, but X has 5|expected: 4, got 5"):
        answers(teacher, np.column_stack([X, y]))


def test_columns_without_names_are_taken_as_they_are(iris):
    X, y = iris
    numbered = pd.DataFrame(X.to_numpy())
    teacher = LogisticRegression(max_iter=1000).fit(numbered, y)
    np.testing.assert_allclose(answers(teacher, numbered), teacher.predict_proba(numbered), atol=1e-6)


@pytest.mark.parametrize("frame", ["pandas", "polars"])
def test_teachers_on_different_features(frame):
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"size": rng.normal(size=90), "colour": rng.choice(["red", "blue", "green"], 90)})
    X["weight"] = X["size"] + rng.normal(size=90)
    y = (X["size"] > 0).astype(int) + (X["colour"] == "red")
    X = FRAMES[frame](X)
    by_size = make_pipeline(StandardScaler(), LogisticRegression()).fit(X[["weight", "size"]], y)
    by_colour = make_pipeline(OneHotEncoder(), LogisticRegression()).fit(X[["colour"]], y)
    log_p = TeacherOutputs([by_size, by_colour]).fit_transform(X)
    expected = np.hstack([by_size.predict_proba(X[["weight", "size"]]), by_colour.predict_proba(X[["colour"]])])
    np.testing.assert_allclose(np.exp(log_p), expected, atol=1e-5)
    ensemble = UnifiedEnsemble([by_size, by_colour]).fit(X)
    assert ensemble.feature_names_in_.tolist() == ["size", "colour", "weight"]
    with pytest.raises(ValueError, match="must be in the same order"):
        ensemble.predict_proba(X[["weight", "size", "colour"]])


STUDENTS = {
    "forest": RandomForestClassifier(10, random_state=0),
    "neighbours": KNeighborsClassifier(),
    "logistic": LogisticRegression(max_iter=500),
    "copies": GaussianNB(),
    "pipeline": make_pipeline(make_column_transformer((StandardScaler(), ["petal width (cm)"])), GaussianNB()),
    "sample": SoftLabelClassifier(GaussianNB(), strategy="sample", random_state=0),
    "lightgbm": BOOSTERS["lightgbm"],
    "xgboost": BOOSTERS["xgboost"],
    "catboost": CatBoostClassifier(iterations=2, depth=1, verbose=0, thread_count=1, allow_writing_files=False),
}


@pytest.mark.parametrize("name", STUDENTS)
def test_students_learn_from_polars_what_they_learn_from_pandas(name, iris, fitted):
    X, _ = iris
    teachers = [fitted["logistic"], fitted["lightgbm"]]
    frame = pl.from_pandas(X)
    from_polars = HeterogeneousDistiller(teachers, STUDENTS[name]).fit(frame)
    from_pandas = HeterogeneousDistiller(teachers, STUDENTS[name]).fit(X)
    assert from_polars.feature_names_in_.tolist() == X.columns.tolist()
    np.testing.assert_allclose(from_polars.predict_proba(frame), from_pandas.predict_proba(X), atol=1e-6)
    with pytest.raises(ValueError, match="must be in the same order"):
        from_polars.predict_proba(frame.select(reversed(frame.columns)))


def test_texts_in_a_series_of_polars():
    texts = pl.Series(["good film", "bad film", "good day", "bad day"])
    teacher = make_pipeline(TfidfVectorizer(), MultinomialNB()).fit(texts, [1, 0, 1, 0])
    np.testing.assert_allclose(answers(teacher, texts), teacher.predict_proba(texts), atol=1e-6)


@pytest.mark.parametrize("frame", FRAMES)
def test_rows_and_names_of_frames(frame, iris):
    X, _ = iris
    table, rows = FRAMES[frame](X), np.array([3, 1, 140])
    assert column_names(table) == X.columns.tolist()
    np.testing.assert_array_equal(np.asarray(take_rows(table, rows)), X.to_numpy()[rows])
    np.testing.assert_array_equal(np.asarray(take_rows(table, slice(3, 9))), X.to_numpy()[3:9])
    assert 32 <= row_bytes(table) < 64


def test_columns_may_be_called_like_methods():
    X = pd.DataFrame({"select": [1.0, 2, 3, 4], "column_names": [1.0, 1, 2, 2], "detach": [0.0, 0, 1, 1]})
    teacher = LogisticRegression().fit(X, [0, 0, 1, 1])
    np.testing.assert_allclose(answers(teacher, X[X.columns[::-1]]), teacher.predict_proba(X), atol=1e-6)
