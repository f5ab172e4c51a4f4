"""Class frequencies, told or estimated: merged labels are scaled until their mean is the prior.

Each class has one factor s_l for all rows. With q_n the merged label of row n at temperature 1 and r_n its weight,

    t_nl = s_l q_nl / sum_k s_k q_nk,        s_l <- s_l f_l / (sum_n r_n t_nl / sum_n r_n),

a few times (Sinkhorn's iteration). The fixed point has mean f. Few steps come close to it, and keep a class that the
merge hardly sees from being scaled without bound. Labels at temperature T are scaled by s^(1/T): the same as scaling
at temperature 1 and tempering afterwards.

Without a told prior, counts c_l of the rows whose most probable class is l are shrunk towards even ones, as far as
their differences can be explained by errors of the merge and by chance (James and Stein's estimate). With v the mean
of (L c_l - 1)^2 over the L classes and n rows, where a row of weight 2 counts like two,

    f_l = 1/L + s (c_l - 1/L),        s = max(0, 1 - (COUNT_ERROR^2 + (L - 1) / n) / v)

So classes that look nearly even count as even, and those that differ much keep their counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from array_api_compat import array_namespace, device
from numpy.typing import NDArray

from sklearn_uhc.answers import to_numpy
from sklearn_uhc.spaces.class_lists import shorten
from sklearn_uhc.utils.notes import warn_user
from sklearn_uhc.utils.rows import chunks, in_range
from sklearn_uhc.utils.simplex import sharpen

Floats = NDArray[np.float64]

#: Steps of the iteration, not to its end: a class that the merge hardly sees would be scaled without bound.
STEPS = 10
#: Smallest frequency of a class that occurs, relative to 1 / L: told frequencies are seldom more precise.
LEAST = 0.03
#: Relative error of a class's count in merged labels. Where classes are even it was .25 to .5, and where not .25 to .9;
#: .2 and .35 gain as much on average (`docs/evidence.md`).
COUNT_ERROR = 0.3
#: By how much frequencies may miss a sum of 1: they are often rounded.
ROUNDING = 0.01


@dataclass(frozen=True, eq=False)
class ClassScale:
    """One factor per class, at temperature 1, and the frequencies that they are for.

    Parameters
    ----------
    factors : ndarray of shape (L,)
        Relative; 0 for a class that does not occur.
    prior : ndarray of shape (L,)
        The frequencies, which sum to 1.
    """

    factors: Floats
    prior: Floats

    def apply(self, Q: Any, temperature: float = 1.0) -> Any:
        """Return soft labels Q (n, L) of a temperature, scaled; a row of excluded classes only becomes the prior."""
        xp = array_namespace(Q)
        factors, prior = (
            xp.asarray(values ** (1 / temperature), dtype=Q.dtype, device=device(Q))
            for values in (self.factors, self.prior)
        )
        scaled = Q * factors
        total = xp.sum(scaled, axis=1, keepdims=True)
        scaled = xp.where(total > 0, scaled, prior)
        return scaled / xp.sum(scaled, axis=1, keepdims=True)


def read_prior(prior: Any, classes: NDArray[Any], free: NDArray[np.bool_], *, labelled: bool = False) -> Floats | None:
    """Return the frequencies (L,) that the user told, checked; NaN for classes that are left to the merge.

    Parameters
    ----------
    prior : dict, array-like of shape (L,) or None
        Frequencies by class, or in the order of `classes`.
    classes : ndarray of shape (L,)
        All classes.
    free : ndarray of bool, shape (L,)
        Classes that a dict may leave out: "none of these", and those that only labels have.
    labelled : bool, default=False
        Whether some rows have labels: a class that only labels have may then be missing from some folds of a search.

    Returns
    -------
    prior : ndarray of shape (L,) or None
        Those that are given sum to 1.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_uhc.merging.class_prior import read_prior
    >>> classes, free = np.array(["cat", "dog", "fox"]), np.zeros(3, dtype=bool)
    >>> read_prior({"fox": 0.1, "cat": 0.6, "dog": 0.3}, classes, free).round(2).tolist()
    [0.6, 0.3, 0.1]
    """
    if prior is None or is_estimated(prior):
        return None
    told = dict(prior) if isinstance(prior, Mapping) else _in_order(prior, classes)
    unknown = _check_told(told, classes, free, labelled)
    found = np.array([float(told.get(label, np.nan)) for label in classes.tolist()])
    if not np.nansum(found) > 0:
        raise ValueError(f"class_prior leaves nothing for the classes there are, {shorten(classes)}.")
    if unknown:
        warn_user(
            f"class_prior names {shorten(unknown)}, which no teacher knows and no label here shows. They are left out, "
            "and the frequencies of the others scaled up."
        )
    return found / np.nansum(found)


def _check_told(told: dict[Any, Any], classes: NDArray[Any], free: NDArray[np.bool_], labelled: bool) -> list[Any]:
    """Raise an error for wrong frequencies; return the names that are no class, if some rows have labels."""
    values = np.array([_number(value, label) for label, value in told.items()])
    if bad := [label for label, value in zip(told, values.tolist(), strict=True) if not 0 <= value < np.inf]:
        raise ValueError(f"class_prior must have numbers of at least 0, but has {told[bad[0]]!r} for {bad[0]!r}.")
    if lost := [label for label in classes[~free].tolist() if label not in told]:
        raise ValueError(f"class_prior lacks {shorten(lost)}: give their frequencies, 0 for a class that never occurs.")
    unknown = [label for label in told if label not in classes.tolist()]
    if unknown and not labelled:
        raise ValueError(
            f"class_prior names {shorten(unknown)}, which no teacher knows. The classes are {shorten(classes)}."
        )
    if abs(values.sum() - 1) > ROUNDING:
        raise ValueError(
            f"class_prior must sum to 1, but sums to {values.sum():.4g}: divide it by its sum. It says how frequent "
            "the classes are in the rows; to weight classes in training, use balance."
        )
    return unknown


def _in_order(prior: Any, classes: NDArray[Any]) -> dict[Any, Any]:
    given = np.asarray(prior)
    if given.shape != classes.shape or given.dtype.kind not in "fiu":
        shown = f"an array of type {given.dtype} and shape {given.shape}" if given.ndim else repr(prior)
        raise ValueError(
            f"class_prior must be a dict of frequencies by class, or an array of one number for each of the "
            f"{len(classes)} classes, in their order {shorten(classes)}; got {shown}."
        )
    return dict(zip(classes.tolist(), given.tolist(), strict=True))


def _number(value: Any, label: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        raise TypeError(f"class_prior must have numbers, but has {value!r} for {label!r}.") from None


def restrict_prior(prior: Any, classes: NDArray[Any], left: NDArray[Any], none_label: Any = None) -> Any:
    """Return the prior of the classes that are left if some teachers are held out, as a dict; None if there is none."""
    if prior is None or is_estimated(prior):
        return prior
    every = classes if none_label is None else np.union1d(classes, [none_label])
    free = np.array([label == none_label for label in every.tolist()])
    told = dict(zip(every.tolist(), np.asarray(read_prior(prior, every, free)).tolist(), strict=True))
    kept = {label: f for label, f in told.items() if not np.isnan(f) and (label in left or label == none_label)}
    total = sum(kept.values())
    return {label: f / total for label, f in kept.items()} if total > 0 else None


def prior_of_fit(prior: Any, classes: NDArray[Any], labels: Any, none_label: Any) -> Floats | None:
    """Return the frequencies that a fit was told, checked against its classes and its `Labels` or None."""
    if labels is None:
        return read_prior(prior, classes, np.array([label == none_label for label in classes.tolist()]))
    classes = labels.classes
    free = np.array([label == none_label for label in classes.tolist()]) | labels.new
    found = read_prior(prior, classes, free, labelled=True)
    if found is None:
        return None
    counts = np.bincount(labels.codes, minlength=len(classes))
    if (wrong := (found == 0) & (counts > 0)).any():
        k = int(np.argmax(wrong))
        raise ValueError(
            f"class_prior says that {classes[k].item()!r} never occurs, but y has {counts[k]} rows of it: give it a "
            "frequency above 0."
        )
    return found


def is_estimated(prior: Any) -> bool:
    """Return whether the frequencies are estimated from the merged labels."""
    return isinstance(prior, str) and prior == "auto"


def estimate_prior(Q: Any, known: NDArray[np.bool_], weights: NDArray[Any] | None = None) -> Floats:
    """Return frequencies that merged labels suggest: their counts, shrunk towards even ones.

    Parameters
    ----------
    Q : array of shape (n, L)
        Soft labels, rows on the simplex, at any temperature.
    known : ndarray of bool, shape (L,)
        Classes to estimate; others keep their share, as "none of these" does.
    weights : ndarray of shape (n,), default=None
        Weights of the rows.

    Returns
    -------
    prior : ndarray of shape (L,)
        NaN for classes that are not estimated; the others sum to 1.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_uhc.merging.class_prior import estimate_prior
    >>> every = np.ones(2, dtype=bool)
    >>> estimate_prior(np.eye(2)[np.repeat([0, 1], [530, 470])], every)  # by chance, or by errors of the merge
    array([0.5, 0.5])
    >>> estimate_prior(np.eye(2)[np.repeat([0, 1], [900, 100])], every).round(2)
    array([0.84, 0.16])
    """
    P, L = to_numpy(Q), int(known.sum())
    best = P.max(axis=1, keepdims=True) == P
    rows = np.ones(len(P)) if weights is None else in_range(np.asarray(weights, dtype=float))
    counts = ((rows / best.sum(axis=1)) @ best)[known]
    prior = np.full(len(known), np.nan)
    prior[known] = 1 / L
    if (total := counts.sum()) > 0:
        noise, away = COUNT_ERROR**2 + (L - 1) / total, counts / total - 1 / L
        spread = np.square(L * away).mean()
        prior[known] += max(0.0, 1 - noise / spread) * away if spread > 0 else 0.0
    return prior


def fit_scale(Q: Any, prior: Floats, temperature: float = 1.0, weights: NDArray[Any] | None = None) -> ClassScale:
    """Return the factors that bring the mean of soft labels to the prior.

    Parameters
    ----------
    Q : array of shape (n, L)
        Soft labels, rows on the simplex.
    prior : ndarray of shape (L,)
        Frequencies of the classes; NaN leaves a class the share that it has.
    temperature : float, default=1.0
        That of the soft labels. The prior is about temperature 1.
    weights : ndarray of shape (n,), default=None
        Weights of the rows.

    Returns
    -------
    scale : ClassScale

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_uhc.merging.class_prior import fit_scale
    >>> Q = np.array([[0.6, 0.4], [0.7, 0.3], [0.2, 0.8], [0.4, 0.6]])
    >>> fit_scale(Q, np.array([0.75, 0.25])).apply(Q).mean(axis=0).round(3).tolist()
    [0.75, 0.25]
    """
    P = sharpen(to_numpy(Q), temperature)
    rows = np.full(len(P), 1 / len(P)) if weights is None else in_range(np.asarray(weights, dtype=float))
    rows = rows / rows.sum()
    target = _target(prior, rows @ P)
    factors = np.where(target > 0, 1.0, 0.0)
    for _ in range(STEPS):
        mean = np.zeros(len(target))
        for part in chunks(len(P), 32 * len(target)):
            mean += rows[part] @ ClassScale(factors, target).apply(P[part])
        factors = factors * np.where(mean > 0, target / np.where(mean > 0, mean, 1.0), 1.0)
        factors /= factors.max()
    return ClassScale(factors, target)


def _target(prior: Floats, mean: Floats) -> Floats:
    """Return full frequencies: those left out keep their mean, and none that occurs is nearly 0."""
    left = np.isnan(prior)
    target = np.where(left, mean, prior * (1 - mean[left].sum()))
    target = np.where(target > 0, np.maximum(target, LEAST / len(target)), 0.0)
    return np.asarray(target / target.sum())
