"""How fast and how exact the soft-label solvers are, beside what one would do instead.

    python -m benchmarks.solvers [PART ...] [--draws 5] [--out benchmarks/results/solvers.json]

Parts: `methods`, `growth`, `share`; all by default. An interrupted run goes on where it stopped: what the JSON file
has is not measured again. `methods`, for each size and method, in several draws of class lists and answers: time per
sample and certificate of ours (numpy and torch, float64 and float32), beside

(a) the paper's algorithm, vectorised over the samples: gradient descent with the best constant step for CE and MF-LF
    (to a gradient of 1e-4 or 3,000 steps), alternating least squares for MF-P and MF-LU to the certificate of ours,
    once with finished samples leaving the batch and once as the plain loop that runs until its worst sample is done,
    there for at most the paper's 3,000 sweeps;
(b) for CE, what a user would write: `scipy.optimize.minimize` per sample with the gradient, and CVXPY if installed;
(c) one dense product with all columns, the least there is to do with few classes; for MF-LF also the whole `transform`,
    beside the least that this has to do.

`growth`: time per sample and memory as n grows. `share`: the share of the soft-label step in a whole
`HeterogeneousDistiller.fit`. Times are processor times with one thread, the better of two runs; only ratios within a
draw mean anything. `python -m benchmarks.pictures` draws the result.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import platform
import time
import tracemalloc
from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize as scipy_minimize

from benchmarks.paper_solvers import alternate, gradient_descent
from sklearn_uhc import CrossEntropyUnifier, LabelSpace, LogitFactorization, ProbabilityFactorization
from sklearn_uhc.merging.method import CHUNK_ROWS
from sklearn_uhc.solvers import blocks_of, ce, mf_lf, mf_lu, mf_p
from sklearn_uhc.solvers.blocks import softmax
from sklearn_uhc.solvers.plain_blocks import PlainBlocks

Array = NDArray[Any]
#: name: classes, teachers, smallest and largest list, samples for ours, samples for the paper's algorithms
SIZES: dict[str, tuple[int, int, int, int, int, int]] = {
    "LSUN (L=10, N=5)": (10, 5, 2, 5, 8_000, 1_000),
    "ImageNet (L=35, N=15)": (35, 15, 5, 15, 8_000, 1_000),
    "L=200, N=20": (200, 20, 20, 60, 2_000, 200),
    "L=1000, N=50": (1000, 50, 60, 140, 256, 20),
}
#: Logits of the teachers, their disagreement, and how much the logits vary from sample to sample. Fifteen networks on
#: Tiny-ImageNet features, most of whose images belong to no class that they know, show standard deviations of 1.7 and
#: 0.9 after the merge at T = 1, and an excess kurtosis of the logits of 5.5; so do these draws, nearly.
SPREAD, NOISE, TAIL = 1.2, 1.0, 0.65
METHODS: dict[str, Callable[[Any], Any]] = {
    "MF-LF": partial(LogitFactorization, temperature=3.0),
    "CE": partial(CrossEntropyUnifier, temperature=3.0),
    "MF-P": partial(ProbabilityFactorization, temperature=3.0),
    "MF-LU": partial(LogitFactorization, scale="free", temperature=3.0),
}
#: Residual at which MF-P and MF-LU are compared.
SAME = 1e-6
#: Rows by which growth is measured.
COUNTS = (1_000, 10_000, 100_000, 1_000_000)
PARTS = ("methods", "growth", "share")


def make_problem(size: tuple[int, int, int, int, int, int], n: int, seed: int = 0) -> tuple[PlainBlocks, Array, Array]:
    """Draw connected class lists and answers of teachers that agree up to noise; returns blocks, Z and P at T = 3."""
    rng = np.random.default_rng(seed)
    L, N, smallest, largest = size[:4]
    lists = [rng.choice(L, rng.integers(smallest, largest + 1), replace=False).tolist() for _ in range(N)]
    unknown = sorted(set(range(L)) - set(np.concatenate(lists).tolist()))
    for k, label in enumerate(unknown):
        lists[k % N].append(label)
    space = LabelSpace(lists)
    if not space.is_connected:
        return make_problem(size, n, seed + 1000)
    blocks = blocks_of(space)
    sure = np.exp(TAIL * rng.normal(size=(n, 1)))
    U = SPREAD * sure * rng.normal(size=(n, L))
    Z = U[:, blocks.class_of] + NOISE * rng.normal(size=(n, space.n_outputs))
    Z = blocks.log_softmax(Z) / 3
    return blocks, Z, np.exp(blocks.log_softmax(Z))


def best_time(run: Callable[[], Any], repeat: int = 2) -> tuple[float, Any]:
    """Return the shortest time of a few runs, and the last answer."""
    times, answer = [], None
    for _ in range(repeat):
        start = time.process_time()
        answer = run()
        times.append(time.process_time() - start)
        if times[-1] > 5:
            break
    return min(times), answer


def ours(method: str, blocks: PlainBlocks, Z: Any, P: Any, tol: float | None = None) -> tuple[float, float]:
    """Seconds per sample and largest residual of our solver, in chunks as the transformers use them."""
    n, chunk = len(Z), CHUNK_ROWS
    kwargs = {} if tol is None else {"tol": tol}

    def run() -> float:
        worst, equations = 0.0, mf_lf.LogitAverage.of(blocks)
        for start in range(0, n, chunk):
            z, p = Z[start : start + chunk], P[start : start + chunk]
            if method == "MF-LF":
                worst = max(worst, float(equations.solve(z)[1].max()))
            else:
                solve = {"CE": ce.solve_ce, "MF-P": mf_p.solve_mf_p, "MF-LU": mf_lu.solve_mf_lu}[method]
                worst = max(worst, float(solve(z if method == "MF-LU" else p, blocks, **kwargs).residual.max()))
        return worst

    seconds, worst = best_time(run)
    return seconds / n, worst


def scipy_ce(blocks: PlainBlocks, P: Array) -> float:
    """Seconds per sample of scipy's L-BFGS with the gradient, sample by sample."""

    def solve(p: Array) -> None:
        a = p @ blocks.to_class

        def loss(u: Array) -> tuple[float, Array]:
            e = np.exp(u - u.max())
            s = blocks.M @ e
            return float(np.log(s).sum() + len(s) * u.max() - a @ u), e * (blocks.M.T @ (1 / s)) - a

        scipy_minimize(loss, np.zeros(len(a)), jac=True, method="L-BFGS-B", options={"gtol": 1e-6})

    rows = P[:50]
    return best_time(lambda: [solve(p) for p in rows], 1)[0] / len(rows)


def cvxpy_ce(blocks: PlainBlocks, P: Array) -> float | None:
    """Seconds per sample of CVXPY with its default solver, or None if it is not installed."""
    if importlib.util.find_spec("cvxpy") is None:
        return None
    import cvxpy as cp

    def solve(p: Array) -> None:
        u = cp.Variable(blocks.M.shape[1])
        terms = [cp.log_sum_exp(u[np.flatnonzero(row)]) for row in blocks.M]
        problem = cp.Problem(cp.Minimize(cp.sum(cp.hstack(terms)) - (p @ blocks.to_class) @ u), [cp.sum(u) == 0])
        problem.solve()

    rows = P[:5]
    return best_time(lambda: [solve(p) for p in rows], 1)[0] / len(rows)


def least(method: str, blocks: PlainBlocks, Z: Array) -> float:
    """Seconds per sample of what the method cannot do without: one product with all columns, and exponentials.

    MF-LF takes none; its answer is a product with one matrix of that size.
    """
    if method == "MF-LF":
        return best_time(lambda: Z @ blocks.to_class)[0] / len(Z)
    return best_time(lambda: (np.exp(Z), Z @ blocks.to_class))[0] / len(Z)


def transforms(lists: list[Any], blocks: PlainBlocks, Z: Array) -> tuple[float, float]:
    """Seconds per sample of MF-LF's `transform`, and of what it cannot do without.

    That is a look at every number, a product with one matrix, and exponentials that sum to one.
    """
    method = METHODS["MF-LF"](lists).fit(Z[:2])

    def bare() -> Array:
        if not np.isfinite(Z).all():
            raise ValueError
        return softmax(Z @ blocks.to_class)

    ours_, bare_ = (min(best_time(run)[0] for _ in range(5)) for run in (lambda: method.transform(Z), bare))
    return ours_ / len(Z), bare_ / len(Z)


def compare(name: str, draw: int) -> list[dict[str, Any]]:
    """Measure all methods at one size, on one draw."""
    size = SIZES[name]
    blocks, Z, P = make_problem(size, size[4], draw)
    few, rows = size[5], []
    for method in METHODS:
        tol = SAME if method in ("MF-P", "MF-LU") else None
        seconds, residual = ours(method, blocks, Z, P, tol)
        row: dict[str, Any] = {"size": name, "draw": draw, "method": method, "ours": seconds, "residual": residual}
        row |= other_arrays(method, blocks, Z, P, tol) | paper(method, blocks, Z[:few], P[:few])
        row["least"] = least(method, blocks, Z)
        if method == "MF-LF":
            row["transform"], row["least transform"] = transforms(lists_of(blocks), blocks, in_order(blocks, Z))
        if method == "CE":
            row["scipy"], row["cvxpy"] = scipy_ce(blocks, P), cvxpy_ce(blocks, P)
        rows.append(row)
        print(describe(row), flush=True)
    return rows


def other_arrays(method: str, blocks: PlainBlocks, Z: Array, P: Array, tol: float | None) -> dict[str, float]:
    """Seconds per sample of ours in single precision and with torch."""
    single = blocks.like(Z[:1].astype(np.float32))
    seconds, residual = ours(method, single, Z.astype(np.float32), P.astype(np.float32), 1e-5)
    found = {"float32": seconds, "residual float32": residual}
    if importlib.util.find_spec("torch") is not None:
        import torch

        tensors = torch.asarray(Z), torch.asarray(P)
        found["torch"] = ours(method, blocks.like(tensors[0][:1]), *tensors, tol)[0]
    return found


def paper(method: str, blocks: PlainBlocks, Z: Array, P: Array) -> dict[str, float]:
    """Seconds per sample of the paper's algorithm, its residual and its steps."""
    if method in ("MF-LF", "CE"):
        seconds, residual, steps = gradient_descent(method, blocks, Z, P)
        return {"paper": seconds / len(Z), "residual paper": residual, "steps paper": steps}
    loop, *_ = alternate(method, blocks, Z, P, SAME, dropping=False, max_iter=3000)
    seconds, residual, sweeps = alternate(method, blocks, Z, P, SAME, dropping=True, max_iter=50_000)
    found = {"paper": seconds / len(Z), "residual paper": residual, "sweeps paper": sweeps}
    return {"paper, plain loop": loop / len(Z), **found}


def lists_of(blocks: PlainBlocks) -> list[Any]:
    """Return the class lists."""
    return [np.flatnonzero(row) for row in blocks.M]


def in_order(blocks: PlainBlocks, Z: Array) -> Array:
    """Return the columns in the order of `lists_of`."""
    return np.ascontiguousarray(Z[:, np.lexsort((blocks.class_of, blocks.teacher_of))])


def describe(row: dict[str, Any]) -> str:
    """Return one line of the table."""
    taken = row.get("steps paper", row.get("sweeps paper"))
    ratio = f"{row['paper'] / row['ours']:7.1f}x in {taken}"
    plain = f" plain loop {row['paper, plain loop'] / row['ours']:6.0f}x" if "paper, plain loop" in row else ""
    other = "".join(f" {k} {row[k] / row['ours']:.0f}x" for k in ("scipy", "cvxpy") if row.get(k))
    return (
        f"{row['size']:24s} {row['method']:6s} {1e6 * row['ours']:9.2f} us  residual {row['residual']:.0e}"
        f"  paper {ratio} (residual {row['residual paper']:.0e}){plain}{other}"
        f"  torch {row.get('torch', np.nan) / row['ours']:.2f}  float32 {row['float32'] / row['ours']:.2f}"
        f"  least {row['least'] / row['ours']:.3f}"
    )


def growth(name: str, n: int) -> dict[str, Any]:
    """Time per sample and memory beyond input and output of a transformer on n rows."""
    blocks, Z, _ = make_problem(SIZES["ImageNet (L=35, N=15)"], 10_000)
    X = np.resize(in_order(blocks, Z), (n, Z.shape[1])).astype(np.float32)
    method = METHODS[name](lists_of(blocks)).fit(X[:2])
    seconds = best_time(lambda: method.transform(X), 1 if n > 50_000 else 3)[0]
    tracemalloc.start()
    extra = -method.transform(X[:100_000]).nbytes
    extra += tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    print(f"{name:6s} n={n:8d} {1e6 * seconds / n:8.2f} us per sample, {extra / 2**20:6.1f} MiB", flush=True)
    return {"method": name, "n": n, "us per sample": 1e6 * seconds / n, "extra MiB": extra / 2**20}


def share_in_fit(n: int, n_trees: int) -> dict[str, float]:
    """Share of the soft-label step in a whole fit: 15 forest teachers, a forest student."""
    from sklearn.datasets import make_classification
    from sklearn.ensemble import RandomForestClassifier

    from sklearn_uhc import SoftLabelClassifier, TeacherOutputs

    rng = np.random.default_rng(0)
    X, y = make_classification(n + 7000, 64, n_informative=30, n_classes=35, n_clusters_per_class=1, random_state=0)
    forest = RandomForestClassifier(n_trees, random_state=0)
    teachers = []
    for _ in range(15):
        rows = np.flatnonzero(np.isin(y[n:], rng.choice(35, rng.integers(5, 16), replace=False)))[:1500] + n
        teachers.append(RandomForestClassifier(n_trees, random_state=0).fit(X[rows], y[rows]))
    start = time.process_time()
    outputs = TeacherOutputs(teachers).fit(X[:n])
    log_p = outputs.transform(X[:n])
    reading = (time.process_time() - start) / 2  # fit and transform each read
    merging = {}
    for name, method in METHODS.items():
        merging[name], Q = best_time(lambda method=method: method(outputs.class_lists_).fit_transform(log_p))
    training = best_time(lambda: SoftLabelClassifier(forest).fit(X[:n], Q), 2)[0]
    share = {name: t / (reading + t + training) for name, t in merging.items()}
    print(f"fit on {n} rows: reading {reading:.1f} s, training {training:.1f} s, soft labels", merging)
    print("share of the soft-label step:", {k: f"{100 * v:.1f} %" for k, v in share.items()}, flush=True)
    return share


def has(records: list[dict[str, Any]], **keys: Any) -> bool:
    """Whether a record has these values."""
    return any(all(record[key] == value for key, value in keys.items()) for record in records)


def measure(found: dict[str, Any], parts: list[str], draws: int) -> Iterator[None]:
    """Add what is missing, one thing after the other."""
    if "methods" in parts:
        for draw, name in product(range(1, draws + 1), SIZES):
            if not has(found["methods"], size=name, draw=draw):
                found["methods"] += compare(name, draw)
                yield
    if "growth" in parts:
        for n, name in product(COUNTS, METHODS):
            if not has(found["growth"], n=n, method=name):
                found["growth"].append(growth(name, n))
                yield
    if "share" in parts and "share in fit" not in found:
        found["share in fit"] = share_in_fit(20_000, 100)
        yield


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", choices=[[], *PARTS], default=[], metavar="PART")
    parser.add_argument("--draws", type=int, default=5)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/solvers.json"))
    args = parser.parse_args()
    file = args.out
    file.parent.mkdir(parents=True, exist_ok=True)
    machine = {"cores": os.cpu_count(), "python": platform.python_version(), "numpy": np.__version__}
    found = json.loads(file.read_text()) if file.exists() else {"machine": machine, "methods": [], "growth": []}
    for _ in measure(found, args.parts or list(PARTS), args.draws):
        file.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
