import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.naive_bayes import GaussianNB

from sklearn_uhc import HeterogeneousDistiller, LabelSpace, UnifiedEnsemble
from sklearn_uhc.answers import Answers
from tests.helpers import linear_teachers


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
    assert LabelSpace([[2**53 + 1]]) != LabelSpace([[2.0**53]])
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
        ([np.array([[1, 2], [3, 4]])], ValueError, "one-dimensional"),
        ([["c"], [["a", "b"], "c"]], TypeError, r"Class list 1 .*\['a', 'b'\].* as a tuple, \('a', 'b'\)"),
        ([[{"a"}, "c"]], TypeError, "a label, a tuple of labels .* or OTHER"),
        (5, TypeError, "one list of classes per teacher"),
    ],
)
def test_bad_lists(lists, error, message):
    with pytest.raises(error, match=message):
        LabelSpace(lists)


def test_blanks_in_names_are_shown():
    assert LabelSpace([["Cat ", "b c"], ["x"]]).describe().endswith("{'Cat ', b c}, {x}")


INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]


@pytest.mark.parametrize("a", INTEGERS)
@pytest.mark.parametrize("b", [*INTEGERS, "float32", "float64"])
def test_numbers_of_any_two_types_merge_exactly(a, b):
    low, high = np.iinfo(a).min, np.iinfo(a).max
    exact = high if np.dtype(b).kind != "f" else min(high, 2**53)
    space = LabelSpace([np.array([low, 5, exact - 1, exact], dtype=a), np.array([5, 7], dtype=b)])
    assert space.classes.tolist() == [*sorted({low, 5, 7}), exact - 1, exact]
    assert [space.classes[columns].tolist() for columns in space.columns] == [[low, 5, exact - 1, exact], [5, 7]]
    assert (space.classes.dtype.kind == "f") == (np.dtype(b).kind == "f")


LARGE = [
    [np.array([2**53 + 1, 2**53 + 3], dtype="uint64"), np.array([2**53, 2**53 + 2])],
    [np.array([2**63 + 1, 2**63 + 3], dtype="uint64"), np.array([2**62, 2**62 + 1])],
    [[2**63 + 1, 2**63 + 3], [5, 2**63]],  # numpy reads the second as float64
]


@pytest.mark.parametrize("lists", LARGE)
def test_integers_beyond_the_digits_of_floats_stay_apart(lists):
    space = LabelSpace(lists)
    assert space.classes.tolist() == sorted(int(label) for labels in lists for label in labels)
    assert space.classes.dtype.kind in "iu"
    assert space.mask.sum(axis=0).tolist() == [1, 1, 1, 1]
    assert space == LabelSpace([labels.tolist() for labels in space.class_lists])


@pytest.mark.parametrize(
    ("lists", "message"),
    [
        ([np.array([2**63 + 1], dtype="uint64"), [-1]], f"all classes from -1 to {2**63 + 1}"),
        ([[-1, 2**63 + 1]], f"all classes from -1 to {2**63 + 1}"),
        ([[2**64, 1]], f"all classes from 1 to {2**64}"),
        ([[2**53 + 1, 2**53], [0.5]], rf"\[{2**53 + 1}\] are too large .* Rename"),
        ([[2**53 + 1, 0.5]], rf"\[{2**53 + 1}\] are too large"),
        ([[10**400, 0.5]], "are too large"),
    ],
)
def test_numbers_that_no_type_holds_are_refused(lists, message):
    with pytest.raises(ValueError, match=message):
        LabelSpace(lists)


def test_silence_does_not_compare_labels():
    large = np.array([2**63 + 1, 2**63 + 3], dtype="uint64")
    space = LabelSpace([large, [1, 2**53 + 1], [1, 2**53]])
    (pattern,) = Answers(np.zeros((1, 6)), space, np.array([[True, False, False]])).patterns()
    assert space.classes[pattern.classes].tolist() == [1, 2**53, 2**53 + 1] == pattern.space.classes.tolist()


@pytest.mark.parametrize("student", [RandomForestClassifier(5, random_state=0), GaussianNB()])
def test_large_integers_go_through_a_whole_distillation(student):
    lists = [np.array([2**53 + 1, 2**53 + 3], dtype="uint64"), np.array([2**53, 2**53 + 1]), np.array([7, 0], "uint8")]
    teachers = linear_teachers(lists)
    for teacher, labels in zip(teachers, lists, strict=True):
        teacher.classes_ = labels
    X = np.random.default_rng(0).normal(size=(60, 3))
    classes = [0, 7, 2**53, 2**53 + 1, 2**53 + 3]
    y = np.array(classes)[X[:, 0].argsort().argsort() // 12]
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The class lists do not connect")
        distiller = HeterogeneousDistiller(teachers, student).fit(X, y)
        ensemble = UnifiedEnsemble(teachers).fit(X, y)
    assert distiller.classes_.tolist() == classes
    assert np.isfinite(distiller.predict_proba(X)).all()
    for merged in (distiller, ensemble):
        hits = [int(a) == int(b) for a, b in zip(merged.predict(X), y, strict=True)]
        assert merged.score(X, y) == pytest.approx(np.mean(hits))
