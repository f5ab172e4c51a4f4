"""LogisticRegression on soft labels: its optimum, and what it does not support."""

import numpy as np
import pytest
from scipy.optimize import check_grad, minimize
from scipy.sparse import csr_matrix
from scipy.special import log_softmax, softmax
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from sklearn_uhc import SoftLabelClassifier
from sklearn_uhc.students.logistic import SoftLogisticLoss


def soft_logistic_regression(X, Q, C, weight):
    """Minimise the soft cross-entropy with scikit-learn's penalty directly; returns probabilities on X."""
    n_features, n_classes = X.shape[1], Q.shape[1]

    def loss(flat):
        W = flat.reshape(n_features + 1, n_classes)
        log_s = log_softmax(X @ W[:-1] + W[-1], axis=1)
        error = weight[:, None] * (np.exp(log_s) - Q)
        gradient = C * np.vstack([X.T @ error, error.sum(axis=0)])
        gradient[:-1] += W[:-1]
        value = -C * (weight[:, None] * Q * log_s).sum() + 0.5 * (W[:-1] ** 2).sum()
        return value, gradient.ravel()

    start = np.zeros((n_features + 1) * n_classes)
    options = {"ftol": 1e-14, "gtol": 1e-8, "maxiter": 2000}
    W = minimize(loss, start, jac=True, method="L-BFGS-B", options=options).x.reshape(-1, n_classes)
    return softmax(X @ W[:-1] + W[-1], axis=1)


@pytest.mark.parametrize("strategy", ["direct", "replicate"])
def test_logistic_regression_minimises_the_soft_cross_entropy(data, soft, strategy):
    X, _ = data
    weight = np.random.default_rng(0).random(len(X)) + 0.5
    model = LogisticRegression(C=0.3, tol=1e-8, max_iter=2000)
    smooth = 0.9 * soft + 0.1 / 4  # no entry is small enough to be dropped
    clf = SoftLabelClassifier(model, strategy=strategy).fit(X, smooth, weight)
    np.testing.assert_allclose(clf.predict_proba(X), soft_logistic_regression(X, smooth, 0.3, weight), atol=1e-5)
    tails = SoftLabelClassifier(model, strategy=strategy).fit(X, soft, weight).predict_proba(X)
    bound = 1e-5 if strategy == "direct" else 2e-3
    np.testing.assert_allclose(tails, soft_logistic_regression(X, soft, 0.3, weight), atol=bound)


# scikit-learn 1.8.0 says this of C=inf, which is its own way to ask for no penalty.
@pytest.mark.filterwarnings("ignore:Setting penalty=None will ignore the C")
@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize(
    ("params", "convert"),
    [
        ({}, csr_matrix),
        ({}, np.asarray),
        ({"C": 100, "solver": "newton-cg"}, np.asarray),
        ({"fit_intercept": False}, np.asarray),
        ({"C": np.inf}, np.asarray),
        ({"class_weight": "balanced"}, np.asarray),
        ({"class_weight": "balanced", "fit_intercept": False}, csr_matrix),
    ],
    ids=str,
)
def test_on_one_hot_labels_it_is_scikit_learns_logistic_regression(data, n_classes, params, convert):
    X, y = data
    rows = y < n_classes
    rng = np.random.default_rng(0)
    X, y = X[rows], rng.permutation(y[rows]) if params.get("C") == np.inf else y[rows]
    weight = rng.random(len(y)) + 0.5
    model = LogisticRegression(**{"tol": 1e-9, "max_iter": 5000} | params)
    if "class_weight" in params:
        weight = None  # scikit-learn counts rows there, we count their weights
    soft = SoftLabelClassifier(model).fit(convert(X), np.eye(n_classes)[y], weight)
    plain = model.fit(convert(X), y, weight)
    assert soft.strategy_ == "direct"
    np.testing.assert_allclose(soft.predict_proba(X), plain.predict_proba(X), atol=1e-5)
    np.testing.assert_allclose(soft.estimator_.coef_, plain.coef_, atol=1e-3)
    assert soft.estimator_.coef_.shape == plain.coef_.shape
    assert type(soft.estimator_) is LogisticRegression


def test_logistic_loss_has_the_right_gradient(data, soft):
    X, _ = data
    weight = np.random.default_rng(0).random(30)
    for Q in (soft[:30], np.column_stack([soft[:30, 0], 1 - soft[:30, 0]])):
        for intercept in (True, False):
            loss = SoftLogisticLoss(X[:30], Q, weight, 0.1, intercept)
            x = np.random.default_rng(1).normal(size=loss.start().shape)
            assert check_grad(lambda x: loss(x)[0], lambda x: loss(x)[1], x) < 1e-5  # noqa: B023


def test_penalties_that_it_cannot_express_are_replicated(data, soft):
    X, _ = data
    l1 = {"l1_ratio": 1} if LogisticRegression().penalty == "deprecated" else {"penalty": "l1"}  # scikit-learn 1.8
    model = LogisticRegression(**l1, solver="saga", C=0.1, max_iter=1000)
    assert SoftLabelClassifier(model).fit(X, soft).strategy_ == "replicate"


def test_logistic_regression_says_when_it_did_not_converge(data, soft):
    X, _ = data
    student = LogisticRegression(max_iter=2)
    for model in (student, make_pipeline(student)):
        with pytest.warns(ConvergenceWarning, match="stopped after 2 iterations") as told:
            SoftLabelClassifier(model).fit(X, soft)
        assert [warning.filename for warning in told] == [__file__]
