"""More rows than memory: from Parquet through six teachers to merged predictions in Parquet, on a Dask cluster.

    python -m benchmarks.dask_scale [--millions 1 2 5 10 20] [--in-memory 1] [--methods mf_lf ce] [--folder DIR]

Two worker processes with a memory limit each read, ask, merge and write block by block. Beside it, one process with
`n_jobs=2` does the same work in memory, on as many rows as --in-memory says. Both read and write Parquet, and all
processes hold BLAS to one thread. There are two rounds of work: `fit`, with class weights, asks the teachers about all
rows; `predict_proba` asks them again. Results are appended to docs/dask_scale.json, one record a run; runs that are
there are left out. CPU seconds are those of all processes together: they do not depend on who else uses the machine.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import psutil
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.tree import DecisionTreeClassifier

from sklearn_uhc import UnifiedEnsemble

RESULTS = Path(__file__).parent.parent / "docs" / "dask_scale.json"
FEATURES, CLASSES, TEACHERS, KNOWN = 20, 10, 6, 5
ROWS_PER_FILE = 100_000
MEMORY_LIMIT = 2**30
COLUMNS = [f"x{j}" for j in range(FEATURES)]


def rows(n: int, seed: int) -> tuple[pd.DataFrame, np.ndarray]:
    """Return n rows around the centres of ten classes, and their classes."""
    centres = np.random.default_rng(0).normal(size=(CLASSES, FEATURES))
    rng = np.random.default_rng([1, seed])
    y = rng.integers(CLASSES, size=n)
    return pd.DataFrame(centres[y] + 1.5 * rng.normal(size=(n, FEATURES)), columns=COLUMNS), y


def make_teachers() -> dict[str, Any]:
    """Return six classifiers, each of which knows five of the ten classes."""
    rng = np.random.default_rng(2)
    kinds = [LogisticRegression(max_iter=500), GaussianNB(), DecisionTreeClassifier(max_depth=8, random_state=0)]
    teachers = {}
    for i in range(TEACHERS):
        known = np.sort(np.append(rng.permutation(np.delete(np.arange(CLASSES), i))[: KNOWN - 1], i))
        X, y = rows(8000, 10**6 + i)
        mine = np.isin(y, known)
        kind = kinds[i % len(kinds)]
        teachers[f"site {i}"] = type(kind)(**kind.get_params()).fit(X[mine], y[mine])
    return teachers


def make_data(folder: Path, n: int) -> list[str]:
    """Write as many files as n rows need, unless they are there."""
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    for i in range(-(-n // ROWS_PER_FILE)):
        file = folder / f"part-{i:04d}.parquet"
        if not file.exists():
            rows(ROWS_PER_FILE, i)[0].to_parquet(file.with_suffix(".part"), index=False)
            file.with_suffix(".part").rename(file)
        files.append(str(file))
    return files


class Watch:
    """Largest resident memory of processes, looked at ten times a second, and their CPU time."""

    def __init__(self, pids: list[int]) -> None:
        self.processes = [psutil.Process(pid) for pid in pids]
        self.most, self.ended = [0] * len(pids), threading.Event()
        self.thread = threading.Thread(target=self._look, daemon=True)

    def _look(self) -> None:
        while not self.ended.wait(0.1):
            for i, process in enumerate(self.processes):
                with suppress(psutil.NoSuchProcess):
                    self.most[i] = max(self.most[i], process.memory_info().rss)

    def cpu(self) -> float:
        """Return the CPU seconds of all processes so far."""
        return sum(sum(process.cpu_times()[:2]) for process in self.processes if process.is_running())

    def __enter__(self) -> Watch:
        self.start, self.cpu_start = time.perf_counter(), self.cpu()
        self.thread.start()
        return self

    def __exit__(self, *_: Any) -> None:
        self.seconds, self.cpu_seconds = time.perf_counter() - self.start, self.cpu() - self.cpu_start
        self.ended.set()
        self.thread.join()

    def record(self, n: int) -> dict[str, Any]:
        """Return what was measured of n rows."""
        return {
            "seconds": round(self.seconds, 1),
            "rows_per_second": round(n / self.seconds),
            "cpu_seconds": round(self.cpu_seconds, 1),
            "cpu_us_per_row": round(1e6 * self.cpu_seconds / n, 2),
            "peak_mib": [round(most / 2**20) for most in self.most],
            "load": round(os.getloadavg()[0], 1),
        }


def on_cluster(files: list[str], method: str, out: Path, n: int) -> dict[str, Any]:
    """Fit and predict with two worker processes; returns measurements and the first probabilities."""
    import dask.dataframe as dd
    from distributed import Client, LocalCluster

    settings = {"n_workers": 2, "threads_per_worker": 1, "memory_limit": MEMORY_LIMIT, "dashboard_address": ":0"}
    with LocalCluster(**settings) as cluster, Client(cluster) as client:
        workers = list(client.run(os.getpid).values())
        X = dd.read_parquet(files)
        with Watch([os.getpid(), *workers]) as watch:
            ensemble = UnifiedEnsemble(make_teachers(), method=method).fit(X)
            ensemble.predict_proba(X).to_parquet(str(out), write_index=False)
        same = sorted(client.run(os.getpid).values()) == sorted(workers)
    return {**watch.record(n), "workers_survived": same, "class_weight": ensemble.class_weight_.tolist()}


def in_memory(files: list[str], method: str, out: Path, n: int) -> dict[str, Any]:
    """Do the same in this process."""
    with Watch([os.getpid()]) as watch:
        X = pd.concat([pd.read_parquet(file) for file in files], ignore_index=True)
        ensemble = UnifiedEnsemble(make_teachers(), method=method, n_jobs=2).fit(X)
        out.mkdir(parents=True, exist_ok=True)
        proba = pd.DataFrame(ensemble.predict_proba(X), columns=[str(label) for label in ensemble.classes_])
        proba.to_parquet(out / "part.0.parquet", index=False)
    return {**watch.record(n), "class_weight": ensemble.class_weight_.tolist()}


def difference(one: Path, other: Path) -> float:
    """Return the largest difference of predictions in two folders, of the rows that both have."""
    first, second = (pd.read_parquet(folder / "part.0.parquet").to_numpy() for folder in (one, other))
    n = min(len(first), len(second))
    return float(np.abs(first[:n] - second[:n]).max())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--millions", type=float, nargs="*", default=[1, 2, 5, 10, 20])
    parser.add_argument("--in-memory", type=float, nargs="*", default=[1])
    parser.add_argument("--methods", nargs="*", default=["mf_lf", "ce"])
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "dask_scale")
    args = parser.parse_args()
    records = json.loads(RESULTS.read_text()) if RESULTS.exists() else []
    runs = [("in memory", m, n) for n in args.in_memory for m in args.methods]
    runs += [("cluster", m, n) for n in args.millions for m in args.methods]
    for where, method, millions in runs:
        if any((r["where"], r["method"], r["millions"]) == (where, method, millions) for r in records):
            continue
        n = int(millions * 1e6)
        files = make_data(args.folder / "X", n)
        out = args.folder / f"{where.replace(' ', '_')}-{method}-{n}"
        shutil.rmtree(out, ignore_errors=True)
        found = (on_cluster if where == "cluster" else in_memory)(files, method, out, n)
        bytes_ = {"input": 8 * FEATURES, "answers": 8 * TEACHERS * KNOWN, "soft labels": 8 * CLASSES}
        record = {"where": where, "method": method, "millions": millions, **found}
        record["gib_of_data"] = round(sum(bytes_.values()) * n / 2**30, 2)
        record["limit_mib"] = 2 * MEMORY_LIMIT // 2**20 if where == "cluster" else None
        beside = args.folder / f"in_memory-{method}-{n}"
        if where == "cluster" and beside.exists():
            record["difference"] = difference(out, beside)
        records.append(record)
        RESULTS.write_text(json.dumps(records, indent=1) + "\n")
        print({k: v for k, v in record.items() if k != "class_weight"}, flush=True)


if __name__ == "__main__":
    main()
