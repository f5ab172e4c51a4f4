"""Very uneven classes in the merge: balancing them, or not, is an assumption about future rows.

A class can be rare in the merge because its rows are rare, or because the merge is bad at it. Only the first counts:
then a teacher that knows the class claims few rows for it too. Its claim is the sum of its probabilities for the class.
The smallest claim of all teachers that know it counts, since rows of unknown classes only add to a claim. If class
lists differ, the estimated class frequencies have to be uneven, too.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sklearn_uhc.answers import Answers, to_numpy
from sklearn_uhc.calibration import overlap
from sklearn_uhc.findings.result import Finding
from sklearn_uhc.frequencies import UNEVEN, class_frequencies, evenness_of
from sklearn_uhc.label_space import LabelSpace, spelled
from sklearn_uhc.utils.rows import some_rows

Floats = NDArray[np.float64]

#: Minimum ratio of the most common to the rarest class, in the merge and in the teachers' claims.
MERGED_RATIO, CLAIMED_RATIO = 18.0, 4.5
#: Maximum evenness of the merged classes, exp(entropy of their shares) / L.
MOST_EVEN = 0.66
#: Minimum overlap of the class lists: with short lists, merges are uneven by themselves.
LEAST_OVERLAP = 0.75
#: Number of standard errors added to the rarest class, which may have been missed by chance.
ERRORS = 2.0
#: Maximum number of rows over which claims are summed.
MOST_ROWS = 5_000


def find_uneven(
    Q: NDArray[Any],
    answers: Answers,
    none_label: Any = None,
    teachers: LabelSpace | None = None,
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
    teachers : LabelSpace, default=None
        The teachers' label space, if answers include those of membership scorers; None: that of the answers.
    """
    heard, classes = answers.heard, answers.space.classes
    known = np.flatnonzero([label != none_label for label in classes.tolist()])
    if not heard.any() or len(known) < 2:
        return []
    counts = np.bincount(Q[heard][:, known].argmax(axis=1), minlength=len(known))
    if ratio(counts) < MERGED_RATIO or evenness(counts) > MOST_EVEN or ratio(claims(answers)[known]) < CLAIMED_RATIO:
        return []
    space = answers.space if teachers is None else teachers
    if not space.is_shared and overlap(space) < LEAST_OVERLAP:  # late, since with sets this is slow
        return []
    if seem_even(answers, space, Q):
        return []
    most, least = (classes[known[k]] for k in (counts.argmax(), counts.argmin()))
    says = (
        f"The merged classes are very uneven: {spelled(most)} is the most probable class of {counts.max():,} of "
        f"{counts.sum():,} rows, {spelled(least)} of {counts.min():,}."
    )
    figures = {"count_commonest": int(counts.max()), "count_rarest": int(counts.min())}
    return [Finding("uneven", (), {"commonest": most.item(), "rarest": least.item(), **figures}, says, REMEDY)]


def seem_even(answers: Answers, space: LabelSpace, Q: NDArray[Any]) -> bool:
    """Return whether the estimated class frequencies are even, or cannot be told from those of the merge.

    Shared class lists do not bias the merge, and "none of these" has no estimate.
    """
    if space.is_shared or Q.shape[1] != space.n_classes:
        return False
    frequencies = class_frequencies(answers, space, Q)
    return frequencies is None or evenness_of(frequencies) >= UNEVEN


def ratio(counts: NDArray[Any]) -> float:
    """Return a lower bound of the ratio of the most common to the rarest class, allowing for chance."""
    least = counts.min()
    return float(counts.max() / (least + ERRORS * np.sqrt(least + 1.0)))


def evenness(counts: NDArray[Any]) -> float:
    """Return exp(entropy) of the shares, relative to L: 1 if all classes are equally frequent."""
    shares = counts[counts > 0] / counts.sum()
    return float(np.exp(-(shares * np.log(shares)).sum()) / len(counts))


def claims(answers: Answers) -> Floats:
    """Return (L,), the smallest number of rows claimed for each class; the median if no teacher knows it alone."""
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


REMEDY = (
    "Label 20 to 50 rows drawn at random and pass them to fit(X, y): nothing helps more. Or tell class_prior, how "
    "frequent the classes are in the rows. If all classes will be equally frequent, use balance=True."
)
