"""The HTML page of the report: complete, escaped, self-contained, with its plots."""

import re
import subprocess
import sys
from html.parser import HTMLParser

import numpy as np
import pytest

from sklearn_uhc import LabelSpace
from sklearn_uhc.inspection import teacher_report
from tests.helpers import random_lists, random_outputs
from tests.memberships import Fixed

VOID = {"meta", "img", "br"}
NASTY = ["<script>alert(1)</script>", "a & b", '"quoted\' "', "$\\frac{$", "tab\there", "nul\0, half \ud800"]


class Page(HTMLParser):
    """Checks that tags are balanced and collects text, tags and tables."""

    def __init__(self, html):
        super().__init__(convert_charrefs=True)
        self.open, self.tags, self.text, self.rows = [], [], "", []
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if "style" in self.open:
            return
        self.text += data
        if {"td", "th"} & set(self.open):
            self.rows[-1][-1] += data

    def images(self):
        return [attrs["alt"] for tag, attrs in self.tags if tag == "img"]


def report_of(lists, n=200, noise=0.7, **params):
    blocks = list(lists.values()) if isinstance(lists, dict) else lists
    log_p = random_outputs(np.random.default_rng(0), blocks, n, 2.0, noise)
    return teacher_report(log_p=log_p, class_lists=lists, **params)


def names(lists):
    return [[f"class {k:02d}" for k in labels] for labels in lists]


def nasty_report():
    lists = [NASTY[:4], NASTY[2:], [NASTY[0], NASTY[5], NASTY[3]]]
    return report_of(dict(zip(["<b>first</b>", "second & last", "third"], lists, strict=True)))


@pytest.fixture(scope="module")
def report():
    return report_of(names(random_lists(np.random.default_rng(1), 8, 5, 4, 6)))


@pytest.fixture(scope="module")
def page(report):
    pytest.importorskip("matplotlib")
    return Page(report.to_html())


def test_page_has_all_tables(report, page):
    for row in report["teachers"]:
        (shown,) = [cells for cells in page.rows if cells[0] == row["name"] and len(cells) == 7]
        assert shown[1].endswith(", ".join(row["classes"]))
        assert shown[-1] == f"{row['agreement']:.2f}"
    for pair in report["pairs"]:
        first, second = f"teacher {pair['first']}", f"teacher {pair['second']}"
        assert [first, second, str(pair["shared"]), f"{pair['agreement']:.2f}"] in page.rows
    for row in report["rows"]:
        shown = next(cells for cells in page.rows if cells[0] == str(row["row"]))
        assert shown[1] == f"{row['says']} ({row['probability']:.2f})"
        assert shown[-1] == f"{row['error']:.2f}"
        assert all(0 < other["probability"] <= 1 for other in row["contradicted_by"])  # answers may be logits


def test_page_has_what_membership_scorers_say(page):
    scorers = [Fixed(np.full(200, 0.2)), Fixed(np.repeat([0.9, 0.3], [50, 150])), None]
    lists = [["a", "b"], ["b", "c"], ["a", "c"]]
    shown = Page(report_of(lists, X=np.zeros((200, 1)), membership=scorers).to_html())
    head = next(cells for cells in shown.rows if "coverage" in cells)
    cells = [[row[head.index("accepts")] for row in shown.rows if len(row) == len(head)]]
    assert cells == [["accepts", "0 %", "25 %", "-"]]
    assert "its membership scorer gives more than one half" in shown.text
    foreign = report_of(lists[:2], X=np.zeros((200, 1)), membership=scorers[:2]).to_html()
    assert "take 75% of them" in foreign
    assert "membership" not in page.text  # nothing about scorers if there are none


def test_page_has_the_plots(page):
    assert page.images() == ["ClassOverlap", "TeacherAgreement", "SoftLabel"]


def test_page_leaves_no_figure_behind(report):
    plt = pytest.importorskip("matplotlib.pyplot")
    report.to_html()
    assert plt.get_fignums() == []
    assert not hasattr(report.displays["overlap"], "figure_")


def test_page_needs_nothing_else(report):
    html = report.to_html()
    assert html.startswith("<!DOCTYPE html>")
    assert not re.search(r"https?:|//\w|<script|<link|@import|url\(", re.sub(r"base64,[^\"]*", "", html))
    for tag, attrs in Page(html).tags:
        assert not any(name.startswith("on") or name == "href" for name in attrs), tag
        assert "src" not in attrs or attrs["src"].startswith("data:image/png;base64,")


def test_style_stays_in_its_box(report):
    css = re.search(r"<style>(.*?)</style>", report._repr_html_(), flags=re.S).group(1)
    for selector in re.findall(r"([^{}]+)\{", re.sub(r"@media[^{]*\{", "", css)):
        assert all(part.strip().startswith(".uhc-report") for part in selector.split(",")), selector


def test_notebooks_show_the_same_without_a_page_around(report):
    html = report._repr_html_()
    assert "<html" not in html
    assert html in report.to_html()
    Page(html)


def test_saves_the_page(report, tmp_path):
    assert report.to_html(tmp_path / "report.html") is None
    assert (tmp_path / "report.html").read_text(encoding="utf-8") == report.to_html()


def test_names_are_escaped(tmp_path):
    report = nasty_report()
    html = report.to_html()
    page = Page(html)
    assert not {"script", "b"} & {tag for tag, _ in page.tags}
    for name in ("<script>alert(1)</script>", "a & b", '"quoted\' "', "$\\frac{$", "'tab\\there'", "<b>first</b>"):
        assert name in page.text
    assert "\0" not in html
    report.to_html(tmp_path / "report.html")
    assert "alert" in str(report)


def test_warnings_are_on_the_page():
    lists = [["a", "b", "c"], ["b", "c", "d"], ["<x>", "y"]]
    Z = random_outputs(np.random.default_rng(0), lists, 100)
    Z[:4] = np.nan
    report = teacher_report(log_p=Z, class_lists=lists)
    page = Page(report.to_html())
    assert len(report["warnings"]) >= 3
    assert all(line in page.text for line in report["warnings"])
    assert "No problems found" not in page.text
    assert sum(tag == "li" for tag, _ in page.tags) == len(report["warnings"])


def test_no_warning_is_said_too(report, page):
    assert report["warnings"] == []
    assert "No problems found" in page.text
    assert not any(attrs.get("class") in ("warnings", "marked") for _, attrs in page.tags)


def test_the_noisy_teacher_is_marked():
    rng = np.random.default_rng(0)
    lists = random_lists(rng, 8, 6, 4, 6)
    Z = random_outputs(rng, lists, 500, spread=2.0, noise=0.7)
    block = LabelSpace(lists).blocks[4]
    Z[:, block] = 10 * rng.normal(size=Z[:, block].shape)
    html = teacher_report(log_p=Z, class_lists=lists).to_html()
    assert re.findall(r'<tr class="marked"><td[^>]*>([^<]*)<', html) == ["teacher 4"]


@pytest.mark.parametrize(
    ("lists", "plots"),
    [
        ([["a", "b", "c"]], ["ClassOverlap", "SoftLabel"]),
        ([["a", "b"], ["c", "d"]], ["ClassOverlap", "SoftLabel"]),
        (
            names(random_lists(np.random.default_rng(2), 50, 20, 8, 25)),
            ["ClassOverlap", "TeacherAgreement", "SoftLabel"],
        ),
    ],
    ids=["one teacher", "disconnected", "fifty classes"],
)
def test_page_of_any_lists(lists, plots):
    pytest.importorskip("matplotlib")
    page = Page(report_of(lists).to_html())
    assert page.images() == plots
    for label in LabelSpace(lists).classes:
        assert label in page.text


def test_page_without_any_answer():
    page = Page(teacher_report(log_p=np.full((4, 5), np.nan), class_lists=[["a", "b"], ["b", "c", "d"]]).to_html())
    assert "no teacher answers for any row" in page.text
    assert "nan" not in page.text.lower()


def test_too_many_classes_are_not_drawn():
    page = Page(report_of([list(range(150)), list(range(100, 250))], n=50).to_html())
    assert page.images() == ["TeacherAgreement"]
    assert "more than 200 classes" in page.text


def test_page_without_matplotlib():
    code = """
import sys
class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name == "matplotlib":
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Hidden())
import numpy as np
from sklearn_uhc.inspection import teacher_report
Z = np.random.default_rng(0).normal(size=(50, 6))
print(teacher_report(log_p=Z, class_lists=[["a", "b", "c"]] * 2).to_html())
"""
    html = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    page = Page(html)
    assert page.images() == []
    assert "pip install 'sklearn-uhc[plots]'" in page.text
    assert "teacher 1" in page.text
