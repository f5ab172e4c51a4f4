"""Shared by all plots: axes, names of teachers, readable tick labels."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any
from unicodedata import category

from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from sklearn_uhc.answers import Answers
from sklearn_uhc.estimators.merged_classifier import MergedClassifier
from sklearn_uhc.estimators.merger import TeacherMerger
from sklearn_uhc.spaces.label_space import LabelSpace
from sklearn_uhc.teachers.teacher_outputs import TeacherOutputs

#: Estimators from which plots can get teachers.
HOLDERS = MergedClassifier, TeacherMerger, TeacherOutputs

#: Longer names are cut: in tick labels, and elsewhere.
LONGEST_NAME, LONGEST_LINE = 22, 60
#: Names are plain text: "$" and backslashes in them have no special meaning.
AS_IT_IS = {"parse_math": False, "usetex": False}


def new_axes(ax: Any, size: tuple[float, float]) -> Any:
    """Return `ax`, or the axes of a new figure of `size` inches."""
    if ax is not None:
        return ax
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError("Plots need matplotlib: pip install 'sklearn-uhc[plots]'.") from error
    return plt.subplots(figsize=size, layout="constrained")[1]


def unwrap(estimator: Any, X: Any = None, *, merged: bool = False) -> tuple[Any, Any]:
    """Return the estimator that calls the teachers, also in a Pipeline, and X for it; `merged`: it must be a merge."""
    while isinstance(estimator, Pipeline):
        X = X if X is None or len(estimator) == 1 else estimator[:-1].transform(X)
        estimator = estimator[-1]
    if not isinstance(estimator, (MergedClassifier, TeacherMerger) if merged else HOLDERS):
        kinds = "HeterogeneousDistiller, UnifiedEnsemble or TeacherMerger"
        kinds = kinds if merged else kinds.replace(" or", ",") + " or TeacherOutputs"
        raise TypeError(f"Pass a fitted {kinds}, or a Pipeline that ends in one, got {estimator!r}.")
    if isinstance(estimator, MergedClassifier):
        check_is_fitted(estimator, "merger_")
        return estimator.merger_, X
    check_is_fitted(estimator, "label_space_")
    return estimator, X


def teacher_answers(holder: Any, X: Any, remedy: str) -> Answers:
    """Return the answers of the teachers of a fitted merge or `TeacherOutputs`; `remedy` is for fits on `log_p`."""
    if getattr(holder, "teacher_outputs_", holder) is None:
        raise ValueError(f"fit was given log_p, so no teacher can be called: use {remedy}.")
    answers: Answers = holder.answers(X)
    return answers


def labels_of(holder: Any) -> list[str]:
    """Return the labels of the teachers of a fitted merge or `TeacherOutputs`."""
    return labels_in(holder.label_space_) if holder.roster_ is None else holder.roster_.labels()


def labels_in(space: LabelSpace) -> list[str]:
    """Return labels of teachers whose class lists alone are known: their names, or numbers."""
    return list(space.teacher_names) if space.is_named else [f"teacher {i}" for i in range(space.n_teachers)]


def names_of_teachers(n: int, names: Sequence[str] | None) -> list[str]:
    """Return one name per teacher: as passed, or its number."""
    if names is None:
        return [f"teacher {i}" for i in range(n)]
    if len(names) != n:
        raise ValueError(f"teacher_names has {len(names)} names for {n} teachers: pass one for each.")
    return [str(name) for name in names]


def printable(text: str) -> str:
    """Replace characters that plots and pages cannot show: control characters and lone surrogates."""
    return "".join(
        c if category(c) not in ("Cc", "Cs") else " " if c.isspace() else "\N{REPLACEMENT CHARACTER}" for c in text
    )


def one_line(label: Any, most: int = LONGEST_NAME) -> str:
    """Return a label on one line, cut to fit a tick."""
    text = printable(str(label))
    return text if len(text) <= most else text[: most - 1] + "…"


def name_axes(ax: Any, x: Any, y: Any) -> None:
    """Label both axes with names from the user."""
    ax.set_xlabel(one_line(x, LONGEST_LINE), **AS_IT_IS)
    ax.set_ylabel(one_line(y, LONGEST_LINE), **AS_IT_IS)


def add_legend(ax: Any, artists: Sequence[Any], names: Sequence[Any], **look: Any) -> None:
    """Add a legend for those artists that have names."""
    named = [(artist, name) for artist, name in zip(artists, names, strict=True) if str(name)]
    if not named:
        return
    # Matplotlib skips labels that begin with "_" and interprets "$", so the names are set afterwards.
    legend = ax.legend([artist for artist, _ in named], [str(k) for k in range(len(named))], **look)
    for text, (_, name) in zip(legend.get_texts(), named, strict=True):
        text.set(text=one_line(name, LONGEST_LINE), **AS_IT_IS)


def label_ticks(axis: Any, labels: Iterable[Any], *, upright: bool | None = None) -> None:
    """Label the ticks 0, 1, ... of an axis; many names get a small font, many or long ones are rotated."""
    texts = [one_line(label) for label in labels]
    many = len(texts) > 15
    if upright is None:
        upright = many or len(texts) * max(map(len, texts)) > 60
    axis.set_ticks(range(len(texts)), texts, rotation=90 if upright else 0, fontsize=7 if many else 9, **AS_IT_IS)


def text_width(labels: Iterable[Any], size: float = 0.08) -> float:
    """Return the approximate width of the longest label in inches."""
    return size * max(len(one_line(label)) for label in labels)
