"""Rows in CSV, Parquet or npz files: features, labels of some rows, ids.

In a table, features are all columns of numbers but those of labels and ids. In an npz file they are the array `X`, or
the only array; labels and ids are further arrays.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from sklearn_uhc.command.console import CommandError, Console
from sklearn_uhc.command.files import check_input
from sklearn_uhc.spaces.label_space import shorten
from sklearn_uhc.teachers.answer_sources import PARQUET, TEXT, open_source
from sklearn_uhc.utils.missing import is_missing

TABLES = (*TEXT, *PARQUET)
NPZ = ".npz"


@dataclass(frozen=True)
class Rows:
    """What a file of rows holds; texts of labels are None where a row has none."""

    path: str
    X: Any
    labels: list[str | None] | None
    ids: list[str] | None

    def __len__(self) -> int:
        return len(self.X)


def read_rows(path: str, console: Console, id_column: str | None = None, label_column: str | None = None) -> Rows:
    """Read rows; a frame is indexed by id, or by position."""
    kind = check_input(path, (*TABLES, NPZ), "rows")
    found = _read(path, kind, [column for column in (id_column, label_column) if column])
    for column in (id_column, label_column):
        if column is not None and column not in found:
            raise CommandError(f"{path}: it has no column {column!r}; it has {shorten(list(found))}.")
    ids = None if id_column is None else _ids(found[id_column], path, id_column)
    labels = None if label_column is None else _texts(found[label_column])
    X = _features(found, path, {id_column, label_column}, console, kind)
    if len(X) == 0:
        raise CommandError(f"{path}: it has no rows.")
    if any(len(column) != len(X) for column in (ids, labels) if column is not None):
        raise CommandError(f"{path}: its arrays of labels or ids have another number of rows than X.")
    if hasattr(X, "iloc"):
        X.index = range(len(X)) if ids is None else ids
    return Rows(path, X, labels, ids)


def _read(path: str, kind: str, as_text: list[str]) -> Any:
    try:
        return _read_npz(path) if kind == NPZ else _read_table(path, as_text)
    except (ValueError, OSError, zipfile.BadZipFile, EOFError) as error:
        raise CommandError(f"{path}: it cannot be read ({str(error).splitlines()[0]}).") from error


def _read_npz(path: str) -> dict[str, Any]:
    if not zipfile.is_zipfile(path):
        raise ValueError("it is no npz file")
    with np.load(path, allow_pickle=False) as data:
        return {name: data[name] for name in data.files}


def _read_table(path: str, as_text: list[str]) -> Any:
    """Return a table as a frame; columns of ids and labels stay text."""
    import pandas

    source = open_source(path, 0)
    repeated = sorted({str(name) for name in source.columns if source.columns.count(name) > 1})
    if repeated:
        raise ValueError(f"several columns are named {repeated[0]!r}")
    if "" in source.columns:
        raise ValueError("a column has no name, such as the index that pandas writes: save it with index=False")
    if str(path).lower().endswith(PARQUET):
        return pandas.read_parquet(path).reset_index(drop=True)
    separator = next(sep for suffix, sep in TEXT.items() if suffix in str(path).lower())
    types = {name: str for name in as_text if name in source.columns}
    return pandas.read_csv(path, sep=separator, encoding="utf-8-sig", dtype=types, index_col=False)


def _features(found: Any, path: str, others: set[str | None], console: Console, kind: str) -> Any:
    if kind == NPZ:
        return _matrix({name: array for name, array in found.items() if name not in others}, path)
    if len(found) == 0:
        raise CommandError(f"{path}: it has no rows.")
    left = found[[name for name in found.columns if name not in others]]
    numbers = left.select_dtypes(["number", "bool"])
    if numbers.shape[1] == 0:
        raise CommandError(f"{path}: it has no columns of numbers, which are the features.")
    texts = [name for name in left.columns if name not in set(numbers.columns)]
    if texts:
        console.warn(f"{path}: columns that do not hold numbers are no features: {shorten(texts)}.")
    single = all(dtype == np.float32 for dtype in numbers.dtypes)
    numbers = numbers.astype(np.float32 if single else np.float64)
    numbers.columns = numbers.columns.astype(str)
    return numbers


def _matrix(arrays: dict[str, Any], path: str) -> Any:
    """Return the array of features of an npz file."""
    if "X" not in arrays and len(arrays) != 1:
        raise CommandError(f"{path}: name the array of features 'X'; it has {shorten(list(arrays))}.")
    X = arrays.get("X", next(iter(arrays.values())))
    if X.ndim < 2 or X.dtype.kind not in "fiub":
        raise CommandError(f"{path}: its features are {X.dtype} of shape {X.shape}, not numbers with a row per sample.")
    return np.ascontiguousarray(X)


def _texts(values: Any) -> list[str | None]:
    """Return labels as texts: 3 and 3.0, as pandas reads whole numbers with gaps, are both "3"."""
    array = np.asarray(values, dtype=object)
    missing = is_missing(array)
    return [None if gone else _text(value) for value, gone in zip(array.tolist(), missing, strict=True)]


def _text(value: Any) -> str | None:
    whole = isinstance(value, float) and value.is_integer()
    return (str(int(value)) if whole else str(value)).strip() or None


def _ids(values: Any, path: str, column: str) -> list[str]:
    ids = _texts(values)
    found = [text for text in ids if text is not None]
    if len(found) < len(ids):
        raise CommandError(f"{path}: its id column {column!r} has gaps.")
    if len(set(found)) < len(found):
        raise CommandError(f"{path}: its id column {column!r} has an id twice.")
    return found


def as_classes(texts: Iterable[str | None], classes: Iterable[Any], where: str) -> list[Any]:
    """Return texts as classes, in the type that the teachers' classes have; None stays None."""
    known = {str(label): label for label in classes}
    kind = type(next(iter(known.values())))
    try:
        return [None if text is None else known[text] if text in known else _converted(text, kind) for text in texts]
    except ValueError as error:
        raise CommandError(f"{where}: the teachers' classes are numbers, but it has a label that is none.") from error


def _converted(text: str, kind: type) -> Any:
    """Return a label in the type of the classes; pandas writes whole numbers with gaps as 1.0."""
    if kind is str:
        return text
    value = float(text)
    if kind is not float and not value.is_integer():
        raise ValueError(text)
    return kind(value)
