"""Who knows which class, as a picture."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sklearn_uhc.label_space import LabelSpace
from sklearn_uhc.plots._drawing import (
    label_ticks,
    labels_in,
    labels_of,
    names_of_teachers,
    new_axes,
    text_width,
    unwrap,
)

__all__ = ["ClassOverlapDisplay"]


class ClassOverlapDisplay:
    """Who knows which class: teachers by classes, with groups of classes that no teacher links set apart.

    Parameters
    ----------
    mask : array-like of bool, shape (N, L)
        True where teacher i knows class l. Every teacher must know a class and every class a teacher.
    classes : array-like of shape (L,), default=None
        Names of the classes. None: their numbers.
    teacher_names : list of str, default=None
        Names of the teachers. None: their numbers.

    Attributes
    ----------
    components : ndarray of int, shape (L,)
        Group of every class.
    order : ndarray of int, shape (L,)
        The classes as they are drawn from left to right: group by group.
    image_ : matplotlib AxesImage
        The drawn mask, dark where a class is known.
    boundaries_ : list of matplotlib Line2D
        Lines between the groups.
    ax_ : matplotlib Axes
        Where it was drawn.
    figure_ : matplotlib Figure
        Its figure.

    Examples
    --------
    >>> from sklearn_uhc import ClassOverlapDisplay
    >>> display = ClassOverlapDisplay.from_class_lists([["cat", "dog"], ["dog", "cow"], ["ant", "bee"]])
    >>> [label.get_text() for label in display.ax_.get_xticklabels()]
    ['ant', 'bee', 'cat', 'cow', 'dog']
    >>> len(display.boundaries_)
    1
    """

    def __init__(self, mask: Any, *, classes: Any = None, teacher_names: Sequence[str] | None = None) -> None:
        self.mask: NDArray[np.bool_] = _check_mask(mask)
        N, L = self.mask.shape
        self.classes = np.arange(L) if classes is None else np.asarray(classes)
        if len(self.classes) != L:
            raise ValueError(f"classes names {len(self.classes)} classes for {L} columns of the mask.")
        self.teacher_names = names_of_teachers(N, teacher_names)
        self.components = LabelSpace([np.flatnonzero(row).tolist() for row in self.mask]).components
        self.order = np.argsort(self.components, kind="stable")

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Any = None) -> ClassOverlapDisplay:
        """Draw the class lists of a fitted distiller, ensemble, merger or `TeacherOutputs`.

        Parameters
        ----------
        estimator : HeterogeneousDistiller, UnifiedEnsemble, TeacherMerger or TeacherOutputs
            Fitted, or a Pipeline that ends in one. Its teachers' names label the plot, or their numbers and kinds.
        ax : matplotlib Axes, default=None
            Where to draw. None: a new figure.

        Returns
        -------
        display : ClassOverlapDisplay
        """
        holder, _ = unwrap(estimator)
        space = holder.label_space_
        return cls(space.mask, classes=space.classes, teacher_names=labels_of(holder)).plot(ax)

    @classmethod
    def from_class_lists(cls, class_lists: Any, *, ax: Any = None) -> ClassOverlapDisplay:
        """Draw class lists, before anything is fitted.

        Parameters
        ----------
        class_lists : list of lists, or dict of them by teachers' names
            The classes of each teacher.
        ax : matplotlib Axes, default=None
            Where to draw. None: a new figure.

        Returns
        -------
        display : ClassOverlapDisplay
        """
        space = LabelSpace(class_lists)
        return cls(space.mask, classes=space.classes, teacher_names=labels_in(space)).plot(ax)

    def plot(self, ax: Any = None, *, cmap: str = "Greys") -> ClassOverlapDisplay:
        """Draw.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw. None: a new figure.
        cmap : str, default="Greys"
            Color map of the cells.

        Returns
        -------
        display : ClassOverlapDisplay
            Itself.
        """
        N, L = self.mask.shape
        classes = self.classes[self.order]
        cell = 0.42 if L <= 15 else 0.2
        width = max(4.5, text_width(self.teacher_names) + cell * L + 0.6)
        ax = new_axes(ax, (width, max(2.2, 0.3 * N + text_width(classes) + 0.9)))
        self.ax_, self.figure_ = ax, ax.figure
        # A known class is dark grey, not black, so that the lines of groups stay visible on it.
        self.image_ = ax.imshow(self.mask[:, self.order], cmap=cmap, vmin=0, vmax=1.4, aspect="auto")
        label_ticks(ax.xaxis, classes)
        label_ticks(ax.yaxis, self.teacher_names, upright=False)
        ax.set_xticks(np.arange(L + 1) - 0.5, minor=True)
        ax.set_yticks(np.arange(N + 1) - 0.5, minor=True)
        ax.grid(which="minor", color="white", linewidth=1.2)
        ax.tick_params(which="both", length=0)
        ax.set(xlabel="class", ylabel="teacher")
        self._mark_groups()
        return self

    def _mark_groups(self) -> None:
        """Part and name the groups, and say what they mean."""
        groups = self.components[self.order]
        ends = np.flatnonzero(np.diff(groups)) + 0.5
        self.boundaries_ = [self.ax_.axvline(end, color="black", linewidth=2, linestyle="--") for end in ends]
        starts, stops = np.r_[-0.5, ends], np.r_[ends, len(groups) - 0.5]
        if len(ends) == 0:
            self.ax_.set_title("all classes are linked", fontsize=10)
            return
        for number, (start, stop) in enumerate(zip(starts, stops, strict=True), 1):
            at = ((start + stop) / 2, 1.02)
            text = f"group {number}" if stop - start > len(groups) / 8 else str(number)
            self.ax_.text(*at, text, transform=self.ax_.get_xaxis_transform(), ha="center", fontsize=8)
        self.ax_.set_title(f"{len(starts)} groups of classes that no teacher links", fontsize=10, pad=18)


def _check_mask(mask: Any) -> NDArray[np.bool_]:
    array = np.asarray(mask, dtype=bool)
    if array.ndim != 2 or not array.size:
        raise ValueError(f"mask must have the shape (teachers, classes), got {array.shape}.")
    for axis, what in ((1, "teacher"), (0, "class")):
        empty = np.flatnonzero(~array.any(axis=axis))
        if len(empty):
            where = "row" if axis else "column"
            raise ValueError(f"{where} {empty[0]} of the mask is all False: a {what} without any is not in a merge.")
    return array
