"""What the report says about sets of classes, and what it suggests about names and coarse classes."""

from html import escape

import numpy as np
import pytest

from sklearn_uhc import OTHER, LabelSpace, LogitFactorization
from sklearn_uhc.inspection import suggest_harmonization, teacher_report
from tests.memberships import Fixed


def report_of_sets(class_lists, n=200):
    """The report on consistent answers of a random q."""
    space = LabelSpace(class_lists)
    q = np.random.default_rng(0).dirichlet(np.full(space.n_classes, 0.3), size=n)
    return teacher_report(log_p=np.log(np.maximum(q @ space.membership().T, 1e-30)), class_lists=class_lists)


def test_classes_that_are_never_told_apart_are_named():
    report = report_of_sets([[("a", "b"), "c", "d"], ["c", "d", OTHER]])
    assert report["space"]["never_apart"] == [["a", "b"]]
    assert report["space"]["undetermined"] == ["a", "b"]
    (line,) = [line for line in report["warnings"] if "distinguishes these classes" in line]
    assert "{a, b}" in line
    assert "c" not in line.partition(".")[0].partition(":")[2]
    assert not any("sets do not determine" in line for line in report["warnings"])
    assert str(report).splitlines()[1].startswith("2 teachers, 4 classes, 2 of 6 columns mean sets of classes")
    assert "never distinguished" not in str(report)  # the summary leaves it to the warning


def test_classes_that_sets_do_not_determine_are_named():
    report = report_of_sets([[("a", "b"), ("c", "d")], [("a", "c"), ("b", "d")]])
    assert report["space"]["never_apart"] == []
    (line,) = [line for line in report["warnings"] if "sets do not determine" in line]
    assert "these classes: a, b, c, d." in line
    assert "sets do not determine" in report.to_html()


def test_a_class_that_only_one_set_has_is_named():
    report = report_of_sets([[("CD4 T", "Tregs"), "B"], ["CD4 T", "B"]])
    assert report["space"]["in_one_set"] == [{"class": "Tregs", "teacher": 0}]
    assert any("one set of one teacher only: Tregs (teacher 0)" in line for line in report["warnings"])


def test_sets_that_determine_everything_are_not_warned_of():
    report = report_of_sets([["a", "b", "c", "d"], [("a", "b"), "c", "d"], ["a", "b", OTHER]])
    assert report["space"]["condition"] < 10
    assert not any("sets" in line or "tied" in line for line in report["warnings"])


@pytest.mark.parametrize(
    ("lists", "rank", "said"),
    [
        (
            [["a", "b"], ["b", "c"]],
            2,
            "lists determine the probabilities of all classes: the answers give 2 independent",
        ),
        ([["a", "b"], [("a", "b"), "c"]], 2, "lists determine the probabilities of all classes: the answers give 2"),
        ([["a", "b"], ["c", "d"]], 2, "lists do not determine the probabilities of all classes: the answers give 2"),
        ([[("a", "b"), "c"], ["c", OTHER]], 1, "do not determine the probabilities of all classes: the answers give 1"),
        ([[("a", "b"), ("c", "d")], [("a", "c"), ("b", "d")]], 2, "do not determine the probabilities of all classes"),
    ],
)
def test_rank_and_condition_are_told_in_words(lists, rank, said):
    report, space = report_of_sets(lists), LabelSpace(lists)
    assert report["space"]["rank"] == space.rank == rank
    text = " ".join(str(report).split())
    assert said in text
    assert f"odds (rank), and {space.n_classes - 1} are needed" in text
    assert f"may grow {space.condition():.1f} times in the merge (condition)" in text
    assert said in report.to_html()


def test_nothing_is_told_about_the_rank_of_one_class():
    assert "(rank)" not in str(teacher_report(log_p=np.zeros((3, 1)), class_lists=[["a"]]))


def test_the_rank_is_that_of_lists_and_scorers():
    X, lists = np.zeros((50, 1)), [["a", "b"], ["c", "d"]]
    params = {"X": X, "log_p": np.random.default_rng(0).normal(size=(50, 4)), "class_lists": lists}
    report = teacher_report(**params, membership=[Fixed(np.full(50, 0.7)), None])
    assert report["space"]["rank"] == 3
    assert "The class lists, with the membership scorers, determine" in " ".join(str(report).split())
    assert teacher_report(**params)["space"]["rank"] == 2


@pytest.mark.parametrize(("n", "warned"), [(20, False), (120, True)])
def test_long_chains_are_warned_of(n, warned):
    lists = [[f"c{k:03}", f"c{k + 1:03}"] for k in range(n)]
    report = teacher_report(log_p=np.zeros((3, 2 * n)), class_lists=lists)
    assert (report["space"]["condition"] > 50) == warned
    assert any("long chain" in line for line in report["warnings"]) == warned


def test_sets_count_by_the_classes_that_they_name():
    report = report_of_sets([["a", "b", "c"], [("a", "b"), "c", "d"], ["b", OTHER]])
    assert [row["n_classes"] for row in report["teachers"]] == [3, 4, 1]
    assert report["space"]["known_by_one"] == [{"class": "d", "teacher": 1}]


def test_classes_in_sets_are_answered_for():
    space = LabelSpace([["a", "b", "c"], [("a", "b"), "c"]])
    log_p = np.log(np.full((30, 5), 0.5))
    log_p[:, space.blocks[0]] = np.nan
    report = teacher_report(log_p=log_p, class_lists=space.class_lists)
    assert report["space"]["unanswered"] == []
    assert not any("No other teacher answers" in line for line in report["warnings"])


def renamed_and_coarse():
    """Answers of three teachers on six classes: one calls "zero" "null", one does not distinguish "a" and "b"."""
    rng = np.random.default_rng(0)
    q = np.full((600, 6), 0.002)
    q[np.arange(600), rng.integers(6, size=600)] = 0.99
    names = ["a", "b", "c", "d", "e", "zero"]
    known = [["zero", "a", "b", "c"], ["null", "c", "d", "e"], ["a or b", "d", "e", "zero"]]
    meaning = {**{name: [k] for k, name in enumerate(names)}, "null": [5], "a or b": [0, 1]}
    columns = [[q[:, meaning[name]].sum(axis=1) for name in own] for own in known]
    return known, np.column_stack([np.log(np.stack(own) / np.sum(own, axis=0)).T for own in columns])


def test_suggestions_with_evidence_and_none_applied():
    lists, log_p = renamed_and_coarse()
    report = teacher_report(log_p=log_p, class_lists=lists)
    found = suggest_harmonization(lists, log_p=log_p)
    assert [(one["kind"], one["name"], one["becomes"]) for one in report["suggestions"]] == [
        (one.kind, one.name, one.becomes) for one in found
    ]
    assert ("answers", "null", ("zero",)) in [(one.kind, one.name, one.becomes) for one in found]
    assert any("'null' may mean 'zero'" in line for line in report["warnings"])
    assert report["space"]["n_classes"] == 8  # as the lists are
    text = " ".join(str(report).split())
    for one in report["suggestions"]:
        assert one["evidence"] in text
        assert escape(one["evidence"]) in report.to_html()


def test_teachers_are_called_by_their_names():
    lists, log_p = renamed_and_coarse()
    named = dict(zip(["north", "south", "west"], lists, strict=True))
    report = teacher_report(log_p=log_p, class_lists=named)
    assert "null (teacher 'south')" in " ".join(str(report).split())
    few = teacher_report(log_p=log_p[:4], class_lists=named)
    assert any(line.startswith("Not calibrated: teacher 'north', ") for line in few["warnings"])


def test_names_alone_are_suggestions_without_that_warning():
    report = teacher_report(log_p=np.zeros((4, 4)), class_lists=[["B cell", "T cell"], ["B-cells", "NK"]])
    assert [one["name"] for one in report["suggestions"]] == ["B-cells"]
    assert report["suggestions"][0]["score"] is None
    assert not any("According to the teachers' answers" in line for line in report["warnings"])
    assert report["suggestions_note"] in " ".join(str(report).split())
    assert "rows are too few" in report["suggestions_note"]


def test_the_report_suggests_what_may_be_other():
    lists = [["B cell", "T cell", "other"], ["B cell", "NK", "Other"]]
    report = teacher_report(log_p=np.zeros((4, 6)), class_lists=lists)
    assert "'Other' may mean OTHER: the name sounds like" in " ".join(str(report).split())
    assert report["space"]["look_alikes"] == []
    assert "may mean OTHER" in report.to_html()


def test_what_takes_too_long_is_left_out(monkeypatch):
    monkeypatch.setattr("sklearn_uhc.inspection.report.measure.MOST_CLASSES", 5)
    lists, log_p = renamed_and_coarse()
    report = teacher_report(log_p=log_p, class_lists=[[*lists[0][:3], "Null"], *lists[1:]])
    assert report["space"]["condition"] is None
    assert [one["kind"] for one in report["suggestions"]] == ["spelling"]
    assert "more than 5 columns" in str(report)
    assert "How much errors may grow in the merge takes too long to compute (condition)." in " ".join(
        str(report).split()
    )


def test_the_rank_is_left_out_if_it_takes_too_long(monkeypatch):
    monkeypatch.setattr("sklearn_uhc.spaces.label_space.MOST_UNKNOWNS", 2)
    report = report_of_sets([[("a", "b"), ("c", "d")], [("a", "c"), ("b", "d")]])
    assert report["space"]["rank"] is None
    assert "Whether the class lists determine all probabilities takes too long" in " ".join(str(report).split())


def test_other_does_not_hide_a_typo():
    """A misspelt name of a set is also among what another teacher calls OTHER."""
    lists = [[("setosa", "virginca"), "versicolor"], [OTHER, "setosa"], ["setosa", "versicolor", "virginica"]]
    assert LabelSpace(lists).in_one_set() == [("virginca", 0)]
    with pytest.warns(UserWarning, match="one teacher only: virginca"):
        LogitFactorization(lists).fit(np.zeros((4, 7)))
