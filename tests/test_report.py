"""What can be said about teachers without labels."""

import json

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB

from sklearn_uhc import LabelSpace, TeacherCalibrator, teacher_report
from tests.helpers import random_lists, random_outputs


def test_teachers_and_data():
    X, y = load_digits(return_X_y=True)
    lists = [[0, 1, 2, 3], [2, 3, 4, 5], [0, 1, 4, 5]]
    models = [LogisticRegression(max_iter=2000), GaussianNB(), LogisticRegression(max_iter=2000)]
    teachers = [
        m.fit(X[:800][np.isin(y[:800], k)], y[:800][np.isin(y[:800], k)]) for m, k in zip(models, lists, strict=True)
    ]
    report = teacher_report(teachers, X[800:])
    assert [row["name"] for row in report["teachers"]] == ["LogisticRegression", "GaussianNB", "LogisticRegression"]
    assert [row["classes"] for row in report["teachers"]] == lists
    assert all(row["coverage"] == 1 and 0.5 < row["confidence"] <= 1 for row in report["teachers"])
    assert all(row["shared"] == 4 and 0 < row["agreement"] < 1 for row in report["teachers"])
    assert len(report["pairs"]) == 3
    json.dumps(report)  # plain values only


def test_the_noisy_teacher_stands_out():
    rng = np.random.default_rng(0)
    lists = random_lists(rng, 8, 6, 4, 6)
    Z = random_outputs(rng, lists, 500, spread=2.0, noise=0.7)
    block = LabelSpace(lists).blocks[4]
    Z[:, block] = 10 * rng.normal(size=Z[:, block].shape)
    report = teacher_report(log_p=Z, class_lists=lists, n_pairs=3)
    rows = report["teachers"]
    assert [row["weight"] < 1 for row in rows] == [i == 4 for i in range(6)]
    assert min(rows, key=lambda row: row["agreement"])["teacher"] == 4
    assert max(rows, key=lambda row: row["temperature"])["teacher"] == 4
    assert all(4 in (pair["first"], pair["second"]) for pair in report["pairs"])
    expected = TeacherCalibrator(lists).fit(Z).temperatures_
    np.testing.assert_allclose([row["temperature"] for row in rows], expected)


def test_silence_and_what_cannot_be_told():
    Z = np.random.default_rng(1).normal(size=(40, 7))
    Z[:10, :3] = np.nan
    Z[:, 5:] = np.nan
    report = teacher_report(log_p=Z, class_lists=[["a", "b", "c"], ["c", "d"], ["e", "f"]])
    first, second, third = report["teachers"]
    assert first["coverage"] == 0.75
    assert second["agreement"] is None
    assert second["left"] is not None
    assert third["coverage"] == 0
    assert third["confidence"] is None
    assert third["residual"] is None
    assert report["pairs"] == []


def test_residual_is_zero_if_all_agree():
    Z = np.random.default_rng(2).normal(size=(40, 3))
    report = teacher_report(log_p=np.hstack([Z, Z[:, ::-1]]), class_lists=[["a", "b", "c"], ["c", "b", "a"]])
    for row in report["teachers"]:
        assert row["residual"] == pytest.approx(0, abs=1e-12)
        assert row["agreement"] == 1


def test_frames():
    pandas = pytest.importorskip("pandas")
    Z = np.random.default_rng(3).normal(size=(40, 6))
    report = teacher_report(log_p=Z, class_lists=[["a", "b", "c"]] * 2, as_frame=True)
    assert isinstance(report["teachers"], pandas.DataFrame)
    assert len(report["pairs"]) == 1


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({}, "Give either"),
        ({"log_p": np.zeros((3, 2))}, "needs class_lists"),
        ({"log_p": np.zeros((3, 2)), "class_lists": [[0, 1, 2]]}, "2 columns"),
        ({"log_p": [[0.0, np.nan]], "class_lists": [[0, 1]]}, "log_p contains NaN"),
    ],
)
def test_wrong_input(params, message):
    with pytest.raises(ValueError, match=message):
        teacher_report(**params)
