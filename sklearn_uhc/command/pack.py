"""`sklearn-uhc pack`: a model of one's own as a package."""

from __future__ import annotations

from typing import Any

import numpy as np

from sklearn_uhc import load_teacher, pack_teacher
from sklearn_uhc.command.console import CommandError, Console
from sklearn_uhc.command.files import check_output, whole_files
from sklearn_uhc.command.rows import read_rows
from sklearn_uhc.command.sources import PACKAGE, checksum, load_pickle
from sklearn_uhc.utils.features import feature_names


def run(given: Any, console: Console) -> tuple[dict[str, Any], list[str]]:
    """Pack, load the package as a receiver would, and return the result and its text."""
    check_output(given.out, (PACKAGE,), "a package", [given.model, given.rows])
    model = load_pickle(given.model, given.trust_pickle)
    X = read_rows(given.rows, console, given.id, given.labels).X
    if hasattr(X, "iloc"):
        X = _columns(model, X, given)
    console.progress(f"packing {type(model).__name__}, comparing answers on {len(X)} rows")
    with whole_files(given.out) as (path,):
        try:
            pack_teacher(model, path, X, given.classes, description=given.description, n_examples=given.examples)
            classes = np.asarray(load_teacher(path).classes_).tolist()
        except (ValueError, TypeError) as error:
            raise CommandError(f"{given.model} on {given.rows}: {error}") from error
    kept = min(given.examples, len(X))
    found = {"out": given.out, "classes": classes, "examples": kept, "sha256": checksum(given.out)}
    stored = f"it holds {kept} rows of {given.rows}; --examples 0 stores none" if kept else "it holds no rows"
    return found, [f"{given.out}: {len(classes)} classes; {stored}", f"  sha256 {found['sha256']}"]


def _columns(model: Any, X: Any, given: Any) -> Any:
    """Return the columns that a model was trained on, or an array if it was trained on one."""
    names = feature_names(model)
    if names is None or not set(names) & set(X.columns):
        return X.to_numpy()
    missing = [name for name in names if name not in X.columns]
    if missing:
        raise CommandError(f"{given.rows}: it lacks columns of numbers that {given.model} needs: {missing[:8]}.")
    return X[names]
