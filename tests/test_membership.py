import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.sparse import csr_matrix
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier

from sklearn_uhc import fit_membership
from sklearn_uhc.membership import MembershipScorer


def blobs(n, center, rng, width=4):
    return rng.normal(size=(n, width)) + np.repeat([center], width)


@pytest.fixture
def rows():
    """Own rows around 0; public ones around 0 and 4, half and half."""
    rng = np.random.default_rng(0)
    own = blobs(150, 0, rng)
    public = np.concatenate([blobs(150, 0, rng), blobs(150, 4, rng)])
    return own, public, blobs(200, 0, rng), blobs(200, 4, rng)


def test_own_rows_are_in_and_foreign_ones_out(rows):
    own, public, inside, outside = rows
    scorer = fit_membership(own, public)
    d_in, d_out = scorer.predict_membership(inside), scorer.predict_membership(outside)
    assert d_in.shape == (200,)
    assert 0 <= d_out.min() <= d_in.max() <= 1
    assert d_in.mean() > 0.85
    assert d_out.mean() < 0.02
    # Half of the public rows are own ones: the best classifier ranks 3 of 4 pairs right.
    assert 0.65 < scorer.auroc_ < 0.8


@pytest.mark.parametrize("n_public", [40, 300])
def test_how_many_public_rows_there_are_does_not_matter(rows, n_public):
    own, public, inside, outside = rows
    rng = np.random.default_rng(1)
    d = fit_membership(own, public[rng.permutation(300)[:n_public]])
    assert d.predict_membership(inside).mean() > 0.7
    assert d.predict_membership(outside).mean() < 0.1


@pytest.fixture(scope="module")
def imbalanced():
    """Own rows of two classes, as many of each; nine tenths of the public rows are of the first one."""
    rng = np.random.default_rng(0)
    own, y = np.concatenate([blobs(100, 0, rng), blobs(100, 4, rng)]), np.repeat(["common", "rare"], 100)
    public = np.concatenate([blobs(540, 0, rng), blobs(30, 4, rng), blobs(30, -4, rng)])
    return own, y, public, [blobs(200, center, rng) for center in (0, 4, -4)]


def test_how_frequent_own_classes_are_among_public_rows_does_not_matter(imbalanced):
    own, y, public, (common, rare, foreign) = imbalanced
    scorer = fit_membership(own, public, y_own=y)
    assert scorer.class_offsets_[0] > 2  # relative to own rows, common ones are eighteen times as frequent as rare ones
    assert scorer.predict_membership(common).mean() > 0.8
    assert scorer.predict_membership(rare).mean() > 0.7
    assert scorer.predict_membership(foreign).mean() < 0.2
    # Without their classes, own rows are one class, and common rows seem foreign.
    assert fit_membership(own, public).predict_membership(common).mean() < 0.5


def test_a_class_with_too_few_rows_is_named():
    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(X))
    train, public = order[:600], order[600:1200]
    own = np.concatenate([train[y[train] == 0], train[y[train] == 1][:4]])
    with pytest.warns(UserWarning, match=r"hardly recognises .*\['one'\]"):
        fit_membership(X[own] / 16, X[public] / 16, y_own=np.array(["zero", "one"])[y[own]])


def test_classes_of_one_frequency_keep_one_scale(rows):
    own, public, *_ = rows
    assert fit_membership(own, public, y_own=np.arange(150) % 2).class_offsets_.tolist() == [0, 0]
    assert fit_membership(own, public).class_offsets_.tolist() == [0]


def test_a_class_of_one_row_does_no_harm(rows):
    own, public, inside, _ = rows
    scorer = fit_membership(own, public, y_own=np.where(np.arange(150) == 7, "one", "others"))
    assert scorer.class_offsets_.tolist() == [0, 0]
    assert scorer.predict_membership(inside).mean() > 0.7


@pytest.mark.parametrize(
    ("estimator", "n"), [(DecisionTreeClassifier(random_state=0), 600), (KNeighborsClassifier(1), 300)]
)
def test_a_scorer_that_lets_all_rows_in_is_warned_of(estimator, n):
    X, y = load_digits(return_X_y=True)
    with pytest.warns(UserWarning, match="takes all .*certain of every row"):
        fit_membership(X[:n][y[:n] < 4], X[n : 2 * n], estimator)


@pytest.mark.parametrize("share", [0.2, 0.5, 0.8])
def test_the_mean_membership_of_public_rows_is_the_share_of_own_classes(share):
    rng = np.random.default_rng(3)
    inside = int(400 * share)
    public = np.concatenate([blobs(inside, 0, rng), blobs(400 - inside, 4, rng)])
    d = fit_membership(blobs(150, 0, rng), public).predict_membership(public)
    assert abs(d.mean() - share) < 0.1


@pytest.mark.filterwarnings("ignore:The scorer tells held-out own rows")
def test_a_forest_that_remembers_rows_which_are_own_and_public_keeps_others_out(rows):
    own, public, _, outside = rows
    forest = RandomForestClassifier(10, random_state=0)
    scorer = fit_membership(own, np.concatenate([own, public]), forest)
    assert scorer.auroc_ < 0.5  # held-out own rows were seen as public ones
    assert scorer.predict_membership(outside).mean() < 0.1


def test_a_forest_that_has_seen_the_public_rows_still_lets_own_classes_in(rows):
    own, public, inside, outside = rows
    forest = RandomForestClassifier(50, min_samples_leaf=10, random_state=0)
    scorer = fit_membership(own, public, forest)
    assert roc_auc_score([1] * 200 + [0] * 200, scorer.predict_membership(np.concatenate([inside, outside]))) > 0.95
    assert not hasattr(forest, "estimators_")  # it was cloned


def test_background_keeps_rows_out_that_are_like_neither(rows):
    own, public = rows[:2]
    rng = np.random.default_rng(2)
    unlike = np.column_stack([blobs(200, 0, rng, 2), blobs(200, 4, rng, 2)])
    with_it = fit_membership(own, public).predict_membership(unlike)
    without = MembershipScorer(background=0).fit(own, public).predict_membership(unlike)
    assert with_it.mean() < 0.7 * without.mean()


def test_digits_of_classes_never_seen():
    X, y = load_digits(return_X_y=True)
    train, public, test = np.split(np.random.default_rng(0).permutation(len(X)), [600, 1200])
    scorer = fit_membership(X[train[y[train] < 7]], X[public])
    assert roc_auc_score(y[test] < 7, scorer.predict_membership(X[test])) > 0.9


@pytest.mark.parametrize("form", ["pandas", "polars"])
def test_frames_by_the_names_of_their_columns(rows, form):
    own, public, inside, _ = rows
    names = ["a", "b", "c", "d"]
    make = (lambda X, n: pd.DataFrame(X, columns=n)) if form == "pandas" else (lambda X, n: pl.DataFrame(X, schema=n))
    turned = make(public[:, ::-1], names[::-1])
    scorer = fit_membership(make(own, names), turned)
    plain = fit_membership(own, public)
    more = make(np.column_stack([inside[:, ::-1], inside[:, 0]]), [*names[::-1], "e"])
    np.testing.assert_allclose(scorer.predict_membership(more), plain.predict_membership(inside), rtol=1e-6)
    assert scorer.feature_names_in_.tolist() == names
    with pytest.raises(ValueError, match=r"X lacks the columns \['d'\]"):
        scorer.predict_membership(make(inside[:, :3], names[:3]))


def test_sparse_rows(rows):
    own, public, inside, outside = (np.maximum(X, 0) for X in rows)
    scorer = fit_membership(csr_matrix(own), csr_matrix(public))
    d = scorer.predict_membership(csr_matrix(np.concatenate([inside, outside])))
    assert roc_auc_score([1] * 200 + [0] * 200, d) > 0.95


def test_texts():
    own = ["rain and wind today", "a storm with snow", "sunny sky, no cloud"] * 10
    public = own + ["the team won a match", "a goal for the coach", "league and cup"] * 10
    scorer = fit_membership(own, public, make_pipeline(TfidfVectorizer(), LogisticRegression(C=100)))
    d = scorer.predict_membership(["wind and snow", "the coach of the team"])
    assert d[0] > 0.5 > 0.2 > d[1]
    with pytest.raises(TypeError, match="not a list of str: pass an estimator"):
        fit_membership(own, public)


def test_scores_instead_of_probabilities(rows):
    own, public, inside, outside = rows
    scorer = fit_membership(own, public, LinearSVC())
    assert scorer.predict_membership(inside).mean() > scorer.predict_membership(outside).mean() + 0.3


def test_an_ordinary_estimator(rows):
    own, public, inside, _ = rows
    scorer = MembershipScorer(LogisticRegression(), cv=3).fit(own, public)
    assert clone(scorer).get_params()["estimator__C"] == 1.0
    assert not hasattr(clone(scorer), "estimator_")
    again = pickle.loads(pickle.dumps(scorer))
    np.testing.assert_array_equal(again.predict_membership(inside), scorer.predict_membership(inside))
    assert scorer.n_features_in_ == 4
    with pytest.raises(NotFittedError):
        MembershipScorer().predict_membership(inside)
    with pytest.raises(ValueError, match="expecting 4 features"):
        scorer.predict_membership(inside[:, :2])


def test_the_same_every_time_and_rows_stay_as_they_are(rows):
    own, public, inside, _ = rows
    before = [X.copy() for X in rows]
    one, two = (fit_membership(own, public).predict_membership(inside) for _ in range(2))
    np.testing.assert_array_equal(one, two)
    for X, old in zip(rows, before, strict=True):
        np.testing.assert_array_equal(X, old)


@pytest.mark.parametrize(
    ("own", "public", "options", "message"),
    [
        (np.ones((5, 2)), np.ones((50, 2)), {}, "X_own has 5 rows, but 10 are needed"),
        (np.ones((50, 2)), np.ones((5, 2)), {}, "X_public has 5 rows"),
        (np.ones((50, 2)), np.ones((50, 3)), {}, "rows of different shape"),
        (np.ones((50, 2, 2)), np.ones((50, 2, 2)), {}, "flatten it with"),
        (np.ones((50, 2)), np.ones((50, 2)), {"estimator": LogisticRegression}, "not fitted yet"),
        (np.ones((50, 2)), np.ones((50, 2)), {"estimator": LinearRegression()}, "no predict_proba"),
        (np.ones((50, 2)), np.ones((50, 2)), {"estimator": np.repeat("a", 50)}, "classes of the own rows as y_own="),
        (np.ones((50, 2)), np.ones((50, 2)), {"cv": 1}, "cv must be at least 2"),
        (np.ones((50, 2)), np.ones((50, 2)), {"background": -1}, "background must be a number of at least 0"),
        (np.ones((50, 2)), np.ones((50, 2)), {"cv": 2.5}, "cv must be a positive integer"),
        (pd.DataFrame({"a": range(20)}), pd.DataFrame({"b": range(20)}), {}, "the same columns"),
        (pd.DataFrame({"a": range(20)}), np.ones((20, 1)), {}, "the same form"),
        (np.full((50, 2), np.nan), np.ones((50, 2)), {}, "X_own has NaN or infinity, first in row 0.*estimator="),
        (np.ones((50, 2)), np.diag([1.0] * 49 + [np.inf])[:, -2:], {}, "X_public has NaN .* row 49.*estimator="),
        (np.full((50, 2), "x"), np.full((50, 2), "y"), {}, "numbers only, .* array of type <U1.*estimator="),
        (
            pd.DataFrame({"n": range(20), "t": ["x"] * 20}),
            pd.DataFrame({"n": range(20), "t": ["y"] * 20}),
            {},
            "numbers only, but the rows have column 't': pass estimator=",
        ),
    ],
)
def test_errors(own, public, options, message):
    with pytest.raises((TypeError, ValueError), match=message):
        MembershipScorer(**options).fit(own, public)


def test_every_own_row_needs_a_class():
    own, public = np.random.default_rng(0).normal(size=(2, 20, 2))
    labels = np.array(["a", "b", None, None] * 5, dtype=object)
    with pytest.raises(ValueError, match=r"y_own has no label for 10 rows.*row 2"):
        fit_membership(own, public, y_own=labels)


def test_a_scorer_that_has_learned_nothing_says_so(rows):
    own, _, inside, _ = rows
    with pytest.warns(UserWarning, match=r"no better than chance.*Public rows should include classes"):
        fit_membership(own, own)
    assert fit_membership(own, np.concatenate([inside, own + 4])).auroc_ > 0.6  # warnings are errors
