"""`sklearn-uhc predict`: labels and probabilities for rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from sklearn_uhc import load_teacher
from sklearn_uhc.command.console import CommandError, Console
from sklearn_uhc.command.files import check_input, check_output, suffix_of, whole_files
from sklearn_uhc.command.recorded import LABEL
from sklearn_uhc.command.rows import read_rows
from sklearn_uhc.command.sources import ONNX, PACKAGE, open_onnx


def run(given: Any, console: Console) -> tuple[dict[str, Any], list[str]]:
    """Predict, write a table, and return the result and its text."""
    kind = check_input(given.model, (ONNX, PACKAGE), "a model")
    check_output(given.out, (".csv", ".parquet"), "the predictions", [given.model, given.rows])
    model = load_teacher(given.model) if kind == PACKAGE else open_onnx(given.model)
    rows = read_rows(given.rows, console, given.id)
    console.progress(f"predicting {len(rows)} rows")
    try:
        classes = np.asarray(model.classes_)
        P = model.predict_proba(rows.X)
    except (ValueError, TypeError, AttributeError) as error:
        raise CommandError(f"{given.model} on {given.rows}: {error}") from error
    labels = classes[P.argmax(axis=1)]
    with whole_files(given.out) as (path,):
        _table(rows.ids, given.id, labels, classes, P, suffix_of(given.out), path)
    names, counts = np.unique(labels, return_counts=True)
    shares = {str(name): int(count) for name, count in zip(names.tolist(), counts, strict=True)}
    found = {"out": given.out, "rows": len(rows), "labels": shares}
    return found, [f"{given.out}: {len(rows)} rows", *(f"  {name}: {count}" for name, count in shares.items())]


def _table(ids: Any, id_column: Any, labels: Any, classes: Any, P: Any, kind: str, path: Any) -> None:
    """Write ids if there are any, labels, and a column of probabilities per class."""
    import pandas

    names = [str(label) for label in classes.tolist()]
    first = {} if ids is None else {id_column: ids}
    clash = {LABEL, *first} & set(names)
    if clash:
        raise CommandError(f"{path.name}: a class is named {clash.pop()!r}, like another column of the output.")
    table = pandas.concat([pandas.DataFrame({**first, LABEL: labels}), pandas.DataFrame(P, columns=names)], axis=1)
    if kind == ".csv":
        table.to_csv(path, index=False)
    else:
        table.to_parquet(path, index=False)
