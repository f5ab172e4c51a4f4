"""Weighted copies of rows that represent soft labels: all of them, or a few drawn at random.

All copies: row i once per class, with weight q_il. At most m copies per row, if it has more classes: classes of weight
tau or more are kept as they are, others with probability q_il / tau and then with weight tau, where tau is such that m
are kept. This is systematic sampling in proportion to size:

    E[w_il] = q_il,     Var[w_il] = q_il (tau - q_il) <= tau^2 / 4,     sum_l w_il = 1,     tau <= 1 / m

One copy of each row can be enough for learners that look at margins or mistakes (`leading_classes`).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

#: Maximum share of a row's probability that is dropped if all copies are made.
DROPPED = 1e-3


def replicate(
    Q: NDArray[np.float64],
    sample_weight: NDArray[np.float64] | None = None,
    copies: int | None = None,
    rng: np.random.RandomState | None = None,
) -> tuple[NDArray[np.int_], NDArray[np.int_], NDArray[np.float64]]:
    """Return row indices, class indices and weights of the copies that represent soft labels Q.

    There are at most `copies` per row, plus one row per class: a class that would get no copy keeps its best row, so
    that the classifier knows it.
    """
    L = Q.shape[1]
    best = Q.argmax(axis=0)
    known = np.flatnonzero(Q[best, np.arange(L)] > 0)
    weights = _normalized(np.where(DROPPED / L <= Q, Q, 0.0))
    if copies is not None and copies < L:
        assert rng is not None
        weights = draw_copies(weights, copies, rng)
    unseen = known[weights[:, known].max(axis=0, initial=0.0) == 0]
    weights[best[unseen], unseen] = Q[best[unseen], unseen]
    weights = _normalized(weights)
    if sample_weight is not None:
        weights *= sample_weight[:, None]
    rows, labels = np.nonzero(weights)
    return rows, labels, weights[rows, labels]


def leading_classes(
    Q: NDArray[np.float64], sample_weight: NDArray[np.float64] | None = None
) -> tuple[NDArray[np.int_], NDArray[np.int_], NDArray[np.float64]]:
    """Return row indices, class indices and weights: each row once, as its most probable class.

    A hinge loss over two soft labels p and q is, within the margin, that of the more probable class times the lead
    p - q, plus a constant. So a row's weight is the lead of its most probable class, relative to the mean lead: flat
    labels do not change how much a learner is penalised. A class that leads nowhere keeps its best row, as a second
    copy.
    """
    n, L = Q.shape
    weight = np.ones(n) if sample_weight is None else sample_weight
    labels = Q.argmax(axis=1)
    lead = np.diff(np.partition(Q, L - 2, axis=1)[:, L - 2 :], axis=1)[:, 0] if L > 1 else np.ones(n)
    mean = float(np.average(lead, weights=weight))
    lead = lead / mean if mean > 0 else np.ones(n)
    best = Q.argmax(axis=0)
    known = np.flatnonzero(Q[best, np.arange(L)] > 0)
    unseen = np.setdiff1d(known, labels[lead > 0])
    rows = np.concatenate([np.flatnonzero(lead > 0), best[unseen]])
    labels = np.concatenate([labels[lead > 0], unseen])
    return rows, labels, weight[rows] * np.concatenate([lead[lead > 0], Q[best[unseen], unseen]])


def draw_copies(W: NDArray[np.float64], copies: int, rng: np.random.RandomState) -> NDArray[np.float64]:
    """Keep at most `copies` entries per row, each with its expected size; row sums do not change."""
    threshold = _thresholds(W, copies)[:, None]
    # The threshold of a row with at most that many entries is 0: all are kept.
    chances = np.minimum(np.divide(W, threshold, out=(W > 0).astype(float), where=threshold > 0), 1.0)
    taken = _passes(np.cumsum(chances, axis=1), rng.random_sample((len(W), 1)))
    return np.where(taken & (W > 0), np.maximum(W, threshold), 0.0)


def _thresholds(W: NDArray[np.float64], copies: int) -> NDArray[np.float64]:
    """Return tau (n,) of every row, at which its probabilities of being kept, min(w / tau, 1), sum to `copies`."""
    ordered = -np.sort(-W, axis=1)
    rest = np.cumsum(ordered[:, ::-1], axis=1)[:, ::-1][:, :copies]  # column j: all but the j largest
    # With the j largest kept, the rest share the other places. The first j at which none of them is too large is right.
    candidates = rest / (copies - np.arange(copies))
    fits = ordered[:, :copies] <= candidates * (1 + 1e-12)
    first = np.where(fits.any(axis=1), fits.argmax(axis=1), copies - 1)
    tau: NDArray[np.float64] = candidates[np.arange(len(W)), first]
    return tau


def _passes(steps: NDArray[np.float64], start: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return where running sums along a row, shifted by its start, cross an integer."""
    whole = np.round(steps)
    steps = np.where(np.abs(steps - whole) < 1e-9, whole, steps)  # else rounding could lose an entry that is certain
    taken: NDArray[np.bool_] = np.diff(np.floor(steps + start), axis=1, prepend=0.0) > 0
    return taken


def _normalized(W: NDArray[np.float64]) -> NDArray[np.float64]:
    total = W.sum(axis=1, keepdims=True)
    normal: NDArray[np.float64] = W / np.where(total > 0, total, 1.0)
    return normal
