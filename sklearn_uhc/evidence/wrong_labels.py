"""Labels that have nothing to do with the rows: in a wrong order, of other rows, or with another meaning.

For every labelled row, its rank among all rows by the merged probability of its label: near 1 for right labels, even
with weak teachers, rare classes or a teacher that claims too much, and uniform in [0, 1] for labels of other rows. So
their mean rank is 1/2 with a standard error of at most 1 / sqrt(12 m). If the merge is right, it is e, the mean of the
ranks weighted by the merged probabilities, but not above 1 - sum p_l^2 / 2, which a perfect merge reaches if classes
have the shares p of the labels. Half of the way from 1/2 to e is granted: a merge may be too sure.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from sklearn_uhc.evidence.finding import Finding
from sklearn_uhc.labels.reading import MOST_ROWS, Labels
from sklearn_uhc.utils.rows import some_rows

#: Minimum number of labelled rows: the mean of so many ranks is about normal.
LEAST_ROWS = 5
#: Number of standard errors by which labels must miss what is granted.
ERRORS = 2.0

REMEDY = (
    "The labels are not used. Perhaps they are in another order than the rows, or belong to other rows, or their names "
    "mean other classes than those of the teachers. If y is right, the class lists of the teachers are wrong."
)
INDEX = " The indices of X and y differ: rows and labels are matched by position, as in scikit-learn."


def find_wrong_labels(
    Q: NDArray[Any], classes: NDArray[Any], labels: Labels, counts: NDArray[np.bool_]
) -> list[Finding]:
    """Return a finding if labels fit the merge no better than those of other rows.

    Parameters
    ----------
    Q : ndarray of shape (n, L)
        Merged labels at temperature 1, without any influence of the labels.
    classes : ndarray of shape (L,)
        Their classes.
    labels : Labels
        The labelled rows; those of classes that only y has do not count.
    counts : ndarray of bool, shape (n,)
        The rows that teachers answer for, and whose weight is above zero.

    Returns
    -------
    findings : list of Finding
    """
    names = labels.classes[labels.codes]
    rows = labels.rows[judged := counts[labels.rows] & np.isin(names, classes)]
    codes = np.searchsorted(classes, names[judged])
    if len(rows) < LEAST_ROWS:
        return []
    alike = len(rows) == counts.sum() and len(np.unique(codes)) == 1  # then the mean rank is 1/2, whatever the merge
    if alike and np.median(Q[rows, codes]) >= 0.5 / len(classes):  # half of an even share
        return []
    some = some_rows(len(rows), MOST_ROWS)
    found, expected = mean_ranks(Q, rows[some], codes[some], np.flatnonzero(counts))
    shares = np.bincount(codes) / len(codes)
    if shares.max() < 1:  # labels of one class do not show how frequent it is
        expected = min(expected, 1 - float(shares @ shares) / 2)
    granted = (expected - 0.5) / 2
    if found - 0.5 >= min(granted / 2, granted - ERRORS / np.sqrt(12 * len(rows))):
        return []
    against = int((Q[rows].argmax(axis=1) != codes).sum())
    says = f"y contradicts the teachers: for {against:,} of {len(rows):,} labelled rows they find another class."
    evidence = {"contradicted": against, "labelled": len(rows), "mean_rank": found, "expected_rank": expected}
    return [Finding("labels", (), evidence, says, REMEDY + ("" if labels.same_index else INDEX))]


def mean_ranks(
    Q: NDArray[Any], rows: NDArray[np.int_], codes: NDArray[np.int_], among: NDArray[np.int_]
) -> tuple[float, float]:
    """Return the mean rank of labelled rows in [0, 1], and what it would be if the merge were right."""
    every = np.union1d(rows, among[some_rows(len(among), MOST_ROWS)])
    at = np.searchsorted(every, rows)
    found = expected = 0.0
    for k in range(Q.shape[1]):
        column = Q[every, k]
        rank = (rankdata(column)[at] - 0.5) / len(every)
        found += rank[codes == k].sum()
        expected += column[at] @ rank
    return float(found / len(rows)), float(expected / len(rows))
