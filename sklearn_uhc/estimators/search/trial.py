"""One candidate without the teachers of one fold: fitted on some rows, compared with these teachers on others."""

from __future__ import annotations

import time
import traceback
import warnings
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import FitFailedWarning

from sklearn_uhc.answers import to_numpy
from sklearn_uhc.estimators.search.folds import Fold
from sklearn_uhc.estimators.search.reading import Reading, fit_to
from sklearn_uhc.estimators.search.score import Verdict, verdict
from sklearn_uhc.utils.notes import warn_user
from sklearn_uhc.utils.rows import count_rows

#: Share of the rows for training; the student is compared with held-out teachers on the others.
TRAINING_SHARE = 0.5


class Trial(NamedTuple):
    """The result of a trial."""

    verdicts: list[Verdict] | None  #: one per held-out teacher; None if it failed
    fit_time: float
    score_time: float
    error: str | None = None


def rows_to_judge(X: Any, number: int, has_student: bool) -> tuple[NDArray[np.int_], NDArray[np.int_]]:
    """Return the rows to fit on and to compare on, in fold `number`; without a student, all rows for both."""
    n = count_rows(X)
    if not has_student:
        return np.arange(n), np.arange(n)
    if n < 2:
        raise ValueError(f"X has n_samples = {n} row(s), but rows are split in two: pass many more.")
    order = np.random.default_rng(number).permutation(n)
    cut = min(max(int(TRAINING_SHARE * n), 1), n - 1)
    return np.sort(order[:cut]), np.sort(order[cut:])


def try_candidate(
    merged: Any, reading: Reading, fold: Fold, rows: tuple[NDArray[np.int_], NDArray[np.int_]], raises: bool
) -> Trial:
    """Fit a candidate to the teachers that are not held out, and compare it with those that are."""
    start = fitted = time.perf_counter()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # about merges that the user did not ask for
            model = fit_to(merged, reading.without(fold, rows[0]))
            fitted = time.perf_counter()
            found = _compare(model, reading, fold, rows[1])
    except Exception:
        if raises:
            raise
        return Trial(None, fitted - start, time.perf_counter() - fitted, traceback.format_exc())
    return Trial(found, fitted - start, time.perf_counter() - fitted)


def _compare(model: Any, reading: Reading, fold: Fold, rows: NDArray[np.int_]) -> list[Verdict]:
    rest = reading.without(fold, rows)
    proba = np.asarray(model._proba_to_score(rest.X, rest.answers), dtype=float)
    P = proba[:, np.isin(model.classes_, fold.space.classes)]  # without none_label
    log_p = to_numpy(reading.answers.take(rows).log_p).astype(float)
    return [verdict(comparison, fold.space.components, P, log_p) for comparison in fold.comparisons]


def report_failures(trials: list[list[Trial]]) -> None:
    """Warn about candidates that failed; raise an error if all did."""
    failed = [trial.error for row in trials for trial in row if trial.error is not None]
    total = sum(map(len, trials))
    if not failed:
        return
    if len(failed) == total:
        raise ValueError(f"All {total} fits failed, the first with this error:\n{failed[0]}")
    warn_user(
        f"{len(failed)} of {total} fits failed. Their candidates get error_score; "
        f'error_score="raise" raises the error. The first one:\n{failed[0]}',
        FitFailedWarning,
    )
