"""Groups of classes that sets alone link to others, and that may vanish as a whole.

An example is a teacher of cats whose classes other teachers know as OTHER only. For every teacher, all columns or none
lie within such a group: some teachers determine its classes relative to each other, the others see it as a part of
their sets. Like a class that is in sets only, it may be best without any probability. Then u of all its classes goes
to -inf together, in Newton steps that become shorter and shorter. So a group that is far enough down stays where it
is, and is moved to the bottom in the end.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from array_api_compat import array_namespace

from sklearn_uhc.solvers.blocks import Array
from sklearn_uhc.solvers.incidence import like_array, to_cpu
from sklearn_uhc.solvers.sets import Columns, SetBlocks

#: A class or group with a smaller share of its sets that does not help them is considered to vanish.
SMALL_SHARE = 1e-6


class Group(NamedTuple):
    """Classes that sets alone link to others."""

    classes: Array  #: (G,), indices
    sets: Array  #: (S',), indices of the sets that have classes of the group and others
    members: Array  #: (S', G), 1 if a class is a member of the set

    def shares(self, at: Columns) -> Array:
        """(n, S'), what the group has of its sets."""
        xp = array_namespace(at.q)
        return (xp.take(at.q, self.classes, axis=1) @ self.members.T) / xp.take(at.qS, self.sets, axis=1)

    def is_down(self, at: Columns, gradient: Array, small: Array) -> Array:
        """(n,), whether the group has next to nothing, and a slope of at most `small` (n,)."""
        xp = array_namespace(gradient)
        slope = xp.sum(xp.take(gradient, self.classes, axis=1), axis=1)
        return (xp.max(self.shares(at), axis=1) < SMALL_SHARE) & (xp.abs(slope) <= small)

    def wants_less(self, at: Columns, G: Array) -> Array:
        """(n,), whether the objective falls with the group, for derivatives G (n, S) by phi of the sets."""
        xp = array_namespace(G)
        parts = self.shares(at) * xp.take(G, self.sets, axis=1)
        return xp.sum(parts, axis=1) > 1e-3 * xp.sum(xp.abs(parts), axis=1)


def groups_of(blocks: SetBlocks) -> tuple[Group, ...]:
    """Return the groups of several classes; found once."""
    found: tuple[Group, ...] = blocks.once("groups", lambda: _groups_of(blocks))
    return found


def _groups_of(blocks: SetBlocks) -> tuple[Group, ...]:
    """Add to each class the lists of all teachers with a column within the group, until nothing is added."""
    columns, whose = to_cpu(blocks.to_class), to_cpu(blocks.to_teacher)
    whose = whose[:, whose.sum(axis=0) > 1]  # a single column says nothing
    lists, component = (whose.T @ columns) > 0, blocks.space.components
    found = np.eye(blocks.n_classes, dtype=bool)
    for _ in range(blocks.n_classes):
        within = columns.sum(axis=1) == found @ columns.T
        grown = found | (((within @ whose) > 0) @ lists)
        if (grown == found).all():
            break
        found = grown
    whole = component[:, None] == component
    loose = (found != whole).any(axis=1) & (found.sum(axis=1) > 1)
    return tuple(_group(blocks, group) for group in np.unique(found[loose], axis=0))


def _group(blocks: SetBlocks, group: np.ndarray) -> Group:
    members = to_cpu(blocks.in_set)
    sets = np.flatnonzero((members[:, group].sum(axis=1) > 0) & (members[:, ~group].sum(axis=1) > 0))
    classes, like = np.flatnonzero(group), blocks.sizes
    return Group(like_array(classes, like), like_array(sets, like), like_array(members[np.ix_(sets, classes)], like))
