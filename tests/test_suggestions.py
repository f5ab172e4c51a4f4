import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

from sklearn_uhc import TeacherOutputs, harmonize
from sklearn_uhc.evidence.behaviour import surest_rows
from sklearn_uhc.inspection import suggest_harmonization
from sklearn_uhc.spaces.label_space import OTHER


def answers(rng, sets, n=900, L=6, sure=4.0, foreign=1.0):
    """Log-probabilities of teachers whose columns are sets of classes; they are unsure on rows of other classes."""
    y = rng.integers(L, size=n)
    blocks = []
    for own in sets:
        logits = foreign * rng.normal(size=(n, len(own)))
        for k, classes in enumerate(own):
            logits[:, k] += sure * np.isin(y, classes)
        blocks.append(logits)
    return np.hstack(blocks)


@pytest.fixture
def rng():
    return np.random.default_rng(0)


SETS = [[[0], [1], [2], [3]], [[2], [3], [4], [5]], [[0], [4], [5], [1]]]
LISTS = [["a", "b", "c", "d"], ["c", "d", "e", "f"], ["a", "e", "f", "b"]]


def test_clean_lists_give_nothing(rng):
    found = suggest_harmonization(LISTS, log_p=answers(rng, SETS))
    assert len(found) == 0
    assert repr(found) == "No suggestions."
    assert found.as_synonyms() == {}


def test_a_class_with_two_names_is_found_by_its_answers(rng):
    lists = [LISTS[0], ["c", "delta", "e", "f"], LISTS[2]]
    (one,) = suggest_harmonization(lists, log_p=answers(rng, SETS))
    assert (one.kind, one.name, one.becomes) == ("answers", "delta", ("d",))
    assert one.score == min(one.numbers["forward"], one.numbers["backward"]) > 0.9
    assert "top rows of 'd'" in one.evidence


def test_the_more_common_name_is_used(rng):
    lists = [["alpha", *LISTS[0][1:]], LISTS[1], LISTS[2], ["a", "b"]]
    found = suggest_harmonization(lists, log_p=answers(rng, [*SETS, [[0], [1]]]))
    assert found.as_synonyms() == {"alpha": "a"}


def test_a_coarse_class_is_no_synonym_of_its_parts(rng):
    sets = [[[0, 1], [2], [3]], *SETS, [[0], [1], [4]]]
    lists = [["ab", "c", "d"], *LISTS, ["a", "b", "e"]]
    assert len(suggest_harmonization(lists, log_p=answers(rng, sets, sure=6.0))) == 0


def test_names_of_one_teacher_are_never_joined(rng):
    """Two columns of teacher 0 that are the same class for all others."""
    log_p = answers(rng, SETS)
    log_p[:, 1] = log_p[:, 0]
    lists = [["cat", "Cat", "c", "d"], LISTS[1], LISTS[2]]
    for one in suggest_harmonization(lists, log_p=log_p):
        assert {one.name, *one.becomes} != {"cat", "Cat"}


def test_two_that_may_each_be_a_third_are_not_both_joined_with_it(rng):
    """Teacher 0 distinguishes x and y, and both behave like b of teacher 1: at most one of them can be it."""
    log_p = answers(rng, [[[0], [0], [1], [2]], [[0], [1], [2], [3]]])
    found = suggest_harmonization([["x", "y", "c", "d"], ["b", "c", "d", "e"]], log_p=log_p)
    assert len({"x", "y"} & {name for one in found for name in (one.name, *one.becomes)}) < 2


def test_classes_that_a_third_lies_within_are_not_called_the_same(rng):
    """Teacher 1 does not know b, and calls it a: so a behaves like the coarse class ab."""
    sets = [[[0, 1], [2], [3]], [[0, 1], [2], [4]], [[1], [3], [5]]]
    lists = [["ab", "c", "d"], ["a", "c", "e"], ["b", "d", "f"]]
    log_p = answers(rng, sets, sure=8.0)
    assert suggest_harmonization(lists, log_p=log_p).as_synonyms() == {}


def test_spelling_needs_no_answers_and_tells_of_them_if_there_are_any(rng):
    lists = [LISTS[0], ["c", "D", "e", "f"], LISTS[2]]
    (plain,) = suggest_harmonization(lists)
    assert (plain.kind, plain.name, plain.becomes, plain.score) == ("spelling", "D", ("d",), None)
    (with_answers,) = suggest_harmonization(lists, log_p=answers(rng, SETS))
    assert with_answers.kind == "spelling"
    assert with_answers.score > 0.9
    assert "similarity of the answers" in with_answers.evidence


def test_order_of_rows_columns_and_teachers_does_not_matter(rng):
    lists = [LISTS[0], ["c", "delta", "e", "f"], LISTS[2]]
    log_p = answers(rng, SETS).round(1)  # with ties
    (one,) = suggest_harmonization(lists, log_p=log_p)
    (shuffled,) = suggest_harmonization(lists, log_p=log_p[rng.permutation(len(log_p))])
    assert shuffled.score == pytest.approx(one.score, rel=1e-12)
    (turned,) = suggest_harmonization(
        [lists[2], lists[1][::-1], lists[0]], log_p=np.hstack([log_p[:, 8:], log_p[:, 7:3:-1], log_p[:, :4]])
    )
    assert turned.score == pytest.approx(one.score, rel=1e-12)


def test_shifts_of_the_logits_do_not_matter(rng):
    lists, log_p = [LISTS[0], ["c", "delta", "e", "f"], LISTS[2]], answers(rng, SETS)
    shifted = log_p + np.repeat(rng.normal(size=(len(log_p), 3)), 4, axis=1)
    one, two = (suggest_harmonization(lists, log_p=Z)[0].score for Z in (log_p, shifted))
    assert two == pytest.approx(one, rel=1e-9)


def test_silent_teachers_are_left_out_of_the_rows_that_they_did_not_answer(rng):
    lists, log_p = [LISTS[0], ["c", "delta", "e", "f"], LISTS[2]], answers(rng, SETS)
    full = suggest_harmonization(lists, log_p=log_p)[0].score
    log_p[::5, 4:8] = np.nan
    (one,) = suggest_harmonization(lists, log_p=log_p)
    assert one.score == pytest.approx(full, abs=0.05)


def test_sets_and_other_are_not_compared(rng):
    lists = [["a", "b", ("c", "g"), OTHER], ["c", "d", "e", OTHER], ["a", "e", "f", "b"]]
    assert len(suggest_harmonization(lists, log_p=answers(rng, SETS))) == 0


def test_too_few_rows_are_said_to_be_too_few(rng):
    found = suggest_harmonization(LISTS, log_p=answers(rng, SETS, n=30))
    assert "30 rows are too few for 6 names; pass 60" in repr(found)


def test_only_what_could_be_compared_is_said_to_be_missing(rng):
    sets = [[("a", "b"), ("c", "d")], [("a", "c"), ("b", "d")]]
    assert suggest_harmonization(sets, log_p=np.zeros((200, 4))).note == ""
    log_p = answers(rng, SETS, n=200)
    log_p[3:] = np.nan
    assert "answer for too few of the rows" in suggest_harmonization(LISTS, log_p=log_p).note


def test_teachers_that_say_the_same_of_all_rows_are_not_compared():
    log_p = np.log([[0.8, 0.2, 0.5, 0.5]] * 100)
    log_p[7, :2] = -np.inf  # all is alike in this row
    assert len(suggest_harmonization([["a", "b"], ["c", "d"]], log_p=log_p)) == 0


def test_teachers_are_asked_and_frames_tell_all():
    X, y = load_digits(return_X_y=True)
    names = np.array(["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"])
    other = np.where(names == "zero", "null", names)
    parts = [([0, 1, 2, 3, 9], names), ([0, 4, 5, 6, 7, 8], other), ([1, 3, 6, 8, 9], names)]
    teachers = []
    for known, called in parts:
        rows = np.isin(y[:900], known)
        teachers.append(LogisticRegression(C=1e-3, max_iter=500).fit(X[:900][rows], called[y[:900][rows]]))
    X = X[900:]
    found = suggest_harmonization(teachers, X)
    assert found.as_synonyms() == {"null": "zero"}
    named = suggest_harmonization({f"site {i}": teacher for i, teacher in enumerate(teachers)}, X)
    assert repr(named) == repr(found)
    outputs = TeacherOutputs(teachers).set_output(transform="pandas")
    assert repr(suggest_harmonization(teachers, log_p=outputs.fit_transform(X))) == repr(found)
    frame = found.to_frame()
    assert frame.loc[0, ["kind", "name"]].tolist() == ["answers", "null"]
    assert {"forward", "backward", "n_rows"} <= set(frame)


def test_choosing_among_suggestions():
    found = suggest_harmonization([["cat", "dog", "cow"], ["Cat", "dogs", "COW"]])
    assert [one.name for one in found] == ["Cat", "dogs", "COW"]
    assert found[[0, 2]].as_synonyms() == {"Cat": "cat", "COW": "cow"}
    assert found[1:].as_synonyms() == {"dogs": "dog", "COW": "cow"}
    assert found.of_kind("spelling").as_synonyms() == found.as_synonyms()
    assert len(found.of_kind("answers")) == 0
    with pytest.raises(ValueError, match="kinds are"):
        found.of_kind("synonyms")
    assert "[1] 'dogs' may mean 'dog': the names are nearly equal" in repr(found)
    assert isinstance(suggest_harmonization([["a"]]).to_frame(), pd.DataFrame)


def test_numbers_beside_texts():
    found = suggest_harmonization([[0, 1], ["1", "2"]])
    assert found.as_synonyms() == {"1": 1}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"X": np.zeros((5, 2)), "log_p": np.zeros((5, 4))}, "both given"),
        ({"X": np.zeros((5, 2))}, "Teacher 0 is a list of classes"),
        ({"log_p": np.zeros((5, 3))}, r"must have shape \(n, 4\)"),
    ],
)
def test_errors(options, message):
    with pytest.raises((TypeError, ValueError), match=message):
        suggest_harmonization([["a", "b"], ["b", "c"]], **options)


def test_surest_rows_share_ties():
    P = np.array([[1.0, 0.9], [1.0, 0.1], [1.0, 0.5], [0.2, 0.7]])
    W, ties = surest_rows(P, np.array([2.0, 2.0]))
    np.testing.assert_allclose(W, [[1 / 3, 0.5], [1 / 3, 0], [1 / 3, 0], [0, 0.5]])
    np.testing.assert_allclose(ties, [1.5, 1.0])


def test_names_that_sound_like_other_are_no_synonyms():
    lists = [["B", "T", "other"], ["B", "NK", "Other"], ["T", "NK", "Unassigned", "n/a"]]
    found = suggest_harmonization(lists)
    assert found.as_synonyms() == {}
    assert found.as_other() == ["other", "Other", "Unassigned"]  # a teacher has one OTHER
    assert str(found[0]).startswith("'other' may mean OTHER: the name sounds like")
    assert str(found[2]).endswith("; 'n/a' too, but a teacher has one OTHER: add up these columns first")
    assert found.of_kind("other").as_other() == found.as_other()
    expected = [["B", "T", OTHER], ["B", "NK", OTHER], ["T", "NK", OTHER, "n/a"]]
    assert harmonize(lists, other=found.as_other()) == expected
    shared = [["B", "unknown"], ["B", "unknown"]]  # OTHER would stand for nothing
    assert suggest_harmonization(shared).as_other() == []
    assert suggest_harmonization([["B", OTHER], [("T", "none"), "B"], ["another", "T"]]).as_other() == []


def test_answers_of_other_are_not_compared():
    rng = np.random.default_rng(0)
    q = np.full((600, 4), 0.002)
    q[np.arange(600), rng.integers(4, size=600)] = 0.99
    lists = [["a", "b", "rest", "misc"], ["a", "unknown"]]
    log_p = np.log(np.column_stack([q, q[:, 0], q[:, 1:].sum(axis=1)]))
    found = suggest_harmonization(lists, log_p=log_p)
    assert [one.kind for one in found] == ["other"]
    assert found.as_other() == ["unknown"]  # the first list names all classes


def test_suggestions_are_chosen_by_number_or_by_true_and_false():
    found = suggest_harmonization([["B cell", "CD8 T", "NK"], ["B-cells", "CD8T", "nk"]])
    assert [one.name for one in found] == ["B-cells", "CD8T", "nk"]
    for index in ([0, 2], [True, False, True], np.array([0, 2]), found.to_frame()["name"] != "CD8T"):
        assert found[index].as_synonyms() == {"B-cells": "B cell", "nk": "NK"}
    assert found[np.int64(1)].name == "CD8T"
    with pytest.raises(IndexError, match=r"2 values .*given for 3"):
        found[[True, False]]
