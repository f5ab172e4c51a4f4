"""Networks as students: length of training, the factor T² of the loss, and MF-LU by backpropagation at high T.

    python -m benchmarks.networks [--seeds 4]

A network of 64, 32 and 10 units on 500 unlabelled digits; three forests of five digits each are the teachers, on images
of their own. Accuracy on 397 other images. One record a line in benchmarks/results/networks.jsonl; an interrupted
run goes on.
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from skorch import NeuralNetClassifier
from torch import nn

from benchmarks.lines import RESULTS, measure_once
from sklearn_uhc import HeterogeneousDistiller, LogitFactorization, SoftLabelClassifier

Array = NDArray[Any]
LISTS = [[0, 1, 2, 3, 4], [3, 4, 5, 6, 7], [6, 7, 8, 9, 0]]


class Net(nn.Module):
    """Logits of ten classes from 64 pixels."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))

    def forward(self, X: torch.Tensor) -> torch.Tensor:
        """Return logits."""
        out: torch.Tensor = self.layers(X)
        return out


def sgd(epochs: int, rate: float = 0.1) -> Any:
    """Return a net that SGD trains, in batches of 16."""
    return NeuralNetClassifier(
        Net, max_epochs=epochs, lr=rate, batch_size=16, optimizer__momentum=0.9, train_split=None, verbose=0
    )


def adam(epochs: int) -> Any:
    """Return the net made of a bare module, with a given number of epochs."""
    return NeuralNetClassifier(
        Net, max_epochs=epochs, lr=0.001, batch_size=128, optimizer=torch.optim.Adam, train_split=None, verbose=0
    )


def accuracy(seed: int, student: Any, **params: Any) -> float:
    """Accuracy of a student in the trial of a seed."""
    warnings.simplefilter("ignore")
    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(seed).permutation(len(y))
    X, y = (X[order] / 16).astype(np.float32), y[order]
    teachers = []
    for k, known in enumerate(LISTS):
        rows = 300 * k + np.flatnonzero(np.isin(y[300 * k : 300 * k + 300], known))
        teachers.append(RandomForestClassifier(random_state=seed).fit(X[rows], y[rows]))
    student = SoftLabelClassifier(student, random_state=seed)
    clf = HeterogeneousDistiller(teachers, student, balance=not params.get("backprop"), **params).fit(X[900:1400])
    return float(clf.score(X[1400:], y[1400:]))


def length(seed: int) -> list[dict[str, Any]]:
    """Train a bare module, and the same with 20 epochs, on soft labels of CE and by backpropagation."""
    found = []
    for name, student in (("default", Net()), ("20 epochs", adam(20))):
        for backprop in (False, True):
            value = accuracy(seed, student, method="ce", temperature=3, backprop=backprop)
            found.append({"training": name, "backprop": backprop, "accuracy": value})
    return found


def factor(seed: int) -> list[dict[str, Any]]:
    """Train with the loss times T², and without the factor, which is a learning rate divided by T²."""
    found = []
    for T in (1, 3, 10):
        for name, rate in (("T²", 0.01), ("none", 0.01 / T**2)):
            value = accuracy(seed, sgd(30, rate), method="ce", temperature=T)
            found.append({"factor": name, "T": T, "accuracy": value})
    return found


def ridge(seed: int, epochs: int) -> list[dict[str, Any]]:
    """Train MF-LU by backpropagation, with the paper's ridge and with one that follows T."""
    found = []
    for T in (1, 3, 10):
        for name, lam in (("0.01", 0.01), ("0.01 / T²", 0.01 / T**2)):
            method = LogitFactorization(scale="free", lam=lam)
            value = accuracy(seed, sgd(epochs, 0.01), method=method, temperature=T, backprop=True)
            found.append({"lam": name, "T": T, "accuracy": value})
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--out", type=Path, default=RESULTS / "networks.jsonl")
    args = parser.parse_args()
    for seed in range(3000, 3000 + args.seeds):
        measure_once(args.out, {"part": "length", "seed": seed}, length, seed)
        measure_once(args.out, {"part": "factor", "seed": seed}, factor, seed)
        measure_once(args.out, {"part": "ridge", "epochs": 30, "seed": seed}, ridge, seed, 30)
        if seed < 3001:
            measure_once(args.out, {"part": "ridge", "epochs": 100, "seed": seed}, ridge, seed, 100)


if __name__ == "__main__":
    main()
