"""Plot of the soft labels that the student is trained on."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_array

from sklearn_uhc.answers import to_numpy
from sklearn_uhc.inspection.plots._drawing import label_ticks, new_axes, teacher_answers, text_width, unwrap
from sklearn_uhc.inspection.plots.style import CONTRAST, INK, MAIN, SECOND
from sklearn_uhc.merging.balance import balanced_targets, class_weights
from sklearn_uhc.utils.rows import in_range, take_rows

__all__ = ["SoftLabelDisplay"]

#: With more classes, bars have no numbers.
MOST_NUMBERED = 20


class SoftLabelDisplay:
    """Distribution of the soft labels that a student is trained on, and the effect of balance.

    Parameters
    ----------
    soft_labels : array-like of shape (n, L)
        Rows sum to 1.
    classes : array-like of shape (L,), default=None
        Names of the columns. None: their indices.
    class_weight : array-like of shape (L,), default=None
        Class weights. None: 1 / mean soft label, which balances these rows.
    sample_weight : array-like of shape (n,), default=None
        Weights of the rows.
    temperature : float, default=None
        Temperature of the soft labels, shown in the histogram of entropy.

    Attributes
    ----------
    class_weight : ndarray of shape (L,)
        Class weights, scaled to mean 1 over the rows.
    mean, balanced_mean : ndarray of shape (L,)
        Mean soft label, as merged and balanced. The balanced mean is 1 / L for every class if the weights come from
        these rows.
    top, balanced_top : ndarray of shape (L,)
        Share of rows whose most probable class this is, as merged and balanced.
    entropy, balanced_entropy : ndarray of shape (n,)
        Entropy of every row divided by log L: 0 is certain, 1 is uniform.
    artists_ : list
        One set of bars (`kind="mean"`), two sets of bars, or two histograms.
    ax_ : matplotlib Axes
        The axes of the plot.
    figure_ : matplotlib Figure
        The figure of the plot.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_uhc.inspection import SoftLabelDisplay
    >>> Q = np.array([[0.6, 0.3, 0.1], [0.7, 0.1, 0.2]])
    >>> display = SoftLabelDisplay(Q, classes=["ant", "bee", "cat"]).plot()
    >>> [round(float(bar.get_height()), 2) for bar in display.artists_[0]]
    [0.65, 0.2, 0.15]
    """

    def __init__(
        self,
        soft_labels: Any,
        *,
        classes: Any = None,
        class_weight: Any = None,
        sample_weight: Any = None,
        temperature: float | None = None,
    ) -> None:
        Q = check_array(soft_labels, dtype=np.float64, input_name="soft_labels")
        if (Q < 0).any() or not np.allclose(Q.sum(axis=1), 1, atol=1e-3):
            raise ValueError("soft_labels must hold probabilities: rows that are not negative and sum to 1.")
        self.classes = np.arange(Q.shape[1]) if classes is None else np.asarray(classes)
        if len(self.classes) != Q.shape[1]:
            raise ValueError(f"classes names {len(self.classes)} classes for {Q.shape[1]} columns of soft labels.")
        rows = np.ones(len(Q)) if sample_weight is None else in_range(np.asarray(sample_weight, dtype=float))
        weight = class_weights(Q, rows) if class_weight is None else np.asarray(class_weight, dtype=float)
        targets, weights = balanced_targets(Q, weight, rows)
        self.mean, self.top, self.entropy = _summary(Q, rows)
        self.class_weight, self.temperature = weight / (weight @ self.mean), temperature
        self.balanced_mean = np.average(targets, axis=0, weights=weights)
        _, self.balanced_top, self.balanced_entropy = _summary(targets, rows)

    @classmethod
    def from_estimator(cls, estimator: Any, X: Any, *, kind: str = "mean", ax: Any = None) -> SoftLabelDisplay:
        """Merge the teachers of a fitted distiller, ensemble or merger on X, and plot.

        Parameters
        ----------
        estimator : HeterogeneousDistiller, UnifiedEnsemble or TeacherMerger
            Fitted, or a fitted Pipeline that ends in one. Its `class_weight_` is used if it has one, else the class
            weights of X.
        X : array-like with n rows
            Unlabelled data. Rows that no teacher answers for are left out, since no student learns from them.
        kind : {"mean", "top", "entropy"}, default="mean"
            What to plot, see `plot`.
        ax : matplotlib Axes, default=None
            Axes to plot on. None: a new figure.

        Returns
        -------
        display : SoftLabelDisplay
        """
        holder, X = unwrap(estimator, X, merged=True)
        last = estimator[-1] if isinstance(estimator, Pipeline) else estimator
        if getattr(last, "backprop", False):
            raise ValueError("Direct backpropagation makes no soft labels to plot: fit with backprop=False.")
        stored = "SoftLabelDisplay(Q, classes=classes_) with the soft labels Q of TeacherMerger.fit_transform"
        answers = teacher_answers(holder, X, stored)
        if not answers.answered.any():
            raise ValueError("No teacher answers for any row of X: there are no soft labels to plot.")
        rows = np.flatnonzero(answers.answered)
        Q = to_numpy(holder.merge(holder.adjust(answers, X).take(rows), take_rows(X, rows)))
        weight = getattr(last, "class_weight_", None)
        T = getattr(holder.method_, "temperature", None)
        return cls(Q, classes=holder.classes_, class_weight=weight, temperature=T).plot(ax, kind=kind)

    def plot(self, ax: Any = None, *, kind: str = "mean") -> SoftLabelDisplay:
        """Plot.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to plot on. None: a new figure.
        kind : {"mean", "top", "entropy"}, default="mean"
            "mean": the mean soft label of every class, with the class weight from balance.
            "top": the share of rows in which a class is the most probable one, as merged and balanced. "entropy": a
            histogram of the entropy of the rows; a higher temperature increases all of them.

        Returns
        -------
        display : SoftLabelDisplay
            This display.
        """
        if kind not in ("mean", "top", "entropy"):
            raise ValueError(f"kind must be 'mean', 'top' or 'entropy', got {kind!r}.")
        L = len(self.classes)
        width = 6.0 if kind == "entropy" else max(5.0, (0.5 if L <= 15 else 0.2) * L + 1)
        height = 3.2 if kind == "entropy" else 3.0 + text_width(self.classes, 0.05)
        self.ax_ = new_axes(ax, (width, height))
        self.figure_ = self.ax_.figure
        draw = {"mean": self._draw_means, "top": self._draw_choices, "entropy": self._draw_entropy}
        self.artists_ = draw[kind]()
        self.ax_.spines[["top", "right"]].set_visible(False)
        self.ax_.legend(fontsize=8, frameon=False, ncols=3, loc="lower center", bbox_to_anchor=(0.5, 1.0))
        return self

    def _draw_means(self) -> list[Any]:
        """Draw a bar per class with its weight on top."""
        bars = self.ax_.bar(np.arange(len(self.classes)), self.mean, 0.7, color=MAIN)
        if len(self.classes) <= MOST_NUMBERED:
            self.ax_.bar_label(bars, [f"×{weight:.2g}" for weight in self.class_weight], padding=2, fontsize=8)
            self.ax_.margins(y=0.12)
        self._name_classes("mean soft label (× weight)")
        return [bars]

    def _draw_choices(self) -> list[Any]:
        """Draw two bars per class, before and after balancing."""
        x = np.arange(len(self.classes))
        bars = [
            self.ax_.bar(x - 0.2, self.top, 0.4, color=MAIN, label="as merged"),
            self.ax_.bar(x + 0.2, self.balanced_top, 0.4, color=SECOND, label="balanced"),
        ]
        self._name_classes("share of rows with this top class")
        return bars

    def _name_classes(self, ylabel: str) -> None:
        """Label classes and axes, and draw the line of equal classes."""
        L = len(self.classes)
        self.ax_.axhline(1 / L, color=INK, linewidth=1, linestyle=":", label="all classes alike")
        self.ax_.set_xlim(-0.7, L - 0.3)
        label_ticks(self.ax_.xaxis, self.classes)
        self.ax_.set(xlabel="class", ylabel=ylabel)

    def _draw_entropy(self) -> list[Any]:
        """Draw two histograms, one filled, one as a line."""
        edges = np.linspace(0, 1, 31)
        at = "" if self.temperature is None else f" at T = {self.temperature:g}"
        filled = self.ax_.hist(self.entropy, edges, color=MAIN, alpha=0.5, label=f"as merged{at}")[2]
        line = self.ax_.hist(self.balanced_entropy, edges, histtype="step", color=CONTRAST, lw=1.8, label="balanced")[2]
        self.ax_.set(xlabel="entropy, from 0 (certain) to 1 (uniform)", ylabel="rows")
        return [filled, line]


def _summary(Q: NDArray[Any], rows: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Return mean soft label, share of rows by most probable class, and entropy of each row relative to its maximum."""
    L = Q.shape[1]
    top = np.bincount(Q.argmax(axis=1), weights=rows, minlength=L) / rows.sum()
    logs = np.log(Q, where=Q > 0, out=np.zeros_like(Q))
    entropy = -(Q * logs).sum(axis=1) / np.log(max(L, 2))
    return np.average(Q, axis=0, weights=rows), top, np.clip(entropy, 0, 1)
