"""Whether labelled rows look like rows drawn at random, so that their labels show how frequent the classes are.

People also label the rows that matter, or that are easy to recognise, or as many of each class. Counts of such labels
say nothing about class frequencies. With O_l the number of labelled rows that the merge takes for class l, b_l the
share of class l among all rows by the merge, and A the classes without any label, three numbers tell:

    sum_l (O_l - m b_l)^2 / (m b_l)         other classes are labelled than are there
    sum over A of (m b_l - O_l)             classes that are there have no label
    m times the share of A among the rest   the same, if the merge cannot tell labelled rows from others

The first two use what the merge says about both kinds of rows, so that its bias cancels. The third, which may be due to
a merge that finds rare classes too often, counts only if they would hardly be missed if they were rarer by the factor
BIAS. The numbers are compared with those of rows drawn at random, none of which may reach them. There the merge counts
as the truth, which is the cautious choice for the last two.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

#: Number of random draws, none of which may be as far off as the labelled rows.
DRAWS = 999
#: How many times too often a merge may find classes, and the probability to miss them that is small.
BIAS, SMALL = 5.0, 1e-3


def drawn_at_random(merged: NDArray[np.int_], rows: NDArray[np.int_], unlabelled: NDArray[np.bool_]) -> bool:
    """Return whether labelled rows look like a random sample of all rows.

    Parameters
    ----------
    merged : ndarray of int, shape (n,)
        The most probable class of every row, by the merge.
    rows : ndarray of int, shape (m,)
        The labelled rows.
    unlabelled : ndarray of bool, shape (L,)
        Which classes of the merge no label names.

    Returns
    -------
    random : bool

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_uhc.labels.sampling import drawn_at_random
    >>> merged = np.repeat([0, 1, 2], 100)
    >>> drawn_at_random(merged, np.arange(0, 300, 10), np.array([False, False, False]))
    True
    >>> drawn_at_random(merged, np.arange(0, 200, 5), np.array([False, False, True]))  # none of class 2
    False
    """
    there, m = np.bincount(merged, minlength=len(unlabelled)), len(rows)
    if m == len(merged):
        return True
    found = _off(np.bincount(merged[rows], minlength=len(there)), there, unlabelled)
    rng, reached = np.random.default_rng(0), np.array([False, False, (1 - found[2] / (BIAS * m)) ** m > SMALL])
    for _ in range(DRAWS):
        drawn = rng.multivariate_hypergeometric(there, m)
        reached |= _off(drawn, there, drawn == 0) >= found
        if reached.all():
            return True
    return False


def _off(counts: NDArray[np.int_], there: NDArray[np.int_], unlabelled: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Return the three numbers for counts (L,) of labelled rows, and of all rows, by their merged class."""
    m, n = counts.sum(), there.sum()
    expected = m * there / n
    lack = expected - counts
    squares = np.sum(lack**2 / np.where(expected > 0, expected, 1.0))
    return np.array([squares, np.sum(lack[unlabelled]), m * np.sum((there - counts)[unlabelled]) / (n - m)])
