"""Folds of teachers, and the score against those held out."""

import numpy as np
import pytest

from sklearn_uhc import OTHER, LabelSpace
from sklearn_uhc.estimators.search.folds import compare, make_folds, spread
from sklearn_uhc.estimators.search.results import ranks
from sklearn_uhc.estimators.search.score import Verdict, held_out_scores, verdict

SPACE = LabelSpace([["a", "b", "c"], ["b", "c", "d"], ["c", "d", "a"]])


def test_every_teacher_is_held_out_once():
    folds = make_folds(SPACE, None)
    assert [comparison.teacher for fold in folds for comparison in fold.comparisons] == [0, 1, 2]
    assert [fold.rest.tolist() for fold in folds] == [[1, 2], [0, 2], [0, 1]]
    assert folds[0].space.classes.tolist() == ["a", "b", "c", "d"]
    assert folds[2].comparisons[0].columns.tolist() == [6, 7, 8]


def test_folds_bound_the_cost_and_keep_classes_known():
    rng = np.random.default_rng(0)
    space = LabelSpace([rng.choice(8, 4, replace=False) for _ in range(23)])
    assert len(make_folds(space, None)) == 10
    groups = spread(space, 4)
    assert sorted(len(group) for group in groups) == [5, 6, 6, 6]
    assert sorted(t for group in groups for t in group) == list(range(23))
    # Teachers of the same classes never go together if they need not.
    twins = LabelSpace([[0, 1], [2, 3], [0, 1], [2, 3]])
    assert all(twins.list_ids[i] != twins.list_ids[j] for i, j in spread(twins, 2))


def test_groups_by_name_or_number():
    space = LabelSpace({"x": ["a", "b", "c"], "y": ["b", "c", "d"], "z": ["c", "d", "a"], "w": ["a", "b", "d"]})
    folds = make_folds(space, [["x", 1], "w"])
    assert [[c.teacher for c in fold.comparisons] for fold in folds] == [[0, 1], [3]]
    assert folds[0].rest.tolist() == [2, 3]


def test_only_classes_that_the_others_know_and_link_are_compared():
    space = LabelSpace([["a", "b", "c", "x"], ["a", "b"], ["c", "d"]])
    found = compare(space, 0, space.restrict([1, 2]))
    assert found.columns.tolist() == [0, 1]  # "x" nobody knows, "c" hangs on nothing that this teacher knows
    assert compare(space, 1, space.restrict([0, 2])).columns.tolist() == [4, 5]
    assert compare(LabelSpace([["a", "b"], ["a", "c"], ["b", "d"]]), 0, LabelSpace([["a", "c"], ["b", "d"]])) is None


def test_sets_are_compared_as_a_whole():
    space = LabelSpace([[("a", "b"), "c"], ["a", "b", "c"], ["a", "c", OTHER]])
    found = compare(space, 0, space.restrict([1, 2]))
    assert found.column_of.tolist() == [0, 0, 1]
    log_p = np.log([[0.9, 0.1] + [1 / 3] * 6, [0.2, 0.8] + [1 / 3] * 6])
    P = np.array([[0.1, 0.6, 0.3], [0.5, 0.1, 0.4]])
    said = verdict(found, space.restrict([1, 2]).components, P, log_p)
    assert said.right.tolist() == [[True, False]]
    np.testing.assert_allclose(said.mass, [[1, 1]], rtol=1e-6)


def test_a_class_that_the_teacher_does_not_know_is_a_wrong_answer():
    others = SPACE.restrict([1, 2])
    comparison = compare(SPACE, 0, others)
    log_p = np.log([[0.8, 0.1, 0.1] + [1 / 3] * 6] * 2)
    P = np.array([[0.4, 0.0, 0.0, 0.6], [0.6, 0.0, 0.0, 0.4]])  # of "a" and "d"
    said = verdict(comparison, others.components, P, log_p)
    assert said.right.tolist() == [[False, True]]
    np.testing.assert_allclose(said.mass, [[0.4, 0.6]], rtol=1e-6)


def test_unlinked_groups_are_compared_one_by_one():
    space = LabelSpace([["a", "b", "c", "d"], ["a", "b"], ["c", "d"]])
    others = space.restrict([1, 2])
    comparison = compare(space, 0, others)
    assert comparison.group.tolist() == [0, 0, 1, 1]
    P = np.array([[0.1, 0.05, 0.6, 0.25]])
    log_p = np.log([[0.4, 0.3, 0.1, 0.2] + [0.5] * 4])
    assert verdict(comparison, others.components, P, log_p).right.tolist() == [[True], [False]]


def test_rows_count_by_the_mean_mass_squared():
    said = [Verdict(np.array([[0.2, 1.0, 1.0]]), np.array([[True, False, True]])), None]
    said.append(Verdict(np.array([[0.6, 1.0, 1.0]]), np.array([[False, True, False]])))
    speaks = np.array([True, True, False])
    weights = np.array([0.4, 1.0]) ** 2
    expected = weights / weights.sum()
    np.testing.assert_allclose(held_out_scores(said, speaks), [expected[0], np.nan, expected[1]])
    assert np.isnan(held_out_scores(said, np.zeros(3, dtype=bool))).all()


def test_ranks_put_failures_last():
    assert ranks(np.array([0.5, np.nan, 0.9, 0.5])).tolist() == [2, 4, 1, 2]
    assert ranks(np.full(2, np.nan)).tolist() == [1, 1]


@pytest.mark.parametrize("folds", [True, 2.5, []])
def test_bad_folds(folds):
    with pytest.raises(TypeError, match="folds must be"):
        make_folds(SPACE, folds)
