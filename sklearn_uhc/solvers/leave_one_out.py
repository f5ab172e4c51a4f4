"""A temperature per teacher from the answers of the other teachers, without labels.

For teacher i, t is the MF-LF merge of all others on the classes they share with it, and

    f_i(b) = sum over rows of  w ( log sum_l exp(b z_l) - b sum_l t_l z_l ),      b = 1 / tau

is the cross-entropy of softmax(b z_i) against it, which is convex in one variable. If the others do not link all shared
classes, t is undetermined across the groups they do link, and each group of two or more classes has its own sum. A row
has weight w, the square root of the probability that the merge of all teachers gives to the classes of teacher i.

The merge without teacher i has the right-hand side r - w_i C_i z_i and the matrix A - w_i C_i, where C_i subtracts the
mean over the classes of teacher i (`ListMeans`). So on these k classes it follows from the merge u of all teachers,
as in leave-one-out regression, and no system is larger than k:

    (C - w_i C G C) u_{-i} = u - G w_i C z_i,      G the entries of A^-1 for these classes, C = C_i

The matrix is singular only for shifts of classes that the others link. A list of more classes than there are teachers
is merged by list means instead. A teacher that is silent for the rows of a part has weight 0 there.

A teacher whose columns stand for sets is compared with the merge of all single classes, summed over its sets, once the
temperatures of these are known.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components

from sklearn_uhc.solvers.blocks import softmax
from sklearn_uhc.solvers.incidence import Incidence
from sklearn_uhc.solvers.plain_blocks import PlainBlocks

Floats = NDArray[np.floating[Any]]

#: Bounds of log b. A teacher whose answers are unrelated to those of the others ends at the lower one.
BOUNDS = -float(np.log(1e4)), float(np.log(10.0))
#: Of the search for log b; a bisection of the bounds to this precision takes 24 steps.
MAX_STEPS, TOLERANCE = 60, 1e-6
#: Minimum number of rows: with fewer, temperatures did not help yet.
LEAST_ROWS = 10


class ListMeans(NamedTuple):
    """MF-LF with one unknown per teacher instead of one per class, for weights of which some are 0.

        A u = r,      A = D - M' diag(w / k) M,      D = diag(sum_i w_i m_i)

    A is a diagonal minus a matrix of rank N. With R = diag(sqrt(w / k)) and H = R M D^-1/2,

        u = D^-1 (r + M' R y),      (I - H H') y = R M D^-1 r

    I - H H' is (N, N). Its null space has one vector sqrt(w k) for every group of teachers linked by shared classes,
    since u can be shifted there; the projector on them is added. Teachers of weight 0 are left out, and so are classes
    that only they know.
    """

    blocks: PlainBlocks
    per_owner: Floats  #: (L,), 1 / D, and 0 for classes without a teacher
    inverse: Floats  #: (N, N), R (I - H H')^-1 R: maps M D^-1 r to R y
    groups: NDArray[np.int_]  #: (L,), the group of each class

    @classmethod
    def of(cls, blocks: PlainBlocks, weight: Floats, links: NDArray[np.bool_]) -> ListMeans:
        """Prepare class lists with weights (N,); `links` (N, N): which teachers share a class."""
        sizes, D = blocks.sizes, blocks.sum_owners(weight[None, :])[0]
        per_owner = np.where(D > 0, 1 / np.where(D > 0, D, 1.0), 0.0)
        group_of = teacher_groups(links, weight > 0)
        root, null = np.sqrt(weight / sizes), np.sqrt(weight * sizes)
        same = group_of[:, None] == group_of
        G = np.eye(len(sizes)) - root[:, None] * blocks.pairs.sums(per_owner[None, :])[0] * root
        G += same * np.outer(null, null) / np.maximum(same @ null**2, np.finfo(float).tiny)[:, None]
        groups = np.zeros(len(per_owner), dtype=int)
        speak = weight[blocks.teacher_of] > 0
        groups[blocks.class_of[speak]] = group_of[blocks.teacher_of[speak]]  # any teacher that knows the class
        return cls(blocks, per_owner, root[:, None] * np.linalg.inv(G) * root, groups)

    def entries(self, classes: NDArray[np.int_]) -> Floats:
        """Return (k, k), the entries of A^-1 for some classes that have a teacher."""
        per_owner, blocks = self.per_owner[classes], self.blocks
        known = np.zeros((len(classes), blocks.n_classes))
        known[np.arange(len(classes)), classes] = 1.0
        lists = blocks.sum_lists(known)  # (k, N)
        return np.diag(per_owner) + per_owner[:, None] * (lists @ self.inverse @ lists.T) * per_owner

    def solve(self, r: Floats) -> Floats:
        """Return u (L, n), with mean zero in every group; -inf for classes without a teacher."""
        x = self.per_owner[:, None] * r
        y = self.inverse @ self.blocks.sum_lists(x.T).T
        u = x + self.per_owner[:, None] * self.blocks.sum_owners(y.T).T
        known = self.per_owner > 0
        for group in np.unique(self.groups[known]):
            own = known & (self.groups == group)
            u[own] -= u[own].mean(axis=0)
        u[~known] = -np.inf
        return np.asarray(u)


def share_classes(blocks: PlainBlocks) -> NDArray[np.bool_]:
    """Return (N, N): which teachers share a class."""
    return np.asarray(blocks.pairs.sums(np.ones((1, blocks.n_classes)))[0] > 0)


def teacher_groups(links: NDArray[np.bool_], answering: NDArray[np.bool_]) -> NDArray[np.int_]:
    """Return (N,): the group of every teacher, linked through teachers with a weight; others form their own groups."""
    groups: NDArray[np.int_] = connected_components(links & answering & answering[:, None], directed=False)[1]
    return groups


@dataclass(frozen=True)
class Comparison:
    """The columns of teacher i that can be compared with the others, and their merge there."""

    teacher: int
    columns: NDArray[np.int_]  #: (r,), among the K columns, sorted by group
    starts: NDArray[np.int_]  #: start of each group in `columns`

    def merged(self, shared: Shared, own: Floats, blocks: PlainBlocks) -> Floats:
        """(r, n), logits of the others, from the sums over all teachers and the own weighted logits, (k, n)."""
        raise NotImplementedError


@dataclass(frozen=True)
class ByClasses(Comparison):
    """Subtract the teacher from the merge of all."""

    G: Floats  #: (k, k), entries of A^-1 for the classes of teacher i
    inverse: Floats  #: (r, k), the rows for `columns` of (C - w C G C)^-1, with shifts of each group filled

    @classmethod
    def of(cls, merge: ListMeans, weight: float, groups: NDArray[np.int_], *where: Any) -> ByClasses:
        """Prepare a teacher; `groups` (k,) of its classes that the others link, `where`: the fields of the base."""
        i, columns, starts = where
        block = merge.blocks.slices[i]
        G = merge.entries(merge.blocks.class_of[block])
        same = groups[:, None] == groups
        centred = G - G.mean(axis=0)
        centred -= centred.mean(axis=1, keepdims=True)
        matrix = np.eye(len(G)) - 1 / len(G) - weight * centred + same / same.sum(axis=0)
        return cls(i, columns, starts, G, np.linalg.inv(matrix)[columns - block.start])

    def merged(self, shared: Shared, own: Floats, blocks: PlainBlocks) -> Floats:
        """See `Comparison`."""
        return np.asarray(self.inverse @ (shared.u[blocks.class_of[blocks.slices[self.teacher]]] - self.G @ own))


@dataclass(frozen=True)
class ByLists(Comparison):
    """Merge the others by list means.

    Without teacher i, D^-1 r changes only for its own classes. So M D^-1 r of all teachers and this change suffice: the
    cost of a comparison is proportional to the number of columns of these classes.
    """

    per_owner: Floats  #: (k,), 1 / D of the others, for the classes of teacher i
    inverse: Floats  #: (N, N), as in `ListMeans` of the others
    own_lists: Incidence  #: (N, k), which teachers know these classes

    @classmethod
    def of(cls, merge: ListMeans, *where: Any) -> ByLists:
        """Prepare a teacher from the merge of the others; `where`: the fields of the base."""
        blocks = merge.blocks
        own = blocks.class_of[blocks.slices[where[0]]]
        place = np.full(blocks.n_classes, -1)
        place[own] = np.arange(len(own))
        theirs = np.flatnonzero(place[blocks.class_of] >= 0)
        shape = (blocks.n_teachers, len(own))
        lists = Incidence(blocks.teacher_of[theirs], place[blocks.class_of[theirs]], shape, blocks.sizes)
        i, columns, starts = where
        return cls(i, columns, starts, merge.per_owner[own], merge.inverse, lists)

    def merged(self, shared: Shared, own: Floats, blocks: PlainBlocks) -> Floats:
        """See `Comparison`."""
        block = blocks.slices[self.teacher]
        classes, at = blocks.class_of[block], self.columns - block.start
        x = self.per_owner[:, None] * (shared.Bz[classes] - own)
        change = self.own_lists((x - shared.x[classes]).T).T
        y = self.inverse @ (shared.lists + change)
        u = x[at] + self.per_owner[at, None] * (self.own_lists.transposed(y.T).T)[at]
        return np.asarray(u)


class Shared(NamedTuple):
    """Shared by the merges of all teachers but one."""

    Bz: Floats  #: (L, n), sums of the weighted logits
    x: Floats  #: (L, n), D^-1 Bz of all teachers
    lists: Floats  #: (N, n), M x
    u: Floats  #: (L, n), the merge of all teachers


class Targets(NamedTuple):
    """The others' answers on the rows of a part."""

    inner: Floats  #: (N, n), sum_l t_l z_l, z from `Part.logits`
    weight: Floats  #: (N, n), weight of a row for a teacher
    label: NDArray[np.int_]  #: (n,), most probable class of the merge of all teachers


@dataclass(frozen=True)
class Part:
    """Rows for which the same teachers answer."""

    Z: Floats  #: (K, n), centred logits, 0 for silent teachers; rows are contiguous, so that sums over classes are fast
    blocks: PlainBlocks  #: of all teachers
    weight: Floats  #: (N,), weights of the teachers in the merges, 0 for silent ones
    merge: ListMeans
    comparisons: Sequence[Comparison]

    @classmethod
    def of(cls, X: Floats, blocks: PlainBlocks, weight: Floats) -> Part:
        """Prepare answers X (n, K), with NaN for teachers that are silent for all rows."""
        Z = blocks.center(blocks.shift(np.asarray(np.nan_to_num(X, nan=0.0), dtype=float))).T
        silent = np.array([np.isnan(X[0, own.start]) for own in blocks.slices])
        return cls(np.ascontiguousarray(Z), blocks, *prepare(blocks, np.where(silent, 0.0, weight)))

    def logits(self, compared: Comparison) -> Floats:
        """(r, n), a teacher's logits in the compared columns; the largest of every group is 0."""
        return shifted(self.Z[compared.columns], compared.starts)

    def scaled(self, b: Floats) -> tuple[Floats, Floats]:
        """Return the weighted logits at the inverse temperatures b (N,), (K, n), and their sums, (L, n)."""
        scaled = self.Z * (self.weight * b)[self.blocks.teacher_of, None]
        return scaled, self.blocks.sum_classes(scaled.T).T

    def merged(self, b: Floats) -> tuple[Floats, NDArray[np.int_]]:
        """Return the merge of all teachers at the inverse temperatures b (N,), (n, L), and the group of every class."""
        u = self.merge.solve(self.scaled(b)[1])
        return softmax(u.T), class_groups(self.blocks, self.weight > 0)

    def targets(self, b: Floats) -> Targets:
        """Merge all teachers, and all but one, at the inverse temperatures b (N,)."""
        blocks, n = self.blocks, self.Z.shape[1]
        scaled, Bz = self.scaled(b)
        x = self.merge.per_owner[:, None] * Bz
        shared = Shared(Bz, x, blocks.sum_lists(x.T).T, self.merge.solve(Bz))
        Q = softmax(shared.u.T)
        inner, weight, mass = np.zeros((len(b), n)), np.zeros((len(b), n)), np.sqrt(blocks.sum_lists(Q)).T
        for compared in self.comparisons:
            i = compared.teacher
            t = group_softmax(compared.merged(shared, scaled[blocks.slices[i]], blocks), compared.starts)
            inner[i] = (t * self.logits(compared)).sum(axis=0)
            weight[i] = mass[i]
        return Targets(inner, weight, Q.argmax(axis=1))


class Piece(NamedTuple):
    """The answers of one teacher, and of the others, on the rows of a part."""

    z: Floats  #: (r, n), from `Part.logits`
    starts: NDArray[np.int_]
    inner: Floats  #: (n,), as in `Targets`, like the next two
    weight: Floats
    label: NDArray[np.int_]

    @classmethod
    def joined(cls, pieces: Sequence[Piece]) -> Piece:
        """Concatenate rows, since many parts have few rows each."""
        if len(pieces) == 1:
            return pieces[0]
        z, _, *rows = zip(*pieces, strict=True)
        return cls(np.hstack(z), pieces[0].starts, *map(np.concatenate, rows))

    def slopes(self, b: float) -> tuple[Floats, Floats]:
        """Return the weighted derivatives of the loss by b and twice by b, per row."""
        E = np.exp(b * self.z)
        total = np.add.reduceat(E, self.starts, axis=0)
        E *= self.z
        means = np.add.reduceat(E, self.starts, axis=0) / total
        E *= self.z
        squares = np.add.reduceat(E, self.starts, axis=0) / total
        first, second = means.sum(axis=0) - self.inner, (squares - means**2).sum(axis=0)
        return self.weight * first, self.weight * second


def compare(i: int, merge: ListMeans, weight: Floats, links: NDArray[np.bool_]) -> Comparison | None:
    """Prepare teacher i; return None if it shares no two classes that the others link."""
    blocks, others = merge.blocks, np.where(np.arange(len(weight)) == i, 0.0, weight)
    block = blocks.slices[i]
    groups = class_groups(blocks, others > 0)[blocks.class_of[block]]
    columns, starts = by_group(groups)
    if not len(columns):
        return None
    where = (i, block.start + columns, starts)
    if len(groups) > len(weight):
        return ByLists.of(ListMeans.of(blocks, others, links), *where)
    return ByClasses.of(merge, float(weight[i]), groups, *where)


def by_group(groups: NDArray[np.int_]) -> tuple[NDArray[np.int_], NDArray[np.int_]]:
    """Return the columns of the groups that have two or more, sorted by group, and the start of each group."""
    order, sizes = np.argsort(groups, kind="stable"), np.unique(groups, return_counts=True)[1]
    columns, sizes = order[np.repeat(sizes, sizes) > 1], sizes[sizes > 1]
    return columns, np.cumsum(sizes) - sizes


def class_groups(blocks: PlainBlocks, answering: NDArray[np.bool_]) -> NDArray[np.int_]:
    """Return (L,): the group of every class, linked through the teachers that are `answering`, (N,)."""
    N, n = len(answering), len(answering) + blocks.n_classes
    edges = answering[blocks.teacher_of]
    where = blocks.teacher_of[edges], N + blocks.class_of[edges]
    groups = connected_components(coo_matrix((np.ones(len(where[0])), where), shape=(n, n)), directed=False)[1]
    return np.asarray(groups[N:])


def prepare(blocks: PlainBlocks, weight: Floats) -> tuple[Floats, ListMeans, list[Comparison]]:
    """Return the weights, the merge of all teachers with a weight, and the comparisons of those that allow one."""
    links = share_classes(blocks)
    merge = ListMeans.of(blocks, weight, links)
    found = [compare(i, merge, weight, links) for i in np.flatnonzero(weight).tolist()]
    return weight, merge, [each for each in found if each is not None]


def initial_log_temperature(parts: Sequence[Part], n_teachers: int) -> Floats:
    """Return the start of log tau: log of the root mean square of each teacher's centred logits, minus the median.

    A teacher with logits a hundred times as large would otherwise dominate all merges but its own, and go unnoticed.
    """
    squares, count = np.zeros(n_teachers), np.zeros(n_teachers)
    for part in parts:
        squares += part.blocks.sum_teachers((part.Z**2).sum(axis=1)[None, :])[0]
        count += part.Z.shape[1] * part.blocks.sizes * (part.weight > 0)
    varies = squares > 0
    size = np.log(np.where(varies, squares, 1.0) / np.maximum(count, 1.0)) / 2
    return np.where(varies, size - np.median(size[varies]), 0.0) if varies.any() else squares


def shifted(U: Floats, starts: NDArray[np.int_]) -> Floats:
    """Return U (r, n) with the largest entry of every group at 0."""
    sizes = np.diff(np.append(starts, len(U)))
    return np.asarray(U - np.repeat(np.maximum.reduceat(U, starts, axis=0), sizes, axis=0))


def group_softmax(U: Floats, starts: NDArray[np.int_]) -> Floats:
    """Softmax of every column, within every group of its entries."""
    sizes = np.diff(np.append(starts, len(U)))
    E = np.exp(shifted(U, starts))
    return E / np.repeat(np.add.reduceat(E, starts, axis=0), sizes, axis=0)


def best_temperatures(
    parts: Sequence[Part], targets: Sequence[Targets], start: Floats, n_classes: int
) -> tuple[Floats, Floats]:
    """Return log tau of every teacher and its standard error, which is infinite if there is nothing to learn from."""
    log_tau, error = -np.clip(np.log(start), *BOUNDS), np.full(len(start), np.inf)
    for k in range(len(start)):
        pieces = pieces_of(k, parts, targets)
        if pieces:
            x = search(pieces, -float(log_tau[k]))
            log_tau[k], error[k] = -x, standard_error(pieces, x, n_classes)
    return log_tau, error


def pieces_of(k: int, parts: Sequence[Part], targets: Sequence[Targets]) -> list[Piece]:
    """Return all rows on which teacher k is compared; rows with the same columns form one piece."""
    found: dict[tuple[bytes, bytes], list[Piece]] = {}
    for part, target in zip(parts, targets, strict=True):
        for compared in (each for each in part.comparisons if each.teacher == k):
            alike = compared.columns.tobytes(), compared.starts.tobytes()
            piece = Piece(part.logits(compared), compared.starts, target.inner[k], target.weight[k], target.label)
            found.setdefault(alike, []).append(piece)
    return [Piece.joined(pieces) for pieces in found.values()]


def set_piece(Z: Floats, sets: NDArray[np.bool_], q: Floats, groups: NDArray[np.int_]) -> Piece | None:
    """Compare the logits Z (n, k) of columns that stand for sets (k, L) with a merge q (n, L), summed over the sets.

    Z has NaN where the teacher is silent. None if the merge links no two sets; `groups` (L,) are the classes it links.
    """
    first = np.where(sets, groups, groups.max()).min(axis=1)
    linked = np.flatnonzero(first == np.where(sets, groups, -1).max(axis=1))
    columns, starts = by_group(first[linked])
    if not len(columns):
        return None
    silent = np.isnan(Z[:, 0])
    z = shifted(np.where(silent, 0.0, Z[:, linked[columns]].T), starts)
    mass = sets[linked[columns]] @ q.T
    t = group_softmax(np.log(np.maximum(mass, np.finfo(float).tiny)), starts)
    return Piece(z, starts, (t * z).sum(axis=0), np.sqrt(mass.sum(axis=0)) * ~silent, q.argmax(axis=1))


def search(pieces: Sequence[Piece], x: float) -> float:
    """Return log b of one teacher, by Newton's method from x within a shrinking bracket."""
    low, high = BOUNDS
    untried = set(BOUNDS)
    for _ in range(MAX_STEPS):
        b = float(np.exp(x))
        first = second = 0.0
        for piece in pieces:
            slope, curvature = piece.slopes(b)
            first, second = first + float(slope.sum()), second + float(curvature.sum())
        if first == 0:
            return x
        low, high = (x, high) if first < 0 else (low, x)
        step = -first / (second * b) if second > 0 else np.inf
        if low < x + step < high:
            x += step
            if abs(step) < TOLERANCE:
                return x
            continue
        end = low if first > 0 else high  # teachers without information end at a bound: try it before bisection
        new = end if end in untried else (low + high) / 2
        untried.discard(end)
        if abs(new - x) < TOLERANCE:
            return new
        x = new
    return x


def standard_error(pieces: Sequence[Piece], x: float, n_classes: int) -> float:
    """Return the standard error of log b, with rows of the same merged label as one observation."""
    b, second, squares = float(np.exp(x)), 0.0, 0.0
    clusters, seen, rows = np.zeros(n_classes), np.zeros(n_classes, dtype=bool), 0
    for piece in pieces:
        slope, curvature = piece.slopes(b)
        second += float(curvature.sum())
        squares += float((slope**2).sum())
        clusters += np.bincount(piece.label, weights=slope, minlength=n_classes)
        seen[piece.label[piece.weight > 0]] = True
        rows += int((piece.weight > 0).sum())
    n = int(seen.sum())
    # The cluster sums add up to zero at the optimum, so a single cluster tells nothing about the noise.
    if n < 2 or rows < LEAST_ROWS or not second > 0:
        return np.inf
    variance = n / (n - 1) * max(float((clusters**2).sum()), squares)
    # The error of b on the log scale, upwards: near b = 0, where noise ends, x itself is poorly determined.
    return float(np.log1p(np.sqrt(variance) / (second * b)))


def weighted_median(values: Floats, weights: Floats) -> float:
    """Return the value with half of the weight on either side, or the middle of two such."""
    order = np.argsort(values)
    share = np.cumsum(weights[order]) / weights.sum()
    two = np.searchsorted(share, [0.5 - 1e-9, 0.5 + 1e-9])  # within rounding of 1/2
    return float(values[order[two]].mean())


def shrink(log_tau: Floats, error: Floats, teacher_weight: Floats, tolerance: float) -> Floats:
    """Subtract the median, and shrink the rest as far as it can be explained by noise.

    An empirical Bayes estimate: log tau - median is multiplied by s / (s + noise), where noise = error^2 + tolerance^2
    and s is the variance beyond it. The errors vanish with many rows, but errors of the merge do not.
    """
    out, known = np.zeros(len(log_tau)), np.isfinite(error)
    if known.sum() > 1:
        usual = weighted_median(log_tau[known], teacher_weight[known])
        out[known] = shrunk(log_tau[known] - usual, error[known], tolerance)
    return out


def shrunk(away: Floats, error: Floats, tolerance: float) -> Floats:
    """Shrink distances from the median according to their noise."""
    noise = error**2 + tolerance**2
    s = max(0.0, float(np.mean(away**2) - np.median(noise)))
    return np.asarray(away * (s / (s + noise) if s > 0 else 0.0))
