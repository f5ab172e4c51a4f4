"""Write the reports of an example as pages: `python docs/report_example.py FOLDER`."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sklearn_uhc import HeterogeneousDistiller
from sklearn_uhc.inspection import merge_report, teacher_report

#: What each site knows. The last one has its classes in the wrong order, which the report finds.
LISTS = {
    "tax office": [0, 1, 2, 3, 4, 5],
    "post office": [3, 4, 5, 6, 7],
    "registry": [0, 1, 6, 7, 8, 9],
    "archive": [0, 2, 4, 6, 8, 9],
    "court": [1, 3, 5, 7, 8, 9],
}


def write(folder: Path) -> None:
    """Train five teachers of digits and save their report, one with a wrong class list, and that of a right merge."""
    X, y = load_digits(return_X_y=True)
    models = [
        RandomForestClassifier(random_state=0),
        make_pipeline(StandardScaler(), LogisticRegression()),
        KNeighborsClassifier(),
        GaussianNB(var_smoothing=1e-2),
        make_pipeline(StandardScaler(), LogisticRegression(C=0.1)),
    ]
    teachers = {}
    for k, ((name, known), model) in enumerate(zip(LISTS.items(), models, strict=True)):
        rows = 200 * k + np.flatnonzero(np.isin(y[200 * k : 200 * k + 200], known))
        teachers[name] = model.fit(X[rows], y[rows])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that the list is in another order, which is the point
        report = teacher_report(teachers, X[1000:1500], class_lists={"court": [3, 1, 7, 5, 9, 8]})
    report.to_html(folder / "report_example.html")
    clf = HeterogeneousDistiller(teachers, KNeighborsClassifier(10)).fit(X[1000:1500])
    labels = [y[row] if row % 2 else None for row in range(1500, len(y))]
    merge_report(clf, X[1500:], labels).to_html(folder / "merge_example.html")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
