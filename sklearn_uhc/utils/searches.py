"""Find the search that a fit is part of.

scikit-learn does not tell an estimator about the search it is in, so the call stack is inspected. If a version of
scikit-learn renames what is looked for here, nothing is found.
"""

from __future__ import annotations

import sys
from collections.abc import Hashable, Iterator
from types import FrameType
from typing import Any
from weakref import WeakKeyDictionary

#: The scikit-learn function that fits and scores one candidate on one split, in this process or in a worker.
MODULE, FUNCTION = "sklearn.model_selection._validation", "_fit_and_score"
#: Modules with searches, whose functions have a local variable `parallel`.
SEARCHES = ("sklearn.model_selection.", "sklearn_uhc.estimators.search.")
#: A function that ignores warnings of the fits that it calls: what nobody has seen was not said.
IGNORING = "try_candidate"
#: What was said in each search: the keys are its joblib.Parallel, which exists once per search and as long as it runs.
_said: WeakKeyDictionary[Any, set[Hashable]] = WeakKeyDictionary()
#: What was said in a worker, which does not know its search.
_said_here: set[Hashable] = set()


def searched_without_labels() -> list[str]:
    """Return the names of the parameters set by a search; empty outside a search, or if it has labels."""
    for frame in _frames():
        if frame.f_code.co_name == FUNCTION and frame.f_globals.get("__name__") == MODULE:
            found = frame.f_locals
            return [] if found.get("y") is not None else [str(name) for name in found.get("parameters") or ()]
    return []


def said_in_search() -> set[Hashable] | None:
    """Return what was said in the current search, to add to; None outside a search.

    Python's filters do not prevent repetitions there: joblib sets them anew for every fit, which forgets what was said.
    """
    worker = False
    for frame in _frames():
        if frame.f_code.co_name == IGNORING:
            return None
        if frame.f_globals.get("__name__", "").startswith(SEARCHES):
            search = frame.f_locals.get("parallel")
            if search is not None:
                return _said.setdefault(search, set())
            worker = worker or frame.f_code.co_name == FUNCTION
    return _said_here if worker else None


def _frames() -> Iterator[FrameType]:
    """Yield the frames of the callers, from the innermost."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        yield frame
        frame = frame.f_back
