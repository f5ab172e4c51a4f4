"""Thousands of classes: time and memory of every method with 20,000, and of the report with 1,000.

    python -m benchmarks.many_classes [PART ...] [--method NAME ...] [--rows N] [--out FILE]

`merge`: 200 teachers with some 131,000 columns. Processor time of `transform` for 64 rows, and the most memory that
`fit_transform` allocates beyond input and output, on `ROWS` rows of single precision; rows are merged in chunks of at
most 64, each of which is done before the next one begins. `linear`: the time of MF-LF per number, here and with 1,000
classes, in turns. `other`: the same label space with OTHER in every list; `membership`: with a membership beside every
teacher, its list and all else, of weight .3. Both take `SET_ROWS` rows. `report`: processor time of
`TeacherCalibrator.fit` and `teacher_report` for 5,000 rows, 1,000 classes and 50 teachers. What is not run again keeps
its records in the JSON file.
"""

from __future__ import annotations

import argparse
import json
import time
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.versions import METHODS, make
from sklearn_uhc import OTHER, LabelSpace, TeacherCalibrator
from sklearn_uhc.answers import Answers
from sklearn_uhc.inspection import teacher_report

CLASSES, TEACHERS, SHORTEST, LONGEST = 20_000, 200, 500, 800
ROWS = dict.fromkeys(METHODS, 1000)
#: Sets take longer. A chunk or two must do, for MF-LU a quarter.
SET_ROWS = {"MF-LF": 128, "CE": 128, "MF-P": 64, "MF-LU": 16}
#: Rows that are timed, and rounds of what is measured in turns.
TIMED, ROUNDS = 64, 11


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


def measured(name: str, method: Any, merged: Callable[[], Any]) -> dict[str, Any]:
    """Return the most memory that a merge allocates beyond input and output, its processor time and diagnostics."""
    tracemalloc.start()
    start = time.process_time()
    Q = merged()
    seconds = time.process_time() - start
    extra = (tracemalloc.get_traced_memory()[1] - Q.nbytes) / 2**20
    tracemalloc.stop()
    row = {"method": name, "rows": len(Q), "seconds": seconds, "extra MiB": extra}
    return row | {"residual": method.max_residual_, "not converged": method.n_not_converged_, "steps": method.n_iter_}


def merge(most: int, names: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Time and memory of every method."""
    lists, X = problem(CLASSES, TEACHERS, (SHORTEST, LONGEST), min(most, max(ROWS[name] for name in names)))
    for name in names:
        method, some = make(name, lists), X[: ROWS[name]]
        row = measured(name, method, lambda method=method, some=some: method.fit_transform(some))
        ms = 1e3 * spent(lambda method=method: method.transform(X[:TIMED])) / len(X[:TIMED])
        yield row | {"columns": X.shape[1], "ms per row": ms, "ns per number": 1e6 * ms / X.shape[1]}


def linear(most: int, names: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Time of MF-LF per number with 1,000 and 20,000 classes, and the median of the ratios of 11 rounds."""
    sizes = ((1000, 50, (90, 150), 1024), (CLASSES, TEACHERS, (SHORTEST, LONGEST), 64))
    problems = [problem(*size) for size in sizes]
    methods = [make("MF-LF", lists).fit(X[:2]) for lists, X in problems]
    pairs = []
    for _ in range(1 + ROUNDS):
        pairs.append(
            [spent(lambda m=m, X=X: m.transform(X)) / X.size for m, (_, X) in zip(methods, problems, strict=True)]
        )
    few, many = 1e9 * np.median(pairs[1:], axis=0)
    ratio = np.divide(*np.transpose(pairs[1:])[::-1])
    numbers = {"ns few": few, "ns many": many, "ratio": np.median(ratio), "lowest": ratio.min(), "highest": ratio.max()}
    yield {"method": "MF-LF", "rounds": ROUNDS} | {key: float(value) for key, value in numbers.items()}


def with_sets(kind: str, names: Sequence[str], most: int) -> Iterator[dict[str, Any]]:
    """Time and memory with a set of nearly all classes in every teacher, or beside it."""
    rng = np.random.default_rng(1)
    lists = [np.asarray(own) for own in problem(CLASSES, TEACHERS, (SHORTEST, LONGEST), 1)[0]]
    named: list[Any] = [own.tolist() for own in lists]
    if kind == "other":
        space, weight = LabelSpace([[*own, OTHER] for own in named]), None
    else:
        space = LabelSpace([*named, *([tuple(own), OTHER] for own in named)])
        weight = np.repeat([1.0, 0.3], TEACHERS)
    for name in names:
        answers = Answers(set_answers(rng, kind, lists, min(most, SET_ROWS[name])), space, None, weight)
        method = make(name)
        row = measured(name, method, lambda method=method, answers=answers: method.fit_transform_answers(answers))
        ms = 1e3 * row["seconds"] / row["rows"]
        yield row | {"columns": space.n_outputs, "ms per row": ms, "ns per number": 1e6 * ms / space.n_outputs}


def set_answers(rng: np.random.Generator, kind: str, lists: list[Any], n: int) -> Any:
    """Draw answers with noise, columns in the order of the label space."""
    q = np.exp(1.2 * np.exp(0.65 * rng.normal(size=(n, 1))) * rng.normal(size=(n, CLASSES)))
    inside = [q[:, own].sum(axis=1) for own in lists]
    outside = [q.sum(axis=1) - part for part in inside]
    if kind == "other":
        parts = [np.column_stack([q[:, own], rest]) for own, rest in zip(lists, outside, strict=True)]
    else:
        parts = [q[:, own] for own in lists]
        parts += [np.column_stack(pair) for pair in zip(inside, outside, strict=True)]
    X = np.log(np.concatenate(parts, axis=1))
    return X + rng.normal(size=X.shape)


def report(most: int, names: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Time of calibration and report."""
    lists, X = problem(1000, 50, (90, 150), min(most, 5000))
    tasks = {
        "TeacherCalibrator.fit": lambda: TeacherCalibrator(lists).fit(X),
        "teacher_report": lambda: teacher_report(log_p=X, class_lists=lists),
    }
    for name, run in tasks.items():
        yield {"method": name, "rows": len(X), "columns": X.shape[1], "seconds": spent(run)}


PARTS: dict[str, Callable[[int, Sequence[str]], Iterator[dict[str, Any]]]] = {
    "merge": merge,
    "linear": linear,
    "other": lambda most, names: with_sets("other", [name for name in names if name in SET_ROWS], most),
    "membership": lambda most, names: with_sets("membership", [name for name in names if name in SET_ROWS], most),
    "report": report,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", choices=[[], *PARTS], default=[], metavar="PART")
    parser.add_argument("--method", nargs="*", choices=METHODS, default=METHODS)
    parser.add_argument("--rows", type=int, default=5000, help="most rows")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/many_classes.json"))
    args = parser.parse_args()
    for part in args.parts or PARTS:
        for row in PARTS[part](args.rows, args.method):
            print(part, row, flush=True)
            found = json.loads(args.out.read_text()) if args.out.exists() else []
            same = [(part, row["method"]) == (old["part"], old.get("method")) for old in found]
            new = {"part": part, **row}
            if any(same):
                found[same.index(True)] = new
            else:
                found.append(new)
            args.out.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
