"""The rows on which a merge is furthest from its teachers."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from sklearn_uhc.solvers.blocks import Blocks
from sklearn_uhc.spaces.class_sets import plain_entries
from sklearn_uhc.spaces.label_space import LabelSpace
from sklearn_uhc.utils.rows import chunks

Floats = NDArray[np.floating[Any]]

#: Smaller divergences are rounding errors.
ROUNDING = 1e-9
#: Maximum number of teachers named per row that contradict the merge.
MOST_AGAINST = 2


def check_n_rows(n_rows: Any) -> None:
    """Refuse a number of rows that is none."""
    if not isinstance(n_rows, Integral) or n_rows < 0:
        raise ValueError(f"n_rows must be an integer of at least 0, got {n_rows!r}.")


def divergences(answers: Floats, Q: Floats, blocks: Blocks) -> Floats:
    """Return the divergence of the merge from every teacher, (n, N); NaN where a teacher is silent."""
    out = np.empty((len(answers), len(blocks.slices)))
    for rows in chunks(len(answers), 64 * answers.shape[1]) if len(answers) else ():
        out[rows] = blocks.divergences(answers[rows], Q[rows])
    return out


def hardest_rows(
    answered: NDArray[np.int_], answers: Floats, Q: Floats, apart: Floats, space: LabelSpace, most: int
) -> list[dict[str, Any]]:
    """List the rows on which the merge is furthest from the teachers, worst first."""
    speaking = (~np.isnan(apart)).sum(axis=1)
    error = np.nansum(apart, axis=1) / np.maximum(speaking, 1)
    hardest = np.argsort(-error, kind="stable")[:most]
    return [
        {
            "row": int(answered[k]),
            "error": float(error[k]),
            "says": space.classes[Q[k].argmax()].item(),
            "probability": float(Q[k].max()),
            "contradicted_by": _against(answers[k], Q[k], apart[k], space),
        }
        for k in hardest[error[hardest] > ROUNDING]
    ]


def _against(answer: Floats, q: Floats, apart: Floats, space: LabelSpace) -> list[dict[str, Any]]:
    """List teachers whose first choice differs from the merge's, furthest first, with the merge's choice for them."""
    worst = np.argsort(-np.nan_to_num(apart), kind="stable")
    in_columns, out = np.add.reduceat(q[space.members], space.offsets[:-1]), []
    for i in worst[np.nan_to_num(apart[worst]) > ROUNDING]:
        p, merged = softmax(answer[space.blocks[i]]), in_columns[space.blocks[i]]
        # If all of a teacher's classes are nearly impossible, the merge may give each of them probability 0.
        merged = merged / merged.sum() if merged.sum() > 0 else np.full(len(p), 1 / len(p))
        if p.argmax() == merged.argmax():
            continue
        labels = plain_entries(space.class_lists[i])
        out.append(
            {
                "teacher": int(i),
                "divergence": float(apart[i]),
                "says": labels[p.argmax()],
                "probability": float(p.max()),
                "merge_says": labels[merged.argmax()],
                "merge_probability": float(merged.max()),
            }
        )
    return out[:MOST_AGAINST]
