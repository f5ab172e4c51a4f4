"""`sklearn-uhc merge`: teachers and rows in, one ONNX file and a report out."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from sklearn_uhc import HeterogeneousDistiller, TeacherMerger, export
from sklearn_uhc.command.console import CommandError, Console
from sklearn_uhc.command.files import check_input, check_output, whole_files
from sklearn_uhc.command.recorded import as_teacher
from sklearn_uhc.command.rows import Rows, as_classes, read_rows
from sklearn_uhc.command.sources import Source, class_type, open_sources, own_classes
from sklearn_uhc.command.students import make_student
from sklearn_uhc.inspection import merge_report


def run(given: Any, console: Console) -> tuple[dict[str, Any], list[str]]:
    """Merge, export, report, and return the result and its text."""
    inputs = [path for path in (*given.files, given.rows, given.teachers, given.prior) if path is not None]
    check_output(given.out, (".onnx",), "the merged classifier", inputs)
    if given.report is not None:
        check_output(given.report, (".html",), "the report", inputs)
    if not given.files and given.teachers is None:
        raise CommandError("merge: name the teachers' files, or a file of teachers by --teachers.")
    _check_installed()
    student = make_student(given.student)
    sources = open_sources(given.files, given.teachers, given.trust_pickle)
    console.progress(f"reading {given.rows}")
    rows = read_rows(given.rows, console, given.id, given.labels)
    kind = class_type(sources)
    for source in sources:
        if source.is_answers:
            source.teacher = as_teacher(source, rows, given.id, kind)
    classes = [label for source in sources for label in own_classes(source)]
    y = None if rows.labels is None else as_classes(rows.labels, classes, f"{given.rows}, column {given.labels!r}")
    prior = None if given.prior is None else read_prior(given.prior, classes)
    clf = _fit(sources, student, rows, y, prior, given, console)
    _write(clf, rows, y, given, console)
    return _result(clf, given)


def _check_installed() -> None:
    """Raise an error before long work if the exporter's packages are missing."""
    for package in ("onnx", "onnxruntime", "skl2onnx", "onnxmltools"):
        try:
            __import__(package)
        except ImportError as error:
            raise CommandError(
                f"merge: writing ONNX files needs {package}: pip install 'sklearn-uhc[export]'."
            ) from error


def read_prior(path: str, classes: list[Any]) -> dict[Any, float]:
    """Read class frequencies from a JSON object or a CSV with the columns class and frequency."""
    kind = check_input(path, (".json", ".csv"), "class frequencies")
    try:
        if kind == ".json":
            pairs = list(json.loads(Path(path).read_text(encoding="utf-8")).items())
        else:
            import pandas

            table = pandas.read_csv(path, dtype={"class": str}, keep_default_na=False, encoding="utf-8-sig")
            pairs = list(zip(table["class"], table["frequency"], strict=True))
        names = as_classes([str(label) for label, _ in pairs], classes, path)
        return {name: float(share) for name, (_, share) in zip(names, pairs, strict=True)}
    except (ValueError, TypeError, AttributeError, KeyError) as error:
        raise CommandError(
            f"{path}: it is no JSON object of frequencies by class, nor CSV with class,frequency."
        ) from error


def _fit(
    sources: list[Source], student: Any, rows: Rows, y: Any, prior: Any, given: Any, console: Console
) -> HeterogeneousDistiller:
    console.progress(
        f"merging on {len(rows)} rows, training {given.student}: {', '.join(source.name for source in sources)}"
    )
    merger = TeacherMerger(
        {source.name: source.teacher for source in sources},
        class_lists={source.name: source.classes for source in sources},
        teacher_weight=_weights(sources),
        abstain=any(source.options.get("abstain", False) for source in sources) or None,
        verbose=int(sys.stderr.isatty()),
    )
    clf = HeterogeneousDistiller(merger, student, class_prior=prior)
    try:
        return clf.fit(rows.X, y)
    except (ValueError, TypeError) as error:
        notes = " ".join(getattr(error, "__notes__", ()))
        raise CommandError(f"merging on {given.rows} failed: {error} {notes}") from error


def _weights(sources: list[Source]) -> list[float] | None:
    """Return the teachers' weights, 1 if not given; None if none is given."""
    given = [source.weight for source in sources]
    return None if given.count(None) == len(given) else [1.0 if weight is None else weight for weight in given]


def _write(clf: HeterogeneousDistiller, rows: Rows, y: Any, given: Any, console: Console) -> None:
    """Write the model and the report; none of them if one fails."""
    paths = [path for path in (given.out, given.report) if path is not None]
    with whole_files(*paths) as staged:
        console.progress(f"writing {given.out}")
        try:
            export(clf, staged[0], rows.X)
        except (ValueError, TypeError) as error:
            raise CommandError(f"{given.out}: {error}") from error
        if given.report is not None:
            console.progress(f"writing {given.report}")
            merge_report(clf, rows.X, y).to_html(staged[1])


def _result(clf: HeterogeneousDistiller, given: Any) -> tuple[dict[str, Any], list[str]]:
    shares = dict(zip(map(str, clf.classes_.tolist()), map(float, clf.merger_.class_frequencies_), strict=True))
    lineage = clf.lineage_
    found = {"out": given.out, "report": given.report, "class_frequencies": shares, "lineage": lineage}
    lines = [
        f"{given.out}: {len(shares)} classes; teachers: {len(lineage['teachers'])}, rows: {lineage['rows']}"
        + (f" ({lineage['labelled_rows']} labelled)" if lineage["labelled_rows"] else ""),
        *(f"  {label}: {share:.1%} of the rows" for label, share in shares.items()),
    ]
    return found, [*lines, f"report: {given.report}"] if given.report is not None else lines
