"""Result files with one JSON record per line, so that an interrupted run resumes where it stopped."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"


def read(file: Path) -> list[dict[str, Any]]:
    """Return the records of a file, or none if it does not exist."""
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def write(file: Path, rows: list[dict[str, Any]]) -> None:
    """Write a summary, and print it."""
    file.write_text(json.dumps(rows, indent=1) + "\n")
    print(*rows, sep="\n")


def measure_once(file: Path, keys: dict[str, Any], measure: Callable[..., list[dict[str, Any]]], *args: Any) -> None:
    """Append what `measure(*args)` returns, each record with `keys`, unless the file has records with these keys."""
    if any(all(record.get(k) == v for k, v in keys.items()) for record in read(file)):
        return
    records = [{**keys, **record} for record in measure(*args)]
    with file.open("a") as out:
        out.writelines(json.dumps(record) + "\n" for record in records)
    print(keys, "done", flush=True)
