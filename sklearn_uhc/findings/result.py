"""One finding, and the category of the warning that tells of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


class FindingWarning(UserWarning):
    """`fit` has found something odd about the teachers or the rows, and goes on.

    Of this category are the warnings about teachers that contradict the others, class lists that look like positions,
    rows that look foreign, and very uneven classes. `teacher_report` says the same.

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
    """Something odd about teachers or rows, found in unlabelled answers.

    Attributes
    ----------
    kind : {"contradiction", "positions", "foreign", "uneven"}
        A teacher that contradicts the others, class lists that look like positions, rows that look foreign to the
        teachers, very uneven classes.
    teachers : tuple of int
        Whose fault it seems to be; none where it is the rows'.
    evidence : dict
        The figures behind it.
    says : str
        What was found, in words.
    remedy : str
        What to do about it.

    Examples
    --------
    >>> from sklearn_uhc import Finding
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
