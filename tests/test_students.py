"""SoftLabelClassifier: exactness where it is claimed, and clear refusals."""

import pickle
import sys

import numpy as np
import pandas as pd
import pytest
import sklearn
from scipy.optimize import check_grad, minimize
from scipy.sparse import csr_matrix
from scipy.special import log_softmax, softmax
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_iris, make_blobs
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import (
    AdaBoostClassifier,
    BaggingClassifier,
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.feature_selection import SelectKBest
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge, RidgeClassifier, SGDClassifier
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV
from sklearn.multiclass import OneVsRestClassifier
from sklearn.multioutput import MultiOutputClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier, RadiusNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC
from sklearn.tree import DecisionTreeClassifier, ExtraTreeClassifier
from sklearn.utils.validation import has_fit_parameter

from sklearn_uhc import SoftLabelClassifier
from sklearn_uhc.students.logistic import SoftLogisticLoss
from sklearn_uhc.students.replicate import DROPPED, replicate, thin_out
from sklearn_uhc.students.sample import draw
from sklearn_uhc.students.temperature import sharpen

TREES = [
    DecisionTreeClassifier(random_state=0, max_depth=4),
    ExtraTreeClassifier(random_state=0),
    RandomForestClassifier(20, random_state=0, min_samples_leaf=2),
    ExtraTreesClassifier(20, random_state=0),
]


@pytest.fixture(scope="module")
def data():
    X, y = make_blobs(300, n_features=4, centers=4, cluster_std=2.5, random_state=0)
    return X, y


@pytest.fixture(scope="module")
def soft(data):
    X, y = data
    return LogisticRegression(C=0.05).fit(X, y).predict_proba(X)


@pytest.mark.parametrize("tree", TREES, ids=lambda t: type(t).__name__)
def test_on_one_hot_labels_a_twin_is_the_gini_classifier(data, tree):
    X, y = data
    twin = SoftLabelClassifier(tree).fit(X, np.eye(4)[y])
    assert twin.strategy_ == "twin"
    plain = clone(tree).fit(X, y)
    if hasattr(plain, "tree_"):
        assert twin.estimator_.tree_.node_count == plain.tree_.node_count
    np.testing.assert_allclose(twin.predict_proba(X), plain.predict_proba(X), atol=1e-9)


@pytest.mark.parametrize("params", [{"min_impurity_decrease": 0.02}, {"ccp_alpha": 0.01}, {"max_features": 2}])
def test_a_twin_keeps_the_meaning_of_hyper_parameters(data, params):
    X, y = data
    tree = DecisionTreeClassifier(random_state=0, **params)
    twin = SoftLabelClassifier(tree).fit(X, np.eye(4)[y])
    assert twin.estimator_.tree_.node_count == tree.fit(X, y).tree_.node_count


def test_a_leaf_is_the_weighted_mean_of_its_soft_labels(data, soft):
    X, _ = data
    weight = np.random.default_rng(0).random(len(X))
    clf = SoftLabelClassifier(DecisionTreeClassifier(max_depth=3, random_state=0)).fit(X, soft, weight)
    leaf = clf.estimator_.apply(X)
    proba = clf.predict_proba(X)
    for one in np.unique(leaf):
        mean = np.average(soft[leaf == one], axis=0, weights=weight[leaf == one])
        np.testing.assert_allclose(proba[leaf == one], np.tile(mean, (np.sum(leaf == one), 1)), atol=1e-10)


def soft_gini(Q, weight):
    """Weighted Gini impurity of soft labels: what a random draw from x and q would get wrong."""
    share = weight @ Q / weight.sum()
    return weight.sum() * (1 - share @ share)


def test_a_twin_splits_where_the_gini_impurity_of_soft_labels_is_least(data, soft):
    X, _ = data
    weight = np.random.default_rng(0).random(len(X)) + 0.1
    tree = (
        SoftLabelClassifier(DecisionTreeClassifier(max_depth=1, random_state=0)).fit(X, soft, weight).estimator_.tree_
    )
    found = {}
    for feature in range(X.shape[1]):
        values = np.unique(X[:, feature])
        for threshold in (values[1:] + values[:-1]) / 2:
            left = X[:, feature] <= threshold
            found[feature, threshold] = sum(soft_gini(soft[part], weight[part]) for part in (left, ~left))
    left = X[:, tree.feature[0]] <= tree.threshold[0]
    chosen = sum(soft_gini(soft[part], weight[part]) for part in (left, ~left))
    assert chosen == pytest.approx(min(found.values()), rel=1e-9)
    # The regressor's impurity is that of Gini divided by the number of classes, less a part that no split changes.
    assert tree.impurity[0] * 4 < 1


@pytest.mark.parametrize("weights", ["uniform", "distance"])
def test_neighbours_average_weighted_soft_labels(data, soft, weights):
    X, y = data
    sample_weight = np.random.default_rng(0).random(len(X)) + 0.1
    clf = SoftLabelClassifier(KNeighborsClassifier(5)).fit(X, soft, sample_weight)
    _, near = clf.estimator_.kneighbors(X)
    expected = [np.average(soft[rows], axis=0, weights=sample_weight[rows]) for rows in near]
    np.testing.assert_allclose(clf.predict_proba(X), expected)
    plain = KNeighborsClassifier(5, weights=weights).fit(X, y)
    one_hot = SoftLabelClassifier(KNeighborsClassifier(5, weights=weights)).fit(X, np.eye(4)[y])
    np.testing.assert_allclose(one_hot.predict_proba(X + 0.1), plain.predict_proba(X + 0.1), atol=1e-12)


def test_radius_neighbours_without_any_give_the_prior(data, soft):
    X, _ = data
    clf = SoftLabelClassifier(RadiusNeighborsClassifier(2.0)).fit(X, soft)
    proba = clf.predict_proba(np.vstack([X[:1], [[1e6] * 4]]))
    np.testing.assert_allclose(proba[1], soft.mean(axis=0))
    assert np.isfinite(proba).all()


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


@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize(
    "params",
    [{}, {"C": 100}, {"fit_intercept": False}, {"C": np.inf}, {"class_weight": "balanced"}, {"solver": "newton-cg"}],
    ids=str,
)
@pytest.mark.parametrize("convert", [np.asarray, csr_matrix], ids=["dense", "sparse"])
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
    for model in (
        LogisticRegression(l1_ratio=1, solver="saga", C=0.1, max_iter=1000),
        OneVsRestClassifier(LogisticRegression(solver="liblinear")),
    ):
        if isinstance(model, LogisticRegression):
            assert SoftLabelClassifier(model).fit(X, soft).strategy_ == "replicate"
        else:
            with pytest.raises(TypeError, match="strategy='sample'"):
                SoftLabelClassifier(model).fit(X, soft)


def test_logistic_regression_says_when_it_did_not_converge(data, soft):
    X, _ = data
    with pytest.warns(ConvergenceWarning, match="stopped after 2 iterations"):
        SoftLabelClassifier(LogisticRegression(max_iter=2)).fit(X, soft)


@pytest.mark.parametrize("class_weight", ["balanced", {0: 3.0, 2: 0.5}], ids=str)
@pytest.mark.parametrize("strategy", ["twin", "replicate"])
def test_class_weights_are_those_of_the_plain_classifier(data, class_weight, strategy):
    X, y = data
    keep = (y != 1) | (np.arange(len(y)) % 3 == 0)
    X, y = X[keep], y[keep]
    tree = DecisionTreeClassifier(max_depth=4, random_state=0, class_weight=class_weight)
    soft = SoftLabelClassifier(tree, strategy=strategy).fit(X, np.eye(4)[y])
    np.testing.assert_allclose(soft.predict_proba(X), tree.fit(X, y).predict_proba(X), atol=1e-9)


def test_a_class_of_weight_zero_leaves_its_rows_out(data):
    X, y = data
    tree = DecisionTreeClassifier(max_depth=4, random_state=0, class_weight={0: 0})
    soft = SoftLabelClassifier(tree).fit(X, np.eye(4)[y])
    plain = DecisionTreeClassifier(max_depth=4, random_state=0).fit(X[y != 0], y[y != 0])
    np.testing.assert_allclose(soft.predict_proba(X)[:, 1:], plain.predict_proba(X), atol=1e-9)


@pytest.mark.parametrize("params", [{"max_samples": 0.5}, {"n_jobs": 2}, {"bootstrap": False}], ids=str)
def test_a_forest_keeps_its_settings(data, params):
    X, y = data
    forest = RandomForestClassifier(10, random_state=0, **params)
    soft = SoftLabelClassifier(forest).fit(X, np.eye(4)[y])
    np.testing.assert_allclose(soft.predict_proba(X), forest.fit(X, y).predict_proba(X), atol=1e-9)


def test_out_of_bag_score_is_the_accuracy(data, soft):
    X, y = data
    forest = RandomForestClassifier(40, random_state=0, oob_score=True)
    twin = SoftLabelClassifier(forest).fit(X, np.eye(4)[y])
    plain = forest.fit(X, y)
    assert twin.estimator_.oob_score_ == pytest.approx(plain.oob_score_)
    np.testing.assert_allclose(twin.estimator_.oob_prediction_, plain.oob_decision_function_, atol=1e-9)
    assert 0.5 < SoftLabelClassifier(forest).fit(X, soft).estimator_.oob_score_ <= 1


@pytest.mark.parametrize("make", [DecisionTreeClassifier, RandomForestClassifier])
def test_monotonic_constraints_of_two_classes(data, make):
    X, y = data
    X, y = X[y < 2], y[y < 2]
    model = make(random_state=0, monotonic_cst=[1, -1, 0, 0])
    soft = SoftLabelClassifier(model).fit(X, np.eye(2)[y])
    np.testing.assert_allclose(soft.predict_proba(X), model.fit(X, y).predict_proba(X), atol=1e-9)
    Q = np.column_stack([0.3 + 0.4 * (y == 0), 0.3 + 0.4 * (y == 1)])
    grid = np.repeat(X[:20], 2, axis=0)
    grid[1::2, 0] += 3
    P = SoftLabelClassifier(model).fit(X, Q).predict_proba(grid)
    assert (P[1::2, 1] >= P[::2, 1] - 1e-12).all()


def test_names_of_validation_columns_are_those_of_the_training(data, soft):
    X, _ = data
    frame = pd.DataFrame(soft, columns=list("dacb"))
    student = HistGradientBoostingClassifier(max_iter=3, early_stopping=True)
    clf = SoftLabelClassifier(student)
    fitted = [
        clf.fit(X, frame, eval_set=[(X[:50], rows)]).estimator_.validation_score_[-1]
        for rows in (frame[:50], frame.loc[:49, list("abcd")], soft[:50])
    ]
    assert fitted[0] == fitted[1] == fitted[2]
    assert clf.classes_.tolist() == list("abcd")
    assert clf.score(X, soft) == clf.score(X, frame) == clf.score(X, frame[list("abcd")])
    for wrong in (frame[:50].set_axis(list("wxyz"), axis=1), soft[:50, :3]):
        with pytest.raises(ValueError, match="must have the classes that fit was given"):
            clf.fit(X, frame, eval_set=[(X[:50], wrong)])
    with pytest.raises(ValueError, match="stops early by one set of rows, got 2"):
        clf.fit(X, frame, eval_set=[(X[:50], frame[:50])] * 2)


def test_validation_rows_keep_their_weights(data, soft):
    X, _ = data
    weight = np.where(X[:, 0] > 0, 50.0, 1.0)
    student = HistGradientBoostingClassifier(max_iter=5, early_stopping=True, random_state=0)
    clf = SoftLabelClassifier(student, random_state=0, validation_fraction=0.3).fit(X, soft, weight)
    rows = np.random.RandomState(0).permutation(len(X))[:90]
    losses = -(soft[rows] * np.log(clf.predict_proba(X[rows]))).sum(axis=1)
    assert -clf.estimator_.validation_score_[-1] == pytest.approx(np.average(losses, weights=weight[rows]), rel=0.01)


def test_leaves_count_rows_not_copies(data):
    X, y = data
    student = HistGradientBoostingClassifier(max_iter=1, min_samples_leaf=160)
    for Q in (np.eye(4)[y], 0.96 * np.eye(4)[y] + 0.01):
        clf = SoftLabelClassifier(student).fit(X, Q)
        assert clf.estimator_._predictors[0][0].get_n_leaf_nodes() == 1


def test_nan_from_a_student_is_an_error(data, soft):
    class Broken(LinearRegression):
        def predict(self, X):
            return np.full((len(X), 4), np.nan)

    X, _ = data
    with pytest.raises(ValueError, match="The student gives NaN, first for row 0"):
        SoftLabelClassifier(Broken()).fit(X, soft).predict(X)


def test_a_failed_fit_is_no_fit(data, soft):
    X, _ = data
    clf = SoftLabelClassifier(LogisticRegression(C=-1))
    with pytest.raises(ValueError, match="'C' parameter"):
        clf.fit(X, soft)
    with pytest.raises(NotFittedError):
        clf.predict(X)


def test_hard_labels_and_weights_in_a_pipeline(data):
    X, y = data
    pipe = make_pipeline(StandardScaler(), LogisticRegression())
    clf = SoftLabelClassifier(pipe).fit(X, y, sample_weight=y + 1.0)
    expected = pipe.fit(X, y, logisticregression__sample_weight=y + 1.0)
    np.testing.assert_allclose(clf.predict_proba(X), expected.predict_proba(X))


def test_labels_drawn_from_soft_labels(data, soft):
    X, y = data
    student = SoftLabelClassifier(LinearDiscriminantAnalysis(), strategy="sample", random_state=0)
    clf = student.fit(X, soft)
    assert clf.strategy_ == "sample"
    np.testing.assert_array_equal(clf.predict_proba(X), student.fit(X, soft).predict_proba(X))
    assert clf.score(X, y) > 0.7
    weighted = student.fit(X, soft, sample_weight=np.where(y == 2, 1.0, 1e-6))
    assert weighted.class_prior_.argmax() == 2
    assert (weighted.predict(X) == 2).mean() > (y == 2).mean()
    one_hot = student.fit(X, np.eye(4)[y]).predict_proba(X)
    np.testing.assert_allclose(one_hot, LinearDiscriminantAnalysis().fit(X, y).predict_proba(X))


def test_drawing_follows_the_probabilities():
    Q = np.tile([0.0, 0.5, 0.2, 0.0, 0.3, 0.0], (20_000, 1))
    counts = np.bincount(draw(Q, np.random.RandomState(0)), minlength=6) / len(Q)
    np.testing.assert_allclose(counts, Q[0], atol=0.02)
    assert (counts[[0, 3, 5]] == 0).all()


def test_thinning_out_keeps_the_mean_and_the_bound():
    W = np.random.default_rng(0).dirichlet(np.full(20, 0.5), size=400)
    W[W < 1e-4] = 0
    W /= W.sum(axis=1, keepdims=True)
    draws = np.array([thin_out(W, 1000, np.random.RandomState(seed)) for seed in range(400)])
    kept = np.count_nonzero(draws, axis=(1, 2))
    assert np.abs(kept - 1000).max() < 60
    assert (np.count_nonzero(draws, axis=2) >= 1).all()
    assert (draws[:, W == 0] == 0).all()
    standard_error = np.sqrt(draws.var(axis=0) / 400) + 1e-3
    assert np.abs((draws.mean(axis=0) - W) / standard_error).max() < 6


@pytest.mark.skipif(not has_fit_parameter(HistGradientBoostingClassifier(), "X_val"), reason="scikit-learn before 1.7")
def test_early_stopping_of_copies_is_on_rows_of_its_own(data, soft):
    X, _ = data
    student = HistGradientBoostingClassifier(max_iter=200, early_stopping=True, n_iter_no_change=3, random_state=0)
    own = SoftLabelClassifier(student, random_state=0).fit(X, soft)
    assert own.estimator_.n_iter_ < 200
    given = SoftLabelClassifier(student).fit(X[:200], soft[:200], eval_set=[(X[200:], soft[200:])])
    loss = -(soft[200:] * np.log(given.predict_proba(X[200:]))).sum(axis=1).mean()
    assert -given.estimator_.validation_score_[-1] == pytest.approx(loss, rel=0.01)


def test_replication_drops_at_most_its_bound_and_no_class():
    Q = np.random.default_rng(0).dirichlet(np.full(30, 0.05), size=200)
    Q[:, 7] = 1e-9
    Q /= Q.sum(axis=1, keepdims=True)
    rows, labels, weights = replicate(Q)
    assert set(labels) == set(range(30))
    np.testing.assert_allclose(np.bincount(rows, weights), 1)
    rebuilt = np.zeros_like(Q)
    rebuilt[rows, labels] = weights
    assert (np.abs(rebuilt - Q).sum(axis=1) <= 2 * DROPPED).all()
    assert len(rows) < 0.5 * Q.size


CLASSIFIERS = [
    LogisticRegression(),
    RidgeClassifier(),
    LinearSVC(),
    SVC(),
    SGDClassifier(loss="log_loss", random_state=0),
    GaussianNB(),
    HistGradientBoostingClassifier(max_iter=10, max_depth=3),
    GradientBoostingClassifier(n_estimators=10),
    AdaBoostClassifier(n_estimators=10, random_state=0),
    BaggingClassifier(n_estimators=5, random_state=0),
    MLPClassifier((8,), max_iter=500, tol=1e-2, random_state=0),
]


@pytest.mark.parametrize("model", [*CLASSIFIERS, *TREES, KNeighborsClassifier()], ids=lambda m: type(m).__name__)
def test_every_student_learns_names_from_soft_labels(data, soft, model):
    X, y = data
    names = np.array(["ash", "birch", "cedar", "doum"])
    clf = SoftLabelClassifier(model, classes=names).fit(X, soft)
    proba = clf.predict_proba(X)
    assert proba.shape == (300, 4)
    np.testing.assert_allclose(proba.sum(axis=1), 1)
    assert clf.score(X, names[y]) > 0.7
    assert clf.score(X, soft) > 0.7
    np.testing.assert_allclose(np.exp(clf.predict_log_proba(X)), proba)
    revived = pickle.loads(pickle.dumps(clf))
    np.testing.assert_array_equal(revived.predict(X), clf.predict(X))


def test_hard_labels_are_the_plain_estimator(data):
    X, y = data
    for model in (LogisticRegression(), RandomForestClassifier(5, random_state=0), LinearDiscriminantAnalysis()):
        wrapped = SoftLabelClassifier(model, temperature=5).fit(X, y)
        assert wrapped.strategy_ == "hard"
        np.testing.assert_allclose(wrapped.predict_proba(X), clone(model).fit(X, y).predict_proba(X), atol=1e-12)
    weighted = SoftLabelClassifier(LogisticRegression()).fit(X, y, sample_weight=y + 1.0)
    expected = LogisticRegression().fit(X, y, sample_weight=y + 1.0)
    np.testing.assert_allclose(weighted.predict_proba(X), expected.predict_proba(X))
    with pytest.raises(TypeError, match="takes no sample_weight"):
        SoftLabelClassifier(LinearDiscriminantAnalysis()).fit(X, y, sample_weight=y + 1.0)


def test_class_names_come_from_the_columns_and_are_sorted(data, soft):
    X, _ = data
    frame = pd.DataFrame(soft, columns=["d", "a", "c", "b"])
    clf = SoftLabelClassifier(KNeighborsClassifier(1)).fit(X, frame)
    assert clf.classes_.tolist() == ["a", "b", "c", "d"]
    np.testing.assert_allclose(clf.predict_proba(X), frame[["a", "b", "c", "d"]])
    assert clf.score(X, frame) == 1
    assert SoftLabelClassifier(KNeighborsClassifier(1)).fit(X, soft).classes_.tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(
    "model",
    [LogisticRegression(C=10), KNeighborsClassifier(5), RandomForestClassifier(50, random_state=0), GaussianNB()],
    ids=lambda m: type(m).__name__,
)
def test_tempered_labels_come_back_at_temperature_one(data, model):
    """Log-loss on true labels is not spoilt by training at temperature 3."""
    X, y = data
    Q = LogisticRegression().fit(X, y).predict_proba(X)
    tempered = softmax(np.log(Q) / 3, axis=1)
    losses = {
        "plain": log_loss(y, SoftLabelClassifier(model).fit(X, Q).predict_proba(X)),
        "tempered": log_loss(y, SoftLabelClassifier(model, temperature=3).fit(X, tempered).predict_proba(X)),
        "ignored": log_loss(y, SoftLabelClassifier(model).fit(X, tempered).predict_proba(X)),
    }
    if isinstance(model, GaussianNB):
        assert losses["tempered"] == losses["ignored"]
    else:
        assert losses["tempered"] < losses["ignored"]
        assert losses["tempered"] < losses["plain"] + 0.05


def test_sharpening_inverts_tempering():
    Q = np.random.default_rng(0).dirichlet(np.ones(5), size=10)
    np.testing.assert_allclose(sharpen(softmax(np.log(Q) / 4, axis=1), 4), Q)
    np.testing.assert_array_equal(sharpen(np.array([[1.0, 0.0]]), 9), [[1, 0]])


def test_pipelines_fit_their_transformers_once_on_the_rows(data, soft):
    X, _ = data
    pipe = make_pipeline(StandardScaler(), SelectKBest(k=3), RandomForestClassifier(10, random_state=0))
    clf = SoftLabelClassifier(pipe, temperature=2).fit(X, soft)
    assert clf.strategy_ == "pipeline"
    np.testing.assert_allclose(clf.estimator_[0].mean_, X.mean(axis=0))
    assert clf.estimator_[-1].temperature == 2
    assert not hasattr(pipe[0], "mean_")
    assert clf.predict_proba(X).shape == (300, 4)
    replicated = SoftLabelClassifier(make_pipeline(StandardScaler(), LogisticRegression())).fit(X, soft)
    np.testing.assert_allclose(replicated.estimator_[0].mean_, X.mean(axis=0))
    alone = SoftLabelClassifier(make_pipeline(LogisticRegression())).fit(X, soft)
    np.testing.assert_allclose(
        alone.predict_proba(X), SoftLabelClassifier(LogisticRegression()).fit(X, soft).predict_proba(X), atol=1e-12
    )


@pytest.mark.parametrize("model", [Ridge(), LinearRegression(), RandomForestRegressor(10, random_state=0)], ids=str)
def test_multi_output_regressors_are_students(data, soft, model):
    X, _ = data
    proba = SoftLabelClassifier(model).fit(X, soft, sample_weight=np.ones(len(X))).predict_proba(X * 5)
    assert (proba >= 0).all()
    np.testing.assert_allclose(proba.sum(axis=1), 1)


def test_search_over_the_wrapped_estimator(data, soft):
    X, _ = data
    grid = {"estimator__max_depth": [1, 6]}
    search = GridSearchCV(SoftLabelClassifier(DecisionTreeClassifier(random_state=0)), grid, cv=3).fit(X, soft)
    assert search.best_params_ == {"estimator__max_depth": 6}


@pytest.mark.parametrize("model", [LogisticRegression(), KNeighborsClassifier(3), DecisionTreeClassifier()], ids=str)
def test_one_class_only(data, model):
    X, _ = data
    clf = SoftLabelClassifier(model, classes=["only"]).fit(X, np.ones((len(X), 1)))
    assert set(clf.predict(X)) == {"only"}
    np.testing.assert_array_equal(clf.predict_proba(X), 1)


@pytest.mark.parametrize("model", [LogisticRegression(), GaussianNB()], ids=str)
def test_a_class_without_any_weight_keeps_its_column(data, model):
    X, _ = data
    Q = np.zeros((len(X), 3))
    Q[:, 0], Q[:, 2] = 0.3, 0.7
    proba = SoftLabelClassifier(model).fit(X, Q).predict_proba(X)
    np.testing.assert_allclose(proba.mean(axis=0), [0.3, 0, 0.7], atol=1e-3)


def test_kinds_of_x(data, soft):
    X, _ = data
    expected = SoftLabelClassifier(LogisticRegression()).fit(X, soft).predict_proba(X)
    for convert in (csr_matrix, pd.DataFrame, lambda X: X.tolist()):
        clf = SoftLabelClassifier(LogisticRegression()).fit(convert(X), soft)
        np.testing.assert_allclose(clf.predict_proba(convert(X)), expected, atol=1e-4)
    named = pd.DataFrame(X, columns=list("abcd"))
    assert SoftLabelClassifier(LogisticRegression()).fit(named, soft).feature_names_in_.tolist() == list("abcd")


def test_routing_of_fit_parameters(data, soft):
    X, _ = data
    with pytest.raises(ValueError, match="enable_metadata_routing"):
        SoftLabelClassifier(SGDClassifier()).fit(X, soft, coef_init=np.zeros((4, 4)))
    with sklearn.config_context(enable_metadata_routing=True):
        student = SGDClassifier(loss="log_loss", max_iter=1, tol=None, eta0=1e-9, learning_rate="constant")
        student.set_fit_request(coef_init=True, intercept_init=True)
        start = np.arange(16.0).reshape(4, 4)
        clf = SoftLabelClassifier(student).fit(X, soft, coef_init=start, intercept_init=np.zeros(4))
    np.testing.assert_allclose(clf.estimator_.coef_, start, atol=1e-3)


@pytest.mark.parametrize(
    ("params", "Q", "error", "message"),
    [
        ({"estimator": LinearDiscriminantAnalysis()}, None, TypeError, "Analysis cannot learn .* What can"),
        ({"strategy": "twin"}, None, TypeError, "cannot learn from soft labels with strategy='twin'"),
        ({"strategy": "magic"}, None, ValueError, "strategy must be one of auto, twin, direct, replicate, sample"),
        ({"temperature": 0}, None, ValueError, "temperature must be a positive number"),
        ({"classes": ["a", "b"]}, None, ValueError, "classes must name each of the 3 columns"),
        ({"classes": ["a", "b", "b"]}, None, ValueError, "repeats"),
        ({"classes": ["a", 1, "b"]}, None, TypeError, "strings only or numbers only"),
        ({"temperature": np.inf}, None, ValueError, "temperature must be a positive number"),
        ({"estimator": SVC(decision_function_shape="ovo")}, None, ValueError, "per pair"),
        ({"estimator": MLPClassifier(early_stopping=True)}, None, ValueError, "Early stopping"),
        ({"estimator": GradientBoostingClassifier(n_iter_no_change=3)}, None, ValueError, "Early stopping"),
        ({"estimator": BaggingClassifier(oob_score=True)}, None, ValueError, "copies of themselves"),
        ({"estimator": BaggingClassifier(MLPClassifier(early_stopping=True))}, None, ValueError, "Early stopping"),
        ({"estimator": SVC(probability=True)}, None, ValueError, "probability=True of SVC cross-validates"),
        ({"estimator": LogisticRegression(C=-1)}, None, ValueError, "'C' parameter"),
        ({"estimator": RandomForestClassifier(warm_start=True)}, None, ValueError, "warm_start .* has no effect"),
        ({"estimator": RandomForestClassifier(oob_score=len)}, None, ValueError, "True or False"),
        ({"estimator": LogisticRegression(class_weight={9: 2})}, None, ValueError, r"names \[9\], which are not"),
        ({"estimator": CalibratedClassifierCV(LogisticRegression())}, None, TypeError, "cannot learn"),
        ({"estimator": MultiOutputClassifier(LogisticRegression())}, None, TypeError, "cannot learn"),
        ({"estimator": GridSearchCV(LogisticRegression(), {})}, None, TypeError, "search around it"),
        ({"estimator": RandomForestClassifier(monotonic_cst=[1, 0, 0, 0])}, None, ValueError, "two classes only"),
        ({}, [[0.5, 0.5, 0.5]] * 150, ValueError, "row 0 of y sums to 1.5"),
        ({}, [[1.5, -0.5, 0]] * 150, ValueError, "row 0 of y holds -0.5. If they are logarithms"),
        ({}, [[np.nan, 0, 1]] * 150, ValueError, "y contains NaN"),
        ({}, [[1, 0, 0]] * 149, ValueError, "X has 150 rows, the soft labels y have 149"),
        ({"estimator": RandomForestClassifier(class_weight="balanced_subsample")}, None, ValueError, "must be 'balan"),
        ({"estimator": KNeighborsClassifier(metric="bad")}, None, ValueError, "metric"),
    ],
)  # fmt: skip
def test_bad_input(params, Q, error, message):
    X, y = load_iris(return_X_y=True)
    Q = np.eye(3)[y] if Q is None else Q
    with pytest.raises(error, match=message):
        SoftLabelClassifier(**({"estimator": LogisticRegression()} | params)).fit(X, Q).predict(X)


def test_rows_of_no_weight_do_not_exist(data, soft):
    """Not even as neighbours."""
    X, _ = data
    weight = np.random.default_rng(0).integers(0, 3, len(X)).astype(float)
    seen = weight > 0
    models = [KNeighborsClassifier(5), DecisionTreeClassifier(random_state=0), LogisticRegression()]
    for model in [*models, make_pipeline(StandardScaler(), KNeighborsClassifier(3))]:
        weighted = SoftLabelClassifier(model).fit(X, soft, weight)
        without = SoftLabelClassifier(model).fit(X[seen], soft[seen], weight[seen])
        np.testing.assert_allclose(weighted.predict_proba(X), without.predict_proba(X), atol=1e-9)


def test_weights_reach_the_last_step_of_a_pipeline(data, soft):
    X, _ = data
    weight = np.random.default_rng(0).random(len(X)) ** 3
    piped = SoftLabelClassifier(make_pipeline(DecisionTreeClassifier(max_depth=3, random_state=0)))
    alone = SoftLabelClassifier(DecisionTreeClassifier(max_depth=3, random_state=0))
    expected = alone.fit(X, soft, weight).predict_proba(X)
    np.testing.assert_allclose(piped.fit(X, soft, weight).predict_proba(X), expected)
    assert np.abs(piped.fit(X, soft).predict_proba(X) - expected).max() > 0.01
    np.testing.assert_allclose(alone.class_prior_, np.average(soft, axis=0, weights=weight))


def test_pipelines_within_pipelines_and_soft_label_classifiers_within(data, soft):
    X, _ = data
    tree = DecisionTreeClassifier(random_state=0, max_depth=3)
    expected = SoftLabelClassifier(tree).fit(X, soft).predict_proba(X)
    nested = make_pipeline(StandardScaler(), make_pipeline(StandardScaler(), tree))
    np.testing.assert_allclose(SoftLabelClassifier(nested).fit(X, soft).predict_proba(X), expected, atol=1e-9)
    inner = make_pipeline(StandardScaler(), SoftLabelClassifier(tree, strategy="twin"))
    clf = SoftLabelClassifier(inner, strategy="replicate").fit(X, soft)
    assert clf.estimator_[-1].strategy_ == "twin"


def test_automatic_early_stopping_is_switched_off(data, soft):
    X, _ = data
    X, soft = np.tile(X, (12, 1)), np.tile(soft, (12, 1))
    clf = SoftLabelClassifier(HistGradientBoostingClassifier(max_iter=3, max_depth=2)).fit(X, soft)
    assert not clf.estimator_.do_early_stopping_


def test_copies_stay_within_the_working_memory(data, soft):
    X, y = data
    with sklearn.config_context(working_memory=0.015), pytest.warns(UserWarning, match="more than working_memory"):
        clf = SoftLabelClassifier(GaussianNB(), random_state=0).fit(X, soft)
    whole = SoftLabelClassifier(GaussianNB()).fit(X, soft)
    np.testing.assert_allclose(clf.estimator_.theta_, whole.estimator_.theta_, atol=0.3)
    assert clf.score(X, y) > 0.7


def test_students_that_do_not_stop_early_take_no_eval_set(data, soft):
    X, _ = data
    for student in (RandomForestClassifier(), GaussianNB()):
        with pytest.raises(ValueError, match="takes no eval_set"):
            SoftLabelClassifier(student).fit(X, soft, eval_set=[(X, soft)])
    with pytest.raises(ValueError, match="takes no eval_set"):
        SoftLabelClassifier(LogisticRegression()).fit(X, soft, eval_set=(X, soft))


def test_classes_and_columns_must_agree(data, soft):
    X, _ = data
    frame = pd.DataFrame(soft, columns=["d", "a", "c", "b"])
    clf = SoftLabelClassifier(KNeighborsClassifier(1), classes=["a", "b", "c", "d"]).fit(X, frame)
    np.testing.assert_allclose(clf.predict_proba(X), frame[["a", "b", "c", "d"]])
    with pytest.raises(ValueError, match="are not the columns of y"):
        SoftLabelClassifier(KNeighborsClassifier(1), classes=["a", "b", "c", "x"]).fit(X, frame)
    numbered = pd.DataFrame(soft)
    named = SoftLabelClassifier(KNeighborsClassifier(1), classes=["a", "b", "c", "x"]).fit(X, numbered)
    assert named.classes_.tolist() == ["a", "b", "c", "x"]
    with pytest.raises(ValueError, match="ordinary labels"):
        SoftLabelClassifier(KNeighborsClassifier(1), classes=["a"] * 4).fit(X, soft.argmax(axis=1))


def test_a_missing_package_is_named(monkeypatch):
    from sklearn_uhc.students import direct

    class LGBMClassifier(LogisticRegression):
        __module__ = "lightgbm.sklearn"

    monkeypatch.setitem(sys.modules, "lightgbm", None)
    monkeypatch.delitem(sys.modules, "sklearn_uhc.students.lightgbm", raising=False)
    with pytest.raises(ImportError, match=r"pip install 'sklearn-uhc\[boosters\]'"):
        direct.DirectStrategy.accepts(LGBMClassifier())


def test_errors_of_the_student_say_so(soft):
    with pytest.raises(ValueError, match="could not convert") as caught:
        SoftLabelClassifier(LogisticRegression()).fit(np.full((300, 2), "text"), soft)
    assert "training the student, LogisticRegression" in caught.value.__notes__[0]


def test_entropy_is_mapped_with_a_warning(data, soft):
    X, _ = data
    with pytest.warns(UserWarning, match="criterion='entropy' of DecisionTreeClassifier has no counterpart"):
        SoftLabelClassifier(DecisionTreeClassifier(criterion="entropy")).fit(X, soft)


@pytest.mark.parametrize("weight", [np.zeros(300), np.full(300, -1.0), np.full(300, np.nan), np.ones(299)])
def test_bad_weights(data, soft, weight):
    X, _ = data
    with pytest.raises(ValueError, match=r"[Ss]ample.weight"):
        SoftLabelClassifier(LogisticRegression()).fit(X, soft, sample_weight=weight)
