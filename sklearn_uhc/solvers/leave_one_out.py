"""A temperature per teacher from what the other teachers say, without labels.

For teacher i, t is the MF-LF answer of all the others on the classes that they share with it, and

    f_i(b) = sum over rows of  w ( log sum_l exp(b z_l) - b sum_l t_l z_l ),      b = 1 / tau

is the cross-entropy of softmax(b z_i) against it: convex, one variable. Where the others do not link all the shared
classes, t says nothing across the groups they do link; each group of two classes or more then has a sum of its own. A
row counts by w, the square root of the mass that the merge of all teachers gives to the classes of teacher i.

The merge without teacher i comes from the Laplacian A of all lists less the teacher's own part,

    u = (A - S_i' C_i S_i + P_i)^-1 (B z - S_i' C_i z_i),    P_i takes the mean over each group that the others link

so that B z, computed once for all rows, serves all teachers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import connected_components

from sklearn_uhc.solvers.blocks import Blocks, softmax
from sklearn_uhc.solvers.mf_lf import LogitAverage

Floats = NDArray[np.floating[Any]]

#: Bounds of log b. A teacher whose answers have nothing to do with those of the others ends at the lower one.
BOUNDS = -float(np.log(1e4)), float(np.log(10.0))
MAX_STEPS, TOLERANCE = 60, 1e-6
#: After a Newton step as short as this, what is missing is of the order of its square.
NEWTON_STEP = 1e-5
#: A teacher is noise to the others if its log tau is this far above their median and b less than four errors above 0.
NOISE_DISTANCE, NOISE_ERROR = 2.0, float(np.log1p(1 / 4))
#: Fewer rows say nothing: with 4, good teachers were taken for noise; with 10, temperatures began to help.
LEAST_ROWS = 10


class Comparison(NamedTuple):
    """What of teacher i the others can be compared with."""

    teacher: int
    columns: NDArray[np.int_]  #: (r,), among the K columns, group after group
    starts: NDArray[np.int_]  #: where the groups begin among them
    merge: Floats  #: (L, r), takes B z of the other teachers to their logits on these columns


class Targets(NamedTuple):
    """What the others say about the rows of a part."""

    inner: Floats  #: (N, n), sum_l t_l z_l, z as `Part.logits` gives them
    weight: Floats  #: (N, n), how much a row counts for a teacher
    label: NDArray[np.int_]  #: (n,), most probable class of the merge of all teachers


@dataclass(frozen=True)
class Part:
    """Rows for which the same teachers answer."""

    X: Floats  #: (n, K), of these teachers
    teachers: NDArray[np.int_]
    classes: NDArray[np.int_]
    weight: Floats  #: of these teachers in the merges
    blocks: Blocks
    merge: Floats  #: (L, L), takes B z to the logits of the merge of all
    comparisons: Sequence[Comparison]

    @cached_property
    def Z(self) -> Floats:
        """(K, n), centred logits, kept: with rows side by side, sums over a teacher's classes are fast."""
        return np.ascontiguousarray(self.blocks.center(self.blocks.shift(np.asarray(self.X, dtype=float))).T)

    def logits(self, compared: Comparison) -> Floats:
        """(r, n), logits of a teacher on what can be compared, the largest of every group 0."""
        z = self.Z[compared.columns]
        sizes = np.diff(np.append(compared.starts, len(z)))
        z -= np.repeat(np.maximum.reduceat(z, compared.starts, axis=0), sizes, axis=0)
        return z

    def targets(self, b: Floats) -> Targets:
        """Merge all teachers, and all but one, at the inverse temperatures b (N,)."""
        blocks, n = self.blocks, len(self.X)
        scaled = self.Z * (self.weight * b[self.teachers])[blocks.teacher_of, None]
        Bz = np.zeros((blocks.M.shape[1], n))
        for own in blocks.slices:
            Bz[blocks.class_of[own]] += scaled[own]
        Q = softmax((self.merge.T @ Bz).T)
        inner, weight = np.zeros((len(b), n)), np.zeros((len(b), n))
        for compared in self.comparisons:
            i, _, starts, merge = compared
            own, k = blocks.slices[i], self.teachers[i]
            t = group_softmax(merge.T @ Bz - merge[blocks.class_of[own]].T @ scaled[own], starts)
            inner[k] = (t * self.logits(compared)).sum(axis=0)
            weight[k] = np.sqrt(Q @ blocks.M[i])
        return Targets(inner, weight, self.classes[Q.argmax(axis=1)])


class Piece(NamedTuple):
    """What one teacher says about the rows of a part, and the others."""

    z: Floats  #: (r, n), from `Part.logits`
    starts: NDArray[np.int_]
    inner: Floats  #: (n,), as in `Targets`, and the next two
    weight: Floats
    label: NDArray[np.int_]

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


def compare(i: int, blocks: Blocks, weight: Floats, A: Floats) -> Comparison | None:
    """Prepare teacher i; None if it shares no two classes that the others link."""
    own, others = blocks.M[i], np.delete(blocks.M, i, axis=0)
    groups = connected_components(csr_matrix(others.T @ others), directed=False)[1]
    columns = np.arange(len(blocks.class_of))[blocks.slices[i]]
    columns = columns[others.sum(axis=0)[blocks.class_of[columns]] > 0]
    columns = columns[np.argsort(groups[blocks.class_of[columns]], kind="stable")]
    sizes = np.unique(groups[blocks.class_of[columns]], return_counts=True)[1]
    columns, sizes = columns[np.repeat(sizes, sizes) > 1], sizes[sizes > 1]
    if not len(columns):
        return None
    same = (groups[:, None] == groups[None, :]).astype(float)
    system = A - weight[i] * (np.diag(own) - np.outer(own, own) / own.sum()) + same / same.sum(axis=1)
    merge = np.linalg.inv(system)[:, blocks.class_of[columns]]
    return Comparison(i, columns, np.cumsum(sizes) - sizes, merge)


def prepare(blocks: Blocks, weight: Floats) -> tuple[Floats, list[Comparison]]:
    """Return the matrix of the merge of all teachers, and what is needed for those that can be compared."""
    merge = LogitAverage.of(blocks, weight)
    found = [compare(i, blocks, weight, merge.A) for i in range(len(blocks.M))]
    return merge.inverse, [each for each in found if each is not None]


def loudness(parts: Sequence[Part], n_teachers: int) -> Floats:
    """Return log of the root mean square of every teacher's centred logits, less the median: a start for log tau.

    A teacher that is a hundred times as loud as the others would decide all merges but its own, and hide that it is it.
    """
    squares, count = np.zeros(n_teachers), np.zeros(n_teachers)
    for part in parts:
        squares[part.teachers] += (part.Z**2).sum(axis=1) @ part.blocks.to_teacher
        count[part.teachers] += len(part.X) * part.blocks.sizes
    heard = squares > 0
    size = np.log(np.where(heard, squares, 1.0) / np.maximum(count, 1.0)) / 2
    return np.where(heard, size - np.median(size[heard]), 0.0) if heard.any() else squares


def group_softmax(U: Floats, starts: NDArray[np.int_]) -> Floats:
    """Softmax of every column, within every group of its entries."""
    sizes = np.diff(np.append(starts, len(U)))
    E = np.exp(U - np.repeat(np.maximum.reduceat(U, starts, axis=0), sizes, axis=0))
    return E / np.repeat(np.add.reduceat(E, starts, axis=0), sizes, axis=0)


def best_temperatures(
    parts: Sequence[Part], targets: Sequence[Targets], start: Floats, n_classes: int
) -> tuple[Floats, Floats]:
    """Return log tau of every teacher and its standard error; infinite where there is nothing to learn from."""
    log_tau, error = -np.clip(np.log(start), *BOUNDS), np.full(len(start), np.inf)
    for k in range(len(start)):
        pieces = [
            Piece(part.logits(compared), compared.starts, target.inner[k], target.weight[k], target.label)
            for part, target in zip(parts, targets, strict=True)
            for compared in part.comparisons
            if part.teachers[compared.teacher] == k
        ]
        if pieces:
            x = search(pieces, -float(log_tau[k]))
            log_tau[k], error[k] = -x, standard_error(pieces, x, n_classes)
    return log_tau, error


def search(pieces: Sequence[Piece], x: float) -> float:
    """Return log b of one teacher, by Newton's method from x within a shrinking bracket."""
    low, high = BOUNDS
    untried = set(BOUNDS)
    for _ in range(MAX_STEPS):
        b = float(np.exp(x))
        slopes = [piece.slopes(b) for piece in pieces]
        first, second = (float(sum(each.sum() for each in sums)) for sums in zip(*slopes, strict=True))
        if first == 0:
            return x
        low, high = (x, high) if first < 0 else (low, x)
        step = -first / (second * b) if second > 0 else np.inf
        if low < x + step < high:
            x += step
            if abs(step) < NEWTON_STEP:
                return x
            continue
        end = low if first > 0 else high  # many that say nothing end at a bound: it is tried before the bracket halves
        new = end if end in untried else (low + high) / 2
        untried.discard(end)
        if abs(new - x) < TOLERANCE:
            return new
        x = new
    return x


def standard_error(pieces: Sequence[Piece], x: float, n_classes: int) -> float:
    """Return the standard error of log b, as if rows of one merged label were one observation."""
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
    # The sums of the clusters add up to nothing at the optimum: one of them alone says nothing of the noise.
    if n < 2 or rows < LEAST_ROWS or not second > 0:
        return np.inf
    variance = n / (n - 1) * max(float((clusters**2).sum()), squares)
    # The error of b in the logarithm, upwards: near b = 0, where noise ends, x itself is hardly determined.
    return float(np.log1p(np.sqrt(variance) / (second * b)))


def weighted_median(values: Floats, weights: Floats) -> float:
    """Return the value with half of the weight on either side, or the middle of two such."""
    order = np.argsort(values)
    share = np.cumsum(weights[order]) / weights.sum()
    two = np.searchsorted(share, [0.5 - 1e-9, 0.5 + 1e-9])  # shares are sums of floats: a half is one within rounding
    return float(values[order[two]].mean())


def shrink(log_tau: Floats, error: Floats, trust: Floats, tolerance: float) -> Floats:
    """Take the median out and shrink what is left by its noise, as far as the teachers differ by more than noise.

    An empirical Bayes estimate: log tau - median is s / (s + noise) of itself, s the variance beyond the noise, which
    is error^2 + tolerance^2. The errors vanish with many rows; what the merge of the others gets wrong does not.
    """
    out, known = np.zeros(len(log_tau)), np.isfinite(error)
    if known.sum() > 1:
        away, noise = log_tau[known] - weighted_median(log_tau[known], trust[known]), error[known] ** 2 + tolerance**2
        s = max(0.0, float(np.mean(away**2) - np.median(noise)))
        out[known] = away * (s / (s + noise) if s > 0 else 0.0)
    return out


def contradicting(log_tau: Floats, error: Floats) -> NDArray[np.bool_]:
    """Tell which teachers say nothing, in a loud voice, about what the others agree on; needs three to compare."""
    known = np.isfinite(error)
    if known.sum() < 3:
        return np.zeros(len(error), dtype=bool)
    # By heads, not by trust: noise that is trusted most would be the measure of all others.
    return known & (log_tau - np.median(log_tau[known]) > NOISE_DISTANCE) & (error > NOISE_ERROR)


class Settled(NamedTuple):
    """What is made of the temperatures found."""

    log_tau: Floats  #: less the median, and shrunk but for teachers that are noise
    noise: NDArray[np.bool_]
    doubtful: NDArray[np.bool_]  #: as loud as noise, but nobody can tell who is wrong; log tau is 0


def settle(log_tau: Floats, error: Floats, trust: Floats, comparable: NDArray[np.bool_], tolerance: float) -> Settled:
    """Weigh the temperatures by their errors and by the `trust` in teachers; only `comparable` ones can be noise."""
    suspects = contradicting(log_tau, error)
    heard = np.isfinite(error) & ~suspects
    out = shrink(log_tau, np.where(heard, error, np.inf), trust, tolerance)
    noise = suspects & comparable
    if noise.any() and heard.any():
        out[noise] = log_tau[noise] - weighted_median(log_tau[heard], trust[heard])
    return Settled(out, noise, suspects & ~comparable)
