"""The summary of what memberships gain: means and intervals from the files of results.

    python -m benchmarks.membership_summary

Reads what `benchmarks.membership_merge`, `membership_paper` and `membership_none` have measured, and the paper's table
of `python -m benchmarks run features`, and writes `docs/membership.json`.
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

SUMMARY = Path("docs/membership.json")
#: Trials of the paper's setting from here on are for choosing.
CHOOSING_PAPER = 900
#: Trials of the paper's table: what they are called, fewest and most classes, and how many of the first.
GAPS = (("first 10", 0, 99, 10), ("all", 0, 99, 50), ("20 to 28 classes", 20, 28, 50), ("29 to 50", 29, 50, 50))
#: The head's records of the paper's setting, by way.
PAPER = {"plain": "CE-BS", "supervised": "SPV"}
PAPER_FILES = Path("benchmarks/results/features-random.jsonl"), Path("benchmarks/results/membership-paper.jsonl")
NONE_FILE = Path("benchmarks/results/membership-none.jsonl")
#: Tiny-ImageNet features as they were while scorers were compared with labels at temperature 1.
BEFORE_FILE = Path("benchmarks/results/membership-before.jsonl")


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
        for way in dict.fromkeys(r["way"] for r in of_data):
            own = [r for r in of_data if r["way"] == way]
            lines.append({"part": "comparing", "data": name, "way": way, "trials": len(own)} | _line(own, columns))
            if way != "plain":
                lines.append({"part": "gain", "data": name} | _gain(of_data, way, columns))
    _add_shares(lines)
    before = read(root / BEFORE_FILE)
    ways = [way for way in dict.fromkeys(r["way"] for r in before) if way != "plain"]
    lines += [{"part": "before"} | _gain(before, way, columns) for way in ways]
    lines += paper_choice(root) + paper_gaps(root)
    return lines + [_none_line(*each) for each in _by_none(read(root / NONE_FILE))]


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
    found = [head | {"way": r["way"], "seed": r["seed"], r["student"]: r["accuracy"]} for r in second]
    found = [r for r in found if r["seed"] < CHOOSING_PAPER]
    seeds = {r["seed"] for r in found}
    table = (r for r in first if r["method"] in names and r["trial"] in seeds)
    return found + [head | {"way": names[r["method"]], "seed": r["trial"], "network": r["accuracy"]} for r in table]


def paper_choice(root: Path) -> list[dict[str, Any]]:
    """Return what weights gain in the paper's setting, on trials that are not reported."""
    records = [r for r in read(root / PAPER_FILES[1]) if r["seed"] >= CHOOSING_PAPER]
    plain = {r["seed"]: r["accuracy"] for r in records if r["way"] == "plain"}
    lines = []
    for way, weight in dict.fromkeys((r["way"], r["weight"]) for r in records if r["way"] != "plain"):
        own = [r for r in records if (r["way"], r["weight"]) == (way, weight) and r["seed"] in plain]
        gain = mean_and_interval([r["accuracy"] - plain[r["seed"]] for r in own])
        lines.append({"part": "choosing, the paper's", "way": way, "weight": weight, "network": gain})
    return sorted(lines, key=lambda line: (line["way"], line["weight"]))


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
    keys = {setting: [key for key in of[setting][0] if key not in ("setting", "seed")] for setting in settings}
    return [(setting, key, [r[key] for r in of[setting]]) for setting in settings for key in keys[setting]]


def _none_line(setting: str, key: str, values: list[float]) -> dict[str, Any]:
    return {"part": "none", "setting": setting, "from": key} | mean_and_interval(values)


def _key(column: str) -> str:
    return column.replace(" ", "_").replace("-", "_")


def _add_shares(lines: list[dict[str, Any]]) -> None:
    """Say what share of the gap between plain and supervised every gain closes."""
    mean = {
        (r["data"], r["way"], c): r[c]["mean"]
        for r in lines
        if r["part"] == "comparing"
        for c in map(_key, STUDENTS)
        if c in r
    }
    for gain in (r for r in lines if r["part"] == "gain"):
        for c in (c for c in gain if (gain["data"], "supervised", c) in mean):
            gap = mean[gain["data"], "supervised", c] - mean[gain["data"], "plain", c]
            gain[c]["share"] = gain[c]["mean"] / gap if gap > 0 else None


def _line(records: list[dict[str, Any]], columns: list[str]) -> dict[str, Any]:
    values = {c: [r[c] for r in records if c in r] for c in columns}
    return {_key(c): mean_and_interval(found) for c, found in values.items() if found}


if __name__ == "__main__":
    SUMMARY.write_text(json.dumps(summarise(Path()), indent=1) + "\n")
