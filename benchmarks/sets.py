"""What teachers with coarse classes add to a merge: as sets, and in three other ways of treating them.

    python -m benchmarks.sets --data FOLDER [--seeds 10] [--first 100] [--out benchmarks/results/sets.jsonl]

Five teachers of mixed kinds know three to five classes each of Fashion-MNIST (`fashion_mnist.npz` in the folder), of
digits or of made-up texts. Two more know coarse classes: shoes and tops beside single bags; even and odd; three groups
of topics. One of the two knows OTHER as well, but for digits. Coarse teachers are of mixed kinds too; two more cases
have forests, or naive Bayes, for even and odd. All are merged with 900 unlabelled rows (digits: 700), the coarse
teachers

- as "sets": a column means one of several classes;
- "left out";
- split "evenly": each class of a set gets its share of the probability;
- as "own" classes: a coarse class is one more class. Answers with it are wrong; "own, single" takes the best single
  class instead.

A file of results that is there is completed: remove it to measure anew.

Accuracy of the merged labels on the unlabelled rows, and of two students on others. A line of JSON per trial, and a
summary for the page: mean over seeds, half the width of the 95 % interval (t), and the same of the difference from
"left out". Settings are the library's defaults; "light" gives coarse teachers a weight of .3, chosen on seeds 0 to 4 at
T = 3.
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections import defaultdict
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from scipy.stats import t as student_t
from sklearn.base import clone
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier

from benchmarks.names import DATA, kinds
from benchmarks.names import load as load_data
from sklearn_uhc import OTHER, HeterogeneousDistiller, LabelSpace, TeacherMerger, TeacherOutputs

SHOES, TOPS, BAG = (5, 7, 9), (0, 2, 4, 6), 8
PARITY = [(0, 2, 4, 6, 8), (1, 3, 5, 7, 9)]
#: What the two coarse teachers of each case know.
COARSE: dict[str, list[list[Any]]] = {
    "fashion": [[SHOES, TOPS, BAG], [TOPS, 1, BAG, OTHER]],
    "digits": [PARITY, PARITY],
    "digits, forests": [PARITY, PARITY],
    "digits, naive Bayes": [PARITY, PARITY],
    "texts": [[(0, 1, 2, 3), (4, 5, 6, 7), (8, 9, 10, 11)], [(0, 1, 2, 3), 4, 5, OTHER]],
}
#: The coarse teachers of these cases are of one kind, by its place in `kinds`.
KIND = {"digits, forests": 1, "digits, naive Bayes": 4}
WAYS = ("sets", "left out", "evenly", "own", "light")
METHODS = ("mf_lf", "ce")
N_FINE, N_ROWS, WEIGHT = 5, 900, 0.3
#: Labels from here on stand for coarse classes that are classes of their own.
OWN = 1000


@dataclass
class Case:
    """Answers of teachers about unlabelled rows, and rows to test students on."""

    lists: list[list[Any]]
    log_p: NDArray[Any]
    n_fine: int
    X: Any
    y: NDArray[Any]
    X_test: Any
    y_test: NDArray[Any]
    about: dict[str, float]  #: how good and how sure the coarse teachers are, among their own columns


def load(data: str, seed: int, folder: Path) -> tuple[Any, NDArray[Any], int]:
    """Return rows, classes 0 to L - 1 and L."""
    if data == "texts":
        return *messages(seed), 12
    X, y, names = load_data(data, seed, folder)
    return X, y, len(names)


def messages(seed: int) -> tuple[Any, NDArray[Any]]:
    """Draw 3,000 short texts about 12 topics in three groups; topics of one group share words."""
    rng = np.random.default_rng(seed)
    own, group = rng.dirichlet(np.full(600, 0.05), size=12), rng.dirichlet(np.full(600, 0.05), size=3)
    words = 0.25 * own + 0.35 * np.repeat(group, 4, axis=0) + 0.4 * rng.dirichlet(np.full(600, 0.5))
    y = rng.integers(12, size=3000)
    counts = np.stack([rng.multinomial(rng.integers(8, 20), words[c] / words[c].sum()) for c in y])
    return TfidfTransformer().fit_transform(counts), y


def make_case(name: str, seed: int, folder: Path) -> Case:
    """Draw lists, fit teachers and ask them."""
    data = name.partition(",")[0]
    rng = np.random.default_rng([seed, DATA.index(data)])
    X, y, L = load(data, seed, folder)
    lists = [*draw_lists(rng, L), *COARSE[name]]
    order = rng.permutation(X.shape[0])
    n_pool = int(0.35 * len(order))
    pool, rows, test = np.split(order, [n_pool, n_pool + (N_ROWS if len(order) > 2000 else 700)])
    every = kinds(data, seed)
    models = [every[k] for k in rng.integers(len(every), size=len(lists))]
    if name in KIND:
        models[N_FINE:] = [every[KIND[name]]] * 2
    space, teachers = LabelSpace(lists), []
    for i, (model, own) in enumerate(zip(models, space.class_lists, strict=True)):
        columns = column_of(space, i)
        train = pool[(columns[y[pool]] >= 0) & (rng.random(len(pool)) < 0.5)]
        teachers.append(clone(model).fit(X[train], columns[y[train]]))
        assert len(teachers[i].classes_) == len(own)
    log_p = TeacherOutputs(teachers, class_lists=lists).fit_transform(X[rows])
    about = {"coarse accuracy": [], "coarse confidence": []}
    for i in range(N_FINE, len(lists)):
        answers, columns = log_p[:, space.blocks[i]], column_of(space, i)[y[rows]]
        about["coarse accuracy"].append((answers.argmax(axis=1) == columns)[columns >= 0].mean())
        about["coarse confidence"].append(np.exp(answers.max(axis=1))[columns >= 0].mean())
    means = {name: float(np.mean(values)) for name, values in about.items()}
    return Case(lists, log_p, N_FINE, X[rows], y[rows], X[test], y[test], means)


def column_of(space: LabelSpace, i: int) -> NDArray[np.int_]:
    """Return for every class the column of teacher i that means it, from 0 on; -1 if none does."""
    out = np.full(space.n_classes, -1)
    for j, k in enumerate(range(space.blocks[i].start, space.blocks[i].stop)):
        out[space.members[space.offsets[k] : space.offsets[k + 1]]] = j
    return out


def draw_lists(rng: np.random.Generator, L: int) -> list[list[int]]:
    """Draw lists of three to five classes that link all L."""
    while True:
        lists = [np.sort(rng.choice(L, rng.integers(3, 6), replace=False)).tolist() for _ in range(N_FINE)]
        if LabelSpace(lists).is_connected and LabelSpace(lists).n_classes == L:
            return lists


def treated(case: Case, way: str) -> tuple[list[list[Any]], NDArray[Any]]:
    """Return class lists and answers with the coarse teachers treated in one way."""
    space = LabelSpace(case.lists)
    if way == "left out":
        return case.lists[: case.n_fine], case.log_p[:, : space.blocks[case.n_fine].start]
    if way == "own":
        names: dict[Any, int] = {}
        is_set = [[isinstance(e, tuple) or e is OTHER for e in own] for own in case.lists]
        lists = [
            [names.setdefault(e, OWN + len(names)) if coarse else e for e, coarse in zip(own, flags, strict=True)]
            for own, flags in zip(case.lists, is_set, strict=True)
        ]
        return lists, case.log_p
    if way == "evenly":
        columns = np.repeat(np.arange(space.n_outputs), space.set_sizes)
        ends = [space.offsets[block.stop] for block in space.blocks]
        lists = [part.tolist() for part in np.split(space.classes[space.members], ends[:-1])]
        return lists, case.log_p[:, columns] - np.log(space.set_sizes)[columns]
    return case.lists, case.log_p


def run(name: str, seed: int, folder: Path, done: Collection[tuple[str, str]] = ()) -> list[dict[str, Any]]:
    """Return the records of one trial, but for methods and ways that are done."""
    warnings.simplefilter("ignore")
    if all((method, way) in done for method in METHODS for way in WAYS):
        return []
    case = make_case(name, seed, folder)
    students = {"k-NN": KNeighborsClassifier(10), "logistic": LogisticRegression(max_iter=300)}
    head = {"case": name, "seed": seed, **case.about}
    out = [
        {
            **head,
            "way": "true labels",
            "method": "-",
            student: model.fit(case.X, case.y).score(case.X_test, case.y_test),
        }
        for student, model in students.items()
    ]
    out = [] if ("-", "true labels") in done else [{**out[0], **out[1]}]
    for method in METHODS:
        for way in (way for way in WAYS if (method, way) not in done):
            record = {**head, "way": way, "method": method}
            lists, log_p = treated(case, way)
            weight = np.where(np.arange(len(lists)) < case.n_fine, 1.0, WEIGHT) if way == "light" else None
            single: dict[str, Any] = {**record, "way": "own, single"}
            for student, model in students.items():
                clf = HeterogeneousDistiller(
                    TeacherMerger(None, teacher_weight=weight),
                    clone(model),
                    method=method,
                    balance=True,
                    class_lists=lists,
                ).fit(case.X, log_p=log_p)
                record[student] = accuracy(clf.predict_proba(case.X_test), clf.classes_, case.y_test)
                single[student] = accuracy(clf.predict_proba(case.X_test), clf.classes_, case.y_test, OWN)
            merger = TeacherMerger(None, method=method, class_lists=lists, teacher_weight=weight)
            Q = merger.fit_transform(case.X, log_p=log_p)
            record["labels"] = accuracy(Q, merger.classes_, case.y)
            single["labels"] = accuracy(Q, merger.classes_, case.y, OWN)
            record["labels, coarse"] = coarse_accuracy(case, merger.classes_[Q.argmax(axis=1)])
            out += [record, single] if way == "own" else [record]
    return out


def coarse_accuracy(case: Case, labels: NDArray[Any]) -> float:
    """Accuracy of merged labels at the question of the coarse teachers; classes of their own are wrong."""
    space, right, single = LabelSpace(case.lists), [], labels < OWN
    for i in range(case.n_fine, space.n_teachers):
        columns = column_of(space, i)
        says = np.where(single, columns[np.where(single, labels, 0)], -2)
        right.append((says == columns[case.y])[columns[case.y] >= 0].mean())
    return float(np.mean(right))


def accuracy(P: NDArray[Any], classes: NDArray[Any], y: NDArray[Any], below: int | None = None) -> float:
    """Share of rows whose most probable class, of those below a number, is right."""
    kept = classes < below if below else np.full(len(classes), True)
    return float((classes[kept][P[:, kept].argmax(axis=1)] == y).mean())


def summary(records: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield mean and 95 % interval over seeds, and in points of the gain over leaving the coarse teachers out."""
    groups: dict[tuple[str, str, str], list[dict[str, Any]]] = defaultdict(list)
    for record in records:
        groups[record["case"], record["method"], record["way"]].append(record)
    for (case, method, way), own in groups.items():
        row: dict[str, Any] = {"case": case, "method": method, "way": way, "n": len(own)}
        for key in ("coarse accuracy", "coarse confidence", "labels, coarse"):
            if key in own[0]:
                row[key] = float(np.mean([r[key] for r in own]))
        base = groups.get((case, method, "left out"))
        for key in ("labels", "k-NN", "logistic"):
            if key in own[0]:
                values = np.array([r[key] for r in own])
                row[key] = interval(values, ".3f")
                if base and way != "left out":
                    row[f"{key} gain"] = interval(100 * (values - [r[key] for r in base]), "+.1f")
        yield row


def interval(values: NDArray[Any], form: str) -> dict[str, Any]:
    """Return the mean, half the width of its 95 % interval, and both as text."""
    n, mean = len(values), float(values.mean())
    half = float(student_t.ppf(0.975, n - 1) * values.std(ddof=1) / np.sqrt(n)) if n > 1 else float("nan")
    return {"mean": mean, "half": half, "text": f"{mean:{form}} ± {half:{form.lstrip('+')}}"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first", type=int, default=100)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/sets.jsonl"))
    parser.add_argument("--summary", type=Path, default=Path("benchmarks/results/sets.json"))
    args = parser.parse_args()
    seeds = range(args.first, args.first + args.seeds)
    records = [json.loads(line) for line in args.out.read_text().splitlines()] if args.out.exists() else []
    done: dict[tuple[str, int], set[tuple[str, str]]] = defaultdict(set)
    for record in records:
        done[record["case"], record["seed"]].add((record["method"], record["way"]))
    for seed in seeds:
        jobs = [delayed(run)(name, seed, args.data, done[name, seed]) for name in COARSE]
        for trial in Parallel(n_jobs=args.jobs)(jobs):
            records += trial
            with args.out.open("a") as file:
                file.writelines(json.dumps(record) + "\n" for record in trial)
    order = [*WAYS[:-1], "own, single", WAYS[-1], "true labels"]
    records.sort(key=lambda record: (list(COARSE).index(record["case"]), record["seed"], order.index(record["way"])))
    rows = list(summary([record for record in records if record["seed"] in seeds]))
    args.summary.write_text(json.dumps(rows, indent=1, ensure_ascii=False) + "\n")
    for row in rows:
        figures = [f"{key} {row[key]['text']}" for key in ("labels", "k-NN", "logistic") if key in row]
        print(f"{row['case']:19s} {row['method']:6s} {row['way']:12s}", *figures)


if __name__ == "__main__":
    main()
