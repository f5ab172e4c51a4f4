"""Classes that seem to be rare or absent, and a teacher that alone claims many rows.

Where classes are very uneven, labels of a few random rows or told frequencies are worth more than any setting. How
uneven they are is measured by the number of classes that count, exp(entropy of the shares), relative to L; the shares
are the estimated ones (`merging.class_prior`), which are even if chance or errors of the merge explain the counts.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sklearn_uhc.evidence.finding import Finding
from sklearn_uhc.merging.class_prior import estimate_prior
from sklearn_uhc.spaces.label_space import LabelSpace, shorten, spelled

#: Classes are uneven if fewer than this share of them count: 19 in 20 even worlds have 1, 10 : 1 is .75 to .9.
UNEVEN = 0.75


def find_uneven(
    Q: NDArray[Any], answered: NDArray[np.bool_], classes: NDArray[Any], space: LabelSpace, none_label: Any = None
) -> list[Finding]:
    """Return a finding if merged classes are very uneven.

    Parameters
    ----------
    Q : ndarray of shape (n, L)
        Soft labels.
    answered : ndarray of bool, shape (n,)
        Rows that a teacher answers.
    classes : ndarray of shape (L,)
        The classes. Those that no teacher knows do not count.
    space : LabelSpace
        Who knows which class.
    none_label : label, default=None
        The class "none of these", which does not count either.

    Returns
    -------
    findings : list of Finding
        One, or none.
    """
    known = np.isin(classes, space.classes) & np.array([label != none_label for label in classes.tolist()])
    best = Q[answered] == Q[answered].max(axis=1, keepdims=True)  # teachers that contradict each other make ties
    counts = (best / best.sum(axis=1, keepdims=True)).sum(axis=0)[known]
    classes, n = classes[known], round(counts.sum())
    if not n or evenness(estimate_prior(Q[answered], known)[known]) >= UNEVEN:
        return []
    most, absent = classes[counts.argmax()], classes[counts == 0]
    says = f"The merged classes are very uneven: {spelled(most)} is the most probable class of "
    says += f"{counts.max():,.0f} of {n:,} rows"
    if len(absent):
        says += f", and no row seems to be of {shorten(absent)} ({len(absent)} of {len(classes)} classes)"
    says += "."
    alone, share = claimed_alone(counts, classes, space)
    remedy = REMEDY
    if share > 0.5 and space.n_teachers > 1:  # most rows
        says += f" For {share:.0%} of the rows it is a class that only {space.called(alone)} knows."
        remedy = f"Nobody can confirm {space.called(alone)}, so check it first. {REMEDY}"
    evidence = {"evenness": evenness(counts), "commonest": most.item(), "absent": absent.tolist(), "alone": share}
    return [Finding("uneven", (alone,) if remedy != REMEDY else (), evidence, says, remedy)]


def evenness(counts: NDArray[Any]) -> float:
    """Return exp(entropy) of the shares, relative to L: 1 if all classes are equally frequent."""
    shares = counts[counts > 0] / counts.sum()
    return float(np.exp(-(shares * np.log(shares)).sum()) / len(counts))


def claimed_alone(counts: NDArray[Any], classes: NDArray[Any], space: LabelSpace) -> tuple[int, float]:
    """Return the teacher with the most rows of classes that nobody else names, and their share."""
    named = space.named[:, np.searchsorted(space.classes, classes)]
    rows = (named & (named.sum(axis=0) == 1)) @ counts
    return int(rows.argmax()), float(rows.max() / counts.sum())


REMEDY = (
    "Label 20 to 50 rows drawn at random and pass them to fit(X, y): nothing helps more. Or pass class_prior, how "
    "frequent the classes are in these rows. If all classes should count equally, use balance=True."
)
