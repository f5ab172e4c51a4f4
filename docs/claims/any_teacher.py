"""Figures of docs/any_teacher.md, from docs/onnx_teachers.json."""

from __future__ import annotations

from docs.claims import Rows
from docs.claims.records import load, mean, pick

NAMES = {
    "forest": "forest, 100 trees",
    "logistic Pipeline": "logistic regression in a Pipeline",
    "LightGBM": "LightGBM, 100 rounds",
    "XGBoost": "XGBoost, 100 rounds",
    "CNN": "CNN, two convolutions (`TorchTeacher`)",
}


def onnx() -> Rows:
    """Return time, size and memory of originals and ONNX files."""
    memory = "memory, MB: "
    rows = [["teacher", "original, µs per row", "ONNX / original", "file, kB", f"{memory}original", f"{memory}ONNX"]]
    found = load("onnx_teachers.json")
    for key, name in NAMES.items():
        trials = pick(found["times"], teacher=key)
        ratios = [ratio for trial in trials for ratio in trial["ratio"].values()]
        cells = [
            f"{mean(trials, 'µs a row'):.2g}" if mean(trials, "µs a row") < 10 else f"{mean(trials, 'µs a row'):.0f}"
        ]
        cells += [f"{min(ratios):.2f} to {max(ratios):.2f}", f"{mean(trials, 'kB'):.0f}"]
        grown = [[max(0.0, value) for value in found["memory"][f"{key}, {kind}"]] for kind in ("original", "ONNX")]
        rows.append([name, *cells, *(f"{few:.0f} → {many:.0f}" for few, many in grown)])
    return rows


def tables() -> dict[str, Rows]:
    """Return all tables of the page."""
    return {"onnx": onnx()}
