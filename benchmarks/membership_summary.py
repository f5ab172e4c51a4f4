"""The summary of what memberships gain: means and intervals from the files of results.

    python -m benchmarks.membership_summary

Reads what `benchmarks.membership_merge`, `membership_paper` and `membership_none` have measured, and the paper's table
of `python -m benchmarks run features`, and writes `benchmarks/results/membership.json`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import t as student_t

from benchmarks.lines import read
from benchmarks.membership_merge import DATA, GAMMAS, RESULTS, STUDENTS

SUMMARY = Path("benchmarks/results/membership.json")
#: In the order of the tables.
WAYS = ("plain", "membership", "membership, none of these", "supervised")
#: Trials of the paper's setting from here on are for choosing.
CHOOSING_PAPER = 900
#: Trials of the paper's table: what they are called, fewest and most classes, and how many of the first.
GAPS = (
    ("first 10", 0, 99, 10),
    ("all", 0, 99, 50),
    ("20 to 28 classes", 20, 28, 50),
    ("29 to 36 classes", 29, 36, 50),
    ("37 to 44 classes", 37, 44, 50),
    ("45 to 50 classes", 45, 50, 50),
)
#: The head's records of the paper's setting, by way.
PAPER = {"plain": "CE-BS", "supervised": "SPV"}
PAPER_FILES = Path("benchmarks/results/features-random.jsonl"), Path("benchmarks/results/membership-paper.jsonl")
NONE_FILE = Path("benchmarks/results/membership-none.jsonl")


def mean_and_interval(values: list[float]) -> dict[str, Any]:
    """Return the mean and half the width of its 95 % interval, by Student's t."""
    n, mean = len(values), float(np.mean(values))
    if n < 2:
        return {"mean": mean, "half": None, "text": f"{mean:.3f}".replace("0.", "."), "trials": n}
    half = float(student_t.ppf(0.975, n - 1)) * float(np.std(values, ddof=1)) / n**0.5
    return {"mean": mean, "half": half, "text": f"{mean:.3f} ± {half:.3f}".replace("0.", "."), "trials": n}


def summarise(root: Path) -> list[dict[str, Any]]:
    """Return means with intervals, and of gains over plain trial by trial, from the files of results."""
    columns, records = ["soft labels", *STUDENTS], read(root / RESULTS) + paper_records(root)
    lines: list[dict[str, Any]] = []
    for weight in (0.0, *GAMMAS):
        own = [r for r in records if r["part"] == "choosing" and r["weight"] == weight]
        lines.append({"part": "choosing", "weight": weight} | _line(own, columns))
    for name in [*DATA, "the paper's"]:
        of_data = join(r for r in records if r["part"] == "comparing" and r["data"] == name)
        for way in sorted({r["way"] for r in of_data}, key=WAYS.index):
            own = [r for r in of_data if r["way"] == way]
            head = {"data": name, "called": called(way, name)}
            lines.append({"part": "comparing", **head, "way": way, "trials": len(own)} | _line(own, columns))
            if way != "plain":
                lines.append({"part": "gain", **head} | _gain(of_data, way, columns))
    _add_shares(lines)
    lines += paper_choice(root) + paper_gaps(root)
    none = read(root / NONE_FILE)
    return lines + [_none_line(*each) for each in _by_none(none)] + _taken_lines(none)


def called(way: str, data: str) -> str:
    """Return what tables call a way: there are two kinds of supervised training."""
    if way != "supervised":
        return way
    return (
        "supervised, owners' rows" if data in ("Tiny-ImageNet features", "the paper's") else "supervised, true labels"
    )


def join(records: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Put records of the same trial and way together: students may have been measured one after the other."""
    joined: dict[tuple[str, int], dict[str, Any]] = {}
    for record in records:
        joined.setdefault((record["way"], record["seed"]), {}).update(record)
    return list(joined.values())


def _gain(records: list[dict[str, Any]], way: str, columns: list[str]) -> dict[str, Any]:
    """Return what a way gains over plain, trial by trial."""
    plain = {r["seed"]: r for r in records if r["way"] == "plain"}
    own = [r for r in records if r["way"] == way and r["seed"] in plain]
    gains = [{c: r[c] - plain[r["seed"]][c] for c in columns if c in r and c in plain[r["seed"]]} for r in own]
    return {"way": way, "trials": len(own)} | _line(gains, columns)


def paper_records(root: Path) -> list[dict[str, Any]]:
    """Return the records of the paper's setting."""
    first, second = (read(root / path) for path in PAPER_FILES)
    head, names = {"part": "comparing", "data": "the paper's"}, {method: way for way, method in PAPER.items()}
    second = complete([r for r in second if r["seed"] < CHOOSING_PAPER])
    found = [head | {"way": r["way"], "seed": r["seed"], r["student"]: r["accuracy"]} for r in second]
    seeds = {r["seed"] for r in found}
    table = (r for r in first if r["method"] in names and r["trial"] in seeds)
    return found + [head | {"way": names[r["method"]], "seed": r["trial"], "network": r["accuracy"]} for r in table]


def complete(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Leave out trials of a student that lack a way; the network's others stand in the paper's table."""
    ways: dict[str, set[str]] = {}
    for r in records:
        ways.setdefault(r["student"], set()).add(r["way"])
    there = {(r["student"], r["seed"], r["way"]) for r in records}
    return [
        r
        for r in records
        if r["student"] == "network" or all((r["student"], r["seed"], way) in there for way in ways[r["student"]])
    ]


def paper_choice(root: Path) -> list[dict[str, Any]]:
    """Return what weights gain in the paper's setting, on trials that are not reported."""
    records = [r for r in read(root / PAPER_FILES[1]) if r["seed"] >= CHOOSING_PAPER]
    plain = {r["seed"]: r["accuracy"] for r in records if r["way"] == "plain"}
    lines = []
    for way, weight in dict.fromkeys((r["way"], r["weight"]) for r in records if r["way"] != "plain"):
        own = [r for r in records if (r["way"], r["weight"]) == (way, weight) and r["seed"] in plain]
        gain = mean_and_interval([r["accuracy"] - plain[r["seed"]] for r in own])
        line = {"part": "choosing, the paper's", "way": way, "called": called(way, "the paper's")}
        lines.append(line | {"weight": weight if way == "membership" else None, "network": gain})
    return sorted(lines, key=lambda line: (line["way"], line["weight"] or 0))


def paper_gaps(root: Path) -> list[dict[str, Any]]:
    """Return how far CE-BS is below SPV in the paper's table, by the number of classes."""
    of = {(r["method"], r["trial"]): r for r in read(root / PAPER_FILES[0])}
    trials = sorted({trial for _, trial in of})
    lines = []
    for label, low, high, upto in GAPS:
        own = [t for t in trials[:upto] if low <= of["SPV", t]["n_classes"] <= high]
        gaps = mean_and_interval([of["SPV", t]["accuracy"] - of["CE-BS", t]["accuracy"] for t in own])
        classes = float(np.mean([of["SPV", t]["n_classes"] for t in own]))
        lines.append({"part": "gap", "which": label, "classes": classes, "gap": gaps, "trials": len(own)})
    return lines


def _by_none(records: list[dict[str, Any]]) -> list[tuple[str, str, list[float]]]:
    settings = dict.fromkeys(r["setting"] for r in records)
    of = {setting: [r for r in records if r["setting"] == setting] for setting in settings}
    keys = {setting: [key for key in of[setting][0] if key not in ("setting", "seed", "taken")] for setting in settings}
    return [(setting, key, [r[key] for r in of[setting]]) for setting in settings for key in keys[setting]]


def _none_line(setting: str, key: str, values: list[float]) -> dict[str, Any]:
    return {"part": "none", "setting": setting, "from": key} | mean_and_interval(values)


def _taken_lines(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the shares of known and of foreign rows that are predicted as none."""
    lines = []
    for setting in dict.fromkeys(r["setting"] for r in records):
        own = [r["taken"] for r in records if r["setting"] == setting and "taken" in r]
        for name in own[0] if own else ():
            known, foreign = (mean_and_interval([each[name][k] for each in own]) for k in (0, 1))
            lines.append({"part": "taken", "setting": setting, "by": name, "known": known, "foreign": foreign})
    return lines


def _key(column: str) -> str:
    return column.replace(" ", "_").replace("-", "_")


def _add_shares(lines: list[dict[str, Any]]) -> None:
    """Say what share of the gap between plain and supervised every gain closes."""
    gains = [line for line in lines if line["part"] == "gain"]
    gaps = {line["data"]: line for line in gains if line["way"] == "supervised"}
    for gain in gains:
        for c in (c for c in map(_key, STUDENTS) if c in gain and c in gaps.get(gain["data"], {})):
            gap = gaps[gain["data"]][c]["mean"]
            gain[c]["share"] = gain[c]["mean"] / gap if gap > 0 else None


def _line(records: list[dict[str, Any]], columns: list[str]) -> dict[str, Any]:
    values = {c: [r[c] for r in records if c in r] for c in columns}
    return {_key(c): mean_and_interval(found) for c, found in values.items() if found}


if __name__ == "__main__":
    SUMMARY.write_text(json.dumps(summarise(Path()), indent=1) + "\n")
