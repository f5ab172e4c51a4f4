"""The report of a run: the paper's table with its statistics, its claims and its figures, as Markdown and LaTeX."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.paper.claims import judge_claims
from benchmarks.paper.figures import AXES, draw_differences, draw_study
from benchmarks.paper.published import DATASETS, STUDENTS, Column, column
from benchmarks.paper.records import (
    Record,
    Setting,
    Trials,
    by_setting,
    by_value,
    complete_trials,
    conditions_of,
    read_records,
)
from benchmarks.paper.statistics import ALPHA
from benchmarks.paper.tables import Table, main_table, study_table, tex

_ABOUT_CLAIMS = (
    "The paper's claims about this experiment. Differences are percentage points ± standard error; n.s.: not"
    f" significantly on one side of the claim's bound (Wilcoxon, {ALPHA:g}). A claim holds if all differences are"
    " significantly above it, and is undecided if some are n.s. and none is below. The paper's table has means only."
)

__all__ = ["make_report", "read_records"]


@dataclass
class _Page:
    """A report that grows in both languages."""

    folder: Path
    markdown: list[str] = field(default_factory=list)
    latex: list[str] = field(default_factory=list)

    def heading(self, text: str) -> None:
        self.markdown += [f"## {text}", ""]
        self.latex += [rf"\section*{{{tex(text)}}}", ""]

    def paragraph(self, text: str) -> None:
        self.markdown += [text, ""]
        self.latex += [tex(text), ""]

    def table(self, table: Table) -> None:
        self.markdown.append(table.markdown())
        self.latex.append(table.latex())

    def items(self, items: list[tuple[str, str]]) -> None:
        """Add a list whose entries begin with an emphasized word."""
        self.markdown += [f"- **{word}**: {text}" for word, text in items] + [""]
        entries = [rf"\item \textbf{{{tex(word)}}}: {tex(text)}" for word, text in items]
        self.latex += [r"\begin{itemize}", *entries, r"\end{itemize}", ""]

    def figure(self, figure: Any, name: str, text: str) -> None:
        """Save a figure and refer to it."""
        name = "".join(letter if letter.isalnum() or letter in "-_" else "-" for letter in name)
        figure.savefig(self.folder / f"{name}.png", dpi=120)
        self.markdown += [f"![{text}]({name}.png)", ""]
        graphics = rf"\includegraphics[width=\linewidth]{{{name}.png}}"
        self.latex += [r"\begin{figure}\centering", graphics, rf"\caption{{{tex(text)}}}", r"\end{figure}", ""]


def make_report(paths: Iterable[str | Path], out: Path) -> str:
    """Write `report.md`, `report.tex` and the figures into the folder `out`; return the Markdown.

    The LaTeX is to be included in a document that loads booktabs and graphicx.
    """
    paths = list(paths)
    settings = by_setting(read_records(paths))
    if not settings:
        files = ", ".join(map(str, paths))
        raise ValueError(f"No records in {files}: empty, or no line is one. Run `python -m benchmarks run` first.")
    out.mkdir(parents=True, exist_ok=True)
    page = _Page(out)
    for setting, records in settings.items():
        (_add_main if setting.study == "main" else _add_study)(page, setting, records)
    markdown = "\n".join(["# The paper's experiments, repeated", "", *page.markdown])
    (out / "report.md").write_text(markdown, encoding="utf-8")
    (out / "report.tex").write_text("% needs booktabs and graphicx\n" + "\n".join(page.latex), encoding="utf-8")
    return markdown


def _add_main(page: _Page, setting: Setting, records: list[Record]) -> None:
    """Add the table of one setting, the claims and the figure."""
    trials, paper = complete_trials(records), column(setting.protocol, setting.dataset, setting.student)
    page.heading(f"Main experiment: {setting}")
    page.paragraph(_describe_trials(trials))
    if not trials.trials:
        return
    page.table(main_table(trials, paper, _caption(setting, trials, paper)))
    if claims := judge_claims(setting.protocol, trials, paper):
        page.paragraph(_ABOUT_CLAIMS)
        page.items([(str(judged.ours), str(judged)) for judged in claims])
    if len(trials.methods) > 1 and {"SPV", "SD"} & set(trials.methods):
        name = "-".join(["main", setting.dataset, setting.protocol, setting.student])
        figure = draw_differences(trials, paper, f"{setting}: {_count(len(trials.trials), 'trial')}")
        page.figure(figure, name, f"Each dot is a trial: {setting}.")


def _add_study(page: _Page, setting: Setting, records: list[Record]) -> None:
    """Add the table and the figure of a sensitivity study."""
    values, name = list(by_value(records)), AXES.get(setting.study, setting.study)
    page.heading(f"Sensitivity to the {name}: {setting}")
    left_out = sum(trials.n_left_out for _, trials in values)
    values = [(value, trials) for value, trials in values if trials.trials]
    if left_out:
        page.paragraph(f"Left out because some method has not finished them: {_count(left_out, 'trial')}.")
    if not values:
        return
    marks = "Underlined bold: the best except SPV; bold: not significantly different from it"
    page.table(study_table(values, f"Mean accuracy by {name}. {marks} (Wilcoxon, {ALPHA:g}).{_trained(records[0])}"))
    figure = draw_study(setting.study, values, str(setting))
    text = f"Accuracy by {name}; the bands are 95 % bootstrap intervals over trials; all methods have the same trials."
    page.figure(figure, "-".join([setting.study, setting.dataset, setting.protocol, setting.student]), text)


def _caption(setting: Setting, trials: Trials, paper: Column | None) -> str:
    """Say what the columns are and what stands beside ours."""
    text = (
        f"Mean accuracy over {_count(len(trials.trials), 'trial')} with its standard error, and the differences to SPV"
        " and SD in percentage points. Underlined bold: the best method except SPV; bold: not significantly different"
        f" from it (two-sided Wilcoxon signed-rank test at {ALPHA:g}, p-values in column p)."
    ) + _trained(next(iter(trials.records.values())))
    if paper is None:
        return text + " The paper has no counterpart of this setting."
    if setting.dataset in DATASETS and setting.student in STUDENTS:
        return f"{text} Column paper: its results for {paper.title}."
    ours = f"dataset {setting.dataset}, student {setting.student}"
    return f"{text} Column paper: its results for {paper.title}, the closest match to ours ({ours})."


def _trained(record: Record) -> str:
    """Say how all networks of a record's setting were trained, as far as that is known."""
    known = conditions_of(record)
    parts = [_count(known["epochs"], "epoch")] if "epochs" in known else []
    parts += [f"batches of {known['batch_size']}"] if "batch_size" in known else []
    return f" Trained for {', '.join(parts)}." if parts else ""


def _describe_trials(trials: Trials) -> str:
    """Say how many trials there are and what they look like."""
    n, left_out = len(trials.trials), trials.n_left_out
    text = f"{_count(n, 'trial')}."
    if left_out:
        text += f" Left out because some method has not finished them: {_count(left_out, 'trial')}."
    records = [trials.records[trial, trials.methods[0]] for trial in trials.trials]
    samples = [count for record in records for count in record.get("samples") or ()]
    facts = {"n_classes": "classes", "n_teachers": "teachers", "n_unlabelled": "unlabelled samples"}
    parts = [f"{_range(records, name)} {word}" for name, word in facts.items() if _range(records, name)]
    for name, word in {"temperature": "temperature", "teacher_accuracy": "accuracy of the teachers"}.items():
        parts += [f"{word} {_range(records, name)}"] if _range(records, name) else []
    parts += [f"{min(samples)} to {max(samples)} samples per class and teacher"] if samples else []
    text += f" Per trial: {', '.join(parts)}." if parts else ""
    versions = sorted({f"{k} {v}" for r in trials.records.values() for k, v in (r.get("versions") or {}).items()})
    return text + (f" Versions: {', '.join(versions)}." if versions else "")


def _count(n: int, noun: str) -> str:
    return f"{n} {noun}" + ("" if n == 1 else "s")


def _range(records: list[Record], name: str) -> str:
    """Write the least and the greatest value of a field, "" if it was not recorded."""
    found = [record[name] for record in records if record.get(name) is not None]
    if not found:
        return ""
    low, high = (f"{value:,}" if isinstance(value, int) else f"{value:.3g}" for value in (min(found), max(found)))
    return low if low == high else f"{low} to {high}"
