"""Tables of answers in CSV files, Parquet files or frames, read in chunks of rows."""

from __future__ import annotations

import lzma
import os
import warnings
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sklearn_uhc.utils.rows import column_names, count_rows, take_rows

#: Separator by suffix of text files, which may be compressed.
TEXT = {".csv": ",", ".tsv": "\t"}
PARQUET = (".parquet", ".pq")
COMPRESSED = (".gz", ".bz2", ".xz", ".zst")

#: A function of columns, number of rows per chunk and the columns whose cells are texts, not numbers (ids and labels),
#: that yields chunks of the table.
Chunks = Callable[[list[Any], int, list[Any]], Iterator[Any]]
#: What the readers raise for a file that is damaged or of another kind.
DAMAGES = (UnicodeError, EOFError, zlib.error, lzma.LZMAError, OSError, ValueError)


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

    def chunks(columns: list[Any], rows: int, texts: list[Any]) -> Iterator[Any]:
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
    with _named(path):
        head = pandas.read_csv(path, header=None, nrows=1, dtype=str, keep_default_na=False, **options)
    names = head.iloc[0].tolist()

    def chunks(columns: list[Any], rows: int, texts: list[Any]) -> Iterator[Any]:
        # Among texts only an empty cell is missing: "NA" may be a class.
        missing: Any = {"keep_default_na": False, "na_values": [""]} if set(columns) == set(texts) else {}
        # All columns are read, since pandas drops surplus cells in silence if it reads some columns only.
        own = options | missing | {"dtype": dict.fromkeys(texts, str), "index_col": False, "chunksize": rows}
        with _named(path):
            reader = pandas.read_csv(path, **own)
        with reader:
            while True:
                with _named(path):
                    chunk = next(reader, None)
                if chunk is None:
                    return
                yield chunk[columns]

    return Source(str(path), names, chunks)


@contextmanager
def _named(path: Path) -> Iterator[None]:
    """Turn errors of a reader into errors that name the file; cells beyond the last column are an error too."""
    with warnings.catch_warnings():
        warnings.filterwarnings("error", "Length of header or names does not match")
        try:
            yield
        except FileNotFoundError:
            raise
        except UnicodeError as error:
            raise ValueError(f"{path} is not in UTF-8: save it in that encoding.") from error
        except (*DAMAGES, Warning) as error:
            told = "a row has more cells than the header" if isinstance(error, Warning) else str(error).strip()
            raise ValueError(f"{path} cannot be read: {told[:300]}.") from error


def _open_parquet(path: Path) -> Source:
    try:
        from pyarrow.parquet import ParquetFile
    except ImportError as error:
        raise ImportError("Reading Parquet files needs pyarrow: pip install 'sklearn-uhc[files]'.") from error
    with _named(path), ParquetFile(path) as file:
        names = [name for name in file.schema_arrow.names if not name.startswith("__index_level_")]  # pandas' index

    def chunks(columns: list[Any], rows: int, texts: list[Any]) -> Iterator[Any]:
        with ParquetFile(path) as file:
            batches = file.iter_batches(batch_size=rows, columns=columns)
            while True:
                with _named(path):
                    batch = next(batches, None)
                if batch is None:
                    return
                yield batch

    return Source(str(path), names, chunks)


def column_of(chunk: Any, name: Any) -> Any:
    """Return a column of a chunk as an array."""
    return np.asarray(chunk.column(name) if hasattr(chunk, "num_columns") else chunk[name])  # Arrow or a frame
