"""20,000 classes, 200 teachers, some 131,000 columns: every method, time per row and memory.

    python -m benchmarks.many_classes [--rows 32] [--out docs/many_classes.json]

Processor time of `transform` for 16 rows, and the most memory that `fit_transform` allocates beyond input and output.
"""

from __future__ import annotations

import argparse
import json
import time
import tracemalloc
from pathlib import Path

import numpy as np

from benchmarks.versions import METHODS, make

CLASSES, TEACHERS, SHORTEST, LONGEST = 20_000, 200, 500, 800


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=32)
    parser.add_argument("--out", type=Path, default=Path("many_classes.json"))
    args = parser.parse_args()
    rng = np.random.default_rng(0)
    sizes = rng.integers(SHORTEST, LONGEST + 1, TEACHERS)
    lists = [rng.choice(CLASSES, size, replace=False).tolist() for size in sizes]
    for k, label in enumerate(sorted(set(range(CLASSES)) - {label for own in lists for label in own})):
        lists[k % TEACHERS].append(label)
    of = np.concatenate(lists)
    X = 1.2 * rng.normal(size=(args.rows, CLASSES))[:, of] + rng.normal(size=(args.rows, len(of)))
    table = []
    for name in METHODS:
        method = make(name, lists)
        tracemalloc.start()
        Q = method.fit_transform(X)
        extra = (tracemalloc.get_traced_memory()[1] - Q.nbytes) / 2**20
        tracemalloc.stop()
        start = time.process_time()
        method.transform(X[:16])
        spent = 1e3 * (time.process_time() - start) / len(X[:16])
        row = {"method": name, "rows": len(X), "columns": len(of), "ms per row": spent, "extra MiB": extra}
        table.append({**row, "residual": method.max_residual_, "not converged": method.n_not_converged_})
        print(table[-1], flush=True)
        args.out.write_text(json.dumps(table, indent=1))


if __name__ == "__main__":
    main()
