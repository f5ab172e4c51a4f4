"""The columns of all teachers as matrices: sums over blocks and over classes are matrix products.

Conventions, for every solver:

====  =========  ===========================================================
P, Z  (n, K)     tempered probabilities or logits, teachers side by side
U, Q  (n, L)     what is solved for, one column per merged class
V     (n, N)     one number per teacher (a scale or a normaliser)
M     (N, L)     1 where teacher i knows class l
====  =========  ===========================================================
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sklearn_uhc.label_space import LabelSpace

Array = NDArray[np.float64]

#: Log-probabilities are clipped here: the smallest normal float32, so that both precisions clip alike.
MIN_LOG_P = float(np.log(np.finfo(np.float32).tiny))


class Solution(NamedTuple):
    """What an iterative solver found, sample by sample."""

    u: Array  #: (n, L)
    v: Array  #: (n, N)
    n_iter: NDArray[np.int_]  #: (n,)
    converged: NDArray[np.bool_]  #: (n,)


@dataclass(frozen=True)
class Blocks:
    """A label space as matrices of zeros and ones."""

    M: Array  #: (N, L), teacher i knows class l
    to_class: Array  #: (K, L), column k means class l
    to_teacher: Array  #: (K, N), column k belongs to teacher i
    component_mean: Array  #: (L, L), takes the mean over the connected component of each class
    teacher_component_mean: Array  #: (N, N), the same for teachers
    class_of: NDArray[np.int_]  #: (K,)
    teacher_of: NDArray[np.int_]  #: (K,)
    n_components: int

    @classmethod
    def from_label_space(cls, space: LabelSpace) -> Blocks:
        """Build the matrices; they depend on the class lists alone, never on a sample."""
        class_of = np.concatenate(space.columns)
        teacher_of = np.repeat(np.arange(space.n_teachers), [len(c) for c in space.columns])
        component_of_teacher = space.components[[columns[0] for columns in space.columns]]
        return cls(
            M=space.mask.astype(float),
            to_class=np.eye(space.n_classes)[class_of],
            to_teacher=np.eye(space.n_teachers)[teacher_of],
            component_mean=_group_mean(space.components),
            teacher_component_mean=_group_mean(component_of_teacher),
            class_of=class_of,
            teacher_of=teacher_of,
            n_components=space.n_components,
        )

    @property
    def sizes(self) -> Array:
        """Length of every class list, (N,)."""
        return self.M.sum(axis=1)

    def center(self, Z: Array) -> Array:
        """Remove each teacher's mean logit, per sample."""
        return Z - ((Z @ self.to_teacher) / self.sizes)[:, self.teacher_of]

    def log_softmax(self, Z: Array) -> Array:
        """Normalise each teacher's block of logits, per sample; nothing falls below `MIN_LOG_P`, not even -inf."""
        starts = np.searchsorted(self.teacher_of, np.arange(len(self.M)))
        top = np.maximum.reduceat(Z, starts, axis=1)
        top[np.isneginf(top)] = 0.0  # a block of -inf only says nothing: uniform
        with np.errstate(over="ignore"):
            Z = np.maximum(Z - top[:, self.teacher_of], MIN_LOG_P)
        return Z - np.log(np.exp(Z) @ self.to_teacher)[:, self.teacher_of]

    def level_components(self, Q: Array) -> Array:
        """Give every group of classes that no teacher links mean log q = 0, then normalise."""
        if self.n_components == 1:
            return Q / Q.sum(axis=1, keepdims=True)
        U = np.log(np.maximum(Q, np.exp(MIN_LOG_P)))
        return softmax(U - U @ self.component_mean)


def _group_mean(groups: NDArray[np.int_]) -> Array:
    """Projector on vectors that are constant within every group."""
    same = (groups[:, None] == groups[None, :]).astype(float)
    return same / same.sum(axis=1, keepdims=True)


def softmax(U: Array) -> Array:
    """Exponentiate and normalise the rows."""
    E = np.exp(U - U.max(axis=1, keepdims=True))
    return E / E.sum(axis=1, keepdims=True)
