"""How often MF-P ends above the paper's alternating sweeps, and what it costs.

    python -m benchmarks.local_optima [--seeds 1 2] [--out benchmarks/results/local_optima.json]

Per seed 30 label spaces of 4 to 20 classes and 2 to 10 teachers, 900 rows each, T = 1: logits of spread 2, 4 or 6 with
noise of .3, 1 or 2 and probabilities not below 1e-6. A row ends above if its squared error exceeds that of 1,500 plain
sweeps from v = 1 by more than 1e-6 ||P||^2. The settings of the solver were chosen on seed 0.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sklearn_uhc import LabelSpace
from sklearn_uhc.solvers import blocks_of, mf_p
from sklearn_uhc.solvers.incidence import samples_last
from sklearn_uhc.solvers.plain_blocks import PlainBlocks

Array = NDArray[Any]
SPACES, ROWS, FLOOR, SWEEPS, ABOVE = 30, 900, 1e-6, 1500, 1e-6


def label_spaces(rng: np.random.Generator) -> Iterator[LabelSpace]:
    """Draw connected label spaces."""
    while True:
        L, N = int(rng.integers(4, 21)), int(rng.integers(2, 11))
        sizes = rng.integers(2, min(L, 7) + 1, size=N)
        space = LabelSpace([rng.choice(L, size, replace=False).tolist() for size in sizes])
        if space.is_connected:
            yield space


def answers(blocks: PlainBlocks, rng: np.random.Generator, k: int) -> Array:
    """Draw probabilities of noisy teachers; spread and noise change with k."""
    spread, noise = (2.0, 4.0, 6.0)[k % 3], (0.3, 1.0, 2.0)[k // 3 % 3]
    truth = spread * rng.normal(size=(ROWS, blocks.n_classes))
    Z = truth[:, blocks.class_of] + noise * rng.normal(size=(ROWS, len(blocks.class_of)))
    P = np.clip(np.exp(blocks.log_softmax(Z)), FLOOR, None)
    return P / blocks.by_teacher(blocks.sum_teachers(P))


def plain_sweeps(P: Array, blocks: PlainBlocks) -> Array:
    """Squared error of the paper's algorithm without a stopping rule."""
    P, V = samples_last(P), np.ones((len(P), blocks.n_teachers))
    for _ in range(SWEEPS):
        V = mf_p.sweep(P, V, blocks)
    return mf_p.objective(P, mf_p.best_u(P, V, blocks), V, blocks)


def measure(seed: int) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    counts = dict.fromkeys(("rows", "above", "below", "not converged", "ill conditioned"), 0)
    ours = plain = 0.0
    for k, space in zip(range(SPACES), label_spaces(rng), strict=False):
        blocks = blocks_of(space)
        P = answers(blocks, rng, k)
        start = time.process_time()
        solved = mf_p.solve_mf_p(P, blocks)
        ours += time.process_time() - start
        start = time.process_time()
        gap = mf_p.objective(P, solved.u, solved.v, blocks) - plain_sweeps(P, blocks)
        plain += time.process_time() - start
        gap /= (P**2).sum(axis=1)
        flat = solved.converged & ~solved.well_conditioned
        found = len(P), (gap > ABOVE).sum(), (gap < -ABOVE).sum(), (~solved.converged).sum(), flat.sum()
        counts = {name: counts[name] + int(n) for name, n in zip(counts, found, strict=True)}
    rows = counts["rows"]
    return {"seed": seed, **counts, "us per row": 1e6 * ours / rows, "us per row, plain sweeps": 1e6 * plain / rows}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/local_optima.json"))
    args = parser.parse_args()
    found = []
    for seed in args.seeds:
        found.append(measure(seed))
        print(found[-1], flush=True)
    args.out.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
