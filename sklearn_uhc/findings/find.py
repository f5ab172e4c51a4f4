"""From answers to findings, and from findings to warnings."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from sklearn_uhc.answers import Answers
from sklearn_uhc.findings.agreement import judge
from sklearn_uhc.findings.comparisons import compare, enough_rows
from sklearn_uhc.findings.result import Finding, FindingWarning
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
    space = answers.space
    comparable = np.unique(space.teacher_of[space.set_sizes == 1])  # sets would have to be split first
    some = enough_rows(answers) if len(comparable) > 1 else None
    return [] if some is None else judge(compare(some), some.space, noise_of(calibrator, answers), by_agreement)


def noise_of(calibrator: Any, answers: Answers) -> tuple[int, ...]:
    """Return the teachers that calibration found to be noise."""
    weights = getattr(calibrator, "weights_", None)
    if weights is None:
        return ()
    relative = weights if answers.trust is None else weights / answers.trust
    return tuple(np.flatnonzero(relative < 0.5 * relative.max()).tolist())


def warn_of(findings: Iterable[Finding]) -> None:
    """Warn about each finding, at the user's own line."""
    for finding in findings:
        warn_user(str(finding), FindingWarning)
