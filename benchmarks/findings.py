"""How often `fit` warns about real problems, and falsely.

    python -m benchmarks.findings run --data FOLDER [--part choosing] [--out benchmarks/results/findings.jsonl]
    python -m benchmarks.findings summary

`run` appends trial after trial and leaves out what is there; `summary` writes `results/findings.json`. Every trial
of `benchmarks/worlds.py` is fitted as it is, with all its transfer rows, with 300 of them, and with classes that are
uneven (10 : 1, 100 : 1, or one class twenty times as frequent as the others) or absent (half of them), and, on the
first seeds, broken on purpose:

- order: the classes of one teacher in another order, none at its place; swapped: two of them in each other's place;
  noise: one teacher answers at random; constant: it always gives the same class, or the same probabilities (odds).
- two broken, three broken: of at least six teachers, each in another one of these ways (order, noise, constant).
- positions: every class list is 0, 1, 2, ...; one list of positions: of one teacher.
- foreign rows: Fashion-MNIST shown to teachers of digits, MNIST to teachers of clothes, pixels in another order in
  every image, half of the rows, and classes of Tiny-ImageNet that no teacher knows.
- uneven: the worlds with 100 : 1 rows.

A fit is that of a distiller with a k-NN student; teachers are read once per trial. Thresholds were chosen on the seeds
of `choosing` and on data made for the purpose; the page shows the seeds of `reporting`.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.neighbors import KNeighborsClassifier

from benchmarks.digits import kinds as digit_kinds
from benchmarks.lines import read
from benchmarks.worlds import FILES, TINY, WORLDS, World, available, make_world
from sklearn_uhc import FindingWarning, HeterogeneousDistiller, LabelSpace, TeacherOutputs
from sklearn_uhc.answers import answers_given
from sklearn_uhc.evidence import find
from sklearn_uhc.utils.rows import take_rows

Array = NDArray[Any]
RESULTS, SUMMARY = Path("benchmarks/results/findings.jsonl"), Path("benchmarks/results/findings.json")
SEEDS = {"choosing": (*range(3), *range(730, 745), *range(750, 765)), "reporting": tuple(range(770, 785))}
UNEVEN = [name for name, recipe in WORLDS.items() if recipe.ratio > 1]
KINDS = ("contradiction", "positions", "foreign", "uneven")
#: Things are broken in fewer seeds, as detection needs no such precision as false alarms.
BROKEN_SEEDS = 4
IMAGES = ("mnist", "fashion_mnist")
FEW = 300
#: How frequent each class is, relative to the most frequent, of L classes; 0: it is absent.
SHARES = {
    "10 : 1": lambda L: 10.0 ** -np.linspace(0, 1, L),
    "100 : 1": lambda L: 100.0 ** -np.linspace(0, 1, L),
    "one frequent": lambda L: np.where(np.arange(L) == 0, 1.0, 0.05),
    "half absent": lambda L: (np.arange(L) < L // 2).astype(float),
}
WAYS = ("order", "noise", "constant")
UNBROKEN = ("clean", "clean, 300 rows", *SHARES, "uneven")


class Case(NamedTuple):
    """Answers on rows, with class lists that are right or wrong."""

    name: str
    expected: str | None  #: kind of finding, None if nothing is wrong
    X: Any
    log_p: Array
    lists: list[Array]
    culprits: tuple[int, ...] = ()


def run_case(case: Case, student: Any) -> dict[str, Any]:
    """Fit, and return the warnings."""
    clf = HeterogeneousDistiller(None, student, class_lists=case.lists)
    start = time.perf_counter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        clf.fit(case.X, log_p=case.log_p)
    seconds = time.perf_counter() - start
    found = clf.merger_.findings_
    told = [str(w.message) for w in caught if issubclass(w.category, FindingWarning)]
    assert told == [str(finding) for finding in found]
    answers = answers_given(case.log_p, LabelSpace(case.lists), abstain=False)
    start = time.perf_counter()
    find(answers)
    looking = time.perf_counter() - start
    return {
        "case": case.name,
        "expected": case.expected,
        "culprits": list(case.culprits),
        "kinds": sorted({finding.kind for finding in found}),
        "teachers": [list(finding.teachers) for finding in found],
        "evidence": [finding.evidence for finding in found],
        "rows": len(case.log_p),
        "seconds": seconds,
        "looking": looking,
    }


def cases_of(world: World, rng: np.random.Generator) -> Iterator[Case]:
    """Yield the world as it is, and broken in all ways that need no other rows."""
    outputs = TeacherOutputs(world.teachers)
    log_p, lists = np.asarray(outputs.fit_transform(world.X)), [np.asarray(own) for own in world.class_lists]
    uneven = world.name in UNEVEN
    yield Case("uneven" if uneven else "clean", "uneven" if uneven else None, world.X, log_p, lists)
    if uneven:
        return
    few = rng.permutation(len(log_p))[:FEW]
    yield Case("clean, 300 rows", None, take_rows(world.X, few), log_p[few], lists)
    for name, rows in uneven_rows(world, rng).items():
        expected = "uneven" if name in ("100 : 1", "half absent") else None
        yield Case(name, expected, take_rows(world.X, rows), log_p[rows], lists)
    i = int(rng.integers(len(lists)))
    for name in (*WAYS, "odds"):
        yield Case(name, "contradiction", world.X, *broken(log_p, lists, [(i, name)], rng), (i,))
    yield Case("swapped", "contradiction", world.X, log_p, replaced(lists, i, swapped(lists[i], rng)), (i,))
    for name, n in {"two broken": 2, "three broken": 3}.items():
        if len(lists) >= 6:
            who = sorted(rng.choice(len(lists), n, replace=False).tolist())
            ways = list(zip(who, rng.permutation(WAYS).tolist(), strict=False))
            yield Case(name, "contradiction", world.X, *broken(log_p, lists, ways, rng), tuple(who))
    numbers = [np.arange(len(own)) for own in lists]
    yield Case("positions", "positions", world.X, log_p, numbers)
    if lists[i].dtype.kind in "iu":
        yield Case("one list of positions", "contradiction", world.X, log_p, replaced(lists, i, numbers[i]), (i,))


def uneven_rows(world: World, rng: np.random.Generator) -> dict[str, Array]:
    """Return rows with other class frequencies; none for the paper's world, most of whose rows are of other classes."""
    if world.name == "paper":
        return {}
    classes, code = np.unique(world.y, return_inverse=True)
    order, chance = rng.permutation(len(classes)), rng.random(len(world.y))
    return {name: np.flatnonzero(chance < share(len(classes))[order][code]) for name, share in SHARES.items()}


def broken(
    log_p: Array, lists: list[Array], ways: list[tuple[int, str]], rng: np.random.Generator
) -> tuple[Array, list[Array]]:
    """Return answers and lists with some teachers broken, each in its way."""
    new, blocks = log_p.copy(), LabelSpace(lists).blocks
    for i, way in ways:
        k = len(lists[i])
        if way == "order":
            lists = replaced(lists, i, deranged(lists[i], rng))
            continue
        Z = {"noise": 3 * rng.normal(size=(len(log_p), k)), "constant": 20 * np.eye(k)[[rng.integers(k)]]}
        Z["odds"] = rng.normal(size=(1, k))
        new[:, blocks[i]] = Z[way] - np.log(np.exp(Z[way]).sum(axis=1, keepdims=True))
    return new, lists


def deranged(labels: Array, rng: np.random.Generator) -> Array:
    """Return labels in an order in which none keeps its place."""
    order = rng.permutation(len(labels))
    while (order == np.arange(len(labels))).any():
        order = rng.permutation(len(labels))
    return labels[order]


def swapped(labels: Array, rng: np.random.Generator) -> Array:
    """Return labels with two of them exchanged."""
    a, b = rng.choice(len(labels), 2, replace=False)
    new = labels.copy()
    new[[a, b]] = labels[[b, a]]
    return new


def replaced(lists: list[Array], i: int, labels: Array) -> list[Array]:
    """Return lists with another one for teacher i."""
    return [labels if k == i else own for k, own in enumerate(lists)]


def read_images(file: str, folder: Path, rng: np.random.Generator, n: int) -> tuple[Array, Array]:
    """Return n images as rows between 0 and 1, and their classes."""
    with np.load(folder / file) as data:
        rows = rng.choice(len(data["y_train"]), n, replace=False)
        return data["X_train"][rows].reshape(n, -1) / 255.0, data["y_train"][rows].astype(int)


def shrunk(images: Array) -> Array:
    """Return images of 28 x 28 as 8 x 8, without their margin."""
    inner = images.reshape(-1, 28, 28)[:, 2:26, 2:26]
    return inner.reshape(-1, 8, 3, 8, 3).mean(axis=(2, 4)).reshape(len(images), 64)


def foreign_cases(name: str, kinds: str, seed: int, folder: Path) -> Iterator[Case]:
    """Yield teachers of one kind of images with rows of another: 1,000 of them, half of them, and shuffled pixels."""
    rng = np.random.default_rng([seed, len(name), len(kinds)])
    own, other = ("fashion_mnist.npz", "mnist.npz") if name == "clothes" else ("mnist.npz", "fashion_mnist.npz")
    strange, _ = read_images(other, folder, rng, 1000)
    if name == "digits of 8 x 8":
        X, y = load_digits(return_X_y=True)
        order = rng.permutation(len(X))
        X, y, strange, encode = X[order] / 16, y[order], shrunk(strange), lambda images: images
        n_train, n_rows = 800, 997
    else:
        X, y = read_images(own, folder, rng, 2500)
        pca = PCA(30, random_state=0).fit(X[1500:])
        scale, n_train, n_rows = pca.transform(X[1500:]).std(), 1500, 1000
        encode = lambda images: pca.transform(images) / scale  # noqa: E731
    lists = drawn_lists(rng)
    models = digit_kinds(seed)[kinds]
    train, rows = slice(n_train), X[n_train : n_train + n_rows]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # networks that would go on
        teachers = [
            models[k % len(models)].fit(encode(X[train][mine]), y[train][mine])
            for k, mine in enumerate(np.isin(y[train], labels) for labels in lists)
        ]
    half = n_rows // 2
    mixed = np.concatenate([rows[:half], strange[: n_rows - half]])
    for case, shown in {"foreign": strange, "half foreign": mixed, "shuffled": rng.permuted(rows, axis=1)}.items():
        expected = None if case == "half foreign" else "foreign"
        log_p = np.asarray(TeacherOutputs(teachers).fit_transform(encode(shown)))
        yield Case(case, expected, encode(shown), log_p, [teacher.classes_ for teacher in teachers])


def drawn_lists(rng: np.random.Generator) -> list[Array]:
    """Return six lists of 3 to 5 digits that connect all ten."""
    while True:
        lists = [np.sort(rng.choice(10, rng.integers(3, 6), replace=False)) for _ in range(6)]
        if LabelSpace(lists).n_classes == 10 and LabelSpace(lists).is_connected:
            return lists


def unknown_classes(world: World, folder: Path, rng: np.random.Generator) -> Case:
    """Return the world with rows of classes that no teacher knows."""
    with np.load(folder / TINY) as data:
        rows = rng.permutation(np.flatnonzero(~np.isin(data["y_train"], world.classes)))[:1500]
        X = data["X_train"][rows, : world.X.shape[1]].astype(float)
    X = X / X.std()
    log_p = np.asarray(TeacherOutputs(world.teachers).fit_transform(X))
    return Case("classes that nobody knows", "foreign", X, log_p, [np.asarray(own) for own in world.class_lists])


def trials(folder: Path, part: str) -> Iterator[tuple[str, int, Any]]:
    """Yield name, seed and a function that returns cases and a student, trial by trial."""

    def world_cases(name: str, seed: int) -> tuple[list[Case], Any]:
        world, rng = make_world(name, seed, folder), np.random.default_rng(seed)
        breaks = seed in SEEDS[part][:BROKEN_SEEDS]
        cases = [case for case in cases_of(world, rng) if breaks or case.name in UNBROKEN]
        if name == "paper" and breaks:
            cases.append(unknown_classes(world, folder, rng))
        return cases, world.student(KNeighborsClassifier())

    def image_cases(name: str, kinds: str, seed: int) -> tuple[list[Case], Any]:
        return list(foreign_cases(name, kinds, seed, folder)), KNeighborsClassifier()

    for seed in SEEDS[part]:
        for name in available(folder, say=False):
            yield name, seed, lambda name=name, seed=seed: world_cases(name, seed)
        if seed in SEEDS[part][:BROKEN_SEEDS] and all((folder / FILES[data]).exists() for data in IMAGES):
            for name in ("digits of 8 x 8", "digits of 28 x 28", "clothes"):
                for kinds in ("mixed", "networks"):
                    label = f"{name}, {kinds}"
                    yield label, seed, lambda name=name, kinds=kinds, seed=seed: image_cases(name, kinds, seed)


def run(folder: Path, part: str, out: Path) -> None:
    """Run what is missing."""
    done = {(r["part"], r["world"], r["seed"]) for r in read(out)}
    for world, seed, make in trials(folder, part):
        if (part, world, seed) in done:
            continue
        cases, student = make()
        records = [{"part": part, "world": world, "seed": seed} | run_case(case, student) for case in cases]
        append(out, records)
        print(world, seed, *[f"{r['case']}: {'+'.join(r['kinds']) or '-'}" for r in records], sep="; ", flush=True)


def append(path: Path, records: list[dict[str, Any]]) -> None:
    """Append records."""
    with path.open("a") as file:
        file.writelines(json.dumps(record) + "\n" for record in records)


def summarise(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return false alarms by kind, detections by case and by world, and the cost."""
    own = [r for r in records if r["part"] == "reporting"]
    lines = [false_alarms(own, case) for case in ("clean", "clean, 300 rows", *SHARES, "half foreign")]
    broken = list(dict.fromkeys(r["case"] for r in own if r["expected"] is not None))
    lines += [{"part": "found", "case": case, **detected([r for r in own if r["case"] == case])} for case in broken]
    for case in ("foreign", "shuffled"):
        for world in dict.fromkeys(r["world"] for r in own if r["case"] == case):
            these = [r for r in own if r["case"] == case and r["world"] == world]
            lines.append({"part": "foreign", "case": case, "world": world, **detected(these)})
    clean = [r for r in own if r["case"] == "clean"]
    shares = [r["looking"] / r["seconds"] for r in clean]
    lines.append({"part": "cost", "median": float(np.median(shares)), "largest": max(shares), "fits": len(clean)})
    return lines


def false_alarms(records: list[dict[str, Any]], case: str) -> dict[str, Any]:
    """Count fits without a problem, and their findings."""
    own = [r for r in records if r["case"] == case]
    counts: dict[str, int | None] = {kind: sum(kind in r["kinds"] for r in own) for kind in KINDS}
    if case in SHARES:
        counts["uneven"] = None  # no false alarm
    return {"part": "alarms", "case": case, "fits": len(own), "worlds": len({r["world"] for r in own}), **counts}


def blames_rows(record: dict[str, Any]) -> bool:
    """Return whether the rows are foreign, and a finding about several teachers gives this as a cause."""
    return record["expected"] == "foreign" and any(len(own) > 1 for own in record["teachers"])


def detected(records: list[dict[str, Any]]) -> dict[str, Any]:
    """Count how often the right problem was found, exactly the right teachers or another named, or something else."""
    right = [r for r in records if r["expected"] in r["kinds"] or blames_rows(r)]
    named = [r for r in right if sorted(i for own in r["teachers"] if len(own) == 1 for i in own) == r["culprits"]]
    innocent = [r for r in right if any(len(own) == 1 and own[0] not in r["culprits"] for own in r["teachers"])]
    other = [r for r in records if r["kinds"] and r not in right]
    n, blames = len(records), bool(records[0]["culprits"])
    return {
        "fits": n,
        "found": len(right) / n,
        "named": len(named) / n if blames else None,
        "innocent": len(innocent) / n if blames else None,
        "other": len(other) / n,
        "silent": (n - len(right) - len(other)) / n,
    }


def main() -> None:
    """Run or summarise."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["run", "summary"])
    parser.add_argument("--data", type=Path)
    parser.add_argument("--part", choices=list(SEEDS), default="reporting")
    parser.add_argument("--out", type=Path, default=RESULTS)
    args = parser.parse_args()
    if args.what == "run":
        if args.data is None:
            parser.error("run needs --data")
        run(args.data, args.part, args.out)
    else:
        SUMMARY.write_text(json.dumps(summarise(read(args.out)), indent=1) + "\n")


if __name__ == "__main__":
    main()
