"""Students predict at temperature 1, whatever that of their labels: no further power improves their predictions."""

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax, softmax
from sklearn.datasets import make_blobs
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import AdaBoostClassifier
from sklearn.linear_model import LogisticRegression, RidgeClassifier, SGDClassifier
from sklearn.naive_bayes import GaussianNB, MultinomialNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC, NuSVC

from sklearn_uhc import SoftLabelClassifier
from sklearn_uhc.students.temperature import learnt_power

SCORES = [SVC(), NuSVC(nu=0.1), LinearSVC(), RidgeClassifier(), SGDClassifier(random_state=0)]
UNTEMPERED = [GaussianNB(), MultinomialNB(), AdaBoostClassifier(n_estimators=20, random_state=0)]


@pytest.fixture(scope="module")
def data():
    """Training rows, test rows, and the true probabilities of both."""
    X, y = make_blobs(600, 5, centers=4, cluster_std=4.0, random_state=0)
    X = (X - X.min(axis=0)) / np.ptp(X, axis=0)
    Q = LogisticRegression(C=100).fit(X, y).predict_proba(X)
    return X[:300], X[300:], Q[:300], Q[300:]


def best_power(P, Q):
    """Return the power that makes answers P closest to Q: 1 if they are at its temperature."""
    log_p = np.log(np.maximum(P, 1e-300))

    def loss(x):
        return -np.mean(np.sum(Q * log_softmax(np.exp(x) * log_p, axis=1), axis=1))

    return np.exp(minimize_scalar(loss, bounds=(-6, 6), method="bounded").x)


def cross_entropy(P, Q):
    return -np.mean(np.sum(Q * np.log(np.maximum(P, 1e-300)), axis=1))


@pytest.mark.parametrize("T", [1, 3, 10])
@pytest.mark.parametrize("model", [*SCORES, *UNTEMPERED, LogisticRegression(C=100)], ids=lambda m: type(m).__name__)
def test_students_are_at_temperature_one(data, model, T):
    X, X_new, Q, Q_new = data
    student = SoftLabelClassifier(model, temperature=T, copies="all").fit(X, softmax(np.log(Q) / T, axis=1))
    P = student.predict_proba(X_new)
    np.testing.assert_allclose(P.sum(axis=1), 1)
    if T == 1 and type(model) in map(type, UNTEMPERED):  # they have probabilities of their own
        np.testing.assert_allclose(P, student.estimator_.predict_proba(X_new), atol=1e-12)
    else:
        assert 0.7 < best_power(P, Q_new) < 1.4


@pytest.mark.parametrize(
    "model", [LinearSVC(), RidgeClassifier(), SVC(kernel="linear")], ids=lambda m: type(m).__name__
)
def test_the_loss_does_not_rise_with_the_temperature(data, model):
    X, X_new, Q, Q_new = data
    losses = []
    for T in (1, 3, 10):
        student = SoftLabelClassifier(model, temperature=T, copies="all").fit(X, softmax(np.log(Q) / T, axis=1))
        losses.append(cross_entropy(student.predict_proba(X_new), Q_new))
    assert max(losses) < 1.1 * losses[0]


def test_the_order_of_classes_is_that_of_the_scores(data):
    X, X_new, Q, _ = data
    student = SoftLabelClassifier(LinearSVC()).fit(X, Q)
    scores = student.estimator_.decision_function(X_new)
    np.testing.assert_array_equal(student.predict_proba(X_new).argmax(axis=1), scores.argmax(axis=1))


@pytest.mark.parametrize("strategy", ["replicate", "sample"])
def test_behind_a_pipeline_and_for_drawn_labels(data, strategy):
    X, X_new, Q, Q_new = data
    pipe = make_pipeline(StandardScaler(), LinearSVC())
    student = SoftLabelClassifier(pipe, strategy=strategy, temperature=2, random_state=0)
    P = student.fit(X, softmax(np.log(Q) / 2, axis=1)).predict_proba(X_new)
    assert 0.7 < best_power(P, Q_new) < 1.4


def test_a_discriminant_on_drawn_labels(data):
    X, X_new, Q, Q_new = data
    student = SoftLabelClassifier(LinearDiscriminantAnalysis(), strategy="sample", temperature=2, random_state=0)
    P = student.fit(X, softmax(np.log(Q) / 2, axis=1)).predict_proba(X_new)
    assert 0.7 < best_power(P, Q_new) < 1.4


def test_certain_labels_leave_room_for_doubt():
    """Scores that are right for every training row do not make the student certain on others."""
    X = np.linspace(-1, 1, 40)[:, None]
    student = SoftLabelClassifier(LinearSVC(C=10)).fit(X, np.eye(2)[(X[:, 0] > 0).astype(int)])
    assert 0.95 < student.predict_proba([[1.0]]).max() < 1 - 1e-6


def test_two_classes_and_weights_of_rows(data):
    X, _, Q, _ = data
    Q = np.column_stack([Q[:, 0], 1 - Q[:, 0]])
    weight = np.arange(len(X)) % 2
    half = SoftLabelClassifier(RidgeClassifier()).fit(X[1::2], Q[1::2]).predict_proba(X)
    np.testing.assert_allclose(SoftLabelClassifier(RidgeClassifier()).fit(X, Q, weight).predict_proba(X), half)


def test_the_power_is_that_of_the_search():
    rng = np.random.default_rng(0)
    log_s = log_softmax(rng.normal(size=(2000, 3)), axis=1)
    for power in (1e-2, 0.7, 5.0):
        found = learnt_power(log_s, softmax(power * log_s, axis=1), np.ones(2000))
        assert found == pytest.approx(power, rel=0.05)
    gone = np.column_stack([log_s, np.full(2000, -np.inf)])  # a class of probability 0 says nothing
    Q = np.column_stack([softmax(2 * log_s, axis=1), np.zeros(2000)])
    assert learnt_power(gone, Q, np.ones(2000)) == pytest.approx(2, rel=0.05)
