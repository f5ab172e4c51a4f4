"""The steps between the teachers' answers and the merge, and their order.

A step has `fit_transform_answers(answers)` and `transform_answers(answers)`, both from `Answers` to `Answers`. To add
one, write it in its own file (`AnswerTransformer` is a base class) and add it to `make_steps`.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from sklearn_uhc.answers import Answers
from sklearn_uhc.evidence import contradicting
from sklearn_uhc.merging.calibration import LEAST_OVERLAP, NOISE_WEIGHT, TeacherCalibrator
from sklearn_uhc.utils.notes import warn_user


class Step(Protocol):
    """A step between answers and merge."""

    def fit_transform_answers(self, answers: Answers) -> Answers:
        """Learn from answers, and return the changed answers."""

    def transform_answers(self, answers: Answers) -> Answers:
        """Return the changed answers."""


def make_steps(calibrate: Any, teacher_weight: Any, *, one_kind: bool = False) -> list[Step]:
    """Return the unfitted steps for these parameters of a merge; raise an error if a parameter is wrong.

    Teachers of `one_kind` need more overlap for calibration, but not to find those that do not agree with the others.
    """
    calibrator = resolve_calibrator(calibrate, one_kind=one_kind and not isinstance(teacher_weight, str))
    steps: list[Step] = [] if calibrator is None else [calibrator]
    if isinstance(teacher_weight, str):
        if teacher_weight != "agreement":
            raise ValueError(
                f'teacher_weight must be one positive number per teacher or "agreement", got {teacher_weight!r}.'
            )
        steps.append(WeightByAgreement(calibrator))
    return steps


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


class WeightByAgreement:
    """Weight teachers by their agreement with the others: a teacher that is noise gets next to no weight.

    These are the teachers that `fit` warns about, and those that calibration finds as a by-product. Without it, or with
    a calibrator that has no `weights_`, a `TeacherCalibrator` is fitted for the weights alone.
    """

    weights_: NDArray[np.float64]

    def __init__(self, calibrator: Any = None) -> None:
        self.calibrator = calibrator

    def fit_transform_answers(self, answers: Answers) -> Answers:
        """Learn the weights, and return the answers with them."""
        source = self.calibrator
        if not hasattr(source, "weights_"):
            source = TeacherCalibrator()
            source.fit_transform_answers(answers)
        wrong, comparable = contradicting(answers)
        if not (comparable or source.comparable_.any()):
            warn_user(
                'teacher_weight="agreement" cannot identify a broken teacher here, so weights do not change: it needs '
                "at least three teachers whose lists share two classes and overlap enough, and ten rows."
            )
        given = np.ones(len(wrong)) if answers.teacher_weight is None else answers.teacher_weight
        self.weights_ = np.where(wrong, np.minimum(source.weights_, NOISE_WEIGHT * given), source.weights_)
        return self.transform_answers(answers)

    def transform_answers(self, answers: Answers) -> Answers:
        """Return the answers with the learned weights."""
        return answers.with_weights(self.weights_)
