"""A finding, and the category of its warning."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


class FindingWarning(UserWarning):
    """Warning that `fit` found a problem with the teachers or the rows. Training continues.

    It is raised for teachers that contradict the others, class lists that look like positions, rows that look foreign,
    very uneven classes, and labels that contradict the teachers. `teacher_report` shows the same findings.

    Examples
    --------
    Once you have looked into them:

    >>> import warnings
    >>> from sklearn_uhc import FindingWarning
    >>> warnings.filterwarnings("ignore", category=FindingWarning)  # or "error", to stop there
    >>> warnings.filterwarnings("ignore", message="The merged classes are very uneven", category=FindingWarning)
    """


@dataclass(frozen=True)
class Finding:
    """A problem with teachers or rows, found in unlabelled answers.

    Attributes
    ----------
    kind : {"contradiction", "positions", "foreign", "uneven", "labels"}
        A teacher that contradicts the others, class lists that look like positions, rows that look foreign to the
        teachers, very uneven classes, labels that contradict the teachers.
    teachers : tuple of int
        The teachers that seem to cause it; empty if it is the rows.
    evidence : dict
        The figures behind it.
    says : str
        What was found, in words.
    remedy : str
        What to do about it.

    Examples
    --------
    >>> from sklearn_uhc.evidence import Finding
    >>> print(Finding("foreign", (), {"confirmed": 0.4}, "The rows look foreign.", "Use others."))
    The rows look foreign. Use others.
    """

    kind: str
    teachers: tuple[int, ...]
    evidence: dict[str, Any] = field(default_factory=dict)
    says: str = ""
    remedy: str = ""

    def __str__(self) -> str:
        return f"{self.says} {self.remedy}"
