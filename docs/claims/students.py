"""Figures of docs/students.md, from docs/students.json, docs/student_forests.json and student-temperature.jsonl."""

from __future__ import annotations

from typing import Any

from docs.claims import Rows, Sentence
from docs.claims.choosing import better_in_log_loss
from docs.claims.records import load, mean, one, pick, short

FEATURES = "Tiny-ImageNet features"
TEMPERATURES = (1, 3, 10)
LEARNT_NOTHING = 0.25


def record(student: str, dataset: str = FEATURES, T: float = 1.0) -> dict[str, Any]:
    """Return what was measured of a student."""
    return one("students.json", dataset=dataset, T=T, student=student)


def temperatures() -> Rows:
    """Return log-loss and best power of every student at three temperatures."""
    rows = [["student", "log-loss at T = 1 / 3 / 10", "power"]]
    records = load("student-temperature.jsonl")
    for student in dict.fromkeys(r["student"] for r in records):
        here = [pick(records, student=student, T=T) for T in TEMPERATURES]
        losses = " / ".join(short(mean(found, "log-loss"), 2) for found in here)
        powers = [f"{mean(f, 'power'):.1f}" if mean(f, "accuracy") >= LEARNT_NOTHING else "-" for f in here]
        rows.append([student, losses, " / ".join(powers)])
    return rows


def forests() -> Rows:
    """Return how far forests grow by every rule, and what that changes."""
    rows = [
        [
            "data",
            "T",
            "forest",
            "branches end at",
            "seconds",
            "nodes",
            "MiB",
            "accuracy",
            "change",
            "log-loss",
            "change",
        ]
    ]
    names = {
        "single rows": "single rows",
        "default": "small gains (default)",
        "hard labels": "pure leaves, hard labels",
    }
    for r in load("student_forests.json"):
        cells = [r["dataset"], f"{r['T']:g}", r["forest"], names.get(r["rule"], r["rule"])]
        cells += [f"{r['seconds']:.2f}", f"{r['nodes']:,.0f}", f"{r['MiB']:.0f}"]
        for key, digits in (("accuracy", 3), ("log-loss", 2)):
            change = f"{r[f'change of {key}']:+.{digits}f} ± {r[f'interval of {key}']:.{digits}f}"
            cells += [f"{r[key]:.{digits}f}", "" if r["rule"] == "single rows" else change]
        rows.append(cells)
    return rows


def tables() -> dict[str, Rows]:
    """Return all tables of the page."""
    return {"temperatures": temperatures(), "forests": forests()}


def by_rule(key: str, rule: str, of: str = "single rows") -> list[float]:
    """Return the ratio of what forests need by one rule to that by another, for all data, temperatures and forests."""
    pairs = zip(pick("student_forests.json", rule=rule), pick("student_forests.json", rule=of), strict=True)
    return [a[key] / b[key] for a, b in pairs]


def sentences() -> list[Sentence]:
    """Return the sentences of the page with figures."""
    price = pick("student_price.json", T=1.0)
    return [
        ("at most {:.1f} times as long", max(r["ratio"] for r in price)),
    ]  # fmt: skip
