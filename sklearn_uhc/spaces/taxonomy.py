"""A taxonomy of classes, {parent: children} of any depth, and the classes in it that teachers distinguish."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from sklearn_uhc.spaces.label_space import shorten


class Taxonomy:
    """Parents and children, and the classes among them that some teacher has.

    Parameters
    ----------
    table : mapping of parent to children
        Children are a list of labels, or a mapping in turn.
    rename : callable
        Leads every name to the one in use.
    known : set
        Classes that some teacher has.
    strict : bool
        Whether names that no teacher has, and that link none that teachers have, are an error.
    """

    def __init__(self, table: Any, rename: Callable[[Any], Any], known: set[Any], strict: bool) -> None:
        if not isinstance(table, Mapping):
            raise TypeError(f"taxonomy must be a dict of {{parent: list of children}}, got {table!r}.")
        self.known = known
        self.children: dict[Any, list[Any]] = {}
        for parent, child in _edges(table):
            self.children.setdefault(rename(parent), []).append(rename(child))
        self._below: dict[Any, frozenset[Any]] = {}
        for parent in list(self.children):
            self._refuse_circle(parent)
        if strict:
            self._refuse_unknown()

    @property
    def names(self) -> set[Any]:
        """All names in the taxonomy."""
        return set(self.children).union(*self.children.values())

    def parents_of(self, label: Any) -> list[Any]:
        """Return the parents of a class."""
        return [parent for parent, children in self.children.items() if label in children]

    def leaves(self, label: Any) -> frozenset[Any]:
        """Return the finest classes below a class that teachers have, or the class itself if there are none."""
        below = self.below(label) & self.known
        return frozenset(c for c in below if not self.below(c) & self.known) or frozenset([label])

    def missing_beside_only_leaf(self, label: Any) -> set[Any]:
        """Return what is below a class that no teacher has, if it becomes the only class that one has there."""
        leaves = self.leaves(label)
        if leaves == {label} or len(leaves) > 1:
            return set()
        only = next(iter(leaves))
        return {name for name in self.below(label) - self.known - self.below(only) if only not in self.below(name)}

    def below(self, label: Any) -> frozenset[Any]:
        """Return everything below a class."""
        if label not in self._below:
            children = self.children.get(label, [])
            self._below[label] = frozenset(children).union(*(self.below(child) for child in children))
        return self._below[label]

    def _refuse_circle(self, start: Any) -> None:
        """Raise an error if a class is below itself; without recursion, so that the depth does not matter."""
        trail, open_children = [start], [iter(self.children[start])]
        while trail:
            child = next(open_children[-1], None)
            if child is None:
                self.below(trail.pop())  # everything below it is known now
                open_children.pop()
            elif child in trail:
                circle = " -> ".join(map(repr, [*trail[trail.index(child) :], child]))
                raise ValueError(f"taxonomy has a cycle: {circle}. Remove one of these steps.")
            elif child not in self._below:
                trail.append(child)
                open_children.append(iter(self.children.get(child, [])))

    def _refuse_unknown(self) -> None:
        """Raise an error for names that no teacher has, unless they are between classes that teachers have."""
        above = {child for parent in self.known for child in self.below(parent)}
        unknown = [name for name in self.names - self.known if not (name in above and self.below(name) & self.known)]
        if unknown:
            raise ValueError(
                f"taxonomy names {shorten(sorted(unknown, key=str))}, but no teacher has such a class. The classes are "
                f"{shorten(sorted(self.known, key=str), 20)}. Correct the spelling, remove the names, or, if the "
                'taxonomy is larger than what the teachers know, pass handle_unknown="ignore".'
            )


def _edges(table: Mapping[Any, Any]) -> Iterator[tuple[Any, Any]]:
    """Yield each pair of parent and child."""
    for parent, children in table.items():
        if isinstance(children, (str, bytes)) or not isinstance(children, Iterable):
            raise TypeError(
                f"taxonomy[{parent!r}] must be the list of its children, got {children!r}. A taxonomy is {{parent: "
                "[child, ...]}; leave out classes without children."
            )
        listed = list(children)
        if not listed:
            raise ValueError(f"taxonomy[{parent!r}] is empty: list its children, or leave it out.")
        if nested := [child for child in listed if isinstance(child, (tuple, list, set, frozenset, Mapping))]:
            raise TypeError(
                f"taxonomy[{parent!r}] has the child {nested[0]!r}, but a child is one class. For more levels, pass a "
                "dict of {child: its children}, or give the child an entry of its own."
            )
        yield from ((parent, child) for child in listed)
        if isinstance(children, Mapping):
            yield from _edges({child: below for child, below in children.items() if below})
