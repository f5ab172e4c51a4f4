"""What the command prints: results on stdout, as text or JSON, all else on stderr, without control characters."""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from typing import Any

#: Longest line of text, in characters: names in files may be of any length, and scikit-learn's errors fill a page.
LONGEST = 1000


class CommandError(Exception):
    """What a user did wrong, in one sentence that names the file."""


def printable(text: Any) -> str:
    """Return text, cut, without characters that could move a terminal's cursor: names in files may hold any."""
    text = str(text) if len(str(text)) <= LONGEST else f"{str(text)[:LONGEST]}..."
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


class Console:
    """Stdout for results, stderr for progress, warnings and errors."""

    def __init__(self, as_json: bool = False) -> None:
        self.as_json = as_json
        self.out = sys.stdout
        self.warnings: list[str] = []

    @contextmanager
    def captured(self) -> Iterator[None]:
        """Send what libraries print to stderr, and show each warning to users once."""
        with warnings.catch_warnings(), redirect_stdout(sys.stderr):
            warnings.simplefilter("ignore")
            warnings.simplefilter("always", UserWarning)
            warnings.showwarning = lambda message, *_, **__: self.warn(str(message))
            yield

    def progress(self, text: str) -> None:
        """Say what is being done."""
        print(printable(text), file=sys.stderr, flush=True)

    def warn(self, text: str) -> None:
        """Show a warning, unless it was shown before."""
        text = " ".join(text.split())
        if text not in self.warnings:
            self.warnings.append(text)
            print(f"warning: {printable(text)}", file=sys.stderr, flush=True)

    def fail(self, error: BaseException) -> None:
        """Show an error on one line, with the notes that say where it came from."""
        notes = [str(note) for note in getattr(error, "__notes__", ())]
        text = " ".join(" ".join([str(error) or type(error).__name__, *notes]).split())
        print(f"sklearn-uhc: error: {printable(text)}", file=sys.stderr, flush=True)

    def result(self, found: dict[str, Any], lines: list[str]) -> None:
        """Print the result: lines of text, or JSON with the warnings."""
        if self.as_json:
            found = {**found, "warnings": self.warnings}
            lines = [json.dumps(found, indent=1, ensure_ascii=True, default=str)]
            print(*lines, file=self.out, flush=True)
        else:
            print(*map(printable, lines), sep="\n", file=self.out, flush=True)
