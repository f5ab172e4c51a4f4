"""Read y: which rows have a label, and which class it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import assert_all_finite, check_consistent_length, column_or_1d
from sklearn.utils.multiclass import check_classification_targets

from sklearn_uhc.labels.judges import refuse_judges
from sklearn_uhc.spaces.class_lists import shorten
from sklearn_uhc.spaces.class_sets import OTHER
from sklearn_uhc.utils.missing import is_missing
from sklearn_uhc.utils.notes import warn_user

#: Maximum number of labelled rows that weights are learnt from and checks are made on: more change next to nothing, and
#: classifiers of them are fitted five times.
MOST_ROWS = 3000
#: Text of missing values in numpy's string arrays, such as np.where(known, names, np.nan).
TEXT_OF_NOTHING = {"nan", "None", "<NA>", "NaT", ""}


@dataclass(frozen=True, eq=False)
class Labels:
    """The rows of a transfer set whose classes are known.

    Parameters
    ----------
    rows : ndarray of int, shape (m,)
        Which rows have a label.
    codes : ndarray of int, shape (m,)
        Their classes, as indices in `classes`.
    classes : ndarray of shape (L,)
        All classes, sorted: those of the teachers, and those that only y names.
    new : ndarray of bool, shape (L,)
        Which of them only y names.
    n : int
        Rows of the transfer set, labelled or not.
    same_index : bool, default=True
        False if X and y are of pandas, with different indices.
    """

    rows: NDArray[np.int_]
    codes: NDArray[np.int_]
    classes: NDArray[Any]
    new: NDArray[np.bool_]
    n: int
    same_index: bool = True

    def __len__(self) -> int:
        return len(self.rows)

    def one_hot(self, doubt: float) -> NDArray[np.float64]:
        """Return (m, L): the labels as probabilities, mixed with a small share of the uniform distribution."""
        L = len(self.classes)
        return np.eye(L)[self.codes] * (1 - doubt) + doubt / L


def is_labelled(y: Any, classes: Sequence[Any] | NDArray[Any] = ()) -> NDArray[np.bool_]:
    """Tell which entries of y are labels: not None, NaN or pandas' NA, and not -1 unless that is a class.

    Parameters
    ----------
    y : array-like of shape (n,)
        Labels of some rows.
    classes : sequence of labels, default=()
        The classes there are; -1 (or the text "-1") among them is a label.

    Returns
    -------
    labelled : ndarray of bool, shape (n,)
    """
    values = as_array(y)
    labelled = ~is_missing(values) if values.dtype.kind in "OfM" else np.ones(len(values), dtype=bool)
    for mark in {-1, "-1"} - set(np.asarray(classes).tolist()):
        if values.dtype.kind == "O" or (values.dtype.kind == "U") == isinstance(mark, str):
            labelled[labelled] = values[labelled] != mark
    return labelled


def read_labels(
    y: Any, X: Any, classes: NDArray[Any], *, foreign: str = "raise", sets: Mapping[Any, str] | None = None
) -> Labels | None:
    """Return the labels of the rows that have one, or None if no row does; say what is wrong with y.

    Parameters
    ----------
    y : array-like of shape (n,) or None
        Labels of some rows, or of all; None, NaN or -1 for the others.
    X : array-like with n rows, or None
        The rows.
    classes : ndarray of shape (L,)
        The teachers' classes.
    foreign : {"raise", "ignore"}, default="raise"
        What to do with a y that has no class in common with the teachers.
    sets : dict of label to str, default=None
        The teachers' own names of columns that mean sets of classes, and what they mean: they are no classes.

    Returns
    -------
    labels : Labels or None
    """
    if y is None:
        return None
    _refuse_sets(y)
    same_index = _same_index(X, y)
    y = column_or_1d(as_array(y), warn=True)
    if X is not None:
        check_consistent_length(X, y)
    known = is_labelled(y, classes)
    if y.dtype.kind in "iuU" and not known.all():
        refuse_judges()
    if not known.any():
        return None
    values = known_values(y, known)
    if values.dtype.kind in "iufb":
        assert_all_finite(values, input_name="y")
    if values.dtype.kind == "f" and (values != np.round(values)).any():
        check_classification_targets(values)  # of whole numbers it would say that they may be a regression problem
    if values.dtype.kind == "b" and classes.dtype.kind != "b":
        if foreign == "ignore":
            return None
        raise ValueError(
            f"y holds True and False, but the teachers know {_some(classes)}: pass the classes of the rows, with None, "
            "NaN or -1 for rows without a label. If y says which rows have one: np.where(y, labels, None)."
        )
    _refuse_names_of_sets(values, classes, sets or {})
    if not set(values.tolist()) & set(classes.tolist()):
        if foreign == "ignore":
            return None
        raise ValueError(
            f"No teacher knows any class of y: y has {_some(values)}, the teachers know {_some(classes)}. Use the "
            "same names, or rename the teachers' classes with class_lists. To add a class that no teacher knows, label "
            "some rows of known classes too. Some scikit-learn tools number the classes before they call fit: leave y "
            "out there, it is not needed."
        )
    _refuse_ambiguous(y, known, classes)
    return replace(_coded(values, known, classes), same_index=same_index)


def _refuse_names_of_sets(values: NDArray[Any], classes: NDArray[Any], sets: Mapping[Any, str]) -> None:
    """Raise an error for a teacher's own name of a column that means a set."""
    if found := set(values.tolist()) & set(sets) - set(classes.tolist()):
        name = min(found, key=str)
        raise ValueError(
            f"y has the label {name!r}, which is no class of the merge: {sets[name]}. Pass None for such rows, or the "
            "finer class if you know it."
        )


def _refuse_sets(y: Any) -> None:
    """Raise an error if labels are sets of classes, as in class lists."""
    values = y if _of_objects(y) else ()
    sets = [v for v in values if v is OTHER or (isinstance(v, tuple) and len(v) != 1)]
    if sets:
        raise TypeError(
            f"y has the label {sets[0]!r}, but a label is one class, not a set or OTHER: pass None for rows of which "
            "you do not know the class."
        )


def _same_index(X: Any, y: Any) -> bool:
    """Return whether X and y have the same index, if both have one."""
    of_X: Any = getattr(X, "index", None)
    of_y: Any = getattr(y, "index", None)
    return not (hasattr(of_X, "equals") and hasattr(of_y, "equals")) or bool(of_X.equals(of_y))


def _of_objects(y: Any) -> bool:
    """Return whether y may have labels of any type."""
    return isinstance(y, (list, tuple)) or str(getattr(y, "dtype", "")) == "object"


def as_array(y: Any) -> NDArray[Any]:
    """Return y as a one-dimensional array; of objects if its type has its own missing values."""
    if hasattr(y, "to_numpy") and not isinstance(getattr(y, "dtype", None), np.dtype):
        return np.asarray(y.to_numpy(dtype=object) if hasattr(y, "isna") else y.to_numpy())
    array = np.asarray(y)
    mixed = array.dtype.kind == "U" and isinstance(y, (list, tuple))  # numpy turns numbers among strings into strings
    return np.asarray(y, dtype=object) if mixed else array


def known_values(y: Any, known: NDArray[np.bool_]) -> NDArray[Any]:
    """Return the known labels, as strings or numbers if they are all of one type."""
    values = as_array(y)[known]
    if values.dtype != object:
        return values
    kinds = {issubclass(kind, str) for kind in set(map(type, values.tolist()))}
    return np.asarray(values.tolist()) if len(kinds) == 1 else values


def _coded(values: NDArray[Any], known: NDArray[np.bool_], classes: NDArray[Any]) -> Labels:
    """Return labels as indices into all classes, including those that only y has."""
    new = _new_classes(set(values.tolist()) - set(classes.tolist()), classes)
    union = np.unique(np.concatenate([classes, new])) if len(new) else classes
    codes = np.searchsorted(union, values.astype(union.dtype))
    return Labels(np.flatnonzero(known), codes, union, np.isin(union, new), len(known))


def _new_classes(new: set[Any], classes: NDArray[Any]) -> NDArray[Any]:
    """Return the classes that only y has, in the type of the teachers' classes; raise an error if they look wrong."""
    if not new:
        return classes[:0]
    texts = isinstance(classes.tolist()[0], str)
    if lost := sorted(new & TEXT_OF_NOTHING):
        raise ValueError(
            f"y has the string {lost[0]!r}, which numpy makes of a missing label among strings. Pass y as an "
            "object array, with None for unlabelled rows: np.where(known, names, None)."
        )
    if odd := [label for label in new if isinstance(label, str) != texts]:
        raise ValueError(
            f"y has {_some(odd)}, but the teachers' classes are {'strings' if texts else 'numbers'}, such as "
            f"{classes.tolist()[0]!r}: use the same type."
        )
    warn_user(
        f"y holds classes that no teacher knows: {_some(new)}. They are learned from their labelled rows alone. If "
        "they are other names for classes that a teacher knows, use the same names."
    )
    more = np.asarray(sorted(new))
    whole = classes.dtype.kind in "iu" and more.dtype.kind == "f" and (more == np.round(more)).all()
    return more.astype(classes.dtype if whole or classes.dtype == object else more.dtype)


def _refuse_ambiguous(y: NDArray[Any], known: NDArray[np.bool_], classes: NDArray[Any]) -> None:
    """Raise an error if -1 may be a class or "no label"; it is a class if others are None or NaN, or y has objects."""
    if not known.all() or y.dtype == object:
        return
    for mark in (-1, "-1"):
        if mark in classes.tolist() and mark in set(y.tolist()):
            raise ValueError(
                f"y has {mark!r}, which is one of the classes, but also how scikit-learn marks unlabelled rows. "
                "Mark unlabelled rows by None or NaN; if all rows are labelled, pass y.astype(object). If it is your "
                "none_label, you can also choose another one."
            )


def _some(labels: Any) -> list[Any]:
    """Return a few labels for a message, sorted if possible, and "..." if there are more."""
    found = set(labels.tolist() if isinstance(labels, np.ndarray) else labels)
    return shorten(sorted(found, key=lambda label: (isinstance(label, str), label)))
