"""How frequent the classes are among rows without labels, estimated from what the teachers name.

The mean of merged labels is a poor estimate. A teacher names one of its own classes for every row, and where rows of
unknown classes go to is an accident, which the merge does not quite undo. The rows themselves show these accidents: if
teacher i takes shoes, which it does not know, for bags, then most rows that others call shoes are bags to it. So every
class l has a habit in the answers of every teacher,

    y_n ~ pi,    a_ni | y_n = l ~ C_i(l, .),    independent given y_n,

where a_ni is the column that teacher i prefers for row n, and whether it is surer than usual. EM finds the frequencies
pi and the habits C_i, from the balanced merged labels. A teacher mostly names its own classes right: C_i(l, .) has a
prior for l in its list. (Dawid and Skene's model of raters who may name any class is the case of equal lists.)
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

#: Rows per class that an estimate needs.
ROWS_PER_CLASS = 20
#: Rows that are looked at: so many, or so many per class.
MOST_ROWS, MOST_ROWS_PER_CLASS = 2_000, 20
#: Rows x classes x teachers beyond which nothing is estimated.
MOST_WORK = 2e7
STEPS = 20
#: A teacher is taken to name a class of its own right this often, with the weight of this part of n / L rows.
RIGHT, RIGHT_ROWS = 0.9, 0.2
#: Weight of the prior for classes that a teacher does not know (anything may be named), in rows.
FOREIGN_ROWS = 2.0
#: Rows added to every class, so that none is impossible.
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
    >>> space = LabelSpace([["cat", "dog"], ["dog", "eel"]])
    >>> cat, dog, eel = [0.9, 0.1, 0.6, 0.4], [0.1, 0.9, 0.9, 0.1], [0.4, 0.6, 0.1, 0.9]
    >>> answers = Answers.of(np.log(np.repeat([cat, dog, eel], [80, 15, 5], axis=0)), space, abstain=False)
    >>> Q = np.repeat(np.full((3, 3), 0.1) + 0.7 * np.eye(3), [80, 15, 5], axis=0)
    >>> class_frequencies(answers, space, Q).round(2).tolist()
    [0.79, 0.17, 0.04]
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
    """Return what every teacher says about every row, one-hot, (n, 2 K): column k, less or more sure than usual."""
    rows, said = [], []
    for i, block in enumerate(space.blocks):  # scorers of memberships come after the teachers
        speaks = np.flatnonzero(answers.speaking[:, i])
        if len(speaks):
            Z = to_numpy(answers.log_p[:, block])[speaks]
            surest = Z.max(axis=1) - logsumexp(Z, axis=1)
            rows.append(speaks)
            said.append(2 * (block.start + Z.argmax(axis=1)) + (surest > np.median(surest)))
    where = np.concatenate(rows), np.concatenate(said)
    return csr_matrix((np.ones(len(where[0])), where), shape=(len(answers), 2 * space.blocks[-1].stop))


def habits(space: LabelSpace, n: int) -> Floats:
    """Return the rows that the prior adds to what is said of every class, (2 K, L)."""
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
    """Return the frequencies, from labels T, (n, L), whose rows sum to their weights."""
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
