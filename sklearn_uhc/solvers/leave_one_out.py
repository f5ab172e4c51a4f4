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

A teacher whose columns stand for sets is compared afterwards (`SetComparison`). The others are merged by MF-LF, and
their answer is summed over the sets. For parts G of the teacher's columns and t_G the others' answer,

    f(b) = sum over rows of  w ( log sum_k exp(b z_k) - sum_G t_G log sum_{k in G} exp(b z_k) )

A part is a single column wherever the others determine its odds against other columns. If sets overlap partly, columns
are joined as needed: {a}, {b}, {c, d} and {a, b}, {c}, {d} have {a, b} against {c, d} in common.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components

from sklearn_uhc.solvers import blocks_of
from sklearn_uhc.solvers.blocks import softmax
from sklearn_uhc.solvers.class_fit import solve_sets
from sklearn_uhc.solvers.incidence import Incidence
from sklearn_uhc.solvers.mf_lf import LogitAverage, LogitError
from sklearn_uhc.solvers.plain_blocks import PlainBlocks
from sklearn_uhc.spaces.label_space import LabelSpace

Floats = NDArray[np.floating[Any]]

#: Bounds of log b. A teacher whose answers are unrelated to those of the others ends at the lower one.
BOUNDS = -float(np.log(1e4)), float(np.log(10.0))
MAX_STEPS, TOLERANCE = 60, 1e-6
#: Minimum number of rows: with 4, good teachers were called noise; with 10, temperatures began to help.
LEAST_ROWS = 10
#: Maximum number of rows to compare sets on; the second if merges of the others have sets, which need iterations.
MOST_ROWS, MERGED_ROWS = 2000, 300
#: Tolerance and iterations of merges with sets; targets need no more precision.
TOL, MAX_ITER = 1e-5, 200


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
        z = self.Z[compared.columns]
        sizes = np.diff(np.append(compared.starts, len(z)))
        z -= np.repeat(np.maximum.reduceat(z, compared.starts, axis=0), sizes, axis=0)
        return z

    def targets(self, b: Floats) -> Targets:
        """Merge all teachers, and all but one, at the inverse temperatures b (N,)."""
        blocks, n = self.blocks, self.Z.shape[1]
        scaled = self.Z * (self.weight * b)[blocks.teacher_of, None]
        Bz = blocks.sum_classes(scaled.T).T
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


class Compared(Protocol):
    """Rows on which a teacher is compared with others."""

    @property
    def weight(self) -> Floats: ...  # noqa: D102

    @property
    def label(self) -> NDArray[np.int_]: ...  # noqa: D102

    def slopes(self, b: float) -> tuple[Floats, Floats]: ...  # noqa: D102


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
    order = np.argsort(groups, kind="stable")
    sizes = np.unique(groups, return_counts=True)[1]
    columns, sizes = block.start + order[np.repeat(sizes, sizes) > 1], sizes[sizes > 1]
    if not len(columns):
        return None
    where = (i, columns, np.cumsum(sizes) - sizes)
    if len(groups) > len(weight):
        return ByLists.of(ListMeans.of(blocks, others, links), *where)
    return ByClasses.of(merge, float(weight[i]), groups, *where)


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


def group_softmax(U: Floats, starts: NDArray[np.int_]) -> Floats:
    """Softmax of every column, within every group of its entries."""
    sizes = np.diff(np.append(starts, len(U)))
    E = np.exp(U - np.repeat(np.maximum.reduceat(U, starts, axis=0), sizes, axis=0))
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


def search(pieces: Sequence[Compared], x: float) -> float:
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


def standard_error(pieces: Sequence[Compared], x: float, n_classes: int) -> float:
    """Return the standard error of log b, with rows of the same merged label as one observation."""
    b, second, squares = float(np.exp(x)), 0.0, 0.0
    clusters, seen, rows = np.zeros(n_classes), np.zeros(n_classes, dtype=bool), 0
    for piece in pieces:
        slope, curvature = piece.slopes(b)
        second += float(curvature.sum())
        squares += float((slope**2).sum())
        clusters += np.bincount(piece.label, weights=slope, minlength=n_classes)
        seen[piece.label[piece.weight > 0]] = True
        rows += len(slope)
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
        out[known] = shrunk(
            log_tau[known] - weighted_median(log_tau[known], teacher_weight[known]), error[known], tolerance
        )
    return out


def shrunk(away: Floats, error: Floats, tolerance: float) -> Floats:
    """Shrink distances from the median according to their noise."""
    noise = error**2 + tolerance**2
    s = max(0.0, float(np.mean(away**2) - np.median(noise)))
    return np.asarray(away * (s / (s + noise) if s > 0 else 0.0))


class Parts(NamedTuple):
    """The parts of a teacher's columns that can be compared with the others."""

    columns: NDArray[np.int_]  #: (r,), indices of the teacher's columns, sorted by part
    starts: NDArray[np.int_]  #: start of each part in `columns`
    sets: Floats  #: (g, L), the classes of each part, among those of the others


class Some(NamedTuple):
    """A selection of columns."""

    columns: NDArray[np.int_]  #: indices among the K columns
    whose: NDArray[np.int_]  #: their teachers, in order
    space: LabelSpace  #: of these teachers with these columns


@dataclass(frozen=True)
class SetComparison:
    """Rows answered by teacher i and some others, and the parts of their answers that can be compared."""

    teacher: int
    own: Floats  #: (n, k), its logits
    X: Floats  #: (n, K'), the others' answers
    space: LabelSpace  #: of the others
    whose: NDArray[np.int_]  #: the others, among the N teachers
    parts: Parts

    @classmethod
    def of(cls, i: int, X: Floats, space: LabelSpace, speaking: NDArray[np.bool_]) -> SetComparison | None:
        """Compare teacher i with columns of single classes, or with all columns if those do not determine its odds.

        Teachers with one column say nothing, and are left out.
        """
        others = np.flatnonzero(speaking & (np.bincount(space.teacher_of) > 1) & (np.arange(len(speaking)) != i))
        for columns, whose, sub in (of_single_classes(space, others), of_all_columns(space, others)):
            parts = comparable_parts(i, space, sub) if len(whose) else None
            if parts is not None:
                rows = slice(None, None, -(-len(X) // (MERGED_ROWS if sub.has_sets else MOST_ROWS)))
                own = blocks_of(space).shift(X)[rows, space.blocks[i]]
                return cls(i, own, X[rows][:, columns], sub, whose, parts)
        return None

    def loudness(self, b: Floats) -> float:
        """Return the log size of the teacher's centred logits, relative to those of the others."""
        Z = blocks_of(self.space).center(blocks_of(self.space).shift(self.X)) * b[self.whose][self.space.teacher_of]
        own = self.own - self.own.mean(axis=1, keepdims=True)
        sizes = [max(float(np.square(each).mean()), np.finfo(float).tiny) for each in (own, Z)]
        return float(np.log(sizes[0] / sizes[1])) / 2

    def piece(self, b: Floats, weight: Floats) -> CoarsePiece:
        """Merge the others at inverse temperatures b (N,) and weights (N,)."""
        u = merged_logits(self.X, self.space, b[self.whose], weight[self.whose])
        return coarse_piece(self.own, u, self.parts)


class CoarsePiece(NamedTuple):
    """A teacher's answers on some rows, and those of the others, by part."""

    z: Floats  #: (r, n), logits, the largest 0
    starts: NDArray[np.int_]  #: (g,), where the parts begin
    target: Floats  #: (g, n), what the others say
    weight: Floats  #: (n,)
    label: NDArray[np.int_]  #: (n,), most probable class of the others

    def slopes(self, b: float) -> tuple[Floats, Floats]:
        """Return the weighted derivatives of the loss by b and twice by b, per row."""
        # Each part is scaled on its own: otherwise exp() of a part far below the largest entry would underflow.
        sizes = np.diff(np.append(self.starts, len(self.z)))
        z = self.z - np.repeat(np.maximum.reduceat(self.z, self.starts, axis=0), sizes, axis=0)
        inner_mean, inner_var = moments(b, z, self.starts)
        inner_mean += np.maximum.reduceat(self.z, self.starts, axis=0)
        mean, variance = moments(b, self.z, np.zeros(1, dtype=int))
        first = mean[0] - (self.target * inner_mean).sum(axis=0)
        return self.weight * first, self.weight * (variance[0] - (self.target * inner_var).sum(axis=0))


def moments(b: float, z: Floats, starts: NDArray[np.int_]) -> tuple[Floats, Floats]:
    """Return mean and variance of z (r, n) under softmax(b z), within every part."""
    E = np.exp(b * z)
    total = np.add.reduceat(E, starts, axis=0)
    mean = np.add.reduceat(E * z, starts, axis=0) / total
    return mean, np.add.reduceat(E * z**2, starts, axis=0) / total - mean**2


def set_temperatures(
    comparisons: Sequence[SetComparison],
    log_tau: Floats,
    weight: Floats,
    usual: float | None,
    tolerance: float,
    n_rounds: int,
) -> tuple[Floats, Floats]:
    """Return the final log tau, (N,), and their errors; teachers that are not compared keep their `log_tau`.

    `usual` is the raw temperature of teachers whose `log_tau` is 0; None: the median of the compared teachers.
    """
    teachers = list(dict.fromkeys(each.teacher for each in comparisons))
    error, found, out = np.full(len(log_tau), np.inf), log_tau.copy(), log_tau.copy()
    for each in comparisons:
        out[each.teacher] = found[each.teacher] = each.loudness(np.exp(-log_tau))
    for _ in range(n_rounds):
        b = np.exp(-out)
        for i in teachers:
            pieces = [each.piece(b, weight) for each in comparisons if each.teacher == i]
            x = search(pieces, float(np.clip(-found[i], *BOUNDS)))
            found[i], error[i] = -x, standard_error(pieces, x, max(each.space.n_classes for each in comparisons))
        known = np.isfinite(error)
        out[teachers] = 0.0
        if not known.any():
            break
        usual_now = weighted_median(found[known], weight[known]) if usual is None else usual
        out[known] = shrunk(found[known] - usual_now, error[known], tolerance)
    return out, error


def of_single_classes(space: LabelSpace, teachers: NDArray[np.int_]) -> Some:
    """Return the columns of single classes, of teachers that have at least two."""
    found = {int(i): space.singles(i) for i in teachers}
    found = {i: singles for i, singles in found.items() if len(singles.columns) > 1}
    if not found:
        return Some(np.zeros(0, dtype=int), np.zeros(0, dtype=int), space)
    columns = np.concatenate([singles.columns for singles in found.values()])
    lists = [space.classes[singles.classes] for singles in found.values()]
    return Some(columns, np.array(list(found)), LabelSpace(lists))


def of_all_columns(space: LabelSpace, teachers: NDArray[np.int_]) -> Some:
    """Return all columns of some teachers."""
    if not len(teachers):
        return Some(np.zeros(0, dtype=int), teachers, space)
    columns = np.flatnonzero(np.isin(space.teacher_of, teachers))
    return Some(columns, teachers, space.restrict(teachers))


def merged_logits(X: Floats, space: LabelSpace, b: Floats, weight: Floats) -> Floats:
    """Return (n, L), the MF-LF merge of answers X (n, K) at the inverse temperatures b (N,)."""
    blocks, w = blocks_of(space), weight / weight.mean()
    Z = blocks.shift(np.asarray(X, dtype=float)) * b[space.teacher_of]
    if space.has_sets:
        return np.asarray(solve_sets(LogitError(), Z, Z, blocks, tol=TOL, max_iter=MAX_ITER, weight=w).u)
    return np.asarray(LogitAverage.of(blocks, w).solve(Z)[0])


def coarse_piece(Z: Floats, u: Floats, parts: Parts) -> CoarsePiece:
    """Compare a teacher's logits Z (n, k) with the merged ones of the others, (n, L)."""
    z = Z[:, parts.columns].T
    q = softmax(u)
    mass = parts.sets @ q.T
    total = np.maximum(mass.sum(axis=0), np.finfo(float).tiny)
    return CoarsePiece(z - z.max(axis=0), parts.starts, mass / total, np.sqrt(total), q.argmax(axis=1))


def comparable_parts(i: int, space: LabelSpace, others: LabelSpace) -> Parts | None:
    """Return the largest set of parts of teacher i's columns whose odds the others determine, or None if below two."""
    at = np.searchsorted(space.classes, others.classes)
    own = space.membership()[space.blocks[i]][:, at].astype(float)
    best: NDArray[np.int_] = np.full(len(own), -1)
    for part_of in coarsenings(own, others):
        ids = [p for p in range(part_of.max() + 1) if own[part_of == p].any()]
        sets = np.array([own[part_of == p].sum(axis=0) for p in ids])
        chosen = determined(sets, others) if len(ids) else np.zeros(0, dtype=int)
        if len(chosen) > max(best.max() + 1, 1):
            renumbered = np.full(part_of.max() + 2, -1)
            renumbered[np.array(ids)[chosen]] = np.arange(len(chosen))
            best = renumbered[part_of]
    if best.max() < 1:
        return None
    columns = np.argsort(best, kind="stable")[(best < 0).sum() :]
    sets = np.array([own[best == p].sum(axis=0) for p in range(best.max() + 1)])
    return Parts(columns, np.flatnonzero(np.diff(best[columns], prepend=-1)), sets)


def coarsenings(own: Floats, others: LabelSpace) -> Iterator[NDArray[np.int_]]:
    """Yield (k,), a part for each column or -1: first single columns, then partitions shared with each other teacher.

    `own` (k, L) are the columns' classes.
    """
    k = len(own)
    yield np.arange(k)
    columns = others.membership().astype(float)
    for block in others.blocks:
        meet = own @ columns[block].T
        graph = np.block([[np.zeros((k, k)), meet], [np.zeros((len(meet.T), k + len(meet.T)))]])
        part_of = connected_components(graph, directed=False)[1][:k]
        part_of = np.where(meet.any(axis=1), part_of, -1)
        found = np.unique(part_of[part_of >= 0])
        if 1 < len(found) < k:
            yield np.where(part_of < 0, -1, np.searchsorted(found, part_of))


def determined(sets: Floats, space: LabelSpace) -> NDArray[np.int_]:
    """Return the largest group of these sets (g, L) whose odds are determined by the answers of a label space.

    log q(S) changes by r_S du, where r are the shares within S. If this change is the same along every undetermined
    direction, the odds of two sets are determined.
    """
    q, null = left_open(space)
    shares = sets * q
    moves = (shares / shares.sum(axis=1, keepdims=True)) @ null
    alike = np.abs(moves[:, None] - moves).max(axis=2) < 1e-7
    return np.flatnonzero(alike[alike.sum(axis=1).argmax()])


def left_open(space: LabelSpace) -> tuple[Floats, Floats]:
    """Return a generic q, and the directions (L, m) of log q that answers do not determine there."""
    if space.has_sets:
        return space.identification.left_open
    q = 1.0 + np.random.default_rng(0).random(space.n_classes)
    return q, np.eye(space.n_components)[space.components]
