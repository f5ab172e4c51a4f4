"""Every kind of student on soft labels: cost and benefit.

    python -m benchmarks.students [--data FOLDER] [--only NAME ...] [--temperatures T ...] [--seeds N] [--out FILE]

Teachers that know some of the classes are merged by MF-LF, balanced. Then each student is trained, every time in a
process of its own, on

soft        the soft labels, by `SoftLabelClassifier`
argmax      the most probable class of each, by the plain estimator
true        the true labels of the same rows: the supervised ceiling
naive       each row L times, once per class, weighted: what one would do instead (first seed only, and only where it
            can be expected to end within 40 seconds)

Reported are the shorter processor time of two fits (one if it takes longer than three seconds) after a fit on a few
rows, the memory that the first fit needed at its peak, accuracy and log-loss on other rows, and the log-loss after the
best rescaling. Digits ship with scikit-learn; with `--data` the Tiny-ImageNet features are measured instead (35
classes, 10,000 rows of 64 values, fewer rows for learners that are slow by nature). A seed draws the data, the lists of
classes and the teachers anew. Every run is appended to `benchmarks/results/students.jsonl`; one that stands there is
not repeated. `students.json` has the means over seeds, and the ratios of soft to argmax labels of every seed, which
`python -m benchmarks.pictures` shows with intervals.
"""

from __future__ import annotations

import argparse
import json
import resource
import tempfile
import time
import warnings
from collections.abc import Callable
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.special import softmax
from sklearn.base import clone
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import (
    AdaBoostClassifier,
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.metrics import log_loss
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.validation import has_fit_parameter

from benchmarks.digits import make_trial
from benchmarks.lines import RESULTS, measure_once, read
from sklearn_uhc import LabelSpace, LogitFactorization, SoftLabelClassifier, TeacherOutputs
from sklearn_uhc.merging.balance import balanced_targets, class_weights
from sklearn_uhc.students.temperature import sharpen

Array = NDArray[Any]
Problem = tuple[list[Any], Array, Array, Array, Array]
WAYS = ("argmax", "soft", "true")
#: Values of a row, of the Tiny-ImageNet features.
FEATURES = 64
#: Seconds that naive copies may be expected to take.
NAIVE_SECONDS = 40


def lightgbm() -> Any:
    from lightgbm import LGBMClassifier

    return LGBMClassifier(n_estimators=20, verbose=-1, random_state=0)


def xgboost() -> Any:
    from xgboost import XGBClassifier

    return XGBClassifier(n_estimators=20, max_depth=4, random_state=0)


def catboost() -> Any:
    from catboost import CatBoostClassifier

    return CatBoostClassifier(iterations=20, depth=4, learning_rate=0.2, verbose=0, allow_writing_files=False)


#: Name: how to make it, rows at most, the strategy if not "auto".
STUDENTS: dict[str, tuple[Callable[[], Any], int, str]] = {
    "random forest": (lambda: RandomForestClassifier(50, random_state=0), 10_000, "auto"),
    "random forest, leaves of 5": (
        lambda: RandomForestClassifier(50, min_samples_leaf=5, random_state=0),
        10_000,
        "auto",
    ),
    "extra trees": (lambda: ExtraTreesClassifier(50, random_state=0), 10_000, "auto"),
    "decision tree": (lambda: DecisionTreeClassifier(min_samples_leaf=5, random_state=0), 10_000, "auto"),
    "10 nearest neighbours": (lambda: KNeighborsClassifier(10), 10_000, "auto"),
    "LightGBM": (lightgbm, 10_000, "auto"),
    "XGBoost": (xgboost, 10_000, "auto"),
    "CatBoost": (catboost, 2_000, "auto"),
    "logistic regression": (lambda: LogisticRegression(C=0.01, max_iter=300), 10_000, "auto"),
    "histogram boosting": (lambda: HistGradientBoostingClassifier(max_iter=10, random_state=0), 1_000, "auto"),
    "gradient boosting": (
        lambda: GradientBoostingClassifier(n_estimators=5, max_features="sqrt", random_state=0),
        1_000,
        "auto",
    ),
    "AdaBoost": (
        lambda: AdaBoostClassifier(DecisionTreeClassifier(max_depth=6), n_estimators=20, random_state=0),
        1_000,
        "auto",
    ),
    "SGD, log loss": (lambda: SGDClassifier(loss="log_loss", alpha=1e-2, random_state=0), 1_000, "auto"),
    "naive Bayes": (GaussianNB, 10_000, "auto"),
    "SVC": (SVC, 500, "auto"),
    "multilayer perceptron": (lambda: MLPClassifier((64,), max_iter=20, random_state=0), 1_000, "auto"),
    "linear discriminant, sampled": (LinearDiscriminantAnalysis, 10_000, "sample"),
}


def digits_problem(seed: int = 0) -> Problem:
    """Return teachers of 3 to 5 digits, rows with true labels, and test rows."""
    trial = make_trial(seed, n_teachers=8, smallest=3)
    return trial.teachers, trial.X_unlabelled, trial.y_unlabelled, trial.X_test, trial.y_test


def features_problem(folder: Path, seed: int = 0) -> Problem:
    """Return fifteen logistic heads of 5 to 15 of 35 Tiny-ImageNet classes, rows with true labels, and test rows."""
    rng = np.random.default_rng(seed)
    data = np.load(folder / "tinyimagenet_lite0_pca256.npz")
    classes = np.sort(rng.choice(200, 35, replace=False))
    parts = []
    for part in ("train", "test"):
        rows = rng.permutation(np.flatnonzero(np.isin(data[f"y_{part}"], classes)))
        parts += [data[f"X_{part}"][rows].astype(np.float32), np.searchsorted(classes, data[f"y_{part}"][rows])]
    X, y, X_test, y_test = parts
    while True:
        lists = [rng.choice(35, rng.integers(5, 16), replace=False) for _ in range(15)]
        space = LabelSpace(lists)
        if space.n_classes == 35 and space.is_connected:
            break
    owner = rng.integers(0, 15, 7000)
    teachers = []
    for k, known in enumerate(lists):
        rows = np.flatnonzero((owner == k) & np.isin(y[:7000], known))
        # With C = 1 they are as sure as they are right: accuracy and mean confidence on test rows are both .80.
        teachers.append(LogisticRegression(C=1, max_iter=500).fit(X[rows], y[rows]))
    return teachers, X[7000:17000], y[7000:17000], X_test, y_test


def prepare(problem: Problem, temperature: float, path: Path, features: int | None = None) -> None:
    """Merge the teachers and save all that the students need: the first `features` values of a row."""
    teachers, X, y, X_test, y_test = problem
    outputs = TeacherOutputs(teachers)
    log_p = outputs.fit_transform(X)
    Q = LogitFactorization(outputs.class_lists_, temperature=temperature).fit_transform(log_p)
    targets, weight = balanced_targets(Q, class_weights(Q))
    right = np.mean(targets.argmax(axis=1) == y)
    sure = sharpen(targets, temperature).max(axis=1).mean()
    print(
        f"The balanced soft labels are right in {right:.3f} of the rows; their mean confidence at T = 1 is {sure:.3f}."
    )
    X, X_test = (np.ascontiguousarray(rows[:, :features]) for rows in (X, X_test))
    np.savez(path, X=X, y=y, Q=targets, weight=weight, X_test=X_test, y_test=y_test, temperature=temperature)


def train(name: str, way: str, path: Path) -> dict[str, Any]:
    """Train one student in one way in this process."""
    warnings.simplefilter("ignore")
    make, most, strategy = STUDENTS[name]
    data = np.load(path)
    keep = slice(0, most)
    X, Q, weight, y = (data[key][keep] for key in ("X", "Q", "weight", "y"))
    L = Q.shape[1]
    wrapped = SoftLabelClassifier(make(), strategy=strategy, temperature=float(data["temperature"]), random_state=0)
    fits = {
        "soft": lambda: clone(wrapped).fit(X, Q, weight),
        "argmax": lambda: make().fit(X, Q.argmax(axis=1)),
        "naive": lambda: make().fit(
            np.repeat(X, L, axis=0), np.tile(np.arange(L), len(X)), sample_weight=(Q * weight[:, None]).ravel()
        ),
        "true": lambda: make().fit(X, y),
    }
    # What a library loads or compiles on first use is not the fit's time or memory.
    one_hot = np.eye(L)[np.arange(3 * L) % L]
    clone(wrapped).fit(X[: 3 * L], one_hot) if way == "soft" else make().fit(X[: 3 * L], one_hot.argmax(axis=1))
    before, times, peak, fitted = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, [], 0.0, None
    while not times or (len(times) < 2 and times[0] < 3):
        fitted = None  # or its memory would count for the second fit
        start = time.process_time()
        fitted = fits[way]()
        times.append(time.process_time() - start)
        peak = peak if len(times) > 1 else (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    found = {"seconds": min(times), "MiB": peak, "rows": len(X), "strategy": getattr(fitted, "strategy_", "")}
    X_test, y_test = data["X_test"], data["y_test"]
    found["accuracy"] = float(np.mean(np.ravel(fitted.predict(X_test)) == y_test))
    if hasattr(fitted, "predict_proba"):
        P = fitted.predict_proba(X_test)
    else:  # SVC and the like: as SoftLabelClassifier reads them
        P = softmax(fitted.decision_function(X_test), axis=1)
    found["log-loss"] = float(log_loss(y_test, P, labels=np.arange(L)))
    found["log-loss rescaled"] = rescaled_log_loss(y_test, P)
    return found


def rescaled_log_loss(y: Array, P: Array) -> float:
    """Log-loss after the one power of all probabilities that makes it least: without over- or under-confidence."""
    P = np.clip(P, 1e-6, None)

    def loss(log_power: float) -> float:
        return float(log_loss(y, sharpen(P, np.exp(log_power)), labels=np.arange(P.shape[1])))

    return float(minimize_scalar(loss, bounds=(-3, 3), method="bounded").fun)


def in_its_own_process(name: str, way: str, path: Path, limit: float) -> dict[str, Any]:
    """Train in a new process; failures and timeouts are recorded."""
    context = get_context("forkserver")
    context.set_forkserver_preload(["sklearn_uhc", "benchmarks.digits"])
    answers, send = context.Pipe(duplex=False)
    process = context.Process(target=_train_and_send, args=(send, name, way, path))
    process.start()
    send.close()
    try:
        found: dict[str, Any] = answers.recv() if answers.poll(limit) else {"failed": f"> {limit:g} s"}
    except EOFError:
        found = {"failed": "the process ended"}
    process.kill()
    process.join()
    return found


def _train_and_send(send: Any, name: str, way: str, path: Path) -> None:
    try:
        send.send(train(name, way, path))
    except Exception as error:
        send.send({"failed": str(error)[:80]})


def measure(name: str, path: Path, limit: float, naive: bool) -> list[dict[str, Any]]:
    """Train one student in all ways."""
    row: dict[str, Any] = {way: in_its_own_process(name, way, path, limit) for way in WAYS}
    weighs = has_fit_parameter(STUDENTS[name][0](), "sample_weight")
    expected = row["argmax"].get("seconds", np.inf) * np.load(path)["Q"].shape[1]
    if naive and weighs and expected < NAIVE_SECONDS:
        row["naive"] = in_its_own_process(name, "naive", path, limit)
    return [row]


def summary(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return a row per dataset, temperature and student: means over seeds, and what soft labels change in each seed."""
    keys = dict.fromkeys((r["dataset"], r["T"], r["student"]) for r in records)
    rows = []
    for dataset, temperature, student in sorted(keys, key=lambda key: (key[0], key[1], list(STUDENTS).index(key[2]))):
        found = [r for r in records if (r["dataset"], r["T"], r["student"]) == (dataset, temperature, student)]
        row: dict[str, Any] = {"dataset": dataset, "T": temperature, "student": student, "seeds": len(found)}
        row |= {way: mean_of([r[way] for r in found if way in r]) for way in (*WAYS, "naive")}
        done = [r for r in found if "failed" not in r["soft"] and "failed" not in r["argmax"]]
        for key in ("seconds", "log-loss"):
            row[f"{key} ratios"] = [r["soft"][key] / r["argmax"][key] for r in done]
        row["time"] = float(np.mean(row["seconds ratios"])) if done else None
        copied = [r for r in done if "seconds" in r.get("naive", {})]
        row["naive time"] = copied[0]["naive"]["seconds"] / copied[0]["argmax"]["seconds"] if copied else None
        rows.append(row)
    return rows


def mean_of(found: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the mean of every number; what failed once has failed."""
    if not found or any("failed" in one for one in found):
        return {"failed": next((one["failed"] for one in found if "failed" in one), "not measured")}
    first = found[0]
    return {
        key: first[key] if key in ("strategy", "rows") else float(np.mean([f[key] for f in found])) for key in first
    }


def run(args: argparse.Namespace) -> None:
    """Measure what is not in the result file yet, seed by seed."""
    dataset, features = ("Tiny-ImageNet features", FEATURES) if args.data else ("digits", None)
    make = partial(features_problem, args.data) if args.data else digits_problem
    done = {(r["dataset"], r["T"], r["student"], r["seed"]) for r in read(args.results)}
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(args.seeds):
            for temperature in args.temperatures:
                left = [name for name in args.only if (dataset, temperature, name, seed) not in done]
                path = Path(folder) / f"{seed}-{temperature:g}.npz"
                if left:
                    prepare(make(seed), temperature, path, features)
                for name in left:
                    keys = {"dataset": dataset, "T": temperature, "student": name, "seed": seed}
                    measure_once(args.results, keys, measure, name, path, args.limit, seed == 0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder with tinyimagenet_lite0_pca256.npz")
    parser.add_argument("--only", nargs="+", choices=list(STUDENTS), default=list(STUDENTS), metavar="NAME")
    parser.add_argument("--limit", type=float, default=60, help="seconds after which a training is given up")
    parser.add_argument("--temperatures", metavar="T", nargs="+", type=float, default=[1.0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--results", type=Path, default=RESULTS / "students.jsonl")
    parser.add_argument("--out", type=Path, default=RESULTS / "students.json")
    args = parser.parse_args()
    run(args)
    rows = summary(read(args.results))
    args.out.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
