"""Answers in a file as a teacher of the rows that they were given for, and of no others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from sklearn_uhc import FunctionTeacher, read_answers
from sklearn_uhc.command.console import CommandError
from sklearn_uhc.command.rows import Rows
from sklearn_uhc.command.sources import ANSWER_OPTIONS, Source, checksum
from sklearn_uhc.teachers.answer_sources import open_source

#: `predict` writes labels under this name, beside the probabilities.
LABEL = "label"
#: No floor here: the merge learns one, as for other teachers.
NO_FLOOR = 1e-300
HINT = f" (--id names the column of ids; {', '.join(ANSWER_OPTIONS)} are keys in a file for --teachers.)"


class Recorded:
    """Looks up answers by the index of a frame, or by the values of an array's rows."""

    def __init__(self, answers: Any, X: Any) -> None:
        self.answers = answers
        self.places = {key: place for place, key in enumerate(_keys(X))}

    def __call__(self, X: Any) -> Any:
        """Return the answers for some of the rows."""
        try:
            return self.answers[[self.places[key] for key in _keys(X)]]
        except KeyError as error:
            raise ValueError("There are no answers for some of these rows.") from error

    def tells_rows_apart(self, X: Any) -> bool:
        """Return whether equal rows have equal answers."""
        return bool(np.allclose(self(X), self.answers, equal_nan=True))


class AnswerFile(FunctionTeacher):
    """The teacher behind a table of answers, under a name that its lineage shows."""


def _keys(X: Any) -> list[Any]:
    return list(X.index) if hasattr(X, "iloc") else [row.tobytes() for row in X]


def read_table(path: str, id_column: str | None, ids: Any, kind: Callable[[Any], Any] | None, **options: Any) -> Any:
    """Return log-probabilities and classes of an answer file."""
    try:
        columns = open_source(path, 0).columns
        if LABEL in columns:
            options["ignore"] = [*options.get("ignore", ()), LABEL]
        log_p, (classes,) = read_answers(
            [path], id_column=id_column, ids=ids, class_type=kind, floor=NO_FLOOR, **options
        )
    except (ValueError, TypeError, OSError) as error:
        where = "" if path in str(error) else f"{path}: "
        raise CommandError(f"{where}{error}{HINT}") from error
    return log_p, classes


def as_teacher(source: Source, rows: Rows, id_column: str | None, kind: Callable[[Any], Any] | None) -> Any:
    """Return the teacher that gives the answers of a file for these rows."""
    log_p, classes = read_table(source.path, id_column, rows.ids, kind, **source.options)
    if len(log_p) != len(rows):
        raise CommandError(
            f"{source.path}: it has answers for {len(log_p)} rows, but {rows.path} has {len(rows)}; write one for each "
            "row, in the same order, or give both files a column of ids and name it by --id."
        )
    recorded = Recorded(log_p, rows.X)
    if not recorded.tells_rows_apart(rows.X):
        raise CommandError(
            f"{source.path}: it answers differently for rows of {rows.path} that are equal; save the rows as CSV or "
            "Parquet, where rows are told apart by their order or by --id."
        )
    teacher = AnswerFile(recorded, classes, output_kind="log_proba")
    teacher.sha256_ = checksum(source.path)
    return teacher
