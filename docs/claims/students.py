"""Figures of docs/students.md, from docs/students.json, student_forests.json and student-temperature.jsonl."""

from __future__ import annotations

from typing import Any

from docs.claims import Rows, Sentence
from docs.claims.choosing import better_in_log_loss
from docs.claims.records import load, mean, one, pick, short

FEATURES = "Tiny-ImageNet features"
TEMPERATURES = (1, 3, 10)
LEARNT_NOTHING = 0.25


def record(student: str, dataset: str = FEATURES, T: float = 3.0) -> dict[str, Any]:
    """Return what was measured of a student."""
    return one("students.json", dataset=dataset, T=T, student=student)


def times(student: str, of: str = "soft", to: str = "argmax", dataset: str = FEATURES, T: float = 3.0) -> float:
    """Return the time of one kind of labels relative to another."""
    found = record(student, dataset, T)
    return float(found[of]["seconds"] / found[to]["seconds"])


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


def by_change(key: str, factor: float = 1) -> tuple[float, float]:
    """Return the least and the largest change by the default rule of forests."""
    changes = [factor * r[f"change of {key}"] for r in pick("student_forests.json", rule="default")]
    return min(changes), max(changes)


def sentences() -> list[Sentence]:
    """Return the sentences of the page with figures."""
    forest = record("random forest")
    losses = [
        record(name)[way]["log-loss"] for name in ("XGBoost", "logistic regression") for way in ("soft", "argmax")
    ]
    memory, faster, hard = (
        by_rule("MiB", "default"),
        by_rule("seconds", "default"),
        by_rule("MiB", "default", "hard labels"),
    )
    drawn = record("linear discriminant, sampled")
    return [
        ("up to {:.0f} times as long as hard labels on digits", max(times("CatBoost", dataset="digits", T=T) for T in (1.0, 3.0))),
        ("take {:.2f}, {:.2f} and {:.2f} times as long as on hard labels", *(times(name) for name in ("random forest", "LightGBM", "XGBoost"))),
        ("takes {:.0f} MiB instead of {:.0f}", forest["soft"]["MiB"], forest["argmax"]["MiB"]),
        ("Extra trees take {:.1f} times as long", times("extra trees")),
        ("takes {:.1f} of the time of scikit-learn's own on hard labels, and {:.0f} times less than on copies",
         times("logistic regression"), times("logistic regression", "naive", "soft")),
        ("lose {:.0f} points of accuracy compared with argmax labels", 100 * (drawn["argmax"]["accuracy"] - drawn["soft"]["accuracy"])),
        ("needs {:.2f} to {:.2f} of the memory and {:.1f} to {:.1f} of the time of single rows", min(memory), max(memory), min(faster), max(faster)),
        ("Accuracy changes by {:+.1f} to {:+.1f} points and log-loss by {:+.2f} to {:+.2f}", *by_change("accuracy", 100), *by_change("log-loss")),
        ("needs {:.1f} to {:.1f} times the memory", min(hard), max(hard)),
        ("a better log-loss for {:d} of the {:d} students", *better_in_log_loss(FEATURES, 3.0)),
        ("XGBoost ({:.2f} against {:.2f}", *losses[:2]),
        ("logistic regression ({:.2f} against {:.2f}", *losses[2:]),
        ("at T = 1 the log-loss is better for {:d} of {:d} students", *better_in_log_loss("digits", 1.0)),
    ]  # fmt: skip
