"""Keys of teachers depend on what affects their answers, and on nothing else."""

import copy
import pickle
import subprocess
import sys
import threading
from functools import cached_property
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from sklearn.datasets import load_iris
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    RandomForestClassifier,
    StackingClassifier,
    VotingClassifier,
)
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.multiclass import OneVsRestClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KDTree, KNeighborsClassifier, RadiusNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from sklearn_uhc import TeacherOutputs
from sklearn_uhc.teachers.fingerprint import Hasher, fingerprint, fingerprint_of_data

X, y = load_iris(return_X_y=True)
PARTS = [("a", LogisticRegression(max_iter=500)), ("b", GaussianNB())]


def make_teachers():
    lightgbm, catboost = pytest.importorskip("lightgbm"), pytest.importorskip("catboost")
    xgboost = pytest.importorskip("xgboost")
    return {
        "kd_tree": KNeighborsClassifier(algorithm="kd_tree"),
        "ball_tree": KNeighborsClassifier(algorithm="ball_tree"),
        "radius": RadiusNeighborsClassifier(10.0),
        "pipeline": make_pipeline(StandardScaler(), KNeighborsClassifier()),
        "search": GridSearchCV(KNeighborsClassifier(), {"n_neighbors": [3, 5]}),
        "hist": HistGradientBoostingClassifier(max_iter=3),
        "forest": RandomForestClassifier(3, random_state=0),
        "voting": VotingClassifier(PARTS, voting="soft"),
        "stacking": StackingClassifier(PARTS),
        "one versus rest": OneVsRestClassifier(LogisticRegression()),
        "svc": SVC(),
        "lightgbm": lightgbm.LGBMClassifier(n_estimators=3, verbose=-1),
        "xgboost": xgboost.XGBClassifier(n_estimators=3),
        "catboost": catboost.CatBoostClassifier(iterations=3, verbose=0, allow_writing_files=False),
    }


@pytest.fixture(scope="module")
def teachers():
    return {name: teacher.fit(X, y) for name, teacher in make_teachers().items()}


def test_a_key_outlives_predictions_copies_pickles_and_processes(teachers, tmp_path):
    keys = {name: fingerprint(teacher) for name, teacher in teachers.items()}
    assert len(set(keys.values())) == len(keys)
    (tmp_path / "teachers.pkl").write_bytes(pickle.dumps(teachers))
    for name, teacher in teachers.items():
        for response in ("predict", "predict_proba", "decision_function"):
            if hasattr(teacher, response):
                getattr(teacher, response)(X)
                assert fingerprint(teacher) == keys[name], (name, response)
        assert fingerprint(copy.deepcopy(teacher)) == keys[name], name
        assert fingerprint(pickle.loads(pickle.dumps(teacher))) == keys[name], name
    code = (
        "import pickle\nfrom sklearn_uhc.teachers.fingerprint import fingerprint\n"
        f"for t in pickle.load(open({str(tmp_path / 'teachers.pkl')!r}, 'rb')).values(): print(fingerprint(t))"
    )
    root = Path(__file__).parent.parent
    found = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, cwd=root).stdout
    assert dict(zip(keys, found.split(), strict=True)) == keys


def test_other_data_make_another_key(teachers):
    for name, teacher in make_teachers().items():
        if name != "search":  # which picks other parameters, and takes other times
            assert fingerprint(teacher.fit(X[::2] + 0.1, y[::2])) != fingerprint(teachers[name]), name


class CountedNeighbors(KNeighborsClassifier):
    asked: list = []

    def predict_proba(self, X):
        CountedNeighbors.asked.append(len(X))
        return super().predict_proba(X)


def test_a_nearest_neighbour_teacher_is_asked_once(tmp_path):
    CountedNeighbors.asked.clear()
    outputs = TeacherOutputs([CountedNeighbors(algorithm="kd_tree").fit(X, y)], store=tmp_path)
    for _ in range(3):
        outputs.fit_transform(X)
    assert CountedNeighbors.asked == [150]


class Linear:
    """A teacher with weights that are not pickled, and with attributes that cannot be pickled."""

    classes_ = np.array([0, 1])

    def __init__(self, seed, keep=()):
        self.path = "weights"
        self.weights = np.random.default_rng(seed).normal(size=(4, 2))
        self.lock = threading.Lock()
        self.keep = keep

    def __getstate__(self):
        return {"path": self.path}

    def decision_function(self, X):
        return X @ self.weights

    @cached_property
    def norm(self):
        return float(np.linalg.norm(self.weights))


class Reduced(Linear):
    def __reduce__(self):
        return Linear, (0,)


@pytest.mark.parametrize("kind", [Linear, Reduced])
def test_weights_that_are_not_pickled_are_in_the_key(kind, tmp_path):
    assert fingerprint(kind(0)) == fingerprint(kind(0))
    assert fingerprint(kind(0)) != fingerprint(kind(1))
    assert fingerprint(kind(0, keep=[kind(1)])) != fingerprint(kind(0, keep=[kind(2)]))
    for seed in range(2):
        stored = TeacherOutputs([kind(seed)], store=tmp_path).fit_transform(X)
        np.testing.assert_array_equal(stored, TeacherOutputs([kind(seed)]).fit_transform(X))


def test_a_cached_property_is_not_in_the_key():
    teacher = Linear(0)
    key = fingerprint(teacher)
    assert teacher.norm > 0
    assert fingerprint(teacher) == key


def key(obj):
    return Hasher().of(obj)


def test_equal_values_have_one_key_wherever_they_lie():
    wide = np.arange(24.0).reshape(4, 6)
    for same in (np.asfortranarray(wide), np.repeat(wide, 2, axis=1)[:, ::2], wide.copy()):
        assert key(same) == key(wide)
    gaps = np.dtype({"names": ["a", "b"], "formats": ["u1", "f8"], "offsets": [0, 8], "itemsize": 24})
    one, other = np.zeros(3, gaps), np.frombuffer(b"\xff" * 72, gaps).copy()
    other["a"], other["b"] = 0, 0
    assert key(one) == key(other)
    unsorted = csr_matrix((np.array([1.0, 2.0]), np.array([2, 0]), np.array([0, 2, 2])), shape=(2, 3))
    assert key(unsorted) == key(unsorted.sorted_indices())
    shared = [1.0, 2.0]
    assert key([shared, shared]) == key([[1.0, 2.0], [1.0, 2.0]])
    assert key({"a", "b", "c"}) == key({"c", "b", "a"})


def test_unequal_values_have_keys_of_their_own():
    a = np.arange(6.0)
    values = [1, 1.0, True, "1", b"1", None, (1,), [1], {1: 1}, {1}, a, a.reshape(2, 3), a.reshape(3, 2), a.view("i8")]
    values += [a.astype("f4"), np.array(["1"]), np.array(["1"], object), np.ma.array(a, mask=a > 2), ["1", "2"], ["12"]]
    values += [{1: 2, 3: 4}, {3: 4, 1: 2}, len, map, KDTree(a[:, None]), KDTree(a[:, None], metric="manhattan")]
    values += [csr_matrix(a), np.ma.array(a, mask=a > 3), np.float32(1), np.longdouble(1), [[1], 2], [1, [2]]]
    assert len({key(value) for value in values}) == len(values)


def test_cycles_end():
    cycle = [1]
    cycle.append(cycle)
    other = [2]
    other.append(other)
    assert key(cycle) != key(other)


def test_data_that_cannot_be_hashed_are_refused():
    with pytest.raises(ValueError, match=r"X, a list, cannot be pickled.*leave store out.*lock"):
        fingerprint_of_data([threading.Lock()])
