"""Worlds to try settings on: fitted teachers, transfer rows and a test, of many kinds, each made in a few seconds.

    from benchmarks.worlds import WORLDS, available, make_world
    trial = make_world("digits, mixed", seed=0)
    HeterogeneousDistiller(trial.teachers, trial.student(KNeighborsClassifier(10))).fit(trial.X)

The rows of `WORLDS` are mostly even. Those of `KINDS` are like real ones: even, uneven, with half or a fifth of the
classes present; intents; language detectors that know many languages that do not occur. Teachers have seen all their
classes about equally often.

Digits, texts, tables and points ship with scikit-learn or are made up. All else is read from a folder (`FILES`), which
is an argument or stands in the environment variable BENCHMARK_DATA; `available` leaves out what is not there.

    python -m benchmarks.worlds [--data FOLDER] [--seed 0]      prints a line about each
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
import zlib
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.datasets import load_digits, make_blobs
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline

from benchmarks import mixtures, real
from benchmarks.digits import kinds as digit_kinds
from benchmarks.paper.protocol import MANY_CLASSES, draw_trial
from sklearn_uhc import LabelSpace
from sklearn_uhc.utils.rows import take_rows

Array = NDArray[Any]
FOLDER = "BENCHMARK_DATA"
TINY = "tinyimagenet_lite0_pca256.npz"


@dataclass(frozen=True)
class World:
    """Fitted teachers, and data that they did not see.

    Attributes
    ----------
    teachers : dict of fitted classifiers
        By name; `class_lists` has their classes in the same order.
    X, y : n rows and their classes
        The transfer set. `y` is for measurements, supervised students and benchmarks of labels, not for merging. In
        the paper's world most rows are of classes that nobody knows: not in `classes`.
    X_test, y_test : rows and their classes
        All of known classes.
    own : list of (rows, classes)
        What each teacher was trained on; no row stands twice. Empty if they were trained elsewhere.
    encoder : transformer or None
        What a student needs before it can read X, not fitted.
    """

    name: str
    seed: int
    teachers: dict[str, Any]
    X: Any
    y: Array
    X_test: Any
    y_test: Array
    own: list[tuple[Any, Array]]
    encoder: Any = None
    class_lists: list[Array] = field(init=False)
    classes: Array = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "class_lists", [teacher.classes_ for teacher in self.teachers.values()])
        object.__setattr__(self, "classes", LabelSpace(self.class_lists).classes)

    def student(self, estimator: Any) -> Any:
        """Return a new estimator that can read X."""
        return clone(estimator) if self.encoder is None else make_pipeline(clone(self.encoder), clone(estimator))


@dataclass(frozen=True)
class Recipe:
    """How a world is made: its data, the kinds of its teachers, how many, and how many classes they know."""

    data: str
    kinds: str
    n_teachers: int
    known: tuple[int, int]
    sizes: tuple[int, int, int] = (1500, 1500, 1500)  #: rows for the teachers, to transfer, to test
    n_classes: int | None = None  #: drawn anew for every seed; None: all
    ratio: float = 1.0  #: of the most to the least frequent class in the transfer set
    present: float = 1.0  #: share of the classes that occur in the transfer set
    same_test: bool = True  #: whether the test has the same shares


DIGITS, TEXTS = (600, 600, 597), (2000, 1500, 1500)
WORLDS: dict[str, Recipe] = {
    "digits, mixed": Recipe("digits", "mixed", 6, (3, 5), DIGITS),
    "digits, networks": Recipe("digits", "networks", 6, (3, 5), DIGITS),
    "MNIST, mixed": Recipe("mnist", "mixed", 6, (3, 5)),
    "MNIST, networks": Recipe("mnist", "networks", 6, (3, 5)),
    "Fashion-MNIST, mixed": Recipe("fashion_mnist", "mixed", 6, (3, 5)),
    "Fashion-MNIST, networks": Recipe("fashion_mnist", "networks", 6, (3, 5)),
    "Tiny-ImageNet, mixed": Recipe("tiny", "mixed", 8, (5, 9), (2000, 1500, 1000), 20),
    "Tiny-ImageNet, networks": Recipe("tiny", "networks", 8, (5, 9), (2000, 1500, 1000), 20),
    "texts": Recipe("texts", "texts", 10, (4, 8), TEXTS),
    "table": Recipe("table", "mixed", 6, (3, 5)),
    "lists of 2 to 3": Recipe("fashion_mnist", "mixed", 9, (2, 3)),
    "lists of 10 to 15": Recipe("tiny", "mixed", 8, (10, 15), (3000, 1500, 1500), 30),
    "3 teachers": Recipe("mnist", "mixed", 3, (5, 7), (1000, 1500, 1500)),
    "14 teachers": Recipe("mnist", "mixed", 14, (3, 4), (2000, 1500, 1500)),
    "100 : 1": Recipe("mnist", "mixed", 6, (3, 5), ratio=100),
    "100 : 1, networks": Recipe("fashion_mnist", "networks", 6, (3, 5), ratio=100),
    "100 : 1, balanced test": Recipe("mnist", "mixed", 6, (3, 5), ratio=100, same_test=False),
    "paper": Recipe("paper", "networks", 15, (5, 15), (0, 2000, 0)),
}
FILES = {
    "mnist": "mnist.npz",
    "fashion_mnist": "fashion_mnist.npz",
    "tiny": TINY,
    "paper": TINY,
    "intents": "clinc150.json.gz",
    "detectors": "languages.npz",
}
_BASES = {
    "digits mixed": Recipe("digits", "mixed", 6, (3, 5), (500, 700, 597)),
    "digits networks": Recipe("digits", "networks", 6, (3, 5), (500, 700, 597)),
    "blobs": Recipe("blobs", "mixed", 6, (3, 5), (800, 1000, 1000)),
    "classification": Recipe("classification", "mixed", 6, (3, 5), (800, 1000, 1000)),
    "30 intents": Recipe("intents", "intents", 8, (6, 12), (1800, 1500, 1200), 30),
}
_SHARES: dict[str, dict[str, float]] = {
    "even": {},
    "10 : 1": {"ratio": 10},
    "100 : 1": {"ratio": 100},
    "half present": {"present": 0.5},
    "a fifth present": {"present": 0.2},
}
#: How frequent classes are in real rows: intents are too few for 100 : 1.
KINDS: dict[str, Recipe] = {
    f"{base}, {shares}": replace(recipe, **change)  # type: ignore[arg-type]
    for base, recipe in _BASES.items()
    for shares, change in _SHARES.items()
    if (base, shares) != ("30 intents", "100 : 1")
}
_ALL_INTENTS = Recipe("intents", "intents", 10, (30, 60), (4500, 2000, 1500))
KINDS["150 intents, even"] = _ALL_INTENTS
KINDS["150 intents, half present"] = replace(_ALL_INTENTS, present=0.5)
KINDS["detectors, sentences"] = Recipe("detectors", "sentences", 5, (55, 175))
KINDS["detectors, word pairs"] = Recipe("detectors", "word-pairs", 5, (55, 175))
RECIPES = WORLDS | KINDS


def available(
    folder: str | os.PathLike[str] | None = None, say: bool = True, names: Iterable[str] = tuple(WORLDS)
) -> list[str]:
    """Return the names of the worlds whose data are there, and say which are left out."""
    files = {name: FILES.get(RECIPES[name].data) for name in names}
    there = {name: file is None or _has(folder, file) for name, file in files.items()}
    absent = [name for name, found in there.items() if not found]
    if absent and say:
        print(f"No data in --data or {FOLDER} for: {', '.join(absent)}. Left out.")
    return [name for name, found in there.items() if found]


def make_world(name: str, seed: int, folder: str | os.PathLike[str] | None = None) -> World:
    """Draw the data, split them, and train the teachers; the same name and seed give the same world."""
    recipe = RECIPES[name]
    if recipe.data == "paper":
        return _paper(name, seed, folder, recipe)
    if recipe.data == "detectors":
        return _detectors(name, seed, folder, recipe)
    rng = np.random.default_rng([seed, zlib.crc32(name.removesuffix(", balanced test").encode())])
    X, y, encoder = _load(recipe, seed, folder, rng)
    pool, rows, test = _split(rng, y, recipe)
    lists = draw_lists(rng, np.unique(y), recipe)
    owners = _share(rng, y[pool], lists)
    own = [(take_rows(X, pool[owners == i]), y[pool[owners == i]]) for i in range(len(lists))]
    if recipe.data in ("mnist", "fashion_mnist"):  # principal components of what everybody may see
        encode = PCA(30, random_state=0).fit(X[rows])
        scale = encode.transform(X[rows]).std()
        X, own = encode.transform(X) / scale, [(encode.transform(mine) / scale, labels) for mine, labels in own]
    every = _kinds(recipe, seed, encoder)
    start = int(rng.integers(len(every)))
    models = list(islice(cycle(every), start, start + len(lists)))
    teachers = _train(models, own)
    return World(name, seed, teachers, take_rows(X, rows), y[rows], take_rows(X, test), y[test], own, encoder)


def draw_lists(rng: np.random.Generator, classes: Array, recipe: Recipe) -> list[Array]:
    """Draw lists that know all classes and connect them."""
    while True:
        sizes = rng.integers(recipe.known[0], recipe.known[1] + 1, recipe.n_teachers)
        lists = [np.sort(rng.choice(classes, size, replace=False)) for size in sizes]
        if LabelSpace(lists).n_classes == len(classes) and LabelSpace(lists).is_connected:
            return lists


def _load(recipe: Recipe, seed: int, folder: Any, rng: np.random.Generator) -> tuple[Any, Array, Any]:
    """Return rows, classes and what students need before them: no more rows than a trial needs."""
    if recipe.data == "digits":
        X, y = load_digits(return_X_y=True)
        return X / 16, y, None
    if recipe.data == "texts":
        return *mixtures.texts(seed), TruncatedSVD(50, random_state=0)
    if recipe.data == "table":
        return *mixtures.table(seed), mixtures.encode_table()
    if recipe.data == "blobs":
        return *make_blobs(11_000, 8, centers=10, center_box=(-4, 4), cluster_std=2, random_state=seed), None
    if recipe.data == "classification":
        return *mixtures.clusters(seed), None
    if recipe.data == "intents":
        X, y = real.intents(_path(folder, FILES["intents"]))
        chosen = rng.choice(np.unique(y), recipe.n_classes or 150, replace=False)
        X, y = X[np.isin(y, chosen)], y[np.isin(y, chosen)]
        return X, y, real.encode(X, words=True)
    X, y = _read(str(_path(folder, FILES[recipe.data])))
    chosen = np.unique(y) if recipe.n_classes is None else rng.choice(np.unique(y), recipe.n_classes, replace=False)
    rows = rng.permutation(np.flatnonzero(np.isin(y, chosen)))
    enough = 1 if recipe.ratio == 1 else 4  # of every class, to draw uneven shares from
    rows = rows[: enough * sum(recipe.sizes)]
    if recipe.data == "tiny":
        X = X[rows, :64].astype(float)
        return X / X.std(), y[rows], None
    return X[rows] / 255.0, y[rows], None


def _kinds(recipe: Recipe, seed: int, encoder: Any) -> list[Any]:
    if recipe.kinds == "texts":
        return mixtures.kinds("texts", "mixed", seed)
    if recipe.kinds == "intents":
        return real.kinds()
    models = digit_kinds(seed)[recipe.kinds]
    if encoder is not None:
        models = [make_pipeline(clone(encoder), model) for model in models]
    return models


def _split(rng: np.random.Generator, y: Array, recipe: Recipe) -> tuple[Array, Array, Array]:
    """Return the rows of the teachers, the transfer set and the test."""
    order = rng.permutation(len(y))
    n_pool, n_rows, n_test = recipe.sizes
    if recipe.ratio == recipe.present == 1:
        pool, rows, test = np.split(order[: sum(recipe.sizes)], np.cumsum(recipe.sizes)[:-1])
        return pool, rows, test
    every = rng.permutation(np.unique(y))
    classes = every[: max(round(recipe.present * len(every)), 2)]
    share = recipe.ratio ** -np.linspace(0, 1, len(classes))
    share /= share.sum()
    pool, rest = order[:n_pool], order[n_pool:]
    left = (y[rest, None] == classes).sum(axis=0)
    scale = min(1.0, (left / (share * (n_rows + n_test))).min())  # the shares hold, with fewer rows if need be
    rows = _first(y, rest, classes, scale * n_rows * share)
    rest = np.setdiff1d(rest, rows)
    test = rng.permutation(rest)[:n_test]
    if recipe.same_test:
        test = _first(y, rest, classes, scale * n_test * share)
    return pool, rng.permutation(rows), test


def _first(y: Array, rows: Array, classes: Array, counts: Array) -> Array:
    """Return the first rows of each class, two or more."""
    wanted = np.maximum(np.round(counts).astype(int), 2)
    return np.concatenate([rows[y[rows] == label][:k] for label, k in zip(classes, wanted, strict=True)])


def _share(rng: np.random.Generator, y: Array, lists: list[Array]) -> Array:
    """Return whose row each is: those of a class are shared among the teachers that know it."""
    owner = np.full(len(y), -1)
    for label in np.unique(y):
        rows, owners = np.flatnonzero(y == label), [i for i, known in enumerate(lists) if label in known]
        owner[rows] = rng.permutation(np.resize(owners, len(rows)))
    return owner


def _train(models: list[Any], own: list[tuple[Any, Array]]) -> dict[str, Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # networks that would go on
        return {f"t{i}": clone(model).fit(*own[i]) for i, model in enumerate(models)}


def _paper(name: str, seed: int, folder: Any, recipe: Recipe) -> World:
    """Draw classes and teachers as the paper does; the transfer set has rows of all 200 classes."""
    X, y = _read(str(_path(folder, TINY)))
    with np.load(_path(folder, TINY)) as data:
        X_test, y_test = data["X_test"], data["y_test"].astype(int)
    draw = draw_trial(seed, y, MANY_CLASSES, "random", ("network",))
    used = np.concatenate(draw.rows)
    rng = np.random.default_rng([seed, zlib.crc32(name.encode())])
    rows = rng.permutation(np.setdiff1d(np.arange(len(y)), used))[: recipe.sizes[1]]
    scale = X[rows, :128].astype(float).std()
    own = [(X[mine, :128].astype(float) / scale, y[mine]) for mine in draw.rows]
    network = MLPClassifier((128,), max_iter=20, learning_rate_init=3e-3, random_state=seed)
    test = np.flatnonzero(np.isin(y_test, draw.classes))
    return World(
        name,
        seed,
        _train([network] * len(own), own),
        X[rows, :128].astype(float) / scale,
        y[rows],
        X_test[test, :128].astype(float) / scale,
        y_test[test],
        own,
    )


def _detectors(name: str, seed: int, folder: Any, recipe: Recipe) -> World:
    """Halve the texts of a kind; the detectors have been trained elsewhere."""
    teachers, texts, y, kind = real.detectors(_path(folder, FILES["detectors"]))
    rng = np.random.default_rng([seed, zlib.crc32(name.encode())])
    every = rng.permutation(np.flatnonzero(kind == recipe.kinds))
    rows, test = np.array_split(every, 2)
    encoder = real.encode(texts[every], words=False)
    return World(name, seed, dict(teachers), texts[rows], y[rows], texts[test], y[test], [], encoder)


def _path(folder: str | os.PathLike[str] | None, file: str) -> Path:
    given = folder if folder is not None else os.environ.get(FOLDER)
    if given is None:
        raise FileNotFoundError(f"{file} is needed: give its folder, or set the environment variable {FOLDER}.")
    return Path(given) / file


def _has(folder: str | os.PathLike[str] | None, file: str) -> bool:
    return (folder is not None or FOLDER in os.environ) and _path(folder, file).exists()


@lru_cache(maxsize=2)
def _read(path: str) -> tuple[Array, Array]:
    """Return all training rows of a file, flat, and their classes."""
    with np.load(path) as data:
        X, y = data["X_train"], data["y_train"].astype(int)
    return X.reshape(len(X), -1), y


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    for name in available(args.data, names=RECIPES):
        start = time.perf_counter()
        world = make_world(name, args.seed, args.data)
        seconds = time.perf_counter() - start
        known = [np.isin(world.y_test, own) for own in world.class_lists]
        scores = [
            t.score(take_rows(world.X_test, np.flatnonzero(rows)), world.y_test[rows])
            for t, rows in zip(world.teachers.values(), known, strict=True)
            if rows.any()
        ]
        print(
            f"{name:31s} {len(world.teachers):2d} teachers, {len(world.classes):3d} classes, {len(world.y):4d} rows, "
            f"{len(world.y_test):4d} to test, teachers' accuracy {np.mean(scores):.3f}, {seconds:.1f} s",
            flush=True,
        )


if __name__ == "__main__":
    main()
