"""Other data with teachers of different kinds, most of them generated: points, texts by TF-IDF, tables."""

from __future__ import annotations

from itertools import cycle, islice
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.datasets import load_wine, make_classification
from sklearn.ensemble import RandomForestClassifier
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.naive_bayes import GaussianNB, MultinomialNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.tree import DecisionTreeClassifier

from benchmarks.digits import Trial
from sklearn_uhc import LabelSpace


def points(seed: int) -> tuple[Any, NDArray[Any]]:
    """Draw 6,000 points of 20 classes that overlap."""
    return make_classification(
        6000,
        30,
        n_informative=15,
        n_redundant=5,
        n_classes=20,
        n_clusters_per_class=1,
        class_sep=1.5,
        random_state=seed,
    )


def texts(seed: int) -> tuple[Any, NDArray[Any]]:
    """Draw 5,000 bags of 15 to 39 words from 20 topics over 800 words, weighted by TF-IDF."""
    rng = np.random.default_rng(seed)
    topics = 0.5 * rng.dirichlet(np.full(800, 0.05), size=20) + 0.5 * rng.dirichlet(np.full(800, 0.2))
    y = rng.integers(20, size=5000)
    counts = np.stack([rng.multinomial(rng.integers(15, 40), topics[c] / topics[c].sum()) for c in y])
    return TfidfTransformer().fit_transform(counts), y


def table(seed: int, n: int = 4500) -> tuple[pd.DataFrame, NDArray[Any]]:
    """Make a table of 8 classes: ten numbers, four columns of categories, a tenth of all values missing."""
    rng = np.random.default_rng(seed)
    X, y = make_classification(
        n, 14, n_informative=11, n_redundant=1, n_classes=8, n_clusters_per_class=2, class_sep=2.2, random_state=seed
    )
    frame = pd.DataFrame(X, columns=[f"x{j}" for j in range(14)])
    for j in range(10, 14):
        names = np.array(["low", "middle", "high", "extreme"])
        frame[f"x{j}"] = names[np.digitize(X[:, j], np.quantile(X[:, j], [0.3, 0.6, 0.9]))]
    frame = frame.mask(rng.random(frame.shape) < 0.1)
    return frame, np.array([f"kind {label}" for label in y])


def clusters(seed: int) -> tuple[Any, NDArray[Any]]:
    """Draw 11,000 points of 8 classes, a cluster each, that overlap."""
    return make_classification(
        11_000,
        14,
        n_informative=10,
        n_redundant=2,
        n_classes=8,
        n_clusters_per_class=1,
        class_sep=1.5,
        random_state=seed,
    )


def encode_table() -> Any:
    """Return what turns such a table into numbers."""
    numbers = make_pipeline(SimpleImputer(), StandardScaler())
    categories = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
    return make_column_transformer(
        (numbers, make_column_selector(dtype_include="number")),
        (categories, make_column_selector(dtype_exclude="number")),
    )


def wine(seed: int) -> tuple[Any, NDArray[Any]]:
    """Return scikit-learn's wine."""
    return load_wine(return_X_y=True)


def kinds(data: str, mixture: str, seed: int) -> list[Any]:
    """Return the teachers of a mixture, not fitted yet."""
    logistic = make_pipeline(StandardScaler(with_mean=data != "texts"), LogisticRegression(max_iter=500))
    if mixture == "logistic":
        return [logistic if data != "texts" else LogisticRegression()]
    bayes = MultinomialNB(alpha=0.01) if data == "texts" else GaussianNB()
    forest, tree = RandomForestClassifier(60, random_state=seed), DecisionTreeClassifier(random_state=seed)
    return [logistic if data != "texts" else LogisticRegression(), forest, KNeighborsClassifier(5), bayes, tree]


DATA = {"points": points, "texts": texts, "wine": wine}


def make_mixture(seed: int, data: str, mixture: str, n_teachers: int, smallest: int, largest: int) -> Trial:
    """Split the data as `digits.make_trial` does: 40 % for the teachers, 40 % unlabelled, 20 % for the test."""
    rng = np.random.default_rng(seed)
    X, y = DATA[data](seed)
    X_pool, X_rest, y_pool, y_rest = train_test_split(X, y, train_size=0.4, stratify=y, random_state=seed)
    X_u, X_test, y_u, y_test = train_test_split(X_rest, y_rest, test_size=1 / 3, stratify=y_rest, random_state=seed)
    L = int(y.max()) + 1
    while True:
        sizes = rng.integers(smallest, largest + 1, n_teachers)
        lists = [np.sort(rng.choice(L, size, replace=False)) for size in sizes]
        if LabelSpace(lists).n_classes == L and LabelSpace(lists).is_connected:
            break
    owner = np.empty(len(y_pool), dtype=int)
    for label in range(L):
        rows, owners = np.flatnonzero(y_pool == label), [i for i, known in enumerate(lists) if label in known]
        owner[rows] = rng.permutation(np.resize(owners, len(rows)))
    models = islice(cycle(kinds(data, mixture, seed)), n_teachers)
    teachers = [clone(m).fit(X_pool[owner == i], y_pool[owner == i]) for i, m in enumerate(models)]
    return Trial(teachers, X_u, y_u, X_test, y_test, X_pool, y_pool)
