"""Data shared by several test modules."""

from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_digits, make_blobs
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sklearn_uhc import fit_membership, pack_teacher
from tests.memberships import SITES

FOLDER = Path(__file__).parent


def pytest_collection_modifyitems(items):
    """Ignore that made-up teachers contradict each other, except in `test_findings.py` and the documentation."""
    for item in items:
        if FOLDER in item.path.parents and item.path.name != "test_findings.py":
            item.add_marker(pytest.mark.filterwarnings("ignore::sklearn_uhc.FindingWarning"))


@pytest.fixture(scope="module")
def data():
    X, y = make_blobs(300, n_features=4, centers=4, cluster_std=2.5, random_state=0)
    return X, y


@pytest.fixture(scope="module")
def soft(data):
    X, y = data
    return LogisticRegression(C=0.05).fit(X, y).predict_proba(X)


@pytest.fixture(scope="module")
def package(data, tmp_path_factory):
    """A teacher package with a membership scorer."""
    X, y = data
    model = LogisticRegression().fit(X, np.array(["ash", "birch", "cedar", "düne"])[y])
    known = make_pipeline(StandardScaler(), LogisticRegression()).fit(X, y < 2)
    path = tmp_path_factory.mktemp("package") / "trees.teacher"
    return pack_teacher(model, path, X, membership=known, description="four trees")


@pytest.fixture(scope="session")
def sites():
    """Public and test rows of digits, and three owners' teachers with their scorers."""
    X, y = load_digits(return_X_y=True)
    X = X / 16
    train, public, test = np.split(np.random.default_rng(1).permutation(len(X)), [500, 900])
    test = test[:300]
    own = [train[np.isin(y[train], known)] for known in SITES]
    teachers = [LogisticRegression(max_iter=300).fit(X[rows], y[rows]) for rows in own]
    scorers = [fit_membership(X[rows], X[public], y_own=y[rows]) for rows in own]
    return X[public], y[public], X[test], y[test], teachers, scorers
