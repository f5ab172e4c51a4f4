"""Plot of which teacher knows which class."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sklearn_uhc.inspection.plots._drawing import (
    add_legend,
    label_ticks,
    labels_in,
    labels_of,
    names_of_teachers,
    new_axes,
    text_width,
    unwrap,
)
from sklearn_uhc.inspection.plots.style import CONTRAST, GUIDE, IN_SET, KNOWN, UNKNOWN
from sklearn_uhc.spaces.label_space import OTHER, LabelSpace

__all__ = ["ClassOverlapDisplay", "overlap_of_space"]

#: In `sets`: the class is part of OTHER.
IN_OTHER = -1
#: Shade of a class that is part of a set; a class with its own column has 1.
SET_SHADE = 0.45
#: Maximum number of classes for drawing letters of sets, and for class names.
MOST_LETTERED, MOST_NAMED = 60, 80
#: Maximum width in inches; wider plots do not fit a screen.
WIDEST = 16.0


class ClassOverlapDisplay:
    """Table of which teacher knows which class. Groups of classes that no teacher links are separated by lines.

    Classes of the same teachers are side by side. A class with a column of its own is dark. A class that a teacher
    knows only as one of several (a tuple in `class_lists`) is light, with a letter for every set of the teacher. A
    class that is part of OTHER is hatched.

    Parameters
    ----------
    mask : array-like of bool, shape (N, L)
        True if teacher i knows class l. Every teacher must know a class, and every class must be known to a teacher.
    classes : array-like of shape (L,), default=None
        Names of the classes. None: their indices.
    teacher_names : list of str, default=None
        Names of the teachers. None: their indices.
    sets : array-like of int, shape (N, L), default=None
        For classes without a column of their own: k > 0 if it is in the k-th set of its teacher, -1 if it is part of
        OTHER; 0 elsewhere. None: every known class has a column of its own.
    components : array-like of int, shape (L,), default=None
        Group of every class. None: classes are linked if a teacher knows both of them.

    Attributes
    ----------
    components : ndarray of int, shape (L,)
        Group of every class.
    order : ndarray of int, shape (L,)
        The classes from left to right: by group, then by the first and the last teacher that knows them.
    image_ : matplotlib AxesImage
        The mask: dark for a class with a column of its own, light for a class in a set, masked (and hatched) for a
        class that is part of OTHER.
    texts_ : list of matplotlib Text
        Letters of the sets, for at most 60 classes: classes with the same letter in a row are in one set.
    legend_ : matplotlib Legend
        What the colours mean.
    boundaries_ : list of matplotlib Line2D
        Lines between the groups.
    ax_ : matplotlib Axes
        The axes of the plot.
    figure_ : matplotlib Figure
        The figure of the plot.

    Examples
    --------
    >>> from sklearn_uhc.inspection import ClassOverlapDisplay
    >>> display = ClassOverlapDisplay.from_class_lists([["cat", "dog"], ["dog", "cow"], ["ant", "bee"]])
    >>> [label.get_text() for label in display.ax_.get_xticklabels()]
    ['ant', 'bee', 'cat', 'dog', 'cow']
    >>> len(display.boundaries_)
    1
    >>> display = ClassOverlapDisplay.from_class_lists([[("cat", "dog"), "cow"], ["cat", "dog", "cow"]])
    >>> display.sets.tolist()
    [[1, 0, 1], [0, 0, 0]]
    """

    def __init__(
        self,
        mask: Any,
        *,
        classes: Any = None,
        teacher_names: Sequence[str] | None = None,
        sets: Any = None,
        components: Any = None,
    ) -> None:
        self.mask: NDArray[np.bool_] = _check_mask(mask)
        N, L = self.mask.shape
        self.classes = np.arange(L) if classes is None else np.asarray(classes)
        if len(self.classes) != L:
            raise ValueError(f"classes names {len(self.classes)} classes for {L} columns of the mask.")
        self.teacher_names = names_of_teachers(N, teacher_names)
        self.sets: NDArray[np.int_] = _check_sets(sets, self.mask)
        if components is None:
            components = LabelSpace([np.flatnonzero(row).tolist() for row in self.mask]).components
        self.components = np.asarray(components)
        last = N - 1 - self.mask[::-1].argmax(axis=0)
        self.order = np.lexsort((last, self.mask.argmax(axis=0), self.components))

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Any = None) -> ClassOverlapDisplay:
        """Plot the class lists of a fitted distiller, ensemble, merger or `TeacherOutputs`.

        Parameters
        ----------
        estimator : HeterogeneousDistiller, UnifiedEnsemble, TeacherMerger or TeacherOutputs
            Fitted, or a fitted Pipeline that ends in one. The plot shows the teachers' names, or their indices and
            types.
        ax : matplotlib Axes, default=None
            Axes to plot on. None: a new figure.

        Returns
        -------
        display : ClassOverlapDisplay
        """
        holder, _ = unwrap(estimator)
        return overlap_of_space(holder.label_space_, labels_of(holder)).plot(ax)

    @classmethod
    def from_class_lists(cls, class_lists: Any, *, ax: Any = None) -> ClassOverlapDisplay:
        """Plot class lists before anything is fitted.

        Parameters
        ----------
        class_lists : list of lists, or dict of them by teacher name
            The classes of each teacher, with tuples and `OTHER` as in `LabelSpace`.
        ax : matplotlib Axes, default=None
            Axes to plot on. None: a new figure.

        Returns
        -------
        display : ClassOverlapDisplay
        """
        space = LabelSpace(class_lists)
        return overlap_of_space(space, labels_in(space)).plot(ax)

    def plot(self, ax: Any = None) -> ClassOverlapDisplay:
        """Plot. Up to 80 classes are named; more are only counted.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to plot on. None: a new figure.

        Returns
        -------
        display : ClassOverlapDisplay
            This display.
        """
        N, L = self.mask.shape
        beside = text_width(self.teacher_names) + 0.6
        width = min(WIDEST, max(4.5, beside + (0.42 if L <= 15 else 0.2) * L))
        below = text_width(self.classes) if L <= MOST_NAMED else 0.3
        ax = new_axes(ax, (width, max(2.4, 0.3 * N + below + (1.8 if self.sets.any() else 1.3))))
        self.ax_, self.figure_ = ax, ax.figure
        self.image_ = self._draw_cells()
        self._name_ticks((width - beside) / L)
        self._mark_groups()
        self._mark_sets()
        self._explain()
        return self

    def _draw_cells(self) -> Any:
        """Draw a cell per teacher and class, with white lines between cells if they are wide enough."""
        from matplotlib.colors import LinearSegmentedColormap

        N, L = self.mask.shape
        colors = LinearSegmentedColormap.from_list("known", [(0, UNKNOWN), (SET_SHADE, IN_SET), (1, KNOWN)])
        if L <= MOST_NAMED:
            self.ax_.set_xticks(np.arange(L + 1) - 0.5, minor=True)
        self.ax_.set_yticks(np.arange(N + 1) - 0.5, minor=True)
        self.ax_.grid(which="minor", color="white", linewidth=1.2)
        return self.ax_.imshow(self._shades()[:, self.order], cmap=colors, vmin=0, vmax=1, aspect="auto")

    def _name_ticks(self, cell: float) -> None:
        """Label teachers, and classes if there is room; a cell is `cell` inches wide."""
        classes = self.classes[self.order]
        self.ax_.tick_params(which="both", length=0)
        label_ticks(self.ax_.yaxis, self.teacher_names, upright=False)
        self.ax_.set(xlabel="class", ylabel="teacher")
        if len(classes) <= MOST_NAMED:
            label_ticks(self.ax_.xaxis, classes, upright=True if text_width(classes) > cell else None)
        else:
            self.ax_.set_xlabel(f"{len(classes)} classes, those of the same teachers side by side")

    def _shades(self) -> Any:
        """Return the values to draw; cells of OTHER are masked, so that the hatched background shows."""
        if not self.sets.any():
            return self.mask
        return np.ma.array(np.where(self.sets > 0, SET_SHADE, self.mask), mask=self.sets == IN_OTHER)

    def _mark_sets(self) -> None:
        """Draw the letters of the sets, and the hatching of OTHER."""
        self.texts_ = []
        if not self.sets.any():
            return
        self.ax_.patch.set(hatch="/////", facecolor="white", edgecolor=GUIDE, linewidth=0)
        sets = self.sets[:, self.order]
        if sets.shape[1] <= MOST_LETTERED:
            size = 8 if sets.shape[1] <= 15 else 6
            self.texts_ = [
                self.ax_.text(l, i, _letter(sets[i, l]), ha="center", va="center", fontsize=size)
                for i, l in np.argwhere(sets > 0)
            ]

    def _explain(self) -> None:
        """Add a legend of the colours above the plot."""
        from matplotlib.patches import Patch

        alone = "a column of its own" if self.sets.any() else "knows the class"
        kinds = {
            alone: (Patch(facecolor=KNOWN), self.mask & (self.sets == 0)),
            "one of a set (same letter: same set)": (Patch(facecolor=IN_SET), self.sets > 0),
            "one of OTHER": (
                Patch(facecolor="white", edgecolor=GUIDE, hatch="/////", linewidth=0),
                self.sets == IN_OTHER,
            ),
            "does not know it": (Patch(facecolor=UNKNOWN, edgecolor=GUIDE, linewidth=0.5), ~self.mask),
        }
        shown = {name: patch for name, (patch, where) in kinds.items() if where.any()}
        above = 1.02 if self.boundaries_ == [] else 1.1
        columns = 1 if self.sets.any() else 2  # side by side, they would be wider than a narrow plot
        look = {"loc": "lower left", "bbox_to_anchor": (0.0, above), "ncols": columns, "borderaxespad": 0.2}
        add_legend(self.ax_, list(shown.values()), list(shown), fontsize=8, frameon=False, **look)
        self.legend_ = self.ax_.get_legend()

    def _mark_groups(self) -> None:
        """Separate and number the groups that no teacher links."""
        groups = self.components[self.order]
        ends = np.flatnonzero(np.diff(groups)) + 0.5
        self.boundaries_ = [self.ax_.axvline(end, color=CONTRAST, linewidth=2, linestyle="--") for end in ends]
        if not self.boundaries_:
            return
        starts, stops = np.r_[-0.5, ends], np.r_[ends, len(groups) - 0.5]
        for number, (start, stop) in enumerate(zip(starts, stops, strict=True), 1):
            at = ((start + stop) / 2, 1.02)
            text = f"group {number}" if stop - start > len(groups) / 8 else str(number)
            place = self.ax_.get_xaxis_transform()
            self.ax_.text(*at, text, transform=place, ha="center", fontsize=8, color=CONTRAST)


def overlap_of_space(space: LabelSpace, teacher_names: Sequence[str]) -> ClassOverlapDisplay:
    """Return the display of a label space, without drawing it."""
    sets = np.zeros(space.mask.shape, dtype=int)
    for i, (labels, block) in enumerate(zip(space.class_lists, space.blocks, strict=True)):
        number = 0
        for k, label in zip(range(block.start, block.stop), labels.tolist(), strict=True):
            if label is OTHER or isinstance(label, tuple):
                number += label is not OTHER
                members = space.members[space.offsets[k] : space.offsets[k + 1]]
                sets[i, members] = IN_OTHER if label is OTHER else number
    return ClassOverlapDisplay(
        space.mask, classes=space.classes, teacher_names=teacher_names, sets=sets, components=space.components
    )


def _letter(number: int) -> str:
    """Return a, b, c, ... for 1, 2, 3, ...; above 26, the number."""
    return chr(ord("a") + number - 1) if number <= 26 else str(number)


def _check_sets(sets: Any, mask: NDArray[np.bool_]) -> NDArray[np.int_]:
    array = np.zeros(mask.shape, dtype=int) if sets is None else np.asarray(sets, dtype=int)
    if array.shape != mask.shape:
        raise ValueError(f"sets has the shape {array.shape} and mask {mask.shape}: they must be the same.")
    if array.min() < IN_OTHER or (array.astype(bool) & ~mask).any():
        raise ValueError("sets must be -1 (OTHER), 0 or the number of a set, and 0 where the mask is False.")
    return array


def _check_mask(mask: Any) -> NDArray[np.bool_]:
    array = np.asarray(mask, dtype=bool)
    if array.ndim != 2 or not array.size:
        raise ValueError(f"mask must have the shape (teachers, classes), got {array.shape}.")
    for axis, what in ((1, "teacher"), (0, "class")):
        empty = np.flatnonzero(~array.any(axis=axis))
        if len(empty):
            where = "row" if axis else "column"
            raise ValueError(f"{where} {empty[0]} of the mask is all False: a {what} without any cannot be in a merge.")
    return array
