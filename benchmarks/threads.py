"""What a second core gains: `transform` with `n_jobs=1` and `n_jobs=2`, in turns.

    python -m benchmarks.threads [--rows 100000] [--pairs 5] [--seed 1] [--out benchmarks/results/threads.json]

Wall time at the paper's ImageNet size and T = 3, BLAS at one thread throughout, so that `n_jobs=1` uses one core.
Needs two cores, which should be idle. Time that the threads spend waiting for a core on which other work runs is taken
off, divided by the number of threads, as Linux reports it for every thread; `waited` is its share of the wall time.
Written are medians, and the median of the gains within a pair with its extremes. The first run of each does not count.
Methods that are not run again keep their records.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from threading import get_native_id
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.versions import PAPER, make, problem

METHODS = ("MF-LF", "CE", "MF-P", "MF-LU")


def delay() -> float:
    """Return for how many seconds this thread has been ready to run without a core; 0 where nobody says."""
    file = Path(f"/proc/self/task/{get_native_id()}/schedstat")
    return int(file.read_text().split()[1]) / 1e9 if file.exists() else 0.0


def watched(method: Any, delays: list[float]) -> Any:
    """Let every chunk of a method note how long its thread waited for a core."""
    solver = method.solver

    def prepared(*args: Any) -> Any:
        solve = solver(*args)

        def noted(X: Any) -> Any:
            before = delay()
            merged = solve(X)
            delays.append(delay() - before)
            return merged

        return noted

    method.solver = prepared
    return method


def seconds(method: Any, X: Any, n_jobs: int, delays: list[float]) -> tuple[float, float]:
    """Return the wall time of merging all rows less what the threads waited for a core, and the share of that."""
    method.set_params(n_jobs=n_jobs)
    delays.clear()
    start = time.perf_counter()
    method.transform(X)
    wall = time.perf_counter() - start
    waited = sum(delays) / n_jobs
    return wall - waited, waited / wall


def measure(name: str, rows: int, pairs: int, seed: int) -> dict[str, Any]:
    """Compare one and two threads."""
    lists, X = problem(PAPER, seed, rows)
    delays: list[float] = []
    method = watched(make(name, lists).fit(X[:2]), delays)
    for n_jobs in (1, 2):
        seconds(method, X[:8000], n_jobs, delays)
    found = np.array([[seconds(method, X, n_jobs, delays) for n_jobs in (1, 2)] for _ in range(pairs)])
    (one, two), waited = found[:, :, 0].T, found[:, :, 1]
    gains = one / two
    numbers = {"one": np.median(one), "two": np.median(two), "times as fast": np.median(gains)}
    numbers |= {"lowest": gains.min(), "highest": gains.max(), "waited": waited.mean()}
    row = {"size": PAPER, "method": name, "rows": rows, "pairs": pairs, "seed": seed}
    return row | {key: float(value) for key, value in numbers.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", choices=METHODS, nargs="*", default=METHODS)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/threads.json"))
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
