"""The steps between the teachers' answers and the merge, and their order.

A step has `fit_transform_answers(answers)` and `transform_answers(answers)`, both from `Answers` to `Answers`. To add
one, write it in its own file (`AnswerTransformer` is a base class) and add it to `make_plan`.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from array_api_compat import array_namespace, device
from numpy.typing import NDArray
from sklearn.base import clone

from sklearn_uhc.answers import Answers
from sklearn_uhc.evidence import DOUBTED_WEIGHT
from sklearn_uhc.merging.calibration import LEAST_OVERLAP, TeacherCalibrator


class Step(Protocol):
    """A step between answers and merge."""

    def fit_transform_answers(self, answers: Answers) -> Answers:
        """Learn from answers, and return the changed answers."""

    def transform_answers(self, answers: Answers) -> Answers:
        """Return the changed answers."""


def resolve_calibrator(calibrate: Any, *, one_kind: bool = False) -> Any:
    """Return a new calibrator, or None; True calibrates whatever the overlap of the lists."""
    if isinstance(calibrate, (bool, np.bool_)):
        return TeacherCalibrator(min_overlap=0.0) if calibrate else None
    if isinstance(calibrate, str) and calibrate == "auto":
        return TeacherCalibrator(min_overlap=LEAST_OVERLAP * (2 if one_kind else 1))  # one kind: less to gain
    if isinstance(calibrate, type) or not hasattr(calibrate, "fit_transform_answers"):
        raise ValueError(
            f'calibrate must be True, False, "auto", a TeacherCalibrator or another AnswerTransformer, got '
            f"{calibrate!r}."
        )
    calibrator = clone(calibrate)
    if hasattr(calibrator, "check_params"):
        calibrator.check_params()
    for name in ("class_lists", "teacher_weight"):
        if getattr(calibrator, name, None) is not None:
            raise ValueError(f"{name} of the calibrator is ignored in a merge: pass {name} to the merge itself.")
    return calibrator


class WeightByReliability:
    """Weigh teachers by what comparisons of their answers say; those that contradict the others say nothing any more.

    A class that only such a teacher knows is then about as probable as its other classes, which others know.

    Parameters
    ----------
    weight : ndarray of shape (N,)
        See `evidence.examine`.
    """

    def __init__(self, weight: NDArray[np.float64]) -> None:
        self.weight = weight

    def fit_transform_answers(self, answers: Answers) -> Answers:
        """Return the changed answers; there is nothing to learn."""
        return self.transform_answers(answers)

    def transform_answers(self, answers: Answers) -> Answers:
        """Return the changed answers; a teacher that is silent stays silent."""
        space, X = answers.space, answers.log_p
        given = np.ones(space.n_teachers) if answers.teacher_weight is None else answers.teacher_weight
        weighted = answers.with_weights(given * self.weight)
        doubted = (self.weight <= DOUBTED_WEIGHT)[space.teacher_of]
        if not doubted.any():
            return weighted
        xp, even = array_namespace(X), -np.log(np.bincount(space.teacher_of))[space.teacher_of]
        even, where = xp.asarray(even, dtype=X.dtype, device=device(X)), xp.asarray(doubted, device=device(X))
        return weighted.saying(xp.where(where & ~xp.isnan(X), even, X))
