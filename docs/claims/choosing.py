"""Figures of docs/choosing.md, from digits.jsonl, students.json, defaults.json and teachers.json."""

from __future__ import annotations

from docs.claims import Rows, Sentence, digits, teachers
from docs.claims.records import load, one, pick, short

#: Worlds whose transfer set is uneven by design.
UNEVEN = "100 : 1"
STUDENTS = {
    "10 nearest neighbours": ("k nearest neighbours", "exactly, as a regressor"),
    "random forest": ("random forest", "exactly, as a regressor"),
    "logistic regression": ("logistic regression", "soft cross-entropy"),
    "XGBoost": ("XGBoost", "soft cross-entropy"),
    "LightGBM": ("LightGBM", "soft cross-entropy"),
    "CatBoost": ("CatBoost", "soft cross-entropy, compiled by numba"),
    "linear discriminant, sampled": ("any other", "labels drawn at random, on request"),
}


def students() -> Rows:
    """Return accuracy and time on digits at T = 1, beside hard labels of the same rows."""
    rows = [
        [
            "student",
            "how it learns",
            "accuracy",
            "on the most probable class",
            "supervised",
            "time, relative to hard labels",
        ]
    ]
    records = pick("students.json", dataset="digits", T=1.0)
    for key, (name, how) in STUDENTS.items():
        record = one(records, student=key)
        cells = [short(record[way]["accuracy"]) for way in ("soft", "argmax", "true")]
        rows.append([name, how, *cells, f"{record['soft']['seconds'] / record['argmax']['seconds']:.1f} times"])
    return rows


def tables() -> dict[str, Rows]:
    """Return all tables of the page."""
    return {"students": students()}


def sentences() -> list[Sentence]:
    """Return the sentences of the page with figures."""
    knn = {m: digits.accuracy(3, "10-NN", 3, True, m) for m in digits.METHODS}
    four = [knn[m] for m in digits.OURS]
    plain = [(low, s, T, False) for low, _ in digits.SIZES for s in ("forest", "10-NN") for T in (1, 3)]
    naive = [100 * (digits.accuracy(*c, m) - digits.accuracy(*c, "sd")) for c in plain for m in digits.OURS]
    free = [100 * (digits.accuracy(*c, "mf_lu") - digits.accuracy(*c, "mf_lf")) for c in plain]
    lists = [digits.accuracy(low, "10-NN", 1, True, "ce") for low, _ in digits.SIZES]
    defaults = load("defaults.json")
    even = [r for r in pick(defaults, kind="world") if not r["world"].startswith(UNEVEN)]
    balance = [100 * (r["mf_lf_1"] - r["plain"]) for r in even]
    setting = {r["setting"]: r["accuracy"] for r in pick(defaults, kind="setting")}
    two = 100 * (setting["CE, T = 1"] - setting["CE, T = 2"])
    one_three = 100 * (setting["MF-LF, T = 1"] - setting["MF-LF, T = 3 (the defaults before)"])
    mixtures = [n for n in teachers.settings() if n not in teachers.NOT_GAINING and ("mixed" in n or "votes" in n)]
    calibrated = [teachers.gain(n, m) for n in mixtures for m in ("mf_lf", "ce")]
    return [
        ("on digits {:+.0f} to {:+.0f} points against MF-LF without balance", min(free), max(free)),
        ("{:.0f} to {:.0f} points worse without balance", min(naive), max(naive)),
        ("reach {:z.3f} to {:z.3f}, and SD {:z.3f}", min(four), max(four), knn["sd"]),
        ("T = 1 is {:.1f} points more accurate than T = 3", one_three),
        ("{:.1f} points less accuracy", two),
        ("balance changed accuracy by {:+.0f} to {:+.0f} points", min(balance), max(balance)),
        ("{:z.3f} with lists of 2 to 5 classes, {:z.3f} with 3 to 5, {:z.3f} with 4 to 7, against {:z.3f} supervised",
         *lists, digits.accuracy(4, "10-NN", 1, True, "supervised")),
        ("makes {:.1f} to {:.0f} points more soft labels right", min(calibrated), max(calibrated)),
        ("In log-loss yes on image features ({:d} of {:d} students", *better_in_log_loss("Tiny-ImageNet features", 1.0)),
        ("on digits at T = 1 for {:d} of {:d}", *better_in_log_loss("digits", 1.0)),
    ]  # fmt: skip


def better_in_log_loss(dataset: str, T: float) -> tuple[int, int]:
    """Return for how many students soft labels give a lower log-loss than argmax labels, and how many were measured."""
    found = [
        r for r in pick("students.json", dataset=dataset, T=T) if "log-loss" in r["soft"] and "log-loss" in r["argmax"]
    ]
    return sum(round(r["soft"]["log-loss"], 2) < round(r["argmax"]["log-loss"], 2) for r in found), len(found)
