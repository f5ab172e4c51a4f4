"""Every kind of student on soft labels: what that costs and what it is worth.

    python -m benchmarks.students [--data FOLDER] [--only NAME ...] [--temperatures T ...] [--out docs/students]

Teachers that know some of the classes are merged by MF-LF, balanced. Then each student is trained, every time in a
process of its own, on

soft        the soft labels, by `SoftLabelClassifier`
argmax      the most probable class of each, by the plain estimator
naive       each row L times, once per class, weighted: what one would do instead
true        the true labels of the same rows: the supervised ceiling

Reported are the shortest time of two fits (one if it takes longer than ten seconds), the memory that the fit needed at
its peak, accuracy and log-loss on other rows, and in the JSON file the log-loss after the best rescaling. Digits ship
with scikit-learn; with `--data` the Tiny-ImageNet features are measured instead (35 classes, 10,000 rows of 256 values,
fewer for learners that are slow by nature). Results are saved after every student; what is measured again replaces what
stood there.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.special import softmax
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
from benchmarks.pictures import draw_students
from sklearn_uhc import LabelSpace, LogitFactorization, SoftLabelClassifier, TeacherOutputs
from sklearn_uhc.balance import balanced_targets, class_weights
from sklearn_uhc.students.strategies import resolve_strategy
from sklearn_uhc.students.temperature import sharpen

Array = NDArray[Any]
WAYS = ("argmax", "soft", "naive", "true")


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
    "random forest": (lambda: RandomForestClassifier(50, n_jobs=2, random_state=0), 10_000, "auto"),
    "random forest, leaves of 5": (
        lambda: RandomForestClassifier(50, min_samples_leaf=5, n_jobs=2, random_state=0),
        10_000,
        "auto",
    ),
    "extra trees": (lambda: ExtraTreesClassifier(50, n_jobs=2, random_state=0), 10_000, "auto"),
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


def digits_problem() -> tuple[list[Any], Array, Array, Array, Array]:
    """Return teachers of 3 to 5 digits, rows with true labels, and test rows."""
    trial = make_trial(0, n_teachers=8, smallest=3)
    return trial.teachers, trial.X_unlabelled, trial.y_unlabelled, trial.X_test, trial.y_test


def features_problem(folder: Path) -> tuple[list[Any], Array, Array, Array, Array]:
    """Return fifteen logistic heads of 5 to 15 of 35 Tiny-ImageNet classes, rows with true labels, and test rows."""
    rng = np.random.default_rng(0)
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


def prepare(problem: tuple[list[Any], Array, Array, Array, Array], temperature: float, path: Path) -> None:
    """Merge the teachers and save all that the students need."""
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
    np.savez(path, X=X, y=y, Q=targets, weight=weight, X_test=X_test, y_test=y_test, temperature=temperature)


def train(name: str, way: str, path: Path) -> dict[str, Any]:
    """Train one student in one way in this process."""
    warnings.simplefilter("ignore")
    make, most, strategy = STUDENTS[name]
    data = np.load(path)
    keep = slice(0, most)
    X, Q, weight, y = (data[key][keep] for key in ("X", "Q", "weight", "y"))
    L = Q.shape[1]
    fits = {
        "soft": lambda: SoftLabelClassifier(
            make(), strategy=strategy, temperature=float(data["temperature"]), random_state=0
        ).fit(X, Q, weight),
        "argmax": lambda: make().fit(X, Q.argmax(axis=1)),
        "naive": lambda: make().fit(
            np.repeat(X, L, axis=0), np.tile(np.arange(L), len(X)), sample_weight=(Q * weight[:, None]).ravel()
        ),
        "true": lambda: make().fit(X, y),
    }
    make().fit(X[: 3 * L], np.arange(3 * L) % L)  # what a library loads on first use is not the fit's memory
    before, times = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, []
    while not times or (len(times) < 2 and times[0] < 10):
        start = time.perf_counter()
        fitted = fits[way]()
        times.append(time.perf_counter() - start)
    peak = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
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
    """Train in a new process; one that takes too long or fails is recorded as such."""
    command = [sys.executable, "-m", "benchmarks.students", "--one", name, way, str(path)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit)
    except subprocess.TimeoutExpired:
        return {"failed": f"> {limit:g} s"}
    if done.returncode:
        lines = done.stderr.strip().splitlines()
        return {"failed": lines[-1][:80] if lines else f"exit {done.returncode}"}
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


def measure(
    dataset: str, problem: Any, temperature: float, names: list[str], folder: Path, limit: float
) -> Iterator[dict[str, Any]]:
    """Train all students in all ways."""
    path = folder / "data.npz"
    prepare(problem, temperature, path)
    print(f"\n{HEAD}", flush=True)
    for name in names:
        row: dict[str, Any] = {"dataset": dataset, "T": temperature, "student": name}
        student, _, strategy = STUDENTS[name]
        copied = resolve_strategy(student(), strategy).name == "replicate"
        weighs = has_fit_parameter(student(), "sample_weight")
        row |= {w: in_its_own_process(name, w, path, limit) for w in WAYS if w != "naive" or (weighs and not copied)}
        row.setdefault("naive", {"failed": "the same" if copied else "no weights"})
        print(describe(row), flush=True)
        yield row


HEAD = (
    "| student | way | rows | time | naive | memory | naive "
    "| accuracy soft / argmax / true | log-loss soft / argmax / true |\n|---|---|---|---|---|---|---|---|---|"
)


def describe(row: dict[str, Any]) -> str:
    """Return one line of the table: time and memory as multiples of training on the argmax labels."""
    hard, soft = row["argmax"], row["soft"]

    def ratio(way: str, key: str) -> str:
        if "failed" in row[way] or "failed" in hard:
            return str(row[way].get("failed", "-"))
        if key == "MiB":
            return f"{row[way]['MiB']:.0f} MiB"
        return f"{row[way][key] / hard[key]:.2f}"

    def values(key: str, digits: int) -> str:
        return " / ".join(f"{row[w][key]:.{digits}f}" if key in row[w] else "-" for w in ("soft", "argmax", "true"))

    cells = [row["student"], soft.get("strategy", "-"), str(soft.get("rows", "-")), ratio("soft", "seconds")]
    cells += [
        ratio("naive", "seconds"),
        f"{ratio('soft', 'MiB')} ({hard.get('MiB', np.nan):.0f})",
        ratio("naive", "MiB"),
    ]
    return "| " + " | ".join([*cells, values("accuracy", 3), values("log-loss", 2)]) + " |"


def key(row: dict[str, Any]) -> tuple[str, float, str]:
    """Return what a measurement is of."""
    return row["dataset"], row["T"], row["student"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder with tinyimagenet_lite0_pca256.npz")
    parser.add_argument("--only", nargs="+", choices=list(STUDENTS), default=list(STUDENTS), metavar="NAME")
    parser.add_argument("--limit", type=float, default=60, help="seconds after which a training is given up")
    parser.add_argument("--temperatures", metavar="T", nargs="+", type=float, default=[1.0, 3.0])
    parser.add_argument("--out", type=Path, default=Path("students"), help="JSON and figure, without suffix")
    parser.add_argument("--one", nargs=3, metavar=("NAME", "WAY", "FILE"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        print(json.dumps(train(args.one[0], args.one[1], Path(args.one[2]))))
        return
    problems = {"Tiny-ImageNet features": features_problem(args.data)} if args.data else {"digits": digits_problem()}
    args.out.parent.mkdir(parents=True, exist_ok=True)
    file = args.out.with_suffix(".json")
    rows = {key(row): row for row in (json.loads(file.read_text()) if file.exists() else [])}
    with tempfile.TemporaryDirectory() as folder:
        for dataset, problem in problems.items():
            for temperature in args.temperatures:
                print(f"\n{dataset}, T = {temperature:g}")
                for row in measure(dataset, problem, temperature, args.only, Path(folder), args.limit):
                    rows[key(row)] = row
                    file.write_text(json.dumps(list(rows.values()), indent=1))
    draw_students(list(rows.values()), args.out.with_suffix(".png"))


if __name__ == "__main__":
    main()
