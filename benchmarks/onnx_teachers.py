"""How fast teachers in ONNX files are read beside the originals, how exact they are, and what memory they take.

    python -m benchmarks.onnx_teachers [--rows 20000] [--seeds 1 2 3] [--out benchmarks/results/onnx_teachers.json]

Five teachers of digits (forest, logistic regression in a Pipeline, LightGBM, XGBoost, a small convolutional network)
are trained, converted, and asked about rows of digits with noise, in double precision, one thread each. Times are the
best of five runs; only ratios within one run mean anything. Memory is what a process of its own takes at most while it
reads, beyond what it had before and beyond the answers, for these rows and for ten times as many. Batch sizes were
compared with --seeds 0 --batches 64 256 1024 4096.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sklearn_uhc import OnnxTeacher, TorchTeacher

Floats = NDArray[np.floating[Any]]
NAMES = ["forest", "logistic Pipeline", "LightGBM", "XGBoost", "CNN"]


def rows_of_digits(n: int, seed: int) -> tuple[Floats, NDArray[Any]]:
    rng = np.random.default_rng(seed)
    X, y = load_digits(return_X_y=True)
    chosen = rng.integers(0, len(X), n)
    return X[chosen] / 16 + rng.normal(scale=0.05, size=(n, X.shape[1])), y[chosen]


def train(name: str, X: Floats, y: NDArray[Any], seed: int) -> Any:
    if name == "forest":
        return RandomForestClassifier(100, random_state=seed, n_jobs=1).fit(X, y)
    if name == "logistic Pipeline":
        return make_pipeline(StandardScaler(), LogisticRegression(max_iter=500)).fit(X, y)
    if name == "LightGBM":
        import lightgbm

        return lightgbm.LGBMClassifier(n_jobs=1, verbose=-1, random_state=seed).fit(X, y)
    if name == "XGBoost":
        import xgboost

        return xgboost.XGBClassifier(n_jobs=1, random_state=seed).fit(X, y)
    return train_network(X, y, seed)


def train_network(X: Floats, y: NDArray[Any], seed: int) -> Any:
    import torch
    from torch import nn

    torch.manual_seed(seed)
    layers = [nn.Unflatten(1, (1, 8, 8)), nn.Conv2d(1, 16, 3), nn.ReLU(), nn.Conv2d(16, 32, 3), nn.ReLU(), nn.Flatten()]
    module = nn.Sequential(*layers, nn.Linear(512, 10))
    optimizer = torch.optim.Adam(module.parameters(), lr=0.003)
    inputs, labels = torch.as_tensor(X, dtype=torch.float32), torch.as_tensor(y)
    for _ in range(60):
        optimizer.zero_grad()
        nn.functional.cross_entropy(module(inputs), labels).backward()
        optimizer.step()
    return TorchTeacher(module.eval(), list(range(10)), device="cpu")


def convert(name: str, model: Any, X: Floats) -> bytes:
    example = X[:2].astype(np.float32)
    if name in ("LightGBM", "XGBoost"):
        import onnxmltools
        from onnxmltools.convert.common.data_types import FloatTensorType

        function = onnxmltools.convert_lightgbm if name == "LightGBM" else onnxmltools.convert_xgboost
        return function(model, initial_types=[("X", FloatTensorType([None, X.shape[1]]))]).SerializeToString()
    if name == "CNN":
        import torch

        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "cnn.onnx"
            shapes = ({0: torch.export.Dim("n")},)
            options: dict[str, Any] = {"dynamic_shapes": shapes, "dynamo": True, "verbose": False}
            torch.onnx.export(model.module, (torch.as_tensor(example),), path, external_data=False, **options)
            return path.read_bytes()
    from skl2onnx import to_onnx

    return to_onnx(model, example).SerializeToString()


def best_time(function: Callable[[Any], Any], X: Floats, runs: int = 5) -> float:
    function(X[:100])
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        function(X)
        times.append(time.perf_counter() - start)
    return min(times)


def measure(name: str, n: int, seed: int, batches: list[int]) -> dict[str, Any]:
    X_train, y_train = rows_of_digits(2000, seed)
    X, _ = rows_of_digits(n, seed + 1000)
    model = train(name, X_train, y_train, seed)
    content = convert(name, model, X)
    file = OnnxTeacher(content, list(range(10)), n_threads=1)
    exact = model.predict_proba(X.astype(np.float32))
    off = np.abs(file.predict_proba(X) - exact).max(axis=1)
    # All are asked as a merge asks them: for log-probabilities if they have them.
    ask = getattr(model, "predict_log_proba", model.predict_proba)
    with np.errstate(divide="ignore"):
        original = best_time(ask, X)
        found = {b: best_time(file.set_params(batch_size=b).predict_log_proba, X) / original for b in batches}
    row = {"teacher": name, "seed": seed, "µs a row": 1e6 * original / n, "ratio": found, "kB": len(content) / 1e3}
    return row | {"rows that differ by more than 1e-5": int((off > 1e-5).sum()), "rows": n}


def peak_memory(name: str, kind: str, n: int, seed: int) -> float:
    """Return the MB that reading n rows takes beyond X and the answers, in a process of its own."""
    command = [sys.executable, "-W", "ignore", "-m", "benchmarks.onnx_teachers", "--memory-of", name, kind]
    command += ["--rows", str(n), "--seeds", str(seed)]
    shown = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return float(shown.splitlines()[-1])


def show_peak_memory(name: str, kind: str, n: int, seed: int) -> None:
    X_train, y_train = rows_of_digits(2000, seed)
    model: Any = train(name, X_train, y_train, seed)
    if kind == "ONNX":
        model = OnnxTeacher(convert(name, model, X_train), list(range(10)), n_threads=1)
    X = np.full((n, 64), 0.5)  # not zeros, which take no memory until they are read
    model.predict_proba(X[:2000])  # what is allocated once
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    filler = np.ones(max(0, (before * 1024 - current_memory()) // 8))  # so that the peak so far is exceeded at once
    start = current_memory()
    answers = model.predict_proba(X)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    del filler
    print((peak - start - answers.nbytes) / 1e6)


def current_memory() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def show(found: dict[str, Any]) -> None:
    """Print the table."""
    print(
        "| teacher | original, µs a row | ONNX / original | rows that differ | file, kB | memory, MB: original | ONNX |"
    )
    print("|---" * 7 + "|")
    for name in NAMES:
        rows = [row for row in found["times"] if row["teacher"] == name]
        ratios = [ratio for row in rows for ratio in row["ratio"].values()]
        if len(rows[0]["ratio"]) > 1:
            print(name, {batch: round(ratio, 2) for batch, ratio in rows[0]["ratio"].items()})
        off = sum(row["rows that differ by more than 1e-5"] for row in rows) / sum(row["rows"] for row in rows)
        memory = [found["memory"].get(f"{name}, {kind}", []) for kind in ("original", "ONNX")]
        shown = [" → ".join(f"{max(0, value):.0f}" for value in values) for values in memory]
        cost, size = np.mean([row["µs a row"] for row in rows]), np.mean([row["kB"] for row in rows])
        cells = [f"{cost:.2g}", f"{min(ratios):.2f} to {max(ratios):.2f}", f"{off:.2%}", f"{size:.0f}", *shown]
        print(f"| {name} | " + " | ".join(cells) + " |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--batches", type=int, nargs="+", default=[OnnxTeacher(b"").batch_size])
    parser.add_argument("--memory-of", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    if args.memory_of:
        show_peak_memory(*args.memory_of, args.rows, args.seeds[0])
        return
    times = [measure(name, args.rows, seed, args.batches) for name in NAMES for seed in args.seeds]
    memory: dict[str, list[float]] = {}
    if args.out:
        for name in NAMES:
            for kind in ("original", "ONNX"):
                sizes = (args.rows, 10 * args.rows)
                memory[f"{name}, {kind}"] = [peak_memory(name, kind, n, args.seeds[0]) for n in sizes]
    found = {"times": times, "memory": memory}
    if args.out:
        rounded = json.loads(json.dumps(found), parse_float=lambda value: float(f"{float(value):.4g}"))
        args.out.write_text(json.dumps(rounded, indent=1, ensure_ascii=False) + "\n")
    show(found)


if __name__ == "__main__":
    main()
