"""Say where an error came from without changing its type, and warn the user where the user's own code is."""

from __future__ import annotations

import sys
import warnings

#: Code that a user did not write, between the user's call and our warning.
OTHERS = ("sklearn_uhc", "sklearn", "joblib")


def add_note(error: BaseException, note: str) -> None:
    """Attach a note that the traceback shows (Python 3.11 and newer; silent before)."""
    if hasattr(error, "add_note"):
        error.add_note(note)


def warn_user(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the innermost line outside this library and scikit-learn, not at a line of theirs."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in OTHERS:
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)
