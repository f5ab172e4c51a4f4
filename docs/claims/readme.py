"""Figures of README.md, from the result files of the comparison, the paper and calibration, and from its own code."""

from __future__ import annotations

import ast

from docs.claims import Rows, Sentence, paper, teachers
from docs.claims.records import load, one, printed


def tables() -> dict[str, Rows]:
    """Return all tables of the page."""
    return {"paper": paper.main_table()}


def opening(page: str) -> list[Sentence]:
    """Return the first sentences of README and of the landing page: what the code under them prints."""
    alone = max(ast.literal_eval(printed(page, "teacher.score(X_test, y_test)")))
    merged = float(printed(page, "round(clf.score(X_test, y_test), 2)"))
    surest = float(printed(page, "np.argmax(sure, axis=0), said)"))
    pooled = float(printed(page, "KNeighborsClassifier().fit(X[pooled]"))
    return [
        ("at most {:.0f} % of all digits right", 100 * alone),
        ("most confident site gives {:.0f} %", 100 * surest),
        ("merged classifier gets {:.0f} % right, without any new labels", 100 * merged),
        ("would give {:.0f} %", 100 * pooled),
        ("the merge is {:.0f} to {:.0f} points above the best alternative", *above_the_best_alternative()),
    ]


def above_the_best_alternative() -> tuple[float, float]:
    """Return the least and the most of the points, over worlds, that the merge's student is above the best other way."""
    found = load("comparison.json")
    merged = one(found, kind="student", way="our merge")
    others = [r for r in found if r["way"] not in ("our merge", "all training data")]
    worlds = [key for key, value in merged.items() if isinstance(value, dict)]
    points = [100 * (merged[w]["mean"] - max(r[w]["mean"] for r in others)) for w in worlds]
    return min(points), max(points)


def sentences() -> list[Sentence]:
    """Return the sentences of the page with figures."""
    labels = [teachers.gain(name, "mf_lf") for name in ("digits, mixed, 6 of 3-5", "texts, mixed, 10 of 4-8")]
    students = [
        teachers.gain(n, "mf_lf", teachers.NEIGHBORS) for n in ("digits, mixed, 6 of 3-5", "texts, mixed, 10 of 4-8")
    ]
    drawn = {record["way"]: 100 * record["mean"] for record in load("first_example.json")}
    return [
        *opening("../README.md"),
        ("most confident site gets {:.1f} % right", drawn["most confident site"]),
        ("the merge {:.1f} %, all images in one place {:.1f} %", drawn["merged"], drawn["all data in one place"]),
        ("({} draws", load("first_example.json")[0]["splits"]),
        ("make {:.0f} points more labels right on digits and {:.0f} on texts", *labels),
        ("(k-NN {:.1f} and {:.1f})", *students),
    ]
