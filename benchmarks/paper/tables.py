"""Tables of results, written as Markdown and as LaTeX."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from benchmarks.paper.published import GROUPS, METHODS, Column
from benchmarks.paper.records import Trials, in_order
from benchmarks.paper.statistics import Comparison, compare, standard_error

NONE = "-"  #: stands where there is no value


class Cell(NamedTuple):
    """Text of a cell; `mark` is "best", "same" (as the best) or ""."""

    text: str
    mark: str = ""


@dataclass
class Table:
    """Rows of cells in titled groups; the first column is text, the others are numbers."""

    caption: str
    head: list[str]
    groups: dict[str, list[list[Cell]]] = field(default_factory=dict)

    def markdown(self) -> str:
        """Return the table as Markdown, the caption below it."""
        lines = [_markdown_row(self.head), "|---" + "|---:" * (len(self.head) - 1) + "|"]
        for title, rows in self.groups.items():
            if title:
                lines.append(_markdown_row([f"*{title}*"] + [""] * (len(self.head) - 1)))
            lines += [_markdown_row([_MARKDOWN[cell.mark].format(cell.text) for cell in row]) for row in rows]
        return "\n".join([*lines, "", self.caption, ""])

    def latex(self) -> str:
        """Return the table as LaTeX; it needs the package booktabs."""
        lines = [r"\begin{table}\centering\small", rf"\caption{{{tex(self.caption)}}}"]
        lines += [rf"\begin{{tabular}}{{l{'r' * (len(self.head) - 1)}}}", r"\toprule", _latex_row(map(tex, self.head))]
        for title, rows in self.groups.items():
            lines.append(r"\midrule")
            if title:
                lines.append(rf"\multicolumn{{{len(self.head)}}}{{l}}{{\emph{{{tex(title)}}}}} \\")
            lines += [_latex_row(_LATEX[cell.mark] % _number(cell.text) for cell in row) for row in rows]
        return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", r"\end{table}", ""])


_MARKDOWN = {"best": "<u>**{}**</u>", "same": "**{}**", "": "{}"}
_LATEX = {"best": r"\underline{\textbf{%s}}", "same": r"\textbf{%s}", "": "%s"}
_TEX = {"\\": r"\textbackslash{}", "<": r"$<$", ">": r"$>$", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
_TEX |= {"±": r"$\pm$"} | {sign: "\\" + sign for sign in "&%$#_{}"}


def tex(text: str) -> str:
    """Escape text for LaTeX."""
    return "".join(_TEX.get(letter, letter) for letter in text)


def _number(text: str) -> str:
    """Escape a cell; a sign becomes mathematics, so that a minus is not a hyphen."""
    signed = text[:1] in "+-" and text[1:2].isdigit()
    return f"${text}$" if signed else tex(text)


def _markdown_row(cells: list[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _latex_row(cells: Iterable[str]) -> str:
    return " & ".join(cells) + r" \\"


def decimals(value: float | None, digits: int = 4) -> str:
    """Write a number as the paper does, without the zero before the point."""
    if value is None:
        return NONE
    text = f"{value:.{digits}f}"
    return text[1:] if text.startswith("0.") else text


def points(difference: float | None) -> str:
    """Write a difference of accuracies in percentage points."""
    return NONE if difference is None else f"{100 * difference:+.1f}"


def p_value(p: float) -> str:
    """Write a p-value, without a space or a hyphen at which a narrow page could break it."""
    return decimals(p, 3) if p >= 0.001 else "<.001"


def grouped(methods: list[str]) -> dict[str, list[str]]:
    """Put methods into the paper's groups and the rest into a group of their own."""
    groups = {title: [m for m in members if m in methods] for title, members in GROUPS.items()}
    groups["Others"] = [m for m in methods if m not in METHODS]
    return {title: members for title, members in groups.items() if members}


def main_table(trials: Trials, paper: Column | None, caption: str) -> Table:
    """Return the paper's table for one setting, with the paper's own column beside ours."""
    head = ["method", "accuracy", "std. error", "vs SPV", "vs SD", "p", "paper", "log-loss", "seconds"]
    table, comparison = Table(caption, head), compare(trials)
    for title, methods in grouped(trials.methods).items():
        table.groups[title] = [_main_row(method, trials, comparison, paper) for method in methods]
    return table


def _main_row(method: str, trials: Trials, comparison: Comparison, paper: Column | None) -> list[Cell]:
    """Return one line of the main table."""
    mean, loss, seconds = (trials.mean(name, method) for name in ("accuracy", "log_loss", "seconds"))
    published = paper.accuracy.get(method) if paper else None
    cells = [Cell(method), Cell(decimals(mean), comparison.mark(method))]
    cells.append(Cell(decimals(standard_error(trials.get("accuracy", method)))))
    for base in ("SPV", "SD"):
        reference = trials.mean("accuracy", base) if base in trials.methods and base != method else None
        cells.append(Cell(NONE if mean is None or reference is None else points(mean - reference)))
    cells.append(Cell(p_value(comparison.p[method]) if method in comparison.p else NONE))
    cells.append(Cell(decimals(published), paper.mark[method] if paper and published is not None else ""))
    return [*cells, Cell(decimals(loss, 3)), Cell(NONE if seconds is None else f"{seconds:.1f}")]


def study_table(values: list[tuple[float, Trials]], caption: str) -> Table:
    """Return the mean accuracy of each method at each value of a sensitivity study."""
    columns = [(trials, compare(trials)) for _, trials in values]

    def cell(method: str, trials: Trials, comparison: Comparison) -> Cell:
        if method not in trials.methods:
            return Cell(NONE)
        return Cell(decimals(trials.mean("accuracy", method)), comparison.mark(method))

    table = Table(caption, ["method", *(f"{value:,g}" for value, _ in values)])
    table.groups[""] = [[Cell("trials"), *(Cell(str(len(trials.trials))) for _, trials in values)]]
    for title, methods in grouped(in_order({m for _, trials in values for m in trials.methods})).items():
        rows = [[Cell(method), *(cell(method, *column) for column in columns)] for method in methods]
        table.groups.setdefault(title, []).extend(rows)
    return table
