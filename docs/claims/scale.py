"""Figures of docs/scale.md, from docs/solvers.json."""

from __future__ import annotations

from docs.claims import Sentence
from docs.claims.records import load, one


def sentences() -> list[Sentence]:
    """Return the sentences of the page with figures."""
    found = load("solvers.json")
    most = max(r["n"] for r in found["growth"])
    rows = {m: one(found["growth"], n=most, method=m) for m in ("MF-LF", "CE", "MF-P", "MF-LU")}
    times = [r["us per sample"] for r in rows.values()]
    share = found["share in fit"]
    return [
        ("{:.0f} µs per row (MF-LF), {:.0f} (CE), {:.0f} (MF-P), {:.0f} (MF-LU), for a million rows", *times),
        ("at most {:.0f} MiB beyond input and output", max(r["extra MiB"] for r in rows.values())),
        ("the merge takes {:.1f} % (MF-LF) to {:.0f} % (MF-LU) of `fit`", 100 * share["MF-LF"], 100 * share["MF-LU"]),
    ]
