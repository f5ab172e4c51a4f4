"""The report on teachers without labels."""

import json
import pickle

import numpy as np
import pytest
import sklearn
from sklearn.datasets import load_digits, load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB

from sklearn_uhc import (
    CrossEntropyUnifier,
    FindingWarning,
    LabelSpace,
    TeacherCalibrator,
    TeacherMerger,
    UnifiedEnsemble,
)
from sklearn_uhc.inspection import teacher_report
from tests.helpers import linear_teachers, random_lists, random_outputs
from tests.memberships import Fixed, small


def test_teachers_and_data():
    X, y = load_digits(return_X_y=True)
    lists = [[0, 1, 2, 3], [2, 3, 4, 5], [0, 1, 4, 5]]
    models = [LogisticRegression(max_iter=2000), GaussianNB(), LogisticRegression(max_iter=2000)]
    teachers = [
        m.fit(X[:800][np.isin(y[:800], k)], y[:800][np.isin(y[:800], k)]) for m, k in zip(models, lists, strict=True)
    ]
    report = teacher_report(teachers, X[800:])
    assert [row["name"] for row in report["teachers"]] == ["LogisticRegression", "GaussianNB", "LogisticRegression"]
    assert [row["classes"] for row in report["teachers"]] == lists
    assert all(row["coverage"] == 1 and 0.5 < row["confidence"] <= 1 for row in report["teachers"])
    assert all(0 < row["agreement"] < 1 for row in report["teachers"])
    assert len(report["pairs"]) == 3
    json.dumps(report)  # plain values only


def test_frequencies_are_those_that_fit_uses():
    X, y = load_iris(return_X_y=True)
    teachers = [LogisticRegression(max_iter=500).fit(X[y != k], y[y != k]) for k in (0, 2)]
    found = teacher_report(teachers, X)["frequencies"]
    np.testing.assert_allclose(list(found.values()), UnifiedEnsemble(teachers).fit(X).merger_.class_frequencies_)
    assert list(found) == [0, 1, 2]


def test_the_noisy_teacher_stands_out():
    rng = np.random.default_rng(0)
    lists = random_lists(rng, 8, 6, 4, 6)
    Z = random_outputs(rng, lists, 500, spread=2.0, noise=0.7)
    block = LabelSpace(lists).blocks[4]
    Z[:, block] = 10 * rng.normal(size=Z[:, block].shape)
    report = teacher_report(log_p=Z, class_lists=lists)
    rows = report["teachers"]
    assert [row["contradicts"] for row in rows] == [i == 4 for i in range(6)]
    assert min(rows, key=lambda row: row["agreement"])["teacher"] == 4
    assert all(4 in (pair["first"], pair["second"]) for pair in report["pairs"][:3])
    Z[:, block] = 0.0  # it is calibrated and merged without what it says
    expected = TeacherCalibrator(lists, teacher_weight=[1, 1, 1, 1, 1e-3, 1]).fit(Z).temperatures_
    np.testing.assert_allclose([row["temperature"] for row in rows], expected)


def test_silence_and_what_cannot_be_told():
    Z = np.random.default_rng(1).normal(size=(40, 7))
    Z[:10, :3] = np.nan
    Z[:, 5:] = np.nan
    report = teacher_report(log_p=Z, class_lists=[["a", "b", "c"], ["c", "d"], ["e", "f"]])
    first, second, third = report["teachers"]
    assert first["coverage"] == 0.75
    assert second["agreement"] is None
    assert second["left"] is not None
    assert third["coverage"] == 0
    assert third["confidence"] is None
    assert report["pairs"] == []


def test_no_row_is_hard_if_all_agree():
    Z = np.random.default_rng(2).normal(size=(40, 3))
    report = teacher_report(log_p=np.hstack([Z, Z[:, ::-1]]), class_lists=[["a", "b", "c"], ["c", "b", "a"]])
    assert report["rows"] == []
    assert [row["agreement"] for row in report["teachers"]] == [1, 1]


def test_what_the_lists_determine():
    lists = [["cat", "dog"], ["dog", "cow"], ["ant", "bee"]]
    space = teacher_report(log_p=np.zeros((5, 6)), class_lists=lists)["space"]
    assert space["summary"] == LabelSpace(lists).describe()
    assert (space["n_teachers"], space["n_classes"]) == (3, 5)
    assert space["groups"] == [["ant", "bee"], ["cat", "cow", "dog"]]
    assert [(item["class"], item["teacher"]) for item in space["known_by_one"]] == [
        ("ant", 2),
        ("bee", 2),
        ("cat", 0),
        ("cow", 1),
    ]


def answers(seed=0, n=300, silent=False):
    """Six teachers of eight classes that agree up to noise."""
    rng = np.random.default_rng(seed)
    lists = random_lists(rng, 8, 6, 4, 6)
    Z = random_outputs(rng, lists, n, spread=2.0, noise=0.7)
    if silent:
        for i, block in enumerate(LabelSpace(lists).blocks):
            Z[40 * i : 40 * i + 60, block] = np.nan
        Z[-7:] = np.nan
    return lists, Z


@pytest.mark.parametrize("silent", [False, True])
def test_rows_are_those_with_the_largest_reconciliation_error(silent):
    lists, Z = answers(silent=silent)
    report = teacher_report(log_p=Z, class_lists=lists, n_rows=8)
    log_p = TeacherCalibrator(lists, abstain=True).fit_transform(Z)
    answered = np.flatnonzero(~np.isnan(log_p).all(axis=1))
    method = CrossEntropyUnifier(lists, temperature=1.0, abstain=True).fit(log_p[answered])
    error, Q = method.reconciliation_error(log_p[answered]), method.transform(log_p[answered])
    worst = np.argsort(-error)[:8]
    assert [row["row"] for row in report["rows"]] == answered[worst].tolist()
    np.testing.assert_allclose([row["error"] for row in report["rows"]], error[worst], rtol=1e-10)
    assert [row["says"] for row in report["rows"]] == method.classes_[Q[worst].argmax(axis=1)].tolist()
    assert report["n_unanswered"] == (7 if silent else 0)


def test_what_the_teachers_say_that_contradict_a_row_most():
    lists, Z = answers()
    space = LabelSpace(lists)
    report = teacher_report(log_p=Z, class_lists=lists, n_rows=3)
    log_p = TeacherCalibrator(lists).fit_transform(Z)
    Q = CrossEntropyUnifier(lists, temperature=1.0).fit_transform(log_p)
    for row in report["rows"]:
        p, q = np.exp(log_p[row["row"]]), Q[row["row"]]
        apart, against = [], []
        for block, columns in zip(space.blocks, space.columns, strict=True):
            restricted = q[columns] / q[columns].sum()
            apart.append((p[block] * np.log(p[block] / restricted)).sum())
            against.append(p[block].argmax() != restricted.argmax())
        assert np.mean(apart) == pytest.approx(row["error"])
        furthest = [i for i in np.argsort(apart)[::-1].tolist() if against[i]]
        assert [other["teacher"] for other in row["contradicted_by"]] == furthest[:2]
        for other in row["contradicted_by"]:
            i = other["teacher"]
            assert other["says"] == lists[i][p[space.blocks[i]].argmax()]
            assert other["merge_says"] == lists[i][q[space.columns[i]].argmax()]
            assert other["divergence"] == pytest.approx(apart[i])


def test_teachers_that_are_only_less_sure_do_not_contradict():
    Z = np.log(np.tile([[0.9, 0.1, 0.6, 0.4]], (50, 1)))
    report = teacher_report(log_p=Z, class_lists=[["a", "b"], ["a", "b"]])
    assert report["rows"]
    assert all(row["contradicted_by"] == [] for row in report["rows"])
    assert "none: they differ only in confidence" in str(report)


def test_a_noisy_teacher_does_not_hide_the_rows_that_others_differ_on():
    lists, Z = answers()
    block = LabelSpace(lists).blocks[4]
    Z[:, block] = 10 * np.random.default_rng(1).normal(size=Z[:, block].shape)
    report = teacher_report(log_p=Z, class_lists=lists)
    assert report["teachers"][4]["contradicts"]
    assert report["rows"]
    assert all(other["teacher"] != 4 for row in report["rows"] for other in row["contradicted_by"])


def warnings_about(report):
    marks = {
        "do not connect": "groups",
        "count as different classes": "names",
        "contradicts the other teachers": "wrong",
        "contradict each other": "conflict",
        "look foreign": "foreign",
        "very uneven": "uneven",
        "less than half": "contradiction",
        "No row is answered": "mute",
        "Not calibrated": "alone",
        "only one teacher:": "single",
        "No teacher answers": "unanswered",
    }
    return [next(name for mark, name in marks.items() if mark in line) for line in report["warnings"]]


def test_no_warning_without_reason():
    lists, Z = answers()
    assert teacher_report(log_p=Z, class_lists=lists)["warnings"] == []


def test_warnings_name_what_is_wrong():
    lists, Z = answers()
    assert warnings_about(teacher_report(log_p=Z[:, :4], class_lists=[list("abcd")])) == ["single"]

    noisy, block = Z.copy(), LabelSpace(lists).blocks[4]
    noisy[:, block] = 10 * np.random.default_rng(1).normal(size=Z[:, block].shape)
    report = teacher_report(log_p=noisy, class_lists=lists)
    assert warnings_about(report) == ["wrong"]
    assert report["warnings"][0].startswith("Teacher 4 contradicts")

    apart = teacher_report(log_p=Z[:, :6], class_lists=[list("abc"), list("def")])
    assert warnings_about(apart) == ["groups", "alone"]
    assert "{a, b, c}; {d, e, f}" in apart["warnings"][0]
    assert "teacher 0 and teacher 1" in apart["warnings"][1]

    silent = Z.copy()
    silent[:7] = np.nan
    report = teacher_report(log_p=silent, class_lists=lists)
    assert warnings_about(report) == ["unanswered"]
    assert "7 of 300 rows" in report["warnings"][0]

    silent = Z.copy()
    silent[:, LabelSpace(lists).blocks[2]] = np.nan
    assert warnings_about(teacher_report(log_p=silent, class_lists=lists)) == ["mute"]


def test_nearly_equal_names_are_told_in_the_report_alone():
    Z = 2 * np.random.default_rng(0).normal(size=(50, 3))
    lists = [["cat", "dog", "eel"], ["Cat ", "dog", "eel"]]
    report = teacher_report(log_p=np.hstack([Z, Z[:, [1, 0, 2]]]), class_lists=lists)  # a warning would be an error
    assert "names" in warnings_about(report)
    assert any("'cat' (teacher 0) and 'Cat ' (teacher 1)" in text for text in report["warnings"])
    assert report["space"]["look_alikes"] == [{"Cat ": 1, "cat": 0}]
    assert "'Cat ' (0." in str(report)  # the table of rows
    assert "known to only one teacher: 'Cat ' (teacher 1), cat (teacher 0)" in " ".join(str(report).split())
    assert "&#x27;Cat &#x27;, dog, eel" in report._repr_html_()


@pytest.mark.parametrize(("n_right", "kind"), [(1, "conflict"), (2, "wrong"), (4, "wrong")])
def test_misnamed_classes_are_warned_of(n_right, kind):
    Z = 3 * np.random.default_rng(0).normal(size=(300, 4))
    lists = [*[list("abcd")] * n_right, list("badc")]
    names = [f"number {i}" for i in range(n_right + 1)]
    report = teacher_report(log_p=np.hstack([Z] * len(lists)), class_lists=dict(zip(names, lists, strict=True)))
    assert warnings_about(report) == [kind]
    assert f"eacher 'number {n_right}'" in report["warnings"][0]
    assert ("eacher 'number 0'" in report["warnings"][0]) == (kind == "conflict")  # nobody can tell which is wrong


def test_what_few_rows_show_is_told_without_findings():
    Z = 3 * np.random.default_rng(0).normal(size=(30, 4))
    for n_right, kind in ((1, "contradiction"), (2, "contradiction")):
        lists = [*[list("abcd")] * n_right, list("badc")]
        report = teacher_report(log_p=np.hstack([Z] * len(lists)), class_lists=lists)
        assert report["findings"] == []
        assert warnings_about(report) == [kind]
        assert f"eacher {n_right}" in report["warnings"][0]


def test_names_of_teachers():
    lists, Z = answers(n=50)
    report = teacher_report(log_p=Z, class_lists=dict(zip("ABCDEF", lists, strict=True)))
    assert [row["name"] for row in report["teachers"]] == list("ABCDEF")
    assert "5 F" in str(report)


def test_text():
    lists, Z = answers()
    report = teacher_report(log_p=Z, class_lists=[[f"class {k}" for k in labels] for labels in lists])
    text = str(report)
    assert repr(report) == text
    lines = text.splitlines()
    assert max(map(len, lines)) <= 120
    table = lines[lines.index("Teachers") + 1 :][:8]
    assert table[0].startswith("teacher    n  coverage  confidence  temperature  agreement")
    assert len({len(line) for line in table}) == 1
    for line, row in zip(table[2:], report["teachers"], strict=True):
        assert line.split()[-1] == f"{row['agreement']:.2f}"
    assert "Check these first" not in text
    assert f"{report['rows'][0]['says']} ({report['rows'][0]['probability']:.2f})" in text


def test_text_of_next_to_nothing():
    report = teacher_report(log_p=np.full((3, 2), np.nan), class_lists=[["a\nb", "c" * 99]])
    assert report["rows"] == report["pairs"] == []
    assert "none" in str(report)
    assert warnings_about(report) == ["mute", "single", "unanswered"]


def test_survives_pickling():
    lists, Z = answers(n=50)
    report = teacher_report(log_p=Z, class_lists=lists)
    again = pickle.loads(pickle.dumps(report))
    assert again == report
    assert str(again) == str(report)


def test_confidence_is_the_mean_of_the_largest_probability():
    Z = np.log([[0.8, 0.2, 0.1, 0.9], [0.4, 0.6, 0.5, 0.5], [1.0, 1.0, 0.5, 0.5]])
    Z[2, :2] = -np.inf  # says that all is alike
    Z[1, 2:] = np.nan
    report = teacher_report(log_p=Z, class_lists=[["a", "b"], ["b", "c"]])
    assert [row["confidence"] for row in report["teachers"]] == pytest.approx([1.9 / 3, 0.7])


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({}, "Pass either"),
        ({"teachers": [GaussianNB()]}, "Pass either fitted teachers and X"),
        ({"log_p": np.zeros((3, 2)), "class_lists": [[0, 1]], "n_rows": -1}, "n_rows must be .* got -1"),
        ({"log_p": np.zeros((3, 2)), "class_lists": [[0, 1]], "n_rows": 1.5}, "n_rows must be .* got 1.5"),
        ({"log_p": np.zeros((3, 2))}, "needs class_lists"),
        ({"log_p": np.zeros((3, 2)), "class_lists": [[0, 1, 2]]}, r"log_p must have shape \(n, 3\).*got \(3, 2\)"),
        ({"log_p": [[0.0, np.nan]], "class_lists": [[0, 1]]}, "log_p contains NaN"),
    ],
)
def test_wrong_input(params, message):
    with pytest.raises(ValueError, match=message):
        teacher_report(**params)


def test_teachers_that_are_good_but_share_little_are_not_accused():
    X, y = load_iris(return_X_y=True)
    teachers = [LogisticRegression(max_iter=500).fit(X[y != k], y[y != k]) for k in range(3)]
    report = teacher_report(teachers, X)
    assert not any(teacher["contradicts"] for teacher in report["teachers"])
    assert all(teacher["temperature"] == 1 for teacher in report["teachers"])
    assert any("overlap too little" in warning for warning in report["warnings"])
    assert not any("contradict" in warning for warning in report["warnings"])


def test_output_set_to_pandas_does_not_disturb_the_report():
    pytest.importorskip("pandas")
    X, y = load_iris(return_X_y=True)
    teachers = [LogisticRegression(max_iter=500).fit(X, y) for _ in range(2)]
    with sklearn.config_context(transform_output="pandas"):
        assert teacher_report(teachers, X)["n_samples"] == 150


# Sets of classes


def foreign_scorers(share, n=120):
    """Return scorers of two teachers that take a share of n rows for nobody's, the others for the first one's."""
    return [Fixed(np.where(np.arange(n) < n * share, 0.3, 0.9)), Fixed(np.full(n, 0.2))]


def test_membership_scorers_are_in_the_report():
    X, merger = small(120)
    teachers = merger.teachers
    for teacher, scorer in zip(teachers, foreign_scorers(0.5), strict=True):
        teacher.membership_ = scorer
    report = teacher_report(teachers, X)
    with pytest.warns(FindingWarning, match="look foreign") as caught:
        merger.fit(X)
    assert [one["kind"] for one in report["findings"]] == ["foreign"]
    assert str(caught[0].message) in report["warnings"]
    assert [row["accepted"] for row in report["teachers"]] == [0.5, 0.0]
    assert report["accepted"] == 0.5
    text = " ".join(str(report).split())
    assert "50 % of the rows are accepted by at least one of the 2 membership scorers." in text
    assert "coverage accepts confidence" in text
    assert "100 % 50 %" in text
    json.dumps(report)
    silent = teacher_report(teachers, X, membership=None)
    assert silent["accepted"] is None
    assert all(one["kind"] != "foreign" for one in silent["findings"])
    assert "accepts" not in str(silent)


def test_rows_that_scorers_accept_are_not_foreign():
    X, merger = small(120)
    few = teacher_report(merger.teachers, X, membership=foreign_scorers(0.25))
    assert few["accepted"] == 0.75
    assert "foreign" not in [one["kind"] for one in few["findings"]]
    one = teacher_report(merger.teachers, X, membership=[foreign_scorers(0.5)[0], None])
    assert [row["accepted"] for row in one["teachers"]] == [0.5, None]
    # As in fit: only scorers of all teachers can tell.
    assert "foreign" not in [found["kind"] for found in one["findings"]]
    assert "50 % of the rows are accepted by the only membership scorer." in " ".join(str(one).split())


def test_scorers_take_part_in_the_merge_of_the_report():
    lists, (X, _) = [["a", "b"], ["c", "d"]], small(120)
    teachers = dict(zip(["north", "south"], linear_teachers(lists), strict=True))
    scorers = {"north": Fixed(X[:, 0]), "south": Fixed(1 - X[:, 0])}
    report = teacher_report(teachers, X, membership=scorers)
    assert report["space"]["groups"] == [["a", "b", "c", "d"]]
    assert not any("do not connect" in line for line in report["warnings"])
    assert any("do not connect" in line for line in teacher_report(teachers, X)["warnings"])
    merger = TeacherMerger(teachers, membership=scorers, calibrate=False, class_prior="auto")
    np.testing.assert_allclose(report.displays["soft_labels"].mean, merger.fit_transform(X).mean(axis=0), atol=1e-9)


def test_scorers_beside_precomputed_answers():
    X, log_p = np.zeros((120, 1)), np.random.default_rng(0).normal(size=(120, 4))
    given = {"log_p": log_p, "class_lists": [["a", "b"], ["b", "c"]], "membership": foreign_scorers(0.5)}
    assert [one["kind"] for one in teacher_report(X=X, **given)["findings"]] == ["foreign"]
    with pytest.raises(ValueError, match="Memberships need X, which is None"):
        teacher_report(**given)
    with pytest.raises(ValueError, match="119"):
        teacher_report(X=X[1:], **given)
