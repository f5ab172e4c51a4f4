"""Speed of two source trees, in turns.

    python -m benchmarks.versions BEFORE AFTER [--pairs 11] [--seed 1] [--only TEXT] [--out FILE]

BEFORE and AFTER are folders that hold `sklearn_uhc`, such as two git worktrees. One process is started for either. Each
task is run by the one, then by the other, `--pairs` times; what counts is processor time, with one thread. Written are
the medians, and the median of the ratios after / before within a pair. Tasks that are not run again keep their
records. Settings of the solvers were chosen on seed 0, so another one is reported. Tasks:

- `transform` of every soft-label method, at the two sizes of the paper and with 1,000 classes and 50 teachers;
- `fit(X).transform(X)` and `fit_transform`;
- one row and ten rows: `transform` of a method, `predict_proba` of `UnifiedEnsemble`;
- `TeacherCalibrator.fit` with 1,000 classes.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

METHODS = ("SD", "MF-LF", "CE", "MF-P", "MF-LU")
#: name: classes, teachers, smallest and largest list, rows
SIZES = {
    "LSUN (L=10, N=5)": (10, 5, 2, 5, 4096),
    "ImageNet (L=35, N=15)": (35, 15, 5, 15, 4096),
    "L=1000, N=50": (1000, 50, 90, 150, 512),
}
PAPER, LARGE = "ImageNet (L=35, N=15)", "L=1000, N=50"
#: Processor time that a run takes at least: short tasks are repeated.
SHORTEST = 0.05


def tasks() -> list[tuple[str, str, str]]:
    """Return the tasks: kind, size, method."""
    found = [("transform", size, method) for size in (LARGE, PAPER, "LSUN (L=10, N=5)") for method in METHODS]
    found += [("fit(X).transform(X)", PAPER, method) for method in METHODS]
    found += [("fit_transform", PAPER, method) for method in METHODS]
    found += [(f"{n} rows", PAPER, method) for n in (1, 10) for method in METHODS]
    found += [(f"UnifiedEnsemble, {n} rows", "digits", method) for n in (1, 10) for method in METHODS]
    return [*found, ("TeacherCalibrator.fit", LARGE, "")]


@cache
def problem(size: str, seed: int, rows: int | None = None) -> tuple[list[Any], Any]:
    """Return class lists and logits of teachers that agree up to noise, on some rows more than on others."""
    L, N, smallest, largest, n = SIZES[size]
    n = rows or n
    rng = np.random.default_rng(seed)
    lists = [rng.choice(L, rng.integers(smallest, largest + 1), replace=False).tolist() for _ in range(N)]
    for k, label in enumerate(sorted(set(range(L)) - {label for own in lists for label in own})):
        lists[k % N].append(label)
    U = 1.2 * np.exp(0.65 * rng.normal(size=(n, 1))) * rng.normal(size=(n, L))
    return lists, U[:, np.concatenate(lists)] + rng.normal(size=(n, sum(map(len, lists))))


def make(method: str, lists: Any = None) -> Any:
    """Return a transformer at T = 3, whatever a version's default is."""
    import sklearn_uhc as uhc

    kinds = {"SD": "StandardDistillation", "CE": "CrossEntropyUnifier", "MF-P": "ProbabilityFactorization"}
    if method in kinds:
        return getattr(uhc, kinds[method])(lists, temperature=3.0)
    return uhc.LogitFactorization(lists, scale="free" if method == "MF-LU" else "fixed", temperature=3.0)


@cache
def ensemble(method: str) -> tuple[Any, Any]:
    """Return a fitted ensemble of six teachers on digits, and rows."""
    from sklearn.datasets import load_digits
    from sklearn.linear_model import LogisticRegression
    from sklearn.preprocessing import scale

    from sklearn_uhc import UnifiedEnsemble

    X, y = load_digits(return_X_y=True)
    X, rng = scale(X), np.random.default_rng(0)
    known = [np.isin(y, np.arange(k, k + 5) % 10) for k in rng.permutation(10)[:6]]
    teachers = [LogisticRegression(max_iter=200).fit(X[rows][:200], y[rows][:200]) for rows in known]
    return UnifiedEnsemble(teachers, method=make(method)).fit(X[:500]), X


def prepared(kind: str, size: str, method: str, seed: int) -> tuple[Callable[[], Any], int]:
    """Return the function to time, and its number of rows."""
    if kind.startswith("UnifiedEnsemble"):
        fitted, X = ensemble(method)
        n = int(kind.split()[1])
        return lambda: fitted.predict_proba(X[:n]), n
    lists, X = problem(size, seed)
    if kind == "TeacherCalibrator.fit":
        from sklearn_uhc import TeacherCalibrator

        return lambda: TeacherCalibrator(lists).fit(X), len(X)
    if kind == "fit_transform":
        return lambda: make(method, lists).fit_transform(X), len(X)
    if kind == "fit(X).transform(X)":
        return lambda: make(method, lists).fit(X).transform(X), len(X)
    n = int(kind.split()[0]) if kind.endswith("rows") else len(X)
    fitted = make(method, lists).fit(X[:2])
    return lambda: fitted.transform(X[:n]), n


def measure(run: Callable[[], Any], n: int) -> float:
    """Return the processor time per row, in microseconds."""
    count, spent, start = 0, 0.0, time.process_time()
    while spent < SHORTEST:
        run()
        count, spent = count + 1, time.process_time() - start
    return 1e6 * spent / (n * count)


def work(seed: int) -> None:
    """Answer requests: one task per line, its time as the answer; the first run of a task does not count."""
    known: dict[tuple[str, ...], tuple[Callable[[], Any], int]] = {}
    for line in sys.stdin:
        task = tuple(json.loads(line))
        if task not in known:
            known[task] = prepared(*task, seed)
            known[task][0]()
        print(json.dumps(measure(*known[task])), flush=True)


class Worker:
    """A process with the package of one tree."""

    def __init__(self, tree: Path, seed: int) -> None:
        environment = {**os.environ, "PYTHONPATH": str(tree.resolve()), "OMP_NUM_THREADS": "1"}
        command = [sys.executable, "-W", "ignore", str(Path(__file__).resolve()), "--work", f"--seed={seed}"]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, env=environment, cwd=tree, stdin=pipe, stdout=pipe, text=True)

    def ask(self, task: tuple[str, str, str]) -> float:
        """Return the time of a task."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print(json.dumps(task), file=self.process.stdin, flush=True)
        return float(json.loads(self.process.stdout.readline()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trees", type=Path, nargs="*", metavar="TREE", help="before and after")
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--pairs", type=int, default=11)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="tasks with this text in their name")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/versions.json"))
    args = parser.parse_args()
    if args.work:
        work(args.seed)
        return
    workers = [Worker(tree, args.seed) for tree in args.trees]
    known = json.loads(args.out.read_text()) if args.out.exists() else []
    table = {(row["task"], row["size"], row["method"]): row for row in known}
    for task in tasks():
        if args.only not in ", ".join(task):
            continue
        pairs = np.array([[worker.ask(task) for worker in workers] for _ in range(args.pairs)])
        ratios = pairs[:, 1] / pairs[:, 0]
        numbers = {"us before": np.median(pairs[:, 0]), "us after": np.median(pairs[:, 1]), "ratio": np.median(ratios)}
        numbers |= {"times as fast": np.median(1 / ratios), "lowest": ratios.min(), "highest": ratios.max()}
        row = dict(zip(("task", "size", "method"), task, strict=True)) | {k: float(v) for k, v in numbers.items()}
        print(row, flush=True)
        table[task] = row | {"pairs": args.pairs, "seed": args.seed}
        args.out.parent.mkdir(parents=True, exist_ok=True)
        args.out.write_text(json.dumps([table[key] for key in tasks() if key in table], indent=1) + "\n")
    for worker in workers:
        worker.process.terminate()


if __name__ == "__main__":
    main()
