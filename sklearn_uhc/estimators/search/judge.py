"""Scores of all candidates from their trials."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sklearn_uhc.estimators.search.folds import Fold
from sklearn_uhc.estimators.search.reading import Reading
from sklearn_uhc.estimators.search.score import held_out_scores
from sklearn_uhc.estimators.search.trial import Trial


class Judged(NamedTuple):
    """Scores of all candidates against the S teachers with which they can be compared."""

    scores: NDArray[np.float64]  #: (C, S), NaN if a candidate failed
    teachers: list[int]  #: (S,)
    weights: NDArray[np.float64]  #: (S,), weights of the teachers in the mean


def judge(
    reading: Reading, folds: list[Fold], rows: list[Any], trials: list[list[Trial]], teacher_weight: Any
) -> Judged:
    """Score all candidates by their trials; `reading` shows where teachers are silent."""
    scores, teachers = [], []
    for k, fold in enumerate(folds):
        verdicts = [row[k].verdicts for row in trials]
        speaking = reading.answers.speaking[rows[k][1]]
        for j, comparison in enumerate(fold.comparisons):
            said = [None if v is None else v[j] for v in verdicts]
            column = held_out_scores(said, speaking[:, comparison.teacher])
            if not np.isnan(column).all():
                scores.append(column)
                teachers.append(comparison.teacher)
    if not teachers:
        raise ValueError(
            "No row seems to belong to the classes that a held-out teacher shares with the others, so candidates "
            "cannot be compared. Use rows like the teachers' training data, and more of them."
        )
    weights = np.ones(len(teachers)) if teacher_weight is None else np.asarray(teacher_weight, dtype=float)[teachers]
    return Judged(np.stack(scores, axis=1), teachers, weights)
