"""Results of runs: one JSON record per line for every finished (trial, method)."""

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

from benchmarks.paper.experiments import EXPERIMENTS
from benchmarks.paper.published import METHODS

STUDIES = ("main", "size", "temperature", "accuracy")  #: in the paper's order
Record = dict[str, Any]
#: Fields that identify a record.
KEY = ("dataset", "protocol", "student", "study", "value", "trial", "method")
#: Fields that all records of a setting must share: students trained in different ways do not make one table.
CONDITIONS = ("epochs", "batch_size", "teachers", "data")


class Setting(NamedTuple):
    """A setting, over whose trials results are averaged."""

    study: str
    dataset: str
    protocol: str
    student: str

    def __str__(self) -> str:
        return f"{self.dataset}, {self.protocol} classes, student {self.student}"


#: Conditions of settings, each with its value and where it stands.
Known = dict[tuple[Setting, str], tuple[Any, str]]


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

    Records of one setting that were trained under different conditions are refused.
    A line that is no JSON object, as a killed run leaves it, is skipped with a warning.
    """
    found: dict[tuple[Any, ...], Record] = {}
    known: Known = {}
    for path in map(Path, paths):
        for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").split("\n"), 1):
            if record := _parse(line, f"{path}, line {number}"):
                check_conditions(record, str(path), known)
                found.pop(key_of(record), None)
                found[key_of(record)] = record
    return list(found.values())


def key_of(record: Record) -> tuple[Any, ...]:
    """Return what tells a record apart from others."""
    return tuple(record[field] for field in KEY)


def conditions_of(record: Record) -> dict[str, Any]:
    """Return how a record's networks were trained; what was not recorded is the dataset's default, if it has one."""
    default = EXPERIMENTS.get(record["dataset"])
    found = {name: record.get(name, getattr(default, name, None)) for name in CONDITIONS}
    return {name: list(value) if name == "teachers" else value for name, value in found.items() if value is not None}


def check_conditions(record: Record, where: str, known: Known) -> None:
    """Refuse conditions other than those `known` of the same setting, by value and place; note new ones there."""
    setting = setting_of(record)
    for name, value in conditions_of(record).items():
        first, place = known.setdefault((setting, name), (value, where))
        if first != value:
            raise ValueError(
                f"{place} holds {name}={first}, but {where} has {name}={value}, both of the study {setting.study!r} of"
                f" {setting}. They make no table together: run with another --out, and report the files apart."
            )


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


def setting_of(record: Record) -> Setting:
    """Return the setting that a record belongs to."""
    return Setting(*(record[field] for field in Setting._fields))


def by_setting(records: Iterable[Record]) -> dict[Setting, list[Record]]:
    """Group records by setting: the main experiment first, random classes before overlapping ones, as in the paper."""
    groups: dict[Setting, list[Record]] = {}
    for record in records:
        groups.setdefault(setting_of(record), []).append(record)

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
