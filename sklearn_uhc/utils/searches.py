"""Find the parameters that a scikit-learn search without labels is currently trying."""

from __future__ import annotations

import sys
from types import FrameType

#: The scikit-learn function that fits and scores one candidate on one split, in this process or in a worker.
MODULE, FUNCTION = "sklearn.model_selection._validation", "_fit_and_score"


def searched_without_labels() -> list[str]:
    """Return the names of the parameters set by a search; empty outside a search, or if it has labels.

    scikit-learn does not tell an estimator about the search it is in, so the call stack is inspected. If a version of
    scikit-learn renames that function, nothing is found.
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_name == FUNCTION and frame.f_globals.get("__name__") == MODULE:
            found = frame.f_locals
            return [] if found.get("y") is not None else [str(name) for name in found.get("parameters") or ()]
        frame = frame.f_back
    return []
