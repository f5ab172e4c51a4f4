"""What teachers that are wrong cost a merge, if all count alike and if `fit` judges them.

    python -m benchmarks.broken_teachers [--data FOLDER]

All worlds of `benchmarks.worlds` with six teachers or more whose classes are even, as they are and with one, two or
three teachers broken as in `benchmarks.findings`: names in another order, random answers, always the same class. And
three forests of six digits each, as they are and with a logistic regression for even and odd, trained on 200 rows.

Accuracy in percent of the merged labels (CE, T = 1), and of a 10-NN student on test rows, with all teachers counting
alike; judged, the default; and with the broken or coarse ones left out, which takes knowing them. Who loses weight.
Limits were chosen on other seeds. One line per world, seed and case in `results/broken-teachers.jsonl`.
"""

from __future__ import annotations

import argparse
import warnings
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier

from benchmarks.findings import WAYS, broken
from benchmarks.lines import RESULTS, measure_once, read, write
from benchmarks.sets import PARITY
from benchmarks.worlds import WORLDS, available, make_world
from sklearn_uhc import HeterogeneousDistiller, LabelSpace, TeacherMerger, TeacherOutputs

Record = dict[str, Any]
LINES, SUMMARY = RESULTS / "broken-teachers.jsonl", RESULTS / "broken_teachers.json"
SEEDS = range(500, 505)
NAMES = [name for name, recipe in WORLDS.items() if recipe.n_teachers >= 6 and recipe.ratio == 1 and name != "paper"]
FORESTS = [[0, 1, 2, 3, 4, 5], [3, 4, 5, 6, 7, 8], [0, 1, 6, 7, 8, 9]]
SETTINGS = ("alike", "judged", "left out")


def compare(case: str, lists: list[Any], log_p: NDArray[Any], wrong: list[int], rows: Any, student: Any) -> Record:
    """Return the accuracies of all settings; `wrong` teachers are broken or coarse."""
    X, y, X_test, y_test = rows
    N, teacher_of = len(lists), LabelSpace(lists).teacher_of
    good = [i for i in range(N) if i not in wrong]
    kept = np.isin(teacher_of, good)
    given = {
        "alike": (TeacherMerger(None, class_lists=lists, teacher_weight=[1.0] * N), log_p),
        "judged": (TeacherMerger(None, class_lists=lists), log_p),
        "left out": (TeacherMerger(None, class_lists=[lists[i] for i in good]), log_p[:, kept]),
    }
    found: Record = {"case": case}
    for setting, (merger, answers) in given.items():
        clf = HeterogeneousDistiller(merger, student).fit(X, log_p=answers)
        labels = merger.fit_transform(X, log_p=answers).argmax(axis=1)
        found[f"labels, {setting}"] = 100 * float(np.mean(merger.classes_[labels] == y))
        found[f"10-NN, {setting}"] = 100 * float(np.mean(clf.predict(X_test) == y_test))
        if setting == "judged":
            weight = np.ones(N) if merger.teacher_weight_ is None else merger.teacher_weight_
            found |= {"lost": int((weight[wrong] < 0.01).sum()), "good lost": int((weight[good] < 1).sum())}
    return {**found, "wrong": len(wrong), "good": len(good)}


def of_world(name: str, seed: int, folder: Path | None) -> list[Record]:
    """Return a record for every case of a world."""
    warnings.simplefilter("ignore")
    world, rng = make_world(name, seed, folder), np.random.default_rng(seed)
    log_p = np.asarray(TeacherOutputs(world.teachers).fit_transform(world.X))
    lists = [np.asarray(own) for own in world.class_lists]
    rows, student = (world.X, world.y, world.X_test, world.y_test), world.student(KNeighborsClassifier(10))
    records = [compare("none", lists, log_p, [], rows, student)]
    for case, n in {**dict.fromkeys(WAYS, 1), "two broken": 2, "three broken": 3}.items():
        who = sorted(rng.choice(len(lists), n, replace=False).tolist())
        ways = [case] if n == 1 else rng.permutation(WAYS)[:n].tolist()
        new, names = broken(log_p, lists, list(zip(who, ways, strict=True)), rng)
        records.append(compare(case, names, new, who, rows, student))
    return records


def of_forests(seed: int) -> list[Record]:
    """Return the record of three forests, with a weak coarse teacher."""
    warnings.simplefilter("ignore")
    rng, (X, y) = np.random.default_rng(seed), load_digits(return_X_y=True)
    pool, some, test = np.split(rng.permutation(len(X)), [600, 1300])
    own = [rng.permutation(pool[np.isin(y[pool], known)])[:200] for known in FORESTS]
    teachers = [RandomForestClassifier(random_state=seed).fit(X[mine], y[mine]) for mine in own]
    mine = rng.permutation(pool)[:200]
    teachers.append(LogisticRegression(max_iter=3000).fit(X[mine], y[mine] % 2))
    lists = [*FORESTS, PARITY]
    log_p = np.asarray(TeacherOutputs(teachers, class_lists=lists).fit_transform(X[some]))
    return [compare("coarse", lists, log_p, [3], (X[some], y[some], X[test], y[test]), KNeighborsClassifier(10))]


def summarize(records: list[Record]) -> list[Record]:
    """Return means over worlds and seeds, the worst world, and the share of teachers that lose their weight."""
    out = []
    for case in dict.fromkeys(r["case"] for r in records):
        own = [r for r in records if r["case"] == case]
        row: Record = {"case": case, "fits": len(own)}
        row |= {
            f"{of}, {s}": round(float(np.mean([r[f"{of}, {s}"] for r in own])), 1)
            for of in ("labels", "10-NN")
            for s in SETTINGS
        }
        row["lost"] = sum(r["lost"] for r in own) / max(sum(r["wrong"] for r in own), 1)
        row["good lost"] = sum(r["good lost"] for r in own) / sum(r["good"] for r in own)
        worlds = [[r["labels, judged"] - r["labels, alike"] for r in own if r["name"] == n] for n in NAMES]
        row["worst"] = round(min((float(np.mean(w)) for w in worlds if w), default=0.0), 1)
        out.append(row)
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path)
    args = parser.parse_args()
    for seed, name in product(SEEDS, [n for n in available(args.data) if n in NAMES]):
        measure_once(LINES, {"name": name, "seed": seed}, of_world, name, seed, args.data)
    for seed in SEEDS:
        measure_once(LINES, {"name": "forests", "seed": seed}, of_forests, seed)
    write(SUMMARY, summarize(read(LINES)))


if __name__ == "__main__":
    main()
