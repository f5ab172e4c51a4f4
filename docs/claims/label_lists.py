"""Figures of docs/label_lists.md, from benchmarks/results/membership.jsonl, names.jsonl and names-before.jsonl."""

from __future__ import annotations

from statistics import stdev
from typing import Any

from docs.claims import Rows, Sentence
from docs.claims.records import load, mean, pick, short

SETTINGS = {
    "digits 0-6 against 7-9": "digits 0 to 6 against 7 to 9",
    "digits 0-6 against 8-9, unseen": "digits 0 to 6 against 8 and 9, none of them public",
    "MNIST 0-6 against Fashion-MNIST, unseen": "MNIST 0 to 6 against Fashion-MNIST, none of it public",
}
#: Kind of a suggestion: the task that breaks lists in that way, and what it counts.
KINDS = {"spelling": ("spelling", "same"), "answers": ("renamed", "same"), "parts": ("coarse", "parts")}


def membership() -> Rows:
    """Return the table of membership scorers."""
    rows = [["own rows against foreign ones", "AUROC", "of the confidence", "mean d, own", "mean d, foreign"]]
    for setting in dict.fromkeys(record["setting"] for record in load("membership.jsonl")):
        found = pick("membership.jsonl", setting=setting)
        auroc = f"{short(mean(found, 'auroc'))} ± {short(stdev(r['auroc'] for r in found))}"
        more = [
            short(mean(found, "auroc_confidence")),
            *(short(mean(found, k), 2) for k in ("mean_own", "mean_foreign")),
        ]
        rows.append([SETTINGS.get(setting, setting), auroc, *more])
    return rows


def right(records: list[dict[str, Any]], kind: str) -> tuple[int, int]:
    """Return how many suggestions of a kind are right, and how many there are."""
    made = [s["right"] for record in records for s in record["suggestions"] if s["kind"] == kind]
    return sum(made), len(made)


def names() -> Rows:
    """Return the table of suggestions."""
    said, there = "right / suggested", "found / to find"
    rows = [["", f"spelling: {said}", there, f"same answers: {said}", there, f"parts: {said}", there]]
    for name, data in {"digits": "digits", "Fashion-MNIST": "fashion", "texts": "texts", "all": None}.items():
        records = load("names.jsonl") if data is None else pick("names.jsonl", data=data)
        cells = []
        for kind, (task, count) in KINDS.items():
            broken = pick(records, task=task)
            wanted = sum(record["to_find"][count] for record in broken)
            cells += ["{} / {}".format(*right(records, kind)), f"{right(broken, kind)[0]} / {wanted}"]
        rows.append([name, *cells])
    return rows


def tables() -> dict[str, Rows]:
    """Return all tables of the page."""
    return {"membership": membership(), "names": names()}


def sentences() -> list[Sentence]:
    """Return the sentences of the page with figures."""
    before = load("names-before.jsonl")
    counts = (*right(before, "answers"), *right(before, "parts"))
    return [("{:d} of {:d} suggestions from answers and {:d} of {:d} parts were right", *counts)]
