"""Figures of docs/solvers.md, from docs/solvers.json, versions.json, local_optima.json and threads.json."""

from __future__ import annotations

from statistics import geometric_mean, median
from typing import Any

from docs.claims import Rows, Sentence
from docs.claims.records import load, one

SIZES = ("LSUN (L=10, N=5)", "ImageNet (L=35, N=15)", "L=200, N=20", "L=1000, N=50")
METHODS = ("MF-LF", "CE", "MF-P", "MF-LU")
PAPER = SIZES[1]


def significant(value: float) -> str:
    """Return two or three digits of a ratio."""
    return f"{value:.2f}" if value < 1 else f"{value:.1f}" if value < 20 else f"{value:,.0f}"


def duration(seconds: float) -> str:
    """Return a time with its unit."""
    micro = 1e6 * seconds
    return f"{micro / 1000:.1f} ms" if micro >= 1000 else f"{micro:.0f} µs" if micro >= 10 else f"{micro:.2f} µs"


def cells() -> dict[tuple[str, str], list[dict[str, Any]]]:
    """Return the draws of every size and method."""
    found: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in load("solvers.json")["methods"]:
        found.setdefault((row["size"], row["method"]), []).append(row)
    return {(size, method): found[size, method] for size in SIZES for method in METHODS}


def typical(draws: list[dict[str, Any]], key: str) -> float | None:
    """Return how many times as long as ours something else takes: the geometric mean over draws, None if not run."""
    values = [row[key] / row["ours"] for row in draws if row.get(key)]
    return geometric_mean(values) if values else None


def speed() -> Rows:
    """Return the main table; ratios to ours from "paper" on."""
    keys = {"paper": "paper", "plain loop": "paper, plain loop", "scipy": "scipy", "CVXPY": "cvxpy", "torch": "torch"}
    keys |= {"float32": "float32", "product": "least"}
    rows = [["size", "method", "ours", "residual", "paper", "its residual", *list(keys)[1:]]]
    for (size, method), draws in cells().items():
        means = {name: typical(draws, key) for name, key in keys.items()}
        ratio = {name: "" if value is None else significant(value) for name, value in means.items()}
        worst = [f"{max(row[key] for row in draws):.0e}" for key in ("residual", "residual paper")]
        rows.append([size, method, duration(ours(draws)), worst[0], ratio.pop("paper"), worst[1], *ratio.values()])
    return rows


def ours(draws: list[dict[str, Any]]) -> float:
    """Return the seconds per row of ours: the median over draws."""
    return median(row["ours"] for row in draws)


def growth() -> Rows:
    """Return time per row and memory by the number of rows."""
    records = load("solvers.json")["growth"]
    rows = [["n", *METHODS, "most memory"]]
    for n in dict.fromkeys(r["n"] for r in records):
        here = {m: one(records, n=n, method=m) for m in METHODS}
        memory = max(r["extra MiB"] for r in here.values())
        rows.append([f"{n:,}", *(f"{here[m]['us per sample']:.0f} µs" for m in METHODS), f"{memory:.0f} MiB"])
    return rows


def local_optima() -> Rows:
    """Return the table of local optima of MF-P."""
    rows = [
        [
            "seed",
            "rows",
            "above 1,500 plain sweeps by 1e-6 ‖P‖²",
            "below",
            "not converged",
            "ill conditioned",
            "time",
            "time of the sweeps",
        ]
    ]
    for r in load("local_optima.json"):
        above = f"{r['above']} ({100 * r['above'] / r['rows']:.2f} %)"
        counts = [f"{r[key]:,}" for key in ("below", "not converged", "ill conditioned")]
        times = [f"{r[key]:.0f} µs" for key in ("us per row", "us per row, plain sweeps")]
        rows.append([str(r["seed"]), f"{r['rows']:,}", above, *counts, *times])
    return rows


def latency() -> Rows:
    """Return the times of calls with few rows before and after sums by index."""
    rows = [["call", "rows", "method", "before, µs per row", "after", "ratio", "pairs"]]
    for r in load("versions.json"):
        if r["task"].endswith(" rows"):
            *ensemble, n = r["task"].removesuffix(" rows").split(", ")
            times = [f"{r[f'us {when}']:,.0f}" for when in ("before", "after")]
            call = "`UnifiedEnsemble.predict_proba`" if ensemble else "`transform`"
            rows.append([call, n, r["method"], *times, f"{r['ratio']:.2f}", str(r["pairs"])])
    return rows


def tables() -> dict[str, Rows]:
    """Return all tables of the page."""
    found = {"speed": speed(), "growth": growth(), "local optima": local_optima()}
    return found | {"latency": latency()}


def ratios(method: str, key: str, size: str | None = None) -> list[float]:
    """Return how many times as long something else takes, at one size or at all."""
    found = [typical(draws, key) for (at, name), draws in cells().items() if name == method and size in (None, at)]
    return [value for value in found if value is not None]


def sentences() -> list[Sentence]:
    """Return the sentences of the page with figures."""
    ce, lf = (ratios(m, "paper") for m in ("CE", "MF-LF"))
    p, lu = ([r for size in SIZES if size != PAPER for r in ratios(m, "paper", size)] for m in ("MF-P", "MF-LU"))
    here = {m: ratios(m, "paper", PAPER)[0] for m in METHODS}
    loop = {m: ratios(m, "paper, plain loop", PAPER)[0] for m in ("MF-P", "MF-LU")}
    scipy, cvxpy = ratios("CE", "scipy"), ratios("CE", "cvxpy")
    single, tensors = ([r for m in METHODS for r in ratios(m, key)] for key in ("float32", "torch"))
    bare = geometric_mean(r["transform"] / r["least transform"] for r in cells()[PAPER, "MF-LF"])
    left = {key: [max(r[key] for r in cells()[size, "CE"]) for size in SIZES] for key in ("residual", "residual paper")}
    after = [min(left["residual paper"]), max(left["residual paper"]), max(left["residual"])]
    share = load("solvers.json")["share in fit"]
    micro = [1e6 * ours(cells()[PAPER, m]) for m in METHODS]
    return [
        ("takes {:.1f} µs per row, CE {:.0f}, MF-P {:.0f} and MF-LU {:.0f}, which is {:.0f} to {:.0f} times as fast", *micro, min(here.values()), max(here.values())),
        ("**CE** is {:.0f} to {:,.0f} times as fast as gradient descent, and {:.0f} times at the paper's", min(ce), max(ce), here["CE"]),
        ("still has a gradient of {:.0e} to {:.0e}, ours at most {:.0e}", *after),
        ("{:.0f} to {:.0f} times as fast as scipy, and {:,.0f} to {:,.0f} times as fast as CVXPY", min(scipy), max(scipy), min(cvxpy), max(cvxpy)),
        ("**MF-LF** is {:.0f} to {:.0f} times as fast as gradient descent, {:.0f} times at the ImageNet size", min(lf), max(lf), here["MF-LF"]),
        ("`transform` there takes {:.1f} times as long as what it cannot do without", bare),
        ("**MF-P** is {:.1f} times as fast at the ImageNet size", here["MF-P"]),
        ("{:.1f} to {:.0f} times elsewhere. **MF-LU** is {:.0f} times as fast, and {:.0f} to {:.0f} times elsewhere", min(p), max(p), here["MF-LU"], min(lu), max(lu)),
        ("ImageNet size they are {:.0f} and {:.0f} times as fast", loop["MF-P"], loop["MF-LU"]),
        ("**Torch** on the CPU takes {:.1f} to {:.1f} times", min(tensors), max(tensors)),
        ("**float32** takes {:.1f} to {:.1f} times", min(single), max(single)),
        ("take {:.1f} % of the time with MF-LF, {:.1f} % with CE, {:.1f} % with MF-P, {:.1f} % with MF-LU", *(100 * share[m] for m in METHODS)),
    ]  # fmt: skip
