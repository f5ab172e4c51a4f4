"""Add, replace or remove teachers of a fitted merge, without calling the others again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from sklearn_uhc.estimators.merger import TeacherMerger
from sklearn_uhc.labels import is_labelled, labelled_part
from sklearn_uhc.spaces.class_lists import shorten
from sklearn_uhc.teachers.roster import name_teachers
from sklearn_uhc.utils.rows import count_rows, some_rows, take_rows

if TYPE_CHECKING:
    from sklearn_uhc.estimators.merged_classifier import MergedClassifier

#: Parameters with an entry per teacher.
PER_TEACHER = ("class_lists", "membership")
#: Rows on which answers before and after are compared, besides labelled ones: the share that moved is known to 2 %.
COMPARED = 1000


@dataclass(frozen=True)
class MergeUpdate:
    """What an update of a merge changed.

    Attributes
    ----------
    called : list of str
        The teachers whose answers were not kept from the last fit: they were called, or read from the store.
    added, replaced, removed : lists of str
        Names of teachers; empty if teachers have no names.
    classes_gained, classes_lost : lists
        Classes that only one of both merges knows.
    moved : float or None
        Share of the rows, of about 1,000 if there are more, that get another class than before; None if that is not
        known without calling teachers.
    accuracy : tuple of two floats, or None
        On the labelled rows, before and after; None without labels. If `fit` was given these labels, it has learned
        from them.
    """

    called: list[str]
    added: list[str]
    replaced: list[str]
    removed: list[str]
    classes_gained: list[Any]
    classes_lost: list[Any]
    moved: float | None
    accuracy: tuple[float, float] | None

    def __str__(self) -> str:
        said = [
            f"Called {len(self.called)} teacher(s): {shorten(self.called)}." if self.called else "Called no teacher."
        ]
        for what in ("added", "replaced", "removed", "classes_gained", "classes_lost"):
            if found := getattr(self, what):
                said.append(f"{what.replace('_', ' ').capitalize()}: {shorten(found)}.")
        if self.moved is not None:
            said.append(f"{self.moved:.1%} of the rows get another class.")
        if self.accuracy is not None:
            said.append(
                "Accuracy on the labelled rows, which fit learns from: {:.3f} before, {:.3f} now.".format(
                    *self.accuracy
                )
            )
        return " ".join(said)


def update(clf: MergedClassifier, teachers: Any, X: Any, y: Any, sample_weight: Any) -> MergeUpdate:
    """Fit a classifier again with other teachers; see `MergedClassifier.update`."""
    outputs = clf.merger_.teacher_outputs_
    if outputs is None:
        raise ValueError("update needs teachers, but fit was given log_p: fit again with the new answers.")
    kept = outputs._kept
    if X is None:
        if kept is None:
            raise ValueError(
                "update needs the rows of fit, which are not kept in pickles, with Dask, or if answers take more than "
                "256 MiB: pass them as X. With a store, only new teachers are called."
            )
        X, y = kept.X, _labels_of_fit(clf) if y is None else y
    new: Any = clone(clf)
    named = _set_teachers(new, teachers)
    new._earlier = outputs
    new.fit(X, y, sample_weight=sample_weight)
    del new._earlier
    n = count_rows(X)
    rows = np.arange(n)[some_rows(n, COMPARED)]
    if y is not None:
        rows = np.union1d(rows, np.flatnonzero(is_labelled(y, new.classes_)))
    same_rows = kept is not None and X is kept.X
    before = _predictions(clf, X, rows) if same_rows or hasattr(clf, "student_") else None
    report = MergeUpdate(
        [new.merger_.roster_.called(i) for i in new.merger_.teacher_outputs_.called_],
        *named,
        np.setdiff1d(new.classes_, clf.classes_).tolist(),
        np.setdiff1d(clf.classes_, new.classes_).tolist(),
        *_compare(before, _predictions(new, X, rows), rows, y, new.classes_),
    )
    clf.__dict__.update(vars(new))
    return report


def _compare(
    before: NDArray[Any] | None, after: NDArray[Any] | None, rows: NDArray[np.int_], y: Any, classes: NDArray[Any]
) -> tuple[float | None, tuple[float, float] | None]:
    """Return the share of rows whose class changed, and both accuracies on labelled rows; None if not known."""
    if before is None or after is None:
        return None, None
    moved = float(np.mean(before != after))
    if y is None:
        return moved, None
    _, right, known = labelled_part(rows, take_rows(y, rows), classes)
    return moved, (float(np.mean(before[known] == right)), float(np.mean(after[known] == right)))


def _labels_of_fit(clf: MergedClassifier) -> NDArray[Any] | None:
    """Return y as `fit` was given it, with None for rows without a label."""
    labels = clf.merger_.labels_
    if labels is None:
        return None
    y = np.full(labels.n, None, dtype=object)
    y[labels.rows] = labels.classes[labels.codes]
    return y


def _predictions(clf: Any, X: Any, rows: NDArray[np.int_]) -> NDArray[Any] | None:
    """Return the classes of some rows of a fit without calling teachers; None if their answers are not kept."""
    if hasattr(clf, "student_"):
        return np.asarray(clf.predict(take_rows(X, rows)))
    if clf.merger_.teacher_outputs_._kept is None:
        return None
    proba = clf._proba(clf.merger_.answers_of_fit().take(rows), take_rows(X, rows))
    return np.asarray(clf.classes_[proba.argmax(axis=1)])


def _set_teachers(new: Any, teachers: Any) -> tuple[list[str], list[str], list[str]]:
    """Set the teachers of a clone; return the names that are added, replaced, removed."""
    inner = new.teachers if isinstance(new.teachers, TeacherMerger) else new
    names, found = name_teachers(inner.teachers)
    if not isinstance(teachers, Mapping):
        inner.set_params(teachers=teachers)
        return [], [], []
    if names is None:
        raise ValueError("The teachers of this merge have no names, so a dict cannot change some: pass a list of all.")
    return _set_named(new, inner, dict(zip(names, found, strict=True)), teachers)


def _set_named(
    new: Any, inner: Any, current: dict[str, Any], teachers: Mapping[str, Any]
) -> tuple[list[str], list[str], list[str]]:
    """Set some of the teachers by name, None for those to remove."""
    names, removed = list(current), [name for name, teacher in teachers.items() if teacher is None]
    if wrong := set(removed) - set(names):
        raise ValueError(f"There is no teacher {shorten(wrong)} to remove; the teachers are {shorten(names)}.")
    for holder in {id(each): each for each in (inner, new)}.values():
        holder.set_params(**{name: _by_name(getattr(holder, name), names, removed) for name in PER_TEACHER})
    inner.set_params(teachers={k: v for k, v in {**current, **teachers}.items() if v is not None})
    replaced = [name for name in names if name not in removed and inner.teachers[name] is not current[name]]
    return [name for name in inner.teachers if name not in current], replaced, removed


def _by_name(entries: Any, names: list[str], removed: list[str]) -> Any:
    """Return entries of teachers by name, without those that are removed."""
    if entries is None or isinstance(entries, str):
        return entries
    found = entries if isinstance(entries, Mapping) else dict(zip(names, entries, strict=True))
    return {name: entry for name, entry in found.items() if name not in removed}
