"""Which parameters a search of scikit-learn without labels is trying at the moment."""

from __future__ import annotations

import sys
from types import FrameType

#: The function of scikit-learn that fits and scores one candidate on one split, in this process or in a worker.
MODULE, FUNCTION = "sklearn.model_selection._validation", "_fit_and_score"


def searched_without_labels() -> list[str]:
    """Return the names of the parameters that a search has set; none outside a search, or if it has labels.

    scikit-learn tells an estimator nothing of the search that it is in, so the call stack is read. If a version has
    another function there, nothing is found.
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_name == FUNCTION and frame.f_globals.get("__name__") == MODULE:
            found = frame.f_locals
            return [] if found.get("y") is not None else [str(name) for name in found.get("parameters") or ()]
        frame = frame.f_back
    return []
