"""What consistent answers about sets of classes determine.

Column k of teacher i stands for the set S_k, and U_i is the union of the teacher's sets. Consistent answers satisfy the
linear system q(S_k) = p_k q(U_i), so q is determined exactly when the rows 1_{S_k} - p_k 1_{U_i} have rank L - 1. In
u = log q, with r_kl = q_l / q(S_k) for l in S_k, the same rows are

    J_k = r_k - mean of r over the columns of the teacher

the derivative of the teachers' centred log-probabilities. The null space of J holds the indicators of the groups that
no teacher links; whatever else is in it, sets leave open.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

#: Singular values below this share of the largest count as zero.
ZERO = 1e-10
#: Draws of q at which the rank is taken: at most q it is the same, and nowhere higher.
DRAWS = 3


@dataclass(frozen=True)
class Identification:
    """Rank, null space and condition of J."""

    membership: NDArray[np.bool_]  #: (K, L), which classes a column means
    teacher_of: NDArray[np.int_]  #: (K,)
    components: NDArray[np.int_]  #: (L,), groups of linked classes

    def jacobian(self, q: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return J (K, L) at q (L,)."""
        R = self.membership * q
        R /= R.sum(axis=1, keepdims=True)
        starts = np.flatnonzero(np.diff(self.teacher_of, prepend=-1))
        sizes = np.diff(starts, append=len(R))
        return R - np.repeat(np.add.reduceat(R, starts) / sizes[:, None], sizes, axis=0)

    @cached_property
    def _generic(self) -> tuple[int, NDArray[np.float64], NDArray[np.float64]]:
        """Rank and null space (L, L - rank) at the q, of a few, where the rank is highest; and that q."""
        rng, L = np.random.default_rng(0), self.membership.shape[1]
        found = []
        for q in rng.dirichlet(np.full(L, 3.0), size=DRAWS if self._has_sets else 1):
            q = np.maximum(q, 1e-3 / L)
            values, Vt = _svd(self.jacobian(q))
            rank = int((values > ZERO * max(values[0], 1.0)).sum())
            found.append((rank, Vt[rank:].T, q))
        return max(found, key=lambda one: one[0])

    @property
    def left_open(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """A q in general position, and the directions (L, L - rank) of log q that answers leave open there."""
        _, null, q = self._generic
        return q, null

    @property
    def _has_sets(self) -> bool:
        return bool((self.membership.sum(axis=1) > 1).any())

    @property
    def rank(self) -> int:
        """Rank at q in general position; without sets, the number of classes less that of groups."""
        return self._generic[0] if self._has_sets else len(self.components) - int(self.components.max()) - 1

    @cached_property
    def touched(self) -> NDArray[np.int_]:
        """Classes whose probability within their group changes along some direction of the null space."""
        if not self._has_sets:
            return np.zeros(0, dtype=int)
        _, null, q = self._generic
        entry = null @ np.random.default_rng(0).normal(size=null.shape[1])
        # d log q_l within the group: the step of u_l less the mean step of the group, weighted by q.
        mass = np.bincount(self.components, q)
        mean = np.bincount(self.components, q * entry) / mass
        return np.flatnonzero(np.abs(entry - mean[self.components]) > 1e-8)

    @cached_property
    def never_apart(self) -> list[NDArray[np.int_]]:
        """Groups of two classes or more that stand in the same columns, of teachers with more than one."""
        counts = np.bincount(self.teacher_of)
        told = np.packbits(self.membership[counts[self.teacher_of] > 1].T, axis=1)
        groups: dict[tuple[bytes, int], list[int]] = {}
        for label, row in enumerate(told):
            groups.setdefault((row.tobytes(), int(self.components[label])), []).append(label)
        return [np.array(group) for group in groups.values() if len(group) > 1]

    @cached_property
    def condition(self) -> float:
        """Condition where all classes are equally probable."""
        return self.condition_at(np.full(self.membership.shape[1], 1 / self.membership.shape[1]))

    def condition_at(self, q: NDArray[np.float64]) -> float:
        """Largest over smallest of the singular values of J at q, as many as the rank."""
        if self.rank == 0:
            return 1.0
        values = _svd(self.jacobian(q))[0]
        smallest = values[self.rank - 1]
        return float(values[0] / smallest) if smallest > 1e-14 * values[0] else float("inf")


def _svd(J: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return L singular values, zeros among them, and all right singular vectors as rows."""
    K, L = J.shape
    R = np.linalg.qr(J, mode="r") if K > L else np.vstack([J, np.zeros((L - K, L))])
    _, values, Vt = np.linalg.svd(R)
    return values, Vt
