"""Plot of how often teachers agree."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sklearn_uhc.answers import answers_given
from sklearn_uhc.evidence.metrics import agreement_of_pairs
from sklearn_uhc.inspection.plots._drawing import (
    label_ticks,
    labels_in,
    labels_of,
    names_of_teachers,
    new_axes,
    teacher_answers,
    text_width,
    unwrap,
)
from sklearn_uhc.inspection.plots.style import AGREEMENT_MAP
from sklearn_uhc.spaces.label_space import LabelSpace

__all__ = ["TeacherAgreementDisplay"]


class TeacherAgreementDisplay:
    """Heat map of how often two teachers choose the same class among those that both know, on unlabelled data.

    The less two teachers agree, the darker their cell. A teacher that disagrees with all others stands out as a dark
    row and column: it is wrong, its classes are misnamed, or the data are unlike its training data. See
    `sklearn_uhc.evidence.metrics.pairwise_agreement` for the numbers.

    Parameters
    ----------
    agreement : array-like of shape (N, N)
        Between 0 and 1. NaN or masked if two teachers cannot be compared.
    teacher_names : list of str, default=None
        Names of the teachers. None: their indices.

    Attributes
    ----------
    image_ : matplotlib AxesImage
        The agreement. The diagonal and pairs that cannot be compared are masked, and hatched.
    texts_ : list of matplotlib Text
        The numbers in the cells, for at most 20 teachers.
    colorbar_ : matplotlib Colorbar
        The color bar of the image.
    ax_ : matplotlib Axes
        The axes of the plot.
    figure_ : matplotlib Figure
        The figure of the plot.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_uhc.inspection import TeacherAgreementDisplay
    >>> log_p = np.log([[0.8, 0.2, 0.7, 0.3], [0.4, 0.6, 0.9, 0.1]])
    >>> display = TeacherAgreementDisplay.from_outputs(log_p, [["cat", "dog"], ["cat", "dog"]])
    >>> [text.get_text() for text in display.texts_]
    ['.50', '.50']
    """

    def __init__(self, agreement: Any, *, teacher_names: Sequence[str] | None = None) -> None:
        values: Any = np.ma.masked_invalid(np.ma.asarray(agreement, dtype=float))
        if values.ndim != 2 or values.shape[0] != values.shape[1]:
            raise ValueError(f"agreement must have the shape (teachers, teachers), got {values.shape}.")
        self.agreement = values
        self.teacher_names = names_of_teachers(len(values), teacher_names)

    @classmethod
    def from_estimator(cls, estimator: Any, X: Any, *, ax: Any = None) -> TeacherAgreementDisplay:
        """Call the teachers of a fitted distiller, ensemble, merger or `TeacherOutputs`, and plot their agreement.

        Parameters
        ----------
        estimator : HeterogeneousDistiller, UnifiedEnsemble, TeacherMerger or TeacherOutputs
            Fitted, or a fitted Pipeline that ends in one. The plot shows the teachers' names, or their indices and
            types.
        X : array-like with n rows
            Unlabelled data.
        ax : matplotlib Axes, default=None
            Axes to plot on. None: a new figure.

        Returns
        -------
        display : TeacherAgreementDisplay
        """
        holder, X = unwrap(estimator, X)
        answers = teacher_answers(holder, X, "from_outputs(log_p, class_lists)")
        return cls(agreement_of_pairs(answers), teacher_names=labels_of(holder)).plot(ax)

    @classmethod
    def from_outputs(
        cls,
        log_p: Any,
        class_lists: Any,
        *,
        sample_weight: NDArray[Any] | None = None,
        ax: Any = None,
    ) -> TeacherAgreementDisplay:
        """Plot the agreement of answers that you have computed already.

        Parameters
        ----------
        log_p : array-like of shape (n, K)
            Log-probabilities of the teachers, as returned by `TeacherOutputs`.
        class_lists : list of lists, or dict of them by teacher name
            Classes of each teacher, in the order of the blocks.
        sample_weight : ndarray of shape (n,), default=None
            Row weights.
        ax : matplotlib Axes, default=None
            Axes to plot on. None: a new figure.

        Returns
        -------
        display : TeacherAgreementDisplay
        """
        answers = answers_given(log_p, LabelSpace(class_lists), abstain=True)
        return cls(agreement_of_pairs(answers, sample_weight), teacher_names=labels_in(answers.space)).plot(ax)

    def plot(self, ax: Any = None, *, cmap: str = AGREEMENT_MAP) -> TeacherAgreementDisplay:
        """Plot. The colours range from 0 to 1, so plots can be compared.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to plot on. None: a new figure.
        cmap : str, default="OrRd_r"
            Color map of the agreement.

        Returns
        -------
        display : TeacherAgreementDisplay
            This display.
        """
        N = len(self.agreement)
        side = (0.5 if N <= 20 else 0.2) * N + text_width(self.teacher_names)
        ax = new_axes(ax, (max(4.5, side + 1.2), max(3.2, side)))
        self.ax_, self.figure_ = ax, ax.figure
        values = np.ma.array(self.agreement, copy=True)
        values[np.diag_indices(N)] = np.ma.masked  # a teacher agrees with itself
        self.image_ = ax.imshow(values, cmap=cmap, vmin=0, vmax=1, aspect="auto")
        ax.patch.set(hatch="////", facecolor="white", edgecolor="0.8", linewidth=0)
        label_ticks(ax.xaxis, self.teacher_names, upright=True if text_width(self.teacher_names) > 0.5 else None)
        label_ticks(ax.yaxis, self.teacher_names, upright=False)
        ax.tick_params(length=0)
        self.texts_ = self._write_numbers(values) if N <= 20 else []
        self.colorbar_ = self.figure_.colorbar(self.image_, ax=ax, label="agreement on shared classes")
        return self

    def _write_numbers(self, values: Any) -> list[Any]:
        """Write the agreement into each cell, in black or white, whichever is readable."""
        lightness = self.image_.to_rgba(np.ma.filled(values, 1.0))[..., :3] @ [0.299, 0.587, 0.114]
        return [
            self.ax_.text(
                column,
                row,
                f"{values[row, column]:.2f}".replace("0.", "."),
                ha="center",
                va="center",
                fontsize=8,
                color="white" if lightness[row, column] < 0.5 else "black",
            )
            for row, column in np.argwhere(~np.ma.getmaskarray(values))
        ]
