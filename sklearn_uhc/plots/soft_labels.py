"""What the student is taught, as a picture."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_array

from sklearn_uhc.answers import to_numpy
from sklearn_uhc.balance import balanced_targets, class_weights
from sklearn_uhc.plots._drawing import label_ticks, new_axes, teacher_answers, text_width, unwrap
from sklearn_uhc.utils.rows import in_range

__all__ = ["SoftLabelDisplay"]


class SoftLabelDisplay:
    """What a student is taught: how much of every class the soft labels hold, as they are and balanced.

    Parameters
    ----------
    soft_labels : array-like of shape (n, L)
        Rows on the simplex.
    classes : array-like of shape (L,), default=None
        Names of the columns. None: their numbers.
    class_weight : array-like of shape (L,), default=None
        Weights of the classes. None: 1 / mean soft label, which balances these rows.
    sample_weight : array-like of shape (n,), default=None
        Weights of the rows.

    Attributes
    ----------
    mean, balanced_mean : ndarray of shape (L,)
        Mean soft label, and its mean as a student with balance counts it: 1 / L for every class if the weights are
        those of these rows.
    top, balanced_top : ndarray of shape (L,)
        Share of rows whose most probable class this is, as they are and balanced.
    entropy, balanced_entropy : ndarray of shape (n,)
        Entropy of every row divided by log L: 0 is certain, 1 knows nothing.
    artists_ : list
        What was drawn: two sets of bars, or two histograms.
    ax_ : matplotlib Axes
        Where it was drawn.
    figure_ : matplotlib Figure
        Its figure.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_uhc import SoftLabelDisplay
    >>> Q = np.array([[0.6, 0.3, 0.1], [0.7, 0.1, 0.2]])
    >>> display = SoftLabelDisplay(Q, classes=["ant", "bee", "cat"]).plot()
    >>> [round(float(bar.get_height()), 2) for bar in display.artists_[0]]
    [0.65, 0.2, 0.15]
    """

    def __init__(
        self, soft_labels: Any, *, classes: Any = None, class_weight: Any = None, sample_weight: Any = None
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
        self.balanced_mean = np.average(targets, axis=0, weights=weights)
        _, self.balanced_top, self.balanced_entropy = _summary(targets, rows)

    @classmethod
    def from_estimator(cls, estimator: Any, X: Any, *, kind: str = "mean", ax: Any = None) -> SoftLabelDisplay:
        """Merge the teachers of a fitted distiller, ensemble or merger on X and draw.

        Parameters
        ----------
        estimator : HeterogeneousDistiller, UnifiedEnsemble or TeacherMerger
            Fitted, or a Pipeline that ends in one. Its `class_weight_` balances, if it has them; else those of X.
        X : array-like with n rows
            Unlabelled data. Rows for which no teacher answers are left out, as no student learns from them.
        kind : {"mean", "top", "entropy"}, default="mean"
            What to draw, see `plot`.
        ax : matplotlib Axes, default=None
            Where to draw. None: a new figure.

        Returns
        -------
        display : SoftLabelDisplay
        """
        holder, X = unwrap(estimator, X, merged=True)
        last = estimator[-1] if isinstance(estimator, Pipeline) else estimator
        if getattr(last, "backprop", False):
            raise ValueError("Direct backpropagation makes no soft labels to draw: fit with backprop=False.")
        stored = "SoftLabelDisplay(soft_labels_, classes=classes_), having fitted with store_soft_labels=True"
        answers = teacher_answers(holder, X, stored)
        if not answers.heard.any():
            raise ValueError("No teacher answers for any row of X: there are no soft labels to draw.")
        adjusted = holder.adjust(answers, X).take(np.flatnonzero(answers.heard))
        Q = to_numpy(holder.method_.transform_answers(adjusted))
        weight = getattr(last, "class_weight_", None)
        return cls(Q, classes=holder.classes_, class_weight=weight).plot(ax, kind=kind)

    def plot(self, ax: Any = None, *, kind: str = "mean") -> SoftLabelDisplay:
        """Draw.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw. None: a new figure.
        kind : {"mean", "top", "entropy"}, default="mean"
            The mean soft label of every class, the share of rows in which it is the most probable one, or a histogram
            of the rows' entropy; each as it is and balanced.

        Returns
        -------
        display : SoftLabelDisplay
            Itself.
        """
        if kind not in ("mean", "top", "entropy"):
            raise ValueError(f"kind must be 'mean', 'top' or 'entropy', got {kind!r}.")
        L = len(self.classes)
        width = 6.0 if kind == "entropy" else max(5.0, (0.5 if L <= 15 else 0.2) * L + 1)
        height = 3.2 if kind == "entropy" else 3.0 + text_width(self.classes, 0.05)
        self.ax_ = new_axes(ax, (width, height))
        self.figure_ = self.ax_.figure
        if kind == "entropy":
            self.artists_ = self._draw_entropy()
        else:
            self.artists_ = self._draw_bars(getattr(self, kind), getattr(self, f"balanced_{kind}"))
            self.ax_.set_ylabel("mean soft label" if kind == "mean" else "share of rows that choose it")
        self.ax_.spines[["top", "right"]].set_visible(False)
        self.ax_.legend(fontsize=8, frameon=False, ncols=3, loc="lower center", bbox_to_anchor=(0.5, 1.0))
        return self

    def _draw_bars(self, plain: NDArray[Any], balanced: NDArray[Any]) -> list[Any]:
        """Draw two bars per class, told apart in black and white, and where all classes would be alike."""
        x = np.arange(len(self.classes))
        bars = [
            self.ax_.bar(x - 0.2, plain, 0.4, color="0.75", edgecolor="black", linewidth=0.5, label="as merged"),
            self.ax_.bar(x + 0.2, balanced, 0.4, color="0.2", edgecolor="black", linewidth=0.5, label="balanced"),
        ]
        self.ax_.axhline(1 / len(x), color="black", linewidth=1, linestyle=":", label="all classes alike")
        self.ax_.set_xlim(-0.7, len(x) - 0.3)
        label_ticks(self.ax_.xaxis, self.classes)
        self.ax_.set_xlabel("class")
        return bars

    def _draw_entropy(self) -> list[Any]:
        """Draw two histograms, one filled, one as a line."""
        edges = np.linspace(0, 1, 31)
        filled = self.ax_.hist(self.entropy, edges, color="0.75", label="as merged")[2]
        line = self.ax_.hist(self.balanced_entropy, edges, histtype="step", color="black", lw=1.5, label="balanced")[2]
        self.ax_.set(xlabel="entropy, from 0 (sure) to 1", ylabel="rows")
        return [filled, line]


def _summary(Q: NDArray[Any], rows: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Mean soft label, share of rows by most probable class, entropy of every row relative to the most there is."""
    L = Q.shape[1]
    top = np.bincount(Q.argmax(axis=1), weights=rows, minlength=L) / rows.sum()
    logs = np.log(Q, where=Q > 0, out=np.zeros_like(Q))
    entropy = -(Q * logs).sum(axis=1) / np.log(max(L, 2))
    return np.average(Q, axis=0, weights=rows), top, np.clip(entropy, 0, 1)
