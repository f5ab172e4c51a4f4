"""Plot of the score against temperature or another parameter of a search."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import GridSearchCV
from sklearn.utils.validation import check_is_fitted

from sklearn_uhc.inspection.plots._drawing import add_legend, label_ticks, name_axes, new_axes
from sklearn_uhc.inspection.plots.style import LINES, PALETTE

__all__ = ["DistillationCurveDisplay"]


class DistillationCurveDisplay:
    """Score of a merge as a function of its temperature or another parameter, with one line per value of a second one.

    Parameters
    ----------
    values : sequence of length m
        Values of the parameter: numbers, or names.
    scores : array-like of shape (m,) or (n_lines, m)
        Mean scores; NaN if missing.
    stds : array-like of the same shape, default=None
        Their standard deviations, shown as error bars.
    names : list of str, default=None
        Names of the lines.
    param_name : str, default="temperature"
        Name of the parameter.
    score_name : str, default="score"
        Name of the score.

    Attributes
    ----------
    lines_ : list of matplotlib Line2D
        One per row of `scores`.
    ax_ : matplotlib Axes
        The axes of the plot.
    figure_ : matplotlib Figure
        The figure of the plot.

    Examples
    --------
    >>> from sklearn_uhc.inspection import DistillationCurveDisplay
    >>> display = DistillationCurveDisplay([1, 3, 10], [0.90, 0.92, 0.88]).plot()
    >>> display.lines_[0].get_ydata().tolist()
    [0.9, 0.92, 0.88]
    """

    def __init__(
        self,
        values: Sequence[Any],
        scores: Any,
        *,
        stds: Any = None,
        names: Sequence[str] | None = None,
        param_name: str = "temperature",
        score_name: str = "score",
    ) -> None:
        self.values = list(values)
        self.scores: NDArray[np.float64] = np.atleast_2d(np.asarray(scores, dtype=float))
        self.stds = None if stds is None else np.atleast_2d(np.asarray(stds, dtype=float))
        if self.scores.shape[1] != len(self.values):
            raise ValueError(f"{len(self.values)} values, but {self.scores.shape[1]} scores per line.")
        self.names = [""] * len(self.scores) if names is None else [str(name) for name in names]
        if len(self.names) != len(self.scores):
            raise ValueError(f"{len(self.names)} names for {len(self.scores)} lines.")
        self.param_name = param_name
        self.score_name = score_name

    @classmethod
    def from_search(
        cls,
        search: Any,
        *,
        param_name: str | None = None,
        by: str | None = None,
        score: str = "score",
        ax: Any = None,
    ) -> DistillationCurveDisplay:
        """Plot the results of a fitted search.

        Parameters
        ----------
        search : GridSearchCV or the like, fitted
            Its `cv_results_` are used.
        param_name : str, default=None
            Parameter on the horizontal axis. None: the temperature, or the only parameter of the search.
        by : str, default=None
            Parameter with one line per value. Of all other parameters, the best combination at every point is shown.
        score : str, default="score"
            Which score, if the search has several.
        ax : matplotlib Axes, default=None
            Axes to plot on. None: a new figure.

        Returns
        -------
        display : DistillationCurveDisplay
        """
        check_is_fitted(search, "cv_results_")
        found = search.cv_results_
        known = sorted(key.removeprefix("param_") for key in found if key.startswith("param_"))
        for name in filter(None, (param_name, by)):
            if name not in known:
                raise ValueError(f"The search has no parameter {name!r}, only {known}.")
        param_name = param_name or _default_param(known, by)
        values, points = _distinct(found[f"param_{param_name}"])
        kinds, lines = _distinct([""] * len(points) if by is None else found[f"param_{by}"])
        names, scores = _names(kinds), np.asarray(found[f"mean_test_{score}"], dtype=float)
        means, stds = np.full((2, len(names), len(values)), np.nan)
        # Sorted so that the best score is written last; failed fits, which have no score, come first.
        for k in np.argsort(np.where(np.isnan(scores), -np.inf, scores), kind="stable"):
            means[lines[k], points[k]], stds[lines[k], points[k]] = scores[k], found[f"std_test_{score}"][k]
        score_name = _score_name(search, scores) if score == "score" else score
        display = cls(values, means, stds=stds, names=names, param_name=param_name, score_name=score_name)
        return display.plot(ax)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: Any = None,
        *,
        param_name: str = "temperature",
        param_range: Sequence[Any] = (1, 2, 3, 6, 10),
        cv: Any = None,
        scoring: Any = None,
        n_jobs: int | None = None,
        ax: Any = None,
    ) -> DistillationCurveDisplay:
        """Cross-validate a distiller or ensemble over a parameter, and plot.

        Parameters
        ----------
        estimator : HeterogeneousDistiller or UnifiedEnsemble
            Need not be fitted.
        X : array-like with n rows
            Unlabelled data.
        y : array-like of shape (n,), default=None
            Labels for scoring. None: the score is the agreement with the teachers.
        param_name : str, default="temperature"
            The parameter.
        param_range : sequence, default=(1, 2, 3, 6, 10)
            Its values.
        cv : int or splitter, default=None
            As in `GridSearchCV`.
        scoring : str or callable, default=None
            As in `GridSearchCV`; None: the estimator's own `score`.
        n_jobs : int, default=None
            As in `GridSearchCV`.
        ax : matplotlib Axes, default=None
            Axes to plot on. None: a new figure.

        Returns
        -------
        display : DistillationCurveDisplay
        """
        grid = {param_name: list(param_range)}
        search = GridSearchCV(estimator, grid, cv=cv, scoring=scoring, n_jobs=n_jobs, refit=False)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "A search without labels", UserWarning)  # only plotted
            search.fit(X, y)
        return cls.from_search(search, param_name=param_name, ax=ax)

    def plot(self, ax: Any = None) -> DistillationCurveDisplay:
        """Plot.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to plot on. None: a new figure.

        Returns
        -------
        display : DistillationCurveDisplay
            This display.
        """
        self.ax_ = new_axes(ax, (6.0, 3.6))
        self.figure_ = self.ax_.figure
        numbers = all(isinstance(value, Real) and not isinstance(value, bool) for value in self.values)
        x = np.asarray(self.values, dtype=float) if numbers else np.arange(len(self.values))
        order = np.argsort(x)
        stds = np.zeros_like(self.scores) if self.stds is None else self.stds
        drawn = [self._draw(x[order], self.scores[k, order], stds[k, order], k) for k in range(len(self.scores))]
        self.lines_ = [line for line, *_ in drawn]
        if numbers and x.min() > 0 and x.max() > 5 * x.min():
            self.ax_.set_xscale("log")
        self._name_axes(x, numbers)
        add_legend(self.ax_, drawn, self.names, fontsize=8, frameon=False)
        return self

    def _draw(self, x: Any, y: Any, std: Any, k: int) -> Any:
        """Draw a line with error bars; lines differ in colour, style and marker."""
        style, marker = LINES[k % len(LINES)]
        look = {"markersize": 6, "linewidth": 1.8, "capsize": 3, "elinewidth": 1, "color": PALETTE[k % len(PALETTE)]}
        bars = None if self.stds is None else std
        return self.ax_.errorbar(x, y, bars, linestyle=style, marker=marker, label=self.names[k] or None, **look)

    def _name_axes(self, x: Any, numbers: bool) -> None:
        """Label the axes, with the values as ticks of the horizontal one, whatever its scale."""
        if numbers:
            self.ax_.set_xticks(x, [f"{value:g}" for value in self.values])
            self.ax_.set_xticks([], minor=True)
        else:
            label_ticks(self.ax_.xaxis, _names(self.values))
        name_axes(self.ax_, self.param_name, self.score_name)
        self.ax_.spines[["top", "right"]].set_visible(False)


def _default_param(known: list[str], by: str | None) -> str:
    """Return the parameter on the horizontal axis: the temperature, or the only one that is left."""
    left = [name for name in known if name != by]
    if "temperature" in left:
        return "temperature"
    if len(left) != 1:
        raise ValueError(f"The search has the parameters {left}: choose the horizontal axis with param_name=.")
    return left[0]


def _score_name(search: Any, scores: NDArray[Any]) -> str:
    """Return the name of a search's score; a merge's own score is <= 0 without labels and >= 0 with them."""
    scoring = getattr(search, "scoring", None)
    if isinstance(scoring, str):
        return scoring
    if scoring is not None:
        return getattr(scoring, "__name__", "score").replace("_scorer", "").replace("_", " ")
    return "agreement with the teachers" if np.nanmax(np.r_[-np.inf, scores]) <= 0 else "accuracy"


def _text(value: Any) -> str:
    """Return the complete text of a value on one line, equal for equal values."""
    if isinstance(value, Real):
        return str(value if isinstance(value, bool) else float(value))
    if hasattr(value, "get_params"):
        return " ".join(repr(value).split())
    return str(value.tolist()) if isinstance(value, np.ndarray) and value.ndim else str(value)


def _names(values: Sequence[Any]) -> list[str]:
    """Return names of values: estimators by type, with parameters if types are equal; others as text."""
    short = [type(value).__name__ if hasattr(value, "get_params") else str(value) for value in values]
    return [_text(value) if short.count(name) > 1 else name for value, name in zip(values, short, strict=True)]


def _distinct(values: Sequence[Any]) -> tuple[list[Any], list[int]]:
    """Return the distinct values in order of first appearance, and the index of each value among them."""
    texts = [_text(value) for value in values]
    first = list(dict.fromkeys(texts))
    return [values[texts.index(text)] for text in first], [first.index(text) for text in texts]
