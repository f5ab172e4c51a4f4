"""More rows than memory: from Parquet through six teachers to merged predictions in Parquet, on a Dask cluster.

    python -m benchmarks.dask_scale data --millions 20 --folder DIR
    python -m benchmarks.dask_scale [--millions 1 2 5 10 20] [--in-memory 1] [--methods mf_lf ce] [--rounds 3]
        [--folder DIR]

Two worker processes with a memory limit each read, ask, merge and write block by block. Beside it, one process with
`n_jobs=2` does the same work in memory, on as many rows as --in-memory says; there cluster and process take turns,
--rounds times. Both read and write Parquet, and every process holds BLAS to one thread. `fit`, with class weights, asks
the teachers about all rows, and `predict_proba` asks them again. Not in the times: making the data, training the
teachers, and starting Python with its imports, on the workers as in the process.

Results are appended to results/dask_scale.json, one record a run; runs that are there are left out, so that a benchmark
that was interrupted goes on. A record "overhead" compares medians. CPU seconds are those of all processes together.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
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
from threadpoolctl import threadpool_limits

from sklearn_uhc import UnifiedEnsemble

RESULTS = Path(__file__).parent / "results" / "dask_scale.json"
FEATURES, CLASSES, TEACHERS, KNOWN = 20, 10, 6, 5
ROWS_PER_FILE = 100_000
MEMORY_LIMIT = 2**30
COLUMNS = [f"x{j}" for j in range(FEATURES)]
#: Memory settings of Dask's worker processes: by default they return each array above 64 KiB to the system at once, and
#: page faults take up to half of the time.
ALLOCATOR = {"MALLOC_TRIM_THRESHOLD_": 2**27, "MALLOC_MMAP_THRESHOLD_": 2**25}
#: Bytes per row: features, answers, soft labels.
ROW_BYTES = 8 * (FEATURES + TEACHERS * KNOWN + CLASSES)


def rows(n: int, seed: int) -> tuple[pd.DataFrame, np.ndarray]:
    """Return n rows around the centres of ten classes, and their classes."""
    centres = np.random.default_rng(0).normal(size=(CLASSES, FEATURES))
    rng = np.random.default_rng([1, seed])
    y = rng.integers(CLASSES, size=n)
    return pd.DataFrame(centres[y] + 1.5 * rng.standard_normal((n, FEATURES)), columns=COLUMNS), y


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
    """Write the files for n rows, unless they exist."""
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    for i in range(-(-n // ROWS_PER_FILE)):
        file = folder / f"part-{i:04d}.parquet"
        if not file.exists():
            part = file.with_suffix(".part")
            rows(ROWS_PER_FILE, i)[0].to_parquet(part, index=False, use_dictionary=False)
            part.rename(file)
        files.append(str(file))
    return files


class Watch:
    """Peak resident memory of processes, sampled ten times a second, and their CPU time."""

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
        """Return the measurements for n rows."""
        return {
            "seconds": round(self.seconds, 2),
            "rows_per_second": round(n / self.seconds),
            "cpu_seconds": round(self.cpu_seconds, 1),
            "cpu_us_per_row": round(1e6 * self.cpu_seconds / n, 2),
            "load": round(os.getloadavg()[0], 1),
        }


def on_cluster(files: list[str], teachers: Any, method: str, out: Path, n: int, allocator: Any) -> dict[str, Any]:
    """Fit and predict with two worker processes."""
    import dask
    import dask.dataframe as dd
    from distributed import Client, LocalCluster

    from sklearn_uhc.dask.cluster import client_in_use

    settings = {"n_workers": 2, "threads_per_worker": 1, "memory_limit": MEMORY_LIMIT, "dashboard_address": ":0"}
    environ = {f"distributed.nanny.pre-spawn-environ.{name}": value for name, value in allocator.items()}
    with dask.config.set(environ), LocalCluster(**settings) as cluster, Client(cluster) as client:
        client_in_use()  # workers import the package
        workers = list(client.run(os.getpid).values())
        with Watch([os.getpid(), *workers]) as watch:
            X = dd.read_parquet(files)
            ensemble = UnifiedEnsemble(teachers, method=method).fit(X)
            ensemble.predict_proba(X).to_parquet(str(out), write_index=False)
        same = sorted(client.run(os.getpid).values()) == sorted(workers)
    return {
        **watch.record(n),
        "worker_mib": round(max(watch.most[1:]) / 2**20),
        "client_mib": round(watch.most[0] / 2**20),
        "limit_mib": MEMORY_LIMIT // 2**20,
        "workers_survived": same,
        "class_weight": ensemble.class_weight_.tolist(),
    }


def in_memory(files: list[str], teachers: Any, method: str, out: Path, n: int) -> dict[str, Any]:
    """Do the same in one process."""
    out.mkdir(parents=True, exist_ok=True)
    with threadpool_limits(1), Watch([os.getpid()]) as watch:
        X = pd.read_parquet(files)
        ensemble = UnifiedEnsemble(teachers, method=method, n_jobs=2).fit(X)
        proba = pd.DataFrame(ensemble.predict_proba(X), columns=[str(label) for label in ensemble.classes_])
        proba.to_parquet(out / "part.0.parquet", index=False)
    peak = round(watch.most[0] / 2**20)
    return {**watch.record(n), "process_mib": peak, "class_weight": ensemble.class_weight_.tolist()}


def difference(one: Path, other: Path) -> float:
    """Return the largest difference of predictions in two folders, of the rows that both have."""
    first, second = (pd.read_parquet(folder / "part.0.parquet").to_numpy() for folder in (one, other))
    n = min(len(first), len(second))
    return float(np.abs(first[:n] - second[:n]).max())


def add_run(records: list[dict[str, Any]], folder: Path, key: dict[str, Any]) -> None:
    """Measure one run, unless it exists, and save it."""
    if any(all(r.get(name) == value for name, value in key.items()) for r in records):
        return
    n, where, method = int(key["millions"] * 1e6), key["where"], key["method"]
    files = make_data(folder / "X", n)
    out = folder / f"{where.partition(',')[0].replace(' ', '_')}-{method}-{n}"
    shutil.rmtree(out, ignore_errors=True)
    if where == "in memory":
        found = in_memory(files, make_teachers(), method, out, n)
    else:
        found = on_cluster(files, make_teachers(), method, out, n, ALLOCATOR if where == "cluster" else {})
    record = {**key, **found, "gib_of_data": round(ROW_BYTES * n / 2**30, 2)}
    beside = folder / f"in_memory-{method}-{n}"
    if where != "in memory" and beside.exists():
        record["difference"] = difference(out, beside)
    records.append(record)
    print({k: v for k, v in record.items() if k != "class_weight"}, flush=True)
    save(records)


def save(records: list[dict[str, Any]]) -> None:
    """Write all runs, and the records computed from them."""
    runs = [r for r in records if r["where"] != "overhead"]
    RESULTS.write_text(json.dumps(runs + list(overheads(runs)), indent=1) + "\n")


def overheads(runs: list[dict[str, Any]]) -> Any:
    """Yield a record for every method and size measured both on the cluster and in one process."""
    times: dict[tuple[str, float, str], list[float]] = {}
    for r in runs:
        times.setdefault((r["method"], r["millions"], r["where"]), []).append(r["seconds"])
    for (method, millions, where), here in times.items():
        there = times.get((method, millions, "cluster"))
        if where == "in memory" and there:
            ratios = sorted(a / b for a, b in zip(there, here, strict=False))
            yield {
                "where": "overhead",
                "method": method,
                "millions": millions,
                "rounds": len(ratios),
                "cluster_seconds": statistics.median(there),
                "memory_seconds": statistics.median(here),
                "ratio": round(statistics.median(ratios), 3),
                "lowest": round(ratios[0], 3),
                "highest": round(ratios[-1], 3),
            }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("what", nargs="?", choices=["run", "data"], default="run")
    parser.add_argument("--millions", type=float, nargs="*", default=[1, 2, 5, 10, 20])
    parser.add_argument("--in-memory", type=float, nargs="*", default=[1])
    parser.add_argument("--methods", nargs="*", default=["mf_lf", "ce"])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "dask_scale")
    args = parser.parse_args()
    if args.what == "data":
        make_data(args.folder / "X", int(max(args.millions) * 1e6))
        return
    records = json.loads(RESULTS.read_text()) if RESULTS.exists() else []
    for number in range(args.rounds):
        for millions in args.in_memory:
            for method in args.methods:
                for where in ("in memory", "cluster", *(["cluster, malloc as Dask has it"] if number == 0 else [])):
                    key = {"where": where, "method": method, "millions": millions, "round": number}
                    add_run(records, args.folder, key)
    for millions in args.millions:
        for method in args.methods:
            add_run(records, args.folder, {"where": "cluster", "method": method, "millions": millions, "round": 0})


if __name__ == "__main__":
    main()
