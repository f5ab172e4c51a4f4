"""What runs have written: one JSON record a line for every finished (trial, method)."""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.paper.published import METHODS

STUDIES = ("main", "size", "temperature", "accuracy")  #: in the paper's order
Record = dict[str, Any]
#: What tells records apart.
KEY = ("dataset", "protocol", "student", "study", "value", "trial", "method")


class Setting(NamedTuple):
    """What is averaged over trials."""

    study: str
    dataset: str
    protocol: str
    student: str

    def __str__(self) -> str:
        return f"{self.dataset}, {self.protocol} classes, student {self.student}"


@dataclass
class Trials:
    """Results of the trials that all methods of a setting have finished."""

    methods: list[str]  #: in the order of the paper's table, others behind
    trials: list[int]
    records: dict[tuple[int, str], Record]
    n_left_out: int  #: trials that some method has not finished

    def get(self, field: str, method: str) -> NDArray[np.float64]:
        """Return a field of a method, one value per trial; NaN where it was not recorded."""
        found = [self.records[trial, method].get(field) for trial in self.trials]
        return np.array([np.nan if value is None else value for value in found], dtype=float)

    def mean(self, field: str, method: str) -> float | None:
        """Return the mean of a field over the trials, None if it is not known or not finite."""
        values = self.get(field, method)
        return float(values.mean()) if len(values) and np.isfinite(values).all() else None


def read_records(paths: Iterable[str | Path]) -> list[Record]:
    """Read the records of all files; of the same trial and method the last one counts.

    A line that is no JSON object, as a killed run leaves it, is skipped with a warning.
    """
    found: dict[tuple[Any, ...], Record] = {}
    for path in map(Path, paths):
        for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").split("\n"), 1):
            if record := _parse(line, f"{path}, line {number}"):
                found.pop(key_of(record), None)
                found[key_of(record)] = record
    return list(found.values())


def key_of(record: Record) -> tuple[Any, ...]:
    """Return what tells a record apart from others."""
    return tuple(record[field] for field in KEY)


def _parse(line: str, where: str) -> Record | None:
    """Return the record of a line, None if there is none."""
    if not line.strip():
        return None
    try:
        record = json.loads(line)
    except json.JSONDecodeError:
        record = None
    if not isinstance(record, dict):
        warnings.warn(f"{where} is not a record (a run was killed while writing it?) and is skipped.", stacklevel=3)
        return None
    record = {"study": "main", "value": None} | record
    missing = [field for field in (*KEY, "accuracy") if field not in record]
    if missing:
        raise ValueError(f"{where}: the record has no {', '.join(missing)}. Is this a file of `benchmarks run`?")
    if not isinstance(record["accuracy"], int | float) or not math.isfinite(record["accuracy"]):
        raise ValueError(f"{where}: accuracy is {record['accuracy']!r}, not a number. Remove the line and run again.")
    if record["study"] != "main" and record["value"] is None:
        raise ValueError(f"{where}: a record of the study {record['study']!r} needs a value, got None.")
    return record


def by_setting(records: Iterable[Record]) -> dict[Setting, list[Record]]:
    """Group records by setting: the main experiment first, random classes before overlapping ones, as in the paper."""
    groups: dict[Setting, list[Record]] = {}
    for record in records:
        setting = Setting(record["study"], record["dataset"], record["protocol"], record["student"])
        groups.setdefault(setting, []).append(record)

    def place(setting: Setting) -> tuple[Any, ...]:
        study = STUDIES.index(setting.study) if setting.study in STUDIES else len(STUDIES)
        return study, setting.study, setting.dataset, setting.protocol != "random", setting

    return {setting: groups[setting] for setting in sorted(groups, key=place)}


def by_value(records: list[Record]) -> Iterator[tuple[float, Trials]]:
    """Go through the values of a sensitivity study, each with the trials that all its methods have."""
    for value in sorted({record["value"] for record in records}):
        yield value, complete_trials([record for record in records if record["value"] == value])


def complete_trials(records: Iterable[Record]) -> Trials:
    """Keep the trials that all methods which occur have finished."""
    table = {(record["trial"], record["method"]): record for record in records}
    methods = in_order({method for _, method in table})
    trials = sorted({trial for trial, _ in table})
    complete = [trial for trial in trials if all((trial, method) in table for method in methods)]
    return Trials(methods, complete, table, len(trials) - len(complete))


def in_order(methods: Iterable[str]) -> list[str]:
    """Sort methods as in the paper's table, others by name behind them."""
    return sorted(methods, key=lambda name: (METHODS.index(name) if name in METHODS else len(METHODS), name))
