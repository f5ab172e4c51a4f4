"""Which rows to label next."""

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier

from sklearn_uhc import HeterogeneousDistiller, TeacherMerger, UnifiedEnsemble, rank_to_label
from sklearn_uhc.ranking import in_turns


@pytest.fixture(scope="module")
def fitted():
    X, y = load_iris(return_X_y=True)
    teachers = [LogisticRegression(max_iter=500).fit(X[y != k], y[y != k]) for k in range(3)]
    return X, y, UnifiedEnsemble(teachers).fit(X), teachers


def test_rows_are_taken_in_turns():
    value, kind = np.array([0.1, 0.9, 0.5, 0.3, 0.2, 0.8]), np.array([0, 0, 0, 1, 1, 2])
    assert in_turns(value, kind, np.arange(6)).tolist() == [1, 5, 3, 2, 4, 0]
    assert in_turns(value, kind, np.array([0, 2, 4])).tolist() == [2, 4, 0]


def test_hard_rows_come_first_but_not_they_alone(fitted):
    X, _, ensemble, _ = fitted
    rows = rank_to_label(ensemble, X, random_state=0)
    assert np.sort(rows).tolist() == list(range(150))
    assert len(set(ensemble.merger_.transform(X[rows[:3]]).argmax(axis=1))) == 3
    merger = ensemble.merger_
    hard = merger.method_.reconciliation_error(merger.adjust(merger.answers(X)).log_p)
    draws = [rank_to_label(ensemble, X, random_state=seed)[:30] for seed in range(20)]
    assert np.mean([hard[draw].mean() for draw in draws]) > 1.1 * hard.mean()
    assert len(np.unique(np.concatenate(draws))) > 100
    np.testing.assert_array_equal(rank_to_label(ensemble, X, random_state=0), rows)


def test_rows_with_a_label_are_left_out(fitted):
    X, y, ensemble, teachers = fitted
    given = np.where(np.arange(150) < 100, y, -1)
    assert np.sort(rank_to_label(ensemble, X, given)).tolist() == list(range(100, 150))
    clf = HeterogeneousDistiller(teachers, KNeighborsClassifier()).fit(X, given)
    assert len(rank_to_label(clf, X, given)) == 50
    assert len(rank_to_label(TeacherMerger(teachers, method="ce").fit(X), X, given)) == 50
    with pytest.raises(ValueError, match="100 entries for 150 rows"):
        rank_to_label(ensemble, X, given[:100])


def test_what_can_rank(fitted):
    X, _, _, teachers = fitted
    with pytest.raises(TypeError, match="rank_to_label needs a fitted HeterogeneousDistiller"):
        rank_to_label(teachers[0], X)
    with pytest.raises(TypeError, match="rank_to_label needs a fitted"):
        rank_to_label(UnifiedEnsemble(teachers), X)
