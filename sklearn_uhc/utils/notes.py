"""Notes that name the origin of an error without changing its type, and warnings at the user's own line."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Hashable

from sklearn_uhc.utils.searches import said_in_search

#: Packages whose frames are skipped to find the user's line.
OTHERS = ("sklearn_uhc", "sklearn", "joblib")


def add_note(error: BaseException, note: str) -> None:
    """Attach a note that the traceback shows (Python 3.11 and newer; ignored before)."""
    if hasattr(error, "add_note"):
        error.add_note(note)


def warn_user(message: str, category: type[Warning] = UserWarning, *, about: Hashable = None) -> None:
    """Warn at the innermost line outside this library, scikit-learn and joblib; within a search only once.

    `about` identifies the warning there; None: its message.
    """
    said, key = said_in_search(), (category, message if about is None else about)
    if said is not None and key in said:
        return
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in OTHERS:
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)
    if said is not None:  # not if the warning is an error: then every fit fails
        said.add(key)
