"""Test worlds for settings: reproducible by seed, complete, and without shared rows between their parts."""

import numpy as np
import pytest
from sklearn.neighbors import KNeighborsClassifier

from benchmarks.worlds import WORLDS, available, draw_lists, make_world
from sklearn_uhc import HeterogeneousDistiller, LabelSpace


@pytest.mark.parametrize("name", ["digits, mixed", "texts", "table"])
def test_a_world_can_be_merged(name):
    world = make_world(name, seed=1)
    assert set(world.y_test) <= set(world.classes) == set(world.y)
    assert sum(len(labels) for _, labels in world.own) == WORLDS[name].sizes[0]
    assert all(set(labels) == set(known) for (_, labels), known in zip(world.own, world.class_lists, strict=True))
    clf = HeterogeneousDistiller(world.teachers, world.student(KNeighborsClassifier(10))).fit(world.X)
    assert clf.score(world.X_test, world.y_test) > 0.4


def test_seeds_decide():
    same, again, other = (make_world("digits, networks", seed) for seed in (3, 3, 4))
    np.testing.assert_array_equal(same.X, again.X)
    np.testing.assert_array_equal(same.teachers["t0"].predict_proba(same.X), again.teachers["t0"].predict_proba(same.X))
    assert not np.array_equal(same.X, other.X)


@pytest.mark.parametrize("name", WORLDS)
def test_lists_know_and_connect_all_classes(name):
    recipe = WORLDS[name]
    if recipe.data != "paper":
        n_classes = recipe.n_classes or {"texts": 20, "table": 8}.get(recipe.data, 10)
        lists = draw_lists(np.random.default_rng(0), np.arange(n_classes), recipe)
        assert LabelSpace(lists).n_classes == n_classes
        assert LabelSpace(lists).is_connected


def test_says_what_is_left_out(tmp_path, capsys):
    names = available(tmp_path)
    assert "digits, mixed" in names
    assert "paper" not in names
    assert "paper" in capsys.readouterr().out
    with pytest.raises(FileNotFoundError, match="mnist"):
        make_world("MNIST, mixed", 0, tmp_path)
