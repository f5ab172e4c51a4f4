"""Rows that no teacher's membership scorer accepts.

Teachers of one kind make the same errors on foreign rows, and agree; their owners' scorers detect such rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sklearn_uhc.evidence.finding import Finding

#: Rows look foreign if a larger share belongs to no teacher. For rows like the owners' it is about a tenth, at most
#: .15, and for foreign ones .45 and more. Few rows show shares with an error of about 1 / sqrt(n), which is granted.
MOST_NOBODYS = 0.3


def find_foreign(D: NDArray[Any], none_label: Any = None) -> list[Finding]:
    """Look for foreign rows: scorers take them for nobody's.

    Parameters
    ----------
    D : array of shape (n, N)
        What the scorer of every teacher says about every row, from 0 to 1.
    none_label : label, default=None
        The class "none of these": if there is one, foreign rows are expected, and nothing is found.

    Returns
    -------
    findings : list of Finding
        One, or none.
    """
    share = 1 - accepted(D)
    if none_label is not None or share - 1 / np.sqrt(len(D)) <= MOST_NOBODYS:
        return []
    says = f"The rows look foreign to the teachers, whose membership scorers take {share:.0%} of them for nobody's."
    remedy = (
        "Use rows like those that the teachers were trained on; or give none_label, so that rows of no known class "
        "count little in training."
    )
    return [Finding("foreign", (), {"nobodys": share}, says, remedy)]


def accepted(D: NDArray[Any]) -> float:
    """Return the share of rows that some scorer, of D (n, M), takes for its teacher's rather than not."""
    return float((D.max(axis=1) > 0.5).mean())
