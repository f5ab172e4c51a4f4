"""What a merge gains if teachers may say "not mine".

    python -m benchmarks.membership_merge run --data FOLDER [--trials 10]
    python -m benchmarks.membership_merge more --data FOLDER

`run` appends trial after trial and leaves out what is there already. `more` adds forests and networks on Tiny-ImageNet
features. `python -m benchmarks.membership_summary` writes `results/membership.json`, from this and from the two scripts
named below.

- digits (scikit-learn's), MNIST and Fashion-MNIST (`mnist.npz`, `fashion_mnist.npz` in the folder, 30 principal
  components of the transfer set): six teachers that know 3 to 5 classes each, of different kinds; for digits, six
  networks as well.
- Tiny-ImageNet features (`tinyimagenet_lite0_pca256.npz`): the paper's random classes, 20 to 50 among 10 to 20
  teachers, logistic regressions here; the transfer set has rows of all 200 classes, most of them known to nobody. The
  paper's own setting, with networks, is `benchmarks.membership_paper`.

Students are trained on soft labels of the transfer set: plain, and with `fit_membership` of every owner (its own rows
with their classes against the transfer set). "Supervised" students get
the transfer set's true labels; on Tiny-ImageNet, where it has none, the teachers' own rows with theirs. The weight is
chosen on digits of other seeds than those reported. "None of these" is `benchmarks.membership_none`.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from benchmarks import PAPER, configured
from benchmarks.lines import read
from benchmarks.paper.protocol import MANY_CLASSES, draw_trial
from sklearn_uhc import HeterogeneousDistiller, LabelSpace, TeacherMerger, fit_membership

Array = NDArray[Any]

RESULTS = Path("benchmarks/results/membership-merge.jsonl")
GAMMAS = (0.1, 0.3, 1.0, 3.0)
#: Weights are chosen on the first seeds, and results reported on the others.
CHOOSING, REPORTING = range(5), range(100, 110)
STUDENTS = {
    "k-NN": KNeighborsClassifier(),
    "logistic": LogisticRegression(max_iter=300),
    "forest": RandomForestClassifier(60, random_state=0, n_jobs=1),
    "network": MLPClassifier((64,), max_iter=60, random_state=0),
}
#: Students on Tiny-ImageNet, and for choosing weights.
FAST = ("k-NN", "logistic")
KINDS: list[Callable[[], Any]] = [
    lambda: make_pipeline(StandardScaler(), LogisticRegression(max_iter=300)),
    lambda: RandomForestClassifier(60, random_state=0),
    lambda: KNeighborsClassifier(),
    lambda: DecisionTreeClassifier(random_state=0, min_samples_leaf=3),
    lambda: GaussianNB(var_smoothing=1e-2),
    lambda: make_pipeline(StandardScaler(), LogisticRegression(C=0.1, max_iter=300)),
]
NETWORKS: list[Callable[[], Any]] = [lambda k=k: MLPClassifier((64,), max_iter=60, random_state=k) for k in range(6)]


class Trial(NamedTuple):
    """Fitted teachers, their owners' scorers, and the data to merge them on."""

    teachers: list[Any]
    scorers: list[Any]
    transfer: Array
    test: Array
    y_test: Array
    labelled: tuple[Array, Array]  #: training data of a supervised student
    y_transfer: Array | None = None
    own: tuple[Array, Array] | None = None  #: rows and classes that the teachers' own rows were taken from


def mixed(
    X: Array,
    y: Array,
    sizes: tuple[int, int, int],
    seed: int,
    known: int = 10,
    kinds: Sequence[Any] = KINDS,
    scored: bool = True,
) -> Trial:
    """Return six teachers that know 3 to 5 of the first `known` classes each, with scorers if these are wanted."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(X))[: sum(sizes)]
    train, transfer, test = np.split(order, np.cumsum(sizes)[:-1])
    while True:
        lists = [rng.choice(known, rng.integers(3, 6), replace=False) for _ in kinds]
        space = LabelSpace(lists)
        if space.is_connected and space.n_classes == known:
            break
    own = [train[np.isin(y[train], labels)] for labels in lists]
    teachers = [kind().fit(X[rows], y[rows]) for kind, rows in zip(kinds, own, strict=True)]
    scorers = [fit_membership(X[rows], X[transfer], y_own=y[rows]) for rows in own if scored]
    labelled, pool = (X[transfer], y[transfer]), (X[train], y[train])
    return Trial(teachers, scorers, X[transfer], X[test], y[test], labelled, y[transfer], pool)


def digits(
    seed: int, folder: Path | None = None, known: int = 10, kinds: Sequence[Any] = KINDS, scored: bool = True
) -> Trial:
    """Return a trial with scikit-learn's digits."""
    X, y = load_digits(return_X_y=True)
    return mixed(X / 16, y, (600, 600, 597), seed, known, kinds, scored)


def images(file: str, seed: int, folder: Path, scored: bool = True) -> Trial:
    """Return a trial with images in 30 principal components."""
    rng = np.random.default_rng(seed)
    with np.load(folder / file) as data:
        rows = rng.choice(len(data["y_train"]), 4500, replace=False)
        X, y = data["X_train"][rows].reshape(len(rows), -1) / 255.0, data["y_train"][rows]
    X = PCA(30, random_state=0).fit(X[:1500]).transform(X)
    return mixed(X / X.std(), y.astype(int), (1500, 1500, 1500), seed, scored=scored)


def features(seed: int, folder: Path) -> Trial:
    """Return a trial with features of Tiny-ImageNet and the paper's random classes."""
    with np.load(folder / "tinyimagenet_lite0_pca256.npz") as data:
        X, y = data["X_train"], data["y_train"].astype(int)
        transfer, test, y_test = data["X_unlabelled"][:2500].astype(float), data["X_test"], data["y_test"].astype(int)
    draw = draw_trial(seed, y, MANY_CLASSES, "random", ("logistic",))
    scale = transfer.std()
    transfer = transfer / scale
    rows_of = [X[rows].astype(float) / scale for rows in draw.rows]
    teachers = [
        LogisticRegression(C=0.1, max_iter=200).fit(own, y[rows]) for own, rows in zip(rows_of, draw.rows, strict=True)
    ]
    scorers = [fit_membership(own, transfer, y_own=y[rows]) for own, rows in zip(rows_of, draw.rows, strict=True)]
    known = np.isin(y_test, draw.classes)
    labelled = np.concatenate(rows_of), y[np.concatenate(draw.rows)]
    return Trial(teachers, scorers, transfer, test[known].astype(float) / scale, y_test[known], labelled)


DATA: dict[str, Callable[[int, Path], Trial]] = {
    "digits": digits,
    "digits, networks": lambda seed, folder: digits(seed, folder, kinds=NETWORKS),
    "MNIST": lambda seed, folder: images("mnist.npz", seed, folder),
    "Fashion-MNIST": lambda seed, folder: images("fashion_mnist.npz", seed, folder),
    "Tiny-ImageNet features": features,
}


def accuracies(trial: Trial, students: dict[str, Any], **params: Any) -> dict[str, float]:
    """Return the accuracy of the soft labels, where the transfer set has true ones, and of every student."""
    found = {}
    if trial.y_transfer is not None:
        merger = TeacherMerger(trial.teachers, method="mf_lf", **params)
        Q = merger.fit_transform(trial.transfer)
        found["soft labels"] = float((merger.classes_[Q.argmax(axis=1)] == trial.y_transfer).mean())
    for name, student in students.items():
        clf = configured(HeterogeneousDistiller, trial.teachers, student, **PAPER, **params).fit(trial.transfer)
        found[name] = known_accuracy(clf, trial, params.get("none_label"))
    return found


def known_accuracy(clf: Any, trial: Trial, none_label: Any) -> float:
    """Return the accuracy among the known classes."""
    proba = clf.predict_proba(trial.test)
    known = clf.classes_ != none_label if none_label is not None else np.ones(len(clf.classes_), dtype=bool)
    return float((clf.classes_[known][proba[:, known].argmax(axis=1)] == trial.y_test).mean())


def supervised(trial: Trial, students: dict[str, Any]) -> dict[str, float]:
    """Return the accuracy of students with true labels."""
    fitted = {name: clone(student).fit(*trial.labelled) for name, student in students.items()}
    return {name: float(clf.score(trial.test, trial.y_test)) for name, clf in fitted.items()}


def choose(seed: int) -> list[dict[str, Any]]:
    """Try weights."""
    trial = digits(seed)
    few = {name: STUDENTS[name] for name in FAST}
    return [
        {"part": "choosing", "seed": seed, "weight": weight}
        | accuracies(trial, few, membership=trial.scorers, membership_weight=weight)
        for weight in (0.0, *GAMMAS)
    ]


def compare(name: str, seed: int, folder: Path) -> list[dict[str, Any]]:
    """Compare plain, with membership and supervised."""
    start = time.process_time()
    trial = DATA[name](seed, folder)
    tiny = name.startswith("Tiny")
    students = {key: STUDENTS[key] for key in (FAST if tiny else STUDENTS)}
    ways: dict[str, dict[str, float]] = {
        "plain": accuracies(trial, students, membership=None),
        "membership": accuracies(trial, students, membership=trial.scorers),
    }
    if tiny:
        ways["membership, none of these"] = accuracies(trial, students, membership=trial.scorers, none_label=-1)
    ways["supervised"] = supervised(trial, students)
    seconds = time.process_time() - start
    return [
        {"part": "comparing", "data": name, "seed": seed, "way": way, "seconds": seconds} | found
        for way, found in ways.items()
    ]


def compare_slow(seed: int, folder: Path) -> list[dict[str, Any]]:
    """Compare forests and networks on Tiny-ImageNet features."""
    name = "Tiny-ImageNet features"
    trial, students = DATA[name](seed, folder), {key: STUDENTS[key] for key in STUDENTS if key not in FAST}
    ways = {
        "plain": accuracies(trial, students, membership=None),
        "membership": accuracies(trial, students, membership=trial.scorers),
        "supervised": supervised(trial, students),
    }
    return [{"part": "comparing", "data": name, "seed": seed, "way": way} | found for way, found in ways.items()]


def run_more(folder: Path, out: Path) -> None:
    """Run slow students and more trials, what is not there yet."""
    warnings.simplefilter("ignore")
    done = {(r["data"], r["seed"], column) for r in read(out) if r["part"] == "comparing" for column in r}
    for tiny in REPORTING:
        jobs = [("Tiny-ImageNet features", tiny, lambda tiny=tiny: compare_slow(tiny, folder))]
        for name, number, job in jobs:
            if (name, number, "forest") not in done:
                with out.open("a") as file:
                    file.writelines(json.dumps(record) + "\n" for record in job())
                print(name, number, flush=True)


def run(folder: Path, out: Path, trials: int) -> None:
    """Run what is missing, the data sets in turn, and slow Tiny-ImageNet last."""
    warnings.simplefilter("ignore")
    done = {(r["part"], r.get("data"), r["seed"]) for r in read(out)}
    fast = [(name, seed) for seed in REPORTING[:trials] for name in DATA if not name.startswith("Tiny")]
    slow = [("Tiny-ImageNet features", seed) for seed in REPORTING] if trials == len(REPORTING) else []
    jobs: list[tuple[tuple[str, str | None, int], Callable[[], list[dict[str, Any]]]]] = []
    jobs += [(("choosing", None, seed), lambda seed=seed: choose(seed)) for seed in CHOOSING[:trials]]
    jobs += [(("comparing", *job), lambda job=job: compare(*job, folder)) for job in fast + slow]
    for key, job in jobs:
        if key not in done:
            with out.open("a") as file:
                file.writelines(json.dumps(record) + "\n" for record in job())
            print(*key, flush=True)


def main() -> None:
    """Run what is not there yet."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["run", "more"])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--trials", type=int, default=len(REPORTING))
    parser.add_argument("--out", type=Path, default=RESULTS)
    args = parser.parse_args()
    if args.what == "run":
        run(args.data, args.out, args.trials)
    else:
        run_more(args.data, args.out)


if __name__ == "__main__":
    main()
