"""Classes that are very uneven in the merge, which balance answers by one assumption and its absence by another.

A class can be rare in the merge because rows of it are rare, or because the merge is bad at it. Only the first counts:
a teacher that knows the class claims it for few rows too. Its claim is the sum of its probabilities for the class; the
smallest of those who know it counts, as rows of unknown classes only add to a claim.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sklearn_uhc.answers import Answers, to_numpy
from sklearn_uhc.calibration import overlap
from sklearn_uhc.findings.result import Finding
from sklearn_uhc.label_space import spelled
from sklearn_uhc.utils.rows import some_rows

Floats = NDArray[np.float64]

#: The commonest class has this many times the rows of the rarest in the merge, and in what teachers claim.
MERGED_RATIO, CLAIMED_RATIO = 18.0, 4.5
#: The merged classes are worth no more than this share of as many even ones, by the entropy of their shares.
MOST_EVEN = 0.66
#: Comparisons per teacher that the class lists must allow: with short lists, merges are uneven by themselves.
LEAST_OVERLAP = 0.75
#: The rarest may have been missed by chance: this many standard errors of its number are added.
ERRORS = 2.0
#: Rows of which claims are added up.
MOST_ROWS = 5_000


def find_uneven(
    Q: NDArray[Any], answers: Answers, none_label: Any = None, balanced: bool | None = None
) -> list[Finding]:
    """Return a finding if merged classes are very uneven.

    Parameters
    ----------
    Q : ndarray of shape (n, L)
        Soft labels.
    answers : Answers
        What they were made from.
    none_label : label, default=None
        The class "none of these", which does not count.
    balanced : bool, default=None
        Whether the classes are balanced; None: that is still to be decided.
    """
    heard, classes = answers.heard, answers.space.classes
    known = np.flatnonzero([label != none_label for label in classes.tolist()])
    if not heard.any() or len(known) < 2 or not (answers.space.is_shared or overlap(answers.space) >= LEAST_OVERLAP):
        return []
    counts = np.bincount(Q[heard][:, known].argmax(axis=1), minlength=len(known))
    if ratio(counts) < MERGED_RATIO or evenness(counts) > MOST_EVEN or ratio(claims(answers)[known]) < CLAIMED_RATIO:
        return []
    most, least = (classes[known[k]] for k in (counts.argmax(), counts.argmin()))
    says = (
        f"The merged classes are very uneven: {spelled(most)} is the most probable class of {counts.max():,} of "
        f"{counts.sum():,} rows, {spelled(least)} of {counts.min():,}."
    )
    figures = {"count_commonest": int(counts.max()), "count_rarest": int(counts.min())}
    return [
        Finding("uneven", (), {"commonest": most.item(), "rarest": least.item(), **figures}, says, REMEDY[balanced])
    ]


def ratio(counts: NDArray[Any]) -> float:
    """Return how many times the rarest the commonest is at least, chance aside."""
    least = counts.min()
    return float(counts.max() / (least + ERRORS * np.sqrt(least + 1.0)))


def evenness(counts: NDArray[Any]) -> float:
    """Return exp(entropy) of the shares, relative to L: 1 if all classes are equally frequent."""
    shares = counts[counts > 0] / counts.sum()
    return float(np.exp(-(shares * np.log(shares)).sum()) / len(counts))


def claims(answers: Answers) -> Floats:
    """Return (L,), for how many rows each class is claimed by whoever claims it least; the median if nobody says."""
    space = answers.space
    some = answers.take(some_rows(len(answers), MOST_ROWS))
    Z = to_numpy(some.log_p).astype(np.float64)
    silent = np.isnan(Z)
    P = np.where(silent, 0.0, np.exp(space.matrices.log_softmax(np.where(silent, 0.0, Z))))
    answered = np.maximum((~silent).sum(axis=0), 1)
    single = np.flatnonzero(space.set_sizes == 1)
    least = np.full(space.n_classes, np.inf)
    np.minimum.at(least, space.members[space.offsets[single]], (P.sum(axis=0) * len(some) / answered)[single])
    known = np.isfinite(least)
    return np.where(known, least, np.median(least[known])) if known.any() else np.ones(len(least))


REMEDY = {
    True: "They are balanced: the result is for data in which all classes are equally frequent. If future rows "
    "are as uneven as these, use balance=False.",
    False: "They are not balanced: the result is for data as uneven as these, and may never choose rare classes. If "
    "all classes matter equally, use balance=True.",
    None: "balance=True gives a result for data in which all classes are equally frequent, balance=False one for data "
    "as uneven as these: choose what future rows will be like.",
}
