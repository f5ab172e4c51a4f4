"""Sums over the classes that two teachers share, of which Hessians by one variable per teacher consist.

If m_l teachers know class l, there are T = sum_l m_l (m_l + 1) / 2 pairs of columns of the same class. A sum over them
costs T, while a product of dense matrices costs N^2 L.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
from array_api_compat import device
from numpy.typing import NDArray

from sklearn_uhc.solvers.incidence import Array, Incidence, array_namespace, like_array, samples_first

#: A dense matrix product multiplies this many numbers in the time of one pair of columns.
DENSE = 12
#: Maximum number of products of columns held at a time.
PIECE = 2**19


class Pairs:
    """Pairs of columns of the same class.

    Parameters
    ----------
    class_of, teacher_of : ndarray of int, shape (K,)
        Class and teacher of every column, teacher by teacher.
    n_teachers, n_classes : int
        N and L.
    like : Array
        Its library, device and precision count.
    """

    def __init__(
        self, class_of: NDArray[np.int_], teacher_of: NDArray[np.int_], n_teachers: int, n_classes: int, like: Array
    ) -> None:
        self.class_of, self.teacher_of = class_of, teacher_of
        self.N, self.L, self.like = n_teachers, n_classes, like

    @cached_property
    def _owners(self) -> NDArray[np.int_]:
        """(L,), the number of teachers that know each class."""
        return np.bincount(self.class_of, minlength=self.L)

    @property
    def is_dense(self) -> bool:
        """Whether dense matrices of teachers by classes are faster."""
        m = self._owners.astype(float)
        return bool(DENSE * (m * (m + 1) / 2).sum() >= self.N**2 * self.L)

    @cached_property
    def _columns(self) -> tuple[NDArray[np.int_], NDArray[np.int_]]:
        """(T,) twice: the columns of every pair, the earlier teacher first, sorted by the two teachers."""
        by_class = np.argsort(self.class_of, kind="stable")
        rank = np.arange(len(by_class)) - (np.cumsum(self._owners) - self._owners)[self.class_of[by_class]]
        room = self._owners[self.class_of[by_class]] - rank
        first = [np.flatnonzero(room > d) for d in range(int(room.max()))]
        left = by_class[np.concatenate(first)]
        right = by_class[np.concatenate([at + d for d, at in enumerate(first)])]
        order = np.lexsort((left, self.teacher_of[right], self.teacher_of[left]))
        return left[order], right[order]

    @cached_property
    def _pair_of(self) -> NDArray[np.int_]:
        """(N, N), the index of every pair of teachers, in either order."""
        i, j = np.triu_indices(self.N)
        number = np.zeros((self.N, self.N), dtype=int)
        number[i, j] = number[j, i] = np.arange(len(i))
        return number

    @property
    def _n_pairs(self) -> int:
        return self.N * (self.N + 1) // 2

    @cached_property
    def _both(self) -> Array:
        """(N * N,), index of the pair of teachers for both orders."""
        return like_array(self._pair_of.ravel(), self.like)

    @cached_property
    def _each(self) -> Array:
        """(N * N,), the same if the sums for the other order follow those for the first."""
        i, j = np.indices((self.N, self.N))
        return like_array(np.where(i <= j, self._pair_of, self._n_pairs + self._pair_of).ravel(), self.like)

    @cached_property
    def _of_classes(self) -> Incidence:
        left, right = self._columns
        pair = self._pair_of[self.teacher_of[left], self.teacher_of[right]]
        return Incidence(pair, self.class_of[left], (self._n_pairs, self.L), self.like)

    @cached_property
    def _of_columns(self) -> Incidence:
        left, right = self._columns
        apart = left != right
        i, j = self.teacher_of[left], self.teacher_of[right]
        rows = np.concatenate([i * self.N + j, (j * self.N + i)[apart]])
        return Incidence(rows, np.concatenate([left, right[apart]]), (self.N**2, len(self.class_of)), self.like)

    @cached_property
    def _pieces(self) -> list[tuple[Array, Array, slice, Incidence]]:
        """Pairs of columns in pieces, and where their sums go."""
        left, right = self._columns
        pair = self._pair_of[self.teacher_of[left], self.teacher_of[right]]
        pieces, step = [], max(1, PIECE // 64)
        for start in range(0, len(left), step):
            some = slice(start, start + step)
            first, last = int(pair[some][0]), int(pair[some][-1])
            n = len(pair[some])
            sums = Incidence(pair[some] - first, np.arange(n), (last + 1 - first, n), self.like)
            at = (like_array(columns[some], self.like) for columns in (left, right))
            pieces.append((*at, slice(first, last + 1), sums))
        return pieces

    @cached_property
    def _cell_of(self) -> Array:
        """(N * L,), the column of teacher i and class l, or K if there is none."""
        cell = np.full((self.N, self.L), len(self.class_of))
        cell[self.teacher_of, self.class_of] = np.arange(len(self.class_of))
        return like_array(cell.ravel(), self.like)

    def cube(self, F: Array) -> Array:
        """(n, K) to (n, N, L), zero where a teacher does not know a class."""
        xp = array_namespace(F)
        padded = xp.concat([F, xp.zeros_like(F[:, :1])], axis=1)
        return xp.reshape(xp.take(padded, self._cell_of, axis=1), (F.shape[0], self.N, self.L))

    @cached_property
    def _matched(self) -> tuple[Array, Array, Incidence]:
        """Columns of disjoint pairs of teachers that share many classes: left columns, right columns, sums by pair."""
        left, right = self._columns
        apart = left != right
        left, right = left[apart], right[apart]
        pair, which, counts = np.unique(
            self.teacher_of[left] * self.N + self.teacher_of[right], return_inverse=True, return_counts=True
        )
        number, taken = np.full(len(pair), -1), set[int]()
        for k in np.argsort(-counts, kind="stable").tolist():
            two = set(divmod(int(pair[k]), self.N))
            if counts[k] > 1 and not two & taken:
                taken |= two
                number[k] = len(taken) // 2 - 1
        use = number[which] >= 0
        sums = Incidence(number[which][use], np.arange(use.sum()), (len(taken) // 2, int(use.sum())), self.like)
        return like_array(left[use], self.like), like_array(right[use], self.like), sums

    def rank_one_error(self, P: Array) -> Array:
        """(n, K) to (n,): a lower bound of sum_il (P_il - u_l v_i)^2 for any u and v.

        For two teachers and their shared classes it is the square of the second singular value. Errors of pairs without
        a common teacher add up.
        """
        xp, (left, right, sums) = array_namespace(P), self._matched
        p, r = xp.take(P.T, left, axis=0), xp.take(P.T, right, axis=0)
        A, B, C = (sums(F.T) for F in (p * p, r * r, p * r))
        return xp.sum(A + B - xp.sqrt((A - B) ** 2 + 4 * C**2), axis=1) / 2

    def sums(self, W: Array) -> Array:
        """(n, L) to (n, N, N): sum of W over the classes that two teachers share."""
        return self._square(self._of_classes(W), self._both)

    def spread(self, F: Array) -> Array:
        """(n, K) to (n, N, N): sum of F_il over the classes l that teachers i and j share."""
        return _as_matrices(self._of_columns(F), self.N)

    def products(self, F: Array, G: Array | None = None) -> Array:
        """(n, K) twice to (n, N, N): sum of F_il G_jl over the classes that teachers i and j share; G is F if None."""
        xp = array_namespace(F)
        if self.is_dense:
            A = self.cube(F)
            return xp.matmul(A, xp.permute_dims(A if G is None else self.cube(G), (0, 2, 1)))
        if G is None:
            return self._square(self._upper(F, F), self._both)
        return self._square(xp.concat([self._upper(F, G), self._upper(G, F)], axis=1), self._each)

    def _upper(self, F: Array, G: Array) -> Array:
        """(n, K) twice to (n, pairs of teachers): the sums for i <= j."""
        xp = array_namespace(F)
        out = xp.zeros((self._n_pairs, F.shape[0]), dtype=F.dtype, device=device(F)).T
        for left, right, where, sums in self._pieces:
            product = xp.take(F.T, left, axis=0)
            product *= xp.take(G.T, right, axis=0)
            out[:, where] += sums(product.T)
        return out

    def _square(self, upper: Array, where: Array) -> Array:
        return _as_matrices(array_namespace(upper).take(samples_first(upper), where, axis=1), self.N)


def _as_matrices(sums: Array, N: int) -> Array:
    """(n, N * N) to (n, N, N), matrix by matrix in memory."""
    return array_namespace(sums).reshape(samples_first(sums), (sums.shape[0], N, N))
