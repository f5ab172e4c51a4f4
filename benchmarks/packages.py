"""Fuzzed packages counted, and the way from owners to onnxruntime measured: `python -m benchmarks.packages`.

Writes benchmarks/results/packages.json. `--data` is a folder with fashion_mnist.npz; without it only digits are taken.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections import Counter
from pathlib import Path

import numpy as np
import onnxruntime
import sklearn
from sklearn.datasets import load_digits, make_blobs
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sklearn_uhc import pack_teacher
from tests.deployment import deploy_alone, merge
from tests.fuzzing import fuzz


def fuzzed(folder: Path, n: int) -> dict[str, dict[str, int]]:
    """Count what comes of changed packages, half of them of a forest, half of a Pipeline."""
    X, y = make_blobs(300, n_features=4, centers=4, cluster_std=2.5, random_state=0)
    judge = LogisticRegression().fit(X, y < 2)
    forest = RandomForestClassifier(5, max_depth=4, random_state=0).fit(X, y)
    pipeline = make_pipeline(StandardScaler(), LogisticRegression()).fit(X, y)
    packages = [
        pack_teacher(forest, folder / "forest", X, membership=judge),
        pack_teacher(pipeline, folder / "pipeline", X),
    ]
    found = {}
    for kind in ("raw", "members", "tags"):
        total = Counter(
            outcome for package in packages for outcome in fuzz(package, kind, 1000, 1000 + n // 2).values()
        )
        found[kind] = dict(total)
    return found


def deployed(folder: Path, X: np.ndarray, y: np.ndarray, side: int) -> dict[str, float]:
    """Pack five models, merge them without pickle, and run the result with numpy and onnxruntime only."""
    merge(folder, X, y, side)
    words = deploy_alone(folder).split()
    return {
        "rows": int(words[5]),
        "max_error": float(words[1]),
        "labels_that_differ": int(words[3]),
        "accuracy": float(words[7]),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--n", type=int, default=1000, help="changed packages of each kind")
    given = parser.parse_args()
    X, y = load_digits(return_X_y=True)
    sets = {"digits": (X / 16, y, 8)}
    if given.data:
        with np.load(given.data / "fashion_mnist.npz", allow_pickle=False) as data:
            sets["fashion_mnist"] = (
                data["X_train"][:4000].reshape(4000, -1) / 255,
                data["y_train"][:4000].astype(int),
                28,
            )
    result: dict[str, object] = {
        "versions": {"onnxruntime": onnxruntime.__version__, "scikit-learn": sklearn.__version__}
    }
    with tempfile.TemporaryDirectory() as folder:
        result["fuzzed"] = fuzzed(Path(folder), given.n)
    for name, data_set in sets.items():
        with tempfile.TemporaryDirectory() as folder:
            result[name] = deployed(Path(folder), *data_set)
    Path("benchmarks/results/packages.json").write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
