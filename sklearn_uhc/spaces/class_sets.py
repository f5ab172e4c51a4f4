"""Entries of a class list that mean several classes: a tuple is "one of these", OTHER is "none of my other classes"."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "OTHER",
    "flat_labels",
    "holds_sets",
    "members_of",
    "name_of_entry",
    "normalize_sets",
    "plain_entries",
    "refuse_sets",
    "same_entry",
]

#: Number of members of a set that its name includes.
MOST_SPELLED = 6


class _Other:
    """In a class list: "none of my other classes". A single object, in every process and in every copy.

    Examples
    --------
    >>> from sklearn_uhc import OTHER, LabelSpace
    >>> LabelSpace([["cat", "dog", OTHER], ["dog", "eel"]]).classes.tolist()
    ['cat', 'dog', 'eel']
    """

    __slots__ = ()

    def __repr__(self) -> str:
        return "OTHER"

    def __reduce__(self) -> str:
        return "OTHER"


#: In a class list: "none of my other classes".
OTHER = _Other()


def is_missing(label: Any) -> bool:
    """Return whether a label is None, NaN or pandas.NA."""
    return label is None or type(label).__name__ in ("NAType", "NaTType") or bool(label != label)


def holds_sets(values: Iterable[Any]) -> bool:
    """Return whether a class list has a tuple or OTHER."""
    return any(issubclass(kind, (tuple, _Other)) for kind in set(map(type, values)))  # long lists have few types


def flat_labels(i: int | str, values: Sequence[Any]) -> list[Any]:
    """Return the labels of a class list with sets, flattened; OTHER has none."""
    if sum(value is OTHER for value in values) > 1:
        raise ValueError(
            f"Class list {i} has OTHER more than once: add up the probabilities of these columns in the teacher."
        )
    if () in [value for value in values if isinstance(value, tuple)]:
        raise ValueError(f"Class list {i} has an empty set, (): every column must stand for at least one class.")
    flat = [label for value in values if value is not OTHER for label in _members(value)]
    if not flat:
        raise ValueError(f"Class list {i} has only OTHER: it must name at least one class.")
    if holds_sets(flat):
        what = "OTHER within a set" if OTHER in flat else "a set within a set"
        raise ValueError(
            f"Class list {i} has {what}: a set is a tuple of labels. OTHER stands for all classes that the list does "
            "not name, and must be an entry of its own."
        )
    return flat


def normalize_sets(values: Sequence[Any], flat: NDArray[Any]) -> NDArray[Any]:
    """Return a class list as an array of labels, tuples and OTHER, with the labels of `flat`; a set of one is a label.

    Without any set, it returns `flat` itself.
    """
    labels = iter(flat.tolist())
    array = np.empty(len(values), dtype=object)
    for j, value in enumerate(values):
        members = () if value is OTHER else tuple(next(labels) for _ in _members(value))
        array[j] = members[0] if len(members) == 1 else members or OTHER
    return array if holds_sets(array) else flat


def members_of(labels: NDArray[Any], named: NDArray[np.int_], n_classes: int) -> list[NDArray[np.int_]]:
    """Return the sorted classes of every column; `named` are the classes of the flat list, in its order."""
    if labels.dtype != object:
        return list(named[:, None])
    ends = np.cumsum([0 if label is OTHER else len(_members(label)) for label in labels])
    unnamed = np.ones(n_classes, dtype=bool)
    unnamed[named] = False
    parts = [named[start:end] for start, end in zip([0, *ends[:-1].tolist()], ends.tolist(), strict=True)]
    sets = [part if len(part) == 1 else np.sort(part) for part in parts]
    return [np.flatnonzero(unnamed) if label is OTHER else own for label, own in zip(labels, sets, strict=True)]


def name_of_entry(entry: Any) -> str:
    """Return the name of a column: its label, the labels of a set joined by bars, or OTHER."""
    if not isinstance(entry, tuple):
        return str(entry)
    more = [f"and {len(entry) - MOST_SPELLED} more"] if len(entry) > MOST_SPELLED + 1 else []
    return "|".join([*map(str, entry[:MOST_SPELLED] if more else entry), *more])


def plain_entries(labels: NDArray[Any]) -> list[Any]:
    """Return a class list for tables: labels as they are, sets and OTHER as text."""
    return [name_of_entry(label) if isinstance(label, tuple) or label is OTHER else label for label in labels.tolist()]


def same_entry(a: Any, b: Any) -> bool:
    """Return whether two entries mean the same; the order of a set's labels does not matter."""
    return bool((set(a) == set(b)) if isinstance(a, tuple) and isinstance(b, tuple) else a == b)


def refuse_sets(class_lists: Sequence[NDArray[Any]]) -> None:
    """Raise an error if a class list has a tuple or OTHER, for methods that do not support them."""
    entries = [entry for labels in class_lists if labels.dtype == object for entry in labels]
    sets = [name_of_entry(entry) for entry in entries if isinstance(entry, tuple) or entry is OTHER]
    if sets:
        raise ValueError(
            f"MF-LU does not support columns that stand for several classes, such as {sets[0]!r}: use CE "
            "(method='ce') or MF-LF ('mf_lf'). If they come from membership scorers, membership=None also helps."
        )


def _members(entry: Any) -> tuple[Any, ...]:
    return entry if isinstance(entry, tuple) else (entry,)
