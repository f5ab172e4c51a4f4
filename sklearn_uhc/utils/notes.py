"""Notes that name the origin of an error without changing its type, and warnings at the user's own line."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Hashable
from types import FrameType

#: Packages whose frames are skipped to find the user's line.
OTHERS = ("sklearn_uhc", "sklearn", "joblib")
#: What was said in scikit-learn's searches and cross-validation, and at which line of the user. There Python's filters
#: do not prevent repetitions: joblib sets them anew for every fit, which forgets what was said.
_said: set[Hashable] = set()


def add_note(error: BaseException, note: str) -> None:
    """Attach a note that the traceback shows (Python 3.11 and newer; ignored before)."""
    if hasattr(error, "add_note"):
        error.add_note(note)


def warn_user(message: str, category: type[Warning] = UserWarning, *, about: Hashable = None) -> None:
    """Warn at the innermost line outside this library, scikit-learn and joblib; within a search only once.

    `about` identifies the warning there; None: its message.
    """
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and _module(frame).partition(".")[0] in OTHERS:
        frame, level = frame.f_back, level + 1
    key = (category, message if about is None else about, frame.f_code.co_filename, frame.f_lineno)
    in_search = _is_in_search()
    if in_search and key in _said:
        return
    warnings.warn(message, category, stacklevel=level)
    if in_search:  # not if the warning is an error: then every fit fails
        _said.add(key)


def _is_in_search() -> bool:
    """Return whether one of scikit-learn's searches, or a cross-validation, is among the callers."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        if _module(frame).startswith("sklearn.model_selection."):
            return True
        frame = frame.f_back
    return False


def _module(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", ""))
