import numpy as np
import pandas as pd
import pytest

from sklearn_uhc import LabelSpace
from sklearn_uhc.label_space import look_alikes


def test_union_blocks_and_columns():
    space = LabelSpace([["dog", "cat"], ["cow", "dog", "ant"]])
    assert space.classes.tolist() == ["ant", "cat", "cow", "dog"]
    assert [(b.start, b.stop) for b in space.blocks] == [(0, 2), (2, 5)]
    assert [c.tolist() for c in space.columns] == [[3, 1], [2, 3, 0]]
    assert space.mask.tolist() == [[False, True, False, True], [True, False, True, True]]
    assert (space.n_teachers, space.n_classes, space.n_outputs) == (2, 4, 5)


@pytest.mark.parametrize(
    ("lists", "groups"),
    [
        ([[0, 1], [1, 2], [2, 3]], [[0, 1, 2, 3]]),
        ([[0, 1], [2, 3]], [[0, 1], [2, 3]]),
        ([[3, 0], [1], [2, 0]], [[0, 2, 3], [1]]),
        ([[7]], [[7]]),
    ],
)
def test_components(lists, groups):
    space = LabelSpace(lists)
    assert [g.tolist() for g in space.groups()] == groups
    assert space.is_connected == (len(groups) == 1)


def test_identical_lists_whatever_their_order():
    space = LabelSpace([["a", "b"], ["b", "c"], ["b", "a"]])
    assert space.list_ids[0] == space.list_ids[2] != space.list_ids[1]
    assert not space.is_shared
    assert LabelSpace([["a", "b"], ["b", "a"]]).is_shared


def test_describe_names_the_groups():
    assert "{1, 2}, {3}" in LabelSpace([[1, 2], [3]]).describe()
    assert "all linked" in repr(LabelSpace([[1, 2], [2, 3]]))
    assert "one list shared" in LabelSpace([[1, 2], [1, 2]]).describe()
    assert LabelSpace([["a"]]).describe().startswith("1 teacher, 1 class,")


def test_equality():
    assert LabelSpace([[1, 2], [2, 3]]) == LabelSpace([[1, 2], [2, 3]])
    assert LabelSpace([[1, 2], [2, 3]]) != LabelSpace([[1, 2], [3, 2]])
    assert LabelSpace([[1, 2]]) != LabelSpace([[1, 2], [1, 2]])
    assert LabelSpace([[1, 2]]) != "no label space"


@pytest.mark.parametrize(
    "labels",
    [
        ["a", "bb"],
        np.array(["a", "bb"]),
        np.array(["a", "bb"], dtype=object),
        pd.Index(["a", "bb"]),
        pd.Series(["a", "bb"], dtype="category"),
        ("a", "bb"),
    ],
)
def test_strings_of_every_kind_are_the_same_classes(labels):
    space = LabelSpace([labels, ["bb", "ccc"]])
    assert space.classes.tolist() == ["a", "bb", "ccc"]
    assert space.classes.dtype.kind == "U"


def test_numbers_merge_by_value():
    assert LabelSpace([[1, 2], np.array([2.0, 3.0])]).classes.tolist() == [1, 2, 3]


@pytest.mark.parametrize(
    ("lists", "error", "message"),
    [
        ([], ValueError, "class_lists is empty"),
        ("ab", TypeError, "one list of classes per teacher"),
        (["ab", "cd"], TypeError, "Class list 0 must be an ordered list"),
        ([["a"], {"b", "c"}], TypeError, "Class list 1 must be an ordered list"),
        ([["a", "b"], []], ValueError, "Class list 1 is empty"),
        ([["a", "b", "a"]], ValueError, r"Class list 0 repeats \['a'\]"),
        ([["a", "b"], [1, 2]], TypeError, "class list 1 holds numbers"),
        ([[True, False], [1, 2]], TypeError, "holds booleans"),
        ([["a", 1]], TypeError, "Class list 0 must hold strings only or numbers only"),
        ([[1.0, np.nan]], TypeError, "strings only or numbers only"),
        ([[None, "a"]], TypeError, "strings only or numbers only"),
        ([[[1, 2], [3, 4]]], ValueError, "one-dimensional"),
        (5, TypeError, "one list of classes per teacher"),
    ],
)
def test_bad_lists(lists, error, message):
    with pytest.raises(error, match=message):
        LabelSpace(lists)


@pytest.mark.parametrize(
    ("lists", "expected"),
    [
        ([["cat", "dog"], ["Cat ", "dog"]], [{"Cat ": 1, "cat": 0}]),
        ([["B cells", "x"], ["B_cells", "x"], ["b  CELLS", "x"]], [{"B cells": 0, "B_cells": 1, "b  CELLS": 2}]),
        ([["a", "A", "b"], ["A", "B"]], [{"B": 1, "b": 0}]),  # the first teacher tells a from A
        ([["a", "A"], ["a ", "b"]], []),
        ([["cat", "dog"], ["dog", "cats"]], []),
        ([[1, 10], [10, 100]], []),
    ],
)
def test_names_that_look_like_one(lists, expected):
    assert look_alikes(LabelSpace(lists)) == expected


def test_blanks_in_names_are_shown():
    assert LabelSpace([["Cat ", "b c"], ["x"]]).describe().endswith("{'Cat ', b c}, {x}")
