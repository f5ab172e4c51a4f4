"""Figures of the main experiment and of the sensitivity studies, legible in black and white too."""

from __future__ import annotations

from textwrap import fill
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from benchmarks.paper.published import METHODS, Column
from benchmarks.paper.records import Trials, in_order
from benchmarks.paper.statistics import bootstrap_interval
from benchmarks.paper.tables import grouped

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

AXES = {
    "size": "number of unlabelled samples",
    "temperature": "temperature T",
    "accuracy": "accuracy of the teachers",
}
#: The methods of the paper's own sensitivity study.
REPRESENTATIVES = ["SD", "SD-BS", "MF-P-BP", "MF-LF-BS", "CE-BS"]


class Style(NamedTuple):
    """How a line looks: any two of one panel differ in each of the three."""

    color: str
    marker: str
    dash: Any


# By loss: a panel never has two methods of one loss, but for SD and SD-BS. Colours are Okabe and Ito's.
_STYLES = {
    "SPV": Style("#000000", "x", (0, (1, 1))),
    "SD": Style("#777777", "o", (0, (1, 2))),
    "SD-BS": Style("#E69F00", "v", (0, (5, 2, 1, 2, 1, 2))),
    "CE": Style("#0072B2", "^", (0, (6, 2, 1, 2))),
    "MF-P": Style("#D55E00", "s", (0, (3, 2))),
    "MF-LU": Style("#CC79A7", "P", (0, (8, 3))),
    "MF-LF": Style("#009E73", "D", "solid"),
}
_FURTHER = [
    Style("#56B4E9", "<", (0, (4, 1, 1, 1))),
    Style("#A07000", ">", (0, (2, 1))),
    Style("#882255", "*", (0, (9, 1))),
]
_GROUP_COLORS = {"(A)": "#0072B2", "(B)": "#D55E00", "(C)": "#009E73"}


def style(method: str, others: list[str]) -> Style:
    """Return the style of a method; `others` are the methods that the paper does not have."""
    if method in others:
        return _FURTHER[others.index(method) % len(_FURTHER)]
    return _STYLES[_look(method)]


def _look(method: str) -> str:
    """Return what a method of the paper is styled by: its loss, but for SPV, SD and SD-BS."""
    return method if method in _STYLES else method.rpartition("-")[0]


def draw_differences(trials: Trials, paper: Column | None, title: str) -> Figure:
    """Draw each trial's difference to SPV (to SD without SPV), the means and the paper's means, a row per method."""
    from matplotlib.figure import Figure

    base = "SPV" if "SPV" in trials.methods else "SD"
    groups = grouped([method for method in trials.methods if method != base])
    methods = [method for members in groups.values() for method in members]
    figure = Figure(figsize=(8, 1.6 + 0.36 * len(methods)), layout="constrained")
    axes = figure.subplots()
    axes.axvline(0, color="black", linewidth=0.8)
    for group, members in groups.items():
        for method in members:
            difference = 100 * (trials.get("accuracy", method) - trials.get("accuracy", base))
            _draw_row(axes, methods.index(method), difference, _GROUP_COLORS.get(group[:3], "#777777"))
    if paper:
        known = [method for method in methods if method in paper.accuracy]
        x = [100 * (paper.accuracy[method] - paper.accuracy[base]) for method in known]
        y = [methods.index(method) + 0.3 for method in known]
        axes.plot(x, y, "d", color="black", markerfacecolor="white", markersize=5, label=f"paper: {paper.title}")
    _frame_rows(axes, groups, methods)
    axes.set_xlabel(f"accuracy minus that of {base}, percentage points")
    axes.set_title(title, fontsize=10)
    figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False, fontsize=8)
    return figure


def _draw_row(axes: Axes, row: int, difference: Any, color: str) -> None:
    """Draw the trials of one method, their mean and its confidence interval."""
    mean, interval = ("mean", "its 95 % bootstrap interval") if row == 0 else (None, None)  # once in the legend
    jitter = np.random.default_rng(row).uniform(-0.18, 0.18, len(difference))
    axes.plot(difference, row + jitter, ".", color=color, alpha=0.35, markersize=5, markeredgewidth=0)
    axes.plot([difference.mean()], [row], "|", color="black", markersize=11, markeredgewidth=2, label=mean)
    axes.plot(bootstrap_interval(difference), [row, row], "-", color="black", linewidth=2, label=interval)


def _frame_rows(axes: Axes, groups: dict[str, list[str]], methods: list[str]) -> None:
    """Name the rows and the groups, the first row at the top."""
    axes.set_yticks(range(len(methods)), methods)
    axes.set_ylim(len(methods) - 0.4, -0.6)
    end = 0
    for title, members in groups.items():
        place = (1.01, end + (len(members) - 1) / 2)
        axes.annotate(fill(title, 15), place, xycoords=("axes fraction", "data"), va="center", fontsize=8)
        end += len(members)
        axes.axhline(end - 0.5, color="#bbbbbb", linewidth=0.8)
    axes.grid(axis="x", color="#e5e5e5")
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def draw_study(study: str, values: list[tuple[float, Trials]], title: str) -> Figure:
    """Draw accuracy against the value of a sensitivity study, with 95 % confidence bands over trials.

    The paper's five methods share one panel. With more methods there is a panel for each of the table's groups, with
    SPV and SD in all of them.
    """
    from matplotlib.figure import Figure

    panels = study_panels(in_order({method for _, trials in values for method in trials.methods}))
    figure = Figure(figsize=(1.6 + 3.7 * max(len(panels), 1.3), 4.2), layout="constrained")
    all_axes = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    others = [method for method in panels.get("Others", []) if method not in METHODS]
    for axes, (name, methods) in zip(all_axes, panels.items(), strict=True):
        for method in methods:
            _draw_curve(axes, method, values, style(method, others))
        axes.set_title(name, fontsize=10)
        _frame_study(axes, study, [value for value, _ in values])
    all_axes[0].set_ylabel("accuracy")
    figure.suptitle(title, fontsize=10)
    lines = {line.get_label(): line for axes in all_axes for line in axes.lines}
    # With a panel per group one name per loss will do: the panel's title says the rest.
    names = {(m if len(panels) == 1 or m in others else _look(m)): lines[m] for m in in_order(lines)}
    figure.legend(names.values(), names, loc="outside right center", frameon=False, fontsize=9, handlelength=4)
    return figure


def study_panels(methods: list[str]) -> dict[str, list[str]]:
    """Split methods into panels that can be read."""
    shared = [method for method in methods if method in ("SPV", "SD")]
    if set(methods) <= {"SPV", *REPRESENTATIVES}:
        return {"": methods}
    return {title: shared + members for title, members in grouped(methods).items() if title}


def _draw_curve(axes: Axes, method: str, values: list[tuple[float, Trials]], look: Style) -> None:
    """Draw one method: its means, its band."""
    here = [(value, trials.get("accuracy", method)) for value, trials in values if method in trials.methods]
    x = [value for value, _ in here]
    bands = np.transpose([bootstrap_interval(accuracy) for _, accuracy in here])
    axes.fill_between(x, *bands, color=look.color, alpha=0.15, linewidth=0)
    means = [accuracy.mean() for _, accuracy in here]
    axes.plot(x, means, color=look.color, marker=look.marker, linestyle=look.dash, markersize=6, label=method)


def _frame_study(axes: Axes, study: str, values: list[float]) -> None:
    """Name the axis and put a tick at each value."""
    if study == "size":
        axes.set_xscale("log")
    axes.set_xticks(values, [f"{value / 1000:g}k" if value >= 1000 else f"{value:g}" for value in values])
    axes.minorticks_off()
    axes.set_xlabel(AXES.get(study, study))
    axes.grid(color="#e5e5e5")
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
