"""Tables of answers in CSV files, Parquet files or frames, read in chunks of rows."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sklearn_uhc.utils.rows import column_names, count_rows, take_rows

#: Separator by suffix of text files, which may be compressed.
TEXT = {".csv": ",", ".tsv": "\t"}
PARQUET = (".parquet", ".pq")
COMPRESSED = (".gz", ".bz2", ".xz", ".zst")

#: A function of columns, number of rows per chunk and name of the id column (or None) that yields chunks of the table.
Chunks = Callable[[list[Any], int, Any], Iterator[Any]]


@dataclass(frozen=True)
class Source:
    """A table: its name in messages, its column names, and a function that reads it in chunks."""

    name: str
    columns: list[Any]
    chunks: Chunks


def open_source(source: Any, i: int) -> Source:
    """Return the table of a source; only the header of a file is read."""
    if isinstance(source, (str, os.PathLike)):
        return _open_file(Path(source))
    names = list(source.columns) if hasattr(source, "iloc") else column_names(source)
    if names is None:
        raise TypeError(
            f"sources[{i}] is a {type(source).__name__}: pass the path of a CSV or Parquet file, or a frame whose "
            "columns are named after the classes."
        )

    def chunks(columns: list[Any], rows: int, ids: Any) -> Iterator[Any]:
        for start in range(0, len(source), rows):
            yield take_rows(source, slice(start, start + rows))

    count_rows(source)
    return Source(f"sources[{i}]", names, chunks)


def _open_file(path: Path) -> Source:
    suffixes = [s.lower() for s in path.suffixes if s.lower() not in COMPRESSED]
    kind = suffixes[-1] if suffixes else ""
    if kind not in (*TEXT, *PARQUET):
        raise ValueError(f"{path}: answers must be in a file that ends in .csv, .tsv or .parquet, or in a frame.")
    if not path.is_file():
        raise FileNotFoundError(f"There is no file {str(path)!r}.")
    return _open_text(path, TEXT[kind]) if kind in TEXT else _open_parquet(path)


def _open_text(path: Path, separator: str) -> Source:
    try:
        import pandas
    except ImportError as error:
        raise ImportError("Reading CSV files needs pandas: pip install 'sklearn-uhc[files]'.") from error
    options: dict[str, Any] = {"sep": separator, "encoding": "utf-8-sig"}
    # The header is read as data, since pandas renames duplicate columns in a header.
    head = pandas.read_csv(path, header=None, nrows=1, dtype=str, keep_default_na=False, **options)
    names = head.iloc[0].tolist()

    def chunks(columns: list[Any], rows: int, ids: Any) -> Iterator[Any]:
        types = None if ids is None else {ids: str}
        yield from pandas.read_csv(path, usecols=columns, chunksize=rows, dtype=types, **options)

    return Source(str(path), names, chunks)


def _open_parquet(path: Path) -> Source:
    try:
        from pyarrow.parquet import ParquetFile
    except ImportError as error:
        raise ImportError("Reading Parquet files needs pyarrow: pip install 'sklearn-uhc[files]'.") from error
    with ParquetFile(path) as file:
        names = [name for name in file.schema_arrow.names if not name.startswith("__index_level_")]  # pandas' index

    def chunks(columns: list[Any], rows: int, ids: Any) -> Iterator[Any]:
        with ParquetFile(path) as file:
            yield from file.iter_batches(batch_size=rows, columns=columns)

    return Source(str(path), names, chunks)


def column_of(chunk: Any, name: Any) -> Any:
    """Return a column of a chunk as an array."""
    return np.asarray(chunk.column(name) if hasattr(chunk, "num_columns") else chunk[name])  # Arrow or a frame
