"""Figures of the pages are those of the result files."""

import json
from pathlib import Path

import pytest

from docs import fill_figures

DOCS = Path(__file__).parent.parent / "docs"


@pytest.mark.parametrize("page", [DOCS.parent / "README.md", *sorted(DOCS.glob("*.md"))], ids=lambda p: p.name)
def test_pages_have_the_figures_of_their_files(page):
    text = page.read_text()
    assert text.count("<!-- figure: ") == len(fill_figures.REGION.findall(text))
    assert fill_figures.filled(text, page) == text, "run python docs/fill_figures.py"


@pytest.fixture
def page(tmp_path):
    records = [{"name": "a, b", "T": 1.0, "soft": {"s": 3.0}, "hard": {"s": 2.0}}, {"name": "c", "T": 1.0, "soft": {}}]
    (tmp_path / "r.json").write_text(json.dumps(records))
    return tmp_path / "page.md"


def test_numbers_within_a_line(page):
    text = "It took <!-- figure: r.json; name=a, b & T=1.0; soft.s / hard.s:.1f -->9<!-- end --> times."
    assert fill_figures.filled(text, page) == text.replace("9", "1.5")
    with pytest.raises(ValueError, match="2 records"):
        fill_figures.filled(text.replace("name=a, b & ", ""), page)


def test_tables(page):
    text = "<!-- figure: r.json; T=1.0; student = name | time = soft.s / hard.s:.2f -->\nold\n<!-- end -->"
    lines = fill_figures.filled(text, page).splitlines()[1:-1]
    assert lines == ["| student | time |", "| --- | --- |", "| a, b | 1.50 |", "| c | - |"]
    assert fill_figures.filled("\n".join(["no marks"] * 2), page) == "no marks\nno marks"
