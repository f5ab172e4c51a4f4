"""Reading result files."""

from __future__ import annotations

import json
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent.parent
RESULTS = DOCS.parent / "benchmarks" / "results"


@lru_cache
def load(name: str) -> Any:
    """Return what a result file holds: docs/NAME, or the lines of benchmarks/results/NAME."""
    if name.endswith(".jsonl"):
        return [json.loads(line) for line in (RESULTS / name).read_text().splitlines()]
    return json.loads((DOCS / name).read_text())


def pick(records: Any, **conditions: Any) -> list[dict[str, Any]]:
    """Return the records of a list, or of a file, that have certain values."""
    records = load(records) if isinstance(records, str) else records
    return [r for r in records if all(r.get(key) == value for key, value in conditions.items())]


def one(records: Any, **conditions: Any) -> dict[str, Any]:
    """Return the only record with certain values."""
    found = pick(records, **conditions)
    if len(found) != 1:
        raise ValueError(f"{len(found)} records with {conditions}, one is wanted.")
    return found[0]


def mean(records: list[dict[str, Any]], key: str) -> float:
    """Return the mean of a key over records that have it."""
    values = [r[key] for r in records if r.get(key) is not None]
    return sum(values) / len(values)


def short(value: float, digits: int = 3) -> str:
    """Return a figure without the zero before its point."""
    return f"{value:.{digits}f}".replace("0.", ".", 1) if abs(value) < 1 else f"{value:.{digits}f}"


def printed(page: str, code: str) -> str:
    """Return what the code on a page prints, which doctest has compared: the line after the one that ends with `code`."""
    lines = (DOCS / page).read_text().splitlines()
    after = [below for line, below in pairwise(lines) if line.startswith(">>> ") and code in line]
    if len(after) != 1:
        raise ValueError(f"{page}: {len(after)} lines of code with {code!r}, one is wanted.")
    return after[0]
