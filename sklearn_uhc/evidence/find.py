"""From answers to findings and weights of teachers, and from findings to warnings."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sklearn_uhc.answers import Answers
from sklearn_uhc.evidence.agreement import judge
from sklearn_uhc.evidence.comparisons import Comparisons, compare
from sklearn_uhc.evidence.finding import Finding, FindingWarning
from sklearn_uhc.spaces.label_space import LabelSpace
from sklearn_uhc.utils.notes import warn_user

#: Weight of a teacher that contradicts the others: it still links the classes that only it knows with the rest.
DOUBTED_WEIGHT = 1e-3


class Judgement(NamedTuple):
    """What comparisons of the teachers say."""

    findings: list[Finding]
    weight: NDArray[np.float64]  #: (N,), how much each should count


def examine(answers: Answers, *, discounted: bool = True) -> Judgement:
    """Look for teachers that are wrong, and lists that are positions, and weigh the teachers.

    Parameters
    ----------
    answers : Answers
        What the teachers say, before calibration. A bounded number of rows is looked at.
    discounted : bool, default=True
        Whether the merge will use the weights.

    Returns
    -------
    judgement : Judgement
    """
    found, space = compare(answers), answers.space
    if found is None:
        return Judgement([], np.ones(space.n_teachers))
    findings = judge(found, space, discounted=discounted)
    return Judgement(findings, weights_of(found, findings, space))


def weights_of(found: Comparisons, findings: Iterable[Finding], space: LabelSpace) -> NDArray[np.float64]:
    """Return (N,): next to nothing for teachers that are named as wrong, and 1 for others, unless they have sets.

    A teacher with sets counts by the cube of its reliability, relative to the best: if an answer about a set is wrong,
    it is wrong about all its classes. The square costs three points more with a poor teacher, the fourth power one with
    a good one.
    """
    coarse = np.bincount(space.teacher_of, space.set_sizes > 1, minlength=space.n_teachers) > 0
    relative = found.confirmed / max(found.confirmed.max(), np.finfo(float).tiny)
    weight = np.where(coarse & (found.confirmed > 0), relative**3, 1.0)
    named = [finding.teachers for finding in findings if finding.kind == "contradiction"]
    weight[[teachers[0] for teachers in named if len(teachers) == 1]] = 0.0
    return np.maximum(weight, DOUBTED_WEIGHT)


def find(answers: Answers) -> list[Finding]:
    """Return what `examine` finds."""
    return examine(answers).findings


def warn_of(findings: Iterable[Finding]) -> None:
    """Warn about each finding, at the user's own line."""
    for finding in findings:
        warn_user(str(finding), FindingWarning, about=(finding.kind, finding.teachers))
