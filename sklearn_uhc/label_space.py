"""Which teacher knows which class: the union of class lists, its blocks and its connected components."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components

__all__ = ["OTHER", "LabelSpace"]

_FAMILIES = {"U": "strings", "T": "strings", "S": "bytes", "b": "booleans", "i": "numbers", "u": "numbers"}


class _Other:
    """What `OTHER` is: one object, in every process and after every copy."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "OTHER"

    def __reduce__(self) -> str:
        return "OTHER"


#: In a class list: "none of my other classes".
OTHER = _Other()


class LabelSpace:
    """The classes of all teachers together, and who knows which of them.

    Teacher outputs stand side by side in one array of K = sum of the list lengths
    columns; `blocks[i]` are the columns of teacher i and `columns[i]` says which of
    the L merged classes they mean.

    Parameters
    ----------
    class_lists : sequence of N sequences of labels, or dict of them by teachers' names
        For each teacher its classes, in the order of its output columns. Strings or
        numbers, but the same sort everywhere.

    Attributes
    ----------
    teacher_names : list of N str
        Names of the teachers; "teacher0", "teacher1", ... if they were given none.
    classes : ndarray of shape (L,)
        The union of all lists, sorted.
    class_lists : list of N ndarrays
        The lists as arrays.
    columns : list of N ndarrays of int
        `columns[i][j]` is the index in `classes` of the j-th class of teacher i.
    blocks : list of N slices
        The columns of teacher i among the K columns.
    mask : ndarray of bool, shape (N, L)
        True where teacher i knows class l (the paper's M, transposed).
    components : ndarray of int, shape (L,)
        Group of every class: two classes share a group if a chain of teachers links
        them. How probable one group is beside another cannot be told from the teachers.
    list_ids : ndarray of int, shape (N,)
        Teachers with the same number know the same classes, whatever their order.

    Examples
    --------
    >>> from sklearn_uhc import LabelSpace
    >>> space = LabelSpace([["cat", "dog"], ["dog", "cow"], ["ant", "bee"]])
    >>> space.classes.tolist()
    ['ant', 'bee', 'cat', 'cow', 'dog']
    >>> space.n_components
    2
    >>> print(space.describe())
    3 teachers, 5 classes, 2 groups of classes that no teacher links: {ant, bee}, {cat, cow, dog}
    """

    def __init__(
        self, class_lists: Iterable[Sequence[Any] | NDArray[Any]] | Mapping[str, Sequence[Any] | NDArray[Any]]
    ) -> None:
        self.is_named = isinstance(class_lists, Mapping)
        lists = list(class_lists.values()) if isinstance(class_lists, Mapping) else class_lists
        self.class_lists = _check_class_lists(lists)
        numbered = [f"teacher{i}" for i in range(len(self.class_lists))]
        self.teacher_names = [str(name) for name in class_lists] if isinstance(class_lists, Mapping) else numbered
        comparable = _of_one_type(self.class_lists)
        self.classes: NDArray[Any] = np.unique(np.concatenate(comparable))
        self.columns = [np.searchsorted(self.classes, labels) for labels in comparable]
        ends = np.cumsum([len(labels) for labels in self.class_lists]).tolist()
        self.blocks = [slice(start, end) for start, end in zip([0, *ends[:-1]], ends, strict=True)]
        self.mask = np.zeros((len(self.class_lists), len(self.classes)), dtype=bool)
        for i, columns in enumerate(self.columns):
            self.mask[i, columns] = True

    @property
    def n_teachers(self) -> int:
        """N, the number of class lists."""
        return len(self.class_lists)

    @property
    def n_classes(self) -> int:
        """L, the number of distinct classes."""
        return len(self.classes)

    @property
    def n_outputs(self) -> int:
        """K, the number of teacher output columns."""
        return self.blocks[-1].stop

    @property
    def output_names(self) -> NDArray[Any]:
        """Names of the K output columns, `<teacher>__<class>`."""
        named = zip(self.teacher_names, self.class_lists, strict=True)
        return np.asarray([f"{name}__{label}" for name, labels in named for label in labels], dtype=object)

    def called(self, i: int) -> str:
        """Return how messages call teacher i: by its name if it has one, else by its number."""
        return f"teacher {self.teacher_names[i]!r}" if self.is_named else f"teacher {i}"

    @cached_property
    def matrices(self) -> Any:
        """The same as arrays that solvers multiply with, a `solvers.blocks.Blocks`; made once."""
        from sklearn_uhc.solvers.blocks import Blocks

        return Blocks.from_label_space(self)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "matrices"}  # they can be made again

    @cached_property
    def components(self) -> NDArray[np.int_]:
        """Group of every class, numbered in the order of `classes`."""
        # A star around each teacher's first class links its whole list.
        hubs = np.concatenate([np.full(len(columns), columns[0]) for columns in self.columns])
        edges = (np.ones(len(hubs)), (hubs, np.concatenate(self.columns)))
        graph = coo_matrix(edges, shape=(self.n_classes, self.n_classes))
        labels: NDArray[np.int_] = connected_components(graph, directed=False)[1].astype(int)
        return labels

    @property
    def n_components(self) -> int:
        """Number of groups of classes; 1 if the merged probability is identified."""
        return int(self.components.max()) + 1

    @cached_property
    def list_ids(self) -> NDArray[np.int_]:
        """Number of the set of classes that each teacher knows."""
        return np.unique(self.mask, axis=0, return_inverse=True)[1].reshape(-1)

    @property
    def is_shared(self) -> bool:
        """Whether all teachers know the same classes."""
        return bool(self.mask.all())

    @property
    def is_connected(self) -> bool:
        """Whether chains of shared classes link all classes."""
        return self.n_components == 1

    def groups(self) -> list[NDArray[Any]]:
        """Classes of each connected component."""
        return [self.classes[self.components == c] for c in range(self.n_components)]

    def describe(self) -> str:
        """Say in one line what the lists determine and what they do not."""
        size = f"{_count(self.n_teachers, 'teacher')}, {_count(self.n_classes, 'class', 'classes')}"
        if self.is_connected:
            lists = "one list shared by all" if self.is_shared else "all linked by shared classes"
            return f"{size}, {lists}"
        groups = ", ".join("{" + ", ".join(map(spelled, shorten(group))) + "}" for group in self.groups())
        return f"{size}, {self.n_components} groups of classes that no teacher links: {groups}"

    def __repr__(self) -> str:
        return f"<LabelSpace: {self.describe()}>"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, LabelSpace):
            return NotImplemented
        return len(self.class_lists) == len(other.class_lists) and all(
            a.tolist() == b.tolist() for a, b in zip(self.class_lists, other.class_lists, strict=True)
        )

    __hash__ = None  # type: ignore[assignment]  # equal by value, mutable arrays inside


def _check_class_lists(class_lists: Iterable[Sequence[Any] | NDArray[Any]]) -> list[NDArray[Any]]:
    """Turn class lists into 1-D arrays of one sort of label, or say which one is wrong."""
    check_is_list(class_lists)
    lists = [check_class_list(i, labels) for i, labels in enumerate(class_lists)]
    if not lists:
        raise ValueError("class_lists is empty: give one list of classes per teacher, for at least one teacher.")
    families = [_family(i, labels) for i, labels in enumerate(lists)]
    for i, family in enumerate(families):
        if family != families[0]:
            raise TypeError(
                f"Class labels of different types cannot be merged: class list 0 holds {families[0]} "
                f"({shorten(lists[0])}), class list {i} holds {family} ({shorten(lists[i])}). "
                "Rename the classes of one side with class_lists."
            )
    return lists


def check_is_list(class_lists: Any) -> None:
    """Refuse what has no order, or is no list of lists at all."""
    if isinstance(class_lists, (str, bytes, set, frozenset, dict)) or not isinstance(class_lists, Iterable):
        raise TypeError(f"class_lists must be a list with one list of classes per teacher, got {class_lists!r}.")
    if isinstance(class_lists, Iterator):
        raise TypeError(f"class_lists can be read only once, got {class_lists!r}: give list(class_lists).")


def check_class_list(i: int, labels: Any) -> NDArray[Any]:
    """Turn one class list into a 1-D array of one sort of label, or say what is wrong with it."""
    if isinstance(labels, (str, bytes, set, frozenset, dict)) or not isinstance(labels, Iterable):
        raise TypeError(f"Class list {i} must be an ordered list of classes, one per output column, got {labels!r}.")
    values = list(labels)
    # Only strings become a string array: np.asarray would also turn ["a", 1] into one.
    uniform = all(isinstance(value, str) for value in values) or not any(isinstance(v, str) for v in values)
    array = np.asarray(labels if hasattr(labels, "dtype") else values, dtype=None if uniform else object)
    if values and array.dtype.kind in "fO" and not hasattr(labels, "dtype") and _are_numbers(values):
        array = np.asarray(values, dtype=_exact_type(values))
    if array.ndim != 1:
        raise ValueError(f"Class list {i} must be one-dimensional, got an array of shape {array.shape}.")
    if len(array) == 0:
        raise ValueError(f"Class list {i} is empty: every teacher must know at least one class.")
    if _family(i, array) == "strings" and array.dtype.kind == "O":
        array = array.astype(str)
    unique, counts = np.unique(array, return_counts=True)
    if len(unique) < len(array):
        raise ValueError(
            f"Class list {i} repeats {shorten(unique[counts > 1])}: each class must stand once. If two output "
            "columns mean the same class, add their probabilities up in the teacher first."
        )
    return array


def _of_one_type(lists: list[NDArray[Any]]) -> list[NDArray[Any]]:
    """Return the lists in a type in which equal labels are equal, and different ones differ."""
    kinds = {labels.dtype.kind for labels in lists}
    if not kinds <= set("iuf") or np.result_type(*lists).kind != "f" or kinds == {"f"}:
        return lists
    exact = _exact_type([label for labels in lists for label in labels.tolist()])
    return [labels.astype(exact) for labels in lists]


def _are_numbers(values: Sequence[Any]) -> bool:
    return all(isinstance(value, (Integral, float, np.floating)) for value in values)


def _exact_type(values: Sequence[Any]) -> Any:
    """Return a type that holds numbers as they are: numpy rounds int64 beside uint64, and both beside fractions."""
    whole = [int(value) for value in values if isinstance(value, Integral)]
    if len(whole) < len(values):
        rounded = [value for value in whole if abs(value) >= 2**64 or float(value) != value]
        if rounded:
            raise ValueError(
                f"The classes {shorten(rounded)} are too large to stand beside classes with a decimal point, which "
                "numpy holds to 53 bits. Rename the classes of one side with class_lists."
            )
        return np.float64
    for kind in (np.int64, np.uint64):
        if np.iinfo(kind).min <= min(whole) and max(whole) <= np.iinfo(kind).max:
            return kind
    raise ValueError(
        f"No integer type of numpy holds all classes from {min(whole)} to {max(whole)}. Rename the classes of one "
        "side with class_lists."
    )


def _family(i: int, labels: NDArray[Any]) -> str:
    """Name the sort of labels in an array; mixed or unordered ones are an error."""
    kind = labels.dtype.kind
    if kind == "f" and np.isfinite(labels).all():
        return "numbers"
    if kind == "O" and all(isinstance(label, str) for label in labels):
        return "strings"
    if kind not in _FAMILIES:
        raise TypeError(
            f"Class list {i} must hold strings only or numbers only, got {shorten(labels)}. "
            "Give such classes one sort of name with class_lists."
        )
    return _FAMILIES[kind]


def spelled(label: Any) -> str:
    """Return a label as text, in quotes if it has blanks that would not be seen."""
    return repr(label) if isinstance(label, str) and label != " ".join(label.split()) else str(label)


def shorten(labels: Iterable[Any], most: int = 8) -> list[Any]:
    """Return the first few labels as plain Python values, for messages."""
    values = [label.item() if isinstance(label, np.generic) else label for label in labels]
    return values if len(values) <= most else [*values[:most], "..."]


def _count(n: int, one: str, many: str | None = None) -> str:
    return f"{n} {one if n == 1 else many or one + 's'}"
