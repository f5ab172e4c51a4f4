"""Which smallest probability should a teacher be allowed? Accuracy of the merged labels, before any student.

    python -m benchmarks.floor --seeds 12 [--data FOLDER]

Compares constant floors with `floor="auto"`. With --data, a folder that holds `tinyimagenet_lite0_pca256.npz` (arrays
X_train, y_train, X_unlabelled, X_test, y_test of image features), network teachers of the paper's size are added.
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from sklearn.neural_network import MLPClassifier

from benchmarks.digits import make_trial
from sklearn_uhc import CrossEntropyUnifier, LabelSpace, LogitFactorization, TeacherOutputs

FLOORS: list[Any] = [1e-1, 1e-2, 1e-3, 1e-6, "auto"]
SETTINGS = [("mixed", 6, 3, 5), ("votes", 6, 3, 5), ("networks", 6, 3, 5), ("mixed", 6, 4, 7), ("votes", 6, 4, 7)]
METHODS = {"MF-LF": LogitFactorization, "CE": CrossEntropyUnifier}


def label_accuracy(teachers: list[Any], X: NDArray[Any], y: NDArray[Any]) -> dict[Any, float]:
    """Accuracy of the most probable merged class for every floor and method."""
    out = {}
    for floor in FLOORS:
        outputs = TeacherOutputs(teachers, floor=floor).fit(X)
        for name, method in METHODS.items():
            merged = method(outputs.class_lists_, temperature=3)
            Q = merged.fit_transform(outputs.transform(X))
            out[floor, name] = float((merged.classes_[Q.argmax(axis=1)] == y).mean())
    return out


def digits(seed: int, setting: tuple[str, int, int, int]) -> dict[Any, float]:
    warnings.simplefilter("ignore")
    trial = make_trial(seed, *setting)
    return label_accuracy(trial.teachers, trial.X_unlabelled, trial.y_unlabelled)


def networks(seed: int, folder: Path) -> dict[Any, float]:
    """Random-classes protocol of the paper: 20 to 50 classes, 10 to 20 networks of 5 to 15 classes."""
    warnings.simplefilter("ignore")
    rng = np.random.default_rng(seed)
    with np.load(folder / "tinyimagenet_lite0_pca256.npz") as data:
        X, y, X_test, y_test = (data[k] for k in ("X_train", "y_train", "X_test", "y_test"))
    classes = rng.choice(np.unique(y), rng.integers(20, 51), replace=False)
    while True:
        lists = [rng.choice(classes, rng.integers(5, 16), replace=False) for _ in range(rng.integers(10, 21))]
        if LabelSpace(lists).is_connected:
            break
    teachers = []
    for known in lists:
        rows = np.concatenate([rng.choice(np.flatnonzero(y == c), 100, replace=False) for c in known])
        net = MLPClassifier((256,), max_iter=20, random_state=seed)
        teachers.append(net.fit(X[rows].astype(np.float32), y[rows]))
    test = np.isin(y_test, np.concatenate(lists))
    return label_accuracy(teachers, X_test[test].astype(np.float32), y_test[test])


def report(name: str, trials: list[dict[Any, float]]) -> None:
    cells = [" / ".join(f"{np.mean([t[floor, m] for t in trials]):.3f}" for m in METHODS) for floor in FLOORS]
    print(f"| {name} | " + " | ".join(cells) + " |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=12)
    parser.add_argument("--data", type=Path)
    args = parser.parse_args()
    seeds = range(2000, 2000 + args.seeds)
    print(f"MF-LF / CE, means over {args.seeds} seeds\n| teachers | " + " | ".join(map(str, FLOORS)) + " |")
    print("|---" * (len(FLOORS) + 1) + "|")
    for setting in SETTINGS:
        trials = Parallel(n_jobs=-1)(delayed(digits)(seed, setting) for seed in seeds)
        report("digits, {}, {} teachers of {} to {}".format(*setting), trials)
    if args.data:
        trials = Parallel(n_jobs=-1)(delayed(networks)(seed, args.data) for seed in seeds[:4])
        report("Tiny-ImageNet features, networks, 4 seeds", trials)


if __name__ == "__main__":
    main()
