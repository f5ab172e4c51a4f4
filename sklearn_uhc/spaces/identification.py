"""What consistent answers on sets of classes determine.

Column k of teacher i stands for the set S_k, and U_i is the union of the teacher's sets. Consistent answers satisfy the
linear system q(S_k) = p_k q(U_i), so q is determined exactly when the rows 1_{S_k} - p_k 1_{U_i} have rank L - 1. In
u = log q, with r_kl = q_l / q(S_k) for l in S_k, the same rows are

    J_k = r_k - mean of r over the columns of the teacher

the derivative of the teachers' centred log-probabilities. The null space of J contains the indicators of the groups
that no teacher links. Everything else in it is left undetermined by the sets.

Two columns of one class each in the same teacher determine the odds of these classes, so every direction of the null
space is the same for both. With classes joined in this way, J has few columns, unless most classes occur in sets only.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_matrix, csr_array
from scipy.sparse.csgraph import connected_components

#: Singular values below this share of the largest are treated as zero.
ZERO = 1e-10
#: Number of random q at which the rank is computed: it is the same at almost all q, and nowhere higher.
DRAWS = 3


@dataclass(frozen=True)
class Identification:
    """Rank, null space and condition of J."""

    membership: csr_array  #: (K, L), 1 for the classes of each column
    teacher_of: NDArray[np.int_]  #: (K,), the teacher of each column
    components: NDArray[np.int_]  #: (L,), the group of linked classes of each class

    def jacobian(self, q: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return J (K, L) at q (L,)."""
        return self._centred(self._shares(q).toarray())

    def _shares(self, q: NDArray[np.float64]) -> csr_array:
        """Return r (K, L) at q (L,)."""
        inside, total = self.membership, self.membership @ q
        shares = q[inside.indices] / np.repeat(total, self._sizes)
        return csr_array((shares, inside.indices, inside.indptr), shape=inside.shape)

    def _centred(self, R: NDArray[np.float64]) -> NDArray[np.float64]:
        """Subtract the mean over the columns of the teacher."""
        starts = np.flatnonzero(np.diff(self.teacher_of, prepend=-1))
        sizes = np.diff(starts, append=len(R))
        return R - np.repeat(np.add.reduceat(R, starts) / sizes[:, None], sizes, axis=0)

    @cached_property
    def _joined(self) -> csr_array:
        """(L, g), orthonormal indicators of classes whose odds are determined by columns of one class each."""
        single = np.flatnonzero(self._sizes == 1)
        labels, teachers = self.membership.indices[self.membership.indptr[single]], self.teacher_of[single]
        first = np.searchsorted(teachers, teachers)  # a star around each teacher's first class
        L = self.membership.shape[1]
        links = coo_matrix((np.ones(len(labels)), (labels, labels[first])), shape=(L, L))
        n, group = connected_components(links, directed=False)
        return csr_array((1 / np.sqrt(np.bincount(group)[group]), (np.arange(L), group)), shape=(L, n))

    @property
    def n_unknowns(self) -> int:
        """Number of groups of classes that columns of one class each leave; the rank costs its cube."""
        return int(self._joined.shape[1])

    @cached_property
    def _generic(self) -> tuple[int, NDArray[np.float64], NDArray[np.float64]]:
        """Rank and null space (L, L - rank) at the random q with the highest rank, and that q."""
        rng, (L, g) = np.random.default_rng(0), self._joined.shape
        draws = np.maximum(rng.dirichlet(np.full(L, 3.0), size=DRAWS if self._has_sets else 1), 1e-3 / L)
        highest = L - int(self.components.max()) - 1
        if L - g == highest:  # columns of one class each determine everything within the groups
            return highest, self._joined.toarray(), draws[0]
        found = []
        for q in draws:
            values, Vt = _svd(self._centred((self._shares(q) @ self._joined).toarray()))
            rank = int((values > ZERO * max(values[0], 1.0)).sum())
            found.append((L - g + rank, self._joined @ Vt[rank:].T, q))
            if found[-1][0] == highest:
                break
        return max(found, key=lambda one: one[0])

    @property
    def _sizes(self) -> NDArray[np.int_]:
        """(K,), the number of classes of each column."""
        return np.diff(self.membership.indptr)

    @property
    def _has_sets(self) -> bool:
        return bool((self._sizes > 1).any())

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
        told = self.membership[counts[self.teacher_of] > 1].tocsc()
        groups: dict[tuple[bytes, int], list[int]] = {}
        for label, columns in enumerate(np.split(told.indices, told.indptr[1:-1])):
            groups.setdefault((columns.tobytes(), int(self.components[label])), []).append(label)
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
