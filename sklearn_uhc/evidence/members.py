"""Rows that no teacher's membership scorer accepts.

Teachers of one kind make the same errors on foreign rows, and agree; their owners' scorers detect such rows.
"""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from sklearn_uhc.evidence.finding import Finding

#: Rows look foreign if a larger share belongs to no teacher. For rows like the owners' it is about a tenth, at most
#: .15, and for foreign ones .45 and more.
MOST_NOBODYS = 0.3
#: The same with "none of these", where foreign rows are expected, as long as some rows are left for known classes.
MOST_NONE = 0.98
#: Minimum number of rows: scorers made from fewer are often wrong about clean rows.
LEAST_ROWS = 100


def find_foreign(D: NDArray[Any], none_label: Any = None) -> list[Finding]:
    """Look for foreign rows.

    Parameters
    ----------
    D : array of shape (n, N)
        What the scorer of every teacher says about every row, from 0 to 1.
    none_label : label, default=None
        The class "none of these". None: there is none, and foreign rows are not expected.

    Returns
    -------
    findings : list of Finding
        One, or none.
    """
    share = 1 - accepted(D) if len(D) >= LEAST_ROWS else 0.0
    if share <= (MOST_NOBODYS if none_label is None else MOST_NONE):
        return []
    says = f"The rows look foreign to the teachers, whose membership scorers take {share:.0%} of them for others."
    remedy = (
        "Use rows like those that the teachers were trained on; or give none_label, so that rows of no known class "
        "count little in training."
    )
    return [Finding("foreign", (), {"nobodys": share}, says, remedy if none_label is None else ADD_ROWS)]


def accepted(D: NDArray[Any]) -> float:
    """Return the share of rows that some scorer, of D (n, M), takes for its teacher's rather than not."""
    return float((D.max(axis=1) > 0.5).mean())


def find_only_none(Q: NDArray[Any], classes: NDArray[Any], none_label: Any) -> list[Finding]:
    """Look for rows that are nearly all "none of these" in the merge, where not every teacher has a scorer.

    Parameters
    ----------
    Q : array of shape (n, L)
        Soft labels of the rows that a teacher answers for.
    classes : array of shape (L,)
        The classes.
    none_label : label
        The class "none of these".

    Returns
    -------
    findings : list of Finding
        One, or none.
    """
    share = float((classes[Q.argmax(axis=1)] == none_label).mean()) if len(Q) >= LEAST_ROWS else 0.0
    if share <= MOST_NONE:
        return []
    says = f"The rows look foreign to the teachers: the merge takes {share:.0%} of them for none_label={none_label!r}."
    return [Finding("foreign", (), {"nobodys": share}, says, ADD_ROWS)]


ADD_ROWS = (
    "Such rows count little in training, so next to nothing is learned about the known classes: add rows like those "
    "that the teachers were trained on. If they are such rows, the membership scorers, or OTHER, are wrong about them."
)
