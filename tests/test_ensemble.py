"""The merge without a student."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV

from sklearn_uhc import TeacherMerger, UnifiedEnsemble
from tests.helpers import METHOD_NAMES, LinearTeacher


@pytest.fixture(scope="module")
def iris():
    return load_iris(return_X_y=True)


@pytest.fixture(scope="module")
def teachers(iris):
    X, y = iris
    pairs = ([0, 1], [1, 2], [0, 2])
    return [LogisticRegression(max_iter=500).fit(X[np.isin(y, p)], y[np.isin(y, p)]) for p in pairs]


@pytest.mark.parametrize("method", METHOD_NAMES)
def test_ensemble(iris, teachers, method):
    X, y = iris
    ensemble = UnifiedEnsemble(teachers, method=method, balance=True, temperature=2).fit(X)
    assert ensemble.score(X, y) > (0.5 if method == "sd" else 0.9)
    assert ensemble.score(X) < 0
    assert clone(ensemble).teachers is teachers
    np.testing.assert_allclose(ensemble.predict_proba(X).sum(axis=1), 1)


def test_ensemble_of_consistent_teachers_is_their_truth_at_any_temperature():
    """Sharpening undoes the temperature of the merge."""
    X = np.random.default_rng(0).normal(size=(40, 3))
    truth = LinearTeacher((0, 1, 2), 5).fit(X)

    class Part(LinearTeacher):
        def predict_log_proba(self, X):
            log_p = truth.predict_log_proba(X)[:, list(self.classes)]
            return log_p - np.log(np.exp(log_p).sum(axis=1, keepdims=True))

    parts = [Part((0, 1)).fit(X), Part((1, 2)).fit(X)]
    for T in (1, 4):
        merged = UnifiedEnsemble(TeacherMerger(parts, floor=1e-12), method="ce", balance=False, temperature=T).fit(X)
        np.testing.assert_allclose(merged.predict_proba(X), np.exp(truth.predict_log_proba(X)), atol=1e-6)


def test_search_over_an_ensemble_and_weights(iris, teachers):
    X, _ = iris
    search = GridSearchCV(UnifiedEnsemble(teachers), {"temperature": [1, 3]}, cv=3)
    with pytest.warns(UserWarning, match="TeacherHoldoutSearch"):
        assert np.isfinite(search.fit(X).best_score_)
    weight = np.r_[np.ones(75), np.zeros(75)]
    weighted = UnifiedEnsemble(teachers, balance=True).fit(X, sample_weight=weight)
    half = UnifiedEnsemble(teachers, balance=True).fit(X[:75])
    np.testing.assert_allclose(weighted.class_weight_, half.class_weight_)


@pytest.mark.parametrize("balance", [True, False])
def test_temperature_does_not_change_a_linear_merge(iris, teachers, balance):
    """MF-LF is linear in the logits, and balance weighs probabilities at temperature 1."""
    X, y = iris
    params = {"method": "mf_lf", "balance": balance}
    at = {T: UnifiedEnsemble(teachers, temperature=T, **params).fit(X) for T in (1, 3, 10)}
    for T in (3, 10):
        np.testing.assert_allclose(at[T].predict_proba(X), at[1].predict_proba(X), atol=1e-8)
    assert not balance or at[10].score(X, y) > 0.9


def test_balanced_probabilities(iris, teachers):
    """Merged probabilities at temperature 1 are divided by their mean."""
    X, _ = iris
    plain = UnifiedEnsemble(teachers, method="ce", balance=False, temperature=3).fit(X).predict_proba(X)
    balanced = UnifiedEnsemble(teachers, method="ce", balance=True, temperature=3).fit(X).predict_proba(X)
    expected = plain / plain.mean(axis=0)
    np.testing.assert_allclose(balanced, expected / expected.sum(axis=1, keepdims=True), atol=1e-10)
