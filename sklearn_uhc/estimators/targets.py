"""Which rows count in training, and how much."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sklearn_uhc.answers import Answers
from sklearn_uhc.labels import Labels
from sklearn_uhc.utils.simplex import sharpen

#: Smallest weight of a row in training, however certain "none of these" is.
LEAST_WEIGHT = 1e-6


def answered_weights(
    answers: Answers, sample_weight: NDArray[Any] | None, labels: Labels | None = None
) -> NDArray[Any] | None:
    """Set the weight of rows without any answer to 0, unless they have a label."""
    answered = answers.answered
    if labels is not None:
        answered[labels.rows] = True
    if answered.all():
        return sample_weight
    weights = answered * (1.0 if sample_weight is None else sample_weight)
    if not weights.any():
        raise ValueError(
            "No teacher answers for any row whose sample_weight is above zero: there is nothing to learn from."
        )
    return weights


def known_weights(
    Q: NDArray[Any],
    classes: NDArray[Any],
    none_label: Any,
    temperature: float,
    weights: NDArray[Any] | None,
    labels: Labels | None = None,
) -> NDArray[Any] | None:
    """Multiply row weights by the probability that a row belongs to a known class, at temperature 1.

    If some rows are labelled "none of these", it is a class like any other, and all rows count.
    """
    if none_label is None:
        return weights
    code = classes.tolist().index(none_label)
    if labels is not None and bool((labels.codes == code).any()):
        return weights
    known = np.maximum(1 - sharpen(Q, temperature)[:, code], LEAST_WEIGHT)
    if labels is not None:
        known[labels.rows] = 1.0
    return known if weights is None else weights * known


def spare_none(class_weight: NDArray[Any], classes: NDArray[Any], none_label: Any) -> NDArray[Any]:
    """Return class weights in which "none of these" has the median weight of the others.

    So balancing does not decide how often it is predicted.
    """
    if none_label is None:
        return class_weight
    known, out = np.array([label != none_label for label in classes.tolist()]), class_weight.copy()
    out[~known] = np.median(out[known])
    return out
