"""What all plots share: axes to draw on, names of teachers, tick labels that stay readable."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any
from unicodedata import category

from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from sklearn_uhc.merging import TeacherMerger
from sklearn_uhc.teachers.holder import kind_of_teacher
from sklearn_uhc.teachers.teacher_outputs import TeacherOutputs

#: Longer names are cut: as tick labels, and elsewhere.
LONGEST_NAME, LONGEST_LINE = 22, 60
#: Names are no formulas: "$" in them is a dollar, a backslash a backslash.
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
    """Return what holds the teachers, the last step of a Pipeline, and X as it gets there; `merged`: it merges them."""
    while isinstance(estimator, Pipeline):
        X = X if X is None or len(estimator) == 1 else estimator[:-1].transform(X)
        estimator = estimator[-1]
    if not isinstance(estimator, TeacherMerger if merged else (TeacherMerger, TeacherOutputs)):
        kinds = "HeterogeneousDistiller or UnifiedEnsemble"
        kinds = kinds if merged else kinds.replace(" or", ",") + " or TeacherOutputs"
        raise TypeError(f"This plot takes a fitted {kinds}, or a Pipeline that ends in one, got {estimator!r}.")
    check_is_fitted(estimator, "label_space_")
    return estimator, X


def names_of_teachers(n: int, names: Sequence[str] | None = None, teachers: Sequence[Any] | None = None) -> list[str]:
    """Return one name per teacher: as given, else its number and kind, else its number."""
    if names is not None:
        if len(names) != n:
            raise ValueError(f"teacher_names has {len(names)} names for {n} teachers: give one for each.")
        return [str(name) for name in names]
    if teachers is not None:
        return [f"{i} {kind_of_teacher(teacher)}" for i, teacher in enumerate(teachers)]
    return [f"teacher {i}" for i in range(n)]


def printable(text: str) -> str:
    """Replace what neither plots nor pages can hold: control characters and halves of characters."""
    return "".join(
        c if category(c) not in ("Cc", "Cs") else " " if c.isspace() else "\N{REPLACEMENT CHARACTER}" for c in text
    )


def shorten(label: Any, most: int = LONGEST_NAME) -> str:
    """Return a label in one line, as short as a tick can take it."""
    text = printable(str(label))
    return text if len(text) <= most else text[: most - 1] + "…"


def name_axes(ax: Any, x: Any, y: Any) -> None:
    """Write names of a user's choice along both axes."""
    ax.set_xlabel(shorten(x, LONGEST_LINE), **AS_IT_IS)
    ax.set_ylabel(shorten(y, LONGEST_LINE), **AS_IT_IS)


def add_legend(ax: Any, artists: Sequence[Any], names: Sequence[Any], **look: Any) -> None:
    """Name what was drawn, as far as it has names."""
    named = [(artist, name) for artist, name in zip(artists, names, strict=True) if str(name)]
    if not named:
        return
    # Matplotlib leaves out labels that begin with "_" and reads "$": the names come in afterwards.
    legend = ax.legend([artist for artist, _ in named], [str(k) for k in range(len(named))], **look)
    for text, (_, name) in zip(legend.get_texts(), named, strict=True):
        text.set(text=shorten(name, LONGEST_LINE), **AS_IT_IS)


def label_ticks(axis: Any, labels: Iterable[Any], *, upright: bool | None = None) -> None:
    """Name the ticks 0, 1, ... of a matplotlib axis; many or long names get small letters and stand on end."""
    texts = [shorten(label) for label in labels]
    many = len(texts) > 15
    if upright is None:
        upright = many or len(texts) * max(map(len, texts)) > 60
    axis.set_ticks(range(len(texts)), texts, rotation=90 if upright else 0, fontsize=7 if many else 9, **AS_IT_IS)


def text_width(labels: Iterable[Any], size: float = 0.08) -> float:
    """Return about how many inches the longest label takes."""
    return size * max(len(shorten(label)) for label in labels)
