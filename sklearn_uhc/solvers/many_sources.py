"""Columns that stand for sets, for many classes: functions of one logit per class and per set, by sums over lists.

As in `set_sources`, the objectives depend only on x = (u, phi of the sets), L + S numbers. Everything they need are
sums over the members of sets and over the classes that a teacher names. OTHER is all classes less the named ones, and
a membership has a list that its teacher names as well, so that most of these sums are over the same few lists: with
OTHER or a membership for each of N teachers there are N lists. Every list is summed once.

Arrays are (n, L), (n, S), (n, N), samples last in memory (`incidence.py`).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from sklearn_uhc.solvers.blocks import Array
from sklearn_uhc.solvers.incidence import Incidence, array_namespace, like_array, samples_last, to_cpu
from sklearn_uhc.solvers.set_index import Thin
from sklearn_uhc.solvers.sets import SetBlocks


class Sums(NamedTuple):
    """Sums of (n, L) over all lists."""

    lists: Array  #: (n, B)
    total: Array  #: (n, 1)


class Lists(NamedTuple):
    """The distinct lists, and what the sets and teachers have of them."""

    blocks: SetBlocks
    sum: Incidence  #: (B, L)
    give: Incidence  #: (L, B)
    set_list: Array  #: (S,), list of every set: its members, or what it leaves out
    sign: Array  #: (S,), 1 or -1
    wide: Array  #: (S,), 1 if the set is all classes less a list
    of_sets: Incidence  #: (B, S)
    teacher_list: Array  #: (N,), list of the single classes of every teacher
    of_teachers: Incidence  #: (B, N)
    sets: Incidence  #: (N, S), the sets of a teacher
    owner: Array  #: (S,), and their teacher
    columns: Incidence  #: (L + S, K), the columns of a class or set

    @classmethod
    def of(cls, blocks: SetBlocks) -> Lists:
        """Collect the lists, once for all calls."""
        lists: Lists = blocks.once("lists", lambda: cls._of(blocks))
        return lists

    @classmethod
    def _of(cls, blocks: SetBlocks) -> Lists:
        index, space, like = blocks.members, blocks.space, blocks.sizes
        (N, L), S, K = (space.n_teachers, space.n_classes), index.n_sets, space.n_outputs
        where: dict[bytes, int] = {}
        parts: list[NDArray[np.int_]] = []

        def number(members: NDArray[np.int_]) -> int:
            members = np.sort(members)
            if (key := members.tobytes()) not in where:
                where[key] = len(parts)
                parts.append(members)
            return where[key]

        of = np.zeros(S, dtype=int)
        for each in (index.listed, index.left_out):
            for s, members in _grouped(each.rows, each.columns):
                of[s] = number(members)
        single = index.singles
        teachers = np.full(N, number(np.zeros(0, dtype=int)))
        for i, own in _grouped(space.teacher_of[single], space.members[space.offsets[single]]):
            teachers[i] = number(own)
        B, wide = len(parts), to_cpu(index.is_wide)
        rows, classes = np.repeat(np.arange(B), list(map(len, parts))), np.concatenate(parts)
        owner = space.teacher_of[index.sets]
        return cls(
            blocks,
            Incidence(rows, classes, (B, L), like),
            Incidence(classes, rows, (L, B), like),
            like_array(of, like),
            like_array(1.0 - 2.0 * wide, like),
            like_array(wide, like),
            Incidence(of, np.arange(S), (B, S), like),
            like_array(teachers, like),
            Incidence(teachers, np.arange(N), (B, N), like),
            index.teachers,
            like_array(owner, like),
            Incidence(to_cpu(blocks.source), np.arange(K), (L + S, K), like),
        )

    def sums(self, x: Array) -> Sums:
        """Sum x (n, L) over every list."""
        return Sums(self.sum(x), array_namespace(x).sum(x, axis=1, keepdims=True))

    def over_sets(self, x: Array, thin: Thin | None = None) -> Array:
        """(n, L) to (n, S): sum over every set."""
        out = self.pick_sets(self.sums(x))
        return out if thin is None else self.blocks.members.refine(out, x, thin)

    def pick_sets(self, sums: Sums) -> Array:
        """(n, S): the sums over the sets, of those over the lists."""
        return (
            self.sign * array_namespace(sums.total).take(sums.lists.T, self.set_list, axis=0).T + self.wide * sums.total
        )

    def over_teachers(self, x: Array, sets: Array) -> Array:
        """(n, L) and (n, S) to (n, N): sum over the columns of a teacher."""
        return array_namespace(x).take(self.sum(x).T, self.teacher_list, axis=0).T + self.sets(sets)

    def from_sets(self, y: Array, thin: Thin | None = None) -> Array:
        """(n, S) to (n, L): sum over the sets that contain a class."""
        if thin is not None:
            return self.blocks.give(y, thin)
        wide = array_namespace(y).sum(y * self.wide, axis=1, keepdims=True)
        return self.give(self.of_sets(y * self.sign)) + wide

    def from_teachers(self, v: Array) -> tuple[Array, Array]:
        """(n, N) to (n, L) and (n, S): sum over the teachers that have a column of the class or set."""
        return self.give(self.of_teachers(v)), array_namespace(v).take(v.T, self.owner, axis=0).T

    def weigh(self, P: Array, x: Array, sets: Array) -> Array:
        """(n, K) and x to (n, N): sum over the columns of a teacher of P times the class or set of the column."""
        blocks = self.blocks
        if not isinstance(P, np.ndarray):
            return blocks.sum_teachers(P * blocks.by_source(x, sets))
        parts = np.concatenate([x, sets], axis=1)
        return np.stack([self._cells(row) @ part for row, part in zip(P, parts, strict=True)])

    def weigh_back(self, P: Array, v: Array) -> tuple[Array, Array]:
        """(n, K) and (n, N) to (n, L) and (n, S): sum over the columns of a class or set of P times its teacher."""
        L = self.blocks.n_classes
        if isinstance(P, np.ndarray):
            out = samples_last(np.stack([self._cells(row).T @ part for row, part in zip(P, v, strict=True)]))
        else:
            out = self.columns(P * self.blocks.by_teacher(v))
        return out[:, :L], out[:, L:]

    def _cells(self, p: NDArray[Any]) -> Any:
        """(N, L + S): the numbers of one sample as a sparse matrix, several times faster than a gather."""
        blocks, (M, _) = self.blocks, self.columns.shape
        starts, source = blocks.once("cells", self._cell_index)
        return csr_array((p, source, starts), shape=(blocks.n_teachers, M))

    def _cell_index(self) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        starts = np.array([0, *(block.stop for block in self.blocks.slices)], dtype=np.int32)
        return starts, self.blocks.source.astype(np.int32)


def _grouped(keys: NDArray[np.int_], values: NDArray[np.int_]) -> list[tuple[int, NDArray[np.int_]]]:
    """Return every key with its values."""
    order = np.argsort(keys, kind="stable")
    names, starts = np.unique(keys[order], return_index=True)
    return [] if not len(names) else list(zip(names.tolist(), np.split(values[order], starts[1:]), strict=True))
