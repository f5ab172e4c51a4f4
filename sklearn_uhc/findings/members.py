"""Rows that no teacher's membership scorer accepts.

Teachers of one kind make the same errors on foreign rows, and agree; their owners' scorers detect such rows.
"""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from sklearn_uhc.findings.result import Finding

#: A row belongs to no teacher if all scorers give it at most this.
NOBODYS = 0.5
#: Rows look foreign if a larger share belongs to no teacher. For rows like the owners' it is about a tenth.
MOST_NOBODYS = 0.3
#: Minimum number of rows.
LEAST_ROWS = 30


def find_foreign(D: NDArray[Any]) -> list[Finding]:
    """Look for foreign rows.

    Parameters
    ----------
    D : array of shape (n, N)
        What the scorer of every teacher says about every row, from 0 to 1.

    Returns
    -------
    findings : list of Finding
        One, or none.
    """
    share = float((D.max(axis=1) <= NOBODYS).mean()) if len(D) >= LEAST_ROWS else 0.0
    if share <= MOST_NOBODYS:
        return []
    says = f"The rows look foreign to the teachers, whose membership scorers take {share:.0%} of them for nobody's."
    remedy = (
        "Use rows like those that the teachers were trained on; or give none_label, so that rows of no known class "
        "count little in training."
    )
    return [Finding("foreign", (), {"nobodys": share}, says, remedy)]
