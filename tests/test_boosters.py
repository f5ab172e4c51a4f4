"""LightGBM, XGBoost and CatBoost on soft labels: the real libraries, compared with their own results."""

import pickle

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_matrix
from scipy.special import softmax
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sklearn_uhc import HeterogeneousDistiller, SoftLabelClassifier
from sklearn_uhc.students.direct import SoftCrossEntropy, soft_log_loss
from sklearn_uhc.students.soft_data import SoftData

lightgbm = pytest.importorskip("lightgbm")
xgboost = pytest.importorskip("xgboost")
catboost = pytest.importorskip("catboost")


def lgbm(**params):
    return lightgbm.LGBMClassifier(**{"n_estimators": 12, "verbose": -1, "random_state": 0, "n_jobs": 1} | params)


def xgb(**params):
    return xgboost.XGBClassifier(**{"n_estimators": 12, "random_state": 0, "n_jobs": 1} | params)


def cat(**params):
    quiet = {"verbose": 0, "allow_writing_files": False, "thread_count": 1, "random_seed": 0}
    return catboost.CatBoostClassifier(**{"iterations": 12, "depth": 4} | quiet | params)


BOOSTERS = [lgbm, xgb, cat]
every_booster = pytest.mark.parametrize("make", BOOSTERS, ids=["lightgbm", "xgboost", "catboost"])


@pytest.fixture(scope="module", params=[2, 4], ids=["two classes", "four classes"])
def data(request):
    X, y = make_classification(400, 8, n_informative=6, n_classes=request.param, flip_y=0.1, random_state=0)
    rng = np.random.default_rng(0)
    Q = softmax(2 * np.eye(request.param)[y] + rng.normal(size=(400, request.param)), axis=1)
    return X, y, Q


@every_booster
@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
def test_one_hot_labels_give_the_librarys_own_classifier(data, make, weighted):
    X, y, _ = data
    weight = np.random.default_rng(1).random(len(X)) + 0.5 if weighted else None
    names = np.array(["a", "b", "c", "d"])[: y.max() + 1]
    soft = SoftLabelClassifier(make(), classes=names).fit(X, np.eye(len(names))[y], weight)
    assert soft.strategy_ == "direct"
    plain = make().fit(X, y, sample_weight=weight)
    np.testing.assert_allclose(soft.predict_proba(X), plain.predict_proba(X), atol=2e-6)
    assert set(soft.predict(X)) == set(names)
    assert type(soft.estimator_) is type(plain)


@every_booster
def test_soft_labels_are_learnt_better_than_their_argmax(data, make):
    X, y, _ = data
    Q = LogisticRegression(C=0.01).fit(X, y).predict_proba(X)
    seen, new = slice(0, 300), slice(300, None)
    student = make(**{"iterations" if make is cat else "n_estimators": 60})
    soft = SoftLabelClassifier(student).fit(X[seen], Q[seen]).predict_proba(X[new])
    hard = SoftLabelClassifier(student).fit(X[seen], np.eye(Q.shape[1])[Q[seen].argmax(axis=1)]).predict_proba(X[new])
    start = np.tile(Q.mean(axis=0), (100, 1))
    losses = [-(Q[new] * np.log(S)).sum(axis=1).mean() for S in (soft, hard, start)]
    assert losses[0] < losses[1]
    assert losses[0] < losses[2]


@every_booster
def test_replication_reaches_the_same_loss(make):
    """Copies are the same objective; libraries differ only in how they bin and regularise rows of small weight.

    CatBoost divides its l2 penalty by the number of rows, so that copies are penalised less: it is 0 here.
    """
    X, y = make_classification(300, 8, n_informative=5, n_classes=3, random_state=1)
    Q = 0.7 * np.eye(3)[y] + 0.1
    params = {
        "lgbm": {"min_child_samples": 1},
        "xgb": {},
        "cat": {"bootstrap_type": "No", "random_strength": 0, "learning_rate": 0.1, "l2_leaf_reg": 1e-9},
    }
    student = make(**params[make.__name__])
    losses = [
        -(Q * np.log(SoftLabelClassifier(student, strategy=s).fit(X, Q).predict_proba(X))).sum(axis=1).mean()
        for s in ("direct", "replicate")
    ]
    assert losses[0] == pytest.approx(losses[1], rel=0.02)


def test_derivatives_of_the_loss(data):
    _, _, Q = data
    rng = np.random.default_rng(0)
    L, weight = Q.shape[1], rng.random(5) + 0.5
    loss = SoftCrossEntropy(SoftData(None, Q[:5], weight, np.arange(L)), 1.0)
    F = rng.normal(size=5) if L == 2 else rng.normal(size=(5, L))
    gradient, hessian = loss(None, F)
    step = 1e-5
    for index in np.ndindex(F.shape):
        row = index[0]
        values = []
        for sign in (-1, 0, 1):
            moved = F.copy()
            moved[index] += sign * step
            values.append(weight[row] * soft_log_loss(Q[[row]], moved[[row]]))
        assert gradient[index] == pytest.approx((values[2] - values[0]) / (2 * step), abs=1e-8)
        assert hessian[index] == pytest.approx((values[2] - 2 * values[1] + values[0]) / step**2, abs=1e-4)


STOPPING = {
    "lgbm": {"early_stopping_round": 5},
    "xgb": {"early_stopping_rounds": 5},
    "cat": {"early_stopping_rounds": 5},
}


def rounds_used(booster):
    if isinstance(booster, lightgbm.LGBMClassifier):
        return booster.booster_.current_iteration()
    return booster.best_iteration + 1 if isinstance(booster, xgboost.XGBClassifier) else booster.tree_count_


@every_booster
def test_early_stopping_on_soft_labels(data, make):
    X, _, Q = data
    size = "iterations" if make is cat else "n_estimators"
    student = make(**STOPPING[make.__name__] | {size: 300, "learning_rate": 0.3})
    own = SoftLabelClassifier(student, random_state=0, validation_fraction=0.3).fit(X, Q)
    assert 1 <= rounds_used(own.estimator_) < 100
    again = SoftLabelClassifier(student, random_state=0, validation_fraction=0.3).fit(X, Q)
    np.testing.assert_array_equal(own.predict_proba(X), again.predict_proba(X))
    given = SoftLabelClassifier(student).fit(X[:200], Q[:200], eval_set=[(X[200:], Q[200:])])
    assert 1 <= rounds_used(given.estimator_) < 100
    # The loss that it stopped by is the soft cross-entropy of the rows that were set aside.
    best = -(Q[200:] * np.log(given.predict_proba(X[200:]))).sum(axis=1).mean()
    reported = given.estimator_.best_score_ if make is lgbm else None
    if make is xgb:
        assert given.estimator_.best_score == pytest.approx(best, rel=1e-5)
    elif make is lgbm:
        assert next(iter(next(iter(reported.values())).values())) == pytest.approx(best, rel=1e-5)
    else:
        assert next(iter(given.estimator_.best_score_["validation"].values())) == pytest.approx(best, rel=1e-5)


@every_booster
def test_columns_of_an_eval_set_follow_their_names(make):
    X, y = make_classification(200, 8, n_informative=5, n_classes=3, random_state=1)
    Q = pd.DataFrame(0.7 * np.eye(3)[y] + 0.1, columns=["c", "a", "b"])
    student = SoftLabelClassifier(make(**STOPPING[make.__name__]))
    one = student.fit(X[:150], Q[:150], eval_set=[(X[150:], Q[150:])]).predict_proba(X)
    other = student.fit(X[:150], Q[:150], eval_set=(X[150:], Q.loc[150:, ["a", "b", "c"]])).predict_proba(X)
    np.testing.assert_array_equal(one, other)


@every_booster
def test_clone_pickle_and_search(data, make):
    X, y, Q = data
    fitted = SoftLabelClassifier(make()).fit(X, Q)
    revived = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(revived.predict_proba(X), fitted.predict_proba(X))
    assert len(pickle.dumps(fitted)) < 2e6  # the soft labels are not in there
    again = SoftLabelClassifier(clone(fitted.estimator)).fit(X, Q)
    np.testing.assert_array_equal(again.predict_proba(X), fitted.predict_proba(X))
    depth = "depth" if make is cat else "max_depth"
    search = GridSearchCV(SoftLabelClassifier(make()), {f"estimator__{depth}": [1, 4]}, cv=2).fit(X, Q)
    assert search.best_params_ == {f"estimator__{depth}": 4}  # six features decide: single splits are worse
    assert search.best_estimator_.estimator_.get_params()[depth] == 4
    assert search.score(X, y) > 0.6


def test_lightgbm_saves_a_model_that_gives_probabilities(data, tmp_path):
    X, _, Q = data
    fitted = SoftLabelClassifier(lgbm()).fit(X, Q)
    fitted.estimator_.booster_.save_model(tmp_path / "model.txt")
    P = lightgbm.Booster(model_file=tmp_path / "model.txt").predict(X)
    np.testing.assert_allclose(P if P.ndim == 2 else np.column_stack([1 - P, P]), fitted.predict_proba(X), atol=1e-12)
    assert fitted.estimator_.feature_importances_.sum() > 0


def test_xgboost_saves_a_model_that_gives_probabilities(data, tmp_path):
    X, _, Q = data
    fitted = SoftLabelClassifier(xgb()).fit(X, Q)
    fitted.estimator_.save_model(tmp_path / "model.json")
    loaded = xgboost.XGBClassifier()
    loaded.load_model(tmp_path / "model.json")
    np.testing.assert_allclose(loaded.predict_proba(X), fitted.predict_proba(X), atol=1e-6)
    assert fitted.estimator_.feature_importances_.sum() == pytest.approx(1, abs=1e-5)


def test_catboost_saves_a_model_that_gives_probabilities(data, tmp_path):
    X, _, Q = data
    fitted = SoftLabelClassifier(cat()).fit(X, Q)
    fitted.estimator_.save_model(str(tmp_path / "model.cbm"))
    loaded = catboost.CatBoostClassifier()
    loaded.load_model(str(tmp_path / "model.cbm"))
    np.testing.assert_allclose(loaded.predict_proba(X), fitted.predict_proba(X), atol=1e-12)
    assert fitted.estimator_.feature_importances_.sum() == pytest.approx(100)


@every_booster
def test_categories_and_missing_values(data, make):
    """A column of categories, and one with holes, that decide the class."""
    X, _, _ = data
    rng = np.random.default_rng(0)
    colour = rng.choice(["blue", "green", "red"], len(X))
    Q = np.where(colour == "red", 0.9, 0.05)[:, None] * [1, 0] + np.where(colour == "red", 0.1, 0.95)[:, None] * [0, 1]
    Q = np.column_stack([Q, np.zeros(len(X))]) * 0.9 + 0.1 / 3
    frame = pd.DataFrame(X[:, :2], columns=["u", "v"])
    frame["colour"] = pd.Categorical(colour)
    frame.loc[::3, "u"] = np.nan
    extra = {"xgb": {"enable_categorical": True}, "cat": {"cat_features": ["colour"]}}.get(make.__name__, {})
    clf = SoftLabelClassifier(make(**extra, **STOPPING[make.__name__]), random_state=0).fit(frame, Q)
    assert clf.score(frame, Q) > 0.95
    if make is not cat:  # which has feature_names_ instead
        assert clf.feature_names_in_.tolist() == ["u", "v", "colour"]


@every_booster
def test_as_the_student_of_a_distiller_and_behind_a_pipeline(make):
    X, y = make_classification(300, 8, n_informative=6, n_classes=3, random_state=0)
    teachers = [lgbm().fit(X[y != k], y[y != k]) for k in range(3)]
    rounds = {"iterations" if make is cat else "n_estimators": 100, "learning_rate": 0.2}
    student = make_pipeline(StandardScaler(), make(**STOPPING[make.__name__] | rounds))
    clf = HeterogeneousDistiller(teachers, student).fit(X)
    assert clf.score(X, y) > 0.7
    assert log_loss(y, clf.predict_proba(X)) < 1.0
    depth = "depth" if make is cat else "max_depth"
    search = GridSearchCV(HeterogeneousDistiller(teachers, make()), {f"student__{depth}": [1, 4]}, cv=2).fit(X, y)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    revived = pickle.loads(pickle.dumps(search.best_estimator_))
    np.testing.assert_array_equal(revived.predict(X), search.predict(X))


@every_booster
def test_class_without_any_weight(data, make):
    X, _, Q = data
    padded = np.column_stack([Q, np.zeros(len(Q))])
    P = SoftLabelClassifier(make()).fit(X, padded).predict_proba(X)
    assert P.shape == padded.shape
    assert P[:, -1].max() < 0.05 if make is not cat else np.isfinite(P).all()


@every_booster
def test_trees_without_any_split_give_the_mean(make):
    Q = np.random.default_rng(0).dirichlet([1, 2, 3], 600)
    params = {"lgbm": {"min_split_gain": 1e6}, "xgb": {"gamma": 1e6}, "cat": {"min_data_in_leaf": 1}}
    student = make(**params[make.__name__])
    P = SoftLabelClassifier(student).fit((np.arange(600) % 2)[:, None], Q).predict_proba([[0], [1]])
    np.testing.assert_allclose(P, np.tile(Q.mean(axis=0), (2, 1)), atol=0.02 if make is not cat else 0.15)


@pytest.mark.parametrize(
    ("student", "message"),
    [
        (lgbm(objective="multiclassova"), "objective='multiclassova' of LGBMClassifier"),
        (lgbm(is_unbalance=True), "is_unbalance=True of LGBMClassifier is not supported: use class_weight"),
        (xgb(objective="multi:other"), "objective='multi:other' of XGBClassifier"),
        (xgb(scale_pos_weight=3), "scale_pos_weight=3 of XGBClassifier is not supported"),
        (cat(loss_function="MultiClassOneVsAll"), "loss_function='MultiClassOneVsAll'"),
        (cat(auto_class_weights="Balanced"), "auto_class_weights='Balanced'"),
    ],
)
def test_settings_that_mean_nothing_on_soft_labels(data, student, message):
    X, _, Q = data
    with pytest.raises(ValueError, match=message):
        SoftLabelClassifier(student).fit(X, Q)


@pytest.mark.parametrize("params", [{"application": "multiclass"}, {"unbalance": True}, {"pos_bagging_fraction": 0.5}])
def test_other_names_of_lightgbms_parameters(data, params):
    X, _, Q = data
    with pytest.raises(ValueError, match=f"{next(iter(params))}=.* of LGBMClassifier is not supported"):
        SoftLabelClassifier(lgbm(**params)).fit(X, Q)
    with pytest.raises(ValueError, match="random forests cannot"):
        SoftLabelClassifier(lgbm(boosting_type="rf", subsample=0.5, subsample_freq=1)).fit(X, Q)


@pytest.mark.parametrize("params", [{"linear_tree": True}, {"linear_trees": True}, {"boosting_type": "dart"}], ids=str)
def test_lightgbm_predicts_what_it_trained(data, params):
    """The start of the scores is neither lost nor counted twice."""
    X, _, Q = data
    clf = SoftLabelClassifier(lgbm(**params)).fit(X[:300], Q[:300], eval_set=[(X[300:], Q[300:])])
    reported = next(iter(clf.estimator_.evals_result_["valid_0"].values()))[-1]
    assert -(Q[300:] * np.log(clf.predict_proba(X[300:]))).sum(axis=1).mean() == pytest.approx(reported, rel=1e-4)


def test_xgboost_random_forests(data):
    X, y, _ = data
    student = xgboost.XGBRFClassifier(n_estimators=5, random_state=0, n_jobs=1)
    soft = SoftLabelClassifier(student, classes=list("abcd")[: y.max() + 1]).fit(X, np.eye(y.max() + 1)[y])
    np.testing.assert_allclose(soft.predict_proba(X), student.fit(X, y).predict_proba(X), atol=2e-6)


@pytest.mark.parametrize("learning_rate", [None, 0.1])
def test_catboost_is_its_own_classifier_with_an_eval_set_too(data, learning_rate):
    X, y, _ = data
    H = np.eye(y.max() + 1)[y]
    student = cat(**{} if learning_rate is None else {"learning_rate": learning_rate})
    soft = SoftLabelClassifier(student).fit(X[:300], H[:300], eval_set=[(X[300:], H[300:])])
    plain = student.copy().fit(X[:300], y[:300], eval_set=(X[300:], y[300:]))
    np.testing.assert_allclose(soft.predict_proba(X), plain.predict_proba(X), atol=1e-6)
    np.testing.assert_array_equal(np.ravel(soft.estimator_.predict(X)), np.ravel(plain.predict(X)))
    np.testing.assert_array_equal(soft.estimator_.classes_, plain.classes_)


def test_catboost_parameters_that_are_lists(data):
    X, y, Q = data
    student = SoftLabelClassifier(cat(ignored_features=[0], eta=0.1))
    assert np.isfinite(clone(student).fit(X, Q).predict_proba(X)).all()
    assert clone(student).fit(X, y).score(X, y) > 0.5
    with pytest.raises(ValueError, match="objective='MultiClass'"):
        SoftLabelClassifier(cat(objective="MultiClass")).fit(X, Q)


@every_booster
def test_a_pipeline_of_one_step_passes_the_eval_set_on(data, make):
    X, _, Q = data
    few = STOPPING[make.__name__] | {"iterations" if make is cat else "n_estimators": 300, "learning_rate": 0.3}
    alone = SoftLabelClassifier(make(**few)).fit(X[:300], Q[:300], eval_set=[(X[300:], Q[300:])])
    piped = SoftLabelClassifier(make_pipeline(make(**few))).fit(X[:300], Q[:300], eval_set=[(X[300:], Q[300:])])
    np.testing.assert_allclose(piped.predict_proba(X), alone.predict_proba(X), atol=1e-12)


def few_rows(n, L, constant=False):
    X = np.ones((n, 2)) if constant else np.random.default_rng(n).normal(size=(n, 2))
    return X, np.arange(n) % L


@pytest.mark.parametrize(("make", "L"), [(lgbm, 2), (lgbm, 3), (xgb, 2), (xgb, 3), (cat, 2)])
@pytest.mark.parametrize("n", [3, 5, 20, 40, 41])
def test_few_rows_give_the_librarys_own_classifier(make, n, L):
    X, y = few_rows(n, L)
    soft, plain = SoftLabelClassifier(make()).fit(X, np.eye(L)[y]), make().fit(X, y)
    np.testing.assert_allclose(soft.predict_proba(X), plain.predict_proba(X), atol=2e-6)


@pytest.mark.parametrize("make", [lgbm, xgb])
@pytest.mark.parametrize("L", [2, 3])
@pytest.mark.parametrize("n", [3, 41, 300])
def test_features_without_any_split_give_the_mean(make, n, L):
    X, y = few_rows(n, L, constant=True)
    soft, plain = SoftLabelClassifier(make()).fit(X, np.eye(L)[y]), make().fit(X, y)
    np.testing.assert_allclose(soft.predict_proba(X), plain.predict_proba(X), atol=2e-6)
    np.testing.assert_allclose(plain.predict_proba(X), np.tile(np.bincount(y) / n, (n, 1)), atol=0.02)


@pytest.mark.parametrize("kind", ["sparse", "frame", "list", "rare", "weighted"])
def test_lightgbm_without_any_split_on_every_kind_of_rows(kind):
    X, y = few_rows(60, 3, constant=True)
    X[:5, 0] = 2.0 if kind == "rare" else 1.0
    student, weight = lgbm(min_child_samples=7), np.arange(60.0) if kind == "weighted" else None
    kinds = {"sparse": csr_matrix, "frame": pd.DataFrame, "list": lambda rows: rows.tolist()}
    X = kinds.get(kind, np.asarray)(X)
    clf = SoftLabelClassifier(student).fit(X, np.eye(3)[y], weight)
    mean = np.average(np.eye(3)[y], axis=0, weights=weight)
    np.testing.assert_allclose(clf.predict_proba(X), np.tile(mean, (60, 1)), atol=1e-6)
    assert clf.estimator_.get_params().get("feature_pre_filter", True) is True


def test_one_class_and_one_row():
    for make in BOOSTERS:
        for n in (1, 5):
            clf = SoftLabelClassifier(make(), classes=["only"]).fit(np.ones((n, 2)), np.ones((n, 1)))
            assert clf.predict(np.ones((2, 2))).tolist() == ["only", "only"]


def test_fewer_rows_than_classes():
    for make in (lgbm, xgb):
        with pytest.raises(ValueError, match="as many rows as classes"):
            SoftLabelClassifier(make()).fit(np.eye(3), np.full((3, 5), 0.2))


def test_catboost_says_what_makes_it_faster(monkeypatch):
    X, y = make_classification(
        40, 4, n_informative=4, n_redundant=0, n_classes=3, n_clusters_per_class=1, random_state=0
    )
    monkeypatch.setattr("sklearn_uhc.students.catboost.find_spec", lambda name: None)
    student = cat(iterations=1, learning_rate=0.1)
    for model in (student, make_pipeline(student)):
        with pytest.warns(UserWarning, match="pip install numba") as told:
            SoftLabelClassifier(model).fit(X, 0.7 * np.eye(3)[y] + 0.1)
        assert [warning.filename for warning in told] == [__file__]
