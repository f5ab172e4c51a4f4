"""What consistent answers on sets of classes determine.

Column k of teacher i stands for the set S_k, and U_i is the union of the teacher's sets. Consistent answers satisfy the
linear system q(S_k) = p_k q(U_i), so q is determined exactly when the rows 1_{S_k} - p_k 1_{U_i} have rank L - 1. In
u = log q, with r_kl = q_l / q(S_k) for l in S_k, the same rows are

    J_k = r_k - mean of r over the columns of the teacher

the derivative of the teachers' centred log-probabilities. The null space of J contains the indicators of the groups
that no teacher links. Everything else in it is left undetermined by the sets.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

#: Singular values below this share of the largest are treated as zero.
ZERO = 1e-10
#: Number of random q at which the rank is computed: it is the same at almost all q, and nowhere higher.
DRAWS = 3


@dataclass(frozen=True)
class Identification:
    """Rank, null space and condition of J."""

    membership: NDArray[np.bool_]  #: (K, L), the classes of each column
    teacher_of: NDArray[np.int_]  #: (K,), the teacher of each column
    components: NDArray[np.int_]  #: (L,), the group of linked classes of each class

    def jacobian(self, q: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return J (K, L) at q (L,)."""
        R = self.membership * q
        R /= R.sum(axis=1, keepdims=True)
        starts = np.flatnonzero(np.diff(self.teacher_of, prepend=-1))
        sizes = np.diff(starts, append=len(R))
        return R - np.repeat(np.add.reduceat(R, starts) / sizes[:, None], sizes, axis=0)

    @cached_property
    def _generic(self) -> tuple[int, NDArray[np.float64], NDArray[np.float64]]:
        """Rank and null space (L, L - rank) at the random q with the highest rank, and that q."""
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
        """A generic q, and the directions (L, L - rank) of log q that answers do not determine there."""
        _, null, q = self._generic
        return q, null

    @property
    def _has_sets(self) -> bool:
        return bool((self.membership.sum(axis=1) > 1).any())

    @property
    def rank(self) -> int:
        """Rank at a generic q; without sets, the number of classes minus the number of groups."""
        return self._generic[0] if self._has_sets else len(self.components) - int(self.components.max()) - 1

    @cached_property
    def touched(self) -> NDArray[np.int_]:
        """Classes whose probability within their group changes along a direction of the null space."""
        if not self._has_sets:
            return np.zeros(0, dtype=int)
        _, null, q = self._generic
        entry = null @ np.random.default_rng(0).normal(size=null.shape[1])
        # d log q_l within the group: the step of u_l minus the mean step of the group, weighted by q.
        mass = np.bincount(self.components, q)
        mean = np.bincount(self.components, q * entry) / mass
        return np.flatnonzero(np.abs(entry - mean[self.components]) > 1e-8)

    @cached_property
    def never_apart(self) -> list[NDArray[np.int_]]:
        """Groups of two or more classes that are in the same columns of all teachers with more than one column."""
        counts = np.bincount(self.teacher_of)
        told = np.packbits(self.membership[counts[self.teacher_of] > 1].T, axis=1)
        groups: dict[tuple[bytes, int], list[int]] = {}
        for label, row in enumerate(told):
            groups.setdefault((row.tobytes(), int(self.components[label])), []).append(label)
        return [np.array(group) for group in groups.values() if len(group) > 1]

    @cached_property
    def condition(self) -> float:
        """Condition at equal class probabilities."""
        return self.condition_at(np.full(self.membership.shape[1], 1 / self.membership.shape[1]))

    def condition_at(self, q: NDArray[np.float64]) -> float:
        """Ratio of the largest to the smallest nonzero singular value of J at q."""
        if self.rank == 0:
            return 1.0
        values = _svd(self.jacobian(q))[0]
        smallest = values[self.rank - 1]
        return float(values[0] / smallest) if smallest > 1e-14 * values[0] else float("inf")


def _svd(J: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return L singular values, including zeros, and all right singular vectors as rows."""
    K, L = J.shape
    R = np.linalg.qr(J, mode="r") if K > L else np.vstack([J, np.zeros((L - K, L))])
    _, values, Vt = np.linalg.svd(R)
    return values, Vt
