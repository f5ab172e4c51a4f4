"""Digits, which ship with scikit-learn, split among teachers that each know some of the classes."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import cycle, islice
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier

from sklearn_uhc import LabelSpace


def kinds(seed: int) -> dict[str, list[Any]]:
    """Return the mixtures of unfitted teachers."""
    logistic = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
    forest = RandomForestClassifier(100, random_state=seed)
    extra = ExtraTreesClassifier(100, random_state=seed)
    neighbors = KNeighborsClassifier(5)
    machine = make_pipeline(StandardScaler(), SVC())
    network = make_pipeline(StandardScaler(), MLPClassifier((64,), max_iter=100, tol=1e-2, random_state=seed))
    tree = DecisionTreeClassifier(random_state=seed)
    return {
        "varied": [logistic, forest, neighbors, network, machine, extra],
        "mixed": [logistic, forest, neighbors, network, GaussianNB(), tree],
        "votes": [forest, neighbors, logistic],
        "networks": [network],
    }


@dataclass
class Trial:
    """Fitted teachers, and data that they did not see."""

    teachers: list[Any]
    X_unlabelled: NDArray[Any]
    y_unlabelled: NDArray[Any]  #: for measurements only, never for training
    X_test: NDArray[Any]
    y_test: NDArray[Any]
    X_pool: NDArray[Any]  #: the rows of all teachers together, for the supervised ceiling
    y_pool: NDArray[Any]


def draw_class_lists(rng: np.random.Generator, n_teachers: int, smallest: int, largest: int) -> list[NDArray[Any]]:
    """Draw class lists that together know all ten digits and connect."""
    while True:
        sizes = rng.integers(smallest, largest + 1, n_teachers)
        lists = [np.sort(rng.choice(10, size, replace=False)) for size in sizes]
        space = LabelSpace(lists)
        if space.n_classes == 10 and space.is_connected:
            return lists


def make_trial(
    seed: int,
    mixture: str = "varied",
    n_teachers: int = 6,
    smallest: int = 2,
    largest: int = 5,
    for_teachers: float = 0.4,
) -> Trial:
    """Split digits: 40 % for the teachers (no sample shared); of the rest two thirds unlabelled, one for the test."""
    rng = np.random.default_rng(seed)
    X, y = load_digits(return_X_y=True)
    X_pool, X_rest, y_pool, y_rest = train_test_split(X, y, train_size=for_teachers, stratify=y, random_state=seed)
    X_u, X_test, y_u, y_test = train_test_split(X_rest, y_rest, test_size=1 / 3, stratify=y_rest, random_state=seed)
    models = list(islice(cycle(kinds(seed)[mixture]), n_teachers))
    lists = draw_class_lists(rng, len(models), smallest, largest)
    owner = np.empty(len(y_pool), dtype=int)
    for digit in range(10):
        rows, owners = np.flatnonzero(y_pool == digit), [i for i, known in enumerate(lists) if digit in known]
        owner[rows] = rng.permutation(np.resize(owners, len(rows)))
    teachers = [clone(m).fit(X_pool[owner == i], y_pool[owner == i]) for i, m in enumerate(models)]
    return Trial(teachers, X_u, y_u, X_test, y_test, X_pool, y_pool)
