"""The paper's algorithms, vectorised over samples as its supplement suggests: the baseline of `benchmarks.solvers`."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sklearn_uhc.solvers import mf_lu, mf_p
from sklearn_uhc.solvers.incidence import samples_last, take_samples
from sklearn_uhc.solvers.plain_blocks import PlainBlocks

Array = NDArray[Any]


def gradient_descent(
    method: str, blocks: PlainBlocks, Z: Array, P: Array, max_iter: int = 3000
) -> tuple[float, float, int]:
    """Gradient descent in u from zero, as in the paper, with the best constant step of a grid.

    Returns seconds, the largest gradient entry and the number of steps, at most `max_iter`.
    """
    Z = blocks.center(Z)

    def gradient(U: Array, rows: slice) -> Array:
        u = blocks.by_class(U)
        if method == "CE":
            E = np.exp(u - u.max(axis=1, keepdims=True))
            fitted, target = E / blocks.by_teacher(blocks.sum_teachers(E)), P[rows]
        else:
            fitted, target = blocks.center(u), Z[rows]
        G: Array = blocks.sum_classes(fitted - target)
        return G

    def descend(step: float, rows: slice, steps: int) -> tuple[float, int]:
        U, k = np.zeros((len(Z[rows]), blocks.n_classes)), 0
        for k in range(1, steps + 1):  # noqa: B007
            G = gradient(U, rows)
            if not np.abs(G).max() > 1e-4:
                break
            U -= step * G
        return float(np.nan_to_num(np.abs(G).max(), nan=np.inf)), k

    # Neither curvature exceeds the number of teachers that know a class.
    steps = 2.0 ** np.arange(-1, 7) / np.bincount(blocks.class_of).max()
    with np.errstate(all="ignore"):
        step = min(steps, key=lambda s: descend(s, slice(None), 300))
    start = time.process_time()
    residual, taken = descend(step, slice(None), max_iter)
    return time.process_time() - start, residual, taken


def alternate(
    method: str, blocks: PlainBlocks, Z: Array, P: Array, tol: float, dropping: bool, max_iter: int
) -> tuple[float, float, int]:
    """Alternating least squares to a relative gradient of `tol`, or for `max_iter` sweeps.

    Returns seconds, the largest residual and the number of sweeps.

    The residual is checked every tenth sweep, so that the check costs the baseline little.
    """
    lam = 0.01
    data = P if method == "MF-P" else blocks.center(Z)
    data, V = samples_last(data), np.ones((len(data), blocks.n_teachers))
    C = np.zeros_like(V)
    size = (data**2).sum(axis=1) + (0 if method == "MF-P" else lam)
    worst, sweeps = 0.0, 0
    start = time.process_time()
    while len(data) and sweeps < max_iter:
        for _ in range(10):
            if method == "MF-P":
                V = mf_p.sweep(data, V, blocks)
            else:
                U, V, C = mf_lu.paper_sweep(data, V, C, lam, blocks)
        sweeps += 10
        if method == "MF-P":
            residual = mf_p.ProbabilityFit(data, size, blocks).at(np.log(V)).residual
        else:
            by_u, by_v = mf_lu.gradient(data, U, V, lam, blocks)
            by_v = np.where(V > 0, by_v, np.minimum(by_v, 0))
            residual = np.maximum(np.abs(by_u).max(axis=1), np.abs(by_v).max(axis=1)) / size
        going = residual > tol
        if not going.any() or sweeps >= max_iter:
            worst = max(worst, float(residual.max()))
            break
        if dropping:
            worst = max(worst, float(residual[~going].max(initial=0.0)))
            data, V, C, size = take_samples(data, going), V[going], C[going], size[going]
    return time.process_time() - start, worst, sweeps
