import numpy as np
import pytest

from sklearn_uhc import TeacherMerger
from sklearn_uhc.inspection import suggest_harmonization, teacher_report
from sklearn_uhc.spaces.label_space import OTHER, LabelSpace
from sklearn_uhc.spaces.names import (
    about_look_alikes,
    about_rests,
    look_alikes,
    may_mean_other,
    nearly_equal,
    one_for_each,
    quoted,
    sounding_like_other,
)


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ("cat", " Cat "),
        ("B cell", "B-cells"),
        ("b_cell", "B  cells"),
        ("B.cell", "Bcell"),
        ("CD8 T", "CD8T"),
        ("type 1", "Type1"),
        ("CD4+ T cell", "CD4+ T cells"),
        ("café", "cafe\N{COMBINING ACUTE ACCENT}"),
        ("Café", "cafe"),
        ("straße", "STRASSE"),
        ("e\N{EN DASH}mail", "e-mail"),
        ("Crohn's disease", "Crohn\N{RIGHT SINGLE QUOTATION MARK}s disease"),
        ("box", "boxes"),
        ("dress", "Dresses"),
        ("virus", "viruses"),
        ("city", "cities"),
        ("movie", "movies"),
        ("headache", "headaches"),
        ("T-shirt/top", "t shirt/tops"),
        ("1", 1),
        ("dog.", "Dog"),
        ("T cells. ", "T cell"),
        ("Drs. Who", "Drs Who"),
        ("dog\N{ZERO WIDTH SPACE}", "dog"),
        ("\N{ZERO WIDTH NO-BREAK SPACE}dog", "dogs"),
        ("B\N{ZERO WIDTH JOINER} cell", "B cell"),
        ("mono\N{SOFT HYPHEN}cyte", "monocyte"),
        ("cell\N{LEFT-TO-RIGHT MARK}.", "cell"),
        ("CD4+", "CD4 +"),
        ("CD4 -", "cd4-"),
        ("IgG+ B", "IgG+B"),
        ("T (CD4)", "T(CD4)"),
        ("a / b", "a/b"),
    ],
)
def test_nearly_equal(one, two):
    assert nearly_equal([[one, "x"], [two, "x"]]) == [(one, two)]
    assert nearly_equal([[two], [one]]) == [(two, one)]


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ("CD4+", "CD4-"),
        ("CD4-", "CD4"),
        ("-1", "1"),
        ("C", "C++"),
        ("1.5", "15"),
        ("type 1 2", "type 12"),
        ("plan", "planes"),
        ("car", "care"),
        ("as", "a"),
        ("class", "clas"),
        ("analysis", "analysi"),
        (1, 10),
        ("v1.0", "v10"),
        ("v1.0", "v1"),
        ("1.", "1"),
        ("v1.", "v1"),
        ("No.", "no"),
        ("in.", "in"),
        ("a.m.", "am"),
        ("U.S.", "us"),
        ("Ph.D.", "PhD"),
        ("dog...", "dog"),
        (".dog", "dog"),
        ("\N{DEVANAGARI LETTER KA}\N{DEVANAGARI VOWEL SIGN I}", "\N{DEVANAGARI LETTER KA}"),
    ],
)
def test_different(one, two):
    assert nearly_equal([[one], [two]]) == []


def test_names_that_one_teacher_tells_apart_differ():
    assert nearly_equal([["a b", "ab"], ["c", "d"]]) == []
    # "A B" is like two names that differ, so there is no saying which of them is meant.
    assert nearly_equal([["a b", "ab"], ["A B", "c"]]) == []
    assert nearly_equal([["a b", "ab", "cat"], ["A B", "Cat"]]) == [("cat", "Cat")]


def test_sets_count_by_their_members_and_other_has_no_name():
    assert nearly_equal([[("CD4", "CD8"), OTHER], ["cd4", "OTHER"]]) == [("CD4", "cd4")]


def test_groups_with_the_first_teacher_of_each_name():
    groups = look_alikes([["cat", "Dog"], ["Cat ", "dog"], ["cats", "d.og"], ["cat", "cow"]])
    assert groups == [{"cat": 0, "Cat ": 1, "cats": 2}, {"Dog": 0, "dog": 1, "d.og": 2}]
    assert "'cat' (teacher 0) and 'Cat ' (teacher 1)" in about_look_alikes(groups, "teacher {}".format)
    assert about_look_alikes([], str) == ""
    named = LabelSpace({"north": ["cat", "cow"], "south": ["Cat ", "cow"]})
    assert "'cat' (teacher 'north') and 'Cat ' (teacher 'south')" in about_look_alikes(
        look_alikes(named.class_lists), named.called
    )


def test_names_that_print_identically_are_escaped():
    composed, apart = "caf\N{LATIN SMALL LETTER E WITH ACUTE}", "cafe\N{COMBINING ACUTE ACCENT}"
    assert quoted([composed, apart, "cafe"]) == [r"'caf\xe9'", r"'cafe\u0301'", "'cafe'"]
    assert quoted([composed.title(), apart]) == [r"'Caf\xe9'", r"'cafe\u0301'"]
    assert quoted([composed, composed.title(), "stra\xdfe", "STRASSE", 1, "1", OTHER]) == [
        repr(name) for name in (composed, composed.title(), "stra\xdfe", "STRASSE", 1, "1", OTHER)
    ]
    lists = [[composed, "a"], [apart, "b"]]
    assert r"'caf\xe9' (0) and 'cafe\u0301' (1)" in about_look_alikes(look_alikes(lists), str)
    (found,) = suggest_harmonization(lists)
    assert str(found) == r"'cafe\u0301' may mean 'caf\xe9': the names are nearly equal"
    report = teacher_report(log_p=np.zeros((3, 4)), class_lists=lists)
    assert r"'cafe\u0301' may mean 'caf\xe9'" in str(report)
    assert (found.name, found.becomes) == (apart, (composed,))


def test_a_name_for_other_may_end_with_a_dot():
    assert may_mean_other("Misc.")


def test_a_long_name_of_plurals_is_read_in_no_time():
    name = " ".join(["cats"] * 60)
    assert nearly_equal([[name], [name.upper()]]) == [(name, name.upper())]


@pytest.mark.parametrize(
    "name", ["other", "Others", "misc.", "(Other)", "N/A", "Unclassified", "not a class", "another", 0]
)
def test_names_that_sound_like_other(name):
    assert may_mean_other(name) == (name not in ("not a class", "another", 0))


@pytest.mark.parametrize(
    ("lists", "found"),
    [
        ([["a", "b", "other"], ["b", "c", "other"]], {"other": [0, 1]}),
        ([["a", "Other"], ["b", "misc."], ["a", "b"]], {"Other": [0], "misc.": [1]}),
        ([["a", "b", "other"], ["b", "a", "other"]], {}),  # OTHER would stand for nothing
        ([["a", "b", "other"], ["b", "a", "other"], ["a", "c"]], {"other": [0, 1]}),
        ([["a", "other"], ["a", "b"]], {"other": [0]}),
        ([["a", "b", "other"], ["a", "b"]], {}),  # this teacher knows all classes
        ([["a", "OTHER"], ["a", "b"]], {"OTHER": [0]}),  # the text instead of the object
        ([["a", OTHER, "none"], [("b", "other"), "c"], ["c", "d"]], {}),
    ],
)
def test_a_teacher_may_mean_the_classes_of_others_by_other(lists, found):
    assert sounding_like_other(lists) == found


def test_names_that_can_become_other_together():
    assert one_for_each({"other": [0], "unknown": [0, 1], "rest": [2]}) == ["unknown", "rest"]
    message = about_rests({"other": [0], "unknown": [0, 1]}, str)
    assert "other=['unknown']). A teacher has one OTHER only" in message


def test_fit_and_report_say_that_other_counts_as_a_class():
    lists = {"north": ["a", "b", "unknown"], "south": ["b", "c", "unknown"]}
    log_p = np.log(np.random.default_rng(0).dirichlet(np.ones(3), size=(20, 2)).reshape(20, 6))
    with pytest.warns(UserWarning, match="'unknown' .teacher 'north', teacher 'south'") as said:
        TeacherMerger(None, class_lists=lists).fit(None, log_p=log_p)
    assert "harmonize(teachers, other=['unknown'])" in str(said[0].message)
    assert str(said[0].message) in teacher_report(log_p=log_p, class_lists=lists)["warnings"]
    assert about_rests({}, str) == ""
