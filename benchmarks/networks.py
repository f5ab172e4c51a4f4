"""Networks as in the paper: small heads on frozen features as teachers and student, estimated and by backpropagation.

    python -m benchmarks.networks --data FOLDER [--trials 10] [--first 0] [--out docs/networks]

The random-classes protocol on the Tiny-ImageNet features: 20 to 50 classes, 10 to 20 teachers that know 5 to 15 of
them, 50 to 200 images per class and teacher (as many as there are, none shared), 10,000 unlabelled images of all 200
classes. A head is linear 256, batch norm, ReLU, linear; SGD with momentum .9, ten epochs at .1 and ten at .01; T = 3.
Within a trial all students start from the same weights and see the same batches. Finished trials are saved; a second
run adds to it.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from skorch import NeuralNetClassifier
from skorch.callbacks import LRScheduler
from torch import nn

from sklearn_uhc import HeterogeneousDistiller, LabelSpace, SoftLabelClassifier, TeacherOutputs

Array = NDArray[Any]
#: Row of the table: method, backprop, balance. SPV is supervised training on all the teachers' data.
ROWS: dict[str, tuple[str, bool, bool]] = {
    "SD": ("sd", False, False),
    "CE-E": ("ce", False, False),
    "MF-P-E": ("mf_p", False, False),
    "MF-LU-E": ("mf_lu", False, False),
    "MF-LF-E": ("mf_lf", False, False),
    "CE-BP": ("ce", True, False),
    "MF-P-BP": ("mf_p", True, False),
    "MF-LU-BP": ("mf_lu", True, False),
    "MF-LF-BP": ("mf_lf", True, False),
    "SD-BS": ("sd", False, True),
    "MF-LF-BS": ("mf_lf", False, True),
}


class Head(nn.Module):
    """Two layers on features, as the paper puts them on frozen extractors."""

    def __init__(self, n_in: int, n_out: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(n_in, 256), nn.BatchNorm1d(256), nn.ReLU(), nn.Linear(256, n_out))

    def forward(self, X: torch.Tensor) -> torch.Tensor:
        """Return logits."""
        logits: torch.Tensor = self.layers(X)
        return logits


def net(n_in: int, n_out: int) -> NeuralNetClassifier:
    return NeuralNetClassifier(
        Head,
        module__n_in=n_in,
        module__n_out=n_out,
        criterion=nn.CrossEntropyLoss,
        max_epochs=20,
        lr=0.1,
        optimizer__momentum=0.9,
        batch_size=128,
        iterator_train__shuffle=True,
        iterator_train__drop_last=True,  # batch norm cannot take a batch of one
        train_split=None,
        callbacks=[("rate", LRScheduler("StepLR", step_size=10, gamma=0.1))],
        callbacks__valid_acc=None,
        verbose=0,
    )


def draw_lists(rng: np.random.Generator) -> list[Array]:
    """Draw the teachers' class lists, connected, of 20 to 50 of the 200 classes."""
    while True:
        classes = rng.choice(200, rng.integers(20, 51), replace=False)
        lists = [rng.choice(classes, rng.integers(5, 16), replace=False) for _ in range(rng.integers(10, 21))]
        space = LabelSpace(lists)
        if space.n_classes == len(classes) and space.is_connected:
            return [np.sort(known) for known in lists]


def draw_rows(rng: np.random.Generator, lists: list[Array], y: Array) -> list[Array]:
    """Draw each teacher's rows: 50 to 200 per class, or what is left when all owners have the same; none shared."""
    rows: list[list[Array]] = [[] for _ in lists]
    for label in np.unique(np.concatenate(lists)):
        owners = [i for i, known in enumerate(lists) if label in known]
        pool = rng.permutation(np.flatnonzero(y == label))
        for k, i in enumerate(owners):
            share = len(pool) // len(owners)
            rows[i].append(pool[k * share : (k + 1) * share][: rng.integers(50, 201)])
    return [np.concatenate(parts) for parts in rows]


def trial(seed: int, data: Any) -> dict[str, Any]:
    """Run all methods once; returns their accuracies."""
    rng = np.random.default_rng(seed)
    lists = draw_lists(rng)
    rows = draw_rows(rng, lists, data["y_train"])
    X = data["X_train"].astype(np.float32)
    torch.manual_seed(seed)
    teachers = []
    for known, own in zip(lists, rows, strict=True):
        fitted = net(X.shape[1], len(known)).fit(X[own], np.searchsorted(known, data["y_train"][own]))
        teachers.append(fitted)
    classes = LabelSpace(lists).classes
    test = np.isin(data["y_test"], classes)
    X_test, y_test = data["X_test"][test].astype(np.float32), data["y_test"][test]
    pooled = np.concatenate(rows)
    torch.manual_seed(seed)
    supervised = net(X.shape[1], len(classes)).fit(X[pooled], np.searchsorted(classes, data["y_train"][pooled]))
    found: dict[str, Any] = {"SPV": float(np.mean(classes[supervised.predict(X_test)] == y_test))}
    unlabelled = data["X_unlabelled"].astype(np.float32)
    log_p = TeacherOutputs(teachers, class_lists=lists).fit_transform(unlabelled)
    for name, (method, backprop, balance) in ROWS.items():
        student = SoftLabelClassifier(net(X.shape[1], len(classes)), random_state=seed)
        clf = HeterogeneousDistiller(
            None, student, method=method, backprop=backprop, balance=balance, temperature=3.0, class_lists=lists
        )
        found[name] = float(clf.fit(unlabelled, log_p=log_p).score(X_test, y_test))
    return {"seed": seed, "classes": len(classes), "teachers": len(lists), "accuracy": found}


def report(trials: list[dict[str, Any]]) -> str:
    """Return a table of means and differences."""
    lines = ["| row | mean | standard error | minus SPV | minus SD |", "|---|---|---|---|---|"]
    names = list(trials[0]["accuracy"])
    values = {name: np.array([t["accuracy"][name] for t in trials]) for name in names}
    for name in names:
        error = values[name].std(ddof=1) / np.sqrt(len(trials)) if len(trials) > 1 else np.nan
        against = [f"{100 * (values[name] - values[other]).mean():+.1f}" for other in ("SPV", "SD")]
        lines.append(f"| {name} | {values[name].mean():.3f} | {error:.3f} | {against[0]} | {against[1]} |")
    return "\n".join(lines)


def main() -> None:
    warnings.simplefilter("ignore")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with tinyimagenet_lite0_pca256.npz")
    parser.add_argument("--trials", type=int, default=10)
    parser.add_argument("--first", type=int, default=0, help="seed of the first trial")
    parser.add_argument("--out", type=Path, default=Path("networks"), help="JSON file, without suffix")
    args = parser.parse_args()
    data = dict(np.load(args.data / "tinyimagenet_lite0_pca256.npz"))
    args.out.parent.mkdir(parents=True, exist_ok=True)
    file = args.out.with_suffix(".json")
    trials = {t["seed"]: t for t in (json.loads(file.read_text()) if file.exists() else [])}
    for seed in range(args.first, args.first + args.trials):
        if seed not in trials:
            start = time.perf_counter()
            trials[seed] = trial(seed, data)
            file.write_text(json.dumps(list(trials.values()), indent=1))
            print(seed, f"{time.perf_counter() - start:.0f} s", trials[seed]["accuracy"], flush=True)
    print(report(list(trials.values())))


if __name__ == "__main__":
    main()
