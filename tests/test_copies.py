"""Weighted copies and drawn labels: bounds and means, and no row is used to validate itself."""

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import (
    AdaBoostClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.linear_model import LogisticRegression, LogisticRegressionCV
from sklearn.model_selection import KFold
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.validation import has_fit_parameter

from sklearn_uhc import SoftLabelClassifier
from sklearn_uhc.students.copies import DROPPED, draw_copies, leading_classes, replicate
from sklearn_uhc.students.replicate import folds_of_copies
from sklearn_uhc.students.sample import draw, draw_rows
from sklearn_uhc.students.soft_data import SoftData

STOPS = pytest.mark.skipif(
    not has_fit_parameter(HistGradientBoostingClassifier(), "X_val"),
    reason="HistGradientBoostingClassifier takes rows to stop by since scikit-learn 1.7",
)


@STOPS
def test_names_of_validation_columns_are_those_of_the_training(data, soft):
    X, _ = data
    frame = pd.DataFrame(soft, columns=list("dacb"))
    student = HistGradientBoostingClassifier(max_iter=3, early_stopping=True)
    clf = SoftLabelClassifier(student)
    fitted = [
        clf.fit(X, frame, eval_set=[(X[:50], rows)]).estimator_.validation_score_[-1]
        for rows in (frame[:50], frame.loc[:49, list("abcd")], soft[:50])
    ]
    np.testing.assert_allclose(fitted, fitted[0], rtol=1e-12)
    assert clf.classes_.tolist() == list("abcd")
    assert clf.score(X, soft) == clf.score(X, frame) == clf.score(X, frame[list("abcd")])
    for wrong in (frame[:50].set_axis(list("wxyz"), axis=1), soft[:50, :3]):
        with pytest.raises(ValueError, match="classes seen in fit"):
            clf.fit(X, frame, eval_set=[(X[:50], wrong)])
    with pytest.raises(ValueError, match=r"one eval_set.*got 2"):
        clf.fit(X, frame, eval_set=[(X[:50], frame[:50])] * 2)


@STOPS
def test_validation_rows_keep_their_weights(data, soft):
    X, _ = data
    weight = np.where(X[:, 0] > 0, 50.0, 1.0)
    student = HistGradientBoostingClassifier(max_iter=5, early_stopping=True, random_state=0)
    clf = SoftLabelClassifier(student, random_state=0, validation_fraction=0.3).fit(X, soft, weight)
    rows = np.random.RandomState(0).permutation(len(X))[:90]
    losses = -(soft[rows] * np.log(clf.predict_proba(X[rows]))).sum(axis=1)
    assert -clf.estimator_.validation_score_[-1] == pytest.approx(np.average(losses, weights=weight[rows]), rel=0.01)


@STOPS
@pytest.mark.parametrize("some_rows", [slice(0, 300), slice(0, 3)])
def test_copies_of_validation_rows_are_rows_with_labels(data, some_rows):
    X, y = data
    H = np.eye(4)[y]
    student = HistGradientBoostingClassifier(max_iter=5, early_stopping=True, n_iter_no_change=2, random_state=0)
    soft = SoftLabelClassifier(student, strategy="replicate").fit(X, H, eval_set=[(X[some_rows], H[some_rows])])
    rows = {"X_val": X[some_rows], "y_val": y[some_rows], "sample_weight_val": np.ones(len(y[some_rows]))}
    plain = student.fit(X, y, sample_weight=np.ones(len(X)), **rows)
    np.testing.assert_allclose(soft.estimator_.validation_score_, plain.validation_score_, rtol=1e-9)


@STOPS
@pytest.mark.parametrize("fraction", [0.999, 0.001])
def test_a_share_that_leaves_no_rows_is_refused(data, soft, fraction):
    student = HistGradientBoostingClassifier(max_iter=2, early_stopping=True)
    with pytest.raises(ValueError, match=rf"validation_fraction={fraction} of 300 rows leaves no rows"):
        SoftLabelClassifier(student, validation_fraction=fraction).fit(data[0], soft)


def test_leaves_count_rows_not_copies(data):
    X, y = data
    student = HistGradientBoostingClassifier(max_iter=1, min_samples_leaf=160)
    for Q in (np.eye(4)[y], 0.96 * np.eye(4)[y] + 0.01):
        clf = SoftLabelClassifier(student).fit(X, Q)
        assert clf.estimator_._predictors[0][0].get_n_leaf_nodes() == 1


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


def test_a_pipeline_draws_with_the_random_state_of_its_student(data, soft):
    X, _ = data
    lda = LinearDiscriminantAnalysis()

    def drawn(model, seed):
        return SoftLabelClassifier(model, strategy="sample", random_state=seed).fit(X, soft).predict_proba(X)

    alone, other = drawn(lda, 0), drawn(lda, 1)
    np.testing.assert_allclose(drawn(make_pipeline(FunctionTransformer(), lda), 0), alone)
    inner = SoftLabelClassifier(lda, strategy="sample", random_state=0)  # its own settings win
    np.testing.assert_allclose(drawn(make_pipeline(inner), 1), alone)
    assert np.abs(alone - other).max() > 0.01


@STOPS
def test_a_pipeline_stops_early_by_the_same_share_of_rows(data, soft):
    X, _ = data
    student = HistGradientBoostingClassifier(max_iter=5, early_stopping=True, random_state=0)

    def fitted(model, share):
        return SoftLabelClassifier(model, random_state=0, validation_fraction=share).fit(X, soft).predict_proba(X)

    alone = fitted(student, 0.5)
    np.testing.assert_allclose(fitted(make_pipeline(FunctionTransformer(), student), 0.5), alone)
    assert np.abs(alone - fitted(student, 0.1)).max() > 0.01


def test_drawing_follows_the_probabilities():
    Q = np.tile([0.0, 0.5, 0.2, 0.0, 0.3, 0.0], (20_000, 1))
    counts = np.bincount(draw(Q, np.random.RandomState(0))[:, 0], minlength=6) / len(Q)
    np.testing.assert_allclose(counts, Q[0], atol=0.02)
    assert (counts[[0, 3, 5]] == 0).all()


@pytest.mark.parametrize("copies", [1, 2, 5])
def test_a_few_copies_keep_the_mean_the_sum_and_the_stated_variance(copies):
    W = np.random.default_rng(0).dirichlet(np.full(12, 0.5), size=200)
    W[:20, 3:] = 0  # rows with three entries
    W[20] = np.eye(12)[4]
    W /= W.sum(axis=1, keepdims=True)
    draws = np.array([draw_copies(W, copies, np.random.RandomState(seed)) for seed in range(600)])
    assert (np.count_nonzero(draws, axis=2) == np.minimum(copies, np.count_nonzero(W, axis=1))).all()
    np.testing.assert_allclose(draws.sum(axis=2), 1)
    assert (draws[:, W == 0] == 0).all()
    tau = np.where(draws > W + 1e-12, draws, 0).max(axis=(0, 2))[:, None]
    assert (tau <= 1 / copies + 1e-12).all()
    variance = np.where(tau > W, W * (tau - W), 0)
    np.testing.assert_allclose(draws.var(axis=0), variance, atol=0.05)
    assert np.abs(draws.mean(axis=0) - W).max() < 5 * np.sqrt(variance.max() / 600)


def test_a_class_that_is_drawn_nowhere_is_known_all_the_same(soft):
    Q = np.column_stack([0.999 * soft, np.full(len(soft), 0.001)])
    for seed in range(3):
        rows, labels, weights = replicate(Q, copies=2, rng=np.random.RandomState(seed))
        assert set(labels) == set(range(5))
        np.testing.assert_allclose(np.bincount(rows, weights), 1)
        assert np.bincount(rows).max() <= 3


def test_rows_are_drawn_in_proportion_to_their_weights():
    weight = np.array([0.0, 1.0, 2.5, 0.0, 0.5, 1.0])
    counts = np.mean(
        [np.bincount(draw_rows(weight, np.random.RandomState(seed)), minlength=6) for seed in range(2000)], 0
    )
    np.testing.assert_allclose(counts, 6 * weight / 5, atol=0.05)


def test_more_copies_on_request(data, soft):
    X, _ = data
    boosting = AdaBoostClassifier(n_estimators=3, random_state=0)
    whole = SoftLabelClassifier(boosting, copies="all").fit(X, soft)
    four = SoftLabelClassifier(boosting, copies=4).fit(X, soft)
    np.testing.assert_allclose(four.predict_proba(X), whole.predict_proba(X))  # of four classes that is all
    one = SoftLabelClassifier(boosting, copies=1).fit(X, soft)
    assert np.abs(one.predict_proba(X) - whole.predict_proba(X)).max() > 1e-6
    again = SoftLabelClassifier(boosting, copies=1).fit(X, soft)  # drawn by the student's own random state
    np.testing.assert_allclose(again.predict_proba(X), one.predict_proba(X))
    piped = SoftLabelClassifier(make_pipeline(FunctionTransformer(), boosting), copies=1).fit(X, soft)
    np.testing.assert_allclose(piped.predict_proba(X), one.predict_proba(X))
    for wrong in (0, 2.5, True, "many"):
        with pytest.raises(ValueError, match="copies must be 'auto', 'all'"):
            SoftLabelClassifier(boosting, copies=wrong).fit(X, soft)


def test_several_drawn_labels_a_row_are_closer_to_the_soft_labels(data, soft):
    X, _ = data
    draws = draw(soft, np.random.RandomState(0), 50)
    shares = (draws[:, :, None] == np.arange(4)).mean(axis=1)
    assert np.abs(shares - soft).max() <= 1 / 50 + 1e-12
    lda = LinearDiscriminantAnalysis()
    few, many = (
        [
            SoftLabelClassifier(lda, strategy="sample", copies=m, random_state=seed).fit(X, soft).predict_proba(X)
            for seed in (0, 1)
        ]
        for m in (1, 20)
    )
    assert np.abs(many[0] - many[1]).mean() < 0.3 * np.abs(few[0] - few[1]).mean()


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


def test_automatic_early_stopping_is_switched_off(data, soft):
    X, _ = data
    X, soft = np.tile(X, (12, 1)), np.tile(soft, (12, 1))
    clf = SoftLabelClassifier(HistGradientBoostingClassifier(max_iter=3, max_depth=2)).fit(X, soft)
    assert not clf.estimator_.do_early_stopping_


def test_copies_stay_within_the_working_memory(data, soft):
    X, y = data
    student = GradientBoostingClassifier(n_estimators=5, random_state=0)
    few = sklearn.config_context(working_memory=0.02)
    with few, pytest.warns(UserWarning, match="4 copies of every row need more than working_memory: 2") as told:
        clf = SoftLabelClassifier(student, random_state=0).fit(X, soft)
    assert [warning.filename for warning in told] == [__file__]
    assert clf.score(X, y) > 0.6


def test_students_that_do_not_stop_early_take_no_eval_set(data, soft):
    X, _ = data
    for student in (RandomForestClassifier(), GaussianNB()):
        with pytest.raises(ValueError, match="does not accept eval_set"):
            SoftLabelClassifier(student).fit(X, soft, eval_set=[(X, soft)])
    with pytest.raises(ValueError, match="does not accept eval_set"):
        SoftLabelClassifier(LogisticRegression()).fit(X, soft, eval_set=(X, soft))


def test_each_row_once_with_the_lead_of_its_class():
    Q = np.array([[0.6, 0.4, 0.0], [0.1, 0.9, 0.0], [0.4, 0.4, 0.2], [0.5, 0.3, 0.2]])
    rows, labels, weights = leading_classes(Q, np.array([1.0, 2.0, 1.0, 1.0]))
    assert rows.tolist() == [0, 1, 3, 2]  # the third has no lead, but it is the best of the last class
    assert labels.tolist() == [0, 1, 0, 2]
    mean = (0.2 + 2 * 0.8 + 0.2) / 5
    np.testing.assert_allclose(weights, [0.2 / mean, 1.6 / mean, 0.2 / mean, 0.2])
    rows, labels, weights = leading_classes(np.full((3, 2), 0.5))
    assert rows.tolist() == [0, 1, 2, 0]
    assert labels.tolist() == [0, 0, 0, 1]
    np.testing.assert_allclose(weights, [1, 1, 1, 0.5])


def test_adaboost_gets_each_row_once(data, soft):
    X, _ = data
    model = AdaBoostClassifier(DecisionTreeClassifier(max_depth=2), n_estimators=5, random_state=0)
    rows, labels, weights = leading_classes(soft)
    once = clone(model).fit(X[rows], labels, sample_weight=weights).predict_proba(X)
    np.testing.assert_allclose(SoftLabelClassifier(model).fit(X, soft).estimator_.predict_proba(X), once)
    copied = SoftLabelClassifier(model, copies="all").fit(X, soft).estimator_.predict_proba(X)
    assert np.abs(copied - once).max() > 1e-3


def test_folds_keep_the_copies_of_a_row_together(data, soft):
    X, _ = data
    rows, _, _ = replicate(soft, copies=3, rng=np.random.RandomState(0))
    whole = SoftData(X, soft, None, np.arange(4))
    for cv in (None, 3, KFold(4, shuffle=True, random_state=0)):
        folds = folds_of_copies(cv, whole, rows)
        assert len(folds) == (5 if cv is None else getattr(cv, "n_splits", 3))
        assert all(not set(rows[train]) & set(rows[test]) for train, test in folds)
        assert all(len(train) + len(test) == len(rows) for train, test in folds)
        np.testing.assert_array_equal(np.sort(np.concatenate([test for _, test in folds])), np.arange(len(rows)))


def test_students_that_cross_validate(data, soft):
    X, y = data
    cs = LogisticRegressionCV(Cs=[1e-3, 1.0], cv=3, scoring="neg_log_loss", max_iter=300)
    if "use_legacy_attributes" in cs.get_params():  # scikit-learn 1.8
        cs.set_params(use_legacy_attributes=False, l1_ratios=(0,))
    for model in (CalibratedClassifierCV(LogisticRegression(), cv=3), cs):
        clf = SoftLabelClassifier(model, random_state=0).fit(X, soft)
        assert clf.strategy_ == "replicate"
        assert clf.estimator_.cv == 3
        assert clf.score(X, y) > 0.7
        np.testing.assert_allclose(clf.predict_proba(X).mean(axis=0), soft.mean(axis=0), atol=0.03)
