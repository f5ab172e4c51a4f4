"""The cost of soft labels for every scikit-learn classifier that takes `sample_weight` or has `partial_fit`.

    python -m benchmarks.student_price --data FOLDER [--only NAME ...] [--rows N] [--temperature T]
        [--out benchmarks/results/student_price.json]

Tiny-ImageNet features (35 classes, 10,000 rows, the first 64 values of each), labels merged by MF-LF and balanced. In
one process, training on the most probable labels and on the soft ones take turns: the processor time is the best of
three (fewer, if they take longer than 12 seconds together), and the ratio of both is reported. Accuracy is that on
other rows. What stands in the file already is not measured again. All weighted copies are in
`benchmarks.student_copies`.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import (
    AdaBoostClassifier,
    BaggingClassifier,
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.linear_model import (
    LogisticRegression,
    LogisticRegressionCV,
    PassiveAggressiveClassifier,
    Perceptron,
    RidgeClassifier,
    RidgeClassifierCV,
    SGDClassifier,
)
from sklearn.multiclass import OneVsRestClassifier
from sklearn.naive_bayes import BernoulliNB, CategoricalNB, ComplementNB, GaussianNB, MultinomialNB
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import KBinsDiscretizer, MinMaxScaler
from sklearn.svm import SVC, LinearSVC, NuSVC
from sklearn.tree import DecisionTreeClassifier, ExtraTreeClassifier

from benchmarks.students import FEATURES, features_problem, prepare
from sklearn_uhc import SoftLabelClassifier


def _bins() -> Any:
    return KBinsDiscretizer(8, encode="ordinal", quantile_method="averaged_inverted_cdf")


STUDENTS: dict[str, Any] = {
    "AdaBoost": AdaBoostClassifier(DecisionTreeClassifier(max_depth=6), n_estimators=5, random_state=0),
    "Bagging": BaggingClassifier(DecisionTreeClassifier(max_depth=10), n_estimators=5, random_state=0),
    "BernoulliNB": BernoulliNB(),
    "CalibratedClassifierCV(GaussianNB)": CalibratedClassifierCV(GaussianNB()),
    "CategoricalNB": make_pipeline(_bins(), CategoricalNB(min_categories=8)),
    "ComplementNB": make_pipeline(MinMaxScaler(clip=True), ComplementNB()),
    "DecisionTree": DecisionTreeClassifier(min_samples_leaf=5, random_state=0),
    "ExtraTree": ExtraTreeClassifier(min_samples_leaf=5, random_state=0),
    "ExtraTrees": ExtraTreesClassifier(20, random_state=0),
    "ExtraTrees, leaves of 2": ExtraTreesClassifier(20, min_samples_leaf=2, random_state=0),
    "GaussianNB": GaussianNB(),
    "GradientBoosting": GradientBoostingClassifier(n_estimators=3, max_features="sqrt", random_state=0),
    "HistGradientBoosting": HistGradientBoostingClassifier(max_iter=5, random_state=0),
    "LinearSVC": LinearSVC(C=0.01, random_state=0),
    "LogisticRegression": LogisticRegression(C=0.01, max_iter=300),
    "LogisticRegressionCV": LogisticRegressionCV(
        Cs=[0.001, 0.01], cv=3, max_iter=300, l1_ratios=(0,), use_legacy_attributes=False
    ),
    "MLP": MLPClassifier((64,), max_iter=20, random_state=0),
    "MultinomialNB": make_pipeline(MinMaxScaler(clip=True), MultinomialNB()),
    "NuSVC": NuSVC(nu=0.1),
    "OneVsRest(SGD)": OneVsRestClassifier(SGDClassifier(loss="log_loss", alpha=0.01, random_state=0)),
    "OneVsRest(LogisticRegression)": OneVsRestClassifier(LogisticRegression(C=0.01, max_iter=300)),
    "PassiveAggressive": PassiveAggressiveClassifier(C=0.001, random_state=0),
    "Perceptron": Perceptron(random_state=0),
    "RandomForest": RandomForestClassifier(10, random_state=0),
    "RandomForest, leaves of 2": RandomForestClassifier(10, min_samples_leaf=2, random_state=0),
    "RidgeClassifier": RidgeClassifier(),
    "RidgeClassifierCV": RidgeClassifierCV(),
    "SGD, log loss": SGDClassifier(loss="log_loss", alpha=0.01, random_state=0),
    "SGD, hinge": SGDClassifier(alpha=0.01, random_state=0),
    "SVC": SVC(),
    "SVC, 2 copies": make_pipeline(SoftLabelClassifier(SVC(), copies=2, random_state=0)),
    "SVC, 4 copies": make_pipeline(SoftLabelClassifier(SVC(), copies=4, random_state=0)),
}


#: What is measured unless told otherwise: more copies for an SVC take hours on all rows.
DEFAULT = [name for name in STUDENTS if not name.endswith("copies")]


def seconds(train: Callable[[], Any]) -> tuple[float, Any]:
    """Return the processor time of a training and what it trained."""
    start = time.process_time()
    fitted = train()
    return time.process_time() - start, fitted


def nodes(fitted: Any) -> int | None:
    """Return the number of nodes of a forest: its size."""
    trees = getattr(fitted, "estimators_", None)
    return int(sum(t.tree_.node_count for t in trees)) if trees is not None and hasattr(trees[0], "tree_") else None


def measure(name: str, data: dict[str, Any], temperature: float) -> dict[str, Any]:
    """Train one student on hard and soft labels in turn."""
    student, X, Q, weight = STUDENTS[name], data["X"], data["Q"], data["weight"]
    wrapped = SoftLabelClassifier(student, temperature=temperature, random_state=0)
    best: dict[str, tuple[float, Any]] = {}
    spent = 0.0
    for _ in range(3):
        for way in ("hard", "soft"):
            took = seconds(
                (lambda: clone(student).fit(X, Q.argmax(axis=1)))
                if way == "hard"
                else (lambda: clone(wrapped).fit(X, Q, weight))
            )
            spent += took[0]
            best[way] = min(best.get(way, took), took, key=lambda pair: pair[0])
        if spent > 12:
            break
    hard, soft = best["hard"][1], best["soft"][1]
    inner = soft.estimator_[-1] if soft.strategy_ == "pipeline" else soft
    row = {"student": name, "T": temperature, "rows": len(X), "way": inner.strategy_}
    row |= {f"{way} seconds": took for way, (took, _) in best.items()}
    row["ratio"] = best["soft"][0] / best["hard"][0]
    row["accuracy hard"] = float(np.mean(hard.predict(data["X_test"]) == data["y_test"]))
    row["accuracy soft"] = float(soft.score(data["X_test"], data["y_test"]))
    row["nodes hard"], row["nodes soft"] = nodes(hard), nodes(getattr(soft, "estimator_", None))
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with tinyimagenet_lite0_pca256.npz")
    parser.add_argument("--only", nargs="+", choices=list(STUDENTS), default=DEFAULT, metavar="NAME")
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--temperature", type=float, default=1.0)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/student_price.json"))
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "data.npz"
        prepare(features_problem(args.data), args.temperature, file, FEATURES)
        data = dict(np.load(file))
    data |= {key: data[key][: args.rows] for key in ("X", "Q", "weight")}
    rows = {
        (r["student"], r["T"], r["rows"]): r for r in (json.loads(args.out.read_text()) if args.out.exists() else [])
    }
    for name in args.only:
        if (name, args.temperature, len(data["X"])) in rows:
            continue
        row = measure(name, data, args.temperature)
        rows[name, args.temperature, row["rows"]] = row
        print({key: round(v, 3) if isinstance(v, float) else v for key, v in row.items()}, flush=True)
        args.out.write_text(json.dumps([rows[key] for key in sorted(rows)], indent=1) + "\n")


if __name__ == "__main__":
    main()
