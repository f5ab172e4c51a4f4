"""Thousands of classes: time and memory of every method with 20,000, and of the report with 1,000.

    python -m benchmarks.many_classes [--part merge|report ...] [--rows N] [--out docs/many_classes.json]

`merge`: 200 teachers with some 131,000 columns. Processor time of `transform` for 64 rows, and the most memory that
`fit_transform` allocates beyond input and output, on `ROWS` rows of single precision; rows are merged in chunks of 64,
each of which is done before the next one begins. `report`: processor time of `TeacherCalibrator.fit` and
`teacher_report` for 5,000 rows, 1,000 classes and 50 teachers. Parts that are not run again keep their records in the
JSON file.
"""

from __future__ import annotations

import argparse
import json
import time
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.versions import METHODS, make
from sklearn_uhc import TeacherCalibrator, teacher_report

CLASSES, TEACHERS, SHORTEST, LONGEST = 20_000, 200, 500, 800
#: MF-P and MF-LU take so long that two chunks must do.
ROWS = {"SD": 1000, "MF-LF": 1000, "CE": 1000, "MF-P": 128, "MF-LU": 128}
TIMED = 64


def problem(classes: int, teachers: int, sizes: tuple[int, int], rows: int) -> tuple[list[Any], Any]:
    """Return class lists and logits, in single precision, of teachers that agree up to noise."""
    rng = np.random.default_rng(0)
    lists = [rng.choice(classes, k, replace=False).tolist() for k in rng.integers(sizes[0], sizes[1] + 1, teachers)]
    for k, label in enumerate(sorted(set(range(classes)) - {label for own in lists for label in own})):
        lists[k % teachers].append(label)
    of = np.concatenate(lists)
    X = rng.standard_normal((rows, len(of)), dtype=np.float32)
    for start in range(0, rows, TIMED):
        some = X[start : start + TIMED]
        some += 1.2 * rng.standard_normal((len(some), classes), dtype=np.float32)[:, of]
    return lists, X


def spent(run: Callable[[], Any]) -> float:
    """Return the processor time of a run."""
    start = time.process_time()
    run()
    return time.process_time() - start


def merge(most: int) -> Iterator[dict[str, Any]]:
    """Time and memory of every method."""
    rows = {name: min(most, n) for name, n in ROWS.items()}
    lists, X = problem(CLASSES, TEACHERS, (SHORTEST, LONGEST), max(rows.values()))
    for name in METHODS:
        method, some = make(name, lists), X[: rows[name]]
        tracemalloc.start()
        Q = method.fit_transform(some)
        extra = (tracemalloc.get_traced_memory()[1] - Q.nbytes) / 2**20
        tracemalloc.stop()
        ms = 1e3 * spent(lambda method=method: method.transform(X[:TIMED])) / len(X[:TIMED])
        row = {"method": name, "rows": len(some), "columns": X.shape[1], "ms per row": ms, "extra MiB": extra}
        row["ns per number"] = 1e6 * ms / X.shape[1]
        yield row | {"residual": method.max_residual_, "not converged": method.n_not_converged_}


def report(most: int) -> Iterator[dict[str, Any]]:
    """Time of calibration and report."""
    lists, X = problem(1000, 50, (90, 150), min(most, 5000))
    tasks = {
        "TeacherCalibrator.fit": lambda: TeacherCalibrator(lists).fit(X),
        "teacher_report": lambda: teacher_report(log_p=X, class_lists=lists),
    }
    for name, run in tasks.items():
        yield {"task": name, "rows": len(X), "columns": X.shape[1], "seconds": spent(run)}


PARTS = {"merge": merge, "report": report}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", nargs="*", choices=list(PARTS), default=list(PARTS))
    parser.add_argument("--rows", type=int, default=5000, help="most rows")
    parser.add_argument("--out", type=Path, default=Path("many_classes.json"))
    args = parser.parse_args()
    for part in args.part:
        found = json.loads(args.out.read_text()) if args.out.exists() else []
        found = [row for row in found if row["part"] != part]
        for row in PARTS[part](args.rows):
            print(row, flush=True)
            found.append({"part": part, **row})
            args.out.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
