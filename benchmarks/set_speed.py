"""How much longer columns that mean sets take than plain ones.

    python -m benchmarks.set_speed [--seeds 41 46] [--out benchmarks/results/set_speed.json]

At the paper's sizes, a third of the teachers have a coarse class of three and another third OTHER, beside the plain
methods on the same lists before that, on answers of the same kind. Both take turns, `fit_transform` of 2,000 rows each
at T = 3; the median of 5 rounds. Every seed has lists of its own. In some of them every class has a column of its own
somewhere; in others one or two classes are in sets only, and vanish in many rows. A record per size, method and kind of
lists: the geometric mean over the seeds, with the lowest and highest of them. Settings of the solvers were chosen on
other seeds. Times are those of the processor, one thread, so that other work on the machine counts for less; only
ratios within one run mean anything. Thousands of classes with sets are in `benchmarks.many_classes`.

MF-LF is also measured with 20,000 rows, on the lists
in which every class has a column of its own.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from benchmarks.solvers import METHODS as ALL_METHODS
from benchmarks.solvers import NOISE, SIZES, SPREAD, TAIL, make_problem
from sklearn_uhc import OTHER, LabelSpace

Array = NDArray[Any]
#: MF-LU does not support sets.
METHODS = {name: make for name, make in ALL_METHODS.items() if name != "MF-LU"}
ROUNDS, ROWS, MANY_ROWS, T = 5, 2_000, 20_000, 3.0


def processor(run: Callable[[], Any]) -> tuple[float, Any]:
    """Return the time that the processor took, and the answer."""
    start = time.process_time()
    answer = run()
    return time.process_time() - start, answer


def logits(rng: np.random.Generator, n: int, L: int) -> Array:
    """Draw what teachers agree upon, as in `benchmarks.solvers`."""
    return np.asarray(SPREAD * np.exp(TAIL * rng.normal(size=(n, 1))) * rng.normal(size=(n, L)))


def ratios(name: str, seed: int, rows: int = ROWS, methods: Sequence[str] = tuple(METHODS)) -> Iterator[dict[str, Any]]:
    """Compare methods with and without sets at one size."""
    rng, (plain, Z, _) = np.random.default_rng(seed), make_problem(SIZES[name], rows, seed)
    lists: list[Any] = [plain.class_of[block].tolist() for block in plain.slices]
    coarse = [[tuple(own[:3]), *own[3:]] if i % 3 == 0 and len(own) > 4 else own for i, own in enumerate(lists)]
    coarse = [[*own, OTHER] if i % 3 == 1 else own for i, own in enumerate(coarse)]
    space = LabelSpace(coarse)
    lonely = space.n_classes - len(np.unique(space.members[space.offsets[:-1]][space.set_sizes == 1]))
    U = logits(rng, rows, SIZES[name][0])
    sums = np.log(np.exp(U - U.max(axis=1, keepdims=True)) @ space.membership().T)
    X = sums + NOISE * rng.normal(size=sums.shape)
    for method, make in ((method, METHODS[method]) for method in methods):
        times = []
        for _ in range(ROUNDS):
            before, fitted = (make(own).set_params(temperature=T) for own in (lists, coarse))
            plain_seconds, _ = processor(lambda before=before: before.fit_transform(3 * Z))
            times.append((processor(lambda fitted=fitted: fitted.fit_transform(X))[0], plain_seconds))
        both = np.array(times)
        row = {"size": name, "seed": seed, "in sets only": lonely, "method": method}
        row |= {"us per sample": 1e6 * float(np.median(both[:, 0])) / rows}
        row |= {"ratio": float(np.median(both[:, 0] / both[:, 1]))}
        row |= {"residual": fitted.max_residual_, "not converged": fitted.n_not_converged_}
        yield row


def summary(rows: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield a record per size, method and kind of lists."""
    for part, size, method in product(("ratios", "sets only", "many rows"), list(SIZES)[:2], METHODS):
        own = [row for row in rows if (row["size"], row["method"], row["part"]) == (size, method, part)]
        if not own:
            continue
        found = [row["ratio"] for row in own]
        record: dict[str, Any] = {"part": part, "size": size, "method": method, "seeds": [row["seed"] for row in own]}
        record |= {"us per sample": float(np.median([row["us per sample"] for row in own]))}
        record |= {"ratio": float(np.exp(np.mean(np.log(found)))), "least": min(found), "most": max(found)}
        record |= {"residual": max(row["residual"] for row in own)}
        yield record | {"not converged": sum(row["not converged"] for row in own)}


def measure(seeds: Sequence[int]) -> list[dict[str, Any]]:
    """Compare all methods at both sizes."""
    rows = []
    for seed, name in product(seeds, list(SIZES)[:2]):
        for row in ratios(name, seed):
            print(row, flush=True)
            rows.append({"part": "sets only" if row["in sets only"] else "ratios", **row})
        if not rows[-1]["in sets only"]:
            rows += [{"part": "many rows", **row} for row in ratios(name, seed, MANY_ROWS, ["MF-LF"])]
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="*", default=[41, 46])
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/set_speed.json"))
    args = parser.parse_args()
    with threadpool_limits(1):  # threads that wait for others would count as work
        rows = measure(args.seeds)
    args.out.write_text(json.dumps(list(summary(rows)), indent=1) + "\n")


if __name__ == "__main__":
    main()
