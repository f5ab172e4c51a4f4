"""What a student answers, as probabilities at temperature 1."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax
from sklearn.naive_bayes import BernoulliNB, CategoricalNB, ComplementNB, GaussianNB, MultinomialNB

#: Learn p(x | class) with the soft labels as weights: their posterior is not tempered, sharpening would spoil it.
GENERATIVE = (BernoulliNB, CategoricalNB, ComplementNB, GaussianNB, MultinomialNB)


def on_simplex(S: NDArray[Any], prior: NDArray[Any]) -> NDArray[np.float64]:
    """Normalise rows that are not negative; a row of zeros becomes the prior."""
    if np.isnan(S).any():
        raise ValueError(
            f"The student gives NaN, first for row {int(np.argmax(np.isnan(S).any(axis=1)))}: missing values in X, or "
            "a training that diverged (try a lower learning rate)."
        )
    total = S.sum(axis=1, keepdims=True)
    return np.where(total > 0, S / np.where(total > 0, total, 1.0), prior)


def sharpen(S: NDArray[Any], temperature: float) -> NDArray[np.float64]:
    """Raise probabilities to the power of the temperature and normalise."""
    with np.errstate(divide="ignore"):
        log_s = np.log(np.asarray(S, dtype=float))
    sharpened: NDArray[np.float64] = softmax(temperature * log_s, axis=1)
    return sharpened


def student_temperature(estimator: Any, temperature: float) -> float:
    """Return the power to which this student's answers have to be raised."""
    return 1.0 if isinstance(estimator, GENERATIVE) else float(temperature)
