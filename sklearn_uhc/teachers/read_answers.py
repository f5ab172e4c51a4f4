"""Read answers that teachers have written to files or frames, as the input of a merge."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_softmax

from sklearn_uhc.spaces.label_space import shorten
from sklearn_uhc.teachers.answer_sources import Source, column_of, open_source
from sklearn_uhc.teachers.floor import apply_floor, learn_floor
from sklearn_uhc.teachers.hard_labels import answers_of_labels, check_one_column
from sklearn_uhc.teachers.rounding import FLOAT_ERROR, RoundedRows
from sklearn_uhc.utils.missing import is_missing
from sklearn_uhc.utils.notes import warn_user
from sklearn_uhc.utils.parameters import check_flag, check_positive

__all__ = ["read_answers"]

Floats = NDArray[np.float64]
SCALES = ("proba", "percent", "log_proba", "logits", "labels")


def read_answers(
    sources: Sequence[Any] | Mapping[str, Any],
    *,
    id_column: str | None = None,
    ids: Any = None,
    ignore: Sequence[Any] = (),
    scale: str = "proba",
    accuracy: float = 0.9,
    class_type: Callable[[Any], Any] | None = None,
    floor: float | str = "auto",
    abstain: bool = False,
    chunk_rows: int = 65536,
) -> tuple[Floats, list[list[Any]] | dict[str, list[Any]]]:
    """Read teachers' answers from files or frames, one per teacher, with a column per class.

    The distiller and the methods accept the result in place of teachers::

        log_p, class_lists = read_answers(["site_a.csv", "site_b.parquet"], id_column="id", ids=X.index)
        HeterogeneousDistiller(None, student, class_lists=class_lists).fit(X, log_p=log_p)

    Parameters
    ----------
    sources : list of paths and frames, or a dict of them by teacher name
        CSV (``.csv``, ``.tsv``, compressed or not) or Parquet files, or frames of pandas, Polars or Arrow. Every column
        is a class, except `id_column` and those in `ignore`.
    id_column : str, default=None
        Column with the ids of the rows. All sources must have the same ids, in any order.
    ids : array-like of shape (n,), default=None
        Ids of the rows of X. The answers are put in this order. None: the order of the first source.
    ignore : list of str, default=()
        Columns that are not classes, such as a text or a predicted label.
    scale : {"proba", "percent", "log_proba", "logits", "labels"}, default="proba"
        What the numbers are. The scale is never guessed. "labels" means one column with the class of each row, as
        federated clients may send; the classes of a source are then those that occur in it.
    accuracy : float, default=0.9
        For "labels": the probability of the class in the file; the other classes share the rest. Calibration learns how
        much a teacher can be trusted, so a rough value will do.
    class_type : callable, default=None
        Converts column names or labels to classes: ``int`` for "0", "1", ... in a CSV file, whose cells are strings.
        None keeps the names.
    floor : float or "auto", default="auto"
        Smallest probability of a class, learned per teacher as in `TeacherOutputs`: a 0.00 does not mean impossible.
    abstain : bool, default=False
        Whether a teacher may leave rows unanswered. A row whose cells are all empty, or whose id is missing, is then
        NaN. Otherwise it is an error.
    chunk_rows : int, default=65536
        Number of rows read at a time. No more of a file than that is in memory, besides the result.

    Returns
    -------
    log_p : ndarray of shape (n, K)
        Log-probabilities, one block of columns per source.
    class_lists : list of lists, or dict of lists
        The classes of each source, by name if the sources have names.

    Notes
    -----
    Probabilities are often rounded when they are written. If a sum differs from 1 by no more than rounding explains
    (k / 2 units of the last decimal for k classes), the row is normalised, and a warning says how many rows there
    were. Any other sum is an error.

    Examples
    --------
    >>> import pandas as pd
    >>> from sklearn_uhc import read_answers
    >>> a = pd.DataFrame({"id": ["x", "y"], "cat": [0.75, 0.5], "dog": [0.25, 0.5]})
    >>> b = pd.DataFrame({"id": ["y", "x"], "dog": [0.125, 0.875], "cow": [0.875, 0.125]})
    >>> log_p, class_lists = read_answers([a, b], id_column="id")
    >>> class_lists
    [['cat', 'dog'], ['dog', 'cow']]
    >>> import numpy as np
    >>> np.exp(log_p).round(3).tolist()
    [[0.75, 0.25, 0.875, 0.125], [0.5, 0.5, 0.125, 0.875]]

    Labels instead of probabilities:

    >>> labels = pd.DataFrame({"label": ["cat", "dog", "cow", "cat"]})
    >>> log_p, class_lists = read_answers([labels], scale="labels", accuracy=0.9)
    >>> class_lists, np.exp(log_p[0]).round(3).tolist()
    ([['cat', 'cow', 'dog']], [0.9, 0.05, 0.05])
    """
    _check_sources(sources, id_column, ids)
    _check_parameters(scale, accuracy, floor, abstain, chunk_rows)
    names = list(sources) if isinstance(sources, Mapping) else None
    given = list(sources.values()) if isinstance(sources, Mapping) else list(sources)
    opened = [open_source(source, i) for i, source in enumerate(given)]
    columns = [_class_columns(source, id_column, ignore) for source in opened]
    wanted = None if ids is None else _id_strings(ids, "ids")
    reader = Reader(id_column, scale, bool(abstain), int(chunk_rows), wanted, float(accuracy))
    read = [reader.read(source, labels) for source, labels in zip(opened, columns, strict=True)]
    blocks, columns = [block for block, _ in read], [classes for _, classes in read]
    del read
    if reader.notes:
        warn_user(f"Rows whose sums were not 1 because of rounding were normalised: {'; '.join(reader.notes)}.")
    log_p = _side_by_side(blocks, floor)
    lists = [[label if class_type is None else class_type(label) for label in labels] for labels in columns]
    return log_p, lists if names is None else dict(zip(names, lists, strict=True))


def _side_by_side(blocks: list[Floats], floor: float | str) -> Floats:
    """Concatenate blocks side by side after applying floors; each block is freed once it is copied."""
    out, start = np.empty((len(blocks[0]), sum(block.shape[1] for block in blocks))), 0
    while blocks:
        block = blocks.pop(0)
        stop = start + block.shape[1]
        out[:, start:stop] = apply_floor(block, learn_floor(block) if floor == "auto" else float(floor))
        start = stop
    return out


class Reader:
    """Reads sources one after the other, with their rows in the same order."""

    def __init__(
        self, id_column: str | None, scale: str, abstain: bool, chunk_rows: int, ids: Any, accuracy: float
    ) -> None:
        self.id_column, self.scale, self.abstain, self.chunk_rows = id_column, scale, abstain, chunk_rows
        self.accuracy = accuracy
        self.notes: list[str] = []
        self.n_rows: int | None = None
        self.first, self.ids = "ids", ids
        if ids is not None:
            _check_unique(ids, "ids")

    def read(self, source: Source, names: list[Any]) -> tuple[Floats, list[Any]]:
        """Return the log-probabilities of one source, and its classes."""
        if self.scale == "labels":
            check_one_column(names, source.name)
        parts, found, sums, start = [], [], RoundedRows(), 0
        ids = [] if self.id_column is None else [self.id_column]
        texts = ids + names if self.scale == "labels" else ids
        for chunk in source.chunks(ids + names, self.chunk_rows, texts):
            if not len(chunk):
                continue
            parts.append(self._part(chunk, names, source.name, sums, start))
            if ids:
                found.append(_id_strings(column_of(chunk, self.id_column), source.name))
            start += len(chunk)
        if not parts:
            raise ValueError(f"{source.name} has no rows.")
        self._check_sums(sums, source.name)
        block = np.concatenate(parts)
        if self.scale == "labels":
            block, names = answers_of_labels(block, self.accuracy, self.abstain, source.name)
        return self._in_order(block, np.concatenate(found) if found else None, source.name), names

    def _part(self, chunk: Any, names: list[Any], name: str, sums: RoundedRows, start: int) -> NDArray[Any]:
        """Return the log-probabilities of a chunk, or its labels."""
        if self.scale == "labels":
            return np.asarray(column_of(chunk, names[0]), dtype=object)
        values, precision = _numbers(chunk, names, name)
        self._check_silence(values, names, name, start)
        return self._to_log(values, precision, sums, name, start)

    def _to_log(self, values: Floats, precision: float, sums: RoundedRows, name: str, start: int) -> Floats:
        infinite = (values == np.inf).any(axis=1) | (values == -np.inf).all(axis=1)
        if infinite.any():
            raise ValueError(f"{name} has infinite values in row {start + int(np.argmax(infinite))}: replace them.")
        if self.scale == "logits":
            return np.asarray(log_softmax(values, axis=1))
        proba = np.exp(values) if self.scale == "log_proba" else values / (100 if self.scale == "percent" else 1)
        if self.scale != "log_proba" and (proba < 0).any():
            row = sums.n_rows + int(np.argmax((proba < 0).any(axis=1)))
            raise ValueError(f"{name} has negative values, first in row {row}. {_advice(values, self.scale)}")
        sums.add(proba, precision)
        with np.errstate(divide="ignore"):
            log_p = values if self.scale == "log_proba" else np.log(proba)
            return log_p - np.log(proba.sum(axis=1, keepdims=True))

    def _check_sums(self, sums: RoundedRows, name: str) -> None:
        """Raise an error for sums that rounding cannot explain, and note those that it can."""
        tolerance = sums.tolerance()
        if sums.worst > tolerance:
            values = sums.worst_values
            raise ValueError(
                f"{name} has rows that do not sum to 1: row {sums.worst_row} sums to {values.sum():.6g}, but rounding "
                f"explains only {tolerance:.2g}. {_advice(values[None], self.scale)}"
            )
        if sums.n_off:
            self.notes.append(
                f"{sums.n_off} of {sums.n_rows} in {name}, off by up to {sums.worst:.2g} ({sums.decimals} decimals)"
            )

    def _check_silence(self, values: Floats, names: list[Any], name: str, start: int) -> None:
        bad = np.isnan(values)
        whole: NDArray[np.bool_] = np.asarray(bad.all(axis=1))
        if self.abstain:
            bad = bad & ~whole[:, None]
        if not bad.any():
            return
        row = int(np.argmax(bad.any(axis=1)))
        where = f"{name} has no number in row {start + row}, column {names[int(np.argmax(bad[row]))]!r}"
        if whole[row]:
            raise ValueError(f"{where}, nor in any other: with abstain=True the teacher is silent about such a row.")
        raise ValueError(f"{where}: fill the cell. To leave a row unanswered, leave all its cells empty.")

    def _in_order(self, block: Floats, found: Any, name: str) -> Floats:
        """Sort rows by id; without ids, check that the number of rows is the same for all sources."""
        n_rows = len(block) if self.ids is None else len(self.ids)
        if found is None:
            self.n_rows, self.first = (len(block), name) if self.n_rows is None else (self.n_rows, self.first)
            if self.n_rows != len(block):
                raise ValueError(
                    f"{name} has {len(block)} rows, {self.first} has {self.n_rows}: every source must have the "
                    "same rows in the same order, or ids in an id_column."
                )
            return block
        _check_unique(found, name)
        if self.ids is None:
            self.ids, self.first = found, name
        out = np.full((n_rows, block.shape[1]), np.nan)
        out[self._places(found, name)] = block
        return out

    def _places(self, found: Any, name: str) -> NDArray[np.int64]:
        """Return the positions of the rows with these ids."""
        by_id = np.argsort(self.ids)
        sorted_ids = self.ids[by_id]
        nearest = np.minimum(np.searchsorted(sorted_ids, found), len(sorted_ids) - 1)
        unknown = found[sorted_ids[nearest] != found]
        if len(unknown):
            raise ValueError(
                f"{name} has rows with ids that {self.first} does not have: {shorten(unknown.tolist(), 3)}. Remove "
                "them."
            )
        if len(found) < len(self.ids) and not self.abstain:
            missing = shorten(np.setdiff1d(self.ids, found).tolist(), 3)
            raise ValueError(
                f"{name} has no rows with the ids {missing}, which {self.first} has: with abstain=True the teacher is "
                "silent about them."
            )
        places: NDArray[np.int64] = by_id[nearest]
        return places


def _check_sources(sources: Any, id_column: Any, ids: Any) -> None:
    if isinstance(sources, (str, bytes)) or not isinstance(sources, (list, tuple, Mapping)) or not len(sources):
        raise TypeError(f"sources must be a list with one file or frame per teacher, got {type(sources).__name__}.")
    if ids is not None and id_column is None:
        raise ValueError("ids are given without id_column: name the column of the sources that holds them.")


def _check_parameters(scale: Any, accuracy: Any, floor: Any, abstain: Any, chunk_rows: Any) -> None:
    if scale not in SCALES:
        raise ValueError(f"scale must be one of {', '.join(map(repr, SCALES))}, got {scale!r}.")
    if not (isinstance(accuracy, Real) and 0 < float(accuracy) < 1):
        raise ValueError(f"accuracy must be a number between 0 and 1, got {accuracy!r}.")
    if floor != "auto" and not (isinstance(floor, Real) and 0 < float(floor) < 0.5):
        raise ValueError(f'floor must be "auto" or a number above 0 and below 0.5, got {floor!r}.')
    check_flag("abstain", abstain)
    check_positive("chunk_rows", chunk_rows, integer=True)


def _class_columns(source: Source, id_column: Any, ignore: Sequence[Any]) -> list[Any]:
    """Return the columns that are classes."""
    names = source.columns
    if "" in names:
        raise ValueError(
            f"{source.name} has a column without a name, such as the index that pandas writes: save it with "
            'to_csv(path, index=False), or with index_label="id" for id_column="id".'
        )
    repeated = sorted({str(name) for name in names if names.count(name) > 1})
    if repeated:
        raise ValueError(f"{source.name} has several columns with the same name: {repeated[:8]}.")
    if id_column is not None and id_column not in names:
        raise ValueError(f"{source.name} has no column {id_column!r} of ids; it has {shorten(names)}.")
    classes = [name for name in names if name != id_column and name not in ignore]
    if not classes:
        raise ValueError(f"{source.name} has no column for a class; it has {shorten(names)}.")
    return classes


def _numbers(chunk: Any, names: list[Any], source: str) -> tuple[Floats, float]:
    """Return the class columns as an array, and the precision of their dtype."""
    columns, precision = [], 0.0
    for name in names:
        values = column_of(chunk, name)
        if values.dtype.kind == "f":
            precision = max(precision, float(np.finfo(values.dtype).eps))
        try:
            columns.append(values.astype(np.float64))
        except (TypeError, ValueError):
            raise ValueError(
                f"Column {name!r} of {source} does not hold numbers. If it is not a class, add it to ignore, or name "
                "it as id_column."
            ) from None
    return np.column_stack(columns), precision


def _id_strings(ids: Any, name: str) -> Any:
    """Return ids as strings, so that 7 in a frame matches "7" in a file."""
    values = np.asarray(ids)
    if values.ndim != 1 or is_missing(values).any():
        raise ValueError(f"The ids of {name} must be one per row, without missing values.")
    return values.astype(str)


def _check_unique(ids: Any, name: str) -> None:
    unique, counts = np.unique(ids, return_counts=True)
    if (counts > 1).any():
        raise ValueError(f"{name} has repeated ids: {shorten(unique[counts > 1].tolist(), 3)}.")


def _advice(values: Floats, scale: str) -> str:
    """Return a hint at what the numbers may be instead."""
    values = values[~np.isnan(values).any(axis=1)]
    total = values.sum(axis=1)
    if scale == "proba" and np.allclose(total, 100, atol=1) and (values >= 0).all():
        return 'They sum to 100: if they are percentages, pass scale="percent".'
    if scale == "percent" and np.allclose(total, 0.01, atol=1e-4):
        return 'They sum to 1 as they are: leave scale="percent" out.'
    if (values <= 0).all() and np.allclose(np.exp(values).sum(axis=1), 1, atol=0.01):
        return 'They look like logarithms of probabilities: pass scale="log_proba".'
    if (values < 0).any() or (values > 1 + FLOAT_ERROR).any():
        return 'If they are scores or logits, pass scale="logits".'
    if (total < 1).all():
        return (
            "Is a class missing, or a column for all others? Add it, or divide the rows by their sums if that is meant."
        )
    return (
        "If every class was scored on its own, so that several may be true, these are not probabilities of one label: "
        "divide the rows by their sums if that is what you want."
    )
