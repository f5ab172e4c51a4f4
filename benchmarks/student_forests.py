"""How far forests on soft labels should grow: accuracy, log-loss, time and memory, by the rule that ends branches.

    python -m benchmarks.student_forests --data FOLDER

Digits and Tiny-ImageNet features as in `benchmarks/students.py` (20 trees, at most 10,000 rows), soft labels at T = 1
and 3. The default of the library, `LEAST_GAIN` in `students/twins.py`, was chosen on seeds 0 and 1 of the features and
0 to 5 of the digits; reported are others. Memory is that of the trees' arrays. Every run is appended to
`benchmarks/results/student-forests.jsonl`, and `student_forests.json` has means over seeds, with the 95 % interval
of what a rule changes compared with trees that grow down to single rows.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import t
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
from sklearn.metrics import log_loss

from benchmarks.lines import RESULTS, measure_once, read
from benchmarks.students import FEATURES, digits_problem, features_problem, prepare
from sklearn_uhc import SoftLabelClassifier

FOREST = {"random forest": RandomForestClassifier, "extra trees": ExtraTreesClassifier}
#: Parameters of the forest; a least decrease that is not 0 is taken as it is.
RULES: dict[str, dict[str, Any]] = {
    "single rows": {"min_impurity_decrease": 1e-15},
    "default": {},
    "leaves of 2": {"min_samples_leaf": 2, "min_impurity_decrease": 1e-15},
}
SEEDS = {"digits": range(6, 12), "Tiny-ImageNet features": range(2, 6)}
CHANGES = ("accuracy", "log-loss")


def measure(path: Path, forest: str, seed: int) -> list[dict[str, Any]]:
    """Train on hard labels, and on soft labels by every rule."""
    data = np.load(path)
    X, Q, weight, T = data["X"][:10_000], data["Q"][:10_000], data["weight"][:10_000], float(data["temperature"])
    kind = FOREST[forest]
    ways = {"hard labels": lambda: kind(20, random_state=seed).fit(X, Q.argmax(axis=1))}
    for rule, params in RULES.items():
        student = SoftLabelClassifier(kind(20, random_state=seed, **params), temperature=T)
        ways[rule] = partial(student.fit, X, Q, weight)
    found = []
    for rule, train in ways.items():
        start = time.process_time()
        fitted = train()
        seconds = time.process_time() - start
        P = fitted.predict_proba(data["X_test"])
        trees = [tree.tree_ for tree in _forest(fitted).estimators_]
        found.append(
            {
                "rule": rule,
                "seconds": seconds,
                "nodes": sum(tree.node_count for tree in trees),
                "MiB": sum(tree.value.nbytes + tree.__getstate__()["nodes"].nbytes for tree in trees) / 2**20,
                "accuracy": float(np.mean(fitted.classes_[P.argmax(axis=1)] == data["y_test"])),
                "log-loss": float(log_loss(data["y_test"], P, labels=np.arange(Q.shape[1]))),
            }
        )
    return found


def _forest(fitted: Any) -> Any:
    return fitted.estimator_ if isinstance(fitted, SoftLabelClassifier) else fitted


def summary(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return means over seeds, and the change against single rows with half the width of its 95 % interval."""
    rows = []
    for dataset, T, forest, rule in dict.fromkeys((r["dataset"], r["T"], r["forest"], r["rule"]) for r in records):
        here = [r for r in records if (r["dataset"], r["T"], r["forest"]) == (dataset, T, forest)]
        found, whole = ({r["seed"]: r for r in here if r["rule"] == which} for which in (rule, "single rows"))
        row: dict[str, Any] = {"dataset": dataset, "T": T, "forest": forest, "rule": rule, "seeds": len(found)}
        for key in ("seconds", "nodes", "MiB", *CHANGES):
            row[key] = float(np.mean([r[key] for r in found.values()]))
        for key in CHANGES:
            change = np.array([found[seed][key] - whole[seed][key] for seed in found])
            row[f"change of {key}"] = float(change.mean())
            row[f"interval of {key}"] = float(t.ppf(0.975, len(change) - 1) * change.std(ddof=1) / len(change) ** 0.5)
        rows.append(row)
    return sorted(rows, key=lambda row: (row["dataset"], row["T"], row["forest"]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with tinyimagenet_lite0_pca256.npz")
    parser.add_argument("--results", type=Path, default=RESULTS / "student-forests.jsonl")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/student_forests.json"))
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for dataset, seeds in SEEDS.items():
            for seed in seeds:
                problem = digits_problem(seed) if dataset == "digits" else features_problem(args.data, seed)
                for T in (1.0, 3.0):
                    path = Path(folder) / "data.npz"
                    prepare(problem, T, path, None if dataset == "digits" else FEATURES)
                    for forest in FOREST:
                        keys = {"dataset": dataset, "T": T, "seed": seed, "forest": forest}
                        measure_once(args.results, keys, measure, path, forest, seed)
    args.out.write_text(json.dumps(summary(read(args.results)), indent=1) + "\n")


if __name__ == "__main__":
    main()
