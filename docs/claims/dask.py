"""Figures of docs/dask.md, from docs/dask_scale.json."""

from __future__ import annotations

from docs.claims import Rows, Sentence
from docs.claims.records import load, one, pick


def tables() -> dict[str, Rows]:
    """Return the tables of the page."""
    return {"against one process": _overhead(), "growth": _growth()}


def _overhead() -> Rows:
    rows = [["method", "rounds", "one process", "cluster", "cluster / process"]]
    for r in pick("dask_scale.json", where="overhead"):
        method, times = _name(r["method"]), (r["memory_seconds"], r["cluster_seconds"])
        rows.append([method, str(r["rounds"]), *(f"{t:.1f} s" for t in times), f"{r['ratio']:.2f}"])
    return rows


def _growth() -> Rows:
    rows = [["method", "million rows", "data, GiB", "seconds", "rows/s", "CPU µs per row", "largest worker, MiB"]]
    runs = pick("dask_scale.json", where="cluster", round=0)
    for r in sorted(runs, key=lambda r: (r["method"] != "mf_lf", r["millions"])):
        cells = f"{r['millions']:.0f}", f"{r['gib_of_data']:.1f}", f"{r['seconds']:.0f}", f"{r['rows_per_second']:,}"
        rows.append([_name(r["method"]), *cells, f"{r['cpu_us_per_row']:.1f}", str(r["worker_mib"])])
    return rows


def _name(method: str) -> str:
    return {"mf_lf": "MF-LF", "ce": "CE"}[method]


def sentences() -> list[Sentence]:
    """Return the sentences of the page with figures."""
    runs = load("dask_scale.json")
    default = one(runs, where="cluster, malloc as Dask has it", method="mf_lf", millions=1.0)
    kept = one(runs, where="cluster", method="mf_lf", millions=1.0, round=0)
    saved = 100 * (1 - kept["cpu_seconds"] / default["cpu_seconds"])
    memory = max(r["process_mib"] for r in pick(runs, where="in memory", millions=1.0))
    return [
        ("This saved {:.0f} % of the processor time in the [benchmark](#benchmark).", saved),
        ("in memory takes {:,} MiB for a million rows", memory),
    ]
