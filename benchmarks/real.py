"""Real models and real sentences: five recorded language detectors, and the intents of CLINC150.

Both are read from files: `languages.npz` (texts, y, kind; for every detector its classes and probabilities) and
`clinc150.json.gz` (lists of [text, intent]). Rows are texts, as teachers and students get them.
"""

from __future__ import annotations

import gzip
import json
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import HashingVectorizer, TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import MultinomialNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

Array = NDArray[Any]
DETECTORS = ("fasttext", "py3langid", "langid", "langdetect", "lingua")
SYNONYMS = {"no": "nb", "zh-cn": "zh", "zh-tw": "zh", "iw": "he"}


class Recorded(ClassifierMixin, BaseEstimator):
    """A model that answers as recorded: row `row_of[text]` of `P` (n, k), over `classes` (k,)."""

    def __init__(self, classes: Array, P: Array, row_of: dict[str, int]) -> None:
        self.classes, self.P, self.row_of = classes, P, row_of

    @property
    def classes_(self) -> Array:
        """Classes, in the order of the columns."""
        return self.classes

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def predict_proba(self, X: Any) -> Array:
        """Look up the answers about texts."""
        return self.P[[self.row_of[text] for text in X]]

    def predict(self, X: Any) -> Array:
        """Look up the most probable classes of texts."""
        return np.asarray(self.classes[self.predict_proba(X).argmax(axis=1)])


@lru_cache(maxsize=1)
def detectors(path: Path) -> tuple[dict[str, Recorded], Array, Array, Array]:
    """Return the detectors by name, and all texts, languages and kinds of text."""
    with np.load(path) as data:
        texts, y, kind = data["texts"].astype(object), data["y"], data["kind"]
        answers = {name: (data[f"{name}__classes"], data[f"{name}__p"].astype(float)) for name in DETECTORS}
    row_of = {text: row for row, text in enumerate(texts)}
    return {name: Recorded(*fold(*own), row_of) for name, own in answers.items()}, texts, y, kind


def fold(classes: Array, P: Array) -> tuple[Array, Array]:
    """Add up the probabilities of codes that stand for the same language; rows sum to 1."""
    languages, column = np.unique([SYNONYMS.get(code, code) for code in classes], return_inverse=True)
    folded = P @ np.eye(len(languages))[column]
    return languages, folded / folded.sum(axis=1, keepdims=True)


@lru_cache(maxsize=1)
def intents(path: Path) -> tuple[Array, Array]:
    """Return all sentences of CLINC150 that have an intent, and their intents."""
    with gzip.open(path) as file:
        data = json.load(file)
    texts, y = zip(*(pair for part in ("train", "val", "test") for pair in data[part]), strict=True)
    return np.array(texts, dtype=object), np.array(y)


def encode(texts: Array, words: bool, n_components: int = 100) -> Any:
    """Return what turns these texts into numbers: 100 components of their words, or of pieces of 1 to 3 characters.

    They are made once, and looked up by every student.
    """
    pieces = HashingVectorizer(analyzer="char_wb", ngram_range=(1, 3), n_features=2**14)
    counts = (TfidfVectorizer(sublinear_tf=True) if words else pieces).fit_transform(texts)
    values = TruncatedSVD(n_components, random_state=0).fit_transform(counts)
    values, row_of = values / values.std(), {text: row for row, text in enumerate(texts)}
    return FunctionTransformer(lambda rows: values[[row_of[text] for text in rows]])


def kinds() -> list[Any]:
    """Return three kinds of teachers of sentences, each with features of its own."""
    return [
        make_pipeline(TfidfVectorizer(sublinear_tf=True), LogisticRegression(C=10, max_iter=300)),
        make_pipeline(TfidfVectorizer(analyzer="char_wb", ngram_range=(2, 4)), MultinomialNB(alpha=0.05)),
        make_pipeline(TfidfVectorizer(ngram_range=(1, 2)), KNeighborsClassifier(5, weights="distance")),
    ]
