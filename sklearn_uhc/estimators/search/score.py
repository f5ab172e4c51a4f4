"""How well the merge of the other teachers predicts a held-out teacher.

The candidate is fitted without the teacher, and predicts the class of rows on which it was not trained, among all
classes that the others link. It is right if it predicts the class that the teacher chooses; a class that the teacher
does not know is wrong. A row is weighted by the probability that it belongs to the classes that both know, averaged
over all candidates and squared, since the teacher's answers on other rows are meaningless.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sklearn_uhc.estimators.search.folds import Comparison

Array = NDArray[np.float64]


class Verdict(NamedTuple):
    """A candidate's predictions for the rows of a held-out teacher, in each of the G groups of classes."""

    mass: NDArray[np.float32]  #: (G, n), probability of the shared classes
    right: NDArray[np.bool_]  #: (G, n), whether the candidate chooses the teacher's class


def verdict(comparison: Comparison, components: NDArray[np.int_], P: Array, log_p: Array) -> Verdict:
    """Compare the probabilities P, (n, classes of the others), with a held-out teacher's answers, (n, K)."""
    mass, right = [], []
    for group in np.unique(comparison.group):
        own = np.flatnonzero(comparison.group == group)
        chosen = np.where(components == group, P, -1.0).argmax(axis=1)
        wanted = own[np.nan_to_num(log_p[:, comparison.columns[own]], nan=0.0, neginf=-np.inf).argmax(axis=1)]
        mass.append(P[:, np.isin(comparison.column_of, own)].sum(axis=1))
        right.append(comparison.column_of[chosen] == wanted)
    return Verdict(np.array(mass, dtype=np.float32), np.array(right))


def held_out_scores(verdicts: list[Verdict | None], speaks: NDArray[np.bool_]) -> Array:
    """Return the score of every candidate against one teacher, on the rows that it answers, (n,).

    NaN for candidates that failed; all are NaN if no row seems to belong to the teacher's classes.
    """
    there = [v for v in verdicts if v is not None]
    weight = np.mean([v.mass for v in there], axis=0, dtype=float) ** 2 * speaks
    total = float(weight.sum())
    share = [np.nan if v is None or total == 0 else float((weight * v.right).sum()) / total for v in verdicts]
    return np.array(share)
