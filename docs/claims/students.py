"""Figures of docs/students.md, from docs/students.json, student_forests.json and student-temperature.jsonl."""

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


def more_accurate(dataset: str) -> int:
    """Return for how many students soft labels give a higher accuracy than argmax labels."""
    found = [r for r in pick("students.json", dataset=dataset, T=1.0) if r["time"] is not None]
    return sum(r["soft"]["accuracy"] > r["argmax"]["accuracy"] for r in found)


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
    memory, faster, hard = (
        by_rule("MiB", "default"),
        by_rule("seconds", "default"),
        by_rule("MiB", "default", "hard labels"),
    )
    logistic, catboost = record("logistic regression"), record("CatBoost", "digits")
    drawn, boosted = record("linear discriminant, sampled", "digits"), record("AdaBoost", "digits")
    lost = 100 * (drawn["argmax"]["accuracy"] - drawn["soft"]["accuracy"])
    slowest = max(r["ratio"] for r in pick("student_price.json", T=1.0))
    return [
        ("they take at most {:.1f} times as long", slowest),
        ("takes {:.1f} times as long as scikit-learn's own on hard labels, and {:.0f} times less than on copies",
         logistic["time"], logistic["naive time"] / logistic["seconds ratios"][0]),
        ("takes {:.1f} times as long, and {:.1f} times on digits below", record("CatBoost")["time"], catboost["time"]),
        ("lose {:.0f} points of accuracy compared with argmax labels", lost),
        ("all copies give {:.3f} in the first seed of digits, each row once {:.3f} on average",
         boosted["naive"]["accuracy"], boosted["soft"]["accuracy"]),
        ("needs {:.2f} to {:.2f} of the memory and {:.1f} to {:.1f} of the time of single rows", min(memory), max(memory), min(faster), max(faster)),
        ("Accuracy changes by {:+.1f} to {:+.1f} points and log-loss by {:+.2f} to {:+.2f}", *by_change("accuracy", 100), *by_change("log-loss")),
        ("needs {:.1f} to {:.1f} times the memory", min(hard), max(hard)),
        ("a better log-loss for {:d} of the {:d} students", *better_in_log_loss(FEATURES, 1.0)),
        ("better for {:d} of them", more_accurate(FEATURES)),
        ("at T = 1 the log-loss is better for {:d} of {:d} students", *better_in_log_loss("digits", 1.0)),
    ]  # fmt: skip
