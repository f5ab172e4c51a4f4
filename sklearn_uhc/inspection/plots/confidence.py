"""Plot of how often a classifier is right, by how sure it is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sklearn_uhc.inspection.plots._drawing import new_axes
from sklearn_uhc.inspection.plots.style import GUIDE, MAIN

__all__ = ["ConfidenceDisplay"]


class ConfidenceDisplay:
    """Calibration curve of first choices, with an interval for each point; drawn by `merge_report`.

    Parameters
    ----------
    points : list of dicts
        With the mean `confidence` of some rows, the `share` of them that is right, and its interval, `low` to `high`.
    """

    def __init__(self, points: Sequence[dict[str, Any]]) -> None:
        self.points = points

    def plot(self, ax: Any = None) -> ConfidenceDisplay:
        """Plot."""
        self.ax_ = new_axes(ax, (4.5, 3.6))
        self.figure_ = self.ax_.figure
        x, y, low, high = (np.array([p[key] for p in self.points]) for key in ("confidence", "share", "low", "high"))
        self.ax_.plot([0, 1], [0, 1], color=GUIDE, linestyle=":")
        self.ax_.errorbar(x, y, [y - low, high - y], color=MAIN, marker="o", capsize=3)
        start = max(0.0, float(min(x.min(), low.min())) - 0.05)
        self.ax_.set(xlim=(start, 1.02), ylim=(start, 1.02), xlabel="probability of the first choice")
        self.ax_.set_ylabel("share of these rows that is right")
        self.ax_.spines[["top", "right"]].set_visible(False)
        return self
