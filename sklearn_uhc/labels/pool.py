r"""Several sources on the class of a row, pooled with weights learned from labelled rows.

Opinion j gives probabilities P_j. The pool is their weighted geometric mean, with a bias for every class,

    q_l  proportional to  exp( c_l + sum_j b_j log P_j(l) )

where b >= 0 and c minimise, over labelled rows that no source was trained on, the penalised log-loss

    - sum_x w_x log q_{y(x)}(x) + RIDGE / 2 ( ||b - b0||^2 + ||c||^2 )

which is convex. b0 is the merge without labels: weight 1 for itself, 0 for all others.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import log_softmax, softmax

#: Strength of the prior: its standard deviation of weights and biases is 1 / 2, so that a source needs labels to count.
RIDGE = 4.0
#: Shares of the uniform distribution that a source may be mixed with, for sources with overconfident zeros.
DOUBTS = (0.5, 0.3, 0.1, 0.03, 0.01, 0.003, 0.001)


@dataclass(frozen=True, eq=False)
class Pool:
    """Weights of J sources (J,), and a bias for each of the L classes (L,)."""

    weight: NDArray[np.float64]
    bias: NDArray[np.float64]

    def __call__(self, sources: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return probabilities (n, L) from logarithms of sources, (J, n, L)."""
        pooled: NDArray[np.float64] = softmax(np.tensordot(self.weight, sources, 1) + self.bias, axis=1)
        return pooled


def fit_pool(
    sources: NDArray[np.float64],
    codes: NDArray[np.int_],
    start: NDArray[np.float64],
    row_weight: NDArray[np.float64] | None = None,
) -> Pool:
    """Return the pool that predicts labels best.

    Parameters
    ----------
    sources : ndarray of shape (J, m, L)
        Logarithms of what each source says about labelled rows that it has not learnt from.
    codes : ndarray of int, shape (m,)
        The classes of these rows.
    start : ndarray of shape (J,)
        Weights without labels, b0.
    row_weight : ndarray of shape (m,), default=None
        Weights of the rows.

    Returns
    -------
    pool : Pool
    """
    (J, _, L), w = sources.shape, np.ones(len(codes)) if row_weight is None else row_weight
    Y = np.eye(L)[codes]

    def loss(theta: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        b, c = theta[:J], theta[J:]
        log_q = log_softmax(np.tensordot(b, sources, 1) + c, axis=1)
        R = w[:, None] * (np.exp(log_q) - Y)
        penalty = RIDGE / 2 * (((b - start) ** 2).sum() + (c**2).sum())
        value = float(penalty - w @ (log_q * Y).sum(axis=1))
        by_b = np.einsum("jml,ml->j", sources, R) + RIDGE * (b - start)
        return value, np.append(by_b, R.sum(axis=0) + RIDGE * c)

    bounds = [(0.0, None)] * J + [(None, None)] * L
    options = {"gtol": 1e-8, "ftol": 1e-13, "maxiter": 1000}
    found = minimize(loss, np.append(start, np.zeros(L)), jac=True, method="L-BFGS-B", bounds=bounds, options=options)
    return Pool(found.x[:J], found.x[J:])


def doubted(P: NDArray[np.float64], doubt: float) -> NDArray[np.float64]:
    """Return the logarithm of probabilities mixed with a share of the uniform distribution."""
    return np.log((1 - doubt) * P + doubt / P.shape[1])


def log_loss_of(log_p: NDArray[np.float64], codes: NDArray[np.int_], row_weight: NDArray[np.float64]) -> float:
    """Return the sum of -log p(label)."""
    return -float(row_weight @ log_p[np.arange(len(codes)), codes])


def best_doubt(P: NDArray[np.float64], codes: NDArray[np.int_], row_weight: NDArray[np.float64]) -> float:
    """Return the share of the uniform distribution with which a source predicts labels best."""
    return min(DOUBTS, key=lambda doubt: log_loss_of(doubted(P, doubt), codes, row_weight))


def by_groups(log_p: NDArray[np.float64], groups: NDArray[np.int_]) -> list[NDArray[np.float64]]:
    """Split log-probabilities into those within groups of classes and those of the groups; unchanged for one group."""
    if groups.max() == 0:
        return [log_p]
    member = np.eye(groups.max() + 1)[groups]
    of_groups = np.log(np.exp(log_p) @ member)[:, groups]
    return [log_p - of_groups, of_groups]
