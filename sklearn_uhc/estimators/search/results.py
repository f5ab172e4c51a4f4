"""The results of a search, in the form of scikit-learn's `cv_results_`."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

Array = NDArray[np.float64]


def results_table(
    candidates: list[dict[str, Any]], scores: Array, weights: Array, fit_times: Array, score_times: Array
) -> dict[str, Any]:
    """Return `cv_results_`.

    Parameters
    ----------
    candidates : list of C dicts
        The settings.
    scores : ndarray of shape (C, S)
        Against every held-out teacher.
    weights : ndarray of shape (S,)
        Of the teachers, in the mean.
    fit_times, score_times : ndarrays of shape (C, F)
        In seconds, for every fold.
    """
    table: dict[str, Any] = {}
    for name, times in (("fit_time", fit_times), ("score_time", score_times)):
        table[f"mean_{name}"], table[f"std_{name}"] = times.mean(axis=1), times.std(axis=1)
    for name in sorted({name for candidate in candidates for name in candidate}):
        table[f"param_{name}"] = _column([candidate.get(name, np.ma.masked) for candidate in candidates])
    table["params"] = candidates
    for k, column in enumerate(scores.T):
        table[f"split{k}_test_score"] = column.copy()
    mean = scores @ weights / weights.sum()
    table["mean_test_score"] = mean
    table["std_test_score"] = np.sqrt((scores - mean[:, None]) ** 2 @ weights / weights.sum())
    table["rank_test_score"] = ranks(mean)
    return table


def _column(values: list[Any]) -> np.ma.MaskedArray[Any, Any]:
    """Return the values of a parameter; masked if a candidate does not set it."""
    column = np.ma.masked_all(len(values), dtype=object)
    for k, value in enumerate(values):
        if value is not np.ma.masked:
            column[k] = value
    return column


def ranks(scores: Array) -> NDArray[np.int32]:
    """Return ranks: 1 for the best, equal ranks in a tie; NaN comes last."""
    lowest = np.nanmin(scores) - 1 if not np.isnan(scores).all() else 0.0
    return rankdata(-np.nan_to_num(scores, nan=lowest), method="min").astype(np.int32)
