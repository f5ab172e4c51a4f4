"""Which students answer at temperature 1, whatever the temperature of their labels.

    python -m benchmarks.student_temperature [--seeds 3]

300 digits with the tempered probabilities of a logistic regression as labels, for every student at T = 1, 3 and 10. On
other rows: log-loss and accuracy by true labels, and the power of the answers that comes nearest to the logistic
regression at temperature 1: 1 is right, above 1 they are too flat, below 1 too sharp. One record a line in
benchmarks/results/student-temperature.jsonl; an interrupted run goes on.
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_digits
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import (
    AdaBoostClassifier,
    BaggingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.linear_model import LogisticRegression, Perceptron, RidgeClassifier, SGDClassifier
from sklearn.metrics import log_loss
from sklearn.naive_bayes import GaussianNB, MultinomialNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.svm import SVC, LinearSVC, NuSVC
from sklearn.tree import DecisionTreeClassifier

from benchmarks.lines import RESULTS, measure_once
from sklearn_uhc import SoftLabelClassifier
from sklearn_uhc.students.temperature import sharpen

TEMPERATURES = (1, 3, 10)
STUDENTS: dict[str, Any] = {
    "SVC, linear kernel": SVC(kernel="linear"),
    "SVC, RBF kernel": SVC(),
    "NuSVC": NuSVC(nu=0.1),
    "LinearSVC": LinearSVC(random_state=0),
    "RidgeClassifier": RidgeClassifier(),
    "SGD, hinge": SGDClassifier(random_state=0),
    "Perceptron": Perceptron(random_state=0),
    "AdaBoost": AdaBoostClassifier(DecisionTreeClassifier(max_depth=4), n_estimators=30, random_state=0),
    "multinomial naive Bayes": MultinomialNB(),
    "Gaussian naive Bayes": GaussianNB(var_smoothing=1e-2),
    "linear discriminant, sampled": LinearDiscriminantAnalysis(),
    "logistic regression": LogisticRegression(max_iter=300),
    "multilayer perceptron": MLPClassifier((32,), max_iter=100, random_state=0),
    "histogram boosting": HistGradientBoostingClassifier(max_iter=30, random_state=0),
    "10 nearest neighbours": KNeighborsClassifier(10),
    "random forest": RandomForestClassifier(30, random_state=0),
    "bagged logistic regressions": BaggingClassifier(LogisticRegression(max_iter=300), 5, random_state=0),
    "SGD, log loss": SGDClassifier(loss="log_loss", random_state=0),
    "SGD, modified Huber loss": SGDClassifier(loss="modified_huber", random_state=0),
    "LinearSVC in CalibratedClassifierCV": CalibratedClassifierCV(LinearSVC(random_state=0), cv=3),
}


def best_power(answers: NDArray[Any], labels: NDArray[Any]) -> float:
    """Return the power of the answers that makes their cross-entropy with soft labels least."""

    def loss(log_power: float) -> float:
        return float(-(labels * np.log(np.clip(sharpen(answers, np.exp(log_power)), 1e-300, None))).sum())

    return float(np.exp(minimize_scalar(loss, bounds=(-3, 6), method="bounded").x))


def measure(seed: int, name: str) -> list[dict[str, Any]]:
    """Train one student at all temperatures."""
    warnings.simplefilter("ignore")
    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(seed).permutation(len(y))
    X, y = X[order] / 16, y[order]
    P = LogisticRegression(C=10, max_iter=500).fit(X[:300], y[:300]).predict_proba(X[300:])
    found = []
    for T in TEMPERATURES:
        strategy = "sample" if name.endswith("sampled") else "auto"
        student = SoftLabelClassifier(STUDENTS[name], temperature=T, strategy=strategy, random_state=seed)
        student.fit(X[300:600], sharpen(P[:300], 1 / T))
        answers = np.clip(student.predict_proba(X[600:]), 1e-6, None)
        loss = float(log_loss(y[600:], answers / answers.sum(axis=1, keepdims=True)))
        accuracy = float((answers.argmax(axis=1) == y[600:]).mean())
        found.append({"T": T, "log-loss": loss, "power": best_power(answers, P[300:]), "accuracy": accuracy})
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--out", type=Path, default=RESULTS / "student-temperature.jsonl")
    args = parser.parse_args()
    for seed in range(4000, 4000 + args.seeds):
        for name in STUDENTS:
            measure_once(args.out, {"student": name, "seed": seed}, measure, seed, name)


if __name__ == "__main__":
    main()
