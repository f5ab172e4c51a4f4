"""Figures of docs/solvers.md, from docs/solvers.json, versions.json and local_optima.json."""

from __future__ import annotations

from typing import Any

from docs.claims import Rows, Sentence
from docs.claims.records import load, one, pick

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


def speed() -> Rows:
    """Return the main table; ratios to ours from "paper" on."""
    keys = {"paper": "paper", "plain loop": "paper, plain loop", "scipy": "scipy", "CVXPY": "cvxpy", "torch": "torch"}
    keys |= {"float32": "float32", "least": "least"}
    rows = [["size", "method", "ours", "residual", "paper", "its residual", *list(keys)[1:]]]
    for row in load("solvers.json")["methods"]:
        ratio = {name: significant(row[key] / row["ours"]) if row.get(key) else "" for name, key in keys.items()}
        cells = [duration(row["ours"]), f"{row['residual']:.0e}", ratio.pop("paper"), f"{row['residual paper']:.0e}"]
        rows.append([row["size"], row["method"], *cells, *ratio.values()])
    return rows


def growth() -> Rows:
    """Return time per row and memory by the number of rows."""
    records = load("solvers.json")["growth"]
    rows = [["n", *METHODS, "most memory"]]
    for n in dict.fromkeys(r["n"] for r in records):
        here = {m: one(records, n=n, method=m) for m in METHODS}
        memory = max(r["extra MiB"] for r in here.values())
        rows.append([f"{n:,}", *(f"{here[m]['us per sample']:.0f} µs" for m in METHODS), f"{memory:.0f} MiB"])
    return rows


def certificates() -> Rows:
    """Return the times before and after certificates."""
    rows = [["size", "method", "before", "after", "ratio"]]
    for name, record in load("versions.json").items():
        size, method = name.rsplit(", ", 1)
        if method in ("CE", "MF-P", "MF-LU"):
            times = [f"{record[f'us {when}']:.1f} µs" for when in ("before", "after")]
            rows.append([size, method, *times, f"{record['ratio']:.2f}"])
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


def tables() -> dict[str, Rows]:
    """Return all tables of the page."""
    return {"speed": speed(), "growth": growth(), "certificates": certificates(), "local optima": local_optima()}


def ratios(method: str, key: str, size: str | None = None) -> list[float]:
    """Return how many times as long something else takes, at one size or at all."""
    records: list[dict[str, Any]] = pick(load("solvers.json")["methods"], method=method)
    return [r[key] / r["ours"] for r in records if r.get(key) and size in (None, r["size"])]


def sentences() -> list[Sentence]:
    """Return the sentences of the page with figures."""
    ce, lf, p, lu = (ratios(m, "paper") for m in ("CE", "MF-LF", "MF-P", "MF-LU"))
    here = {m: ratios(m, "paper", PAPER)[0] for m in METHODS}
    loop = {m: ratios(m, "paper, plain loop", PAPER)[0] for m in ("MF-P", "MF-LU")}
    scipy, cvxpy = ratios("CE", "scipy"), ratios("CE", "cvxpy")
    single = [r for m in METHODS for r in ratios(m, "float32")]
    least = ratios("MF-LF", "least", PAPER)[0]
    share = load("solvers.json")["share in fit"]
    same = [r["ratio"] for name, r in load("versions.json").items() if name.endswith((" SD", " MF-LF"))]
    micro = [1e6 * one(load("solvers.json")["methods"], size=PAPER, method=m)["ours"] for m in METHODS]
    return [
        ("takes {:.1f} µs per row, CE {:.0f}, MF-P {:.0f} and MF-LU {:.0f}, which is {:.0f} to {:.0f} times as fast", *micro, min(here.values()), max(here.values())),
        ("**CE** is {:.0f} to {:,.0f} times as fast as gradient descent, and {:.0f} times at the paper's", min(ce), max(ce), here["CE"]),
        ("{:.0f} to {:.0f} times as fast as scipy, and {:,.0f} to {:,.0f} times as fast as CVXPY", min(scipy), max(scipy), min(cvxpy), max(cvxpy)),
        ("**MF-LF** is {:.0f} to {:.0f} times as fast as gradient descent, {:.0f} times at the ImageNet size", min(lf), max(lf), here["MF-LF"]),
        ("{:.0f} % of its time there is the one product", 100 * least),
        ("**MF-P** is {:.1f} times as fast at the ImageNet size", here["MF-P"]),
        ("{:.1f} to {:.0f} times elsewhere. **MF-LU** is {:.0f} times as fast, and {:.1f} to {:.0f} times elsewhere", min(p), max(p), here["MF-LU"], min(lu), max(lu)),
        ("ImageNet size they are {:.0f} and {:.0f} times as fast", loop["MF-P"], loop["MF-LU"]),
        ("**float32** takes {:.1f} to {:.1f} times", min(single), max(single)),
        ("take {:.1f} % of the time with MF-LF, {:.1f} % with CE, {:.1f} % with MF-P, {:.1f} % with MF-LU", *(100 * share[m] for m in METHODS)),
        ("it was between {:.2f} and {:.2f}", min(same), max(same)),
    ]  # fmt: skip
