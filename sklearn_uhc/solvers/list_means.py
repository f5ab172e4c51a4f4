"""MF-LF with one unknown per teacher instead of one per class: the mean of the merged logits over its list.

    A u = r,      A = D - M' diag(w / k) M,      D = diag(sum_i w_i m_i)

A is a diagonal minus a matrix of rank N. With R = diag(sqrt(w / k)) and H = R M D^-1/2,

    u = D^-1 (r + M' R y),      (I - H H') y = R M D^-1 r

I - H H' is (N, N). Its null space has one vector sqrt(w k) for every group of teachers linked by shared classes, since
u can be shifted there; the projector on them is added. Teachers of weight 0 are left out, and so are classes that only
they know.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components

from sklearn_uhc.solvers.plain_blocks import PlainBlocks

Floats = NDArray[np.floating[Any]]


class ListMeans(NamedTuple):
    """Maps r (L, n) to the merged logits."""

    blocks: PlainBlocks
    heard: Floats  #: (L,), 1 / D, and 0 for classes without a teacher
    inverse: Floats  #: (N, N), R (I - H H')^-1 R: maps M D^-1 r to R y
    groups: NDArray[np.int_]  #: (L,), the group of each class

    @classmethod
    def of(cls, blocks: PlainBlocks, weight: Floats, links: NDArray[np.bool_]) -> ListMeans:
        """Prepare class lists with weights (N,); `links` (N, N): which teachers share a class."""
        sizes, D = blocks.sizes, blocks.sum_owners(weight[None, :])[0]
        heard = np.where(D > 0, 1 / np.where(D > 0, D, 1.0), 0.0)
        group_of = teacher_groups(links, weight > 0)
        root, null = np.sqrt(weight / sizes), np.sqrt(weight * sizes)
        same = group_of[:, None] == group_of
        G = np.eye(len(sizes)) - root[:, None] * blocks.pairs.sums(heard[None, :])[0] * root
        G += same * np.outer(null, null) / np.maximum(same @ null**2, np.finfo(float).tiny)[:, None]
        groups = np.zeros(len(heard), dtype=int)
        speak = weight[blocks.teacher_of] > 0
        groups[blocks.class_of[speak]] = group_of[blocks.teacher_of[speak]]  # any teacher that knows the class
        return cls(blocks, heard, root[:, None] * np.linalg.inv(G) * root, groups)

    def entries(self, classes: NDArray[np.int_]) -> Floats:
        """Return (k, k), the entries of A^-1 for some classes that have a teacher."""
        heard, blocks = self.heard[classes], self.blocks
        known = np.zeros((len(classes), blocks.n_classes))
        known[np.arange(len(classes)), classes] = 1.0
        lists = blocks.sum_lists(known)  # (k, N)
        return np.diag(heard) + heard[:, None] * (lists @ self.inverse @ lists.T) * heard

    def solve(self, r: Floats) -> Floats:
        """Return u (L, n), with mean zero in every group; -inf for classes without a teacher."""
        x = self.heard[:, None] * r
        y = self.inverse @ self.blocks.sum_lists(x.T).T
        u = x + self.heard[:, None] * self.blocks.sum_owners(y.T).T
        known = self.heard > 0
        for group in np.unique(self.groups[known]):
            own = known & (self.groups == group)
            u[own] -= u[own].mean(axis=0)
        u[~known] = -np.inf
        return np.asarray(u)


def share_classes(blocks: PlainBlocks) -> NDArray[np.bool_]:
    """Return (N, N): which teachers share a class."""
    return np.asarray(blocks.pairs.sums(np.ones((1, blocks.n_classes)))[0] > 0)


def teacher_groups(links: NDArray[np.bool_], heard: NDArray[np.bool_]) -> NDArray[np.int_]:
    """Return (N,): the group of every teacher, linked through teachers with a weight; others form their own groups."""
    groups: NDArray[np.int_] = connected_components(links & heard & heard[:, None], directed=False)[1]
    return groups
