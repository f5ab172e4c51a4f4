"""Notes that name the origin of an error without changing its type, and warnings at the user's own line."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Hashable

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
    frame, level, in_search = sys._getframe(1), 2, False
    while frame.f_back is not None and (name := frame.f_globals.get("__name__", "")).partition(".")[0] in OTHERS:
        in_search = in_search or name.startswith("sklearn.model_selection.")
        frame, level = frame.f_back, level + 1
    key = (category, message if about is None else about, frame.f_code.co_filename, frame.f_lineno)
    if in_search and key in _said:
        return
    warnings.warn(message, category, stacklevel=level)
    if in_search:  # not if the warning is an error: then every fit fails
        _said.add(key)
