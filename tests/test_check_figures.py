"""Every measured figure in the pages has a source, and the checker finds those without one."""

import re

import pytest

from docs import check_figures, claims, fill_figures
from docs.claims.allowed import ALLOWED, NOT_YET


@pytest.mark.parametrize("page", check_figures.pages(), ids=lambda p: p.name)
def test_measured_figures_have_a_source(page):
    found = check_figures.unsourced(page.read_text(), page)
    if page.name in NOT_YET:
        assert found, f"take {page.name} out of NOT_YET"
    else:
        assert not found, "fill them in from a result file, or give the reason in docs/claims/allowed.py"


def test_reasons_are_given_and_needed():
    texts = {page.name: page.read_text() for page in check_figures.pages()}
    for name, words, reason in ALLOWED:
        assert len(reason) > 5
        where = texts.values() if name == "*" else [texts[name]]
        assert any(re.search(words, text) for text in where), f"{words!r} is nowhere on {name}"


@pytest.mark.parametrize(
    ("sentence", "figure"),
    [
        ("The merge reaches .89 of it.", ".89"),
        ("It is 0.874 right.", "0.874"),
        ("About 46 % are right.", "46"),
        ("CE is 3.2 times as fast.", "3.2"),
        ("It took 34 times\nas long.", "34"),
        ("Balance gains 2 to 4 points.", "2"),
        ("It takes 11 s and 20 MiB.", "11"),
        ("| CE | 22 µs |", "22"),
        ("Better for 15 of 17 students.", "15"),
        ("**+1.5 ± .4**", "+1.5"),
    ],
)
def test_a_figure_without_a_source_is_found(tmp_path, sentence, figure):
    found = check_figures.unsourced(f"# A page\n\n{sentence}\n", tmp_path / "new.md")
    assert found[0] == (3, figure)


def test_code_links_versions_and_filled_regions_are_no_figures(tmp_path):
    text = "```python\n>>> 0.89\n0.89\n```\nSee [it](x-0.5.md), `0.25`, Python 3.12, T = 1.5 and $x^{0.5}$.\n"
    text += "<!-- figure: r.json; ; a:.2f -->0.75<!-- end -->\n"
    assert check_figures.unsourced(text, tmp_path / "new.md") == []


def test_a_wrong_figure_is_seen():
    said = [("gains {:.1f} to {:z.2f} points", 1.25, 0.5)]
    right = "It gains 1.2 to .50 points."
    assert claims.filled(right, said) == right
    assert claims.filled("It gains\n9.9 to .51 points.", said) == "It gains\n1.2 to .50 points."
    with pytest.raises(ValueError, match="nowhere on the page"):
        claims.filled("It loses 1.2 points.", said)


def test_a_wrong_figure_on_a_real_page_is_seen():
    page = fill_figures.FOLDER / "comparison.md"
    text = page.read_text()
    wrong = re.sub(r"\| 0\.\d\d\d \|", "| 0.123 |", text, count=1)
    assert wrong != text
    assert fill_figures.filled(wrong, page) == text
