"""Small teachers and label spaces for the tests."""

import numpy as np
from scipy.sparse import issparse
from scipy.special import log_softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
from sklearn.tree import DecisionTreeClassifier, ExtraTreeClassifier
from sklearn.utils.validation import check_array

from sklearn_uhc import LabelSpace
from sklearn_uhc.soft_labels import METHODS

METHOD_NAMES = ["sd", "ce", "mf_p", "mf_lu", "mf_lf"]
#: What has a regressor twin.
TREES = [
    DecisionTreeClassifier(random_state=0, max_depth=4),
    ExtraTreeClassifier(random_state=0),
    RandomForestClassifier(20, random_state=0, min_samples_leaf=2),
    ExtraTreesClassifier(20, random_state=0),
]


class LinearTeacher(ClassifierMixin, BaseEstimator):
    """A fixed classifier over its classes that accepts any number of features, and missing values."""

    def __init__(self, classes=(0, 1, 2), seed=0):
        self.classes = classes
        self.seed = seed

    def fit(self, X, y=None):
        self.classes_ = np.asarray(self.classes)
        return self

    def predict_log_proba(self, X):
        X = check_array(X, accept_sparse="csr", dtype=[np.float64, np.float32], ensure_all_finite="allow-nan")
        X = X if issparse(X) else np.nan_to_num(X)
        W = np.random.default_rng(self.seed).normal(size=(X.shape[1], len(self.classes_)))
        return log_softmax(X @ W, axis=1)

    def predict(self, X):
        return self.classes_[self.predict_log_proba(X).argmax(axis=1)]

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = True
        return tags


class Meeting(LinearTeacher):
    """A teacher that answers once as many are being asked as its gate, a threading.Barrier, waits for."""

    def __init__(self, classes, seed, gate):
        super().__init__(classes, seed)
        self.gate = gate

    def predict_log_proba(self, X):
        self.gate.wait()
        return super().predict_log_proba(X)


def linear_teachers(class_lists):
    return [LinearTeacher(tuple(labels), seed).fit(None) for seed, labels in enumerate(class_lists)]


def random_lists(rng, L, N, smallest, largest):
    """Draw connected class lists of L classes."""
    while True:
        lists = [
            rng.choice(L, min(L, int(rng.integers(smallest, largest + 1))), replace=False).tolist() for _ in range(N)
        ]
        space = LabelSpace(lists)
        if space.is_connected and space.n_classes == L:
            return lists


def random_outputs(rng, class_lists, n, spread=2.0, noise=1.0):
    """Draw teacher logits that agree up to noise, (n, K)."""
    space = LabelSpace(class_lists)
    truth = spread * rng.normal(size=(n, space.n_classes))
    return truth[:, np.concatenate(space.columns)] + noise * rng.normal(size=(n, space.n_outputs))


def consistent_outputs(Q, class_lists):
    """Log-probabilities of teachers that are Q restricted to their classes and renormalised."""
    space = LabelSpace(class_lists)
    return np.concatenate([log_softmax(np.log(Q[:, c]), axis=1) for c in space.columns], axis=1)


def make_method(name, class_lists=None, **params):
    method = METHODS[name]()
    return method.set_params(class_lists=class_lists, **params)
