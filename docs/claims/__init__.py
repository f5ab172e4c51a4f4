"""Where the figures of the pages come from.

A module is named after its page and may define

`tables()`     name: rows of cells, the first the heading; the page says where with `<!-- figure: NAME -->`
`sentences()`  (words with `{:format}` for every figure, figures): these words must stand on the page

`docs/fill_figures.py` writes the figures of both into the page, `docs/check_figures.py` finds figures without a source.
"""

from __future__ import annotations

import importlib
import re
import string
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

Rows = list[list[str]]
Sentence = tuple[Any, ...]
NUMBER = r"[-+]?(?:\d+(?:,\d\d\d)*(?:\.\d+)?|\.\d+)(?:e[-+]?\d+)?"


class Figures(string.Formatter):
    """Format figures; `z` before a format takes away the zero before the point: .75 for `{:z.2f}`."""

    def format_field(self, value: Any, spec: str) -> str:
        """Return one figure."""
        if not spec.startswith("z"):
            return format(value, spec)
        return re.sub(r"^([-+]?)0\.", r"\1.", format(value, spec[1:]))


def module_of(page: Path) -> ModuleType | None:
    """Return the module with the claims of a page, None if it has none."""
    name = page.stem.lower()
    if not (Path(__file__).parent / f"{name}.py").exists():
        return None
    return importlib.import_module(f"docs.claims.{name}")


def table(page: Path, name: str) -> str:
    """Return a table of a page as Markdown."""
    module = module_of(page)
    tables = module.tables() if module else {}
    if name not in tables:
        raise ValueError(
            f"{page.name}: docs/claims/{page.stem.lower()}.py has no table {name!r}, only {sorted(tables)}."
        )
    heading, *rows = tables[name]
    lines = [heading, ["---"] * len(heading), *rows]
    return "\n" + "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def sentences(page: Path) -> list[Sentence]:
    """Return the claims of a page."""
    module = module_of(page)
    return list(module.sentences()) if hasattr(module, "sentences") else []


def parts(words: str) -> Iterator[tuple[str, str | None]]:
    """Yield the literal parts of a template, each with the format of the figure after it."""
    for literal, field, spec, _ in string.Formatter().parse(words):
        yield literal, None if field is None else (spec or "")


def pattern(words: str) -> re.Pattern[str]:
    """Return what finds a template on a page, whatever its figures and line breaks."""
    out = ""
    for literal, spec in parts(words):
        out += "".join(r"\s+" if piece.isspace() else re.escape(piece) for piece in re.split(r"(\s+)", literal))
        out += f"({NUMBER})" if spec is not None else ""
    return re.compile(out)


def filled(text: str, claims: list[Sentence], page: str = "") -> str:
    """Return the text with the figures of all claims; one whose words are not there is an error."""
    for words, *values in claims:
        found = pattern(words)
        if not found.search(text):
            raise ValueError(f"{page}: nowhere on the page: {words!r}. Change docs/claims with the words of the page.")
        figures = [Figures().format_field(v, s) for v, s in zip(values, specs(words), strict=True)]
        text = found.sub(lambda match, figures=figures: put(match, figures), text)  # type: ignore[misc]
    return text


def specs(words: str) -> list[str]:
    """Return the formats of the figures of a template."""
    return [spec for _, spec in parts(words) if spec is not None]


def put(match: re.Match[str], figures: list[str]) -> str:
    """Return what was matched with other figures."""
    out, end = "", match.start()
    for k, figure in enumerate(figures, 1):
        out += match.string[end : match.start(k)] + figure
        end = match.end(k)
    return out + match.string[end : match.end()]
