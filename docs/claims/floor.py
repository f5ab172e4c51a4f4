"""Figures of docs/floor.md, from benchmarks/results/floor.jsonl."""

from __future__ import annotations

from docs.claims import Rows, Sentence
from docs.claims.records import load, mean, pick, short

FLOORS = {"0.1": "all at .1", "0.01": "all at .01", "0.001": "all at .001", "1e-06": "all at 1e-6", "auto": "auto"}
KINDS = {
    "DecisionTreeClassifier": "decision tree",
    "KNeighborsClassifier": "5 nearest neighbours",
    "RandomForestClassifier": "random forest",
    "GaussianNB": "Gaussian naive Bayes",
    "MultinomialNB": "multinomial naive Bayes",
    "LogisticRegression": "logistic regression",
    "MLPClassifier": "network",
}


def small_answers() -> Rows:
    """Return which share of its answers is how small, by kind of teacher."""
    rows = [["teacher", "exact zeros", "below 1e-6", "below 1e-20"]]
    records = [r for r in load("floor.jsonl") if r["part"] in ("shares", "image shares")]
    for teacher in sorted(
        {r["teacher"] for r in records}, key=lambda name: (list(KINDS).index(name.split(",")[0]), name)
    ):
        kind, data = teacher.split(", ", 1)
        found = [r for r in records if r["teacher"] == teacher]
        ranges = [sorted(short(r[key], 2) for r in found) for key in ("zero", "1e-6", "1e-20")]
        cells = [low if low == high else f"{low} to {high}" for low, *_, high in ranges]
        rows.append([f"{KINDS[kind]}, {data}", *cells])
    return rows


def accuracy(teachers: str, floor: str, method: str) -> float:
    """Return the mean accuracy of merged labels."""
    return mean(pick("floor.jsonl", part="floors", teachers=teachers, floor=floor), method)


def worlds() -> list[str]:
    """Return the settings."""
    return list(dict.fromkeys(r["teachers"] for r in load("floor.jsonl") if r["part"] == "floors"))


def merged() -> Rows:
    """Return the accuracy of merged labels by floor, MF-LF / CE."""
    rows = [["teachers", "seeds", *FLOORS.values()]]
    for teachers in worlds():
        seeds = {r["seed"] for r in pick("floor.jsonl", part="floors", teachers=teachers)}
        cells = [" / ".join(short(accuracy(teachers, floor, m)) for m in ("MF-LF", "CE")) for floor in FLOORS]
        rows.append([teachers, str(len(seeds)), *cells])
    return rows


def tables() -> dict[str, Rows]:
    """Return all tables of the page."""
    return {"small answers": small_answers(), "merged labels": merged()}


def sentences() -> list[Sentence]:
    """Return the sentences of the page with figures."""
    networks = next(name for name in worlds() if name.startswith("Tiny"))
    mixed = "digits, mixed, 6 of 3 to 5"
    costs = [100 * (accuracy(networks, "auto", m) - accuracy(networks, "0.1", m)) for m in ("MF-LF", "CE")]
    figures = [accuracy(mixed, floor, m) for floor in ("1e-06", "auto") for m in ("MF-LF", "CE")]
    return [
        ("merge to {:z.2f} (MF-LF) and {:z.2f} (CE) label accuracy; with this rule to {:z.2f} and {:z.2f}", *figures),
        ("costs real networks {:.1f} to {:.1f} points", min(costs), max(costs)),
    ]
