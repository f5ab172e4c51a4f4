"""The report as one self-contained HTML page: no network, no scripts, no other files."""

from __future__ import annotations

import base64
import copy
import io
from collections.abc import Iterable
from datetime import date
from html import escape
from typing import Any

from sklearn_uhc.inspection.plots._drawing import printable
from sklearn_uhc.inspection.report.words import (
    SUGGESTIONS,
    Table,
    has_scorers,
    pair_table,
    row_table,
    suggestion_table,
    summary,
    teacher_table,
)
from sklearn_uhc.spaces.label_space import spelled
from sklearn_uhc.utils.versioned import current_version

TITLE = "Teacher report"
#: Maximum number of teachers or classes in a plot.
MOST_DRAWN = 200
#: Longer cells, in characters, are wrapped, and longer lists of classes are folded.
LONGEST_LINE = 32
#: Resolution of the image files, and of the images on the page.
FILE_DPI, PAGE_DPI = 160, 88

COLUMNS = {
    "n, shared": "number of classes the teacher knows, alone or in sets, and how many of them others know too",
    "coverage": "share of the rows that it answers for",
    "accepts": "share of the rows that its membership scorer gives more than one half; -: has no scorer in use",
    "confidence": "mean of its largest probability",
    "temperature": "its logits are divided by it; above 1 if it is more confident than the others justify; "
    "-: could not be estimated",
    "agreement": "how often it chooses the same class as others among shared classes; -: shares fewer than two",
    "residual": "mean Kullback-Leibler divergence from the merge; 0: it agrees with the merge",
}


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
.uhc-report p, .uhc-report dl, .uhc-report .warnings { max-width: 50rem; overflow-wrap: anywhere; }
.uhc-report p { margin: .6rem 0; }
.uhc-report .warnings { border: 1px solid var(--warn); border-left-width: .5rem; background: var(--warn-paper);
  padding: .7rem 1rem; margin: 1rem 0; }
.uhc-report .warnings ul { margin: .4rem 0 0; padding-left: 1.2rem; }
.uhc-report .warnings li { margin: .3rem 0; }
.uhc-report .fine { border-left: .5rem solid var(--fine); background: var(--fine-paper); padding: .5rem 1rem; }
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


def page(report: dict[str, Any], displays: dict[str, Any]) -> str:
    """Return the complete page."""
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{TITLE}</title>\n<style>{BODY_CSS}</style>\n</head>\n"
        f"<body>\n{fragment(report, displays)}\n</body>\n</html>\n"
    )


def fragment(report: dict[str, Any], displays: dict[str, Any]) -> str:
    """Return the report for a notebook; its style applies only inside its own box."""
    plots = {name: _plot(display) for name, display in displays.items()}
    parts = [
        f"<h1>{TITLE}</h1>",
        f"<p>{_text(' '.join(summary(report)))}</p>",
        _warnings(report["warnings"]),
        "<h2>Teachers</h2>",
        _table(teacher_table(report)),
        _glossary(report),
        "<h2>Which teacher knows which class</h2>",
        plots["overlap"],
        f"<h2>{SUGGESTIONS}</h2>",
        *_suggestions(report),
        "<h2>Agreement between teachers</h2>",
        *_agreement(report, plots["agreement"]),
        "<h2>Soft labels for the student</h2>",
        *_soft_labels(plots.get("soft_labels")),
        "<h2>Rows hardest to reconcile</h2>",
        *_rows(report),
        f"<footer>sklearn-uhc {current_version()}, {date.today().isoformat()}</footer>",
    ]
    return f'<style>{CSS}</style>\n<div class="uhc-report">\n' + "\n".join(parts) + "\n</div>"


def _warnings(lines: Iterable[str]) -> str:
    items = "".join(f"<li>{_text(line)}</li>" for line in lines)
    if not items:
        return '<p class="fine">No problems found.</p>'
    return f'<div class="warnings"><strong>Check these first</strong><ul>{items}</ul></div>'


def _glossary(report: dict[str, Any]) -> str:
    shown = {name: meaning for name, meaning in COLUMNS.items() if name != "accepts" or has_scorers(report)}
    items = "".join(f"<dt>{name}</dt><dd>{meaning}</dd>" for name, meaning in shown.items())
    return f"<details><summary>What the columns mean</summary><dl>{items}</dl></details>"


def _agreement(report: dict[str, Any], plot: str) -> list[str]:
    if not report["pairs"]:
        return ["<p>No two teachers can be compared: none share at least two classes.</p>"]
    text = "How often two teachers choose the same class among those both know. Hatched: fewer than two shared classes."
    return [f"<p>{text}</p>", plot, "<h3>Pairs that disagree most</h3>", _table(pair_table(report))]


def _suggestions(report: dict[str, Any]) -> list[str]:
    note = [f"<p>{_text(report['suggestions_note'])}</p>"] if report["suggestions_note"] else []
    if not report["suggestions"]:
        return ["<p>None: no names are nearly equal, and no answers show that classes are the same.</p>", *note]
    text = (
        "Names that are nearly equal, classes that behave alike on these rows, and classes that others add up to. "
        "Answers can mislead, so check before you accept. Pass what is right to harmonize, as synonyms or a taxonomy."
    )
    return [f"<p>{text}</p>", _table(suggestion_table(report)), *note]


def _soft_labels(plot: str | None) -> list[str]:
    if plot is None:
        return ["<p>None: no teacher answers for any row.</p>"]
    text = (
        "The mean soft label of every class over the rows: how frequent the classes seem to be. A fit uses them so, "
        "unless it is given labels, class_prior or balance=True (then classes have the weights shown)."
    )
    return [f"<p>{text}</p>", plot]


def _rows(report: dict[str, Any]) -> list[str]:
    if not report["rows"]:
        return ["<p>None: the merge does not contradict any teacher.</p>"]
    text = (
        "Rows on which the merge is furthest from the teachers, the worst first, and the teachers that choose another "
        "class. Error: mean divergence from the teachers that answer and are not noise. Probabilities in brackets are "
        "calibrated. Check these rows: teachers may be wrong about them, or they may belong to none of the classes."
    )
    return [f"<p>{text}</p>", _table(row_table(report))]


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
