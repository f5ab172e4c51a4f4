"""Small teachers and label spaces for the tests."""

import numpy as np
from scipy.sparse import issparse
from scipy.special import log_softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
from sklearn.tree import DecisionTreeClassifier, ExtraTreeClassifier
from sklearn.utils.validation import check_array

from sklearn_uhc import OTHER, LabelSpace, TeacherMerger
from sklearn_uhc.merging import METHODS

METHOD_NAMES = ["sd", "ce", "mf_p", "mf_lu", "mf_lf"]
#: Those that support columns of sets.
SET_METHODS = ["sd", "ce", "mf_p", "mf_lf"]
#: Classifiers with a regressor twin.
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
    """A teacher that answers only when its gate, a threading.Barrier, has enough concurrent calls."""

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


def random_set_lists(rng, L, N):
    """Draw class lists of L classes with sets, OTHER and coarse classes of a taxonomy; they include all classes."""
    groups = np.array_split(rng.permutation(L), max(2, L // 3))
    while True:
        lists = [_random_set_list(rng, L, groups) for _ in range(N)]
        named = {
            label for labels in lists for entry in labels for label in (entry if isinstance(entry, tuple) else [entry])
        }
        if len(named - {OTHER}) == L:
            return lists


def _random_set_list(rng, L, groups):
    kind = rng.integers(4)
    own = rng.permutation(L)[: rng.integers(2, L + 1)].tolist()
    if kind == 0:  # plain
        return own
    if kind == 1:  # coarse classes of a taxonomy, some of them opened
        opened = rng.random(len(groups)) < 0.4
        return [
            e
            for group, o in zip(groups, opened, strict=True)
            for e in (group.tolist() if o else [tuple(group.tolist())])
        ]
    cuts = np.sort(rng.integers(0, len(own) + 1, size=rng.integers(1, 4)))
    parts = [tuple(part.tolist()) for part in np.split(np.array(own), cuts) if len(part)]
    return [*parts, OTHER] if kind == 2 and len(own) < L else parts


def consistent_set_outputs(Q, class_lists):
    """Log-probabilities of teachers that sum Q over their sets and renormalise."""
    space = LabelSpace(class_lists)
    sums = np.log(Q @ space.membership().T)
    return np.concatenate([log_softmax(sums[:, block], axis=1) for block in space.blocks], axis=1)


def configured(kind, teachers, *student, **settings):
    """Return a distiller or an ensemble; settings that it does not have itself go into a `TeacherMerger`."""
    of_merge = {name: settings.pop(name) for name in list(settings) if name not in kind._get_param_names()}
    return kind(TeacherMerger(teachers, **of_merge) if of_merge else teachers, *student, **settings)
