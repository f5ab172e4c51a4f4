"""Data that several test modules share."""

import pytest
from sklearn.datasets import make_blobs
from sklearn.linear_model import LogisticRegression


@pytest.fixture(scope="module")
def data():
    X, y = make_blobs(300, n_features=4, centers=4, cluster_std=2.5, random_state=0)
    return X, y


@pytest.fixture(scope="module")
def soft(data):
    X, y = data
    return LogisticRegression(C=0.05).fit(X, y).predict_proba(X)
