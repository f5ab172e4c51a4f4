"""Pickles with the version that wrote them."""

from __future__ import annotations

import sys
from typing import Any

from sklearn_uhc.utils.notes import warn_user

#: Key of the version in a pickled estimator's state.
KEY = "_sklearn_uhc_version"


def current_version() -> str:
    """Return the version of this package."""
    return str(sys.modules[__name__.partition(".")[0]].__version__)


class Versioned:
    """Mixin for estimators, before BaseEstimator, that warns when a pickle of another release is loaded."""

    def __getstate__(self) -> Any:
        state: Any = super().__getstate__()
        return {**state, KEY: current_version()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        state = dict(state)
        written = state.pop(KEY, current_version())  # absent if a subclass writes a state of its own
        if written != current_version():
            warn_user(
                f"This {type(self).__name__} was pickled by sklearn_uhc {written} and loaded by {current_version()}. "
                "It may fail or give other results. Fit it again, or load it with the release that wrote it. For "
                "files that last, use export."
            )
        super().__setstate__(state)  # type: ignore[misc]
