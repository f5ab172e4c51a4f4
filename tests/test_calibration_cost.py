"""What keeps calibration cheap changes no result: small systems, and a bounded number of patterns of silence."""

import numpy as np
import pytest

from sklearn_uhc import LabelSpace, TeacherCalibrator
from sklearn_uhc.answers import rows_by_speakers
from sklearn_uhc.solvers import blocks_of
from sklearn_uhc.solvers.leave_one_out import (
    ByClasses,
    ByLists,
    ListMeans,
    Shared,
    class_groups,
    compare,
    group_softmax,
    share_classes,
)
from sklearn_uhc.solvers.mf_lf import LogitAverage
from tests.helpers import random_lists
from tests.test_calibration import LISTS, tempered


def silenced(X, lists, share, seed=0):
    """Return answers of which a random share is missing, by teacher."""
    X, silent = X.copy(), np.random.default_rng(seed).random((len(X), len(lists))) < share
    for i, block in enumerate(LabelSpace(lists).blocks):
        X[np.ix_(silent[:, i], np.arange(X.shape[1])[block])] = np.nan
    return X


@pytest.mark.parametrize("lists", [LISTS, [[0, 1, 2, 3, 4], [0, 1], [2, 3], [3, 2, 5]], [[0, 1, 2], [2, 1, 0], [1, 2]]])
def test_subtracting_a_teacher_from_the_merge_is_the_merge_of_the_others(lists):
    rng, space = np.random.default_rng(36), LabelSpace(lists)
    blocks, weight = blocks_of(space), np.exp(2 * rng.normal(size=len(lists)))
    merge, links = ListMeans.of(blocks, weight, share_classes(blocks)), share_classes(blocks)
    Z = (blocks.center(rng.normal(size=(9, space.n_outputs))) * weight[blocks.teacher_of]).T
    Bz = blocks.sum_classes(Z.T).T
    x = merge.per_owner[:, None] * Bz
    shared = Shared(Bz, x, blocks.sum_lists(x.T).T, merge.solve(Bz))
    compared = [each for i in range(len(lists)) if (each := compare(i, merge, weight, links)) is not None]
    assert len(compared) > 1
    for each in compared:
        i = each.teacher
        where = i, each.columns, each.starts
        groups = class_groups(blocks, np.arange(len(lists)) != i)[blocks.class_of[blocks.slices[i]]]
        others = ListMeans.of(blocks, np.where(np.arange(len(lists)) == i, 0.0, weight), links)
        both = ByClasses.of(merge, weight[i], groups, *where), ByLists.of(others, *where)
        one, other = (group_softmax(way.merged(shared, Z[blocks.slices[i]], blocks), each.starts) for way in both)
        np.testing.assert_allclose(one, other, atol=1e-10)


def test_random_silence_hardly_changes_the_temperatures():
    rng = np.random.default_rng(31)
    lists = random_lists(rng, 10, 12, 4, 7)
    X = tempered(rng, lists, np.linspace(-0.8, 0.8, 12), n=2000, noise=0.2)
    complete, some = (TeacherCalibrator(lists, abstain=True).fit(silenced(X, lists, share)) for share in (0.0, 0.3))
    np.testing.assert_allclose(np.log(some.temperatures_), np.log(complete.temperatures_), atol=0.15)


def test_rows_go_to_the_largest_set_of_teachers_that_all_answer_them():
    speaking = np.random.default_rng(32).random((500, 9)) < 0.7
    found = list(rows_by_speakers(speaking, 15))
    assert len(found) == 15
    rows = np.concatenate([rows for _, rows in found])
    alike = sum((speaking[own] == members).all(axis=1).sum() for members, own in found)
    assert len(np.unique(rows)) == len(rows) > alike
    for row in range(500):
        fitting = [members for members, _ in found if speaking[row][members].all()]
        mine = [members for members, own in found if row in own]
        assert len(mine) == bool(fitting)
        assert not fitting or mine[0].sum() == max(members.sum() for members in fitting)
    every = list(rows_by_speakers(speaking, 1000))  # with room for all of them each row has its own
    for members, own in every:
        assert members.sum() > 1
        assert (speaking[own] == members).all()
    assert sum(len(own) for _, own in every) == (speaking.sum(axis=1) > 1).sum()


@pytest.mark.parametrize("lists", [LISTS, [[0, 1, 2], [1, 2], [3, 4], [4, 3, 5]], [[0, 1], [2, 3]], [[0, 1, 2]]])
def test_one_unknown_per_teacher_gives_the_merge_of_one_per_class(lists):
    rng = np.random.default_rng(34)
    space = LabelSpace(lists)
    blocks, weight = blocks_of(space), np.exp(3 * rng.normal(size=len(lists)))
    Z = rng.normal(size=(7, space.n_outputs))
    r = (blocks.center(Z) * weight[blocks.teacher_of] @ blocks.to_class).T
    fast = ListMeans.of(blocks, weight, share_classes(blocks)).solve(r)
    np.testing.assert_allclose(fast, LogitAverage.of(blocks, weight).solve(Z)[0].T, atol=1e-10)
    weight[0] = 0.0  # left out, with the classes that it alone knows
    without = ListMeans.of(blocks, weight, share_classes(blocks))
    assert (np.isneginf(without.solve(r)).all(axis=1) == ~space.mask[1:].any(axis=0)).all()
