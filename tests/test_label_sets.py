"""Label spaces whose columns stand for sets of classes."""

import copy
import pickle

import numpy as np
import pytest

from sklearn_uhc import OTHER, LabelSpace
from sklearn_uhc.answers import Answers
from sklearn_uhc.spaces import label_space
from sklearn_uhc.spaces.names import look_alikes

CELLS = [[("CD4 T", "CD8 T"), "B"], ["CD4 T", OTHER], ["B", "NK"]]


def members(space):
    return [space.classes[part].tolist() for part in np.split(space.members, space.offsets[1:-1])]


def test_classes_members_and_mask():
    space = LabelSpace(CELLS)
    assert space.has_sets
    assert space.classes.tolist() == ["B", "CD4 T", "CD8 T", "NK"]
    assert members(space) == [["CD4 T", "CD8 T"], ["B"], ["CD4 T"], ["B", "CD8 T", "NK"], ["B"], ["NK"]]
    assert space.mask.tolist() == [[True, True, True, False], [True] * 4, [True, False, False, True]]
    assert space.named[1].tolist() == [False, True, False, False]
    assert space.membership().sum(axis=1).tolist() == space.set_sizes.tolist() == [2, 1, 1, 3, 1, 1]
    assert space.teacher_of.tolist() == [0, 0, 1, 1, 2, 2]


def test_class_lists_keep_tuples_and_other():
    space = LabelSpace(CELLS)
    assert [labels.tolist() for labels in space.class_lists] == CELLS
    assert LabelSpace(space.class_lists) == space
    for same in (pickle.loads(pickle.dumps(space)), copy.deepcopy(space)):
        assert same == space
        assert same.class_lists[1][1] is OTHER


def test_names():
    space = LabelSpace([*CELLS, [tuple("abcdefgh"), "z"]])
    names = space.output_names.tolist()
    assert names[:4] == ["teacher0__CD4 T|CD8 T", "teacher0__B", "teacher1__CD4 T", "teacher1__OTHER"]
    assert names[-2] == "teacher3__a|b|c|d|e|f|and 2 more"


def test_a_set_of_one_is_its_class():
    assert LabelSpace([[("a",), "b"], (("b",), ("c",))]) == LabelSpace([["a", "b"], ["b", "c"]])
    assert not LabelSpace([[(1,), 2]]).has_sets
    assert LabelSpace([[(1,), 2]]).class_lists[0].dtype.kind == "i"


def test_other_of_one_class_is_no_set():
    space = LabelSpace([["a", OTHER], ["a", "b"]])
    assert not space.has_sets
    assert [c.tolist() for c in space.columns] == [[0, 1], [0, 1]]


def test_a_list_may_be_a_tuple():
    assert LabelSpace([("a", "b"), ("b", "c")]).columns[1].tolist() == [1, 2]


def test_numbers_of_several_types():
    assert LabelSpace([[1, 2], [(2, 3), 1.5]]).classes.tolist() == [1.0, 1.5, 2.0, 3.0]


def test_equality_minds_meaning_not_order_within_sets():
    assert LabelSpace([[("a", "b"), "c"]]) == LabelSpace([[("b", "a"), "c"]])
    assert LabelSpace([[("a", "b"), "c"]]) != LabelSpace([["a", ("b", "c")]])
    assert LabelSpace([["a", OTHER], ["b", "c"]]) != LabelSpace([["a", OTHER], ["b", "c"], ["d", "a"]]).restrict([0, 1])


@pytest.mark.parametrize(
    ("lists", "message"),
    [
        ([["a", OTHER, OTHER]], "list 0 has OTHER more than once"),
        ([["a", "b"], ["a", ()]], "list 1 has an empty set"),
        ([[("a", "b"), "b"]], "list 0 repeats .'b'."),
        ([[("a", "b"), ("b", "c")]], "list 0 repeats .'b'."),
        ([["a", "b"], ["a", "b", OTHER]], "list 1 names all 2 classes, so its OTHER stands for none.*pass none_label"),
        ({"north": ["a", "b"], "south": ["a", "b", OTHER]}, "list 'south' names all 2 classes"),
        ({"north": ["a", "b"], "south": ["a", ("a", "b")]}, "list 'south' repeats .'a'"),
        ({"north": ["a", "b"], "south": ["a", OTHER, OTHER]}, "list 'south' has OTHER more than once"),
        ([[OTHER]], "list 0 has only OTHER"),
        ([[("a", ("b", "c"))]], "a set within a set"),
        ([["a", ("b", OTHER)]], "OTHER within a set"),
    ],
)
def test_errors(lists, message):
    with pytest.raises(ValueError, match=message):
        LabelSpace(lists)


@pytest.mark.parametrize("lists", [[[("a", 1)]], [[("a", "b")], [(1, 2)]]])
def test_labels_of_one_sort(lists):
    with pytest.raises(TypeError, match="strings"):
        LabelSpace(lists)


def test_columns_are_refused():
    with pytest.raises(ValueError, match="members and offsets"):
        _ = LabelSpace(CELLS).columns


def test_restriction_keeps_what_other_means():
    space = LabelSpace(CELLS)
    part = space.restrict([1])
    assert part.classes.tolist() == space.classes.tolist()
    assert members(part) == [["CD4 T"], ["B", "CD8 T", "NK"]]
    assert space.restrict([2]).classes.tolist() == ["B", "NK"]
    assert space.restrict([0, 2]).classes.tolist() == space.classes.tolist()


def test_patterns_of_silence():
    space = LabelSpace(CELLS)
    silent = np.array([[True, False, True], [False, True, False]])
    found = {tuple(p.teachers.tolist()): p for p in Answers(np.zeros((2, 6)), space, silent).patterns()}
    assert found[1,].space.n_classes == len(found[1,].classes) == 4
    assert found[1,].columns.tolist() == [2, 3]
    assert found[0, 2].space.classes.tolist() == space.classes[found[0, 2].classes].tolist()


def test_universe_gives_other_more_classes():
    space = LabelSpace([["a", OTHER], ["b", "c"]], universe=["none"])
    assert members(space)[1] == ["b", "c", "none"]
    assert LabelSpace([["a", "b"]], universe=["none"]).classes.tolist() == ["a", "b"]


def test_completion():
    space, columns = LabelSpace([[("a", "b"), "c"], ["d", OTHER]]).complete()
    assert [labels.tolist() for labels in space.class_lists] == [[("a", "b"), "c", "d"], ["d", OTHER]]
    assert columns.tolist() == [0, 1, 4, 2, 3]
    assert space.is_shared


def test_one_column_links_nothing():
    space = LabelSpace([[("a", "b")], ["c", "d"]])
    assert [group.tolist() for group in space.groups()] == [["a"], ["b"], ["c", "d"]]
    assert LabelSpace([[("a", "b"), "c"]]).is_connected


@pytest.mark.parametrize(
    ("lists", "rank", "undetermined", "never_apart"),
    [
        ([["a", "b"], ["b", "c"]], 2, [], []),
        ([["a", "b"], ["c", "d"]], 2, [], []),
        ([[("a", "b"), "c"], ["a", OTHER]], 2, [], []),
        ([[("a", "b"), ("c", "d")], [("a", "c"), ("b", "d")]], 2, ["a", "b", "c", "d"], []),
        ([[("a", "b"), "c"], [("a", "b"), "d"]], 2, ["a", "b"], [["a", "b"]]),
        ([[("a", "b"), "c"], ["c", OTHER]], 1, ["a", "b"], [["a", "b"]]),  # q_c is determined
        ([[("a", "b"), "c"], ["a", "e"]], 2, ["a", "b", "c", "e"], []),  # e is tied to a, and takes from all
        ([["a", OTHER], ["b", OTHER], ["c", "d"]], 3, [], []),
        ([["a", OTHER], ["b", OTHER], [("c", "d"), "a"]], 2, ["c", "d"], [["c", "d"]]),
    ],
)
def test_what_answers_determine(lists, rank, undetermined, never_apart):
    space = LabelSpace(lists)
    assert space.rank == rank
    assert space.is_identified == (rank == space.n_classes - 1)
    assert space.undetermined().tolist() == undetermined
    assert [group.tolist() for group in space.never_apart()] == never_apart


def test_rank_is_that_of_the_linear_system():
    rng, lists = np.random.default_rng(0), [[(0, 1), 2, 3], [3, (4, 0), OTHER], [5, (1, 2, 3)]]
    space, q = LabelSpace(lists), np.random.default_rng(1).dirichlet(np.ones(6))
    inside = space.membership().astype(float)
    everything = space.mask[space.teacher_of].astype(float)
    p = (inside @ q) / (everything @ q)
    assert space.rank == np.linalg.matrix_rank(inside - p[:, None] * everything)
    order = rng.permutation(3)
    assert LabelSpace([lists[i] for i in order]).condition() == pytest.approx(space.condition())


@pytest.mark.parametrize("seed", range(20))
def test_rank_of_random_lists_is_that_of_the_linear_system(seed):
    rng = np.random.default_rng(seed)
    lists = [_random_list(rng, 9) for _ in range(rng.integers(2, 5))]
    space = LabelSpace(lists)
    q = rng.dirichlet(np.ones(space.n_classes))
    inside, everything = space.membership().astype(float), space.mask[space.teacher_of].astype(float)
    p = (inside @ q) / (everything @ q)
    assert space.rank == np.linalg.matrix_rank(inside - p[:, None] * everything, tol=1e-9)
    found, (_, null, at) = space.identification, space.identification._generic
    assert null.shape == (space.n_classes, space.n_classes - space.rank)
    np.testing.assert_allclose(found.jacobian(at) @ null, 0, atol=1e-9)
    np.testing.assert_allclose(null.T @ null, np.eye(null.shape[1]), atol=1e-9)


def _random_list(rng, n_classes):
    """Return a list of single classes, sets and sometimes OTHER."""
    known = rng.permutation(n_classes)[: rng.integers(3, n_classes)].tolist()
    n_sets = rng.integers(0, 3)
    sets = [tuple(known[2 * k : 2 * k + 2]) for k in range(n_sets) if 2 * k + 2 <= len(known)]
    return [*sets, *known[2 * len(sets) :], *([OTHER] if rng.random() < 0.5 else [])]


def test_the_rank_of_very_many_sets_is_bounded_and_not_computed(monkeypatch):
    space = LabelSpace([[("a", "b"), ("c", "d")], [("a", "c"), ("b", "d")]])
    assert space.rank_bound == space.rank == 2
    monkeypatch.setattr(label_space, "MOST_UNKNOWNS", 3)
    assert LabelSpace(space.class_lists).rank_bound == 3


def test_condition_grows_along_a_chain():
    chain = [LabelSpace([[i, i + 1] for i in range(n)]).condition() for n in (2, 4, 8)]
    assert chain == sorted(chain)
    assert chain[0] < 3
    assert chain[2] > 5
    coarse = [[(0, 1), (2, 3)], [0, OTHER], [2, OTHER], [1, 3]]
    space = LabelSpace(coarse)
    assert space.condition([0.25] * 4) == pytest.approx(space.condition())
    assert space.condition([0.49, 0.01, 0.01, 0.49]) > space.condition()
    for q in ([0.5, 0.5], [0.5, 0.5, 0.0, 0.0], [0.5, 0.5, 0.5, np.nan]):
        with pytest.raises(ValueError, match="q must be 4 positive numbers"):
            space.condition(q)


def test_describe_says_what_is_open():
    assert "2 of 6 columns mean sets of classes" in LabelSpace(CELLS).describe()
    text = LabelSpace([[("a", "b"), "c"], [("a", "b"), "d"]]).describe()
    assert text.endswith("; never distinguished: {a, b}")
    text = LabelSpace([[("a", "b"), ("c", "d")], [("a", "c"), ("b", "d")]]).describe()
    assert text.endswith("; not determined by their sets: {a, b, c, d}")


def test_look_alikes_are_found_beside_other():
    space = LabelSpace([["B cell", OTHER], ["b_cell", "NK"]])
    assert look_alikes(space.class_lists) == [{"B cell": 0, "b_cell": 1}]
