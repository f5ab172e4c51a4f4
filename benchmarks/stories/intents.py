"""Ten teams with overlapping lists of intents become one classifier, which also says "none of these".

    python -m benchmarks.stories.intents --data FOLDER [--seeds 300 303] [--out benchmarks/results/intents.jsonl]

FOLDER has `clinc150.json.gz`: CLINC150's sentences of 150 intents, and sentences out of scope. A team knows 15 intents
of its own and 10 of the next team's, so that two teams share some intents and most pairs share none. Its classifier is
a logistic regression on TF-IDF features, trained on its own sentences; no sentence is in two places. Every team also
trains a membership scorer. The unlabelled rows have 30 sentences of every intent and half of those out of scope; the
test has CLINC150's own test sentences and the other half. The student is the same for every way. The scorers' settings
were chosen on seed 0, nothing else was. Appends a record per way for every seed that is not in the file.
"""

from __future__ import annotations

import argparse
import gzip
import json
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline

from benchmarks.comparison import average
from benchmarks.lines import read
from benchmarks.paper.rivals import known_average, most_confident
from sklearn_uhc import HeterogeneousDistiller, SoftLabelClassifier, TeacherOutputs, fit_membership
from sklearn_uhc.merging.balance import balanced_targets, class_weights

Array = NDArray[Any]
NONE = "out of scope"
MODEL = make_pipeline(TfidfVectorizer(sublinear_tf=True), LogisticRegression(C=10, max_iter=300))
RIVALS = {
    "average of probabilities": average,
    "average of those who know": known_average,
    "most confident team": most_confident,
}
PER_INTENT = 30


class Trial(NamedTuple):
    """The teams' own sentences, their classifiers, the unlabelled rows and the test."""

    own: list[tuple[Array, Array]]
    teachers: dict[str, Any]
    rows: Array
    test: Array
    y_test: Array  #: `NONE` where the sentence is out of scope


def make_trial(data: dict[str, list[list[str]]], seed: int) -> Trial:
    """Draw the teams' lists and share the sentences."""
    rng = np.random.default_rng(seed)
    texts, y = (np.array(column, dtype=object) for column in zip(*data["train"], strict=True))
    intents = rng.permutation(np.unique(y))
    lists = [np.take(intents, 15 * k + np.arange(25), mode="wrap") for k in range(10)]
    unlabelled, owner = np.zeros(len(y), dtype=bool), np.full(len(y), -1)
    for intent in intents:
        rows = rng.permutation(np.flatnonzero(y == intent))
        unlabelled[rows[:PER_INTENT]] = True
        teams = [k for k, known in enumerate(lists) if intent in known]
        owner[rows[PER_INTENT:]] = np.resize(teams, len(rows) - PER_INTENT)
    own = [(texts[owner == k], y[owner == k]) for k in range(10)]
    foreign = [text for part in ("oos_train", "oos_val", "oos_test") for text, _ in data[part]]
    foreign_rows, foreign_test = np.array_split(rng.permutation(np.array(foreign, dtype=object)), 2)
    test, y_test = zip(*data["test"], strict=True)
    return Trial(
        own,
        {f"team {k}": clone(MODEL).fit(*mine) for k, mine in enumerate(own)},
        rng.permutation(np.concatenate([texts[unlabelled], foreign_rows])),
        np.concatenate([np.array(test, dtype=object), foreign_test]),
        np.concatenate([np.array(y_test, dtype=object), np.full(len(foreign_test), NONE, dtype=object)]),
    )


def measure(trial: Trial) -> dict[str, dict[str, float]]:
    """Return for each way the accuracy in scope, and how well it finds sentences out of scope."""
    outputs = TeacherOutputs(trial.teachers).fit(trial.rows)
    space, log_p = outputs.label_space_, outputs.transform(trial.rows)
    inside = trial.y_test != NONE
    best = max(teacher.score(trial.test[inside], trial.y_test[inside]) for teacher in trial.teachers.values())
    found: dict[str, dict[str, float]] = {"best team alone": {"in_scope": best}}
    for way, merge in RIVALS.items():
        Q = merge(log_p, space)
        balanced, weight = balanced_targets(Q, class_weights(Q))
        for name, targets, weights in ((way, Q, None), (f"{way}, even", balanced, weight)):
            student = SoftLabelClassifier(clone(MODEL), classes=list(space.classes))
            found[name] = judged(student.fit(trial.rows, targets, sample_weight=weights), trial)
    settings: dict[str, dict[str, Any]] = {
        "merge, as merged": {"balance": False},
        "merge": {},
        "merge, even": {"balance": True},
        "merge, scorers": {"membership": [fit_membership(X, trial.rows, clone(MODEL)) for X, _ in trial.own]},
    }
    settings["merge, scorers, none of these"] = {**settings["merge, scorers"], "none_label": NONE}
    for way, params in settings.items():
        clf = HeterogeneousDistiller(trial.teachers, clone(MODEL), **params)
        found[way] = judged(clf.fit(trial.rows), trial)
    X, y = (np.concatenate(column) for column in zip(*trial.own, strict=True))
    found["all teams' sentences"] = judged(clone(MODEL).fit(X, y), trial)
    return found


def judged(clf: Any, trial: Trial) -> dict[str, float]:
    """Return the accuracy in scope and over all, and how well sentences out of scope are told apart (ROC area).

    They are ranked by the probability of "none of these", or by 1 - the largest probability if a model has no such
    class. `found` is the share of them that are called "none of these", and `alarms` that of sentences in scope.
    """
    P, classes = clf.predict_proba(trial.test), np.asarray(clf.classes_, dtype=object)
    named, outside = classes[P.argmax(axis=1)], trial.y_test == NONE
    has_none = NONE in classes.tolist()
    score = P[:, classes.tolist().index(NONE)] if has_none else 1 - P.max(axis=1)
    record = {
        "in_scope": float(np.mean(named[~outside] == trial.y_test[~outside])),
        "all": float(np.mean(named == trial.y_test)),
        "area": float(roc_auc_score(outside, score)),
    }
    if has_none:
        record |= {"found": float(np.mean(named[outside] == NONE)), "alarms": float(np.mean(named[~outside] == NONE))}
    return record


def run(path: Path, seeds: range, out: Path) -> None:
    """Append a record per seed and way, and leave out the seeds that are there."""
    with gzip.open(path) as file:
        data = json.load(file)
    done = {record["seed"] for record in read(out)}
    for seed in (seed for seed in seeds if seed not in done):
        found = measure(make_trial(data, seed))
        with out.open("a") as file_of_records:
            for way, record in found.items():
                line = {"seed": seed, "way": way, **record}
                file_of_records.write(json.dumps(line) + "\n")
                print(line, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--seeds", type=int, nargs=2, default=(300, 303), metavar=("FIRST", "END"))
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/intents.jsonl"))
    args = parser.parse_args()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        run(args.data / "clinc150.json.gz", range(*args.seeds), args.out)


if __name__ == "__main__":
    main()
