"""How well "none of these" tells rows of classes that no teacher knows.

    python -m benchmarks.membership_none --data FOLDER [--seeds 10] [--out benchmarks/results/membership-none.jsonl]

- "digits 7 to 9": teachers know digits among 0 to 6; transfer set and test have all ten.
- "Fashion-MNIST": teachers know MNIST's digits; a third of the transfer set and half of the test are Fashion-MNIST
  (`mnist.npz` and `fashion_mnist.npz` in the folder, 30 principal components of the transfer set).

Six teachers and their owners' scorers as in `benchmarks.membership_merge`; area under the ROC curve of the probability
of `none_label`, in the merge and of students, beside the confidence of a plain student; and the shares of known and of
foreign rows that are predicted as none, by `UnifiedEnsemble` and by students. Appends trial after trial and
leaves out what is there already; `python -m benchmarks.membership_summary` reads the file.
"""

from __future__ import annotations

import argparse
import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.decomposition import PCA
from sklearn.metrics import roc_auc_score

from benchmarks import PAPER
from benchmarks.lines import read
from benchmarks.membership_merge import FAST, STUDENTS, Trial, digits, mixed
from benchmarks.membership_summary import NONE_FILE
from sklearn_uhc import HeterogeneousDistiller, TeacherMerger, UnifiedEnsemble, fit_membership
from sklearn_uhc.students.temperature import sharpen

Case = tuple[Trial, NDArray[np.bool_]]


def unknown_digits(seed: int, folder: Path) -> Case:
    """Return teachers of 0 to 6, and which test rows are none of these."""
    trial = digits(seed, known=7)
    return trial, trial.y_test > 6


def clothes(seed: int, folder: Path) -> Case:
    """Return teachers of MNIST, and which test rows are Fashion-MNIST's."""
    rng = np.random.default_rng(seed)
    with np.load(folder / "mnist.npz") as data:
        rows = rng.choice(60000, 3500, replace=False)
        X, y = data["X_train"][rows].reshape(3500, -1) / 255.0, data["y_train"][rows].astype(int)
    with np.load(folder / "fashion_mnist.npz") as data:
        F = data["X_train"][rng.choice(60000, 1500, replace=False)].reshape(1500, -1) / 255.0
    pca = PCA(30, random_state=0).fit(np.concatenate([X[1500:2500], F[:500]]))
    X, F = pca.transform(X), pca.transform(F)
    scale = X.std()
    X, F = X / scale, F / scale
    inside = mixed(X, y, (1500, 1000, 1000), seed)
    assert inside.own is not None
    transfer = np.concatenate([inside.transfer, F[:500]])
    rows_of = [np.isin(inside.own[1], teacher.classes_) for teacher in inside.teachers]
    scorers = [fit_membership(inside.own[0][own], transfer, y_own=inside.own[1][own]) for own in rows_of]
    test = np.concatenate([inside.test, F[500:]])
    return inside._replace(transfer=transfer, scorers=scorers, test=test), np.arange(len(test)) >= len(inside.test)


SETTINGS = {"digits 7 to 9": unknown_digits, "Fashion-MNIST": clothes}


def measure(setting: str, seed: int, folder: Path) -> dict[str, Any]:
    """Return the areas of a trial."""
    trial, foreign = SETTINGS[setting](seed, folder)
    params: dict[str, Any] = {"membership": trial.scorers, "none_label": -1}
    merger = TeacherMerger(trial.teachers, method="mf_lf", **params).fit(trial.transfer)
    none = sharpen(merger.transform(trial.test), merger.method_.temperature)[:, 0]
    found = {"merge": roc_auc_score(foreign, none)}
    models: dict[str, Any] = {"merge": UnifiedEnsemble(trial.teachers, **PAPER, **params)}
    models |= {name: HeterogeneousDistiller(trial.teachers, STUDENTS[name], **PAPER, **params) for name in FAST}
    taken = {}
    for name, clf in models.items():
        proba = clf.fit(trial.transfer).predict_proba(trial.test)
        is_none = proba.argmax(axis=1) == 0
        taken[name] = [float(is_none[~foreign].mean()), float(is_none[foreign].mean())]
        if name != "merge":
            found[name] = roc_auc_score(foreign, proba[:, 0])
    plain = HeterogeneousDistiller(trial.teachers, STUDENTS["k-NN"], membership=None, **PAPER).fit(trial.transfer)
    found["confidence of a plain k-NN student"] = roc_auc_score(foreign, -plain.predict_proba(trial.test).max(axis=1))
    return {"setting": setting, "seed": seed, "taken": taken} | {key: float(value) for key, value in found.items()}


def main() -> None:
    """Run what is not there yet."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--out", type=Path, default=NONE_FILE)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    done = {(r["setting"], r["seed"]) for r in read(args.out)}
    for seed in range(200, 200 + args.seeds):
        for setting in SETTINGS:
            if (setting, seed) not in done:
                record = measure(setting, seed, args.data)
                with args.out.open("a") as file:
                    file.write(json.dumps(record) + "\n")
                print(record, flush=True)


if __name__ == "__main__":
    main()
