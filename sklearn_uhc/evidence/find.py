"""From answers to findings, and from findings to warnings."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sklearn_uhc.answers import Answers
from sklearn_uhc.evidence.agreement import LEAST_EVIDENCE, judge
from sklearn_uhc.evidence.comparisons import Comparisons, compare, enough_rows
from sklearn_uhc.evidence.finding import Finding, FindingWarning
from sklearn_uhc.utils.notes import warn_user


def find(answers: Answers, calibrator: Any = None, *, by_agreement: bool = False) -> list[Finding]:
    """Look for teachers that are wrong, lists that are positions, and rows that are foreign.

    Parameters
    ----------
    answers : Answers
        What the teachers say, before calibration. A bounded number of rows is looked at.
    calibrator : TeacherCalibrator, default=None
        Fitted to these answers, if there is one: it may have found teachers to be noise.
    by_agreement : bool, default=False
        Whether teachers are weighted by their agreement already.

    Returns
    -------
    findings : list of Finding
    """
    found = comparisons_of(answers)
    return [] if found is None else judge(found, answers.space, noise_of(calibrator, answers), by_agreement)


def comparisons_of(answers: Answers) -> Comparisons | None:
    """Compare the teachers; None if there are too few of them, or too few rows."""
    comparable = np.unique(answers.space.teacher_of[answers.space.set_sizes == 1])  # sets would have to be split first
    some = enough_rows(answers) if len(comparable) > 1 else None
    return None if some is None else compare(some)


def contradicting(answers: Answers) -> tuple[NDArray[np.bool_], bool]:
    """Return which teachers contradict the others, (N,), and whether any such teacher could be told."""
    wrong, found = np.zeros(answers.space.n_teachers, dtype=bool), comparisons_of(answers)
    if found is None:
        return wrong, False
    named = [finding.teachers for finding in judge(found, answers.space) if finding.kind == "contradiction"]
    wrong[[teachers[0] for teachers in named if len(teachers) == 1]] = True
    return wrong, bool((found.evidence >= LEAST_EVIDENCE).sum() > 2)


def noise_of(calibrator: Any, answers: Answers) -> tuple[int, ...]:
    """Return the teachers that calibration found to be noise."""
    weights = getattr(calibrator, "weights_", None)
    if weights is None:
        return ()
    relative = weights if answers.teacher_weight is None else weights / answers.teacher_weight
    return tuple(np.flatnonzero(relative < 0.5 * relative.max()).tolist())


def warn_of(findings: Iterable[Finding]) -> None:
    """Warn about each finding, at the user's own line."""
    for finding in findings:
        warn_user(str(finding), FindingWarning, about=(finding.kind, finding.teachers))
