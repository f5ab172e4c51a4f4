"""X is unchanged for later teachers, the student and the user, whatever an estimator does with its input."""

import numpy as np
import pandas as pd
import pytest
import sklearn
import torch
from scipy.sparse import csr_array, csr_matrix
from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin
from sklearn.datasets import load_iris
from sklearn.ensemble import RandomForestClassifier, VotingClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import GaussianNB, MultinomialNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, MaxAbsScaler, StandardScaler
from sklearn.svm import SVC

from sklearn_uhc import HeterogeneousDistiller, SoftLabelClassifier, TeacherOutputs, UnifiedEnsemble
from sklearn_uhc.utils.unchanged import unchanged


def halve(X):
    """Overwrite the input, of any type."""
    if hasattr(X, "iloc"):
        X.iloc[:, :] = np.asarray(X) / 2
    elif hasattr(X, "tocsr"):
        X.data[:] = X.data / 2
    else:
        X *= 0.5
    return X


def halve_by_torch(X):
    torch.as_tensor(X).mul_(0.5)  # NumPy's flag does not stop torch
    return X


class Halving(TransformerMixin, BaseEstimator):
    """A user's own transformer."""

    def fit(self, X, y=None):
        self.fitted_ = True
        return self

    def transform(self, X):
        return halve(X)


class Overwriting(ClassifierMixin, BaseEstimator):
    """A user's own classifier."""

    def fit(self, X, y):
        self.inner_ = GaussianNB().fit(halve(np.array(X)), y)
        self.classes_ = self.inner_.classes_
        return self

    def predict_proba(self, X):
        return self.inner_.predict_proba(np.asarray(halve(X)))


def scaled(model=None):
    return make_pipeline(StandardScaler(copy=False), GaussianNB() if model is None else model)


TEACHERS = {
    "scaler": scaled,
    "function": lambda: make_pipeline(FunctionTransformer(halve), GaussianNB()),
    "transformer": lambda: make_pipeline(Halving(), GaussianNB()),
    "classifier": Overwriting,
    "search": lambda: GridSearchCV(scaled(), {"gaussiannb__var_smoothing": [1e-9]}, cv=2),
    "voting": lambda: VotingClassifier([("a", scaled()), ("b", Overwriting())], voting="soft"),
}
KINDS = {
    "array": np.array,
    "float32": lambda X: np.asfortranarray(X, dtype=np.float32),
    "frame": lambda X: pd.DataFrame(X, columns=list("abcd")),
    "two blocks": lambda X: pd.DataFrame(X).astype({0: np.float32}),
}


@pytest.fixture(scope="module")
def iris():
    return load_iris(return_X_y=True)


def copy_of(X):
    return X.clone() if isinstance(X, torch.Tensor) else X.copy()


def assert_equal(X, before):
    if hasattr(X, "tocsr"):
        assert (before != X).nnz == 0
    else:
        np.testing.assert_array_equal(np.asarray(X), np.asarray(before))


@pytest.mark.parametrize("memory", [1024, 0.002])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", TEACHERS)
def test_no_teacher_changes_x(name, kind, memory, iris):
    X, y = KINDS[kind](iris[0]), iris[1]
    teacher, plain = TEACHERS[name]().fit(copy_of(X), y), GaussianNB().fit(X, y)
    expected = [teacher.predict_proba(copy_of(X)), plain.predict_proba(X)]
    before = copy_of(X)
    with sklearn.config_context(working_memory=memory):
        outputs = TeacherOutputs([FrozenEstimator(teacher), teacher, plain], floor=1e-12).fit(X)
        assert_equal(X, before)
        found = np.exp(outputs.transform(X))
    assert_equal(X, before)
    np.testing.assert_allclose(found, np.hstack([expected[0], *expected]), atol=1e-6)


@pytest.mark.parametrize("kind", [csr_matrix, csr_array])
def test_sparse_matrices_stay(kind, iris):
    X, y = kind(iris[0]), iris[1]
    before = X.copy()
    teachers = [
        make_pipeline(MaxAbsScaler(copy=False), MultinomialNB()).fit(X.copy(), y),
        make_pipeline(FunctionTransformer(halve, accept_sparse=True), MultinomialNB()).fit(X.copy(), y),
    ]
    expected = [teacher.predict_proba(X.copy()) for teacher in teachers]
    found = np.exp(TeacherOutputs(teachers, floor=1e-12).fit_transform(X))
    np.testing.assert_allclose(found, np.hstack(expected), atol=1e-6)
    assert_equal(X, before)


def test_a_matrix_whose_indices_have_to_be_sorted_is_copied_for_that(iris):
    """SVC sorts them in place: in two threads, two teachers would sort the same indices."""
    X, y = csr_matrix(iris[0]), iris[1]
    X.indices, X.data = X.indices[::-1].copy(), X.data[::-1].copy()
    X.has_sorted_indices = False
    before, teacher = X.indices.copy(), SVC().fit(X.sorted_indices(), y)
    TeacherOutputs([teacher, teacher], n_jobs=2).fit(X)
    np.testing.assert_array_equal(X.indices, before)


def test_torch_does_not_heed_the_flag(iris):
    X, y = iris[0].copy(), iris[1]
    teacher = make_pipeline(FunctionTransformer(halve_by_torch), GaussianNB()).fit(X.copy(), y)
    TeacherOutputs([teacher]).fit(X)
    np.testing.assert_array_equal(X, iris[0])


def test_tensors_stay(iris):
    X, y = torch.as_tensor(iris[0]), iris[1]
    before = X.clone()
    teacher = scaled().fit(iris[0].copy(), y)
    TeacherOutputs([teacher, Overwriting().fit(iris[0], y)]).fit(X)
    assert_equal(X, before)


def test_lists_of_images_stay():
    X = [np.ones((2, 2)) for _ in range(5)]

    class Drawing:
        classes_ = np.arange(2)

        def predict_proba(self, X):
            for image in X:
                image[:] = 0
            X.reverse()
            return np.full((len(X), 2), 0.5)

    TeacherOutputs([Drawing()]).fit(X)
    assert all((image == 1).all() for image in X)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "student",
    [
        scaled(RandomForestClassifier(5, random_state=0)),
        scaled(GaussianNB()),
        make_pipeline(Halving(), GaussianNB()),
        Ridge(copy_X=False),
    ],
    ids=["twin", "copies", "own transformer", "regressor"],
)
def test_no_student_changes_x(student, kind, iris):
    X, y = KINDS[kind](iris[0]), iris[1]
    before, teacher = copy_of(X), GaussianNB().fit(X, y)
    clf = HeterogeneousDistiller([teacher], student).fit(X)
    assert_equal(X, before)
    proba = clf.predict_proba(X)
    assert_equal(X, before)
    np.testing.assert_allclose(clf.predict_proba(copy_of(X)), proba)
    hard = SoftLabelClassifier(student if not isinstance(student, Ridge) else GaussianNB()).fit(X, y)
    hard.predict(X)
    assert_equal(X, before)


def test_the_ensemble_sees_x_as_it_was(iris):
    X, y = iris[0].copy(), iris[1]
    a, b = scaled().fit(X[y < 2].copy(), y[y < 2]), scaled().fit(X[y > 0].copy(), y[y > 0])
    expected = UnifiedEnsemble([FrozenEstimator(a), b]).fit(X.copy())
    ensemble = UnifiedEnsemble([a, b]).fit(X)
    np.testing.assert_allclose(ensemble.predict_proba(X), expected.predict_proba(X.copy()))
    np.testing.assert_array_equal(X, iris[0])
    assert ensemble.score(X, y) > 0.9


def test_errors_are_the_teachers_own_and_a_teacher_is_asked_once(iris):
    """Only scikit-learn's own estimators are called again, and only after an error about a read-only array."""
    calls = []

    class Remote:
        classes_ = np.arange(2)

        def __init__(self, error):
            self.error = error

        def predict_proba(self, X):
            calls.append(X.flags.writeable)
            raise self.error

    for error in (ValueError("the server is read-only"), ValueError("no"), TypeError("read-only")):
        with pytest.raises(type(error)) as raised:
            TeacherOutputs([Remote(error)]).fit(iris[0])
        assert raised.value is error
    assert calls == [True] * 3
    wrong = ValueError("something else")
    with pytest.raises(ValueError, match="something else"):
        unchanged(GaussianNB(), lambda X: (_ for _ in ()).throw(wrong), iris[0])


def test_a_view_costs_no_memory(iris):
    seen = []
    unchanged(GaussianNB(), seen.append, iris[0])
    unchanged(GaussianNB(), seen.append, csr_matrix(iris[0]))
    assert np.shares_memory(seen[0], iris[0])
    assert not seen[0].flags.writeable
    assert not seen[1].data.flags.writeable
