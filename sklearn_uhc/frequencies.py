"""Estimate class frequencies of unlabelled rows from the classes that the teachers choose.

The mean of merged labels is a poor estimate. A teacher chooses one of its own classes for every row, and which one it
chooses for rows of unknown classes is an accident that the merge does not fully correct. The rows themselves show these
accidents: if teacher i calls shoes, which it does not know, bags, then most rows that others call shoes are bags to it.
So every class l has a distribution over the answers of every teacher,

    y_n ~ pi,    a_ni | y_n = l ~ C_i(l, .),    independent given y_n,

where a_ni is the column that teacher i prefers for row n, and whether it is surer than usual. EM estimates the
frequencies pi and the distributions C_i, starting from the balanced merged labels. Since a teacher is mostly right
about its own classes, C_i(l, .) has a prior for l in its list. (With equal lists this is Dawid and Skene's model.)
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix
from scipy.special import logsumexp

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
#: Prior: a teacher is right about its own classes this often, with the weight of this share of n / L rows.
RIGHT, RIGHT_ROWS = 0.9, 0.2
#: Prior for classes that a teacher does not know: uniform, with the weight of this many rows.
FOREIGN_ROWS = 2.0
#: Log-probabilities that differ by less are equal: their order would be that of rounding errors.
EQUAL = 1e-9
#: Number of rows added to every class, so that none is impossible.
LEAST_ROWS = 1.0


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
    n_rows = int(np.count_nonzero(weights))
    if n_rows < ROWS_PER_CLASS * L or n_rows * L * space.n_teachers > MOST_WORK:
        return None
    start = to_numpy(Q)[rows].astype(float)
    start /= np.maximum(weights @ start / weights.sum(), np.finfo(float).tiny)
    start *= (weights / start.sum(axis=1))[:, None]
    return expect_and_maximise(named(answers.take(rows), space), habits(space, n_rows), space, start)


def named(answers: Answers, space: LabelSpace) -> csr_matrix:
    """Return every teacher's answer to every row, one-hot, (n, 2 K): column k, less or more sure than usual."""
    rows, said = [], []
    for i, block in enumerate(space.blocks):  # membership scorers come after the teachers
        speaks = np.flatnonzero(answers.speaking[:, i])
        if len(speaks):
            Z = to_numpy(answers.log_p[:, block])[speaks]
            surest = Z.max(axis=1) - logsumexp(Z, axis=1)
            rows.append(speaks)
            said.append(2 * (block.start + Z.argmax(axis=1)) + (surest > np.median(surest) + EQUAL))
    where = np.concatenate(rows), np.concatenate(said)
    return csr_matrix((np.ones(len(where[0])), where), shape=(len(answers), 2 * space.blocks[-1].stop))


def habits(space: LabelSpace, n: int) -> Floats:
    """Return the pseudo-counts of the prior for every answer and class, (2 K, L)."""
    K, L = space.blocks[-1].stop, space.n_classes
    stands = np.zeros((K, L))
    sizes = np.diff(space.offsets)[:K]
    stands[np.repeat(np.arange(K), sizes), space.members[: sizes.sum()]] = 1.0
    prior = np.empty((K, L))
    for block in space.blocks:
        k, known = block.stop - block.start, stands[block]
        own = known.sum(axis=0)
        right = RIGHT * known / np.maximum(own, 1) + (1 - RIGHT) * (1 - known) / np.maximum(k - own, 1)
        prior[block] = np.where(own > 0, RIGHT_ROWS * n / L * right, FOREIGN_ROWS / k)
    return np.repeat(prior / 2, 2, axis=0)


def expect_and_maximise(said: csr_matrix, prior: Floats, space: LabelSpace, T: Floats) -> Floats:
    """Return the frequencies by EM, from initial labels T, (n, L), whose rows sum to their weights."""
    weights, starts = T.sum(axis=1), 2 * np.array([block.start for block in space.blocks])
    lengths = np.diff([*starts, said.shape[1]])
    for _ in range(STEPS):
        C = said.T @ T + prior
        C /= np.repeat(np.add.reduceat(C, starts, axis=0), lengths, axis=0)
        T = said @ np.log(C) + np.log(T.sum(axis=0) + LEAST_ROWS)
        T = np.exp(T - T.max(axis=1, keepdims=True))
        T *= (weights / T.sum(axis=1))[:, None]
    frequencies = T.sum(axis=0) + LEAST_ROWS
    return np.asarray(frequencies / frequencies.sum())
