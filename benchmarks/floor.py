"""Which smallest probability should a teacher be allowed? Accuracy of the merged labels, before any student.

    python -m benchmarks.floor --seeds 12 [--data FOLDER]

Compares constant floors with `floor="auto"`, and counts how small the answers of classifiers get. With --data, a folder
that holds `tinyimagenet_lite0_pca256.npz` (arrays X_train, y_train, X_unlabelled, X_test, y_test of image features),
`mnist.npz` and `fashion_mnist.npz`, network teachers of the paper's size are added. One record a line in
benchmarks/results/floor.jsonl; an interrupted run goes on.
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer, load_iris, load_wine
from sklearn.naive_bayes import GaussianNB, MultinomialNB
from sklearn.neural_network import MLPClassifier

from benchmarks.digits import make_trial
from benchmarks.lines import RESULTS, measure_once
from sklearn_uhc import CrossEntropyUnifier, LabelSpace, LogitFactorization, TeacherOutputs

FLOORS: list[Any] = [1e-1, 1e-2, 1e-3, 1e-6, "auto"]
SETTINGS = [("mixed", 6, 3, 5), ("votes", 6, 3, 5), ("networks", 6, 3, 5), ("mixed", 6, 4, 7), ("votes", 6, 4, 7)]
METHODS = {"MF-LF": LogitFactorization, "CE": CrossEntropyUnifier}


def label_accuracy(teachers: list[Any], X: NDArray[Any], y: NDArray[Any]) -> dict[Any, float]:
    """Accuracy of the most probable merged class for every floor and method."""
    out = {}
    for floor in FLOORS:
        low = floor if floor == "auto" else min(floor, 0.9 / max(len(t.classes_) for t in teachers))
        outputs = TeacherOutputs(teachers, floor=low).fit(X)
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


def by_floor(found: dict[Any, float]) -> list[dict[str, Any]]:
    """Return a record per floor."""
    return [{"floor": str(floor), **{m: found[floor, m] for m in METHODS}} for floor in FLOORS]


def digits_by_floor(seed: int, setting: tuple[str, int, int, int]) -> list[dict[str, Any]]:
    return by_floor(digits(seed, setting))


def networks_by_floor(seed: int, folder: Path) -> list[dict[str, Any]]:
    return by_floor(networks(seed, folder))


def share_of_small(teacher: Any, X: NDArray[Any]) -> dict[str, float]:
    """Return the shares of a teacher's probabilities that are 0, below 1e-6 and below 1e-20."""
    P = teacher.predict_proba(X)
    return {"zero": float((P == 0).mean()), "1e-6": float((P < 1e-6).mean()), "1e-20": float((P < 1e-20).mean())}


def shares(seed: int) -> list[dict[str, Any]]:
    """How small the answers of classifiers get, for every kind of teacher of digits and for naive Bayes on tables."""
    warnings.simplefilter("ignore")
    trial, found = make_trial(seed, "mixed", 6, 3, 5), []
    for teacher in trial.teachers:
        name = type(teacher[-1] if hasattr(teacher, "steps") else teacher).__name__
        found.append({"teacher": f"{name}, digits (3-5)", **share_of_small(teacher, trial.X_unlabelled)})
    for load in (load_wine, load_breast_cancer, load_iris):
        X, y = load(return_X_y=True)
        half = np.random.default_rng(seed).permutation(len(y)) < len(y) // 2
        found.append({"teacher": "GaussianNB, tables", **share_of_small(GaussianNB().fit(X[half], y[half]), X[~half])})
    return found


def image_shares(seed: int, folder: Path) -> list[dict[str, Any]]:
    """Do the same for naive Bayes and a network on MNIST and Fashion-MNIST."""
    warnings.simplefilter("ignore")
    found = []
    for name in ("mnist", "fashion_mnist"):
        with np.load(folder / f"{name}.npz") as data:
            X, y = data["X_train"][:4000].reshape(4000, -1) / 255, data["y_train"][:4000]
        for model in (MultinomialNB(), MLPClassifier((256,), max_iter=30, random_state=seed)):
            small = share_of_small(model.fit(X[:3000], y[:3000]), X[3000:])
            found.append({"teacher": f"{type(model).__name__}, MNIST and Fashion-MNIST (10)", **small})
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=12)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--out", type=Path, default=RESULTS / "floor.jsonl")
    args = parser.parse_args()
    tiny = "Tiny-ImageNet features, 10 to 20 networks of 5 to 15"
    for seed in range(2000, 2000 + args.seeds):
        for setting in SETTINGS:
            name = "digits, {}, {} of {} to {}".format(*setting)
            measure_once(args.out, {"part": "floors", "teachers": name, "seed": seed}, digits_by_floor, seed, setting)
        if seed < 2004:
            measure_once(args.out, {"part": "shares", "seed": seed}, shares, seed)
        if seed < 2004 and args.data:
            keys = {"part": "floors", "teachers": tiny, "seed": seed}
            measure_once(args.out, keys, networks_by_floor, seed, args.data)
    if args.data:
        measure_once(args.out, {"part": "image shares"}, image_shares, 2000, args.data)


if __name__ == "__main__":
    main()
