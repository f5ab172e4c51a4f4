"""A report as one self-contained HTML page: no network, no scripts, no other files."""

from __future__ import annotations

import base64
import copy
import io
from collections.abc import Sequence
from datetime import date
from html import escape
from typing import Any

from sklearn_uhc.inspection.plots._drawing import printable
from sklearn_uhc.inspection.report.story import DOUBT, TRUST, Section, Story, Table
from sklearn_uhc.spaces.label_space import spelled
from sklearn_uhc.utils.versioned import current_version

#: Maximum number of teachers or classes in a plot.
MOST_DRAWN = 200
#: Longer cells, in characters, are wrapped, and longer lists of classes are folded.
LONGEST_LINE = 32
#: Resolution of the image files, and of the images on the page.
FILE_DPI, PAGE_DPI = 160, 88

#: The style of the page: for browsers, phones, light and dark mode, notebooks and print.
CSS = """
.uhc-report { --ink: #1a1a1a; --paper: #fff; --line: #ddd; --odd: #f6f8fa; --warn: #b35900; --warn-paper: #fff6e9;
  --fine: #3a7d44; --fine-paper: #eef7ef; box-sizing: border-box; max-width: 76rem; margin: 0 auto; padding: 1.5rem;
  color: var(--ink); background: var(--paper); color-scheme: light dark;
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Liberation Sans", sans-serif; }
@media (prefers-color-scheme: dark) {
  .uhc-report { --ink: #e6e6e6; --paper: #16191d; --line: #3a3f46; --odd: #1d2126; --warn: #ffb25c;
    --warn-paper: #33260f; --fine: #7cc98a; --fine-paper: #15291a; }
}
.uhc-report h1 { font-size: 1.7rem; line-height: 1.2; margin: 0 0 .8rem; color: inherit; }
.uhc-report h2 { font-size: 1.25rem; margin: 2.2rem 0 .6rem; padding-top: .6rem; border-top: 1px solid var(--line);
  color: inherit; }
.uhc-report h3 { font-size: 1rem; margin: 1.2rem 0 .4rem; color: inherit; }
.uhc-report p, .uhc-report dl, .uhc-report .warnings, .uhc-report .fine { max-width: 50rem; overflow-wrap: anywhere; }
.uhc-report p { margin: .6rem 0; }
.uhc-report .warnings { border: 1px solid var(--warn); border-left-width: .5rem; background: var(--warn-paper);
  padding: .7rem 1rem; margin: 1rem 0; }
.uhc-report ul { margin: .4rem 0 0; padding-left: 1.2rem; }
.uhc-report li { margin: .3rem 0; }
.uhc-report .fine { border: 1px solid var(--fine); border-left-width: .5rem; background: var(--fine-paper);
  padding: .7rem 1rem; margin: 1rem 0; }
.uhc-report .box { overflow-x: auto; margin: .6rem 0; }
.uhc-report table { border-collapse: collapse; font-size: .85rem; margin: 0; color: inherit; background: var(--paper); }
.uhc-report tbody tr { background: var(--paper); color: inherit; }
.uhc-report tbody tr:nth-child(odd) { background: var(--odd); }
.uhc-report th, .uhc-report td { padding: .35rem .55rem; text-align: left; vertical-align: top; max-width: 16rem;
  overflow-wrap: anywhere; background: inherit; color: inherit; border: 0; border-bottom: 1px solid var(--line); }
.uhc-report .short { white-space: nowrap; }
.uhc-report td.long { min-width: 12rem; }
.uhc-report th { border-bottom: 2px solid var(--ink); white-space: nowrap; }
.uhc-report .number { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums; }
.uhc-report tbody tr.marked { background: var(--warn-paper); font-weight: 600; }
.uhc-report tr.marked td:first-child { box-shadow: inset .3rem 0 var(--warn); }
.uhc-report img { display: block; max-width: 100%; height: auto; background: #fff; }
.uhc-report details { margin: 0; }
.uhc-report summary { cursor: pointer; }
.uhc-report .section { margin: 1.2rem 0; padding-top: .6rem; border-top: 1px solid var(--line); }
.uhc-report .section > summary { font-weight: 600; }
.uhc-report dt { font-weight: 600; }
.uhc-report dd { margin: 0 0 .4rem 1.2rem; }
.uhc-report footer { margin-top: 2.2rem; padding-top: .6rem; border-top: 1px solid var(--line); font-size: .85rem; }
@media (max-width: 40rem) { .uhc-report { padding: 1rem; } }
@media print {
  .uhc-report { max-width: none; padding: 0; font-size: 10pt; print-color-adjust: exact; }
  .uhc-report .box { overflow: visible; }
  .uhc-report table { font-size: 8pt; }
  .uhc-report th, .uhc-report td { padding: .2rem .35rem; }
  .uhc-report th, .uhc-report .short { white-space: normal; }
  .uhc-report td.long { min-width: 0; }
  .uhc-report tr, .uhc-report img, .uhc-report .warnings { break-inside: avoid; }
  .uhc-report h2, .uhc-report h3 { break-after: avoid; }
}
"""


#: The style of the page around the report.
BODY_CSS = "body { margin: 0; background: #fff; } @media (prefers-color-scheme: dark) { body { background: #16191d; } }"


def page(story: Story, displays: dict[str, Any]) -> str:
    """Return the complete page."""
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{_text(story.title)}</title>\n<style>{BODY_CSS}</style>\n</head>\n"
        f"<body>\n{fragment(story, displays)}\n</body>\n</html>\n"
    )


def fragment(story: Story, displays: dict[str, Any]) -> str:
    """Return the report for a notebook; its style applies only inside its own box."""
    parts = [
        f"<h1>{_text(story.title)}</h1>",
        f"<p>{_text(story.lead)}</p>",
        _box("warnings", DOUBT, story.doubts),
        _box("fine", TRUST, story.trusts),
        *(_section(section, displays) for section in story.sections),
        f"<footer>sklearn-uhc {current_version()}, {date.today().isoformat()}</footer>",
    ]
    return f'<style>{CSS}</style>\n<div class="uhc-report">\n' + "\n".join(filter(None, parts)) + "\n</div>"


def _box(kind: str, title: str, lines: Sequence[str]) -> str:
    """Return a coloured box of sentences, empty if there are none."""
    items = "".join(f"<li>{_text(line)}</li>" for line in lines)
    return f'<div class="{kind}"><strong>{title}</strong><ul>{items}</ul></div>' if items else ""


def _section(section: Section, displays: dict[str, Any]) -> str:
    """Return a section; a technical one is folded."""
    parts = [f"<p>{_text(line)}</p>" for line in ([section.note] if section.note else []) + list(section.lines)]
    parts += [_plot(displays[section.plot])] if section.plot else []
    parts += [_table(section.table), _glossary(section.table)] if section.table else []
    title, content = _text(section.title), "\n".join(filter(None, parts))
    if section.folded:
        return f'<details class="section"><summary>{title}</summary>{content}</details>'
    return f"<h2>{title}</h2>\n{content}"


def _glossary(table: Table) -> str:
    items = "".join(f"<dt>{name}</dt><dd>{meaning}</dd>" for name, meaning in table.meaning.items())
    return f"<details><summary>What the columns mean</summary><dl>{items}</dl></details>" if items else ""


def _table(table: Table) -> str:
    """Return a table in a box that scrolls if the table is too wide."""
    kind = [f'<{{0}} class="{_kind(table, k)}">' for k in range(len(table.head))]
    head = "".join(f"{tag.format('th')}{name}</th>" for tag, name in zip(kind, table.head, strict=True))
    body = "".join(
        ('<tr class="marked">' if k in table.marked else "<tr>")
        + "".join(f"{tag.format('td')}{_cell(cell)}</td>" for tag, cell in zip(kind, row, strict=True))
        + "</tr>"
        for k, row in enumerate(table.rows)
    )
    return f'<div class="box"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _kind(table: Table, k: int) -> str:
    """Return the style of a column: numbers, text that fits on one line, or longer text."""
    if k >= table.n_text:
        return "number"
    return "short" if all(len(_plain(row[k])) <= LONGEST_LINE for row in table.rows) else "long"


def _plain(cell: Any) -> str:
    return ", ".join(map(spelled, cell)) if isinstance(cell, list) else str(cell)


def _cell(cell: Any) -> str:
    """Escape a cell; a long list is folded."""
    text = _plain(cell)
    if not isinstance(cell, list) or len(text) <= LONGEST_LINE:
        return _text(text)
    few = text[:LONGEST_LINE].rpartition(", ")[0] or text[:LONGEST_LINE]
    return f"<details><summary>{_text(few)}, …</summary>{_text(text)}</details>"


def _text(text: str) -> str:
    """Escape text from outside."""
    return escape(printable(text))


def _plot(display: Any) -> str:
    """Return a plot as an image, or a paragraph that says why there is none."""
    if max(len(getattr(display, "classes", ())), len(getattr(display, "teacher_names", ()))) > MOST_DRAWN:
        return f"<p>Not drawn: plots of more than {MOST_DRAWN} classes or teachers cannot be read.</p>"
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        return "<p>The plot needs matplotlib: <code>pip install 'sklearn-uhc[plots]'</code>.</p>"
    figure = copy.copy(display).plot().figure_  # a copy, so that the report does not keep the figure
    file = io.BytesIO()
    width = round(float(figure.get_figwidth()) * PAGE_DPI)
    figure.savefig(file, format="png", dpi=FILE_DPI)
    plt.close(figure)
    data = base64.b64encode(file.getvalue()).decode()
    what = type(display).__name__.removesuffix("Display")
    return f'<img alt="{what}" style="width:{width}px" src="data:image/png;base64,{data}">'
