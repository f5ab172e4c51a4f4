import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression

from sklearn_uhc import LabelSpace, UnifiedEnsemble, harmonize
from sklearn_uhc.inspection import suggest_harmonization
from sklearn_uhc.spaces.harmonize import members
from sklearn_uhc.spaces.label_space import OTHER
from tests.helpers import linear_teachers

CELLS = [["T cell", "B cell"], ["CD4 T", "CD8 T", "B cell"]]
TREE = {"T cell": ["CD4 T", "CD8 T"]}


def test_nothing_to_do_leaves_the_lists_as_they_are():
    assert harmonize(CELLS) == CELLS
    assert harmonize([[3, 1], [2, 1]]) == [[3, 1], [2, 1]]
    assert harmonize([np.array(["b", "a"]), ("a", "c")]) == [["b", "a"], ["a", "c"]]


def test_labels_come_back_as_plain_values():
    labels = harmonize([np.array([1, 2]), np.array([2, 3])])
    assert all(type(label) is int for own in labels for label in own)


@pytest.mark.parametrize("form", ["list", "pairs", "dict", "lists", "named lists", "space"])
def test_teachers_come_in_any_form(form):
    lists = [["Cat", "dog"], ["cat", "cow"]]
    teachers = linear_teachers(lists)
    given = {
        "list": teachers,
        "pairs": [("north", teachers[0]), ("south", teachers[1])],
        "dict": dict(zip(("north", "south"), teachers, strict=True)),
        "lists": lists,
        "named lists": [("north", lists[0]), ("south", lists[1])],
        "space": LabelSpace(lists),
    }[form]
    expected = [["cat", "dog"], ["cat", "cow"]]
    named = form in ("pairs", "dict", "named lists")
    result = harmonize(given, synonyms={"Cat": "cat"})
    assert result == (dict(zip(("north", "south"), expected, strict=True)) if named else expected)


def test_lists_with_names_find_their_teachers_in_any_order():
    lists = {"north": ["a", "b"], "south": ["b", "c"], "west": ["c", "d"]}
    X = np.random.default_rng(0).normal(size=(40, 3))
    teachers = dict(zip(lists, linear_teachers(lists.values()), strict=True))
    swapped = {name: lists[name] for name in ("west", "north", "south")}
    found = UnifiedEnsemble(teachers, class_lists=harmonize(swapped)).fit(X).predict_proba(X)
    np.testing.assert_array_equal(found, UnifiedEnsemble(teachers).fit(X).predict_proba(X))
    with pytest.raises(ValueError, match=r"no names. Pass them as a dict .* or, .*list\(class_lists.values\(\)\)"):
        UnifiedEnsemble(list(teachers.values()), class_lists=harmonize(swapped)).fit(X)


def test_none_of_the_names_means_other():
    assert harmonize([["a", "u"]], synonyms=None, taxonomy=None, other=None) == [["a", "u"]]


def test_two_labels_in_a_tuple_are_a_class_list_not_a_name_and_a_teacher():
    assert harmonize([("cat", "dog"), ("cat", ("dog", "cow")), ("cow", "dog")]) == [
        ["cat", "dog"],
        ["cat", ("cow", "dog")],
        ["cow", "dog"],
    ]


def test_synonyms_by_table_by_function_and_in_chains():
    lists = [["B-Cell", "T"], ["b-cell", "NK"], ["B", "T"]]
    expected = [["b-cell", "t"], ["b-cell", "nk"], ["b", "t"]]
    assert harmonize(lists, synonyms=str.casefold) == expected
    chain = {"B": "B-Cell", "B-Cell": "b-cell", "b-cell": "b-cell"}
    assert harmonize(lists, synonyms=chain) == [["b-cell", "T"], ["b-cell", "NK"], ["b-cell", "T"]]


def test_numbers_and_texts_become_one_vocabulary():
    numbers = {"zero": 0, "one": 1}
    assert harmonize([["zero", "one"], [1, 2]], synonyms=numbers) == [[0, 1], [1, 2]]
    parity = {"even": [0, 2, 4], "odd": [1, 3]}
    assert harmonize([["even", "odd"], [0, 1, 2], [2, 3, 4]], taxonomy=parity)[0] == [(0, 2, 4), (1, 3)]


def test_a_coarse_class_becomes_the_classes_below_it():
    assert harmonize(CELLS, taxonomy=TREE) == [[("CD4 T", "CD8 T"), "B cell"], CELLS[1]]


def test_depth_and_nested_tables():
    lists = [["lymphocyte", "monocyte"], ["T", "B"], ["CD4", "CD8", "B"]]
    flat = {"lymphocyte": ["T", "B"], "T": ["CD4", "CD8"]}
    nested = {"lymphocyte": {"T": ["CD4", "CD8"], "B": []}}
    expected = [[("B", "CD4", "CD8"), "monocyte"], [("CD4", "CD8"), "B"], ["CD4", "CD8", "B"]]
    assert harmonize(lists, taxonomy=flat) == harmonize(lists, taxonomy=nested) == expected


def test_a_step_that_no_teacher_has_links_those_above_and_below():
    lists = [["lymphocyte", "monocyte"], ["CD4", "CD8"]]
    tree = {"lymphocyte": ["T"], "T": ["CD4", "CD8"]}
    assert harmonize(lists, taxonomy=tree)[0] == [("CD4", "CD8"), "monocyte"]


def test_one_known_part_is_that_part_and_none_leaves_the_coarse_class():
    lists = [["T cell", "B cell"], ["CD4 T", "B cell"]]
    with pytest.warns(UserWarning, match=r"Teacher 0: 'T cell' becomes 'CD4 T', .* has \['CD8 T'\] too.*leave it out"):
        assert harmonize(lists, taxonomy=TREE, handle_unknown="ignore")[0] == ["CD4 T", "B cell"]
    assert harmonize(lists, taxonomy={"T cell": ["CD4 T"]})[0] == ["CD4 T", "B cell"]  # it has no other parts
    deeper = {"T cell": ["alpha beta"], "alpha beta": ["CD4 T"], "CD4 T": ["naive", "memory"]}  # parts of the part
    assert harmonize(lists, taxonomy=deeper, handle_unknown="ignore")[0] == ["CD4 T", "B cell"]
    assert harmonize([["T cell", "B cell"]], taxonomy=TREE, handle_unknown="ignore") == [["T cell", "B cell"]]
    # Where the parts of a part are not known, the part itself is the finest class.
    tree = {"T cell": ["CD4 T", "CD8 T"], "CD4 T": ["naive", "memory"]}
    assert harmonize(CELLS, taxonomy=tree, handle_unknown="ignore")[0] == [("CD4 T", "CD8 T"), "B cell"]


def test_taxonomy_and_other_take_names_from_before_the_synonyms():
    lists = [["T Cell", "B"], ["CD4", "CD8", "Unknown"]]
    out = harmonize(lists, synonyms=str.casefold, taxonomy={"T cell": ["CD4", "cd8"]}, other="UNKNOWN")
    assert out == [[("cd4", "cd8"), "b"], ["cd4", "cd8", OTHER]]


def test_a_function_of_texts_meets_a_number():
    assert harmonize([["A", "B"], ["b", "c"]], synonyms=str.casefold, taxonomy={1: ["A", "B"]}, handle_unknown="ignore")
    with pytest.raises(TypeError, match="synonyms failed for the class 1"):
        harmonize([[1, 2]], synonyms=str.casefold)


def test_other():
    lists = [["a", "unknown"], ["b", "rest"], ["a", "b"]]
    assert harmonize(lists, other=["unknown", "rest"]) == [["a", OTHER], ["b", OTHER], ["a", "b"]]
    assert harmonize([[0, -1], [0, 1]], other=-1) == [[0, OTHER], [0, 1]]
    assert harmonize([["a", ("u", "v")], ["a", "b"]], other="u", synonyms={"v": "u"})[0] == ["a", OTHER]  # a set of one


def test_two_parents_are_fine_unless_a_teacher_has_both():
    tree = {"helper": ["CD4", "ILC"], "T": ["CD4", "CD8"]}
    lists = [["helper", "B"], ["T", "B"], ["CD4", "CD8", "ILC"]]
    assert harmonize(lists, taxonomy=tree)[:2] == [[("CD4", "ILC"), "B"], [("CD4", "CD8"), "B"]]
    with pytest.raises(ValueError, match=r"'CD4' has several parents: \['helper', 'T'\]"):
        harmonize([["helper", "T"], ["CD4", "CD8", "ILC"]], taxonomy=tree)


@pytest.mark.parametrize(
    ("lists", "options", "message"),
    [
        ([["a", "b"]], {"synonyms": {"c": "a"}}, r"synonyms renames \['c'\], but no teacher has"),
        ([["a", "b"]], {"synonyms": {"a": "b", "b": "a"}}, "cycle: 'a' -> 'b' -> 'a'"),
        ([["a", "b"]], {"synonyms": {"a": ("b", "c")}}, "Sets of classes belong in taxonomy"),
        ([["a", "b"]], {"synonyms": {"a": OTHER}}, "pass such classes as other="),
        ([["a", "b"]], {"synonyms": "a"}, "must be a dict"),
        ([["a", "b"]], {"taxonomy": {"a": ["b"], "b": ["a"]}}, "taxonomy has a cycle: 'a' -> 'b' -> 'a'"),
        ([["a", "b"]], {"taxonomy": {"a": ["a"]}}, "cycle: 'a' -> 'a'"),
        (
            [["a", "b"]],
            {"synonyms": {"a": "b"}.get},
            "gives 'b' the name None: a function must return",
        ),
        ([["a", "b"]], {"taxonomy": {"a": "b"}}, r"list of its children, got 'b'. A taxonomy is \{parent: \[child"),
        ([["a", "b"]], {"taxonomy": {"a": None}}, "leave out classes without children"),
        (
            [["a", "b"]],
            {"taxonomy": {"a": [["b"]]}},
            r"\['a'\] has the child \['b'\], but a child is one class",
        ),
        ([["a", "b"]], {"taxonomy": {"a": [{"b": []}]}}, "For more levels, pass a dict"),
        ([["a", "b"]], {"taxonomy": {"a": [("b",)]}}, "a child is one class"),
        ([["a", "b"], ["c"]], {"taxonomy": {"a": ["c"], "b": ["c"]}}, "'c' is below them: its keys must be parents"),
        ([["a", "b"]], {"taxonomy": {"a": []}}, "is empty"),
        ([["a", "b"]], {"taxonomy": [("a", "b")]}, "must be a dict"),
        ([["a", "b"], ["c"]], {"taxonomy": {"a": ["c", "d"]}}, r"taxonomy names \['d'\]"),
        ([["a", "b"], ["c"]], {"taxonomy": {"A": ["c"]}}, r"taxonomy names \['A'\]"),
        ([["a", "b"]], {"other": "rest"}, r"other names \['rest'\].* The classes are \['a', 'b'\]"),
        ([["a", "b"]], {"other": {"a": "b"}}, "must be a label or a list"),
        ([["a", "b"], ["c", "d"]], {"other": "a", "taxonomy": {"a": ["c"]}}, "both other and taxonomy"),
        ([["a", "A"]], {"synonyms": str.casefold}, "Teacher 0: its columns 'a' and 'A' both become 'a'"),
        ([["x", "u", "o"]], {"other": ["u", "o"]}, "'u' and 'o' both become OTHER"),
        ([["a", "b"], ["b", "c"]], {"taxonomy": {"a": ["b", "c"]}}, r"become \('b', 'c'\) and 'b', which have 'b' in"),
        ([["u"], ["a", "b"]], {"other": "u"}, "has only OTHER"),
        ([["a", ["b", "c"]]], {}, r"teacher 0 holds \['b', 'c'\].*not a list or set"),
        ([["a", frozenset("bc")]], {}, "not a list or set"),
        ([["a", ("b", ("c", "d"))]], {}, "holds .'b', .'c', 'd'.*: an entry is a label"),
        ([["a", ("b", OTHER)]], {}, "OTHER, which stands alone"),
        (
            [["a", ("b", "u")], ["b", "c"]],
            {"other": "u"},
            r"Teacher 0: its column \('b', 'u'\) is a set that has 'u', which means OTHER.* remove 'u' from the set or",
        ),
        ([["a", ("b", "v")], ["u", "c"]], {"other": "u", "synonyms": {"v": "u"}}, r"column \('b', 'v'\) is .* has 'u'"),
        ([["a", "b"], [1, 2]], {}, "different types"),
        ([["a", ()]], {}, r"holds \(\): an entry is a label, a tuple of labels"),
        ([[]], {}, "is empty"),
        ([], {}, "No teachers"),
        ("ab", {}, "teachers must be a list"),
        ([("north", ["a"]), ("north", ["b"])], {}, "Two teachers are named 'north'"),
        ({"north": ["a"], "south": [1]}, {}, "class list 'north' holds strings .* class list 'south' holds numbers"),
        (["ab"], {}, "must be a fitted classifier or a list"),
        ([LogisticRegression()], {}, "Teacher 0 has no classes_"),
        ({"north": LogisticRegression()}, {}, "Teacher 'north' has no classes_"),
        ([["a", "b"]], {"handle_unknown": "warn"}, '"error" or "ignore"'),
    ],
)
def test_errors_name_the_culprit(lists, options, message):
    with pytest.raises((TypeError, ValueError), match=message):
        harmonize(lists, **options)


def test_the_name_of_a_teacher_stands_in_its_error_as_it_was_given():
    with pytest.raises(ValueError, match=r"^Teacher 'Site B'"):
        harmonize({"Site A": ["a", "b"], "Site B": ["a", "A"]}, synonyms=str.casefold)


def test_the_way_out_of_an_overlap_works():
    lists = [["T cell", "CD4 T", "B"], ["CD4 T", "CD8 T"]]
    with pytest.raises(ValueError, match="own list instead"):
        harmonize(lists, taxonomy=TREE)
    assert harmonize([["CD8 T", "CD4 T", "B"], lists[1]]) == [["CD8 T", "CD4 T", "B"], ["CD4 T", "CD8 T"]]


def test_a_deep_taxonomy():
    depth = 5000
    tree = {k: [k + 1] for k in range(depth)}
    assert harmonize([[0, -1], [depth, -1]], taxonomy=tree) == [[depth, -1], [depth, -1]]


@given(st.data())
def test_of_any_tree_every_column_becomes_what_lies_below_it(data):
    """Leaves 0 to 7 below random parents; teachers know random disjoint nodes."""
    tree, nodes, parent = {}, {k: {k} for k in range(8)}, 8
    top = list(range(8))
    for _ in range(data.draw(st.integers(0, 4))):
        size = data.draw(st.integers(1, min(3, len(top))))
        children = data.draw(st.permutations(top))[:size]
        tree[parent], nodes[parent] = children, set().union(*(nodes[c] for c in children))
        top = [node for node in top if node not in children] + [parent]
        parent += 1
    lists = [list(range(8))]
    for _ in range(data.draw(st.integers(1, 3))):
        own, used = [], set()
        for node in data.draw(st.permutations(sorted(nodes))):
            if not used & nodes[node]:
                own.append(node)
                used |= nodes[node]
        lists.append(own[: data.draw(st.integers(1, len(own)))])
    out = harmonize(lists, taxonomy=tree, handle_unknown="ignore")
    assert [[set(members(entry)) for entry in own] for own in out] == [[nodes[n] for n in own] for own in lists]
    assert harmonize(out) == out


def test_truth_values_are_not_numbers():
    """True == 1 in Python: a synonym of one would rename the other."""
    lists = [[False, True], [0, 1, 2]]
    with pytest.raises(ValueError, match=r"Teacher 0 has False.*Teacher 1 has 0"):
        harmonize(lists, synonyms={False: 10, True: 11})
    with pytest.raises(ValueError, match="takes these for the same name"):
        harmonize(lists, taxonomy={True: [0, 2], False: [1]})
    named = harmonize(lists, synonyms=lambda label: ["no", "yes"][label] if isinstance(label, bool) else str(label))
    assert named == [["no", "yes"], ["0", "1", "2"]]
    assert harmonize([[False, True], [True, False]]) == [[False, True], [True, False]]


@pytest.mark.parametrize("missing", [None, float("nan"), pd.NA, pd.NaT])
def test_missing_names_are_refused(missing):
    for function in (harmonize, suggest_harmonization):
        with pytest.raises(ValueError, match=r"The class list of teacher 0 holds .*, which is no name of a class"):
            function([["a", missing], ["a", "c"]])


def test_other_twice_is_not_blamed_on_the_taxonomy():
    with pytest.raises(ValueError, match=r"Teacher 0: its columns .* both become OTHER"):
        harmonize([["a", OTHER, OTHER], ["a", "c"]])
