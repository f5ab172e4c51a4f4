"""Fill the marked regions of pages from result files, so that no figure differs from what was measured.

    python docs/fill_figures.py [--check]

A region names a JSON file beside the page with a list of records, which of them, and what of them:

    <!-- figure: FILE; KEY=VALUE & KEY=VALUE; HEADING = KEY:FORMAT | HEADING = KEY / KEY:FORMAT -->
    <!-- end -->

Several records make a table, with a line for each. Within a line of text, a region with a single KEY:FORMAT stands for
one number: `<!-- figure: FILE; KEY=VALUE; KEY:FORMAT -->...<!-- end -->`. A key within a record within a record is
written `outer.inner`, `KEY / KEY` is a ratio, and a dash stands for what is not there. Tables and sentences that need
more than that come from `docs/claims`: `<!-- figure: NAME -->` is a table, sentences stand on the page as they are.
`--check` changes nothing and fails if a page would change.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
if str(FOLDER.parent) not in sys.path:  # as a script
    sys.path.insert(0, str(FOLDER.parent))

from docs import claims  # noqa: E402

REGION = re.compile(r"(<!-- figure: (.*?) -->)(.*?)(<!-- end -->)", re.DOTALL)


def filled(text: str, page: Path) -> str:
    """Return the text of a page with all its regions and sentences filled."""
    text = REGION.sub(lambda found: found[1] + content(found[2], "\n" in found[3], page) + found[4], text)
    return claims.filled(text, claims.sentences(page), page.name)


def content(spec: str, is_table: bool, page: Path) -> str:
    """Return what belongs into a region."""
    if ";" not in spec:
        return claims.table(page, spec.strip())
    file, where, what = (part.strip() for part in spec.split(";", 2))
    conditions = [part.split("=", 1) for part in where.split(" & ") if part]
    records = json.loads((page.parent / file).read_text())
    chosen = [r for r in records if all(str(value(r, k.strip())) == v.strip() for k, v in conditions)]
    if not is_table:
        if len(chosen) != 1:
            raise ValueError(f"{file}: {len(chosen)} records with {where!r}, one is wanted for a number.")
        return cell(chosen[0], what)
    columns = [part.split("=", 1) for part in what.split("|")]
    lines = [[heading.strip() for heading, _ in columns], ["---"] * len(columns)]
    lines += [[cell(record, wanted.strip()) for _, wanted in columns] for record in chosen]
    return "\n" + "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def cell(record: dict[str, Any], wanted: str) -> str:
    """Return `KEY:FORMAT` or `KEY / KEY:FORMAT` of a record."""
    keys, _, form = wanted.partition(":")
    values = [value(record, key.strip()) for key in keys.split(" / ")]
    if any(v is None for v in values):
        return "-"
    return format(values[0] if len(values) == 1 else values[0] / values[1], form)


def value(record: Any, key: str) -> Any:
    """Return what stands under a key, None if nothing does."""
    for part in key.split("."):
        record = record.get(part) if isinstance(record, dict) else None
    return record


def main(check: bool) -> int:
    """Fill all pages; return how many differ, if only to be checked."""
    differ = 0
    for page in [FOLDER.parent / "README.md", *sorted(FOLDER.glob("*.md"))]:
        text = page.read_text()
        new = filled(text, page)
        if new != text:
            print(f"{page.name}: figures {'differ from their files' if check else 'filled in'}")
            differ += 1
            if not check:
                page.write_text(new)
    return differ if check else 0


if __name__ == "__main__":
    sys.exit(main("--check" in sys.argv[1:]))
