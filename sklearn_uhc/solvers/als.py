"""Alternating least squares for many samples at once, each stopping on its own."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from sklearn_uhc.solvers.blocks import Array, Solution


class Sweep(Protocol):
    """One round of updates: data (n, K), u (n, L) and v (n, N) in, new u and v out."""

    def __call__(self, data: Array, U: Array, V: Array) -> tuple[Array, Array]:
        """Return the new u and v."""


def rmse(A: Array, B: Array) -> Array:
    """Root mean squared difference, per sample."""
    root: Array = np.sqrt(((A - B) ** 2).mean(axis=1))
    return root


def alternate(sweep: Sweep, data: Array, U: Array, V: Array, *, tol: float, max_iter: int) -> Solution:
    """Sweep until u and v of a sample change by less than `tol` (RMSE); finished samples leave the batch."""
    U, V = U.copy(), V.copy()
    n_iter = np.full(len(data), max_iter)
    active: NDArray[np.int_] = np.arange(len(data))
    batch, u, v = data, U, V
    for iteration in range(1, max_iter + 1):
        new_u, new_v = sweep(batch, u, v)
        done = (rmse(new_u, u) < tol) & (rmse(new_v, v) < tol)
        u, v = new_u, new_v
        # Copying the batch costs as much as a sweep: shrink it only when it pays.
        if done.all() or done.mean() > 0.1 or iteration == max_iter:
            U[active], V[active] = u, v
            n_iter[active[done]] = iteration
            active = active[~done]
            batch, u, v = batch[~done], u[~done], v[~done]
        if len(active) == 0:
            break
    converged = np.ones(len(data), dtype=bool)
    converged[active] = False
    return Solution(U, V, n_iter, converged)
