"""Tables, and figures in marks, are those of the result files; nothing else on the pages is compared."""

import json
import re

import pytest

from docs import fill_figures, tables


@pytest.mark.parametrize("page", fill_figures.pages(), ids=lambda p: p.name)
def test_tables_are_those_of_their_files(page):
    text = page.read_text()
    assert text.count("<!-- figure: ") == len(fill_figures.REGION.findall(text)), "a mark is not at the end of its line"
    assert not re.search(r"^ *<!-- value: ", text, flags=re.M), "a mark at the start of a line ends the paragraph"
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


@pytest.mark.parametrize("page", ["README.md", "for_me.md", "languages.md", "intents.md"])
def test_a_wrong_figure_in_a_sentence_is_seen(page):
    text = next(p for p in fill_figures.pages() if p.name == page).read_text()
    assert text.count("<!-- value: ") == len(fill_figures.VALUE.findall(text)) > 0
    assert not re.search(r"^ *<!-- value: ", text, flags=re.M), "a mark that begins a line ends the paragraph"
    for found in fill_figures.VALUE.finditer(text):
        wrong = text[: found.start(3)] + "12345" + text[found.end(3) :]
        assert fill_figures.filled(wrong) == text


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


@pytest.mark.parametrize(
    ("spec", "shown"),
    [("r.jsonl; name=c; s.soft:.1%", "100.0%"), ("r.json/part; name=a* & T=3; s.soft / s.hard:.0f", "3")],
)
def test_a_figure_in_a_sentence_is_filled_and_rewording_is_free(results, spec, shown):
    for words in ("It is {}.", "Measured: {}, as we had hoped."):
        text = words.format(f"<!-- value: {spec} -->?<!-- end -->")
        assert fill_figures.filled(text) == text.replace("?", shown)


def test_a_figure_of_several_records_is_an_error(results):
    with pytest.raises(ValueError, match="3 records with '', not one"):
        fill_figures.filled("<!-- value: r.jsonl; ; T: -->?<!-- end -->")
