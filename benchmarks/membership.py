"""How well `fit_membership` tells a teacher's own classes from classes that it has never seen.

    python -m benchmarks.membership --data FOLDER [--seeds 10] [--out benchmarks/results/membership.jsonl]

Own rows: digits 0 to 6 (scikit-learn's), or 1,000 of MNIST (`mnist.npz` in the folder). Foreign rows: digits 7 to 9, or
Fashion-MNIST (`fashion_mnist.npz`). Public rows are like the transfer set, with foreign rows in it, or, harder, without
any ("unseen"). Area under the ROC curve of own test rows against foreign ones, beside that of the confidence (largest
probability) of a logistic regression trained on the own rows; mean score of both; and the size of the scorer. Owners
give the classes of their rows.
"""

from __future__ import annotations

import argparse
import json
import pickle
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sklearn_uhc import fit_membership

Arrays = tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]]


def digits(seed: int, folder: Path) -> Arrays:
    """Return own rows, their classes, public rows, and own and foreign test rows of scikit-learn's digits."""
    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(seed).permutation(len(X))
    train, public, test = np.split(order, [600, 1200])
    own, foreign = train[y[train] < 7], test[y[test] >= 7]
    return X[own], y[own], X[public], X[test[y[test] < 7]], X[foreign]


def images(seed: int, folder: Path, known: int = 10) -> Arrays:
    """Return the same of MNIST, with Fashion-MNIST as foreign rows, half of the public ones."""
    rng = np.random.default_rng(seed)
    with np.load(folder / "mnist.npz") as file:
        rows = rng.choice(60000, 3000, replace=False)
        X, y = file["X_train"][rows].reshape(3000, -1) / 255, file["y_train"][rows]
    with np.load(folder / "fashion_mnist.npz") as file:
        F = file["X_train"][rng.choice(60000, 2000, replace=False)].reshape(2000, -1) / 255
    train, test = np.flatnonzero(y[:1000] < known), 2000 + np.flatnonzero(y[2000:] < known)
    return X[train], y[train], np.concatenate([X[1000:2000], F[:1000]]), X[test], F[1000:]


def unseen_digits(seed: int, folder: Path) -> Arrays:
    """Return digits with public rows of the own classes and of 7 alone; the foreign rows are 8 and 9."""
    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(seed).permutation(len(X))
    train, public, test = np.split(order, [600, 1200])
    own = train[y[train] < 7]
    return X[own], y[own], X[public[y[public] < 8]], X[test[y[test] < 7]], X[test[y[test] > 7]]


def unseen_images(seed: int, folder: Path) -> Arrays:
    """Return MNIST's 0 to 6 with MNIST as public rows; the foreign rows are Fashion-MNIST."""
    own, y, public, test, foreign = images(seed, folder, known=7)
    return own, y, public[:1000], test, foreign


SETTINGS = {
    "digits 0-6 against 7-9": digits,
    "MNIST against Fashion-MNIST": images,
    "digits 0-6 against 8-9, unseen": unseen_digits,
    "MNIST 0-6 against Fashion-MNIST, unseen": unseen_images,
}


def run(name: str, seed: int, folder: Path) -> dict[str, Any]:
    X_own, y_own, X_public, inside, outside = SETTINGS[name](seed, folder)
    truth = np.repeat([1, 0], [len(inside), len(outside)])
    X = np.concatenate([inside, outside])
    start = time.perf_counter()
    scorer = fit_membership(X_own, X_public, y_own=y_own)
    seconds = time.perf_counter() - start
    d = scorer.predict_membership(X)
    teacher = make_pipeline(StandardScaler(), LogisticRegression(max_iter=500)).fit(X_own, y_own)
    return {
        "setting": name,
        "seed": seed,
        "auroc": roc_auc_score(truth, d),
        "auroc_confidence": roc_auc_score(truth, teacher.predict_proba(X).max(axis=1)),
        "mean_own": float(d[truth == 1].mean()),
        "mean_foreign": float(d[truth == 0].mean()),
        "seconds": seconds,
        "kilobytes": len(pickle.dumps(scorer)) / 1024,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/membership.jsonl"))
    args = parser.parse_args()
    results = [run(name, seed, args.data) for name in SETTINGS for seed in range(2000, 2000 + args.seeds)]
    args.out.write_text("".join(json.dumps(result) + "\n" for result in results))
    print("| rows | AUROC | of the teacher's confidence | mean, own | mean, foreign |\n|---|---|---|---|---|")
    for name in SETTINGS:
        own = [result for result in results if result["setting"] == name]
        keys = ("auroc", "auroc_confidence", "mean_own", "mean_foreign")
        cells = [np.mean([result[key] for result in own]) for key in keys]
        spread = np.std([result["auroc"] for result in own], ddof=1) if len(own) > 1 else 0.0
        print(f"| {name} | {cells[0]:.3f} ± {spread:.3f} | " + " | ".join(f"{cell:.3f}" for cell in cells[1:]) + " |")


if __name__ == "__main__":
    main()
