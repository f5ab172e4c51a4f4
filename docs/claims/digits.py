"""Figures of docs/digits.md, from benchmarks/results/digits.jsonl."""

from __future__ import annotations

from typing import Any

from docs.claims import Rows, Sentence
from docs.claims.records import mean, pick, short

METHODS = {"sd": "SD", "ce": "CE", "mf_p": "MF-P", "mf_lu": "MF-LU", "mf_lf": "MF-LF"}
OURS = ("ce", "mf_p", "mf_lu", "mf_lf")
SIZES = ((2, 5), (3, 5), (4, 7))
CELLS = [(student, T, balance) for student in ("forest", "10-NN") for T in (1, 3) for balance in (False, True)]
CHOICES = {
    "student": "student: forest, two k-NN, logistic regression, two trees",
    "method": "method: SD, CE, MF-P, MF-LU, MF-LF",
    "temperature, forest": "temperature .5 to 10, forest student",
    "temperature, 10-NN": "temperature .5 to 10, k-NN student",
    "temperature, logistic": "temperature .5 to 10, logistic regression student",
    "balance": "balance on or off, at T = 1 and 3",
}


def accuracy(smallest: int, student: str, T: int, balance: bool, key: str) -> float:
    """Return the mean accuracy of a method, or of "supervised"."""
    found = pick("digits.jsonl", part="accuracy", smallest=smallest, student=student, T=T, balance=balance)
    return mean(found, key)


def sizes(smallest: int) -> Rows:
    """Return the table of one size of class lists."""
    rows = [["student", "T", "soft labels", *METHODS.values(), "supervised"]]
    for student, T, balance in CELLS:
        cells = [short(accuracy(smallest, student, T, balance, key)) for key in (*METHODS, "supervised")]
        rows.append([student, str(T), "balanced" if balance else "as merged", *cells])
    return rows


def ranks() -> Rows:
    """Return the table of rank correlations."""
    rows = [["choice", "accuracy", "log-loss"]]
    for key, name in CHOICES.items():
        found = pick("digits.jsonl", part="ranks", choice=key)
        rows.append([name, *(f"{mean(found, k):+.2f}" for k in ("accuracy", "log-loss"))])
    return rows


def tables() -> dict[str, Rows]:
    """Return all tables of the page."""
    return {f"lists of {low} to {high}": sizes(low) for low, high in SIZES} | {"ranks": ranks()}


def points(keep: Any, value: Any) -> list[float]:
    """Return `value(size, student, T, balance)` in points for all cells that are kept."""
    cells = [(low, *cell) for low, _ in SIZES for cell in CELLS]
    return [100 * value(*cell) for cell in cells if keep(*cell)]


def short_of_supervised(method: str) -> Any:
    """Return what tells how far a method is below supervised training."""

    def gap(*cell: Any) -> float:
        return accuracy(*cell, "supervised") - accuracy(*cell, method)

    return gap


def sentences() -> list[Sentence]:
    """Return the sentences of the page with figures."""
    above: dict[int, list[float]] = {T: [] for T in (1, 3)}
    helped: list[float] = []
    by_temperature: list[float] = []
    for method in OURS:
        for T, found in above.items():
            found += points(
                lambda n, s, t, b, T=T: not b and t == T, lambda *c, m=method: accuracy(*c, m) - accuracy(*c, "sd")
            )
        helped += points(
            lambda n, s, t, b: b, lambda n, s, t, b, m=method: accuracy(n, s, t, True, m) - accuracy(n, s, t, False, m)
        )
        by_temperature += points(
            lambda n, s, t, b: b and t == 1,
            lambda n, s, t, b, m=method: accuracy(n, s, 1, b, m) - accuracy(n, s, 3, b, m),
        )
    sd = points(lambda n, s, t, b: b, lambda n, s, t, b: accuracy(n, s, t, True, "sd") - accuracy(n, s, t, False, "sd"))
    gaps = {
        name: [g for m in ("ce", "mf_lf") for g in points(keep, short_of_supervised(m))]
        for name, keep in {
            "k-NN": lambda n, s, t, b: b and n > 2 and s == "10-NN",
            "forest": lambda n, s, t, b: b and n > 2 and s == "forest",
            "k-NN, 2": lambda n, s, t, b: b and n == 2 and s == "10-NN",
        }.items()
    }
    every = above[1] + above[3]
    return [
        ("by {:.0f} to {:.0f} points, and by at least {:.0f} at T = 3", min(every), max(every), min(above[3])),
        ("**Balance** changes them by {:+.1f} to {:+.1f} points and SD by {:+.1f} to {:+.1f}", min(helped), max(helped), min(sd), max(sd)),
        ("{:.1f} to {:.1f} points below it with the k-NN student", min(gaps["k-NN"]), max(gaps["k-NN"])),
        ("{:.1f} to {:.1f} with the forest", min(gaps["forest"]), max(gaps["forest"])),
        ("{:.1f} to {:.1f} points below: a teacher of two classes", min(gaps["k-NN, 2"]), max(gaps["k-NN, 2"])),
        ("T = 1, the default, changes balanced students by {:+.1f} to {:+.1f} points", min(by_temperature), max(by_temperature)),
    ]  # fmt: skip
