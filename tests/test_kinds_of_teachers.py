"""Objects passed instead of fitted classifiers: an error with a remedy, before any teacher is called."""

from functools import partial
from pathlib import Path

import lightgbm
import numpy as np
import onnx
import pandas as pd
import pytest
import torch
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.ensemble import RandomForestRegressor, VotingClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sklearn_uhc import FunctionTeacher, HeterogeneousDistiller, TeacherOutputs, UnifiedEnsemble
from sklearn_uhc.teachers.fingerprint import fingerprint

X, y = load_iris(return_X_y=True)
MEMBERS = [("logistic", LogisticRegression(max_iter=1000)), ("bayes", GaussianNB())]
NAMES = np.array(["setosa", "versicolor", "virginica"])[y]


class Untouched(LogisticRegression):
    """A teacher that must not be called."""

    def predict_proba(self, X):
        raise AssertionError("asked")

    predict_log_proba = predict_proba


def nobody(X):
    return np.full((len(X), 2), 0.5)


booster = lightgbm.train({"verbose": -1}, lightgbm.Dataset(X, y), num_boost_round=1)


@pytest.mark.parametrize(
    ("wrong", "remedy"),
    [
        (torch.nn.Linear(4, 3), r"\(Linear\) is not a classifier: use TorchTeacher\(module, classes\)"),
        ("models/a.onnx", r"\(str\) is not a classifier: use OnnxTeacher\('models/a.onnx'\)"),
        (Path("a.ONNX"), r"\(\w*Path\) is not a classifier: use OnnxTeacher\('a.ONNX'\)"),
        ("a.csv", "read it with read_answers"),
        ("a.pt", r"load the weights into a module and use TorchTeacher"),
        ("a.joblib", "load only files whose origin you trust"),
        (b"onnx", r"use OnnxTeacher\(model\)"),
        (onnx.ModelProto(), r"\(ModelProto\) is not a classifier: use OnnxTeacher"),
        (np.ones((3, 2)), r"fit\(X, log_p=...\), see read_answers"),
        (pd.DataFrame({"cat": [1.0]}), r"fit\(X, log_p=...\), see read_answers"),
        (LinearRegression().fit(X, y), "it is a regressor, which predicts numbers.*FunctionTeacher"),
        (make_pipeline(StandardScaler(), RandomForestRegressor(2)).fit(X, y), "it is a regressor"),
        (VotingClassifier(MEMBERS).fit(X, y), r"uses hard voting, without prob.*set_params\(voting='soft'\)"),
        (booster, r"has none of predict_log_proba, .* use FunctionTeacher\(booster.predict, classes\)"),
        (nobody, r"\(function\) has none of .* use FunctionTeacher\(function, classes\)"),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, str) else value[:12],
)
@pytest.mark.parametrize(
    "holder", [TeacherOutputs, UnifiedEnsemble, partial(HeterogeneousDistiller, student=GaussianNB())]
)
def test_what_is_no_classifier(holder, wrong, remedy):
    asked_never = Untouched(max_iter=1000).fit(X, y)
    with pytest.raises(TypeError, match=rf"teacher 1 .*{remedy}"):
        holder([asked_never, wrong]).fit(X)


@pytest.mark.parametrize(
    ("wrong", "remedy"),
    [
        (GaussianNB().fit(X, y), r"teachers is one GaussianNB, not a list of fitted classifiers: pass \[classifier"),
        (make_pipeline(GaussianNB()).fit(X, y), "teachers is one Pipeline, not a list"),
        (torch.nn.Linear(4, 3), r"teachers is a Linear, not a list: put it into a list, and use TorchTeacher"),
        ("a.onnx", r"teachers is a str, not a list: put it into a list, and use OnnxTeacher\('a.onnx'\)"),
        (Path("a.csv"), r"not a list: put it into a list, and read it with read_answers"),
        (VotingClassifier(MEMBERS).fit(X, y), r"teachers=list\(voting.estimators_\), class_lists=\[voting.classes_\["),
        (VotingClassifier(MEMBERS), "teachers is one VotingClassifier, not a list"),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, str) else value[:12],
)
@pytest.mark.parametrize(
    "holder", [TeacherOutputs, UnifiedEnsemble, partial(HeterogeneousDistiller, student=GaussianNB())]
)
def test_one_instead_of_a_list(holder, wrong, remedy):
    with pytest.raises(TypeError, match=remedy):
        holder(wrong).fit(X)


def test_the_remedies_work():
    voting = VotingClassifier(MEMBERS).fit(X, NAMES)
    lists = [voting.classes_[e.classes_] for e in voting.estimators_]
    merged = UnifiedEnsemble(list(voting.estimators_), class_lists=lists).fit(X)
    assert merged.score(X, NAMES) > 0.9
    soft = voting.set_params(voting="soft")
    assert_allclose(TeacherOutputs([soft], floor=1e-12).fit_transform(X), np.log(soft.predict_proba(X)), atol=1e-3)
    multiclass = lightgbm.train(
        {"verbose": -1, "objective": "multiclass", "num_class": 3}, lightgbm.Dataset(X, y), num_boost_round=2
    )
    teacher = FunctionTeacher(multiclass.predict, ["a", "b", "c"])
    assert_allclose(teacher.predict_proba(X), multiclass.predict(X))
    assert TeacherOutputs([teacher]).fit_transform(X).shape == (150, 3)


def logits(X, scale=1.0):
    X *= scale  # it may write to its rows
    return X[:, :3]


def test_function_teacher():
    before = X.copy()
    teacher = FunctionTeacher(logits, ["a", "b", "c"], output_kind="logits", batch_size=40)
    expected = np.exp(X[:, :3]) / np.exp(X[:, :3]).sum(axis=1, keepdims=True)
    assert_allclose(teacher.predict_proba(X), expected)
    assert_allclose(clone(teacher).set_params(batch_size=None).predict_proba(X), expected)
    doubled = clone(teacher).set_params(function=partial(logits, scale=2.0))
    assert_allclose(
        TeacherOutputs([doubled], floor=1e-12).fit_transform(X), np.log(doubled.predict_proba(X)), atol=1e-6
    )
    assert_allclose(X, before)
    assert fingerprint(teacher) == fingerprint(clone(teacher).set_params(batch_size=7))
    assert len({fingerprint(t) for t in (teacher, doubled, clone(teacher).set_params(classes=list("abd")))}) == 3
    frame = FunctionTeacher(lambda f: f[["p", "q"]], ["p", "q"])
    assert frame.predict(pd.DataFrame({"q": [0.9], "p": [0.1], "r": [3]})).tolist() == ["q"]
    silent = FunctionTeacher(lambda rows: np.where(rows[:, :1] > 5, 0.5, np.nan) * np.ones(2), ["p", "q"])
    log_p = TeacherOutputs([silent], abstain=True).fit_transform(X)
    assert (np.isnan(log_p[:, 0]) == (X[:, 0] <= 5)).all()


@pytest.mark.parametrize(
    ("teacher", "error", "message"),
    [
        (FunctionTeacher(None, [0, 1]), TypeError, "function must be a function of rows, got None"),
        (
            FunctionTeacher(logits, [0, 1]),
            ValueError,
            r"logits returned an output of shape \(150, 3\) for 150 rows and 2 cl",
        ),
        (
            FunctionTeacher(logits, [0, 1, 2]),
            ValueError,
            r"logits returned rows that are not probabilities: row 0 .*\"logits\"",
        ),
        (FunctionTeacher(logits, [0, 1, 2], output_kind="?"), ValueError, "output_kind must be one of"),
        (FunctionTeacher(logits, [0, 1, 2], batch_size=0), ValueError, "batch_size must be a positive integer"),
        (FunctionTeacher(lambda X: ["a"] * len(X), [0, 1]), ValueError, "values of type <U1 instead of numbers"),
    ],
)
def test_function_teachers_that_do_not_fit(teacher, error, message):
    with pytest.raises(error, match=message):
        TeacherOutputs([teacher]).fit(X)
