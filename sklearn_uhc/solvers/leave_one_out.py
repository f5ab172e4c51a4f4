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
#: A teacher is noise to the others if its log tau is this far above their median and b less than four errors above 0.
NOISE_DISTANCE, NOISE_ERROR = 2.0, float(np.log1p(1 / 4))


class Comparison(NamedTuple):
    """What of teacher i the others can be compared with."""

    teacher: int
    columns: NDArray[np.int_]  #: (r,), among the K columns, group after group
    starts: NDArray[np.int_]  #: where the groups begin among them
    merge: Floats  #: (L, r), takes B z of the other teachers to their logits on these columns


class Targets(NamedTuple):
    """What the others say about the rows of a part."""

    inner: Floats  #: (n, N), sum_l t_l z_l
    weight: Floats  #: (n, N), how much a row counts for a teacher
    label: NDArray[np.int_]  #: (n,), most probable class of the merge of all teachers


class Slopes(NamedTuple):
    """Sums over the rows, one number per teacher, at some b."""

    first: Floats  #: f'(b)
    second: Floats  #: f''(b)
    variance: Floats  #: of f'(b), as if rows of one merged label were one observation


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

    @property
    def Z(self) -> Floats:
        """Centred logits, made anew every time: they are as large as the data."""
        Z: Floats = self.blocks.center(self.blocks.shift(np.asarray(self.X, dtype=float)))
        return Z

    def targets(self, b: Floats) -> Targets:
        """Merge all teachers, and all but one, at the inverse temperatures b (N,)."""
        Z, blocks = self.Z, self.blocks
        scaled = Z * (self.weight * b[self.teachers])[blocks.teacher_of]
        Bz = scaled @ blocks.to_class
        Q = softmax(Bz @ self.merge)
        inner, weight = np.zeros((len(Z), len(b))), np.zeros((len(Z), len(b)))
        for i, columns, starts, merge in self.comparisons:
            rest, own = Bz.copy(), blocks.slices[i]
            rest[:, blocks.class_of[own]] -= scaled[:, own]
            t = group_softmax(rest @ merge, starts)
            inner[:, self.teachers[i]] = (t * Z[:, columns]).sum(axis=1)
            weight[:, self.teachers[i]] = np.sqrt(Q @ blocks.M[i])
        return Targets(inner, weight, self.classes[Q.argmax(axis=1)])

    def slopes(self, b: Floats, targets: Targets) -> tuple[Floats, Floats]:
        """Return the weighted derivatives of the loss by b and twice by b, per row and teacher."""
        Z = self.Z
        first, second = np.zeros_like(targets.inner), np.zeros_like(targets.inner)
        for i, columns, starts, _ in self.comparisons:
            z, k = Z[:, columns], self.teachers[i]
            s = group_softmax(b[k] * z, starts)
            means = np.add.reduceat(s * z, starts, axis=1)
            first[:, k] = means.sum(axis=1) - targets.inner[:, k]
            second[:, k] = (s * z**2).sum(axis=1) - (means**2).sum(axis=1)
        return targets.weight * first, targets.weight * second


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
        squares[part.teachers] += (part.Z**2).sum(axis=0) @ part.blocks.to_teacher
        count[part.teachers] += len(part.X) * part.blocks.sizes
    heard = squares > 0
    size = np.log(np.where(heard, squares, 1.0) / np.maximum(count, 1.0)) / 2
    return np.where(heard, size - np.median(size[heard]), 0.0) if heard.any() else squares


def group_softmax(U: Floats, starts: NDArray[np.int_]) -> Floats:
    """Softmax within every group of columns."""
    sizes = np.diff(np.append(starts, U.shape[1]))
    E = np.exp(U - np.repeat(np.maximum.reduceat(U, starts, axis=1), sizes, axis=1))
    return E / np.repeat(np.add.reduceat(E, starts, axis=1), sizes, axis=1)


def sum_slopes(parts: Sequence[Part], targets: Sequence[Targets], b: Floats, n_classes: int) -> Slopes:
    """Add up over all rows."""
    N = len(b)
    first, second, squares, clusters = np.zeros(N), np.zeros(N), np.zeros(N), np.zeros((n_classes, N))
    seen = np.zeros((n_classes, N), dtype=bool)
    for part, target in zip(parts, targets, strict=True):
        slope, curvature = part.slopes(b, target)
        first += slope.sum(axis=0)
        second += curvature.sum(axis=0)
        squares += (slope**2).sum(axis=0)
        np.add.at(clusters, target.label, slope)
        np.logical_or.at(seen, target.label, target.weight > 0)
    n_clusters = seen.sum(axis=0)
    # The sums of the clusters add up to nothing at the optimum: one of them alone says nothing of the noise.
    with np.errstate(divide="ignore", invalid="ignore"):
        factor = np.where(n_clusters > 1, n_clusters / (n_clusters - 1), np.inf)
        variance = np.where(n_clusters > 1, factor * np.maximum((clusters**2).sum(axis=0), squares), np.inf)
    return Slopes(first, second, variance)


def best_temperatures(
    parts: Sequence[Part], targets: Sequence[Targets], start: Floats, n_classes: int
) -> tuple[Floats, Floats]:
    """Return log tau of every teacher and its standard error, by Newton's method in log b within a shrinking bracket.

    The error is infinite where there is nothing to learn from.
    """
    x = np.clip(np.log(start), *BOUNDS)
    low, high = np.full(len(x), BOUNDS[0]), np.full(len(x), BOUNDS[1])
    for _ in range(MAX_STEPS):
        b = np.exp(x)
        slopes = sum_slopes(parts, targets, b, n_classes)
        low, high = np.where(slopes.first < 0, x, low), np.where(slopes.first > 0, x, high)
        with np.errstate(divide="ignore", invalid="ignore"):
            new = x - slopes.first / (slopes.second * b)
        inside = (new > low) & (new < high)
        new = np.where(inside, new, np.where(slopes.first == 0, x, (low + high) / 2))
        step, x = float(np.abs(new - x).max()), new
        if step < TOLERANCE:
            break
    slopes = sum_slopes(parts, targets, np.exp(x), n_classes)
    with np.errstate(divide="ignore", invalid="ignore"):
        # The error of b in the logarithm, upwards: near b = 0, where noise ends, x itself is hardly determined.
        error = np.log1p(np.sqrt(slopes.variance) / (slopes.second * np.exp(x)))
    informed = (slopes.second > 0) & np.isfinite(error)
    return -x, np.where(informed, error, np.inf)


def shrink(log_tau: Floats, error: Floats) -> Floats:
    """Take the median out and shrink what is left by its noise, as far as the teachers differ by more than noise.

    An empirical Bayes estimate: log tau - median is s / (s + error^2) of itself, s the variance beyond the errors.
    """
    out, known = np.zeros(len(log_tau)), np.isfinite(error)
    if known.sum() > 1:
        away, noise = log_tau[known] - np.median(log_tau[known]), error[known] ** 2
        s = max(0.0, float(np.mean(away**2) - np.median(noise)))
        out[known] = away * (s / (s + noise) if s > 0 else 0.0)
    return out


def is_noise(log_tau: Floats, error: Floats) -> NDArray[np.bool_]:
    """Tell which teachers say nothing, in a loud voice, about what the others agree on; needs three to compare."""
    known = np.isfinite(error)
    if known.sum() < 3:
        return np.zeros(len(error), dtype=bool)
    return known & (log_tau - np.median(log_tau[known]) > NOISE_DISTANCE) & (error > NOISE_ERROR)


def settle(log_tau: Floats, error: Floats, shrinkage: float) -> tuple[Floats, NDArray[np.bool_]]:
    """Return log tau with the median taken out, shrunk but for teachers that are noise, and who those are."""
    noise = is_noise(log_tau, error)
    heard = np.isfinite(error) & ~noise
    out = shrinkage * shrink(log_tau, np.where(heard, error, np.inf))
    if noise.any():
        out[noise] = log_tau[noise] - np.median(log_tau[heard])
    return out, noise
