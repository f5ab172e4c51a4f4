"""Answers that are labels, not probabilities."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sklearn_uhc.spaces.label_space import shorten
from sklearn_uhc.utils.missing import is_missing


def check_one_column(names: list[Any], source: str) -> None:
    """Raise an error unless a table has a single column that may hold labels."""
    if len(names) > 1:
        raise ValueError(
            f'{source} has the columns {shorten(names)}, but scale="labels" needs a single one, with the class of each '
            "row: name the others in ignore, or as id_column."
        )


def answers_of_labels(
    labels: NDArray[Any], accuracy: float, abstain: bool, source: str
) -> tuple[NDArray[np.float64], list[Any]]:
    """Return log-probabilities (n, k) from labels (n,), and the k classes; a missing label is a row of NaN."""
    missing = is_missing(labels)
    if missing.any() and not abstain:
        raise ValueError(
            f"{source} has no label in row {int(np.argmax(missing))}: with abstain=True the teacher is silent about "
            "such a row."
        )
    classes, numbers = np.unique(_plain(labels[~missing], source), return_inverse=True)
    k = len(classes)
    if k < 2:
        raise ValueError(
            f"{source} holds {'no label' if k == 0 else f'only the label {classes[0]!s}'}: labels must be of two "
            "classes at least. Leave this source out."
        )
    if k == len(numbers) > 2:
        raise ValueError(f"{source} has another label in every row: is this a column of ids? Name it as id_column.")
    if accuracy <= 1 / k:
        raise ValueError(f"accuracy={accuracy:g} is no better than chance for the {k} classes of {source}.")
    out = np.full((len(labels), k), np.nan)
    out[~missing] = np.log((1 - accuracy) / (k - 1))
    out[np.flatnonzero(~missing), numbers] = np.log(accuracy)
    return out, classes.tolist()


def _plain(labels: NDArray[Any], source: str) -> NDArray[Any]:
    """Return labels as an array of strings or of integers."""
    kinds = {type(label) for label in labels.tolist()}
    if all(issubclass(kind, str) for kind in kinds):
        return labels.astype(str)
    if all(issubclass(kind, Real) for kind in kinds):
        numbers = labels.astype(float)
        if (numbers == numbers.round()).all():  # missing labels make a column of integers one of floats
            return labels.astype(np.int64)
    raise ValueError(
        f"{source} must hold the names or numbers of classes, got {shorten(labels.tolist(), 3)}. For probabilities, "
        'leave scale="labels" out.'
    )
