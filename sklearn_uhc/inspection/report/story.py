"""A report as data, the verdict first, and its text for a terminal. `page` draws the same as HTML."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from textwrap import fill
from typing import Any

#: Longer names are cut, in the text report only.
LONGEST_CELL = 36
#: Line width of the text report.
TEXT_WIDTH = 100
#: Titles of what is wrong, and of what is right.
DOUBT, TRUST = "Check these first", "What looks right"


@dataclass(frozen=True)
class Table:
    """A table of strings; cells that are lists may be shortened when shown."""

    head: tuple[str, ...]
    rows: list[list[Any]]
    n_text: int  #: number of text columns on the left; the others are numbers
    marked: set[int] = field(default_factory=set)  #: rows with a problem
    meaning: Mapping[str, str] = field(default_factory=dict)  #: what the columns mean


@dataclass(frozen=True)
class Section:
    """A part of a report. Plots and notes are on the page only."""

    title: str
    note: str = ""
    lines: Sequence[str] = ()  #: sentences
    table: Table | None = None
    plot: str | None = None  #: name of a display
    folded: bool = False  #: technical: closed until the reader opens it


@dataclass(frozen=True)
class Story:
    """All that a report says."""

    title: str
    lead: str
    doubts: Sequence[str]
    trusts: Sequence[str]
    sections: Sequence[Section]


def as_text(story: Story) -> str:
    """Return a report as text for a terminal."""
    parts = [f"{story.title}\n{fill(story.lead, TEXT_WIDTH)}"]
    for title, mark, lines in ((DOUBT, "! ", story.doubts), (TRUST, "+ ", story.trusts)):
        if lines:
            filled = [fill(on_one_line(x), TEXT_WIDTH, initial_indent=mark, subsequent_indent="  ") for x in lines]
            parts.append("\n".join([title, *filled]))
    for section in story.sections:
        shown = [fill(on_one_line(line), TEXT_WIDTH, subsequent_indent="  ") for line in section.lines]
        shown += [_draw(section.table)] if section.table and section.table.rows else []
        if shown or not section.plot:
            parts.append("\n".join([section.title, *(shown or ["none"])]))
    return "\n\n".join(parts)


def _draw(table: Table) -> str:
    """Return a table as text; columns of lists are left out, they are on the page."""
    keep = [k for k, cell in enumerate(table.rows[0]) if not isinstance(cell, list)]
    lines = [[_cut(line[k]) for k in keep] for line in ([*table.head], *table.rows)]
    widths = [max(len(line[k]) for line in lines) for k in range(len(keep))]
    n_text = sum(k < table.n_text for k in keep)
    text = [
        "  ".join(
            cell.ljust(w) if k < n_text else cell.rjust(w) for k, (cell, w) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    ]
    return "\n".join([text[0], "  ".join("-" * w for w in widths), *text[1:]])


def _cut(cell: str) -> str:
    """Return a cell on one line of limited length."""
    cell = on_one_line(cell)
    return cell if len(cell) <= LONGEST_CELL else cell[: LONGEST_CELL - 1] + "…"


def on_one_line(text: str) -> str:
    """Replace line breaks and tabs by spaces."""
    return re.sub(r"[^\S ]+", " ", text)


def number(value: float | None) -> str:
    """Write a number with two digits, or three if it is small."""
    if value is None:
        return "-"
    return f"{value:.3f}" if 0.0005 <= value < 0.005 else f"{value:.2f}"


def percent(value: float | None) -> str:
    """Round to whole percent; 100 % and 0 % are shown only if exact."""
    if value is None:
        return "-"
    whole = round(100 * value)
    if whole in (0, 100) and value not in (0, 1):
        return "under 1 %" if whole == 0 else "over 99 %"
    return f"{whole} %"


def count(n: int, what: str) -> str:
    """Write how many of something there are."""
    return f"{n:,} {what}" + ("" if n == 1 else "s")
