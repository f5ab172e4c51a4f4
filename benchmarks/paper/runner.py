"""Run trials in parallel and store every finished student: a killed run resumes where it stopped.

Results are lines of JSON in one file. A worker writes what it has finished to a separate file of its trial, which the
main process reads when the trial is done or, after a kill, when the run is started again.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from joblib import Parallel, delayed, parallel_config
from tqdm.auto import tqdm

from benchmarks.paper.experiments import Experiment
from benchmarks.paper.records import Known, Record, check_conditions, key_of, read_records
from benchmarks.paper.trial import Trial, open_bench


def run(
    experiment: Experiment, numbers: Iterable[int], out: Path, jobs: int = 1, scheduler: str | None = None
) -> list[Record]:
    """Run what is missing of the trials and return all their records.

    Parameters
    ----------
    experiment : Experiment
        What to run.
    numbers : iterable of int
        Numbers of the trials, which are their seeds.
    out : Path
        File of results; added to, unless it holds results of this experiment from networks trained otherwise.
    jobs : int
        Trials at the same time on this machine.
    scheduler : str, optional
        Address of a Dask scheduler, whose workers run the trials instead.
    """
    bench, numbers, results = open_bench(experiment), list(numbers), Results(out)
    results.check(bench.conditions)
    todo = {number: results.missing(experiment, number) for number in numbers}
    todo = {number: wanted for number, wanted in todo.items() if wanted}
    students = sum(map(len, todo.values()))
    bar = tqdm(total=students, desc=f"{experiment.name}, {len(todo)} trials", unit="student", disable=not todo)
    bench.prepare(sorted(todo))
    with bar, _backend(scheduler, jobs):
        parallel = Parallel(return_as="generator_unordered", pre_dispatch="n_jobs")
        tasks = (delayed(run_trial)(experiment, number, todo[number], results.part(number)) for number in todo)
        for records in parallel(tasks):
            results.add(records)
            bar.update(len(records))
    return results.of(experiment, numbers)


def run_trial(
    experiment: Experiment, number: int, wanted: list[tuple[float | None, str]], part: Path | None
) -> list[Record]:
    """Run one trial; finished students are written to `part` at once, if that can be reached."""
    import torch

    torch.set_num_threads(1)  # trials share the cores, and sums in another order would give another table
    records = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            for record in Trial(open_bench(experiment), number).run(wanted):
                records.append(record)
                if part is not None and part.parent.is_dir():
                    with part.open("a") as file:
                        file.write(json.dumps(record) + "\n")
        except (OSError, ValueError) as error:  # not the user's, which the command line would tell without traceback
            raise RuntimeError(f"Trial {number} of {experiment.name} failed: {error}") from error
    return records


class Results:
    """A file of records, and the parts of trials under way beside it."""

    def __init__(self, file: Path) -> None:
        self.file, self.parts = file, file.with_suffix(".parts")
        self.parts.mkdir(parents=True, exist_ok=True)
        self.records = read_records([file] if file.exists() else [])
        self._end_last_line()
        for part in sorted(self.parts.glob("*.jsonl")):  # of a run that was killed
            self.add(read_records([part]))

    def part(self, number: int) -> Path:
        """Return the file of a trial under way."""
        return self.parts.resolve() / f"trial-{number}.jsonl"

    def add(self, records: list[Record]) -> None:
        """Keep records that are not there yet; their parts are no longer needed."""
        seen = {key_of(record) for record in self.records}
        new = [record for record in records if key_of(record) not in seen]
        with self.file.open("a") as file:
            file.writelines(json.dumps(record) + "\n" for record in new)
        self.records += new
        for number in {record["trial"] for record in records}:
            self.part(number).unlink(missing_ok=True)

    def check(self, conditions: Record) -> None:
        """Raise an error if conditions differ from those of the records."""
        known: Known = {}
        for record in self.records:
            check_conditions(record, str(self.file), known)
        check_conditions(conditions, "this run", known)

    def missing(self, experiment: Experiment, number: int) -> list[tuple[float | None, str]]:
        """Return the settings and methods of a trial that are missing."""
        seen = {key_of(record) for record in self.records}
        own = experiment.dataset, experiment.protocol, experiment.student, experiment.study
        pairs = [(value, method) for value in experiment.values for method in experiment.methods]
        return [(value, method) for value, method in pairs if (*own, value, number, method) not in seen]

    def of(self, experiment: Experiment, numbers: list[int]) -> list[Record]:
        """Return the records of an experiment's trials."""
        own = experiment.dataset, experiment.protocol, experiment.student, experiment.study
        return [r for r in self.records if key_of(r)[:4] == own and r["trial"] in numbers]

    def _end_last_line(self) -> None:
        """Complete a partial line that a kill may have left, so that the next record starts on a new line."""
        if self.file.exists() and self.file.stat().st_size and not self.file.read_bytes().endswith(b"\n"):
            with self.file.open("a") as file:
                file.write("\n")


@contextmanager
def _backend(scheduler: str | None, jobs: int) -> Iterator[None]:
    """Have joblib use this machine's cores, or a Dask cluster."""
    if scheduler is None:
        with parallel_config(n_jobs=jobs):
            yield
        return
    try:
        from dask.distributed import Client
    except ImportError as error:
        raise ImportError("--scheduler needs Dask: pip install 'dask[distributed]'.") from error
    with Client(scheduler), parallel_config("dask", n_jobs=-1):
        yield
