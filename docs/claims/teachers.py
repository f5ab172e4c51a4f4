"""Figures of docs/teachers.md, from docs/teachers.json."""

from __future__ import annotations

from statistics import mean as average
from typing import Any

from docs.claims import Rows, Sentence
from docs.claims.records import load, short

METHODS = {"mf_lf": "MF-LF", "ce": "CE", "mf_p": "MF-P", "mf_lu": "MF-LU", "sd": "SD"}
LABELS, NEIGHBORS, NEIGHBORS_LOSS, MERGE_LOSS, MERGE_ECE, LOGISTIC = range(6)
#: Mixtures that "auto" calibrates, in which teachers differ in kind.
NOT_GAINING = ("digits, mixed, 10 of 2", "wine, mixed, 3 of 2-3")
#: An arrow that does not break the line.
TO = "\u00a0→\u00a0"
KINDS = ("mixed", "votes", "networks")


def settings() -> list[str]:
    """Return the names of the settings of the first table."""
    return [name for name, trials in load("teachers.json").items() if "floors" in str(trials[0])]


def measured(name: str, method: str, way: str, measure: int) -> float:
    """Return a mean over the trials of a setting."""
    return average(trial[method][way][measure] for trial in load("teachers.json")[name])


def best_floor(name: str, method: str) -> float:
    """Return the accuracy of labels with the best of the constant floors."""
    trials = [trial[method]["floors"] for trial in load("teachers.json")[name]]
    return max(average(column) for column in zip(*trials, strict=True))


def gain(name: str, method: str, measure: int = LABELS) -> float:
    """Return the points that calibration gains."""
    return 100 * (measured(name, method, "auto", measure) - measured(name, method, "plain", measure))


def calibration() -> Rows:
    """Return the table without and with calibration."""
    rows = [
        [
            "teachers",
            "method",
            "labels",
            "best floor",
            "k-NN",
            "logistic",
            "k-NN log-loss",
            "merge log-loss",
            "merge ECE",
        ]
    ]
    for name in settings():
        for method in ("mf_lf", "ce"):
            pairs = [
                f"{short(measured(name, method, 'plain', k))}{TO}{short(measured(name, method, 'auto', k))}"
                for k in (LABELS, NEIGHBORS, LOGISTIC, NEIGHBORS_LOSS, MERGE_LOSS, MERGE_ECE)
            ]
            rows.append([name, METHODS[method], pairs[0], short(best_floor(name, method)), *pairs[1:]])
    return rows


def both(values: dict[str, float], sign: bool = False) -> str:
    """Return figures of MF-LF and CE."""
    texts = [short(values[method]) for method in ("mf_lf", "ce")]
    return " / ".join(f"+{t}" if sign and not t.startswith("-") else t for t in texts)


def overlap() -> Rows:
    """Return the gain by spare comparisons."""
    rows = [["spare comparisons per teacher", *KINDS]]
    for name, low, high in (("below 1/2", -1, 0.5), ("1/2 to 1", 0.5, 1), ("1 and more", 1, 99)):
        cells, count = [], 0
        for kind in KINDS:
            found = [row for trial in load("teachers.json")[f"overlap, {kind}"] for row in trial]
            found = [row for row in found if low <= row["spare"] < high]
            count = len(found)
            cells.append(both({m: average(row[m] for row in found) for m in ("mf_lf", "ce")}, sign=True))
        rows.append([f"{name} ({count} trials)", *cells])
    return rows


def cases(kind: str) -> list[dict[str, Any]]:
    """Return the cases with a broken teacher."""
    return [row for trial in load("teachers.json")[f"noise, {kind}"] for row in trial]


def broken_mean(kind: str, way: str) -> dict[str, float]:
    """Return the mean accuracy of labels by method."""
    return {method: average(row[method][way] for row in cases(kind)) for method in ("mf_lf", "ce")}


def broken() -> Rows:
    """Return the table of a broken teacher."""
    ways = {
        "five": "the five good ones alone",
        "five, calibrated": "the same, calibrated",
        "noisy": "all six",
        "noisy, calibrated": "all six, calibrated",
        "noisy, agreement": 'all six, calibrated, `teacher_weight="agreement"`',
    }
    rows = [["teachers", *KINDS]]
    return rows + [[name, *(both(broken_mean(kind, way)) for kind in KINDS)] for way, name in ways.items()]


def silent_mean(kind: str, method: str, way: str, measure: int) -> float:
    """Return labels, student or seconds."""
    return average(trial[method][way][measure] for trial in load("teachers.json")[f"silence, {kind}"])


def silent() -> Rows:
    """Return the table of a silent teacher."""
    rows = [["method", "teachers", "labels", "student", "milliseconds"]]
    for kind in ("mixed", "networks"):
        for method, name in METHODS.items():
            pair = {k: [silent_mean(kind, method, way, k) for way in ("complete", "silent")] for k in (0, 1, 2)}
            cells = [TO.join(short(value) for value in pair[k]) for k in (0, 1)]
            rows.append([name, kind, *cells, TO.join(f"{1000 * value:.0f}" for value in pair[2])])
    return rows


def tables() -> dict[str, Rows]:
    """Return all tables of the page."""
    return {"calibration": calibration(), "overlap": overlap(), "broken": broken(), "silent": silent()}


def sentences() -> list[Sentence]:
    """Return the sentences of the page with figures."""
    mixtures = [n for n in settings() if n not in NOT_GAINING and ("mixed" in n or "votes" in n)]
    labels, logistic, neighbors = (
        [gain(name, method, k) for name in mixtures for method in ("mf_lf", "ce")]
        for k in (LABELS, LOGISTIC, NEIGHBORS)
    )
    networks = [
        abs(gain("digits, networks, 6 of 3-5", m, k)) for m in ("mf_lf", "ce") for k in (LABELS, NEIGHBORS, LOGISTIC)
    ]
    kept = [
        100 * (broken_mean(kind, "five, calibrated")[m] - broken_mean(kind, "noisy, agreement")[m])
        for kind in KINDS
        for m in ("mf_lf", "ce")
    ]
    lost = [100 * (broken_mean(k, "five")[m] - broken_mean(k, "noisy")[m]) for k in KINDS for m in ("mf_lf", "ce")]
    all_cases = [row for kind in KINDS for row in cases(kind)]
    return [
        ("makes up to {:.0f} points more labels right", max(labels)),
        ("Mixed teachers gain {:.1f} to {:.0f} points of label accuracy", min(labels), max(labels)),
        (
            "logistic regression {:.1f} to {:.1f} points, k-NN {:.1f} to {:.1f}",
            min(logistic),
            max(logistic),
            min(neighbors),
            max(neighbors),
        ),
        ("change by {:.1f} points or less", max(networks)),
        ("lose up to {:.0f} points", max(lost)),
        ("within {:.1f} points of the five good teachers", max(kept)),
        ("identified in {:d} of {:d} cases", sum(row["found"] for row in all_cases), len(all_cases)),
    ]
