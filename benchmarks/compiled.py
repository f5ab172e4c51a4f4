"""Would a compiled kernel be worth an extra? CE, row by row in numba, compared with the batched code, in turns.

    python -m benchmarks.compiled [--rounds 7] [--out benchmarks/results/compiled.json]

The kernel does for every row what `solve_ce` does for a batch: steps with the Hessian of uniform answers, then Newton's
by Cholesky factors, until the gradient is within 1e-9 and the next step negligible, and a certificate of the smallest
eigenvalue by one more factor. Both start from the same probabilities; what counts is processor time, with one thread.
Compiling is not counted.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from benchmarks.versions import SIZES, problem
from sklearn_uhc import LabelSpace
from sklearn_uhc.solvers import blocks_of
from sklearn_uhc.solvers.ce import CrossEntropyDual, solve_ce
from sklearn_uhc.solvers.plain_blocks import PlainBlocks

#: Maximum number of steps with one Hessian for all rows.
MOST = 12
Array = NDArray[Any]
TOL, WELL_CONDITIONED, MAX_ITER = 1e-9, 1e-6, 200


@numba.njit(fastmath=False)
def cholesky(H: Array) -> bool:
    """Factorise in place, in the lower half; False if H is not positive definite."""
    for k in range(len(H)):
        for i in range(k, len(H)):
            total = H[i, k]
            for j in range(k):
                total -= H[i, j] * H[k, j]
            if i == k:
                if total <= 0:
                    return False
                H[k, k] = np.sqrt(total)
            else:
                H[i, k] = total / H[k, k]
    return True


@numba.njit
def solve(C: Array, b: Array) -> None:
    """Solve C C' x = b in place."""
    for i in range(len(b)):
        for j in range(i):
            b[i] -= C[i, j] * b[j]
        b[i] /= C[i, i]
    for i in range(len(b) - 1, -1, -1):
        for j in range(i + 1, len(b)):
            b[i] -= C[j, i] * b[j]
        b[i] /= C[i, i]


@numba.njit
def gradient(a: Array, theta: Array, classes: Array, starts: Array, t: Array, s: Array, g: Array) -> float:
    """Write exp(theta), M't and the gradient; return the largest entry of the last."""
    s[:], worst = 0.0, 0.0
    for i in range(len(theta)):
        t[i] = np.exp(theta[i])
        for k in range(starts[i], starts[i + 1]):
            s[classes[k]] += t[i]
    for i in range(len(theta)):
        total = 0.0
        for k in range(starts[i], starts[i + 1]):
            total += a[classes[k]] / s[classes[k]]
        g[i] = t[i] * total - 1
        worst = max(worst, abs(g[i]))
    return worst


@numba.njit
def hessian(
    a: Array, t: Array, s: Array, g: Array, teachers: Array, own: Array, mean: Array, H: Array, shift: float
) -> None:
    """Write the lower half of the Hessian, its null space filled in, plus a shift of the diagonal."""
    H[:] = mean
    for l in range(len(a)):
        weight = a[l] / s[l] ** 2
        for x in range(own[l], own[l + 1]):
            for y in range(own[l], x + 1):
                H[teachers[x], teachers[y]] -= weight * t[teachers[x]] * t[teachers[y]]
    for i in range(len(t)):
        H[i, i] += g[i] + 1 + shift


@numba.njit
def kernel(A: Array, classes: Array, starts: Array, teachers: Array, own: Array, inverse: Array, mean: Array) -> Any:
    """Solve all rows, one after the other; return theta, residuals and certificates."""
    n, N = len(A), len(starts) - 1
    out, residual, certified = np.empty((n, N)), np.empty(n), np.empty(n, dtype=np.bool_)
    t, g, s, H = np.empty(N), np.empty(N), np.empty(A.shape[1]), np.empty((N, N))
    for row in range(n):
        theta, step, last = -np.log(np.diff(starts).astype(np.float64)), np.zeros(N), np.inf
        for k in range(MAX_ITER):
            worst = gradient(A[row], theta, classes, starts, t, s, g)
            if worst <= TOL and np.abs(step).max() * min(1.0, worst / last) <= 0.1 * TOL:
                break
            if k < MOST and worst < 0.5 * last:
                step = -inverse @ np.log(g + 1)
            else:
                hessian(A[row], t, s, g, teachers, own, mean, H, 1e-15)
                step = -g
                if not cholesky(H):
                    break
                solve(H, step)
            longest = np.abs(step).max()
            theta = theta + step * min(1.0, 4 / max(longest, 1e-300))
            last = worst
        out[row], residual[row] = theta, worst
        hessian(A[row], t, s, g, teachers, own, mean, H, -WELL_CONDITIONED)
        certified[row] = cholesky(H) and worst <= TOL
    return out, residual, certified


def compiled(blocks: PlainBlocks) -> Callable[[Array], Any]:
    """Return the kernel for these class lists as a function of probabilities (n, K)."""
    order = np.lexsort((blocks.teacher_of, blocks.class_of))
    starts = np.array([block.start for block in blocks.slices] + [len(blocks.class_of)])
    own = np.concatenate([[0], np.cumsum(np.bincount(blocks.class_of, minlength=blocks.n_classes))])
    inverse, mean = (
        CrossEntropyDual.for_uniform_answers(blocks, np.ones(blocks.n_teachers)),
        blocks.teacher_component_mean,
    )

    def run(P: Array) -> Any:
        A = np.ascontiguousarray(blocks.sum_classes(P))
        theta, residual, certified = kernel(A, blocks.class_of, starts, blocks.teacher_of[order], own, inverse, mean)
        theta -= theta.max(axis=1, keepdims=True)
        return blocks.level_components(A / blocks.sum_owners(np.exp(theta))), residual, certified

    return run


def compare(size: str, temperature: float, rounds: int) -> dict[str, Any]:
    """Measure both in turns at one size."""
    lists, X = problem(size, seed=1)
    blocks = blocks_of(LabelSpace(lists))
    P = np.exp(blocks.log_softmax(X / temperature))
    run, times = compiled(blocks), []
    (Q, residual, certified), batched = run(P), solve_ce(P, blocks)
    both = certified & batched.converged & batched.well_conditioned
    for _ in range(rounds):
        pair = []
        for solver in (lambda: solve_ce(P, blocks), lambda: run(P)):
            start = time.process_time()
            solver()
            pair.append(1e6 * (time.process_time() - start) / len(P))
        times.append(pair)
    us, faster = np.median(times, axis=0), np.median([a / b for a, b in times])
    row = {"size": size, "method": "CE", "T": temperature, "us batched": us[0], "us compiled": us[1]}
    row |= {"times as fast": faster, "rounds": rounds, "rows": len(P), "rows certified by both": int(both.sum())}
    row |= {"largest residual": residual[both].max(), "largest difference": np.abs(Q - batched.u)[both].max()}
    return {k: v.item() if hasattr(v, "item") else v for k, v in row.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/compiled.json"))
    args = parser.parse_args()
    table = []
    for size in SIZES:
        for temperature in (3.0, 1.0):
            table.append(compare(size, temperature, args.rounds))
            print(table[-1], flush=True)
            args.out.write_text(json.dumps(table, indent=1) + "\n")


if __name__ == "__main__":
    main()
