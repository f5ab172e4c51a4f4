"""Statistics over trials: Wilcoxon's test, standard errors, bootstrap intervals."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import wilcoxon

from benchmarks.paper.records import Trials

Array = NDArray[Any]

ALPHA = 0.01  #: the paper's level of significance


def wilcoxon_p(a: Array, b: Array) -> float:
    """Return the p-value of the two-sided Wilcoxon signed-rank test of paired results; 1 if they are all equal."""
    d = np.round(np.subtract(a, b), 12)  # equal differences of accuracies must be ties in spite of rounding errors
    d = d[d != 0]
    if not len(d):
        return 1.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # older versions of scipy warn of small samples
        p = float(wilcoxon(d).pvalue)
    # No p can be less than that of n equal signs. Older versions of scipy take the normal approximation for ties, which
    # goes below it when trials are few.
    return max(p, 2.0 ** (1 - len(d)))


def standard_error(values: Array) -> float | None:
    """Return the standard error of the mean, None for a single trial."""
    return float(np.std(values, ddof=1) / np.sqrt(len(values))) if len(values) > 1 else None


def bootstrap_interval(values: Array, n_resamples: int = 2000, seed: int = 0) -> tuple[float, float]:
    """Return a 95 % confidence interval of the mean over trials: percentiles of the means of resampled trials."""
    values = np.asarray(values, dtype=float)
    rows = np.random.default_rng(seed).integers(len(values), size=(n_resamples, len(values)))
    low, high = np.percentile(values[rows].mean(axis=1), [2.5, 97.5])
    return float(low), float(high)


@dataclass
class Comparison:
    """The best method of a setting (SPV is a bound, not a method) and the p-values of the others against it."""

    best: str
    p: dict[str, float]

    def mark(self, method: str) -> str:
        """Return "best", "same" where the difference is not significant, or ""."""
        if method == self.best:
            return "best"
        return "same" if self.p.get(method, 0) >= ALPHA else ""


def compare(trials: Trials, among: list[str] | None = None) -> Comparison:
    """Test every method (of `among`) against the best by Wilcoxon's signed-rank test."""
    methods = [m for m in trials.methods if m != "SPV" and (among is None or m in among)]
    accuracy = {method: trials.get("accuracy", method) for method in methods}
    if not accuracy:
        return Comparison("", {})
    best = max(accuracy, key=lambda method: float(accuracy[method].mean()))
    return Comparison(best, {m: wilcoxon_p(a, accuracy[best]) for m, a in accuracy.items() if m != best})
