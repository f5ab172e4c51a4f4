"""Class lists in one vocabulary: synonyms get one name, coarse classes become sets, "other" becomes `OTHER`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sklearn_uhc.spaces.class_sets import is_missing
from sklearn_uhc.spaces.label_space import OTHER, LabelSpace, check_is_list, shorten
from sklearn_uhc.spaces.taxonomy import Taxonomy
from sklearn_uhc.utils.notes import warn_user

__all__ = ["harmonize"]


@dataclass(frozen=True)
class NamedList:
    """One teacher's class list as plain Python values, with the teacher's name, or its position if it has none."""

    key: Any
    entries: list[Any]
    is_named: bool = False

    @property
    def name(self) -> str:
        """What the teacher is called in messages."""
        return f"Teacher {self.key!r}"

    @property
    def labels(self) -> list[Any]:
        """All labels, alone or in a set."""
        return [label for entry in self.entries for label in members(entry)]


def harmonize(
    teachers: Any,
    *,
    synonyms: Mapping[Any, Any] | Callable[[Any], Any] | None = None,
    taxonomy: Mapping[Any, Any] | None = None,
    other: Any = (),
    handle_unknown: str = "error",
) -> list[list[Any]] | dict[Any, list[Any]]:
    """Bring the class lists of several teachers into one vocabulary.

    Pass the result as `class_lists` to any estimator of this library. There are three steps, in this order:

    1. `synonyms` gives classes one name.
    2. Names in `other` become `OTHER`: "none of my other classes". A set cannot have such a name.
    3. `taxonomy` turns a coarse class into the tuple of finer classes that it stands for. The merged classes are the
       finest ones that some teacher knows; every coarser class becomes the set of those below it. A coarse class with
       one of them below it becomes that class, with a warning if the taxonomy has more that no teacher knows; one with
       none stays a class of its own.

    Nothing is guessed. See `suggest_harmonization` for names that may mean the same.

    Parameters
    ----------
    teachers : list of fitted classifiers, of lists of classes, or of (name, either) pairs; or dict of name: either
        For classifiers, `classes_` is used. Entries of a list are labels (strings or numbers), tuples of labels
        ("one of these") or `OTHER`. If a name means something else to one teacher, pass that teacher's list instead.
    synonyms : dict of {name: name to use} or callable, default=None
        A callable takes and returns a label, for example `str.casefold`. In a dict, names may be chained.
    taxonomy : dict of {parent: list of children}, default=None
        May have any depth: a child may be a parent elsewhere, and children may be a dict in turn. Like `other`, it may
        use the names before or after `synonyms`.
    other : label or list of labels, default=()
        Names that mean "none of my other classes". None: there are none.
    handle_unknown : {"error", "ignore"}, default="error"
        What to do with names in `synonyms`, `taxonomy` and `other` that no teacher has. Use "ignore" for tables that
        are larger than what the teachers know, such as an ontology. Misspelt names are then not detected.

    Returns
    -------
    class_lists : list of N lists, or dict of them by name if the teachers have names
        For each teacher one entry per output column, in the teacher's order: a label, a tuple of labels, or `OTHER`.

    See Also
    --------
    suggest_harmonization : Names and columns that may mean the same class, with evidence.

    Examples
    --------
    >>> from sklearn_uhc import harmonize
    >>> harmonize(
    ...     [["T cell", "B cell"], ["CD4 T", "CD8 T", "b_cell"], ["B cell", "CD8 T", "unknown"]],
    ...     synonyms={"b_cell": "B cell"},
    ...     taxonomy={"T cell": ["CD4 T", "CD8 T"]},
    ...     other="unknown",
    ... )
    [[('CD4 T', 'CD8 T'), 'B cell'], ['CD4 T', 'CD8 T', 'B cell'], ['B cell', 'CD8 T', OTHER]]
    """
    if handle_unknown not in ("error", "ignore"):
        raise ValueError(f'handle_unknown must be "error" or "ignore", got {handle_unknown!r}.')
    lists = read_lists(teachers)
    strict = handle_unknown == "error"
    if not callable(synonyms):
        _refuse_equal_names(lists)
    rename = _renamer(synonyms, lists, strict)
    renamed = [NamedList(own.key, [_map_entry(rename, entry) for entry in own.entries]) for own in lists]
    known = {label for own in renamed for label in own.labels}
    old = _OldNames(rename, {label for own in lists for label in own.labels}, known)
    others = _check_other(other, old, known, strict)
    tree = Taxonomy({} if taxonomy is None else taxonomy, old, known, strict)
    if both := others & tree.names:
        raise ValueError(f"{shorten(sorted(both, key=str))} are in both other and taxonomy: remove them from one.")
    for own, new in zip(lists, renamed, strict=True):
        _refuse_other_in_sets(own, new, others)
    result = [[_translate(entry, others, tree) for entry in own.entries] for own in renamed]
    for own, entries in zip(lists, result, strict=True):
        _refuse_overlap(own, entries, tree)
    _check_sorts(lists, result)
    _warn_of_only_parts(renamed, tree)
    return by_name(lists, result)


def read_lists(teachers: Any) -> list[NamedList]:
    """Return the class lists of teachers, or plain lists, with or without names."""
    if isinstance(teachers, LabelSpace):
        lists = teachers.class_lists
        teachers = dict(zip(teachers.teacher_names, lists, strict=True)) if teachers.is_named else lists
    if isinstance(teachers, Mapping):
        out = [NamedList(name, _entries(name, own), True) for name, own in teachers.items()]
    else:
        check_is_list(teachers, "teachers")
        items = [(*item, True) if is_pair(item) else (i, item, False) for i, item in enumerate(teachers)]
        out = [NamedList(key, _entries(key, own), named) for key, own, named in items]
    if not out:
        raise ValueError("No teachers were given: pass at least one class list.")
    keys = [own.key for own in out]
    if twice := [key for key in keys if keys.count(key) > 1]:
        raise ValueError(f"Two teachers are named {twice[0]!r}: names must be unique.")
    return out


def by_name(lists: Sequence[NamedList], results: Sequence[Any]) -> Any:
    """Return one result per teacher: a dict if all teachers have names, so that their order does not matter."""
    if not all(own.is_named for own in lists):
        return list(results)
    return dict(zip([own.key for own in lists], results, strict=True))


def _refuse_equal_names(lists: Sequence[NamedList]) -> None:
    """Raise an error for True or False of one teacher and 1 or 0 of another, which are equal in Python."""
    labels = [(own.name, label) for own in lists for label in own.labels]
    truths = {label: name for name, label in labels if isinstance(label, bool)}
    for name, label in labels:
        if not isinstance(label, (bool, str)) and label in truths:
            raise ValueError(
                f"{truths[label]} has {bool(label)} and {name} has {label!r}: Python takes these for the same name. "
                'Give the former other names: a list such as ["no", "yes"] in place of the teacher, or a function as '
                "synonyms."
            )


def members(entry: Any) -> tuple[Any, ...]:
    """Return the labels of an entry: those of a set, none of OTHER, or the label itself."""
    if entry is OTHER:
        return ()
    return entry if isinstance(entry, tuple) else (entry,)


def is_pair(item: Any) -> bool:
    """Return whether this is a pair of name and teacher; a tuple can also be a list of a class and a set."""
    return (
        isinstance(item, tuple)
        and len(item) == 2
        and isinstance(item[0], str)
        and (hasattr(item[1], "classes_") or isinstance(item[1], (list, np.ndarray)))
    )


def _entries(name: Any, own: Any) -> list[Any]:
    """Return one class list as plain values."""
    if isinstance(own, type) or (not hasattr(own, "classes_") and hasattr(own, "fit")):
        raise TypeError(
            f"Teacher {name!r} has no classes_: it is not fitted, or does not store its class names. Fit it, or pass "
            "its class list instead."
        )
    labels = getattr(own, "classes_", own)
    if isinstance(labels, (str, bytes, set, frozenset, Mapping)) or not isinstance(labels, Iterable):
        raise TypeError(f"Teacher {name!r} must be a fitted classifier or a list of its classes, got {own!r}.")
    entries = [_plain(entry) for entry in labels]
    if not entries:
        raise ValueError(f"The class list of teacher {name!r} is empty: every teacher must know at least one class.")
    for entry in entries:
        if not _is_entry(entry):
            raise TypeError(
                f"The class list of teacher {name!r} holds {entry!r}: an entry is a label, a tuple of labels "
                '("one of these", not a list or set) or OTHER, which stands alone.'
            )
        if missing := [label for label in members(entry) if is_missing(label)]:
            raise ValueError(
                f"The class list of teacher {name!r} holds {missing[0]!r}, which is no name of a class. If rows "
                "without a class were meant, remove it, or pass OTHER in its place."
            )
    return entries


def _is_entry(entry: Any) -> bool:
    """Return whether this is a label, a tuple of labels or OTHER."""
    parts = entry if isinstance(entry, tuple) else (entry,)
    nested = any(isinstance(part, (tuple, list, set, frozenset, dict, np.ndarray)) for part in parts)
    return entry is OTHER or (len(parts) > 0 and not nested and OTHER not in parts)


def _plain(entry: Any) -> Any:
    """Return a label, or the labels of a set, as plain Python values."""
    if isinstance(entry, tuple):
        return tuple(_plain(label) for label in entry)
    return entry.item() if isinstance(entry, np.generic) else entry


def _map_entry(function: Callable[[Any], Any], entry: Any) -> Any:
    if isinstance(entry, tuple):
        return tuple(dict.fromkeys(function(label) for label in entry))
    return entry if entry is OTHER else function(entry)


def _renamer(synonyms: Any, lists: Sequence[NamedList], strict: bool) -> Callable[[Any], Any]:
    """Return the function that maps a label to the name to use."""
    if synonyms is None:
        return lambda label: label
    if callable(synonyms):
        return _checked(synonyms)
    if not isinstance(synonyms, Mapping):
        raise TypeError(f"synonyms must be a dict of {{name: name to use}} or a function, got {synonyms!r}.")
    table = {_plain(old): _plain(new) for old, new in synonyms.items()}
    for old, new in table.items():
        _check_label(new, f"synonyms gives {old!r} the name")
    names = {label for own in lists for label in own.labels}
    unknown = [old for old in table if old not in names and old not in table.values()]
    if strict and unknown:
        raise ValueError(
            f"synonyms renames {shorten(unknown)}, but no teacher has such a class. The classes are "
            f"{shorten(sorted(names, key=str), 20)}. {_REMEDY}"
        )
    final = {old: _last_name(old, table) for old in table}
    return lambda label: final.get(label, label)


_REMEDY = 'Correct the spelling, remove the names, or pass handle_unknown="ignore".'


def _last_name(label: Any, table: Mapping[Any, Any]) -> Any:
    """Follow synonyms of synonyms."""
    seen = [label]
    while label in table and table[label] != label:
        label = table[label]
        if label in seen:
            circle = " -> ".join(map(repr, [*seen[seen.index(label) :], label]))
            raise ValueError(f"synonyms form a cycle: {circle}. Choose one of these names for all.")
        seen.append(label)
    return label


def _checked(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return a function of labels whose errors name the label that it failed for."""

    def rename(label: Any) -> Any:
        try:
            new = _plain(function(label))
        except Exception as error:
            raise TypeError(
                f"synonyms failed for the class {label!r} ({type(error).__name__}: {error}). The function must accept "
                "the label of any class and return a label."
            ) from error
        return _check_label(new, f"synonyms gives {label!r} the name")

    return rename


def _check_label(label: Any, whose: str) -> Any:
    if label is OTHER:
        raise TypeError(f"{whose} OTHER: pass such classes as other= instead.")
    if label is None:
        raise TypeError(f"{whose} None: a function must return a name for every class, its own to leave it unchanged.")
    if not isinstance(label, (str, int, float)):
        raise TypeError(f"{whose} {label!r}: a name must be a string or a number. Sets of classes belong in taxonomy=.")
    return label


class _OldNames:
    """Maps names from before the synonyms to names in use; names in use, and unknown names, are unchanged."""

    def __init__(self, rename: Callable[[Any], Any], old: set[Any], known: set[Any]) -> None:
        self.rename, self.old, self.known = rename, old, known

    def __call__(self, label: Any) -> Any:
        label = _plain(label)
        if label in self.known:
            return label
        if label in self.old:
            return self.rename(label)
        try:
            new = self.rename(label)
        except TypeError:  # synonyms may be a function of strings, and a parent a number
            return label
        return new if new in self.known else label


def _check_other(other: Any, old: _OldNames, known: set[Any], strict: bool) -> set[Any]:
    """Return the names that mean OTHER, after applying synonyms."""
    if isinstance(other, Mapping) or callable(other):
        raise TypeError(f"other must be a label or a list of labels, got {other!r}.")
    if other is None:
        return set()
    single = isinstance(other, (str, bytes)) or not isinstance(other, Iterable)
    names = {old(label) for label in ([other] if single else other)}
    if strict and (unknown := names - known):
        raise ValueError(
            f"other names {shorten(sorted(unknown, key=str))}, but no teacher has such a class. The classes are "
            f"{shorten(sorted(known, key=str), 20)}. {_REMEDY}"
        )
    return names


def _refuse_other_in_sets(own: NamedList, renamed: NamedList, others: set[Any]) -> None:
    """Raise an error if a set has a name that means OTHER next to others."""
    for old, entry in zip(own.entries, renamed.entries, strict=True):
        found = [label for label in members(entry) if label in others]
        if found and len(members(entry)) > 1:
            raise ValueError(
                f"{own.name}: its column {old!r} is a set that has {found[0]!r}, which means OTHER. OTHER stands for "
                "all classes that the list does not name, and must be an entry of its own. If the column means these "
                f"classes or any other, write OTHER alone. If not, remove {found[0]!r} from the set or from other=."
            )


def _translate(entry: Any, others: set[Any], tree: Taxonomy) -> Any:
    """Return the meaning of an entry: a label, a tuple of labels, or OTHER."""
    if entry is OTHER or others.issuperset(members(entry)):
        return OTHER
    found = {leaf for label in members(entry) for leaf in tree.leaves(label)}
    leaves = tuple(sorted(found, key=lambda leaf: (str(type(leaf)), leaf)))
    return leaves if len(leaves) > 1 else leaves[0]


def _refuse_overlap(own: NamedList, entries: Sequence[Any], tree: Taxonomy) -> None:
    """Raise an error if two columns of a teacher become the same class, or overlapping sets."""
    first: dict[Any, int] = {}
    for column, entry in enumerate(entries):
        for label in members(entry) or (OTHER,):
            if label in first:
                pair = [own.entries[c] for c in (first[label], column)]
                raise ValueError(f"{own.name}: {_about_pair(pair, entries, first[label], column, label, tree)}")
            first[label] = column


def _about_pair(pair: list[Any], entries: Sequence[Any], a: int, b: int, label: Any, tree: Taxonomy) -> str:
    """Return why two columns are in conflict, and what to do."""
    by_hand = "or pass this teacher's own list instead, with entries that say what its columns mean (a tuple is a set)"
    if entries[a] == entries[b]:
        above = label is not OTHER and all(label in tree.below(old) for entry in pair for old in members(entry))
        why = f" (in the taxonomy {label!r} is below them: its keys must be parents)" if above else ""
        return (
            f"its columns {pair[0]!r} and {pair[1]!r} both become {label!r}{why}, but every column needs a different "
            "meaning. If the teacher distinguishes them, do not give them one name. If they are the same, add up their "
            f"probabilities in the teacher first, {by_hand}."
        )
    parents = tree.parents_of(label)
    why = f" ({label!r} has several parents: {shorten(parents)})" if len(parents) > 1 else ""
    return (
        f"its columns {pair[0]!r} and {pair[1]!r} become {entries[a]!r} and {entries[b]!r}, which have {label!r} in "
        f"common{why}. Sets of one teacher must not overlap: correct the taxonomy, {by_hand}, for example what remains "
        "of the larger class."
    )


def _check_sorts(lists: Sequence[NamedList], result: Sequence[Sequence[Any]]) -> None:
    """Raise an error if labels are of different types, or if a teacher has only OTHER."""
    for own, entries in zip(lists, result, strict=True):
        if all(entry is OTHER for entry in entries):
            raise ValueError(f"{own.name} has only OTHER, {own.entries}: leave it out.")
    LabelSpace(by_name(lists, [[label for entry in entries for label in members(entry)] for entries in result]))


def _warn_of_only_parts(lists: Sequence[NamedList], tree: Taxonomy) -> None:
    """Warn of coarse classes that become their only known part, although the taxonomy has more parts."""
    for own in lists:
        for label in own.labels:
            if missing := tree.missing_beside_only_leaf(label):
                only = next(iter(tree.leaves(label)))
                warn_user(
                    f"{own.name}: {label!r} becomes {only!r}, the only class below it that a teacher has, although the "
                    f"taxonomy has {shorten(sorted(missing, key=str))} too. All its rows then count as {only!r}. To "
                    f"keep {label!r} as a class of its own, leave it out of the taxonomy."
                )
