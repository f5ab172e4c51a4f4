"""Find measured figures on the pages that follow from no result file.

    python docs/check_figures.py

Accuracies, percentages, ratios, points, times, memory and counts such as "15 of 17", in README.md and docs/*.md, must
be filled in from a result file (`docs/fill_figures.py`), be printed by code that runs (a doctest), or stand in
`docs/claims/allowed.py` with the reason why they are no measurement of ours.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

FOLDER = Path(__file__).parent
if str(FOLDER.parent) not in sys.path:  # as a script
    sys.path.insert(0, str(FOLDER.parent))

from docs import claims  # noqa: E402
from docs.claims.allowed import ALLOWED  # noqa: E402
from docs.fill_figures import REGION  # noqa: E402

UNIT = r"(?:%|×|(?:times|x|points?|seconds?|s|ms|µs|ns|minutes?|hours?|[KMG]i?B|rows/s|rows\sa\ssecond)\b)"
FIGURE = re.compile(
    rf"""(?<![\w./#:-])[-+±]?(?:
        \.\d+                                   # .75
      | \d+(?:,\d\d\d)*\.\d+                    # 0.75, 3.2
      | \d+(?:,\d\d\d)*(?=(?:\s?(?:to|and|or|-|/)\s?[\d.,]+)?\s?{UNIT})   # 3 times, 10 %, 2 to 4 points
      | \d+(?:,\d\d\d)*(?=\sof\s(?:the\s)?\d)          # 15 of 17
    )(?![\w])""",
    re.VERBOSE,
)
#: What is no prose: code, which is run, comments, targets of links, formulas.
NOT_PROSE = [
    r"^```.*?^```$",
    r"`[^`\n]*`",
    r"<!--.*?-->",
    r"\]\([^)]*\)",
    r"\$[^$\n]+\$",
    r"<img\b[^>]*>",
    r"https?://\S+",
]


def pages() -> list[Path]:
    """Return the pages that are looked at."""
    return [FOLDER.parent / "README.md", *sorted(FOLDER.glob("*.md"))]


def blanked(text: str, found: re.Pattern[str]) -> str:
    """Return the text with spaces for what was found, and the same lines."""
    return found.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)


def unsourced(text: str, page: Path) -> list[tuple[int, str]]:
    """Return line and text of every figure of a page without a source."""
    text = blanked(text, REGION)
    for words, *_ in claims.sentences(page):
        text = blanked(text, claims.pattern(words))
    for part in NOT_PROSE:
        text = blanked(text, re.compile(part, re.DOTALL | re.MULTILINE))
    for name, words, _ in ALLOWED:
        if name in ("*", page.name):
            text = blanked(text, re.compile(words))
    return [(text.count("\n", 0, match.start()) + 1, match[0]) for match in FIGURE.finditer(text)]


def main() -> int:
    """Print what was found; return how many figures."""
    count = 0
    for page in pages():
        text = page.read_text()
        for line, figure in unsourced(text, page):
            print(f"{page.name}:{line}: {figure} has no source: {text.splitlines()[line - 1].strip()[:100]}")
            count += 1
    return min(count, 1)


if __name__ == "__main__":
    sys.exit(main())
