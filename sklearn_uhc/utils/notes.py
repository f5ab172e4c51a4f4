"""Notes that name the origin of an error without changing its type, and warnings at the user's own line."""

from __future__ import annotations

import sys
import warnings

#: Packages whose frames are skipped to find the user's line.
OTHERS = ("sklearn_uhc", "sklearn", "joblib")


def add_note(error: BaseException, note: str) -> None:
    """Attach a note that the traceback shows (Python 3.11 and newer; ignored before)."""
    if hasattr(error, "add_note"):
        error.add_note(note)


def warn_user(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the innermost line outside this library, scikit-learn and joblib."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in OTHERS:
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)
