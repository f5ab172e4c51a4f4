"""Columns that mean sets of classes, as matrices.

With q = exp(T u), u the tempered logits of q, the logit of column k at temperature T is

    phi_k(u) = log q(S_k) / T,      q(S) = sum of q over the classes of S

u_l itself where the column means one class. A teacher's tempered answer is compared with it: tempered sums, not sums of
what was tempered, so that answers that come from one q are met exactly at every temperature. Its derivative is
r_kl = q_l / q(S_k), the share of class l in its set, taken at temperature 1.

====  =========  ===========================================================
phi   (n, K)     logits of the columns
q     (n, L)     exp(T u), largest entry 1
qS    (n, S)     q(S_k) of the S columns that mean sets
====  =========  ===========================================================
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, cast

import numpy as np
from array_api_compat import array_namespace, device

from sklearn_uhc.label_space import LabelSpace
from sklearn_uhc.solvers.blocks import Array, Blocks, _group_mean

#: Smallest T u relative to the largest, in double and in single precision: exp() of it is a number still.
LOWEST = {"float64": -600.0, "float32": -80.0}


class Columns(NamedTuple):
    """What u says about every column."""

    phi: Array  #: (n, K)
    q: Array  #: (n, L)
    qS: Array  #: (n, S)


@dataclass(frozen=True)
class SetBlocks(Blocks):
    """A label space with sets: `to_class` (K, L) has a one for every member, `sizes` (N,) counts columns."""

    M: Array = field()  #: (N, L), class l stands in a column of teacher i
    to_class: Array = field()  #: (K, L), column k has class l as a member
    to_teacher: Array = field()  #: (K, N), column k belongs to teacher i
    component_mean: Array  #: (L, L), takes the mean over the connected component of each class
    cell_of: Array  #: (N * L,), which of the K columns is teacher i, class l; K where there is none
    to_single: Array  #: (K, L), `to_class` of the columns that mean one class; no others
    to_set: Array  #: (K, S), which set a column means
    in_set: Array  #: (S, L), members
    alone: Array  #: (N, L), teacher i has a column for class l alone
    set_sizes: Array  #: (K,), members of every column
    source: Array  #: (K,), where phi_k is found among L classes and S sets
    set_columns: Array  #: (S,), the columns that mean sets
    alone_of: Array  #: (N * L,), which of the K columns is teacher i, class l alone; K where there is none
    space: LabelSpace

    @classmethod
    def from_label_space(cls, space: LabelSpace) -> SetBlocks:
        """Build the matrices."""
        K, L, sizes = space.n_outputs, space.n_classes, space.set_sizes
        to_class = space.membership().astype(float)
        sets = np.flatnonzero(sizes > 1)
        source, first = np.empty(K, dtype=int), space.members[space.offsets[:-1]]
        source[sizes == 1], source[sets] = first[sizes == 1], L + np.arange(len(sets))
        to_teacher = np.eye(space.n_teachers)[space.teacher_of]
        to_single = to_class * (sizes == 1)[:, None]
        column = np.repeat(np.arange(K), sizes)
        cell_of = np.full((space.n_teachers, L), K)
        cell_of[space.teacher_of[column], space.members] = column
        return cls(
            M=space.mask.astype(float),
            sizes=to_teacher.sum(axis=0),
            to_class=to_class,
            to_teacher=to_teacher,
            component_mean=_group_mean(space.components),
            teacher_component_mean=np.zeros((0, 0)),
            component_of=space.components,
            n_classes=L,
            shared=np.zeros((0, 0)),
            class_of=first,
            teacher_of=space.teacher_of,
            cell_of=cell_of.ravel(),
            slices=tuple(space.blocks),
            n_components=space.n_components,
            to_single=to_single,
            to_set=np.eye(K)[:, sets],
            in_set=to_class[sets],
            alone=to_teacher.T @ to_single,
            set_sizes=sizes.astype(float),
            source=source,
            set_columns=sets,
            alone_of=np.where((to_teacher.T @ to_single).ravel() > 0, cell_of.ravel(), K),
            space=space,
        )

    def like(self, X: Array) -> SetBlocks:
        """Return the same matrices in the library, on the device and in the precision of X."""
        return cast(SetBlocks, super().like(X))

    @property
    def batch_rows(self) -> int:
        """How many samples are best solved together: few, as a system of L unknowns is kept for each."""
        L2 = self.M.shape[1] ** 2
        return max(4, min(2**21 // L2, max(192, min(512, 2**18 // L2))))

    @cached_property
    def rounds(self) -> list[tuple[Array, Array]]:
        """A teacher's first sets and whose they are, then the second ones, ...: nobody stands in a round twice."""
        xp, whose = array_namespace(self.M), to_numpy(self.teacher_of)[to_numpy(self.set_columns)]
        nth = np.arange(len(whose)) - np.searchsorted(whose, whose)
        rounds = [np.flatnonzero(nth == k) for k in range(nth.max() + 1)]
        return [tuple(xp.asarray(part, device=device(self.M)) for part in (own, whose[own])) for own in rounds]

    def columns(self, U: Array, T: float) -> Columns:
        """Return what u (n, L) says about the columns; phi up to a shift per sample."""
        xp = array_namespace(U)
        U = U - xp.max(U, axis=1, keepdims=True)
        q = xp.exp(T * U)
        qS = q @ self.in_set.T
        qS = xp.clip(qS, float(xp.finfo(U.dtype).tiny), None)
        return Columns(xp.take(xp.concat([U, xp.log(qS) / T], axis=1), self.source, axis=1), q, qS)

    def column_logits(self, U: Array, temperature: float = 1.0) -> Array:
        """(n, L) to (n, K): log q(S_k) / T up to a shift per sample, U the logits of q at temperature T."""
        return self.columns(U, temperature).phi

    def pull(self, G: Array, at: Columns) -> Array:
        """(n, K) to (n, L): R' G, each column's value given to its classes in proportion to r."""
        return G @ self.to_single + at.q * (((G @ self.to_set) / at.qS) @ self.in_set)

    def shares(self, at: Columns) -> Array:
        """(n, S, L): r of the columns that mean sets."""
        return at.q[:, None, :] * (self.in_set / at.qS[:, :, None])

    def spread(self, A: Array, at: Columns) -> Array:
        """(n, K) to (n, N, L): what each teacher's columns give to each class, R' A teacher by teacher."""
        xp, (N, L) = array_namespace(A), self.M.shape
        below = xp.take(xp.concat([xp.ones_like(at.q), at.qS], axis=1), self.source, axis=1)
        cells = xp.take(xp.concat([A / below, xp.zeros_like(A[:, :1])], axis=1), self.cell_of, axis=1)
        cells = xp.reshape(cells, (A.shape[0], N, L))
        return cells * xp.where(self.alone > 0, xp.ones_like(at.q)[:, None, :], at.q[:, None, :])

    def even_start(self, Z: Array, weight: Array | None = None) -> Array:
        """Return (n, L): MF-LF with every set linear in u where it splits evenly, in closed form.

        What the teachers leave open stays even.
        """
        xp = array_namespace(Z)
        R = self.to_class / self.set_sizes[:, None]
        centered = R - (self.to_teacher / self.sizes) @ (self.to_teacher.T @ R)
        W = centered if weight is None else centered * (self.to_teacher @ weight)[:, None]
        inverse = xp.linalg.pinv(centered.T @ W, rtol=1e-9)
        return ((Z - xp.log(self.set_sizes)) @ W) @ inverse


def to_numpy(x: Any) -> Any:
    """Return an index vector as an array of numpy."""
    return np.asarray(x.cpu() if hasattr(x, "cpu") else x)


def lowest(U: Array) -> float:
    """Return the smallest T u that is told from minus infinity in the precision of U."""
    return LOWEST["float64" if float(array_namespace(U).finfo(U.dtype).eps) < 1e-10 else "float32"]


def level(U: Array, blocks: Blocks, T: float) -> Array:
    """Give every group of linked classes mean 0, and let nothing fall where exp(T u) is no number."""
    xp = array_namespace(U)
    U = U - blocks.group_means(U)
    return xp.maximum(U, xp.max(U, axis=1, keepdims=True) + lowest(U) / T)
