"""How well consistent answers about sets give q back, by the condition of the label space at that q.

    python -m benchmarks.set_recovery [--spaces 600] [--seed 12] [--out benchmarks/results/set_recovery.json]

Random lists of three to eight classes with sets, OTHER and coarse classes that determine q; 50 rows of random q each,
none below 1e-3, T = 1. Seeds 0 to 2, 10 and 11 were used to choose the solvers' starts. A row is off if an entry of q
is wrong by more than 1e-5. A record per method and range of the condition (`LabelSpace.condition(q)`): rows, rows that
are off, how many of these give a class no probability at all, and the largest error, of all rows and of those that are
not off.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sklearn_uhc import OTHER, CrossEntropyUnifier, LabelSpace, LogitFactorization, ProbabilityFactorization

METHODS = {"CE": CrossEntropyUnifier, "MF-LF": LogitFactorization, "MF-P": ProbabilityFactorization}
ROWS, OFF, ZERO = 50, 1e-5, 1e-9
RANGES = [(1, 50), (50, 100), (100, 1000), (1000, float("inf"))]


def draw_list(rng: np.random.Generator, groups: list[NDArray[np.int_]]) -> list[Any]:
    """Draw a plain list, coarse groups of which some are opened, or sets with or without OTHER."""
    L, kind = sum(map(len, groups)), rng.integers(4)
    own = rng.permutation(L)[: rng.integers(2, L + 1)]
    if kind == 0:
        return own.tolist()
    if kind == 1:
        return [e for g in groups for e in (g.tolist() if rng.random() < 0.4 else [tuple(g.tolist())])]
    cuts = np.sort(rng.integers(0, len(own) + 1, size=rng.integers(1, 4)))
    parts: list[Any] = [tuple(part.tolist()) for part in np.split(own, cuts) if len(part)]
    return [*parts, OTHER] if kind == 2 and len(own) < L else parts


def label_spaces(rng: np.random.Generator) -> Iterator[LabelSpace]:
    """Draw label spaces with sets that determine q."""
    while True:
        L = int(rng.integers(3, 9))
        groups = np.array_split(rng.permutation(L), max(2, L // 3))
        lists = [draw_list(rng, groups) for _ in range(rng.integers(2, 7))]
        named = {label for own in lists for e in own for label in (e if isinstance(e, tuple) else [e])} - {OTHER}
        space = LabelSpace(lists) if len(named) == L else None
        if space is not None and space.has_sets and space.is_identified:
            yield space


def measure(space: LabelSpace, rng: np.random.Generator) -> Iterator[dict[str, Any]]:
    """Yield condition and error of every row, method by method."""
    Q = np.maximum(rng.dirichlet(np.ones(space.n_classes), size=ROWS), 1e-3)
    Q /= Q.sum(axis=1, keepdims=True)
    conditions = [space.condition(q) for q in Q]
    log_p = np.log(Q @ space.membership().T)
    for name, make in METHODS.items():
        found = make(space.class_lists, temperature=1.0).fit_transform(log_p)
        errors, lowest = np.abs(found - Q).max(axis=1), found.min(axis=1)
        for condition, error, least in zip(conditions, errors.tolist(), lowest.tolist(), strict=True):
            yield {"method": name, "condition": condition, "error": error, "zero": least < ZERO}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--spaces", type=int, default=600)
    parser.add_argument("--seed", type=int, default=12)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/set_recovery.json"))
    args = parser.parse_args()
    rng = np.random.default_rng(args.seed)
    spaces = label_spaces(rng)
    rows = [row for _ in range(args.spaces) for row in measure(next(spaces), rng)]
    out = []
    for name in METHODS:
        for low, high in RANGES:
            own = [row for row in rows if row["method"] == name and low <= row["condition"] < high]
            where = f"{low:,} to {high:,}" if np.isfinite(high) else f"{low:,} and more"
            record: dict[str, Any] = {"method": name, "condition": where, "rows": len(own)}
            off = [row for row in own if row["error"] > OFF]
            record |= {"off": len(off), "off at zero": sum(row["zero"] for row in off)}
            record["largest error"] = max((row["error"] for row in own), default=None)
            record["of the rest"] = max((row["error"] for row in own if row["error"] <= OFF), default=None)
            out.append(record)
            print(record)
    args.out.write_text(json.dumps(out, indent=1) + "\n")


if __name__ == "__main__":
    main()
