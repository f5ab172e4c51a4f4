"""The scale of membership scores: from which odds of own against public rows on a row is surely an own one."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

#: Shares of own rows below the scales that are compared. Without bounds, an estimator that remembers its rows would let
#: nearly all rows in.
BELOW = np.linspace(0.2, 0.5, 31)
#: A class with fewer own rows gets the common scale.
LEAST_OF_CLASS = 5
#: Smallest difference of a class's scale from that of the others that counts, in logarithms. Classes of one frequency
#: differed by less in all scorers for digits, MNIST and Fashion-MNIST that were looked at, and in most for
#: Tiny-ImageNet, where a smaller limit made the scorers worse.
CLEAR = 1.5
#: Smallest log-probability; smaller ones are raised to it: a forest may return 0.
LOG_MIN = float(np.log(np.finfo(np.float32).eps))


def own_against_public(log_p: NDArray[np.float64], offsets: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return log p / (1 - p) of own rows."""
    public, own = np.maximum(public_and_own(log_p, offsets), LOG_MIN).T
    return np.asarray(own - public)


def public_and_own(log_p: NDArray[np.float64], offsets: Any) -> NDArray[np.float64]:
    """(n, 1 + C) to (n, 2): own classes are added up, each times exp(offset), and the result normalised."""
    both = np.stack([log_p[:, 0], np.logaddexp.reduce(log_p[:, 1:] + offsets, axis=1)], axis=1)  # 0 is public rows
    return both if not np.any(offsets) else both - np.logaddexp.reduce(both, axis=1, keepdims=True)


def class_offsets(log_p: NDArray[np.float64], codes: NDArray[np.int_]) -> NDArray[np.float64]:
    """Return by how much to raise the log-probability of every own class, (C,), given those of held-out rows.

    A class that is rarer among own rows than among public ones has lower odds than the others. Each class that differs
    clearly gets the scale of its own rows. Smaller differences are those of easy and hard classes.
    """
    offsets = np.zeros(log_p.shape[1] - 1)
    frequent = np.flatnonzero(np.bincount(codes, minlength=len(offsets) + 1)[1:] >= LEAST_OF_CLASS)
    if len(frequent) > 1:
        odds = np.maximum(log_p[:, 1:], LOG_MIN) - np.maximum(log_p[:, :1], LOG_MIN)
        scales = np.array([log_scale(odds[codes == c + 1, c], odds[codes == 0, c]) for c in frequent])
        apart = np.sort(scales)[len(scales) // 2] - scales  # of an even number of classes, the upper median
        offsets[frequent] = np.where(np.abs(apart) > CLEAR, apart, 0.0)
    return offsets


def log_scale(own: NDArray[np.float64], public: NDArray[np.float64]) -> float:
    """Return the log-odds from which rows are surely in, by maximum likelihood, given those of held-out rows.

    The median own row is too high a scale: log-odds of own rows vary by chance, so half of them would be in doubt. It
    is used if held-out own rows score no higher than public ones, for then the likelihood would let all rows in.
    """
    if auroc(own, public) <= 0.5:
        return float(np.median(own))
    scales = np.quantile(own, BELOW)
    return float(scales[np.argmin([_surprise(own, public, scale) for scale in scales])])


def _surprise(own: NDArray[np.float64], public: NDArray[np.float64], scale: float) -> float:
    """Return minus the log-likelihood of which rows are own ones, if memberships have this scale."""
    log_own, log_public = np.minimum(own - scale, 0.0), np.minimum(public - scale, 0.0)
    shift = np.log(len(own)) - np.logaddexp.reduce(log_public)
    return float(np.logaddexp(0.0, -shift - log_own).sum() + np.logaddexp(0.0, shift + log_public).sum())


def auroc(own: NDArray[np.float64], public: NDArray[np.float64]) -> float:
    """Return the share of pairs in which the own row has the higher score; ties count half."""
    order = np.sort(public)
    below, upto = np.searchsorted(order, own, "left"), np.searchsorted(order, own, "right")
    return float((below + upto).mean() / (2 * len(public)))
