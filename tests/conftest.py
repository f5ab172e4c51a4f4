"""Data that several test modules share."""

from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import make_blobs
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sklearn_uhc import pack_teacher

FOLDER = Path(__file__).parent


def pytest_collection_modifyitems(items):
    """Let made-up teachers contradict each other; `test_findings.py` and the documentation keep what `fit` finds."""
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
