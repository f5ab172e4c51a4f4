"""Choosing settings without labels: teachers held out, against the default, agreement and a few labelled rows.

    python -m benchmarks.choosing run --data FOLDER [--out FILE]     39 trials and the README's model; goes on later
    python -m benchmarks.choosing summary [--out FILE]               benchmarks/results/search.json

A trial is a world of `benchmarks.worlds` with 500 transfer rows. All 24 settings of method, temperature,
balance and student are fitted with all teachers, which gives their accuracy on the test rows, and judged by
`TeacherHoldoutSearch`, by `teacher_agreement` on the test rows, and by 30 and 100 labelled rows, which are neither
transfer nor test rows. How the score of the search is made was chosen on other seeds (`benchmarks.holdout_variants`).
In addition, for every student: the defaults, the defaults with labels of 100 transfer rows (`fit(X, y)`), and training
with the true labels of all of them.
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Iterator
from itertools import combinations, product, zip_longest
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import spearmanr
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.neighbors import KNeighborsClassifier

from benchmarks import PAPER
from benchmarks.lines import read
from benchmarks.membership_summary import mean_and_interval
from benchmarks.worlds import World, available, make_world
from sklearn_uhc import HeterogeneousDistiller, TeacherHoldoutSearch, TeacherOutputs
from sklearn_uhc.evidence import teacher_agreement
from sklearn_uhc.utils.rows import take_rows

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "choosing.jsonl"
SUMMARY = HERE / "results" / "search.json"
Array = NDArray[Any]

MIXED = ["digits, mixed", "MNIST, mixed", "Fashion-MNIST, mixed", "Tiny-ImageNet, mixed"]
MIXED += ["table", "lists of 2 to 3", "3 teachers", "100 : 1"]
NETWORKS = ["digits, networks", "MNIST, networks", "Fashion-MNIST, networks", "100 : 1, networks"]
NETWORKS += ["Tiny-ImageNet, networks"]
SEEDS = (300, 301, 302)
README_SEEDS = tuple(range(20))
N_ROWS = 500
N_LABELS = (30, 100)
DRAWS = 10  #: number of draws of labelled rows
STUDENTS: dict[str, Any] = {
    "k-NN": KNeighborsClassifier(10),
    "logistic": LogisticRegression(max_iter=200),
    "forest": RandomForestClassifier(20, random_state=0),
}
METHODS, TEMPERATURES, BALANCE = ("ce", "mf_lf"), (1, 3), (True, False)
SETTINGS = list(product(METHODS, TEMPERATURES, BALANCE, STUDENTS))
FACTORS = ("method", "temperature", "balance", "student")
FIXED = {
    "MF-LF, T = 1, balanced": ("mf_lf", 1, True),
    "MF-LF, T = 1, not balanced": ("mf_lf", 1, False),
    "CE, T = 1, balanced": ("ce", 1, True),
    "MF-LF, T = 3, balanced (the paper's)": ("mf_lf", 3, True),
}
STUDENT_ALONE = "held out, over students alone"  #: with the first of the fixed settings
UNEVEN = ["100 : 1", "100 : 1, networks"]
#: The worlds of the table by student.
IMAGES = ("digits", "MNIST", "Fashion-MNIST", "Tiny-ImageNet")


def split(world: World) -> tuple[Any, Any, Any, Array]:
    """Return the teachers' view: transfer rows, rows to label and test rows; and the classes of those to label."""
    n = min(N_ROWS, len(world.y) - max(N_LABELS))
    pool = np.arange(n, len(world.y))
    return take_rows(world.X, np.arange(n)), take_rows(world.X, pool), world.X_test, world.y[pool]


def encoded(world: World, *parts: Any) -> list[Any]:
    """Return the students' view: all parts, transformed by the student's encoder, which is fitted on the first."""
    if world.encoder is None:
        return list(parts)
    encoder = clone(world.encoder).fit(parts[0])
    return [encoder.transform(part) for part in parts]


def run_trial(name: str, seed: int, folder: Path) -> dict[str, Any]:
    """Measure all settings in one world, and how every rule of choice ranks them."""
    world = make_world(name, seed, folder)
    X, X_pool, X_test, y_pool = split(world)
    outputs = TeacherOutputs(world.teachers)
    log_p, log_p_test = outputs.fit_transform(X), outputs.transform(X_test)
    X, X_pool, X_test = encoded(world, X, X_pool, X_test)
    lists = outputs.class_lists_
    clf = HeterogeneousDistiller(None, STUDENTS["k-NN"], class_lists=lists)
    candidates = [dict(zip(FACTORS, (m, T, b, STUDENTS[s]), strict=True)) for m, T, b, s in SETTINGS]
    grid = [{key: [value] for key, value in candidate.items()} for candidate in candidates]
    search = TeacherHoldoutSearch(clf, grid, refit=False, error_score="raise").fit(X, log_p=log_p)
    found: dict[str, list[Any]] = {"accuracy": [], "log_loss": [], "agreement": []}
    right = []
    for candidate in candidates:
        fitted = clone(clf).set_params(**candidate).fit(X, log_p=log_p)
        P = fitted.predict_proba(X_test)
        found["accuracy"].append(float((fitted.classes_[P.argmax(axis=1)] == world.y_test).mean()))
        found["log_loss"].append(float(log_loss(world.y_test, np.maximum(P, 1e-6), labels=fitted.classes_)))
        found["agreement"].append(teacher_agreement(log_p_test, P, lists))
        right.append(fitted.predict(X_pool) == y_pool)
    found["held out"] = search.cv_results_["mean_test_score"].tolist()
    record = {"part": "trial", "world": name, "seed": seed, "rows": len(log_p), "teachers": len(lists)}
    record |= found | {f"{k} labels": draws(np.array(right), k, seed, range(len(SETTINGS))) for k in N_LABELS}
    record["100 labels, by student"] = {
        student: draws(np.array(right), 100, seed, settings_of(student)) for student in STUDENTS
    }
    y = world.y[: len(log_p)]
    return record | {
        student: by_student(clone(clf).set_params(student=clone(STUDENTS[student])), X, log_p, y, X_test, world)
        for student in STUDENTS
    }


def settings_of(student: str) -> list[int]:
    """Return the settings with this student."""
    return [k for k, setting in enumerate(SETTINGS) if setting[3] == student]


def by_student(clf: Any, X: Any, log_p: Any, y: Array, X_test: Any, world: World) -> dict[str, float]:
    """Return accuracies of the defaults, of the defaults with 100 labels, and of training with all true labels."""
    rows = np.random.default_rng([world.seed, 17]).permutation(len(y))[:100]
    some = np.full(len(y), None, dtype=object)
    some[rows] = y[rows]
    fitted = {
        "defaults": clone(clf).fit(X, log_p=log_p),
        "fit(X, y)": clone(clf).fit(X, some, log_p=log_p),
        "true labels": clone(clf.student).fit(X, y),
    }
    return {name: float((model.predict(X_test) == world.y_test).mean()) for name, model in fitted.items()}


def draws(right: NDArray[np.bool_], k: int, seed: int, among: Any) -> list[int]:
    """Return the setting chosen by k labelled rows, ties broken at random, for several draws of the rows."""
    rng = np.random.default_rng(seed)
    chosen, among = [], np.asarray(among)
    for _ in range(DRAWS):
        scores = right[np.ix_(among, rng.choice(right.shape[1], k, replace=False))].mean(axis=1)
        chosen.append(int(among[rng.choice(np.flatnonzero(scores == scores.max()))]))
    return chosen


def run_readme(seed: int) -> dict[str, Any]:
    """Measure the README's model, as it is and after each search, on one split of the digits."""
    X, y = load_digits(return_X_y=True)
    X, X_rest, y, y_rest = train_test_split(X, y, train_size=900, random_state=seed)
    known = [[0, 1, 2, 3, 4, 5], [3, 4, 5, 6, 7, 8], [6, 7, 8, 9, 0, 1]]
    own = [np.flatnonzero(np.isin(y, labels)) for labels in known]
    teachers = [RandomForestClassifier(random_state=0).fit(X[rows], y[rows]) for rows in own]
    transfer, test, y_test = X_rest[:500], X_rest[500:], y_rest[500:]
    clf = HeterogeneousDistiller(teachers, KNeighborsClassifier(), **PAPER)
    grid = {"student__n_neighbors": [1, 3, 5, 10, 20]}
    record = {"part": "README", "seed": seed, "as it is": float(clone(clf).fit(transfer).score(test, y_test))}
    record["held out"] = TeacherHoldoutSearch(clf, grid).fit(transfer).score(test, y_test)
    record["agreement"] = float(GridSearchCV(clf, grid, cv=3).fit(transfer).score(test, y_test))
    return record


def run(folder: Path | None, out: Path) -> None:
    """Run what is missing."""
    done = {(r["part"], r.get("world"), r["seed"]) for r in read(out)}
    there = available(folder)
    worlds = [name for pair in zip_longest(MIXED, NETWORKS) for name in pair if name in there]
    jobs: list[tuple[str, str | None, int]] = [("trial", name, seed) for seed in SEEDS for name in worlds]
    jobs += [("README", None, seed) for seed in README_SEEDS]
    for part, world, seed in jobs:
        if (part, world, seed) in done:
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            record = run_readme(seed) if world is None else run_trial(world, seed, folder or Path())
        with out.open("a") as file:
            file.write(json.dumps(record) + "\n")
        print(part, world, seed, flush=True)


def summarise(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the figures of the pages."""
    trials = [r for r in records if r["part"] == "trial"]
    lines: list[dict[str, Any]] = []
    every, scores = [*MIXED, *NETWORKS], ("held out", "agreement")
    even = [world for world in every if world not in UNEVEN]
    kinds = {"all": every, "mixed": MIXED, "networks": NETWORKS, "even classes": even, "100 : 1": UNEVEN}
    for kind, worlds in kinds.items():
        own = [r for r in trials if r["world"] in worlds]
        lines.append({"part": "counts", "kind": kind, "trials": len(own), "worlds": len({r["world"] for r in own})})
        lines += [{"part": "correlation", "kind": kind, "way": way} | _rho(own, way) for way in scores]
        lines += [{"part": "regret", "kind": kind, "way": way} | _regret(own, way) for way in ways_to_choose()]
    lines += [{"part": "world", "world": w} | _world([r for r in trials if r["world"] == w]) for w in every]
    for k, factor in enumerate(FACTORS):
        own = [r for r in trials if r["world"] in even]
        lines += [{"part": "factor", "factor": factor, "way": way} | _pairs(own, way, k) for way in scores]
    uneven = [r for r in trials if r["world"] in UNEVEN]
    balance = FACTORS.index("balance")
    lines += [{"part": "uneven", "factor": "balance", "way": way} | _pairs(uneven, way, balance) for way in scores]
    lines += by_students([r for r in trials if r["world"].split(", ")[0] in IMAGES])
    readme = [r for r in records if r["part"] == "README"]
    for way in [key for key in readme[0] if key not in ("part", "seed")] if readme else []:
        gain = mean_and_interval([r[way] - r["as it is"] for r in readme]) if way != "as it is" else None
        lines.append({"part": "README", "way": way, "gain": gain} | mean_and_interval([r[way] for r in readme]))
    return lines


def by_students(trials: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield the accuracy of every student, and of the one that is chosen too, in the worlds of images."""
    for student in STUDENTS:
        fixed = {name: [r[student][name] for r in trials] for name in trials[0][student]} if trials else {}
        fixed["before"] = [_reached(r, "MF-LF, T = 3, balanced (the paper's)", student)[0] for r in trials]
        fixed["CE"] = [_reached(r, "CE, T = 1, balanced", student)[0] for r in trials]
        fixed["held out"] = [_reached(r, "held out", student)[0] for r in trials]
        picks = [[r["accuracy"][k] for k in r["100 labels, by student"][student]] for r in trials]
        fixed["100 labels"] = [float(np.mean(own)) for own in picks]
        yield _student_line(student, fixed)
    chosen = {way: [float(np.mean(_reached(r, way, None))) for r in trials] for way in ("held out", "100 labels")}
    yield _student_line("chosen too", chosen)


def _student_line(student: str, values: dict[str, list[float]]) -> dict[str, Any]:
    means = {name: float(np.mean(own)) for name, own in values.items()}
    line: dict[str, Any] = {"part": "student", "student": student, "trials": len(next(iter(values.values())))}
    for name in ("CE", "held out", "100 labels", "fit(X, y)"):
        if "defaults" in values:
            gains = 100 * (np.array(values[name]) - np.array(values["defaults"]))
            found = mean_and_interval(gains.tolist())
            line[f"{name}, gain"] = f"{found['mean']:+.1f} ± {found['half']:.1f}"
    return line | means


def ways_to_choose() -> list[str]:
    """Return all rules of choice, the best first."""
    return ["held out", STUDENT_ALONE, "agreement", *FIXED, *(f"{k} labels" for k in N_LABELS), "at random"]


def _rho(trials: list[dict[str, Any]], way: str) -> dict[str, Any]:
    values = [float(spearmanr(r[way], r["accuracy"])[0]) for r in trials]
    return mean_and_interval(values) | {"least": min(values), "positive": sum(v > 0 for v in values)}


def _reached(record: dict[str, Any], way: str, student: str | None) -> list[float]:
    """Return the accuracies that a rule reaches: among all settings, or among those with one student."""
    accuracy, among = record["accuracy"], [k for k, s in enumerate(SETTINGS) if student in (None, s[3])]
    if way in FIXED:  # the student is the user's choice: all are alike
        return [accuracy[k] for k in among if SETTINGS[k][:3] == FIXED[way]]
    if way == "at random":
        return [accuracy[k] for k in among]
    if way.endswith("labels"):
        return [accuracy[k] for k in record[way]] if student is None else []
    if way == STUDENT_ALONE:
        among = [k for k in among if SETTINGS[k][:3] == next(iter(FIXED.values()))] if student is None else []
        way = "held out"
    return [accuracy[max(among, key=lambda k: record[way][k])]] if among else []


def _regret(trials: list[dict[str, Any]], way: str) -> dict[str, Any]:
    """Return how much accuracy is lost against the best of all settings, and of those with the same student."""
    overall, within = [], []
    for record in trials:
        overall.append(max(record["accuracy"]) - float(np.mean(_reached(record, way, None))))
        parts = [(student, reached) for student in STUDENTS if (reached := _reached(record, way, student))]
        if parts:
            best = {s[3]: 0.0 for s in SETTINGS}
            for value, (_, _, _, student) in zip(record["accuracy"], SETTINGS, strict=True):
                best[student] = max(best[student], value)
            within.append(float(np.mean([best[student] - np.mean(reached) for student, reached in parts])))
    return {"overall": points(overall)} | ({"within": points(within)} if within else {})


def points(losses: list[float]) -> dict[str, Any]:
    """Return the mean loss in points of accuracy with its interval, and the worst."""
    found = mean_and_interval([100 * loss for loss in losses])
    return {"text": f"{found['mean']:.1f} ± {found['half']:.1f}", "mean": found["mean"], "worst": 100 * max(losses)}


def _world(trials: list[dict[str, Any]]) -> dict[str, Any]:
    """Return one line about a world."""
    line: dict[str, Any] = {"trials": len(trials)}
    for key, way in (("held_out", "held out"), ("agreement", "agreement")):
        line[f"rho_{key}"] = float(np.mean([spearmanr(r[way], r["accuracy"])[0] for r in trials])) if trials else None
    ways = {"held_out": "held out", "agreement": "agreement", "labels": "100 labels", "fixed": next(iter(FIXED))}
    for key, way in ways.items():
        line[f"regret_{key}"] = _regret(trials, way)["overall"]["mean"] if len(trials) > 1 else None
    return line


def _pairs(trials: list[dict[str, Any]], way: str, factor: int) -> dict[str, Any]:
    """Return how often the better of two settings that differ in one factor only has the better score.

    Pairs whose accuracies differ by less than a point are left out.
    """
    pairs = [
        (a, b)
        for a, b in combinations(range(len(SETTINGS)), 2)
        if [j for j in range(4) if SETTINGS[a][j] != SETTINGS[b][j]] == [factor]
    ]
    hits, total = 0.0, 0
    for record in trials:
        for a, b in pairs:
            gap = record["accuracy"][a] - record["accuracy"][b]
            if abs(gap) >= 0.01:
                said = record[way][a] - record[way][b]
                hits, total = hits + (0.5 if said == 0 else float(said * gap > 0)), total + 1
    return {"pairs": total, "right": hits / max(total, 1)}


def main() -> None:
    """Run or summarise."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["run", "summary"])
    parser.add_argument("--data", type=Path)
    parser.add_argument("--out", type=Path, default=RESULTS)
    args = parser.parse_args()
    if args.what == "run":
        run(args.data, args.out)
    else:
        SUMMARY.write_text(json.dumps(summarise(read(args.out)), indent=1) + "\n")


if __name__ == "__main__":
    main()
