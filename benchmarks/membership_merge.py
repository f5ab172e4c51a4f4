"""What a merge gains if teachers may say "not mine".

    python -m benchmarks.membership_merge run --data FOLDER [--trials 10]
    python -m benchmarks.membership_merge summary

`run` appends trial after trial and leaves out what is there already; `summary` writes `docs/membership.json`, from this
and from the two scripts named below.

- digits (scikit-learn's), MNIST and Fashion-MNIST (`mnist.npz`, `fashion_mnist.npz` in the folder, 30 principal
  components of the transfer set): six teachers that know 3 to 5 classes each, of different kinds; for digits, six
  networks as well.
- Tiny-ImageNet features (`tinyimagenet_lite0_pca256.npz`): the paper's random classes, 20 to 50 among 10 to 20
  teachers, logistic regressions here; the transfer set has rows of all 200 classes, most of them known to nobody. The
  paper's own setting, with networks, is `benchmarks.membership_paper`.

Students are trained on soft labels of the transfer set: plain, with `fit_membership` of every owner (its own rows with
their classes against the transfer set), and with an out-of-fold student in the owners' place. "Supervised" students get
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
from scipy.stats import t as student_t
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

from benchmarks.lines import read
from benchmarks.paper.protocol import MANY_CLASSES, draw_trial
from sklearn_uhc import HeterogeneousDistiller, LabelSpace, TeacherMerger, fit_membership

Array = NDArray[Any]

RESULTS = Path("benchmarks/results/membership-merge.jsonl")
SUMMARY = Path("docs/membership.json")
GAMMAS = (0.1, 0.3, 1.0, 3.0)
#: Weights are chosen on the first seeds, and results reported on the others.
CHOOSING, REPORTING = range(5), range(100, 110)
#: The records of the paper's setting, by way.
PAPER = {"plain": "CE-BS", "supervised": "SPV"}
PAPER_FILES = Path("benchmarks/results/features-random.jsonl"), Path("benchmarks/results/membership-paper.jsonl")
NONE_FILE = Path("benchmarks/results/membership-none.jsonl")
#: Tiny-ImageNet features as they were while scorers were compared with labels at temperature 1.
BEFORE_FILE = Path("benchmarks/results/membership-before.jsonl")
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
    labelled: tuple[Array, Array]  #: what a supervised student is trained on
    y_transfer: Array | None = None
    own: tuple[Array, Array] | None = None  #: rows and classes that the teachers' own rows were taken from


def mixed(
    X: Array, y: Array, sizes: tuple[int, int, int], seed: int, known: int = 10, kinds: Sequence[Any] = KINDS
) -> Trial:
    """Return six teachers that know 3 to 5 of the first `known` classes each."""
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
    scorers = [fit_membership(X[rows], X[transfer], y_own=y[rows]) for rows in own]
    labelled, pool = (X[transfer], y[transfer]), (X[train], y[train])
    return Trial(teachers, scorers, X[transfer], X[test], y[test], labelled, y[transfer], pool)


def digits(seed: int, folder: Path | None = None, known: int = 10, kinds: Sequence[Any] = KINDS) -> Trial:
    """Return a trial with scikit-learn's digits."""
    X, y = load_digits(return_X_y=True)
    return mixed(X / 16, y, (600, 600, 597), seed, known, kinds)


def images(file: str, seed: int, folder: Path) -> Trial:
    """Return a trial with images in 30 principal components."""
    rng = np.random.default_rng(seed)
    with np.load(folder / file) as data:
        rows = rng.choice(len(data["y_train"]), 4500, replace=False)
        X, y = data["X_train"][rows].reshape(len(rows), -1) / 255.0, data["y_train"][rows]
    X = PCA(30, random_state=0).fit(X[:1500]).transform(X)
    return mixed(X / X.std(), y.astype(int), (1500, 1500, 1500), seed)


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
        merger = TeacherMerger(trial.teachers, **params)
        Q = merger.fit_transform(trial.transfer)
        found["soft labels"] = float((merger.classes_[Q.argmax(axis=1)] == trial.y_transfer).mean())
    for name, student in students.items():
        clf = HeterogeneousDistiller(trial.teachers, student, **params).fit(trial.transfer)
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
    few = {key: STUDENTS[key] for key in FAST}
    ways["student"] = accuracies(trial._replace(y_transfer=None), few if tiny else students, membership="student")
    seconds = time.process_time() - start
    return [
        {"part": "comparing", "data": name, "seed": seed, "way": way, "seconds": seconds} | found
        for way, found in ways.items()
    ]


def run(folder: Path, out: Path, trials: int) -> None:
    """Run what is not there yet, the data sets in turn, slow Tiny-ImageNet last."""
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


def mean_and_interval(values: list[float]) -> dict[str, Any]:
    """Return the mean and half the width of its 95 % interval, by Student's t."""
    n, mean = len(values), float(np.mean(values))
    if n < 2:
        return {"mean": mean, "half": None, "text": f"{mean:.3f}".replace("0.", "."), "trials": n}
    half = float(student_t.ppf(0.975, n - 1)) * float(np.std(values, ddof=1)) / n**0.5
    return {"mean": mean, "half": half, "text": f"{mean:.3f} ± {half:.3f}".replace("0.", "."), "trials": n}


def summarise(root: Path) -> list[dict[str, Any]]:
    """Return means with intervals, and of gains over plain trial by trial, from the files of results."""
    columns, records = ["soft labels", *STUDENTS], read(root / RESULTS) + paper_records(root)
    lines: list[dict[str, Any]] = []
    for weight in (0.0, *GAMMAS):
        own = [r for r in records if r["part"] == "choosing" and r["weight"] == weight]
        lines.append({"part": "choosing", "weight": weight} | _line(own, columns))
    for name in [*DATA, "the paper's"]:
        of_data = [r for r in records if r["part"] == "comparing" and r["data"] == name]
        for way in dict.fromkeys(r["way"] for r in of_data):
            own = [r for r in of_data if r["way"] == way]
            lines.append({"part": "comparing", "data": name, "way": way, "trials": len(own)} | _line(own, columns))
            if way != "plain":
                lines.append({"part": "gain", "data": name} | _gain(of_data, way, columns))
    _add_shares(lines)
    before = read(root / BEFORE_FILE)
    ways = [way for way in dict.fromkeys(r["way"] for r in before) if way != "plain"]
    lines += [{"part": "before"} | _gain(before, way, columns) for way in ways]
    return lines + [_none_line(*each) for each in _by_none(read(root / NONE_FILE))]


def _gain(records: list[dict[str, Any]], way: str, columns: list[str]) -> dict[str, Any]:
    """Return what a way gains over plain, trial by trial."""
    plain = {r["seed"]: r for r in records if r["way"] == "plain"}
    own = [r for r in records if r["way"] == way]
    gains = [{c: r[c] - plain[r["seed"]][c] for c in columns if c in r and c in plain[r["seed"]]} for r in own]
    return {"way": way, "trials": len(own)} | _line(gains, columns)


def paper_records(root: Path) -> list[dict[str, Any]]:
    """Return the records of the paper's setting, of trials that have all three ways."""
    first, second = (read(root / path) for path in PAPER_FILES)
    found = {(r["way"], r["seed"]): r["network"] for r in second if "network" in r}
    names = {method: way for way, method in PAPER.items()}
    for r in first:
        if r["method"] in names:
            found.setdefault((names[r["method"]], r["trial"]), r["accuracy"])
    seeds = sorted(seed for way, seed in found if way == "membership")
    ways = ("plain", "membership", "supervised")
    head = {"part": "comparing", "data": "the paper's"}
    return [head | {"way": way, "seed": seed, "network": found[way, seed]} for seed in seeds for way in ways]


def _by_none(records: list[dict[str, Any]]) -> list[tuple[str, str, list[float]]]:
    settings = dict.fromkeys(r["setting"] for r in records)
    of = {setting: [r for r in records if r["setting"] == setting] for setting in settings}
    keys = {setting: [key for key in of[setting][0] if key not in ("setting", "seed")] for setting in settings}
    return [(setting, key, [r[key] for r in of[setting]]) for setting in settings for key in keys[setting]]


def _none_line(setting: str, key: str, values: list[float]) -> dict[str, Any]:
    return {"part": "none", "setting": setting, "from": key} | mean_and_interval(values)


def _key(column: str) -> str:
    return column.replace(" ", "_").replace("-", "_")


def _add_shares(lines: list[dict[str, Any]]) -> None:
    """Say what share of the gap between plain and supervised every gain closes."""
    mean = {
        (r["data"], r["way"], c): r[c]["mean"]
        for r in lines
        if r["part"] == "comparing"
        for c in map(_key, STUDENTS)
        if c in r
    }
    for gain in (r for r in lines if r["part"] == "gain"):
        for c in (c for c in gain if (gain["data"], "supervised", c) in mean):
            gap = mean[gain["data"], "supervised", c] - mean[gain["data"], "plain", c]
            gain[c]["share"] = gain[c]["mean"] / gap if gap > 0 else None


def _line(records: list[dict[str, Any]], columns: list[str]) -> dict[str, Any]:
    present = [c for c in columns if records and c in records[0]]
    return {_key(c): mean_and_interval([r[c] for r in records]) for c in present}


def main() -> None:
    """Run or summarise."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["run", "summary"])
    parser.add_argument("--data", type=Path)
    parser.add_argument("--trials", type=int, default=len(REPORTING))
    parser.add_argument("--out", type=Path, default=RESULTS)
    args = parser.parse_args()
    if args.what == "run":
        if args.data is None:
            parser.error("run needs --data")
        run(args.data, args.out, args.trials)
    else:
        SUMMARY.write_text(json.dumps(summarise(Path()), indent=1) + "\n")


if __name__ == "__main__":
    main()
