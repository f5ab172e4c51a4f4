"""Figures of docs/networks.md, from benchmarks/results/networks.jsonl."""

from __future__ import annotations

from typing import Any

from docs.claims import Rows, Sentence
from docs.claims.records import load, mean, pick, short

TEMPERATURES = (1, 3, 10)


def accuracy(**conditions: Any) -> float:
    """Return a mean accuracy over seeds."""
    return mean(pick("networks.jsonl", **conditions), "accuracy")


def seeds(part: str) -> int:
    """Return the number of seeds of a part."""
    return len({r["seed"] for r in pick("networks.jsonl", part=part)})


def ridge() -> Rows:
    """Return the accuracy of MF-LU by backpropagation, by training, ridge and temperature."""
    rows = [["MF-LU-BP", "seeds", *(f"T = {T}" for T in TEMPERATURES)]]
    for epochs in sorted({r["epochs"] for r in load("networks.jsonl") if r["part"] == "ridge"}):
        for lam in ("0.01", "0.01 / T²"):
            found = pick("networks.jsonl", part="ridge", epochs=epochs, lam=lam)
            cells = [short(mean(pick(found, T=T), "accuracy")) for T in TEMPERATURES]
            rows.append([f"{epochs} epochs, `lam` = {lam}", str(len(pick(found, T=1))), *cells])
    return rows


def tables() -> dict[str, Rows]:
    """Return all tables of the page."""
    return {"ridge": ridge()}


def sentences() -> list[Sentence]:
    """Return the sentences of the page with figures."""
    default, short_ = (
        [accuracy(part="length", training=t, backprop=b) for b in (False, True)] for t in ("default", "20 epochs")
    )
    with_, without = ([accuracy(part="factor", factor=f, T=T) for T in TEMPERATURES] for f in ("T²", "none"))
    return [
        ("on 500 digits (T = 3, {:d} seeds)", seeds("length")),
        ("reached {:z.3f} this way on soft labels of CE, and {:z.3f} by direct backpropagation", *default),
        ("which are 80 steps, gave {:z.3f} and {:z.3f}", *short_),
        ("(30 epochs, {:d} seeds of digits, soft labels of CE)", seeds("factor")),
        (
            "reached {:z.3f}, {:z.3f} and {:z.3f} at T = 1, 3 and 10; without the factor, {:z.3f}, {:z.3f} and {:z.3f}",
            *with_,
            *without,
        ),
    ]
