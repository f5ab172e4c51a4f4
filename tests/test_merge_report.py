"""The report of a merge: its figures against naive ones, its verdict, and its page."""

import json
import warnings

import numpy as np
import pytest
from scipy.stats import binomtest
from sklearn.datasets import load_digits
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sklearn_uhc import OTHER, FindingWarning, HeterogeneousDistiller, TeacherMerger, UnifiedEnsemble
from sklearn_uhc.inspection import merge_report
from tests.helpers import LinearTeacher, linear_teachers
from tests.memberships import Fixed
from tests.test_report_page import NASTY, Page

X, y = load_digits(return_X_y=True)
LISTS = {"post": [0, 1, 2, 3, 4, 5], "tax": [3, 4, 5, 6, 7], "court": [0, 1, 6, 7, 8, 9]}


def digit_teachers():
    teachers = {}
    for k, (name, known) in enumerate(LISTS.items()):
        rows = 250 * k + np.flatnonzero(np.isin(y[250 * k : 250 * k + 250], known))
        teachers[name] = make_pipeline(StandardScaler(), LogisticRegression()).fit(X[rows], y[rows])
    return teachers


@pytest.fixture(scope="module")
def clf():
    return HeterogeneousDistiller(digit_teachers(), KNeighborsClassifier(10)).fit(X[800:1300])


@pytest.fixture(scope="module")
def report(clf):
    return merge_report(clf, X[1300:], y[1300:])


def test_accuracy_is_that_of_student_and_merge_with_wilsons_interval(clf, report):
    right = clf.predict(X[1300:]) == y[1300:]
    found = report["accuracy"]["result"]
    assert (found["share"], found["n"]) == (right.mean(), len(right))
    assert (found["low"], found["high"]) == tuple(binomtest(right.sum(), len(right)).proportion_ci(method="wilson"))
    merged = clf.merger_.transform(X[1300:]).argmax(axis=1)
    assert report["accuracy"]["merge"]["share"] == (merged == y[1300:]).mean()
    assert report["kept"]["share"] == (merged == clf.predict(X[1300:])).mean()
    assert f"right for {round(100 * right.mean())} %" in str(report)
    assert sum(point["n"] for point in report["calibration"]) == len(right)


def test_classes_and_teachers_are_those_of_a_naive_count(clf, report):
    merger, rows = clf.merger_, X[1300:]
    Q, answers = merger.transform(rows), merger.answers(rows)
    top = Q.argmax(axis=1)
    against = np.zeros((3, 10, 2))
    for n, label in enumerate(top):
        for i, known in enumerate(LISTS.values()):
            if label in known:
                block = answers.log_p[n, answers.space.blocks[i]]
                against[i, label] += [known[block.argmax()] != label, 1]
    for one in report["classes"]:
        k = one["class"]
        assert one["teachers"] == [name for name, known in LISTS.items() if k in known]
        assert one["rows"] == (top == k).sum()
        assert one["merged"] == pytest.approx(Q[:, k].mean())
        assert one["confidence"] == pytest.approx(Q[top == k, k].mean())
        assert one["conflict"] == pytest.approx(np.divide(*against[:, k].sum(axis=0)))
        assert one["labelled"] == pytest.approx((y[1300:] == k).mean())
        assert one["found"]["n"] == (y[1300:] == k).sum()
    shares = [np.divide(*against[i].sum(axis=0)) for i in range(3)]
    assert [one["conflict"] for one in report["teachers"]] == pytest.approx(shares)


def test_confusions_are_counted(clf, report):
    says = clf.predict(X[1300:])
    for one in report["confusions"]:
        own = y[1300:] == one["class"]
        assert (one["share"], one["n"]) == ((says[own] == one["predicted"]).mean(), own.sum())
    counts = [one["share"] * one["n"] for one in report["confusions"]]
    assert counts == sorted(counts, reverse=True)


def test_without_labels_nothing_is_said_about_accuracy(clf):
    found = merge_report(clf, X[1300:])
    assert found["accuracy"] is None
    assert (found["calibration"], found["confusions"], found["n_labelled"]) == ([], [], 0)
    assert "is not known" in str(found)
    assert "pass them as y" in str(found)
    json.dumps(found.to_dict())


def test_labels_of_some_rows_are_enough_and_those_of_fit_are_told():
    labels = np.full(500, -1)
    labels[:60] = y[800:860]
    clf = UnifiedEnsemble(digit_teachers()).fit(X[800:1300], labels)
    found = merge_report(clf, X[800:1300], labels)
    assert (found["n_labelled"], found["accuracy"]["result"]["n"]) == (60, 60)
    assert found["used_in_fit"]
    assert "used in fit" in " ".join(str(found).split())
    assert not merge_report(clf, X[1300:], y[1300:])["used_in_fit"]


def test_an_ensemble_has_no_student_and_its_balance_counts():
    clf = UnifiedEnsemble(digit_teachers(), balance=True).fit(X[800:1300])
    found = merge_report(clf, X[1300:], y[1300:])
    assert not found["has_student"]
    assert found["kept"] is None
    assert found["accuracy"]["result"]["share"] == clf.score(X[1300:], y[1300:])
    assert "student" not in str(found).lower()


def test_told_frequencies_stand_beside_the_merged_ones():
    told = dict(zip(range(10), [0.19, *[0.09] * 9], strict=True))
    merger = TeacherMerger(digit_teachers(), class_prior=told).fit(X[800:1300])
    found = merge_report(merger, X[1300:])
    assert [one["told"] for one in found["classes"]] == pytest.approx(list(told.values()))


def test_what_fit_found_and_what_lists_leave_open_comes_first():
    Z = np.random.default_rng(0).normal(size=(300, 4))
    teachers = [LinearTeacher(("a", "b", "c", "d"), 0).fit(None), LinearTeacher(("d", "c", "b", "a"), 0).fit(None)]
    teachers += linear_teachers([["e", "f"]])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of lists that do not connect, and of teachers that contradict each other
        clf = UnifiedEnsemble(teachers).fit(Z)
    found = merge_report(clf, Z)
    assert [one["kind"] for one in found["findings"]] == [one.kind for one in clf.merger_.findings_]
    assert found["findings"][0]["says"] in found["doubts"][0]
    assert any("do not connect" in line for line in found["doubts"])
    assert any("nobody confirms: e, f" in line for line in found["doubts"])
    assert not any("fit found no problem" in line or "determine" in line for line in found["trusts"])


class Half(LinearTeacher):
    """Answers half of the rows."""

    def predict_log_proba(self, X):
        out = super().predict_log_proba(X)
        out[: len(out) // 2] = np.nan
        return out


def test_sets_silence_and_scorers():
    Z = np.random.default_rng(0).normal(size=(80, 4))
    teachers = [Half(known, k).fit(None) for k, known in enumerate((("ab", "c"), ("a", "b", "c"), ("a", "c")))]
    scorers = [None, None, Fixed(np.full(80, 0.9))]
    merger = TeacherMerger(teachers, class_lists=[[("a", "b"), "c"], None, None], abstain=True, membership=scorers)
    with pytest.warns(UserWarning, match="No teacher answers for 40"):
        merger.fit(Z)
    found = merge_report(merger, Z)
    assert found["n_unanswered"] == 40
    assert any("40 of 80 rows" in line for line in found["doubts"])
    assert sum(one["rows"] for one in found["classes"]) == 40
    assert [one["teachers"] for one in found["classes"]] == [
        ["0 Half", "1 Half", "2 Half"][: 2 + (c != "b")] for c in "abc"
    ]
    assert all(row["row"] >= 40 for row in found["rows"])
    assert all(0 <= one["conflict"] <= 1 for one in found["teachers"])


def test_none_of_these_is_a_class_that_no_teacher_knows():
    Z = np.random.default_rng(0).normal(size=(80, 4))
    teachers, lists = linear_teachers([[0, 1, 2], [0, 1]]), [["a", "b", OTHER], ["b", "a"]]
    found = merge_report(UnifiedEnsemble(teachers, class_lists=lists, none_label="none").fit(Z), Z)
    assert [one["class"] for one in found["classes"]] == ["a", "b", "none"]
    json.dumps(found)


def texts_and_teachers():
    texts = [f"<img src=x onerror=alert({k})> {'cat' if k % 2 else 'dog'} & {k % 7}" for k in range(80)]
    names = np.array(NASTY[:2], dtype=object)
    labels = names[np.arange(80) % 2]
    first = make_pipeline(TfidfVectorizer(), LogisticRegression()).fit(texts, labels)
    second = make_pipeline(TfidfVectorizer(), KNeighborsClassifier(3)).fit(texts, np.roll(labels, 3))
    return texts, labels, {"<b>first</b>": first, "second & last": second}


def test_texts_and_names_from_outside_are_escaped():
    texts, labels, teachers = texts_and_teachers()
    with pytest.warns(FindingWarning):
        clf = UnifiedEnsemble(teachers).fit(texts)
    found = merge_report(clf, texts, labels)
    page = Page(found.to_html())
    assert not {"script", "b"} & {tag for tag, _ in page.tags}
    assert all(attrs.get("src", "data:").startswith("data:") for _, attrs in page.tags)
    assert found["rows"][0]["text"] == texts[found["rows"][0]["row"]]
    for shown in (found["rows"][0]["text"], *NASTY[:2], "<b>first</b>"):
        assert shown in page.text


def test_frames_show_their_index_and_their_only_column_of_texts():
    pandas = pytest.importorskip("pandas")
    texts, labels, teachers = texts_and_teachers()
    series = pandas.Series(texts, index=[f"row <{k}>" for k in range(80)])
    with pytest.warns(FindingWarning):
        clf = UnifiedEnsemble(teachers).fit(series)
    row = merge_report(clf, series, pandas.Series(labels, index=series.index))["rows"][0]
    assert row["index"] == f"row <{row['row']}>"
    assert row["text"] == series.iloc[row["row"]]
    assert row["label"] == labels[row["row"]]


def test_the_page_shows_everything_and_folds_what_is_technical(report):
    page = Page(report.to_html())
    assert page.images() == ["Confidence", "Row"]
    for line in (*report["doubts"], *report["trusts"]):
        assert line in page.text
    for one in report["classes"]:
        assert any(cells[0] == str(one["class"]) and cells[1] == ", ".join(one["teachers"]) for cells in page.rows)
    details = [attrs.get("class") for tag, attrs in page.tags if tag == "details"]
    assert "section" in details


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: UnifiedEnsemble(None, class_lists=[[0, 1]]).fit(None, log_p=np.zeros((3, 2))), "fit with teachers"),
        (lambda: KNeighborsClassifier(), "HeterogeneousDistiller"),
    ],
)
def test_what_cannot_be_reported_is_told_with_the_remedy(make, message):
    with pytest.raises((ValueError, TypeError), match=message):
        merge_report(make(), np.zeros((3, 2)))


def test_a_pipeline_is_followed_to_its_end(clf, report):
    pipe = make_pipeline(StandardScaler(with_mean=False, with_std=False).fit(X), clf)
    assert merge_report(pipe, X[1300:], y[1300:]) == report


def test_wrong_rows_and_labels_are_refused(clf):
    with pytest.raises(ValueError, match="n_rows must be"):
        merge_report(clf, X[:3], n_rows=-1)
    with pytest.raises(ValueError, match=r"y has the labels \[11\].*pass None"):
        merge_report(clf, X[:3], [1, 2, 11])
