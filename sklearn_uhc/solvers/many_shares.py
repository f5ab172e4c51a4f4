"""Sums over sets of exp(T v_i u), for MF-LU with many classes: each teacher stretches u by its own v_i.

The sum over all classes would cost N times L exponentials. But exp(T v u) is smooth in v: with its values at some dozen
Chebyshev nodes, every teacher's sum is an interpolation. The classes that a set leaves out, or the few that it has, are
summed one by one, and so are the members of sets whose sum is a tiny share of the total (`set_index.Thin`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from array_api_compat import array_namespace, device
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.special import ive

from sklearn_uhc.solvers.blocks import Array
from sklearn_uhc.solvers.incidence import Incidence, like_array, to_cpu
from sklearn_uhc.solvers.many_sources import Lists
from sklearn_uhc.solvers.set_index import THIN
from sklearn_uhc.solvers.sets import lowest

#: Error of the interpolation, relative to the sum.
ERROR = 1e-16
#: Number of nodes that are tried, and of distances at which the error is estimated.
NODES, GRID = (8, 12, 16, 24, 32, 48, 64, 96, 128), 40


class Stretches(NamedTuple):
    """The lists of every teacher's sets, for all samples."""

    lists: Lists
    classes: NDArray[np.int32]  #: the members of all lists,
    starts: NDArray[np.int32]  #: where each list starts among them,
    whose: Array  #: (m,), and its teacher
    class_of: Array  #: `classes`, in the library of the samples
    list_of: Array  #: the list of each member
    of_set: Array  #: (S,), the list of each set
    to_list: Incidence  #: (m, S)
    wide: Array  #: sets of nearly all classes

    @classmethod
    def of(cls, lists: Lists) -> Stretches:
        """Collect the lists, once for all calls."""
        stretches: Stretches = lists.blocks.once("stretches", lambda: cls._of(lists))
        return stretches

    @classmethod
    def _of(cls, lists: Lists) -> Stretches:
        like, B = lists.blocks.sizes, lists.sum.shape[0]
        owner, which = to_cpu(lists.owner), to_cpu(lists.set_list)
        keys, of_set = np.unique(owner * B + which, return_inverse=True)
        members = csr_array((np.ones(len(lists.sum.rows)), (lists.sum.rows, lists.sum.columns)), shape=lists.sum.shape)
        parts = [members.indices[members.indptr[b] : members.indptr[b + 1]] for b in keys % B]
        sizes, classes = np.array([len(part) for part in parts]), np.concatenate(parts).astype(np.int32)
        starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
        return cls(
            lists,
            classes,
            starts,
            like_array(keys // B, like),
            like_array(classes.astype(int), like),
            like_array(np.repeat(np.arange(len(keys)), sizes), like),
            like_array(of_set, like),
            Incidence(of_set, np.arange(len(of_set)), (len(keys), len(of_set)), like),
            like_array(np.flatnonzero(to_cpu(lists.wide)), like),
        )


@dataclass(frozen=True)
class Shares:
    """The shares of the classes in their sets for one sample, as sums over them."""

    index: Stretches
    cells: Any  #: (m, L), exp(T v u) of the members of the lists
    nodes: Array  #: (J, L), exp(T v u) at the nodes
    basis: Array  #: (wide sets, J), interpolation
    thin: Array  #: indices of thin sets
    inside: Array  #: (thin sets, L), their exp(T v u)
    total: Array  #: (S,), sums of exp(T v u) over the sets, relative to the largest of all classes

    @classmethod
    def of(cls, u: Array, v: Array, T: float, index: Stretches) -> Shares:
        """Prepare u (L,), whose largest entry is 0, and v (N,)."""
        xp, lists = array_namespace(u), index.lists
        low = float(np.exp(lowest(u)))
        data = xp.exp(T * xp.take(v, xp.take(index.whose, index.list_of)) * xp.take(u, index.class_of)) + low
        own = xp.take(xp.take(v, lists.owner), index.wide)
        at, basis = interpolation(own, T * float(-xp.min(u)))
        nodes = xp.exp(T * at[:, None] * u[None, :]) + low
        none = xp.zeros_like(index.wide[:0])
        bare = cls(index, _cells(data, index, u), nodes, basis, none, nodes[:0, :], v)
        total = bare.sums(xp.ones_like(u)[:, None])[:, 0]
        whole = basis @ xp.sum(nodes, axis=1)
        place = xp.nonzero(xp.take(total, index.wide) < THIN * whole)[0]
        if place.shape[0]:
            thin = xp.take(index.wide, place)
            inside = lists.blocks.members._inside[thin, :]
            rows = xp.exp(T * own[place][:, None] * u[None, :]) + low
            bare = cls(index, bare.cells, nodes, basis, thin, xp.where(inside, rows, xp.zeros_like(rows)), v)
            total = bare.sums(xp.ones_like(u)[:, None])[:, 0]
        return cls(index, bare.cells, nodes, basis, bare.thin, bare.inside, total)

    def sums(self, x: Array) -> Array:
        """(L, m) to (S, m): sums of exp(T v u) x."""
        xp, lists, index = array_namespace(x), self.index.lists, self.index
        out = lists.sign[:, None] * xp.take(self.cells @ x, index.of_set, axis=0)
        out[index.wide, :] = out[index.wide, :] + self.basis @ (self.nodes @ x)
        out[self.thin, :] = self.inside @ x
        return out

    def within(self, x: Array) -> Array:
        """(L, m) to (S, m): means within every set."""
        return self.sums(x) / self.total[:, None]

    def weigh(self, y: Array) -> Array:
        """(S, m) to (L, m): sums of y times the shares."""
        xp, index = array_namespace(y), self.index
        y = y / self.total[:, None]
        thin = y[self.thin, :]
        y[self.thin, :] = 0.0
        own = index.to_list((index.lists.sign[:, None] * y).T).T
        out = self.cells.T @ own + self.nodes.T @ (self.basis.T @ xp.take(y, index.wide, axis=0))
        return out + self.inside.T @ thin if thin.shape[0] else out


def interpolation(v: Array, reach: float) -> tuple[Array, Array]:
    """Return nodes (J,) and the weights (m, J) with which they give exp(-v d) at v (m,), for all d up to `reach`."""
    xp, (low, high) = array_namespace(v), (float(array_namespace(v).min(v)), float(array_namespace(v).max(v)))
    count = n_nodes(low, high, reach)
    if count >= v.shape[0]:
        return v, xp.eye(v.shape[0], dtype=v.dtype, device=device(v))
    angles = (np.arange(count) + 0.5) * np.pi / count
    nodes = like_array(0.5 * (low + high) + 0.5 * max(high - low, 1e-12) * np.cos(angles), v)
    signs = like_array((-1.0) ** np.arange(count) * np.sin(angles), v)
    apart = v[:, None] - nodes[None, :]
    same = apart == 0
    weights = xp.where(same, xp.ones_like(apart), signs / xp.where(same, xp.ones_like(apart), apart))
    hit = xp.any(same, axis=1)[:, None]
    weights = xp.where(hit, xp.astype(same, v.dtype), weights)
    return nodes, weights / xp.sum(weights, axis=1)[:, None]


def n_nodes(low: float, high: float, reach: float) -> int:
    """Return how many Chebyshev nodes exp(-v d) needs for v in [low, high] and all d up to `reach`."""
    d = np.linspace(0, reach, GRID)
    half, middle = 0.5 * (high - low) * d, 0.5 * (high + low) * d
    for count in NODES:
        if np.max(ive(count, half) * np.exp(half - middle)) <= ERROR:
            return count
    return 10**9


def _cells(data: Array, index: Stretches, like: Array) -> Any:
    """(m, L): a sparse matrix of the lists."""
    shape = (len(index.starts) - 1, like.shape[0])
    if isinstance(data, np.ndarray):
        return csr_array((data, index.classes, index.starts), shape=shape)
    import torch

    where = torch.stack([index.list_of, index.class_of])
    return torch.sparse_coo_tensor(where, data, shape, check_invariants=False).coalesce()
