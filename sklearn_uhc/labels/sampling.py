"""Whether labelled rows look like rows drawn at random, so that their labels show how frequent the classes are.

People also label the rows that matter, or that are easy to recognise, or as many of each class. Counts of such labels
say nothing about class frequencies. With b the mean of the merge over all rows, and o that over the labelled rows,
sum_l (o_l - b_l)^2 / b_l tells. It uses what the merge says about both kinds of rows, so that its bias cancels. Rows
drawn at random have to reach it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sklearn_uhc.answers import Answers
from sklearn_uhc.labels.reading import MOST_ROWS, Labels
from sklearn_uhc.utils.rows import some_rows

#: Number of random draws, one of which has to be as far off as the labelled rows: a random sample fails in .5 %.
DRAWS = 199
#: If labels are not a random sample, a row counts at most this much more or less than others.
MOST_RATIO = 10.0
#: Smallest mean of the merge that tells how rare a class is: one row in a thousand.
LEAST_MEAN = 1e-3


class Sample(NamedTuple):
    """What the labelled rows are among all rows."""

    random: bool  #: whether they look like a random sample
    weight: NDArray[np.float64]  #: (L,), how much a labelled row of each class counts
    rarity: NDArray[np.float64]  #: (L,), - log of the mean of the merge


def read_sample(
    Q: NDArray[Any], answers: Answers, labels: Labels, place: NDArray[np.int_], row_weight: NDArray[np.float64] | None
) -> Sample:
    """Tell whether labelled rows are a random sample, given the merge at temperature 1, Q.

    If they are, all count alike. If not, labelled classes count as much as the merge finds of them. A class that only
    y has counts as one of average frequency: rows are picked to show it, and the merge, which does not know it, cannot
    tell.
    """
    weight, L = np.ones(len(answers)) if row_weight is None else row_weight, len(labels.classes)
    counts = (weight > 0) & answers.answered
    used, answered = labels.rows[counts[labels.rows]], Q[counts]
    rarity = np.zeros(L)
    if len(answered):
        rarity[place] = -np.log(np.maximum(np.average(answered, axis=0, weights=weight[counts]), LEAST_MEAN))
        rarity[labels.new] = rarity[place].mean()
    # Who labels one class only has picked the rows, unless it is all of them.
    several = len(np.unique(labels.codes)) > 1 or len(used) == counts.sum()
    if several and len(used) and drawn_at_random(answered, np.cumsum(counts)[used] - 1):
        return Sample(True, np.ones(L), rarity)
    found = np.full(L, 1 / L)
    merged = np.bincount(answered.argmax(axis=1), minlength=len(place))
    found[place] = merged * len(place) / (max(len(answered), 1) * L)
    labelled = np.bincount(labels.codes, weight[labels.rows], minlength=L)
    ratio = found / np.maximum(labelled / labelled.sum(), 1 / len(labels))
    return Sample(False, np.clip(ratio, 1 / MOST_RATIO, MOST_RATIO), rarity)


def drawn_at_random(Q: NDArray[np.float64], rows: NDArray[np.int_]) -> bool:
    """Return whether labelled rows look like a random sample of all rows.

    Parameters
    ----------
    Q : ndarray of shape (n, L)
        The merge, at temperature 1.
    rows : ndarray of int, shape (m,)
        The labelled rows.

    Returns
    -------
    random : bool

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_uhc.labels.sampling import drawn_at_random
    >>> Q = np.eye(3)[np.repeat([0, 1, 2], 100)]
    >>> drawn_at_random(Q, np.arange(0, 300, 10))
    True
    >>> drawn_at_random(Q, np.arange(0, 200, 5))  # none of class 2
    False
    """
    rows, mean, rng = rows[some_rows(len(rows), MOST_ROWS)], Q.mean(axis=0), np.random.default_rng(0)

    def off(some: NDArray[np.int_]) -> float:
        return float(np.sum((Q[some].mean(axis=0) - mean) ** 2 / np.maximum(mean, np.finfo(float).tiny)))

    found = off(rows)
    return any(off(rng.integers(len(Q), size=len(rows))) >= found for _ in range(DRAWS))
