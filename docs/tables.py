"""Tables that need more than `docs/fill_figures.py` can say: `<!-- figure: NAME -->` on a page calls a function."""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path
from statistics import geometric_mean, mean, median
from typing import Any

from benchmarks.paper.published import column

RESULTS = Path(__file__).parent.parent / "benchmarks" / "results"
#: An arrow that does not break the line.
TO = "\u00a0→\u00a0"

Rows = list[list[str]]
Record = dict[str, Any]


@lru_cache
def load(name: str) -> Any:
    """Return what a result file holds, as in `docs/fill_figures.py`: FILE or FILE/NAME."""
    file, _, part = name.partition("/")
    text = (RESULTS / file).read_text()
    if file.endswith(".jsonl"):
        return [json.loads(line) for line in text.splitlines()]
    return json.loads(text)[part] if part else json.loads(text)


def short(value: float) -> str:
    """Return a figure without the zero before its point."""
    return f"{value:.3f}".replace("0.", ".", 1) if abs(value) < 1 else f"{value:.3f}"


def digits(value: float) -> str:
    """Return a few digits of a time or a ratio."""
    return f"{value:.2f}" if value < 20 else f"{value:,.0f}"


def paper() -> Rows:
    """README.md: the paper's main experiment beside ours."""
    published = column("random", "imagenet", "vgg16")
    assert published is not None
    ours: dict[str, list[float]] = {}
    for r in load("features-random.jsonl"):
        if r["study"] == "main":
            ours.setdefault(r["method"], []).append(r["accuracy"])
    sources = [published.accuracy, {method: mean(found) for method, found in ours.items()}]
    rows = [["soft labels", "paper, as merged", "paper, balanced", "ours, as merged", "ours, balanced"]]
    for name in ("SD", "CE", "MF-P", "MF-LU", "MF-LF"):
        pair = ("SD" if name == "SD" else f"{name}-E", f"{name}-BS")
        rows.append(["SD (naive)" if name == "SD" else name, *(short(of[way]) for of in sources for way in pair)])
    supervised = [f"*{short(of['SPV'])}*" for of in sources]
    return [*rows, ["*supervised, on all the teachers' data*", supervised[0], "", supervised[1], ""]]


def comparison() -> Rows:
    """docs/evidence.md: our merge, the best rival and the lead, by setting."""
    records = load("comparison.json")
    of = {(r["way"], r["balance"]): r for r in records if r["kind"] == "student"}
    ours, pooled = of["our merge", "no"], of["all training data", "better"]
    leads = {r["balance"]: r for r in records if r["kind"] == "lead, student"}
    leading = ["lead", "rivals given our estimate", "both balanced", "each at its better"]
    rows = [["setting", "our merge", "best rival, as it is", *leading, "all training data"]]
    for setting in (key for key, found in ours.items() if isinstance(found, dict)):
        rival = leads["no"][setting]
        points = [f"{leads[balance][setting]['points']:+.1f}" for balance in ("no", "estimated", "yes", "better")]
        above = short(pooled[setting]["mean"]) if setting in pooled else "-"
        best = f"{short(rival['mean'])} ({rival['rival']})"
        rows.append([setting.replace("_", " "), short(ours[setting]["mean"]), best, *points, above])
    return rows


def speed() -> Rows:
    """docs/evidence.md: the median time per row over draws, and how many times as long the paper's algorithms take."""
    draws: dict[tuple[str, str], list[Record]] = {}
    for r in load("solvers.json/methods"):
        draws.setdefault((r["size"], r["method"]), []).append(r)
    rows = [["size", "method", "ours, µs per row", "its residual", "the paper's algorithm / ours", "its residual"]]
    for names, found in draws.items():
        ours = digits(median(1e6 * r["ours"] for r in found))
        worst, its_worst = (f"{max(r[key] for r in found):.0e}" for key in ("residual", "residual paper"))
        rows.append([*names, ours, worst, digits(geometric_mean(r["paper"] / r["ours"] for r in found)), its_worst])
    return rows


def students() -> Rows:
    """docs/evidence.md: soft labels beside hard ones, where teachers are calibrated and where they are not."""
    data = {"features": "Tiny-ImageNet features", "digits": "digits"}
    of = {(r["dataset"], r["student"]): r for r in load("students.json") if r["T"] == 1}
    measures = [f"{measure}, {name}" for name in data for measure in ("accuracy", "log-loss")]
    rows = [["student", "way", "time", *measures]]
    for student in dict.fromkeys(student for _, student in of):
        pair = [of[dataset, student] for dataset in data.values()]
        row = [student, pair[0]["soft"]["strategy"], f"{pair[0]['time']:.1f}"]
        for r in pair:
            row += [TO.join(short(r[kind]["accuracy"]) for kind in ("argmax", "soft"))]
            row += [TO.join(f"{r[kind]['log-loss']:.2f}" for kind in ("argmax", "soft"))]
        rows.append(row)
    return rows


def calibrated(name: str, method: str, measure: int) -> tuple[float, float]:
    """Return a mean over the trials of a setting without and with calibration; measure 0 is labels, 1 k-NN."""
    trials = load("teachers.json")[name]
    plain, auto = (mean(trial[method][way][measure] for trial in trials) for way in ("plain", "auto"))
    return plain, auto


def detection() -> Rows:
    """docs/guide/diagnosing.md: how often a warning names the teacher or the list that was broken on purpose."""
    cases = ("order", "noise", "constant", "odds", "positions", "two broken", "three broken")
    found = {r["case"]: r for r in load("findings.json") if r["part"] == "found"}
    keys = {"right problem named": "found", "wrong teacher accused": "innocent", "nothing noticed": "silent"}
    rows = [["broken by", "fits", *keys]]
    for case in cases:
        cells = [found[case].get(key) for key in keys.values()]
        rows.append([case, str(found[case]["fits"]), *("-" if v is None else f"{v:.0%}" for v in cells)])
    return rows


def lead(balance: str, which: str) -> str:
    """README.md: how many points a student of the merge is above the best alternative, over settings."""
    (record,) = [r for r in load("comparison.json") if (r["kind"], r["balance"]) == ("lead, student", balance)]
    points = [cell["points"] for cell in record.values() if isinstance(cell, dict)]
    if which in ("settings", "above"):
        return str(sum(which == "settings" or one > 0 for one in points))
    return f"{max(points) if which == 'most' else -min(points):.1f}"
