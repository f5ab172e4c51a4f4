"""Students at the cost of hard labels: equal to all weighted copies, or to hard labels if labels are one-hot."""

import pickle

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_matrix
from sklearn.datasets import load_digits
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import (
    LogisticRegression,
    PassiveAggressiveClassifier,
    Perceptron,
    RidgeClassifier,
    RidgeClassifierCV,
    SGDClassifier,
)
from sklearn.multiclass import OneVsRestClassifier
from sklearn.naive_bayes import BernoulliNB, CategoricalNB, ComplementNB, GaussianNB, MultinomialNB
from sklearn.neural_network import MLPClassifier
from sklearn.svm import SVC, LinearSVC, NuSVC
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.validation import has_fit_parameter

from sklearn_uhc import SoftLabelClassifier
from sklearn_uhc.students.epochs import DrawnLabels, MeanCoefficients, Plateau, expected_loss
from sklearn_uhc.students.soft_data import EvalRows, SoftData

LINEAR_IN_LABELS = [
    GaussianNB(),
    GaussianNB(priors=[0.1, 0.2, 0.3, 0.4], var_smoothing=1e-3),
    MultinomialNB(alpha=0.3),
    ComplementNB(),
    BernoulliNB(binarize=1.0),
    CategoricalNB(alpha=0.5),
    RidgeClassifier(alpha=3.0),
    RidgeClassifier(fit_intercept=False),
    RidgeClassifierCV(alphas=(3.0, 3.0)),
    LinearSVC(C=0.01, tol=1e-10, max_iter=100_000),
]
WEIGHS = pytest.mark.skipif(
    not has_fit_parameter(MLPClassifier(), "sample_weight"), reason="MLPClassifier weighs rows since scikit-learn 1.7"
)
TRAINED_ON_PROBABILITIES = [
    HistGradientBoostingClassifier(max_iter=4, max_features=0.5, random_state=0),
    pytest.param(MLPClassifier((5,), max_iter=3, tol=100, n_iter_no_change=1, random_state=0), marks=WEIGHS),
    pytest.param(MLPClassifier((5,), solver="lbfgs", max_iter=500, tol=1e-2, random_state=0), marks=WEIGHS),
    pytest.param(MLPClassifier((5,), early_stopping=True, n_iter_no_change=2, random_state=0), marks=WEIGHS),
]


@pytest.fixture(scope="module")
def counts(data):
    return np.abs(data[0])


@pytest.mark.parametrize("classes", [4, 2])
@pytest.mark.parametrize("model", LINEAR_IN_LABELS, ids=lambda m: type(m).__name__)
def test_all_weighted_copies_give_the_same_model(counts, soft, model, classes):
    Q = soft if classes == 4 else np.column_stack([soft[:, :2].sum(axis=1), soft[:, 2:].sum(axis=1)])
    if classes == 2 and getattr(model, "priors", None):
        pytest.skip("priors are of four classes")
    weight = np.random.default_rng(0).random(len(counts)) + 0.1
    names = np.array(["b", "d", "a", "c"])[:classes]
    exact = SoftLabelClassifier(model, classes=names).fit(counts, Q, weight)
    copied = SoftLabelClassifier(model, classes=names, strategy="replicate", copies="all").fit(counts, Q, weight)
    assert (exact.strategy_, copied.strategy_) == ("direct", "replicate")
    np.testing.assert_allclose(exact.predict_proba(counts), copied.predict_proba(counts), atol=2e-3)
    np.testing.assert_array_equal(exact.estimator_.classes_, copied.estimator_.classes_)
    np.testing.assert_array_equal(exact.estimator_.predict(counts), exact.predict(counts))


@pytest.mark.parametrize("model", LINEAR_IN_LABELS[:1] + LINEAR_IN_LABELS[2:6], ids=lambda m: type(m).__name__)
def test_one_hot_labels_give_the_plain_estimator(data, counts, model):
    _, y = data
    soft = SoftLabelClassifier(model).fit(counts, np.eye(4)[y])
    plain = model.fit(counts, y)
    np.testing.assert_array_equal(soft.predict(counts), plain.predict(counts))
    if hasattr(plain, "predict_proba"):
        np.testing.assert_allclose(soft.predict_proba(counts), plain.predict_proba(counts), atol=1e-10)


@pytest.mark.parametrize("classes", [4, 3, 2])
@pytest.mark.parametrize("model", TRAINED_ON_PROBABILITIES, ids=str)
def test_training_on_probabilities_contains_that_on_labels(data, model, classes):
    X, y = data
    boosts = isinstance(model, HistGradientBoostingClassifier)
    X = np.round(X) if boosts else X  # few values: scikit-learn would weigh the quantiles that it bins many by
    y, weight = y % classes, np.random.default_rng(0).random(len(X)) + 0.1
    plain = model.fit(X, y, sample_weight=weight)
    soft = SoftLabelClassifier(model).fit(X, np.eye(classes)[y], weight)
    assert soft.strategy_ == "direct"
    np.testing.assert_allclose(soft.predict_proba(X), plain.predict_proba(X), atol=1e-5 if boosts else 1e-9)
    revived = pickle.loads(pickle.dumps(soft.estimator_))
    assert type(revived) is type(model)
    np.testing.assert_allclose(revived.predict_proba(X), soft.predict_proba(X), atol=1e-9)
    assert "data" not in vars(getattr(revived, "_loss", object))  # a model does not carry its training rows


def test_names_of_features_and_kinds_of_x(counts, soft):
    frame = pd.DataFrame(counts, columns=list("wxyz"))
    for model in (
        GaussianNB(),
        MultinomialNB(),
        RidgeClassifier(),
        LinearSVC(),
        HistGradientBoostingClassifier(max_iter=2),
    ):
        clf = SoftLabelClassifier(model).fit(frame, soft)
        assert clf.feature_names_in_.tolist() == list("wxyz")
        expected = SoftLabelClassifier(model).fit(counts, soft).predict_proba(counts)
        np.testing.assert_allclose(clf.predict_proba(frame), expected, atol=1e-6)
    for model in (MultinomialNB(), BernoulliNB()):
        sparse = SoftLabelClassifier(model, random_state=0).fit(csr_matrix(counts), soft)
        dense = SoftLabelClassifier(model, random_state=0).fit(counts, soft)
        np.testing.assert_allclose(sparse.predict_proba(counts), dense.predict_proba(counts), atol=1e-6)


EPOCHS = [
    SGDClassifier(loss="log_loss", random_state=0),
    SGDClassifier(loss="modified_huber", average=True, random_state=0),
    Perceptron(random_state=0),
]


@pytest.mark.parametrize("model", EPOCHS, ids=str)
def test_labels_are_redrawn_in_every_epoch(data, soft, model):
    X, y = data[0] / 10, data[1]
    weight = np.random.default_rng(0).random(len(X)) + 0.1
    first, second = (SoftLabelClassifier(model, random_state=0).fit(X, soft, weight) for _ in range(2))
    assert first.strategy_ == "epochs"
    np.testing.assert_array_equal(first.predict_proba(X), second.predict_proba(X))
    assert first.score(X, y) > 0.7
    own = {key: value for key, value in first.estimator_.get_params().items() if key.endswith("random_state")}
    assert set(own.values()) == {0}  # what training changes is put back


@pytest.mark.filterwarnings("ignore:.*PassiveAggressive.*:FutureWarning", "ignore::DeprecationWarning")
def test_learners_without_weights_see_rows_by_their_weights(data):
    X, y = data
    weight = np.where(y == 2, 1.0, 1e-9)
    student = SoftLabelClassifier(PassiveAggressiveClassifier(random_state=0), random_state=0)
    shares = [(student.fit(X, np.eye(4)[y], w).predict(X) == 2).mean() for w in (None, weight)]
    assert student.strategy_ == "epochs"
    assert shares[1] > shares[0] + 0.1
    assert (student.predict(X[y == 2]) == 2).all()


def test_drawn_labels_are_unbiased_in_every_epoch_and_even_over_epochs():
    Q = np.tile([0.0, 0.5, 0.2, 0.3], (20_000, 1))
    data = SoftData(np.zeros((len(Q), 1)), Q, None, np.arange(4))
    labels = DrawnLabels(data, np.random.RandomState(0), weighs=True)
    seen = np.stack([labels.of(epoch)[1] for epoch in range(20)])
    for drawn in seen:
        np.testing.assert_allclose(np.bincount(drawn, minlength=4) / len(Q), Q[0], atol=0.02)
    shares = (seen[:, :, None] == np.arange(4)).mean(axis=0)
    assert np.abs(shares - Q).max() < 0.15  # independent draws: .4 and more
    assert (shares[:, 0] == 0).all()


def test_the_end_is_that_of_scikit_learn():
    rule = Plateau(tol=0.1, patience=2)
    assert [rule.reached(loss) for loss in (1.0, 0.5, 0.45, 0.3, 0.29, 0.28)] == [False] * 5 + [True]
    never = Plateau(tol=None, patience=1)
    assert not any(never.reached(loss) for loss in (1.0, 2.0, np.nan))
    assert Plateau(tol=0.0, patience=1).reached(np.nan)


def test_training_that_has_not_converged_says_so(data, soft):
    X, _ = data
    with pytest.warns(ConvergenceWarning, match="not converged in max_iter=2 epochs"):
        clf = SoftLabelClassifier(SGDClassifier(max_iter=2, random_state=0)).fit(X, soft)
    assert clf.estimator_.n_iter_ == 2
    SoftLabelClassifier(SGDClassifier(max_iter=2, tol=None, random_state=0)).fit(X, soft)


def test_the_loss_of_an_epoch_is_the_learners_own_over_soft_labels(data, soft):
    X = data[0] / 20
    model = SGDClassifier(loss="hinge", random_state=0).fit(X, soft.argmax(axis=1))
    F = model.decision_function(X)
    by_hand = np.mean(
        [
            sum(q * max(0, 1 - f) + (1 - q) * max(0, 1 + f) for q, f in zip(Q, scores, strict=True)) / 4
            for Q, scores in zip(soft, F, strict=True)
        ]
    )
    assert expected_loss(model, EvalRows(X, soft), np.arange(4)) == pytest.approx(by_hand)
    flat = SGDClassifier(loss="log_loss", max_iter=1, tol=None).fit(X, soft[:, 0] > 0.5)
    two = np.column_stack([1 - soft[:, 0], soft[:, 0]])
    loss = -np.mean(np.sum(two * flat.predict_log_proba(X), axis=1))
    assert expected_loss(flat, EvalRows(X, two), flat.classes_) == pytest.approx(loss)


def test_epochs_stop_early_by_rows_set_aside_and_keep_the_best(data, soft):
    X, _ = data
    student = SGDClassifier(loss="log_loss", early_stopping=True, n_iter_no_change=3, random_state=0)
    given = SoftLabelClassifier(student, random_state=0).fit(X[:200], soft[:200], eval_set=[(X[200:], soft[200:])])
    assert given.estimator_.n_iter_ < 1000
    assert given.estimator_.early_stopping is True
    own = SoftLabelClassifier(student, random_state=0).fit(X, soft)
    assert own.strategy_ == "epochs"
    with pytest.raises(ValueError, match="eval_set unless early_stopping=True"):
        SoftLabelClassifier(SGDClassifier()).fit(X, soft, eval_set=[(X, soft)])


@pytest.mark.parametrize(
    "model",
    [GaussianNB(), RidgeClassifier(), LinearSVC(), SGDClassifier(random_state=0)],
    ids=lambda m: type(m).__name__,
)
def test_classes_that_are_nowhere_probable_have_probability_zero(data, model):
    X, y = data
    Q = np.zeros((len(X), 4))
    Q[np.arange(len(X)), np.where(y < 2, 0, 2)] = 1
    proba = SoftLabelClassifier(model, random_state=0).fit(X, Q).predict_proba(X)
    assert (proba[:, [1, 3]] == 0).all()
    only = SoftLabelClassifier(model).fit(X, np.tile([0.0, 1.0, 0.0], (len(X), 1))).predict_proba(X)
    np.testing.assert_array_equal(only, np.tile([0.0, 1.0, 0.0], (len(X), 1)))


def test_histogram_boosting_on_fewer_rows_than_classes():
    clf = SoftLabelClassifier(HistGradientBoostingClassifier(max_iter=2)).fit(np.eye(3), np.full((3, 5), 0.2))
    np.testing.assert_allclose(clf.predict_proba(np.eye(3)), 0.2, atol=0.01)


def test_linear_models_end_with_the_mean_of_their_epochs(data, soft):
    """Later epochs have more weight, and an averaged SGDClassifier is unchanged."""
    X, _ = data
    model = SGDClassifier(random_state=0).fit(X, soft.argmax(axis=1))
    mean = MeanCoefficients(model)
    last = model.coef_
    for epoch in range(3):
        model.coef_ = np.full((4, 4), float(epoch + 1))
        mean.add(epoch)
    np.testing.assert_allclose(mean.mean["coef_"], (1 * 1 + 2 * 2 + 3 * 3) / 6)
    model.coef_ = last
    with mean.in_place():
        assert model.coef_ is mean.mean["coef_"]
    assert model.coef_ is last
    mean.keep()
    assert model.coef_ is mean.mean["coef_"]
    averaged = MeanCoefficients(SGDClassifier(average=True, random_state=0).fit(X, soft.argmax(axis=1)))
    averaged.add(0)
    assert averaged.mean == {}


def test_flat_labels_do_not_spoil_linear_models_by_epochs():
    X, y = load_digits(return_X_y=True)
    X = X / 16
    Q = 0.3 * np.eye(10)[y] + 0.07
    student = SGDClassifier(loss="log_loss", random_state=0)
    clf = SoftLabelClassifier(student, random_state=0).fit(X[:400], Q[:400])
    assert clf.score(X[1000:], y[1000:]) > 0.75


INNER = [
    LogisticRegression(C=0.1),
    DecisionTreeClassifier(max_depth=2, random_state=0),
    SGDClassifier(loss="log_loss", random_state=0),
    LogisticRegression(C=0.1, class_weight="balanced"),
]


@pytest.mark.parametrize("inner", INNER, ids=str)
def test_one_against_the_rest_is_a_problem_of_two_soft_labels_per_class(data, soft, inner):
    X, y = data[0] / 10, data[1]
    weight = np.random.default_rng(0).random(len(X)) + 0.1
    names = np.array(["b", "d", "a", "c"])
    clf = SoftLabelClassifier(OneVsRestClassifier(inner), classes=names, random_state=0).fit(X, soft, weight)
    assert clf.strategy_ == "direct"
    assert all(type(model) is type(inner) for model in clf.estimator_.estimators_)
    pairs = [np.column_stack([1 - q, q]) for q in soft.T]
    alone = [SoftLabelClassifier(inner, random_state=0).fit(X, Q, weight).predict_proba(X)[:, 1] for Q in pairs]
    P = np.column_stack(alone)[:, np.argsort(names)]
    np.testing.assert_allclose(clf.predict_proba(X), P / P.sum(axis=1, keepdims=True), atol=2e-3)
    assert clf.score(X, names[y]) > 0.7
    two = SoftLabelClassifier(OneVsRestClassifier(inner), random_state=0).fit(X, pairs[0], weight)
    np.testing.assert_allclose(two.predict_proba(X)[:, 1], alone[0], atol=2e-3)


def test_one_against_the_rest_refuses_what_its_inner_classifier_would(data, soft):
    X, _ = data
    for inner, error, message in (
        (LinearDiscriminantAnalysis(), TypeError, "OneVsRestClassifier cannot learn"),
        (MLPClassifier(early_stopping=True, warm_start=True), ValueError, "warm_start of MLPClassifier"),
    ):
        with pytest.raises(error, match=message):
            SoftLabelClassifier(OneVsRestClassifier(inner)).fit(X, soft)
    with pytest.raises(ValueError, match="does not accept eval_set"):
        SoftLabelClassifier(OneVsRestClassifier(LogisticRegression())).fit(X, soft, eval_set=[(X, soft)])


def test_ridge_chooses_its_penalty_by_leaving_out_rows(data, soft):
    X, y = data
    student = RidgeClassifierCV(alphas=(0.01, 10.0, 1e5))
    clf = SoftLabelClassifier(student).fit(X, np.eye(4)[y])
    plain = RidgeClassifierCV(alphas=(0.01, 10.0, 1e5)).fit(X, y)
    assert clf.strategy_ == "direct"
    assert clf.estimator_.alpha_ == plain.alpha_
    assert clf.estimator_.best_score_ == pytest.approx(plain.best_score_)
    np.testing.assert_allclose(clf.estimator_.coef_, plain.coef_)
    with pytest.raises(ValueError, match="set cv as well"):
        SoftLabelClassifier(RidgeClassifierCV(scoring="accuracy")).fit(X, soft)
    folds = SoftLabelClassifier(RidgeClassifierCV(scoring="accuracy", cv=3)).fit(X, soft)
    assert folds.strategy_ == "replicate"


@pytest.mark.parametrize("model", [SVC(), NuSVC(nu=0.1)], ids=str)
def test_kernel_machines_get_each_row_once_however_flat_the_labels(data, model):
    X, y = data
    plain = model.fit(X, y, sample_weight=np.ones(len(X))).predict(X)
    for share in (1.0, 0.2):
        clf = SoftLabelClassifier(model).fit(X, share * np.eye(4)[y] + (1 - share) / 4)
        assert clf.estimator_.shape_fit_[0] == len(X)
        assert np.mean(clf.predict(X) == plain) > 0.98
    copied = SoftLabelClassifier(model, copies=2, random_state=0).fit(X, 0.2 * np.eye(4)[y] + 0.2)
    assert copied.estimator_.shape_fit_[0] > len(X)
