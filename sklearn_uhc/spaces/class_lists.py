"""Checks of class lists: arrays of labels of one type, which may include tuples and OTHER."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sklearn_uhc.spaces.class_sets import flat_labels, holds_sets, normalize_sets

__all__ = ["check_class_list", "check_class_lists", "check_families", "check_is_list", "of_one_type", "shorten"]

_FAMILIES = {"U": "strings", "T": "strings", "S": "bytes", "b": "booleans", "i": "numbers", "u": "numbers"}


def check_class_lists(
    class_lists: Iterable[Sequence[Any] | NDArray[Any]], names: Iterable[Any] | None = None
) -> tuple[list[NDArray[Any]], list[NDArray[Any]]]:
    """Return the class lists as arrays, and the labels of each; raise an error that names the wrong list.

    Lists are numbered in messages, or called by their names.
    """
    check_is_list(class_lists)
    given = list(class_lists)
    which: Sequence[int | str] = range(len(given)) if names is None else [repr(name) for name in names]
    lists = [check_class_list(i, labels) for i, labels in zip(which, given, strict=True)]
    if not lists:
        raise ValueError("class_lists is empty: pass one list of classes per teacher, for at least one teacher.")
    flat = [_named(i, labels) for i, labels in zip(which, lists, strict=True)]
    check_families(flat, which)
    return lists, flat


def check_families(lists: list[NDArray[Any]], which: Sequence[int | str]) -> None:
    """Raise an error for lists with labels of different types."""
    families = [_family(i, labels) for i, labels in zip(which, lists, strict=True)]
    for i, labels, family in zip(which, lists, families, strict=True):
        if family != families[0]:
            raise TypeError(
                f"Class labels of different types cannot be merged: class list {which[0]} holds {families[0]} "
                f"({shorten(lists[0])}), class list {i} holds {family} ({shorten(labels)}). "
                "Rename the classes of one side with class_lists."
            )


def _named(i: int | str, labels: NDArray[Any]) -> NDArray[Any]:
    """Return the labels of a checked list, with sets split into their labels."""
    return check_class_list(i, flat_labels(i, labels.tolist())) if labels.dtype == object else labels


def check_is_list(class_lists: Any, name: str = "class_lists") -> None:
    """Raise an error for anything that is not an ordered list of lists; `name` is the argument in the message."""
    if isinstance(class_lists, (str, bytes, set, frozenset, dict)) or not isinstance(class_lists, Iterable):
        raise TypeError(f"{name} must be a list with one list of classes per teacher, got {class_lists!r}.")
    if isinstance(class_lists, Iterator):
        raise TypeError(f"{name} can be read only once, got {class_lists!r}: pass list({name}).")


def check_class_list(i: int | str, labels: Any) -> NDArray[Any]:
    """Return one class list as a 1-D array of labels of one type, or raise an error that says what is wrong.

    With sets, it is an array of labels, tuples and OTHER.
    """
    if isinstance(labels, (str, bytes, set, frozenset, dict)) or not isinstance(labels, Iterable):
        raise TypeError(f"Class list {i} must be an ordered list of classes, one per output column, got {labels!r}.")
    values = list(labels)
    if odd := [value for value in values if isinstance(value, (list, set, frozenset, dict))]:
        raise TypeError(
            f'Class list {i} has the entry {odd[0]!r}. An entry is a label, a tuple of labels ("one of these") or '
            f"OTHER: write a list or set of labels as a tuple{_as_tuple(odd[0])}."
        )
    if holds_sets(values):
        return normalize_sets(values, check_class_list(i, flat_labels(i, values)))
    array = _as_array(labels, values)
    if array.ndim != 1:
        raise ValueError(f"Class list {i} must be one-dimensional, got an array of shape {array.shape}.")
    if len(array) == 0:
        raise ValueError(f"Class list {i} is empty: every teacher must know at least one class.")
    if _family(i, array) == "strings" and array.dtype.kind == "O":
        array = array.astype(str)
    unique, counts = np.unique(array, return_counts=True)
    if len(unique) < len(array):
        raise ValueError(
            f"Class list {i} repeats {shorten(unique[counts > 1])}: each class may occur only once, alone or in a set. "
            "If two output columns mean the same class, add up their probabilities in the teacher first."
        )
    return array


def _as_array(labels: Any, values: list[Any]) -> NDArray[Any]:
    """Return labels as an array of one type that keeps them exactly."""
    # Only strings become a string array: np.asarray would also turn ["a", 1] into one.
    uniform = all(isinstance(value, str) for value in values) or not any(isinstance(v, str) for v in values)
    array = np.asarray(labels if hasattr(labels, "dtype") else values, dtype=None if uniform else object)
    if values and array.dtype.kind in "fO" and not hasattr(labels, "dtype") and _are_numbers(values):
        array = np.asarray(values, dtype=_exact_type(values))
    return array


def _as_tuple(labels: Any) -> str:
    return f", {tuple(labels)!r}" if isinstance(labels, list) else ""


def of_one_type(lists: list[NDArray[Any]]) -> list[NDArray[Any]]:
    """Return the lists in a common type that keeps equal labels equal and different labels different."""
    kinds = {labels.dtype.kind for labels in lists}
    if not kinds <= set("iuf") or np.result_type(*lists).kind != "f" or kinds == {"f"}:
        return lists
    exact = _exact_type([label for labels in lists for label in labels.tolist()])
    return [labels.astype(exact) for labels in lists]


def _are_numbers(values: Sequence[Any]) -> bool:
    return all(isinstance(value, (Integral, float, np.floating)) for value in values)


def _exact_type(values: Sequence[Any]) -> Any:
    """Return a type that holds these numbers exactly: numpy rounds int64 next to uint64, and both next to floats."""
    whole = [int(value) for value in values if isinstance(value, Integral)]
    if len(whole) < len(values):
        rounded = [value for value in whole if abs(value) >= 2**64 or float(value) != value]
        if rounded:
            raise ValueError(
                f"The classes {shorten(rounded)} are too large to be merged with classes that have a decimal point, "
                "which numpy stores with 53 bits. Rename the classes of one side with class_lists."
            )
        return np.float64
    for kind in (np.int64, np.uint64):
        if np.iinfo(kind).min <= min(whole) and max(whole) <= np.iinfo(kind).max:
            return kind
    raise ValueError(
        f"No integer type of numpy holds all classes from {min(whole)} to {max(whole)}. Rename the classes of one "
        "side with class_lists."
    )


def _family(i: int | str, labels: NDArray[Any]) -> str:
    """Return the kind of labels in an array; raise an error for mixed or unsortable labels."""
    kind = labels.dtype.kind
    if kind == "f" and np.isfinite(labels).all():
        return "numbers"
    if kind == "O" and all(isinstance(label, str) for label in labels):
        return "strings"
    if kind not in _FAMILIES:
        raise TypeError(
            f"Class list {i} must hold strings only or numbers only, got {shorten(labels)}. "
            "Use class_lists to give them names of one type."
        )
    return _FAMILIES[kind]


def shorten(labels: Iterable[Any], most: int = 8) -> list[Any]:
    """Return the first few labels as plain Python values, for messages."""
    values = [label.item() if isinstance(label, np.generic) else label for label in labels]
    return values if len(values) <= most else [*values[:most], "..."]
