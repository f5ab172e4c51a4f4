"""Speed of the solvers in two source trees, in turns.

    python -m benchmarks.versions BEFORE AFTER [--rounds 5] [--out docs/versions.json]

BEFORE and AFTER are folders that hold `sklearn_uhc`, such as two git worktrees. Each round starts a process for either,
one after the other, on the simulated answers of `benchmarks.solvers` at the two sizes of the paper, and takes the best
of three processor times per method. Written are the medians over the rounds, and of the ratio after / before within a
round.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

ROWS = 4096
METHODS = ("SD", "MF-LF", "CE", "MF-P", "MF-LU")


def measure() -> dict[str, float]:
    """Processor time per row of each method, in microseconds, with the package that is first in the path."""
    from benchmarks.solvers import SIZES, make_problem
    from sklearn_uhc.solvers import ce, mf_lf, mf_lu, mf_p

    found = {}
    for name in list(SIZES)[:2]:
        blocks, Z, P = make_problem(SIZES[name], ROWS)
        runs = {
            "SD": lambda blocks=blocks, P=P: P @ blocks.to_class,
            "MF-LF": lambda blocks=blocks, Z=Z: mf_lf.LogitAverage.of(blocks).solve(Z),
            "CE": lambda blocks=blocks, P=P: ce.solve_ce(P, blocks),
            "MF-P": lambda blocks=blocks, P=P: mf_p.solve_mf_p(P, blocks),
            "MF-LU": lambda blocks=blocks, Z=Z: mf_lu.solve_mf_lu(Z, blocks),
        }
        for method, run in runs.items():
            times = []
            for _ in range(3):
                start = time.process_time()
                run()
                times.append(time.process_time() - start)
            found[f"{name}, {method}"] = 1e6 * min(times) / ROWS
    return found


def start(tree: Path) -> dict[str, float]:
    """Measure in a process of its own."""
    environment = {**os.environ, "PYTHONPATH": str(tree.resolve()), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, str(Path(__file__).resolve()), "--measure"],
        env=environment,
        cwd=tree,
        capture_output=True,
        text=True,
        check=True,
    )
    return dict(json.loads(done.stdout))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trees", type=Path, nargs="*", metavar="TREE", help="before and after")
    parser.add_argument("--measure", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=Path, default=Path("versions.json"))
    args = parser.parse_args()
    if args.measure:
        print(json.dumps(measure()))
        return
    rounds = [[start(tree) for tree in args.trees] for _ in range(args.rounds)]
    table = {}
    for name in rounds[0][0]:
        before, after = (np.array([pair[k][name] for pair in rounds]) for k in (0, 1))
        table[name] = {
            "us before": float(np.median(before)),
            "us after": float(np.median(after)),
            "ratio": float(np.median(after / before)),
        }
        print(name, {key: round(value, 2) for key, value in table[name].items()}, flush=True)
    args.out.write_text(json.dumps(table, indent=1))


if __name__ == "__main__":
    main()
