"""A temperature for a teacher whose columns stand for sets, from the answers of other teachers, without labels.

The others are merged by MF-LF, and their answer is summed over the sets. For parts G of the teacher's columns, t_G the
others' answer, z the teacher's logits and b = 1 / tau, the cross-entropy of its answer at tau is

    f(b) = sum over rows of  w ( log sum_k exp(b z_k) - sum_G t_G log sum_{k in G} exp(b z_k) )

A part is a single column wherever the others determine its odds against other columns. If sets overlap partly, columns
are joined as needed: {a}, {b}, {c, d} and {a, b}, {c}, {d} have {a, b} against {c, d} in common. A row has weight w,
the square root of the probability that the others give to the teacher's classes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components

from sklearn_uhc.label_space import LabelSpace
from sklearn_uhc.solvers import blocks_of
from sklearn_uhc.solvers.blocks import softmax
from sklearn_uhc.solvers.class_fit import solve_sets
from sklearn_uhc.solvers.leave_one_out import (
    BOUNDS,
    NOISE_DISTANCE,
    NOISE_ERROR,
    Floats,
    Settled,
    search,
    shrunk,
    standard_error,
    weighted_median,
)
from sklearn_uhc.solvers.mf_lf import LogitAverage, LogitError

#: Maximum number of rows to compare on; the second if merges of the others have sets, which need iterations.
MOST_ROWS, MERGED_ROWS = 2000, 300
#: Tolerance and iterations of merges with sets; targets need no more precision.
TOL, MAX_ITER = 1e-5, 200


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
) -> tuple[Settled, Floats]:
    """Return the final temperatures, (N,), and their errors; teachers that are not compared keep their `log_tau`.

    `usual` is the raw temperature of teachers whose `log_tau` is 0; None: the median of the compared teachers.
    """
    teachers = list(dict.fromkeys(each.teacher for each in comparisons))
    error, found, out = np.full(len(log_tau), np.inf), log_tau.copy(), log_tau.copy()
    noise = np.zeros(len(log_tau), dtype=bool)
    for each in comparisons:
        out[each.teacher] = found[each.teacher] = each.loudness(np.exp(-log_tau))
    for _ in range(n_rounds):
        b = np.exp(-out)
        for i in teachers:
            pieces = [each.piece(b, weight) for each in comparisons if each.teacher == i]
            x = search(pieces, float(np.clip(-found[i], *BOUNDS)))
            found[i], error[i] = -x, standard_error(pieces, x, max(each.space.n_classes for each in comparisons))
        known = np.isfinite(error)
        if not known.any():
            break
        away = found - (weighted_median(found[known], weight[known]) if usual is None else usual)
        noise = known & (away > NOISE_DISTANCE) & (error > NOISE_ERROR)
        out[teachers] = 0.0
        out[known] = shrunk(away[known], error[known], tolerance)
        out[noise] = away[noise]
    return Settled(out, noise, np.zeros_like(noise)), error


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
