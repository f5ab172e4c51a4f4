"""Plot of one row on its way: what each teacher says, what the merge makes of it, what the student says."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax
from sklearn.pipeline import Pipeline

from sklearn_uhc.answers import to_numpy
from sklearn_uhc.inspection.plots._drawing import label_ticks, labels_of, new_axes, teacher_answers, text_width, unwrap
from sklearn_uhc.inspection.plots.style import GUIDE, INK, ROW_MAP
from sklearn_uhc.spaces.label_space import LabelSpace
from sklearn_uhc.utils.rows import take_rows
from sklearn_uhc.utils.simplex import sharpen

__all__ = ["RowDisplay", "row_of_answers"]

#: Most classes drawn: those that somebody finds most probable.
MOST_CLASSES = 12
#: Cells from this probability on are dark, so their text is white.
DARK = 0.55


class RowDisplay:
    """Table of what teachers, merge and student say about one row: a line each, a column per class.

    The darker a cell, the more probable the class; each line's first choice is bold. Hatched: the teacher does not know
    the class. A number in brackets is the probability of a set that the class is in.

    Parameters
    ----------
    probabilities : array-like of shape (m, L)
        A line per teacher, then the merge, then the student if there is one. NaN: does not know the class; a line of
        NaN gave no answer.
    names : list of m str
        Names of the lines.
    classes : array-like of shape (L,), default=None
        Names of the classes. None: their indices.
    n_teachers : int, default=None
        How many of the lines are teachers. None: all but the last.
    in_set : array-like of bool, shape (m, L), default=None
        Where a number is the probability of a set of classes.

    Attributes
    ----------
    shown : ndarray of int
        The classes that are drawn, at most 12: those that somebody finds most probable.
    image_ : matplotlib AxesImage
        The probabilities.
    texts_ : list of matplotlib Text
        The numbers in the cells.
    ax_ : matplotlib Axes
        The axes of the plot.
    figure_ : matplotlib Figure
        The figure of the plot.

    Examples
    --------
    >>> from sklearn_uhc.inspection import RowDisplay
    >>> lines = [[0.9, 0.1, float("nan")], [float("nan"), 0.5, 0.5], [0.8, 0.1, 0.1]]
    >>> display = RowDisplay(lines, ["north", "south", "merge"], classes=["ant", "bee", "cat"]).plot()
    >>> [text.get_text() for text in display.texts_]
    ['.90', '.10', '.50', '.50', '.80', '.10', '.10']
    """

    def __init__(
        self,
        probabilities: Any,
        names: Sequence[str],
        *,
        classes: Any = None,
        n_teachers: int | None = None,
        in_set: Any = None,
    ) -> None:
        P = np.asarray(probabilities, dtype=float)
        if P.ndim != 2 or len(P) != len(names):
            raise ValueError(f"probabilities must have a line for each of the {len(names)} names, got shape {P.shape}.")
        self.probabilities = P
        self.names = [str(name) for name in names]
        self.classes = np.arange(P.shape[1]) if classes is None else np.asarray(classes)
        if len(self.classes) != P.shape[1]:
            raise ValueError(f"classes names {len(self.classes)} classes for {P.shape[1]} columns of probabilities.")
        self.n_teachers = len(P) - 1 if n_teachers is None else n_teachers
        self.in_set = np.zeros(P.shape, dtype=bool) if in_set is None else np.asarray(in_set, dtype=bool)
        best = np.where(np.isnan(P), 0, P).max(axis=0)
        self.shown: NDArray[np.int_] = np.sort(np.argsort(-best, kind="stable")[:MOST_CLASSES])

    @classmethod
    def from_estimator(cls, estimator: Any, X: Any, row: int = 0, *, ax: Any = None) -> RowDisplay:
        """Follow a row of X through a fitted distiller, ensemble or merger, and plot.

        Parameters
        ----------
        estimator : HeterogeneousDistiller, UnifiedEnsemble or TeacherMerger
            Fitted, or a fitted Pipeline that ends in one.
        X : array-like with n rows
            Any data of the kind given to `fit`.
        row : int, default=0
            The number of the row in X.
        ax : matplotlib Axes, default=None
            Axes to plot on. None: a new figure.

        Returns
        -------
        display : RowDisplay
        """
        x = take_rows(X, [row])
        holder, inner = unwrap(estimator, x, merged=True)
        last = estimator[-1] if isinstance(estimator, Pipeline) else estimator
        answers = teacher_answers(holder, inner, "RowDisplay(probabilities, names)")
        merged = None
        if not getattr(last, "backprop", False):
            Q = to_numpy(holder.merge(holder.adjust(answers, inner), inner))
            merged = sharpen(Q, holder.method_.temperature)[0]
        student = estimator.predict_proba(x)[0] if hasattr(last, "student_") else None
        log_p = to_numpy(answers.log_p)[0]
        return row_of_answers(answers.space, log_p, labels_of(holder), holder.classes_, merged, student).plot(ax)

    def plot(self, ax: Any = None) -> RowDisplay:
        """Plot.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to plot on. None: a new figure.

        Returns
        -------
        display : RowDisplay
            This display.
        """
        P, classes = self.probabilities[:, self.shown], self.classes[self.shown]
        width = max(4.5, text_width(self.names) + 0.5 * len(classes) + 0.4)
        ax = new_axes(ax, (width, 0.32 * len(P) + min(1.4, text_width(classes)) + 0.6))
        self.ax_, self.figure_ = ax, ax.figure
        self.image_ = ax.imshow(np.ma.masked_invalid(P), cmap=ROW_MAP, vmin=0, vmax=1, aspect="auto")
        ax.patch.set(hatch="////", facecolor="white", edgecolor="0.85", linewidth=0)
        label_ticks(ax.xaxis, classes, upright=True if text_width(classes) > 0.55 else None)
        label_ticks(ax.yaxis, self.names, upright=False)
        ax.tick_params(length=0)
        if len(classes) < len(self.classes):
            ax.set_xlabel(f"{len(classes)} of {len(self.classes)} classes, the most probable ones", fontsize=8)
        for above in range(self.n_teachers, len(P)):
            ax.axhline(above - 0.5, color=INK, linewidth=1.2)
        self.texts_ = [text for line in range(len(P)) for text in self._write(line, P[line])]
        return self

    def _write(self, line: int, values: NDArray[np.float64]) -> list[Any]:
        """Write the numbers of a line, its largest one bold."""
        look = {"ha": "center", "va": "center", "fontsize": 8}
        if np.isnan(values).all():
            somewhere = ~np.isnan(self.probabilities[line]).all()
            why = "knows none of these classes" if somewhere else "no answer"
            box = {"facecolor": "white", "edgecolor": "none", "pad": 1}
            self.ax_.text((len(values) - 1) / 2, line, why, color=GUIDE, bbox=box, **look)
            return []
        best, out = np.nanmax(values), []
        for k in np.flatnonzero(~np.isnan(values)):
            text = f"{values[k]:.2f}".replace("0.", ".", 1)
            text = f"({text})" if self.in_set[line, self.shown[k]] else text
            ink = "white" if values[k] > DARK else INK
            weight = "bold" if values[k] == best else "normal"
            out.append(self.ax_.text(k, line, text, color=ink, fontweight=weight, **look))
        return out


def row_of_answers(
    space: LabelSpace,
    log_p: NDArray[Any],
    names: Sequence[str],
    classes: NDArray[Any],
    merged: NDArray[Any] | None,
    student: NDArray[Any] | None,
) -> RowDisplay:
    """Return the display of a row, not drawn yet, from the teachers' answers (K,) and what was made of them (L,)."""
    place = {label: k for k, label in enumerate(classes.tolist())}
    columns = np.array([place[label] for label in space.classes.tolist()])
    lines = np.full((space.n_teachers, len(classes)), np.nan)
    in_set = np.zeros((space.n_teachers + 2, len(classes)), dtype=bool)
    for i, block in enumerate(space.blocks):
        for k, p in zip(range(block.start, block.stop), softmax(log_p[block]), strict=True):
            members = columns[space.members[space.offsets[k] : space.offsets[k + 1]]]
            lines[i, members], in_set[i, members] = p, len(members) > 1
    more = {name: q for name, q in (("merge", merged), ("student", student)) if q is not None}
    P = np.vstack([lines, *more.values()])
    return RowDisplay(P, [*names, *more], classes=classes, n_teachers=space.n_teachers, in_set=in_set[: len(P)])
