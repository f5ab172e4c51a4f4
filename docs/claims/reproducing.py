"""Figures of docs/reproducing.md, from benchmarks/results/features-*.jsonl."""

from __future__ import annotations

from docs.claims import Sentence
from docs.claims.paper import METHODS, ours, points, published


def sentences() -> list[Sentence]:
    """Return the sentences of the page with figures."""
    ways = [f"{method}-{way}" for method in METHODS for way in ("E", "BP", "BS")]
    above = [points(method, "SD") for method in ways]
    below = [points("SPV", method) for method in ways]
    balance = [points(f"{m}-BS", f"{m}-E") for m in METHODS]
    overlapping = [ours(m, protocol="overlapping") for m in (*ways, "SD", "SD-BS")]
    costs = [-points(f"{m}-BS", "SD" if m == "SD" else f"{m}-E", "overlapping") for m in (*METHODS, "SD")]
    return [
        ("every unifying method is {:.0f} to {:.0f} points above naive distillation", min(above), max(above)),
        ("and {:.1f} to {:.1f} below supervised training", min(below), max(below)),
        ("Balance adds {:.1f} to {:.1f} points to each of them and {:.0f} to naive distillation", min(balance), max(balance), points("SD-BS", "SD")),
        ("all methods are within {:.1f} points of each other", 100 * (max(overlapping) - min(overlapping))),
        ("balance costs {:.2f} to {:.2f} points", min(costs), max(costs)),
        ("Naive distillation is {:.0f} points below supervised training, in the paper {:.0f}", points("SPV", "SD"), 100 * (published("SPV") - published("SD"))),
        ("worse ({:.2f} against {:.2f} of CE", ours("MF-LU-E", "log_loss"), ours("CE-E", "log_loss")),
    ]  # fmt: skip
