"""Damaged and manipulated packages give a clean error or a teacher that works."""

import sys
from collections import Counter

import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sklearn_uhc import pack_teacher
from tests.fuzzing import fuzz

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits of memory are set as on Linux")


@pytest.fixture(scope="module")
def packages(data, tmp_path_factory):
    X, y = data
    folder = tmp_path_factory.mktemp("fuzz")
    judge = LogisticRegression().fit(X, y < 2)
    forest = RandomForestClassifier(5, max_depth=4, random_state=0).fit(X, y)
    pipeline = make_pipeline(StandardScaler(), LogisticRegression()).fit(X, y)
    return [
        pack_teacher(forest, folder / "forest", X, membership=judge),
        pack_teacher(pipeline, folder / "pipeline", X),
    ]


@pytest.mark.parametrize("kind", ["raw", "members", "tags"])
def test_a_few(kind, packages):
    outcomes = fuzz(packages[0], kind, 0, 40)
    assert len(outcomes) == 40
    assert set(outcomes.values()) <= {"error", "works"}, Counter(outcomes.values())


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["raw", "members", "tags"])
def test_a_thousand(kind, packages):
    total = Counter()
    for package in packages:
        total.update(fuzz(package, kind, 1000, 1500).values())
    print(kind, dict(total))
    assert total.total() == 1000
    assert total["error"] > 500
    assert set(total) <= {"error", "works"}, total
