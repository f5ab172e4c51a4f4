"""Say where an error came from without changing its type."""

from __future__ import annotations


def add_note(error: BaseException, note: str) -> None:
    """Attach a note that the traceback shows (Python 3.11 and newer; silent before)."""
    if hasattr(error, "add_note"):
        error.add_note(note)
