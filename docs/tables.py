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
KINDS = ("mixed", "votes", "networks")
METHODS = {"mf_lf": "MF-LF", "ce": "CE", "mf_p": "MF-P", "mf_lu": "MF-LU", "sd": "SD"}

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


def speed() -> Rows:
    """docs/solvers.md: the median time per row over draws, and the geometric mean of multiples of it."""
    keys = {"plain loop": "paper, plain loop", "scipy": "scipy", "CVXPY": "cvxpy"}
    keys |= {"torch": "torch", "float32": "float32", "product": "least"}
    draws: dict[tuple[str, str], list[Record]] = {}
    for r in load("solvers.json/methods"):
        draws.setdefault((r["size"], r["method"]), []).append(r)

    def times(found: list[Record], key: str) -> str:
        ratios = [r[key] / r["ours"] for r in found if r.get(key)]
        return digits(geometric_mean(ratios)) if ratios else ""

    rows = [["size", "method", "ours, µs", "residual", "paper", "its residual", *keys]]
    for names, found in draws.items():
        ours = digits(median(1e6 * r["ours"] for r in found))
        worst, its_worst = (f"{max(r[key] for r in found):.0e}" for key in ("residual", "residual paper"))
        rows.append([*names, ours, worst, times(found, "paper"), its_worst, *(times(found, k) for k in keys.values())])
    return rows


def calibrated(name: str, method: str, measure: int) -> tuple[float, float]:
    """Return a mean over the trials of a setting without and with calibration; measure 0 is labels, 1 k-NN."""
    trials = load("teachers.json")[name]
    plain, auto = (mean(trial[method][way][measure] for trial in trials) for way in ("plain", "auto"))
    return plain, auto


def calibration() -> Rows:
    """docs/teachers.md: accuracy and log-loss without and with calibration."""
    measures = {"k-NN": 1, "logistic": 5, "k-NN log-loss": 2, "merge log-loss": 3, "merge ECE": 4}
    rows = [["teachers", "method", "labels", "best floor", *measures]]
    for name, trials in load("teachers.json").items():
        for method in ("mf_lf", "ce") if "floors" in str(trials[0]) else ():
            floors = zip(*(trial[method]["floors"] for trial in trials), strict=True)
            labels, *pairs = (TO.join(map(short, calibrated(name, method, k))) for k in (0, *measures.values()))
            rows.append([name, METHODS[method], labels, short(max(map(mean, floors))), *pairs])
    return rows


def both(records: list[Record], sign: str = "") -> str:
    """Return means of MF-LF and CE; with a sign, of a gain."""
    texts = [short(mean(r[method] for r in records)) for method in ("mf_lf", "ce")]
    return " / ".join(t if t.startswith("-") else sign + t for t in texts)


def overlap() -> Rows:
    """docs/teachers.md: the gain of calibration by spare comparisons."""
    trials = {kind: [r for trial in load("teachers.json")[f"overlap, {kind}"] for r in trial] for kind in KINDS}
    rows = [["spare comparisons per teacher", *KINDS]]
    for name, low, high in (("below 1/2", -1, 0.5), ("1/2 to 1", 0.5, 1), ("1 and more", 1, 99)):
        found = [[r for r in trials[kind] if low <= r["spare"] < high] for kind in KINDS]
        rows.append([f"{name} ({len(found[-1])} trials)", *(both(some, "+") for some in found)])
    return rows


def broken() -> Rows:
    """docs/teachers.md: a teacher that answers at random."""
    ways = {
        "five": "the five good ones alone",
        "five, calibrated": "the same, calibrated",
        "noisy": "all six",
        "noisy, calibrated": "all six, calibrated",
        "noisy, agreement": 'all six, calibrated, `teacher_weight="agreement"`',
    }
    cases = {kind: [r for trial in load("teachers.json")[f"noise, {kind}"] for r in trial] for kind in KINDS}
    rows = [["teachers", *KINDS]]
    for way, name in ways.items():
        cells = [both([{m: r[m][way] for m in ("mf_lf", "ce")} for r in cases[kind]]) for kind in KINDS]
        rows.append([name, *cells])
    return rows


def silent() -> Rows:
    """docs/teachers.md: a teacher that leaves rows unanswered."""
    rows = [["method", "teachers", "labels", "student", "milliseconds"]]
    for kind in ("mixed", "networks"):
        trials = load("teachers.json")[f"silence, {kind}"]
        for method, name in METHODS.items():
            means = [[mean(t[method][way][k] for t in trials) for way in ("complete", "silent")] for k in range(3)]
            cells = [TO.join(map(short, pair)) for pair in means[:2]]
            rows.append([name, kind, *cells, TO.join(f"{1000 * value:.0f}" for value in means[2])])
    return rows


def names() -> Rows:
    """docs/label_lists.md: suggestions of names, by what they come from."""
    said, there = "right / suggested", "found / to find"
    rows = [["", f"spelling: {said}", there, f"same answers: {said}", there, f"parts: {said}", there]]
    kinds = {"spelling": ("spelling", "same"), "answers": ("renamed", "same"), "parts": ("coarse", "parts")}
    for name, data in {"digits": "digits", "Fashion-MNIST": "fashion", "texts": "texts", "all": ""}.items():
        records = [r for r in load("names.jsonl") if data in r["data"]]
        cells = []
        for kind, (task, count) in kinds.items():
            made = [(s["right"], r["task"] == task) for r in records for s in r["suggestions"] if s["kind"] == kind]
            wanted = sum(r["to_find"][count] for r in records if r["task"] == task)
            cells += [f"{sum(right for right, _ in made)} / {len(made)}", f"{made.count((True, True))} / {wanted}"]
        rows.append([name, *cells])
    return rows
