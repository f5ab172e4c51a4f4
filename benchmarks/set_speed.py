"""How much longer columns that mean sets take, and what they cost where there are thousands of classes.

    python -m benchmarks.set_speed [--part ratios|other|membership ...] [--seed 1] [--out docs/set_speed.json]

Ratios: at the paper's sizes, a third of the teachers have a coarse class of three and another third OTHER, beside the
plain methods on the same lists before that, on answers of the same kind. Both take turns, `fit_transform` of 2,000 rows
each at T = 3; the median of 5 rounds. The solvers' settings were chosen on seed 0.

Many classes: 20,000 of them, 200 teachers of 130,000 columns in all, once with OTHER in every list, once with a
membership beside every teacher (its list, and all else). Seconds per row, and the memory beyond input and output.

Times are those of the processor, one thread, so that other work on the machine counts for less; only ratios within one
run mean anything. Parts that are not run again keep their records in the JSON file.
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
from numpy.typing import NDArray

from benchmarks.solvers import METHODS, NOISE, SIZES, SPREAD, TAIL, make_problem
from sklearn_uhc import OTHER, LabelSpace
from sklearn_uhc.answers import Answers

Array = NDArray[Any]
ROUNDS, ROWS, T = 5, 2_000, 3.0
#: Classes, teachers, columns of a teacher on average; rows: MF-LU takes so long that fewer must do.
MANY = (20_000, 200, 650)
MANY_ROWS = {"MF-LF": 16, "CE": 16, "MF-P": 2, "MF-LU": 1}


def processor(run: Callable[[], Any]) -> tuple[float, Any]:
    """Return the time that the processor took, and the answer."""
    start = time.process_time()
    answer = run()
    return time.process_time() - start, answer


def logits(rng: np.random.Generator, n: int, L: int) -> Array:
    """Draw what teachers agree upon, as in `benchmarks.solvers`."""
    return np.asarray(SPREAD * np.exp(TAIL * rng.normal(size=(n, 1))) * rng.normal(size=(n, L)))


def ratios(name: str, seed: int) -> Iterator[dict[str, Any]]:
    """Compare all methods with and without sets at one size."""
    rng, (plain, Z, _) = np.random.default_rng(seed), make_problem(SIZES[name], ROWS, seed)
    lists: list[Any] = [plain.class_of[block].tolist() for block in plain.slices]
    coarse = [[tuple(own[:3]), *own[3:]] if i % 3 == 0 and len(own) > 4 else own for i, own in enumerate(lists)]
    coarse = [[*own, OTHER] if i % 3 == 1 else own for i, own in enumerate(coarse)]
    U = logits(rng, ROWS, SIZES[name][0])
    sums = np.log(np.exp(U - U.max(axis=1, keepdims=True)) @ LabelSpace(coarse).membership().T)
    X = sums + NOISE * rng.normal(size=sums.shape)
    for method, make in METHODS.items():
        times = []
        for _ in range(ROUNDS):
            before, fitted = (make(own).set_params(temperature=T) for own in (lists, coarse))
            plain_seconds, _ = processor(lambda before=before: before.fit_transform(3 * Z))
            times.append((processor(lambda fitted=fitted: fitted.fit_transform(X))[0], plain_seconds))
        both = np.array(times)
        row = {"size": name, "seed": seed, "method": method, "us per sample": 1e6 * float(np.median(both[:, 0])) / ROWS}
        quotients = np.sort(both[:, 0] / both[:, 1])
        row |= {"ratio": float(np.median(quotients)), "least": float(quotients[0]), "most": float(quotients[-1])}
        row |= {"residual": fitted.max_residual_, "not converged": fitted.n_not_converged_}
        yield row


def many(kind: str, size: tuple[int, int, int] = MANY) -> Iterator[dict[str, Any]]:
    """Time and memory of all methods with a set of nearly all classes in every teacher."""
    rng, (L, N, length) = np.random.default_rng(0), size
    lists = [rng.choice(L, rng.integers(int(0.6 * length), int(1.4 * length)), replace=False) for _ in range(N)]
    for k, label in enumerate(np.setdiff1d(np.arange(L), np.concatenate(lists))):
        lists[k % N] = np.append(lists[k % N], label)
    named: list[Any] = [own.tolist() for own in lists]
    if kind == "other":
        space, weight = LabelSpace([[*own, OTHER] for own in named]), None
    else:
        space = LabelSpace([*named, *([tuple(own), OTHER] for own in named)])
        weight = np.repeat([1.0, 0.3], N)
    for method, n in MANY_ROWS.items():
        X = many_answers(rng, kind, lists, n, L)
        fitted = METHODS[method](None).set_params(temperature=T)
        tracemalloc.start()
        seconds, Q = processor(lambda fitted=fitted, X=X: fitted.fit_transform_answers(Answers(X, space, None, weight)))
        extra = tracemalloc.get_traced_memory()[1] - Q.nbytes
        tracemalloc.stop()
        row = {"classes": L, "columns": space.n_outputs, "method": method, "rows": n}
        row |= {"ms per row": 1e3 * seconds / n, "extra MiB": extra / 2**20}
        row |= {"residual": fitted.max_residual_, "not converged": fitted.n_not_converged_, "steps": fitted.n_iter_}
        yield row


def many_answers(rng: np.random.Generator, kind: str, lists: list[Array], n: int, L: int) -> Array:
    """Draw answers, columns in the order of the label space."""
    U = logits(rng, n, L)
    q = np.exp(U - U.max(axis=1, keepdims=True))
    inside = [q[:, own].sum(axis=1) for own in lists]
    outside = [np.delete(q, own, axis=1).sum(axis=1) for own in lists]
    if kind == "other":
        parts = [np.column_stack([q[:, own], rest]) for own, rest in zip(lists, outside, strict=True)]
    else:
        pairs = zip(inside, outside, strict=True)
        parts = [q[:, own] for own in lists] + [np.column_stack(pair) for pair in pairs]
    X = np.log(np.concatenate(parts, axis=1))
    return np.asarray(X + NOISE * rng.normal(size=X.shape))


PARTS: dict[str, Callable[[int], Iterator[dict[str, Any]]]] = {
    "ratios": lambda seed: (row for name in list(SIZES)[:2] for row in ratios(name, seed)),
    "other": lambda seed: many("other"),
    "membership": lambda seed: many("membership"),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", nargs="*", choices=list(PARTS), default=list(PARTS))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("docs/set_speed.json"))
    args = parser.parse_args()
    for part in args.part:
        found = json.loads(args.out.read_text()) if args.out.exists() else []
        found = [row for row in found if row["part"] != part]
        for row in PARTS[part](args.seed):
            print(row, flush=True)
            found.append({"part": part, **row})
            args.out.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
