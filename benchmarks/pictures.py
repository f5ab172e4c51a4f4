"""Draw the pictures of the benchmarks from their result files: dots, with intervals where there are trials.

    python -m benchmarks.pictures [defaults] [solvers] [students] [teachers]

Reads NAME.json in benchmarks/results and writes NAME.png into docs/images.
Colours are those of all plots (`sklearn_uhc.inspection.plots.style`).
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
from scipy.stats import t

from sklearn_uhc.inspection.plots.style import CONTRAST, GUIDE, INK, MAIN, PALETTE

RESULTS = Path(__file__).parent / "results"
IMAGES = Path(__file__).parent.parent / "docs" / "images"


def prepare(axes: Any, names: list[str], center: float, title: str) -> None:
    """Set up a panel with a line per name, and a line where nothing differs."""
    axes.axvline(center, color=INK, linewidth=1)
    axes.set_title(title, fontsize=10, color=INK)
    axes.set_yticks(range(len(names)), names, fontsize=8.5)
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.grid(axis="x", color="#e3e3e3", linewidth=0.7)
    axes.set_axisbelow(True)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(length=0, labelsize=8.5, colors=INK)


def dot(axes: Any, x: float, y: float, color: str, marker: str = "o", label: str | None = None) -> None:
    """Draw one value."""
    axes.plot(
        [x], [y], marker, color=color, markersize=5.5 if marker == "D" else 6, linestyle="none", label=label, zorder=3
    )


def interval(axes: Any, values: list[float], y: float, color: str) -> tuple[float, float]:
    """Draw the 95 % interval (t) of a mean; return mean and half-width."""
    mean = float(np.mean(values))
    n = len(values)
    half = float(t.ppf(0.975, n - 1) * np.std(values, ddof=1) / np.sqrt(n)) if n > 1 else 0.0
    axes.plot([mean - half, mean + half], [y, y], color=color, linewidth=2, solid_capstyle="round", zorder=2)
    return mean, half


def log_interval(ratios: list[float]) -> tuple[float, float]:
    """Return the geometric mean of ratios, and the factor of its 95 % interval (t); 1 for fewer than three."""
    logs, n = np.log(ratios), len(ratios)
    half = t.ppf(0.975, n - 1) * np.std(logs, ddof=1) / np.sqrt(n) if n > 2 else 0.0
    return float(np.exp(np.mean(logs))), float(np.exp(half))


def factors(axes: Any, ticks: list[float]) -> None:
    """Make the axis one of ratios."""
    axes.set_xscale("log")
    axes.set_xticks(ticks, [f"{tick:,g}" for tick in ticks])
    axes.minorticks_off()


def ratio_interval(axes: Any, ratios: list[float], y: float, color: str) -> float:
    """Draw the 95 % interval (t) of the geometric mean of ratios; return that mean."""
    logs = np.log(ratios)
    mean, n = float(logs.mean()), len(logs)
    half = float(t.ppf(0.975, n - 1) * logs.std(ddof=1) / np.sqrt(n)) if n > 1 else 0.0
    ends = np.exp([mean - half, mean + half])
    axes.plot(ends, [y, y], color=color, linewidth=2, solid_capstyle="round", zorder=2)
    return float(np.exp(mean))


def draw_solvers(found: dict[str, Any], path: Path) -> None:
    """How many times as long as ours the alternatives take, by size and method, with intervals over draws."""
    rows = found["methods"]
    sizes, methods = (list(dict.fromkeys(row[key] for row in rows)) for key in ("size", "method"))
    ways = {
        "paper": ("the paper's algorithm", CONTRAST, "o"),
        "paper, plain loop": ("the same, without dropping finished rows", PALETTE[4], "s"),
        "scipy": ("scipy, row by row", PALETTE[2], "^"),
        "cvxpy": ("CVXPY, row by row", PALETTE[3], "D"),
        "least": ("one dense product of all columns", GUIDE, "v"),
    }
    figure, panels = plt.subplots(1, len(sizes), figsize=(9.2, 3.6), sharex=True, sharey=True, layout="constrained")
    for axes, size in zip(panels, sizes, strict=True):
        prepare(axes, methods, 1, size)
        factors(axes, [0.01, 1, 100])
        for (y, method), (k, (key, (label, color, marker))) in product(enumerate(methods), enumerate(ways.items())):
            here = [row for row in rows if (row["size"], row["method"]) == (size, method)]
            ratios = [row[key] / row["ours"] for row in here if row.get(key)]
            if ratios:
                at = y + 0.13 * (k - 2)
                dot(axes, ratio_interval(axes, ratios, at, color), at, color, marker, label)
    seen: dict[str, Any] = {}
    for axes in panels:
        seen |= dict(zip(*axes.get_legend_handles_labels()[::-1], strict=True))
    order = [label for label, *_ in ways.values() if label in seen]
    figure.legend(
        [seen[label] for label in order], order, loc="outside upper center", ncols=3, fontsize=8.5, frameon=False
    )
    figure.supxlabel(
        "time relative to ours (the line at 1): mean of several draws, with the 95 % interval where it is wide enough "
        "to be seen",
        fontsize=9,
    )
    figure.savefig(path, dpi=130)


def draw_students(rows: list[dict[str, Any]], path: Path) -> None:
    """Time and log-loss of soft labels relative to argmax labels, with intervals, by dataset and temperature."""
    panels = sorted({(row["dataset"], row["T"]) for row in rows})
    names = list(dict.fromkeys(row["student"] for row in rows))
    figure, grid = plt.subplots(
        2, len(panels), figsize=(9.6, 8.4), sharex="row", sharey=True, squeeze=False, layout="constrained"
    )
    for column, (dataset, temperature) in enumerate(panels):
        here = [r for r in rows if (r["dataset"], r["T"]) == (dataset, temperature)]
        for axes, key, word in ((grid[0, column], "seconds", "time"), (grid[1, column], "log-loss", "log-loss")):
            prepare(axes, names, 1, f"{word}: {dataset}, T = {temperature:g}")
            factors(axes, [0.2, 0.5, 1, 2, 5, 10, 100] if key == "seconds" else [0.1, 0.2, 0.5, 1, 2])
            for row in here:
                y, color = names.index(row["student"]), MAIN
                if row[f"{key} ratios"]:
                    center, half = log_interval(row[f"{key} ratios"])
                    color = MAIN if center <= 1 else CONTRAST
                    axes.plot([center / half, center * half], [y, y], color=color, linewidth=2, alpha=0.6, zorder=2)
                    dot(axes, center, y, color)
    figure.supxlabel(
        "soft labels relative to argmax labels, with the 95 % interval over seeds; left of 1 (blue): soft labels are "
        "better, right of 1 (orange): worse",
        fontsize=9,
    )
    figure.savefig(path, dpi=120)


def draw_teachers(found: dict[str, Any], path: Path) -> None:
    """Points that calibration gains, with intervals over trials."""
    names = [
        name for name, trials in found.items() if isinstance(trials[0], dict) and "floors" in trials[0].get("ce", {})
    ]
    figure, panels = plt.subplots(1, 3, figsize=(9, 5), sharey=True, layout="constrained")
    for axes, (k, title) in zip(
        panels, {0: "merged labels", 1: "k-NN student", 5: "logistic student"}.items(), strict=True
    ):
        prepare(axes, names, 0, title)
        for shift, (method, label, color) in enumerate((("mf_lf", "MF-LF", MAIN), ("ce", "CE", CONTRAST))):
            for row, name in enumerate(names):
                gains = [100 * (trial[method]["auto"][k] - trial[method]["plain"][k]) for trial in found[name]]
                y = row + 0.26 * shift - 0.13
                mean, _ = interval(axes, gains, y, color)
                dot(axes, mean, y, color, "os"[shift], label if row == 0 and k == 0 else None)
    figure.legend(loc="outside upper center", ncols=2, fontsize=9, frameon=False)
    figure.supxlabel("points of accuracy gained by calibration, with the 95 % interval over trials", fontsize=9)
    figure.savefig(path, dpi=130)


def draw_defaults(found: list[dict[str, Any]], path: Path) -> None:
    """Points above the best fixed setting of each kind of data, mean of the students."""
    rows = [r for r in found if r["part"] == "kind" and r["student"] == "all students"]
    figure, axes = plt.subplots(figsize=(8, 7), layout="constrained")
    prepare(axes, [r["kind"] for r in rows], 0, "")
    ways = {"default": ("o", MAIN), "told": ("D", CONTRAST), "30 labels": ("D", PALETTE[2])}
    names = {"default": "the defaults", "told": "class_prior told", "30 labels": "30 labels"}
    for y, row in enumerate(rows):
        for way, (marker, color) in ways.items():
            dot(axes, row[f"{way} above"], y, color, marker, names[way] if y == 0 else None)
    figure.legend(loc="outside upper center", ncols=3, fontsize=9, frameon=False)
    figure.supxlabel("points above the best fixed setting of this kind of data, mean of three students", fontsize=9)
    figure.savefig(path, dpi=110)


PICTURES: dict[str, Callable[[Any, Path], None]] = {
    "defaults": draw_defaults,
    "solvers": draw_solvers,
    "students": draw_students,
    "teachers": draw_teachers,
}


def draw(name: str) -> None:
    """Draw a picture from its result file."""
    PICTURES[name](json.loads((RESULTS / f"{name}.json").read_text()), IMAGES / f"{name}.png")
    plt.close("all")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", choices=[[], *PICTURES], default=[], metavar="NAME")
    for wanted in parser.parse_args().names or PICTURES:
        draw(wanted)
