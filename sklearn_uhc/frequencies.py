"""Estimate class frequencies of unlabelled rows from the classes that the teachers choose.

The mean of merged labels is a poor estimate. A teacher chooses one of its own classes for every row, and which one it
chooses for rows of unknown classes is an accident that the merge does not fully correct. The rows themselves show these
accidents: if teacher i calls shoes, which it does not know, bags, then most rows that others call shoes are bags to it.
So every class l has a distribution over the answers of every teacher,

    y_n ~ pi,    a_ni | y_n = l ~ C_i(l, .),    independent given y_n,

where a_ni is the column that teacher i prefers for row n, and how sure it is. EM estimates the frequencies pi and the
distributions C_i, starting from the balanced merged labels. (With equal lists this is Dawid and Skene's model.) Two
priors complete it: a teacher is mostly right about its own classes, and its answers to all others are spread evenly.

The second one decides how uneven the result is. A row that one teacher calls m and another l may be of either class, as
neither knows the other's. Without the prior, a rare class l may take such rows from a frequent class m at no cost,
since its distribution over the answers to m is free. With a strong prior it cannot, but then even rows seem uneven. So
a weak prior tells whether classes are uneven, and only if they are, a strong one tells how frequent they are.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix
from scipy.special import entr, logsumexp
from scipy.stats import rankdata

from sklearn_uhc.answers import Answers, to_numpy
from sklearn_uhc.label_space import LabelSpace
from sklearn_uhc.utils.rows import in_range, some_rows

Floats = NDArray[np.float64]

#: Minimum number of rows per class.
ROWS_PER_CLASS = 20
#: Maximum number of rows used: the larger of this, and this many per class.
MOST_ROWS, MOST_ROWS_PER_CLASS = 2_000, 20
#: Nothing is estimated if rows x classes x teachers exceed this.
MOST_WORK = 2e7
STEPS = 20
#: Levels of how sure a teacher is, each of as many rows.
LEVELS = 4
#: Prior: how often a teacher is right about its own classes.
RIGHT = 0.9
#: Log-probabilities that differ by less are equal: their order would be that of rounding errors.
EQUAL = 1e-9
#: Number of rows added to every class, so that none is impossible.
LEAST_ROWS = 1.0


class Prior(NamedTuple):
    """Weights of the priors, as shares of n / L rows: that of a teacher's own classes, and that of all others."""

    own: float
    foreign: float


#: For rows that may be even, and for rows that are not.
OPEN, SKEWED = Prior(0.05, 0.02), Prior(0.2, 0.5)
#: Rows are uneven if their class frequencies, estimated with the first, are less even than this.
UNEVEN = 0.905
#: The second may lose a rare class: none gets less than this share of its first estimate.
LEAST_SHARE = 0.5


def class_frequencies(
    answers: Answers, space: LabelSpace, Q: Any, sample_weight: NDArray[Any] | None = None
) -> Floats | None:
    """Estimate how frequent the classes are.

    Parameters
    ----------
    answers : Answers
        Of the teachers, and perhaps of scorers after them.
    space : LabelSpace
        The teachers' columns and classes.
    Q : array of shape (n, L)
        Merged labels at temperature 1.
    sample_weight : ndarray of shape (n,), default=None
        Weights of the rows.

    Returns
    -------
    frequencies : ndarray of shape (L,) or None
        None if there are too few rows per class, or too many classes.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_uhc import LabelSpace
    >>> from sklearn_uhc.answers import Answers
    >>> from sklearn_uhc.frequencies import class_frequencies
    >>> space = LabelSpace([["cat", "dog"], ["dog", "eel"], ["eel", "cat"]])
    >>> rng, y = np.random.default_rng(0), np.repeat([0, 1, 2], [400, 75, 25])
    >>> logits = 3 * np.eye(3)[y][:, [0, 1, 1, 2, 2, 0]] + rng.normal(size=(500, 6))
    >>> answers = Answers.of(logits, space, abstain=False)
    >>> Q = np.full((500, 3), 0.1) + 0.7 * np.eye(3)[y]
    >>> class_frequencies(answers, space, Q).round(2).tolist()
    [0.79, 0.15, 0.06]
    """
    n, L = Q.shape
    rows = some_rows(n, max(MOST_ROWS, MOST_ROWS_PER_CLASS * L))
    weights = (np.ones(n) if sample_weight is None else in_range(np.asarray(sample_weight, dtype=float)))[rows]
    weights = weights * answers.heard[rows]
    rows, weights = np.arange(n)[rows][weights > 0], weights[weights > 0]
    if len(rows) < ROWS_PER_CLASS * L or len(rows) * L * space.n_teachers > MOST_WORK:
        return None
    start = to_numpy(Q)[rows].astype(float)
    start /= np.maximum(weights @ start / weights.sum(), np.finfo(float).tiny)
    start *= (weights / start.sum(axis=1))[:, None]
    said = named(answers.take(rows), space)
    found = expect_and_maximise(said, habits(space, len(rows), OPEN), space, start)
    if evenness_of(found) >= UNEVEN:
        return found
    skewed = expect_and_maximise(said, habits(space, len(rows), SKEWED), space, start)
    skewed = np.maximum(skewed, LEAST_SHARE * found)
    return np.asarray(skewed / skewed.sum())


def evenness_of(frequencies: Floats) -> float:
    """Return the number of classes that count, exp(entropy), divided by L."""
    return float(np.exp(entr(frequencies).sum()) / len(frequencies))


def named(answers: Answers, space: LabelSpace) -> csr_matrix:
    """Return every teacher's answer to every row, one-hot, (n, LEVELS K): column k, and how sure it is of it."""
    rows, said = [], []
    for i, block in enumerate(space.blocks):  # membership scorers come after the teachers
        speaks = np.flatnonzero(answers.speaking[:, i])
        if len(speaks):
            Z = to_numpy(answers.log_p[:, block])[speaks]
            surest = Z.max(axis=1) - logsumexp(Z, axis=1)
            order = (rankdata(np.round(surest / EQUAL)) - 0.5) / len(speaks)  # ties share their mean rank
            rows.append(speaks)
            said.append(LEVELS * (block.start + Z.argmax(axis=1)) + (LEVELS * order).astype(int))
    where = np.concatenate(rows), np.concatenate(said)
    return csr_matrix((np.ones(len(where[0])), where), shape=(len(answers), LEVELS * space.blocks[-1].stop))


def habits(space: LabelSpace, n: int, weight: Prior) -> Floats:
    """Return the pseudo-counts of the prior for every answer and class, (LEVELS K, L)."""
    K, L = space.blocks[-1].stop, space.n_classes
    stands = np.zeros((K, L))
    sizes = np.diff(space.offsets)[:K]
    stands[np.repeat(np.arange(K), sizes), space.members[: sizes.sum()]] = 1.0
    prior = np.empty((K, L))
    for block in space.blocks:
        k, known = block.stop - block.start, stands[block]
        own = known.sum(axis=0)
        right = RIGHT * known / np.maximum(own, 1) + (1 - RIGHT) * (1 - known) / np.maximum(k - own, 1)
        prior[block] = n / L * np.where(own > 0, weight.own * right, weight.foreign / k)
    return np.repeat(prior / LEVELS, LEVELS, axis=0)


def expect_and_maximise(said: csr_matrix, prior: Floats, space: LabelSpace, T: Floats) -> Floats:
    """Return the frequencies by EM, from initial labels T, (n, L), whose rows sum to their weights."""
    weights, starts = T.sum(axis=1), LEVELS * np.array([block.start for block in space.blocks])
    lengths = np.diff([*starts, said.shape[1]])
    for _ in range(STEPS):
        C = said.T @ T + prior
        C /= np.repeat(np.add.reduceat(C, starts, axis=0), lengths, axis=0)
        T = said @ np.log(C) + np.log(T.sum(axis=0) + LEAST_ROWS)
        T = np.exp(T - T.max(axis=1, keepdims=True))
        T *= (weights / T.sum(axis=1))[:, None]
    frequencies = T.sum(axis=0) + LEAST_ROWS
    return np.asarray(frequencies / frequencies.sum())
