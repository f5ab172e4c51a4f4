"""What a second core gains: `transform` with `n_jobs=1` and `n_jobs=2`, in turns.

    python -m benchmarks.threads [--rows 100000] [--pairs 5] [--seed 1] [--out docs/threads.json]

Wall time at the paper's ImageNet size and T = 3, BLAS at one thread throughout, so that `n_jobs=1` uses one core.
Needs two idle cores. Written are medians, the median of the gains within a pair with its extremes, and the gain by the
shortest times of both, which other work on the machine disturbs least. The first run of each does not count. Methods
that are not run again keep their records.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.versions import PAPER, make, problem

METHODS = ("MF-LF", "CE", "MF-P", "MF-LU")


def seconds(method: Any, X: Any, n_jobs: int) -> float:
    """Return the wall time of merging all rows."""
    method.set_params(n_jobs=n_jobs)
    start = time.perf_counter()
    method.transform(X)
    return time.perf_counter() - start


def measure(name: str, rows: int, pairs: int, seed: int) -> dict[str, Any]:
    """Compare one and two threads."""
    lists, X = problem(PAPER, seed, rows)
    method = make(name, lists).fit(X[:2])
    for n_jobs in (1, 2):
        seconds(method, X[:8000], n_jobs)
    found = np.array([[seconds(method, X, n_jobs) for n_jobs in (1, 2)] for _ in range(pairs)])
    gains = found[:, 0] / found[:, 1]
    numbers = {"one": np.median(found[:, 0]), "two": np.median(found[:, 1]), "times as fast": np.median(gains)}
    numbers |= {"lowest": gains.min(), "highest": gains.max(), "by shortest": np.divide(*found.min(axis=0))}
    row = {"size": PAPER, "method": name, "rows": rows, "pairs": pairs, "seed": seed}
    return row | {key: float(value) for key, value in numbers.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", choices=METHODS, nargs="*", default=METHODS)
    parser.add_argument("--out", type=Path, default=Path("threads.json"))
    args = parser.parse_args()
    known = json.loads(args.out.read_text()) if args.out.exists() else []
    table = {row["method"]: row for row in known}
    with threadpool_limits(1):
        for name in args.only:
            table[name] = measure(name, args.rows, args.pairs, args.seed)
            print(table[name], flush=True)
            args.out.write_text(json.dumps([table[key] for key in METHODS if key in table], indent=1) + "\n")


if __name__ == "__main__":
    main()
