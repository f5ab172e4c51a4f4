"""Which teacher knows which class: the union of class lists, its blocks and its connected components."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_matrix, csr_array
from scipy.sparse.csgraph import connected_components

from sklearn_uhc.spaces.class_lists import (
    check_class_list,
    check_class_lists,
    check_families,
    check_is_list,
    of_one_type,
    shorten,
)
from sklearn_uhc.spaces.class_sets import OTHER, members_of, name_of_entry, same_entry
from sklearn_uhc.spaces.identification import Identification

__all__ = ["OTHER", "LabelSpace", "check_class_list", "check_is_list", "shorten"]

#: With more unknowns, computing the rank would take longer than many a merge: 1,000 take about two seconds.
MOST_UNKNOWNS = 1000


class Singles(NamedTuple):
    """Columns of a teacher that stand for one class."""

    columns: NDArray[np.int_]  #: among all K columns
    classes: NDArray[np.int_]  #: as indices in `classes`


class LabelSpace:
    """The classes of all teachers together, and which teacher knows which of them.

    The answers of all teachers are put side by side in one array. It has K columns, the
    sum of the list lengths; `blocks[i]` are the columns of teacher i. A column stands for
    one class, or for a set of classes ("one of these").

    Parameters
    ----------
    class_lists : sequence of N sequences, or dict of them by teacher name
        For each teacher, what its output columns stand for, in their order: a label, a
        tuple of labels ("one of these") or `OTHER` ("none of my other classes": all
        classes that this list does not name). Labels are strings or numbers, but of one
        type everywhere. The columns of one teacher must not have a class in common.
    universe : sequence of labels, default=None
        Additional classes that OTHER stands for although no list names them. They count
        only if a list has OTHER.

    Attributes
    ----------
    teacher_names : list of N str
        Names of the teachers; "teacher0", "teacher1", ... if they have none.
    classes : ndarray of shape (L,)
        All labels, alone or in a set, sorted.
    class_lists : list of N ndarrays
        The lists as arrays, of dtype object if they hold tuples or OTHER. A set of one
        class is that class.
    members : ndarray of int
        The classes, as indices into `classes`, of column 0, then those of column 1, ...
    offsets : ndarray of int, shape (K + 1,)
        `members[offsets[k]:offsets[k + 1]]` are the classes of column k.
    has_sets : bool
        Whether any column stands for more than one class.
    columns : list of N ndarrays of int
        `columns[i][j]` is the index in `classes` of the j-th class of teacher i. Raises an
        error if columns stand for sets.
    blocks : list of N slices
        The columns of teacher i among the K columns.
    mask : ndarray of bool, shape (N, L)
        True if class l is in a column of teacher i (the paper's M, transposed).
    named : ndarray of bool, shape (N, L)
        The same without OTHER.
    components : ndarray of int, shape (L,)
        Group of every class. Two classes share a group if a chain of teachers links
        them. The teachers do not determine relative probabilities between groups.
    list_ids : ndarray of int, shape (N,)
        Teachers with the same number know the same classes, in any order.

    Examples
    --------
    >>> from sklearn_uhc import OTHER, LabelSpace
    >>> space = LabelSpace([["cat", "dog"], ["dog", "cow"], ["ant", "bee"]])
    >>> space.classes.tolist()
    ['ant', 'bee', 'cat', 'cow', 'dog']
    >>> space.n_components
    2
    >>> print(space.describe())
    3 teachers, 5 classes, 2 groups of classes that no teacher links: {ant, bee}, {cat, cow, dog}

    A coarse class is a tuple of the classes that it covers.

    >>> space = LabelSpace([[("CD4 T", "CD8 T"), "B"], ["CD4 T", OTHER]])
    >>> space.output_names.tolist()
    ['teacher0__CD4 T|CD8 T', 'teacher0__B', 'teacher1__CD4 T', 'teacher1__OTHER']
    >>> space.is_identified
    True
    """

    def __init__(
        self,
        class_lists: Iterable[Sequence[Any] | NDArray[Any]] | Mapping[str, Sequence[Any] | NDArray[Any]],
        *,
        universe: Sequence[Any] | NDArray[Any] | None = None,
    ) -> None:
        self.is_named = isinstance(class_lists, Mapping)
        lists = list(class_lists.values()) if isinstance(class_lists, Mapping) else class_lists
        self.class_lists, flat = check_class_lists(lists, class_lists if isinstance(class_lists, Mapping) else None)
        n = len(flat)
        numbered = [f"teacher{i}" for i in range(n)]
        self.teacher_names = [str(name) for name in class_lists] if isinstance(class_lists, Mapping) else numbered
        if universe is not None and any(
            OTHER in labels.tolist() for labels in self.class_lists if labels.dtype == object
        ):
            flat = [*flat, _check_universe(flat, universe)]
        comparable = of_one_type(flat)
        self.classes: NDArray[Any] = np.unique(np.concatenate(comparable))
        named = [np.searchsorted(self.classes, labels) for labels in comparable[:n]]
        self._set_columns(named)

    def _set_columns(self, named: list[NDArray[np.int_]]) -> None:
        """Set the meaning of the columns, from the classes that each list names."""
        N, L = len(self.class_lists), len(self.classes)
        sets = [members_of(labels, own, L) for labels, own in zip(self.class_lists, named, strict=True)]
        for i, columns in enumerate(sets):
            if not all(map(len, columns)):
                raise ValueError(
                    f"Class list {repr(self.teacher_names[i]) if self.is_named else i} names all {L} classes, so its "
                    "OTHER stands for none. Remove that column from the teacher's answers, write the name of a new "
                    "class in place of OTHER, or, in a merge, pass none_label, which OTHER then stands for."
                )
        ends = np.cumsum([len(own) for own in sets]).tolist()
        self.blocks = [slice(start, end) for start, end in zip([0, *ends[:-1]], ends, strict=True)]
        self.members: NDArray[np.int_] = np.concatenate([part for own in sets for part in own])
        self.offsets: NDArray[np.int_] = np.cumsum([0, *(len(part) for own in sets for part in own)])
        self.has_sets = len(self.members) > self.n_outputs
        self.mask, self.named = np.zeros((N, L), dtype=bool), np.zeros((N, L), dtype=bool)
        for i, (own, block) in enumerate(zip(named, self.blocks, strict=True)):
            self.named[i, own] = True
            self.mask[i, self.members[self.offsets[block.start] : self.offsets[block.stop]]] = True

    def restrict(self, teachers: Sequence[int] | NDArray[np.int_]) -> LabelSpace:
        """Return the label space of some of the teachers. Every column keeps its meaning.

        OTHER remains "all classes of this space that the list does not name".

        Parameters
        ----------
        teachers : sequence of int
            Indices of the teachers, in the order wanted.

        Returns
        -------
        space : LabelSpace
            Its classes are those in a column of one of these teachers.
        """
        return LabelSpace([self.class_lists[i] for i in teachers], universe=self.classes)

    def complete(self) -> tuple[LabelSpace, NDArray[np.int_]]:
        """Return the label space in which every teacher has an additional column for each class it leaves out.

        Returns
        -------
        space : LabelSpace
        columns : ndarray of int
            For each of its columns the column here, or K for new ones.
        """
        missing = [self.classes[~own].tolist() for own in self.mask]
        lists = [[*own.tolist(), *more] for own, more in zip(self.class_lists, missing, strict=True)]
        new = [np.full(len(more), self.n_outputs) for more in missing]
        parts = zip(self.blocks, new, strict=True)
        columns = np.concatenate([np.append(np.arange(block.start, block.stop), more) for block, more in parts])
        return LabelSpace(lists, universe=self.classes), columns.astype(int)

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
        names = zip(self.teacher_of.tolist(), self.column_names, strict=True)
        return np.asarray([f"{self.teacher_names[i]}__{name}" for i, name in names], dtype=object)

    @property
    def column_names(self) -> list[str]:
        """What the K columns stand for: a class, the classes of a set joined by bars, or OTHER."""
        return [name_of_entry(label) for labels in self.class_lists for label in labels]

    def called(self, i: int) -> str:
        """Return how messages refer to teacher i: by name if it has one, else by number."""
        return f"teacher {self.teacher_names[i]!r}" if self.is_named else f"teacher {i}"

    def once(self, name: str, make: Callable[[], Any]) -> Any:
        """Return what others derive from this label space; it is computed on first use, and not pickled.

        Parameters
        ----------
        name : str
            What is derived.
        make : function without arguments
            Computes it.

        Returns
        -------
        value : object
        """
        if name not in self._derived:
            self._derived[name] = make()
        return self._derived[name]

    @cached_property
    def _derived(self) -> dict[str, Any]:
        return {}

    def __getstate__(self) -> dict[str, Any]:
        again = ("_derived", "identification")  # they can be recreated
        return {name: value for name, value in vars(self).items() if name not in again}

    @property
    def teacher_of(self) -> NDArray[np.int_]:
        """(K,), the teacher of every column."""
        return np.repeat(np.arange(self.n_teachers), [len(labels) for labels in self.class_lists])

    @property
    def set_sizes(self) -> NDArray[np.int_]:
        """(K,), the number of classes of every column."""
        return np.diff(self.offsets)

    @property
    def columns(self) -> list[NDArray[np.int_]]:
        """The class of every column, teacher by teacher."""
        if self.has_sets:
            raise ValueError("Columns of this label space mean sets of classes: use members and offsets.")
        return [self.members[block] for block in self.blocks]

    def singles(self, i: int) -> Singles:
        """Return the columns of teacher i that stand for one class, among the K columns, and their classes."""
        block = self.blocks[i]
        columns = np.arange(block.start, block.stop)[self.set_sizes[block] == 1]
        return Singles(columns, self.members[self.offsets[columns]])

    @cached_property
    def components(self) -> NDArray[np.int_]:
        """Group of every class, numbered in the order of `classes`."""
        # A star around each teacher's first class links its whole list; a single column says nothing about its classes.
        linking = [np.flatnonzero(own) for own, block in zip(self.mask, self.blocks, strict=True) if _length(block) > 1]
        hubs = np.concatenate([np.full(len(own), own[0]) for own in linking] or [np.zeros(0, dtype=int)])
        edges = (np.ones(len(hubs)), (hubs, np.concatenate(linking or [hubs])))
        graph = coo_matrix(edges, shape=(self.n_classes, self.n_classes))
        labels: NDArray[np.int_] = connected_components(graph, directed=False)[1].astype(int)
        return labels

    @property
    def n_components(self) -> int:
        """Number of groups of classes; 1 if the merged probability is identified."""
        return int(self.components.max()) + 1

    @cached_property
    def identification(self) -> Identification:
        """What consistent answers determine, in numbers."""
        shape = (self.n_outputs, self.n_classes)
        inside = csr_array((np.ones(len(self.members)), self.members, self.offsets), shape=shape)
        return Identification(inside, self.teacher_of, self.components)

    @property
    def rank(self) -> int:
        """Rank of the linear system q(S_k) = p_k q(U_i) that consistent answers satisfy, for q in general position.

        U_i is the union of the sets S_k of teacher i. With rank L - 1 the answers determine q.
        """
        return self.identification.rank if self.has_sets else self.n_classes - self.n_components

    @property
    def rank_bound(self) -> int:
        """The rank, or, if many classes occur in sets only, an upper bound that costs nothing."""
        return self.rank if self.rank_is_cheap else self.n_classes - self.n_components

    @property
    def rank_is_cheap(self) -> bool:
        """Whether computing the rank takes little time: without sets, or if few classes occur in sets only."""
        return not self.has_sets or self.identification.n_unknowns <= MOST_UNKNOWNS

    @property
    def is_identified(self) -> bool:
        """Whether consistent answers determine q: all classes are linked, and sets distinguish them all."""
        return self.rank == self.n_classes - 1

    @property
    def leaves_open(self) -> bool:
        """Whether `rank_bound` shows that sets leave probabilities within a group of linked classes undetermined."""
        return self.rank_bound < self.n_classes - self.n_components

    def undetermined(self) -> NDArray[Any]:
        """Return the classes whose probability within their group is not determined because of sets."""
        return self.classes[self.identification.touched] if self.has_sets else self.classes[:0]

    def never_apart(self) -> list[NDArray[Any]]:
        """Return groups of classes that are in the same columns everywhere and therefore get equal shares."""
        return [self.classes[group] for group in self.identification.never_apart]

    def in_one_set(self) -> list[tuple[Any, int]]:
        """Return classes that are named in one set of one teacher only, with that teacher; none of `never_apart`."""
        column_of = np.repeat(np.arange(self.n_outputs), self.set_sizes)
        owner = self.teacher_of[column_of]
        once = self.named.sum(axis=0) == 1
        once[[label for group in self.identification.never_apart for label in group]] = False
        at = np.flatnonzero(once[self.members] & self.named[owner, self.members] & (self.set_sizes[column_of] > 1))
        owners = owner[at]
        return list(zip(self.classes[self.members[at]].tolist(), owners.tolist(), strict=True))

    def condition(self, q: Any = None) -> float:
        """Return how much errors of the teachers may be amplified in q.

        The condition is the largest over the smallest nonzero singular value of the derivative of the teachers'
        log-odds by the log-odds of q. If it is a hundred or more, some classes are linked to others only by a long
        chain of teachers, or only through large sets.

        Parameters
        ----------
        q : array-like of shape (L,), default=None
            Where to take the derivative. None means that all classes are equally probable.

        Returns
        -------
        condition : float
            At least 1. Infinite if something that is determined for most q is not determined at this one.
        """
        identified = self.identification
        if q is None:
            return identified.condition
        q = np.asarray(q, dtype=float)
        if q.shape != (self.n_classes,) or not (np.isfinite(q) & (q > 0)).all():
            raise ValueError(f"q must be {self.n_classes} positive numbers, one for each class, got {q.tolist()}.")
        return identified.condition_at(q)

    def membership(self) -> NDArray[np.bool_]:
        """(K, L), the classes of every column."""
        table = np.zeros((self.n_outputs, self.n_classes), dtype=bool)
        table[np.repeat(np.arange(self.n_outputs), self.set_sizes), self.members] = True
        return table

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
        """Describe in one line what the lists determine and what they do not."""
        size = f"{_count(self.n_teachers, 'teacher')}, {_count(self.n_classes, 'class', 'classes')}"
        if self.has_sets:
            n = int((self.set_sizes > 1).sum())
            size += f", {n} of {self.n_outputs} columns {'means a set' if n == 1 else 'mean sets'} of classes"
        if self.is_connected:
            same = "all cover the same classes" if self.has_sets else "one list shared by all"
            lists = same if self.is_shared else "all linked by shared classes"
            return f"{size}, {lists}{self._describe_sets()}"
        groups = ", ".join(map(_braces, self.groups()))
        return f"{size}, {self.n_components} groups of classes that no teacher links: {groups}{self._describe_sets()}"

    def _describe_sets(self) -> str:
        """Return what sets leave undetermined, as text."""
        if not self.has_sets:
            return ""
        apart = self.never_apart()
        never = f"never distinguished: {', '.join(map(_braces, apart))}" if apart else ""
        within = set(np.concatenate(apart).tolist()) if apart else set()
        left = self.undetermined().tolist() if self.leaves_open else []
        rest = [label for label in left if label not in within]
        open_ = f"not determined by their sets: {_braces(rest)}" if rest else ""
        text = ", ".join(filter(None, [never, open_]))
        return f"; {text}" if text else ""

    def __repr__(self) -> str:
        return f"<LabelSpace: {self.describe()}>"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, LabelSpace):
            return NotImplemented
        if list(map(len, self.class_lists)) != list(map(len, other.class_lists)):
            return False
        if self.classes.tolist() != other.classes.tolist():
            return False
        pairs = zip(self.class_lists, other.class_lists, strict=True)
        return all(same_entry(a, b) for own, its in pairs for a, b in zip(own.tolist(), its.tolist(), strict=True))

    __hash__ = None  # type: ignore[assignment]  # equal by value, mutable arrays inside


def _check_universe(flat: list[NDArray[Any]], universe: Any) -> NDArray[Any]:
    """Return additional classes as an array; raise an error if their type differs from that of the lists."""
    try:
        more = check_class_list(len(flat), universe)
        check_families([*flat, more], range(len(flat) + 1))
    except TypeError as error:
        raise TypeError(
            f"{shorten(universe)}, which OTHER is to stand for, must have the type of the classes, such as "
            f"{shorten(flat[0])}."
        ) from error
    return more


def spelled(label: Any) -> str:
    """Return a label as text, quoted if it has spaces that would not be visible."""
    return repr(label) if isinstance(label, str) and label != " ".join(label.split()) else str(label)


def _braces(labels: Iterable[Any]) -> str:
    return "{" + ", ".join(map(spelled, shorten(labels))) + "}"


def _length(block: slice) -> int:
    return int(block.stop - block.start)


def _count(n: int, one: str, many: str | None = None) -> str:
    return f"{n} {one if n == 1 else many or one + 's'}"
