"""Fill the tables of pages from result files, so that no table differs from what was measured.

    python docs/fill_figures.py [--check]

A table names a file of benchmarks/results, which of its records, and what of them, with a line for each record:

    <!-- figure: FILE; KEY=VALUE & KEY=VALUE; HEADING = KEY:FORMAT | HEADING = KEY / KEY:FORMAT -->
    <!-- end -->

A key within a record within a record is written `outer.inner`, `KEY / KEY` is a ratio, a VALUE may be a pattern
(`*rows`), and a dash stands for what is not there. `mean KEY` is a mean: then there is a line for records that agree
in the other columns, and `mean KEY[KEY=VALUE]` is over some of them. FILE is a list of records or has one per line
(.jsonl); `FILE/NAME` is a list within a file. `<!-- figure: NAME -->` is a table by a function of docs/tables.py.
A figure within a sentence stands between two marks, by the same rules or by a function of docs/tables.py with words:

    <!-- value: FILE; KEY=VALUE & KEY=VALUE; KEY:FORMAT -->87.0%<!-- end -->
    <!-- value: NAME WORD WORD -->7<!-- end -->

`--check` changes nothing and fails if a page would change.
"""

from __future__ import annotations

import re
import sys
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
if str(FOLDER.parent) not in sys.path:  # as a script
    sys.path.insert(0, str(FOLDER.parent))

from docs import tables  # noqa: E402
from docs.tables import Record, load  # noqa: E402

REGION = re.compile(r"(<!-- figure: ([^\n]*?) -->\n)(.*?)(<!-- end -->)", re.DOTALL)
VALUE = re.compile(r"(<!-- value: ([^\n]*?) -->)([^\n]*?)(<!-- end -->)")


def pages() -> list[Path]:
    """Return the pages that may have tables."""
    folders = (FOLDER, FOLDER / "guide", FOLDER / "stories")
    return [FOLDER.parent / "README.md", *(page for folder in folders for page in sorted(folder.glob("*.md")))]


def filled(text: str) -> str:
    """Return the text of a page with all its tables and figures filled."""
    text = REGION.sub(lambda found: found[1] + table(found[2]) + found[4], text)
    return VALUE.sub(lambda found: found[1] + figure(found[2]) + found[4], text)


def figure(spec: str) -> str:
    """Return a figure within a sentence: of the only record that fits, or of a function of docs/tables.py."""
    if ";" not in spec:
        name, *words = spec.split()
        return str(getattr(tables, name)(*words))
    file, where, wanted = (part.strip() for part in spec.split(";"))
    chosen = matching(load(file), where)
    if len(chosen) != 1 and not wanted.startswith("mean "):
        raise ValueError(f"{file}: {len(chosen)} records with {where!r}, not one.")
    return cell(chosen, wanted)


def table(spec: str) -> str:
    """Return a table as Markdown."""
    heading, *rows = from_records(spec) if ";" in spec else getattr(tables, spec.strip())()
    lines = [heading, ["---"] * len(heading), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def from_records(spec: str) -> tables.Rows:
    """Return the rows of a table that is described on its page."""
    file, where, what = (part.strip() for part in spec.split(";", 2))
    chosen = matching(load(file), where)
    if not chosen:
        raise ValueError(f"{file}: no record with {where!r}.")
    headings, wanted = zip(*([s.strip() for s in part.split("=", 1)] for part in what.split("|")), strict=True)
    fixed = [key for key in wanted if not key.startswith("mean ")]
    groups: dict[Any, list[Record]] = {}
    for number, record in enumerate(chosen):
        same = number if len(fixed) == len(wanted) else tuple(cell([record], key) for key in fixed)
        groups.setdefault(same, []).append(record)
    return [list(headings), *([cell(group, key) for key in wanted] for group in groups.values())]


def matching(records: list[Record], where: str) -> list[Record]:
    """Return the records that have the values of `KEY=VALUE & KEY=VALUE`."""
    conditions = [[s.strip() for s in part.split("=", 1)] for part in where.split(" & ") if part]
    return [r for r in records if all(fnmatchcase(str(value(r, key)), wanted) for key, wanted in conditions)]


def cell(records: list[Record], wanted: str) -> str:
    """Return `KEY:FORMAT` or `KEY / KEY:FORMAT` of a record, or `mean KEY:FORMAT` of several."""
    keys, _, form = wanted.removeprefix("mean ").partition(":")
    key, _, where = keys.partition("[")
    if where:
        records, keys = matching(records, where.rstrip("]")), key
    values = [[value(record, key.strip()) for key in keys.split(" / ")] for record in records]
    found = [pair[0] if len(pair) == 1 else pair[0] / pair[1] for pair in values if None not in pair]
    if not found:
        return "-"
    return format(sum(found) / len(found) if wanted.startswith("mean ") else found[0], form)


def value(record: Any, key: str) -> Any:
    """Return what stands under a key, None if nothing does."""
    for part in key.split("."):
        record = record.get(part) if isinstance(record, dict) else None
    return record


def main(check: bool) -> int:
    """Fill all pages; return how many differ, if only to be checked."""
    differ = 0
    for page in pages():
        text = page.read_text()
        new = filled(text)
        if new != text:
            print(f"{page.name}: tables {'differ from their files' if check else 'filled in'}")
            differ += 1
            if not check:
                page.write_text(new)
    return differ if check else 0


if __name__ == "__main__":
    sys.exit(main("--check" in sys.argv[1:]))
