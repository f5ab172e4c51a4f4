"""Figures of README and all tables are those of the result files; nothing else on the pages is compared."""

import ast
import json
import re
from itertools import pairwise
from pathlib import Path

import pytest

from docs import fill_figures, tables

README = (Path(__file__).parent.parent / "README.md").read_text()


@pytest.mark.parametrize("page", fill_figures.pages(), ids=lambda p: p.name)
def test_tables_are_those_of_their_files(page):
    text = page.read_text()
    assert text.count("<!-- figure: ") == len(fill_figures.REGION.findall(text)), "a mark is not at the end of its line"
    assert fill_figures.filled(text) == text, "run python docs/fill_figures.py"


@pytest.mark.parametrize("page", fill_figures.pages(), ids=lambda p: p.name)
def test_a_wrong_figure_in_a_table_is_seen_and_another_sentence_is_not(page):
    text = page.read_text()
    for region, *_ in fill_figures.REGION.findall(text):
        start = text.index(region) + len(region)
        spot = next(found for found in re.finditer(r"\d", text[start:]))
        at = start + spot.start()
        wrong = f"{text[:at]}{(int(spot[0]) + 1) % 10}{text[at + 1 :]}"
        assert fill_figures.filled(wrong) == text
    assert fill_figures.filled(f"{text}\nAnother sentence.") == f"{text}\nAnother sentence."


def printed(code):
    """What the code of README prints, which doctest compares: the line after the only one with `code`."""
    (found,) = [after for line, after in pairwise(README.splitlines()) if line.startswith(">>> ") and code in line]
    return ast.literal_eval(found)


def above_the_best_alternative():
    """The least and the most, over settings, that the merge's student is above the best other approach, in points."""
    (lead,) = [r for r in tables.load("comparison.json") if (r["kind"], r["balance"]) == ("lead, student", "better")]
    points = [cell["points"] for cell in lead.values() if isinstance(cell, dict)]
    return min(points), max(points)


def readme_says():
    """Sentences of README with the figures that they must have."""
    alone, merged = printed("teacher.score(X_test, y_test)"), printed("round(clf.score(X_test, y_test), 2)")
    (surest, average), pooled = printed("for labels in rivals"), printed("KNeighborsClassifier().fit(X[pooled]")
    first = tables.load("first_example.json")
    drawn = {r["way"]: f"{100 * r['mean']:.1f} %" for r in first}
    settings = ("digits, mixed, 6 of 3-5", "texts, mixed, 10 of 4-8")
    pairs = [tables.calibrated(name, "ce", measure) for measure in (0, 1) for name in settings]
    gains = [100 * (after - before) for before, after in pairs]
    below, above = above_the_best_alternative()
    return [
        f"{-below:.1f} points below and {above:.1f} points above the best of eight alternatives",
        f"at most {100 * max(alone):.0f} % of all digits right",
        f"{100 * surest:.0f} % (trust the most confident site) and {100 * average:.0f} % (average",
        f"merged classifier gets {100 * merged:.0f} % right",
        f"would give {100 * pooled:.0f} %",
        f"most confident site gives {drawn['student of the most confident site']}",
        f"the average {drawn['student of the average of those who know']}, the merge {drawn['merged']}",
        f"all images in one place {drawn['all data in one place']} ({first[0]['splits']} draws",
        "make {:.0f} points more labels right on digits and {:.0f} on texts".format(*gains[:2]),
        "(k-NN {:.1f} and {:.1f})".format(*gains[2:]),
    ]


def unsaid(text):
    words = " ".join(text.split())
    return [sentence for sentence in readme_says() if sentence not in words]


def test_figures_of_readme():
    assert unsaid(README) == []


def test_a_wrong_figure_in_readme_is_seen():
    words = " ".join(README.split())
    for said in readme_says():
        for figure in re.findall(r"\d+(?:\.\d+)?", said):
            assert unsaid(words.replace(said, said.replace(figure, "12345"))) == [said]


@pytest.fixture
def results(tmp_path, monkeypatch):
    records = [
        {"name": "a, b", "T": 1, "s": {"soft": 3.0, "hard": 2.0}},
        {"name": "a, b", "T": 3, "s": {"soft": 6.0, "hard": 2.0}},
        {"name": "c", "T": 1, "s": {"soft": 1.0}},
    ]
    monkeypatch.setattr(tables, "RESULTS", tmp_path)
    (tmp_path / "r.json").write_text(json.dumps({"part": records}))
    (tmp_path / "r.jsonl").write_text("".join(json.dumps(r) + "\n" for r in records))
    tables.load.cache_clear()
    yield
    tables.load.cache_clear()


@pytest.mark.parametrize("file", ["r.json/part", "r.jsonl"])
@pytest.mark.parametrize(
    ("where", "what", "lines"),
    [
        ("T=1", "student = name | time = s.soft / s.hard:.2f", ["| a, b | 1.50 |", "| c | - |"]),
        ("name=a* & T=3", "T = T | soft = s.soft:.0f", ["| 3 | 6 |"]),
        ("", "student = name | soft = mean s.soft:.1f", ["| a, b | 4.5 |", "| c | 1.0 |"]),
        ("", "student = name | at 3 = mean s.soft[T=3]:.1f", ["| a, b | 6.0 |", "| c | - |"]),
    ],
)
def test_records_become_tables(results, file, where, what, lines):
    text = f"above\n\n<!-- figure: {file}; {where}; {what} -->\nold\n<!-- end -->\n"
    head, *rows = fill_figures.filled(text).splitlines()[3:-1]
    assert head == f"| {' | '.join(part.split(' = ')[0] for part in what.split(' | '))} |"
    assert rows == ["| --- | --- |", *lines]


def test_a_table_without_records_is_an_error(results):
    with pytest.raises(ValueError, match="no record with 'T=2'"):
        fill_figures.filled("<!-- figure: r.jsonl; T=2; T = T -->\n<!-- end -->")
