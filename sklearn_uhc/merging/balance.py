"""Balanced soft labels: classes that are rare in the transfer set count as much as the others.

The paper weights the student's cross-entropy by w_l = 1 / (mean of q_l over the transfer set). For any learner,

    - sum_l w_l q_l log s_l  =  W * ( - sum_l t_l log s_l ),     W = sum_l w_l q_l,   t_l = w_l q_l / W

so weighted soft labels are ordinary soft labels t with sample weight W.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sklearn_uhc.utils.rows import in_range

__all__ = ["balanced_targets", "class_weights"]


def check_balance(balance: Any) -> None:
    """Raise an error unless `balance` is True, False or "auto"."""
    if not (isinstance(balance, (bool, np.bool_)) or (isinstance(balance, str) and balance == "auto")):
        raise ValueError(f'balance must be True, False or "auto", got {balance!r}.')


def balances(balance: bool | str) -> bool:
    """Return whether classes count equally in training: "auto" scales soft labels instead."""
    return not isinstance(balance, str) and bool(balance)


def class_weights(Q: NDArray[Any], sample_weight: NDArray[Any] | None = None) -> NDArray[np.float64]:
    """Return the paper's class weights.

    Parameters
    ----------
    Q : ndarray of shape (n, L)
        Soft labels, rows on the simplex.
    sample_weight : ndarray of shape (n,), default=None
        Weights of the rows in the mean.

    Returns
    -------
    class_weight : ndarray of shape (L,)
        1 / mean of q. A class that is the most probable one of no row gets the smallest weight of all:
        no row supports it, so it is not weighted up.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_uhc.merging.balance import class_weights
    >>> class_weights(np.array([[0.9, 0.1, 0.0], [0.9, 0.1, 0.0], [0.0, 0.6, 0.4]])).round(2)
    array([1.67, 3.75, 1.67])
    """
    weights = np.ones(len(Q)) if sample_weight is None else in_range(np.asarray(sample_weight, dtype=float))
    return weights_of_mean(np.average(Q, axis=0, weights=weights), supported(Q, weights))


def supported(Q: NDArray[Any], sample_weight: NDArray[Any]) -> NDArray[np.bool_]:
    """Return (L,), which classes are the most probable one of a row that counts; ties count for all."""
    best = np.asarray(Q)[sample_weight > 0]
    return np.asarray((best >= best.max(axis=1, keepdims=True)).any(axis=0))


def weights_of_mean(mean: NDArray[Any], support: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Return class weights from the mean soft label and the classes that rows support, (L,) each."""
    return 1.0 / np.where(support, mean, mean[support].max())


def balanced_targets(
    Q: NDArray[Any], class_weight: NDArray[Any], sample_weight: NDArray[Any] | None = None
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return targets and sample weights whose plain cross-entropy is the class-weighted one.

    Parameters
    ----------
    Q : ndarray of shape (n, L)
        Soft labels, rows on the simplex.
    class_weight : ndarray of shape (L,)
        Weight of every class in the loss.
    sample_weight : ndarray of shape (n,), default=None
        Weights of the rows, multiplied in.

    Returns
    -------
    targets : ndarray of shape (n, L)
        w * q, normalised.
    sample_weight : ndarray of shape (n,)
        The sums of w * q, scaled to mean 1 (or to the mean of the weights given). A common factor does not change the
        minimiser of the loss, but would change the relative strength of a student's regularisation. Weights of extreme
        size, above 1e100 or all below 1e-100, are divided by the largest.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_uhc.merging.balance import balanced_targets
    >>> balanced_targets(np.array([[0.8, 0.2], [0.8, 0.2]]), np.array([1.0, 4.0]))
    (array([[0.5, 0.5], [0.5, 0.5]]), array([1., 1.]))
    """
    weighted = np.asarray(Q, dtype=float) * in_range(np.asarray(class_weight, dtype=float))
    total = weighted.sum(axis=1)
    targets = weighted / total[:, None]
    rows = np.ones(len(Q)) if sample_weight is None else in_range(np.asarray(sample_weight, dtype=float))
    weights = rows * total
    return targets, weights * (rows.sum() / weights.sum())
