"""Class frequencies, told or estimated: merged labels are scaled until their mean is the prior."""

import numpy as np
import pytest
from sklearn.datasets import make_blobs
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier

from sklearn_uhc import HeterogeneousDistiller, TeacherHoldoutSearch, TeacherMerger, UnifiedEnsemble
from sklearn_uhc.merging.class_prior import estimate_prior, fit_scale, read_prior, restrict_prior
from sklearn_uhc.utils.simplex import sharpen

LISTS = ([0, 1, 2], [1, 2, 3], [2, 3, 4], [3, 4, 0], [4, 0, 1])
PRIOR = {0: 0.6, 1: 0.2, 2: 0.1, 3: 0.1, 4: 0.0}


@pytest.fixture(scope="module")
def blobs():
    X, y = make_blobs(750, centers=5, n_features=4, cluster_std=4.0, random_state=0)
    teachers = [LogisticRegression().fit(X[np.isin(y, own)], y[np.isin(y, own)]) for own in LISTS]
    keep = np.random.default_rng(0).random(len(y)) < np.array([1, 1 / 3, 1 / 6, 1 / 6, 0])[y]
    return X[keep], y[keep], teachers


@pytest.mark.parametrize("temperature", [1.0, 3.0])
def test_the_mean_of_the_labels_is_the_prior(blobs, temperature):
    X, _, teachers = blobs
    merger = TeacherMerger(teachers, class_prior=PRIOR, temperature=temperature)
    Q = sharpen(merger.fit_transform(X), temperature)
    np.testing.assert_allclose(Q.mean(axis=0), list(PRIOR.values()), atol=0.005)
    np.testing.assert_allclose(merger.class_frequencies_, Q.mean(axis=0))
    np.testing.assert_allclose(sharpen(merger.transform(X), temperature), Q, atol=1e-12)
    assert (Q[:, 4] == 0).all()


def test_frequencies_help_where_classes_are_uneven(blobs):
    X, y, teachers = blobs
    merged = UnifiedEnsemble(teachers).fit(X).score(X, y)
    for clf in (UnifiedEnsemble(teachers), HeterogeneousDistiller(teachers, KNeighborsClassifier(10))):
        told = clf.set_params(class_prior=PRIOR).fit(X)
        assert told.score(X, y) > merged + 0.02
        assert told.class_weight_ is None
        assert 4 not in told.predict(X)


def test_balance_weights_training_on_top_of_the_prior(blobs):
    X, _, teachers = blobs
    prior = {0: 0.5, 1: 0.2, 2: 0.1, 3: 0.1, 4: 0.1}
    clf = HeterogeneousDistiller(teachers, LogisticRegression(), class_prior=prior, balance=True)
    clf.fit(X)
    np.testing.assert_allclose(clf.class_weight_, 1 / clf.merger_.transform(X).mean(axis=0))
    np.testing.assert_allclose(clf.class_weight_, 1 / np.array(list(prior.values())), rtol=0.05)


def test_an_array_follows_the_classes(blobs):
    X, _, teachers = blobs
    names = [[f"class {k}" for k in own] for own in LISTS]
    a = TeacherMerger(teachers, class_lists=names, class_prior=list(PRIOR.values())).fit_transform(X)
    b = TeacherMerger(teachers, class_lists=names, class_prior={f"class {k}": f for k, f in PRIOR.items()})
    np.testing.assert_array_equal(a, b.fit_transform(X))


@pytest.mark.parametrize(
    ("prior", "message"),
    [
        ({0: 0.5, 1: 0.5}, r"lacks \[2, 3, 4\].*0 for a class that never occurs"),
        ({**PRIOR, 7: 0.0}, r"names \[7\], which no teacher knows"),
        ({**PRIOR, 0: -0.6}, "at least 0, but has -0.6 for 0"),
        ({**PRIOR, 0: float("nan")}, "has nan for 0"),
        ({**PRIOR, 0: "many"}, "must have numbers, but has 'many' for 0"),
        ({**PRIOR, 0: 6}, "sums to 6.4.*use balance"),
        ([0.5, 0.5], r"one number for each of the 5 classes.*shape \(2,\)"),
        ("even", "got 'even'"),
    ],
)
def test_mistakes_are_named_before_a_teacher_is_called(blobs, prior, message):
    X, _, _ = blobs

    class Never(GaussianNB):
        def predict_proba(self, X):
            raise AssertionError("called")

    X_own, y_own = make_blobs(100, centers=5, n_features=4, cluster_std=4.0, random_state=1)
    teachers = [Never().fit(X_own, y_own)]
    for clf in (
        TeacherMerger(teachers),
        HeterogeneousDistiller(teachers, LogisticRegression()),
        UnifiedEnsemble(teachers),
    ):
        with pytest.raises((ValueError, TypeError), match=message):
            clf.set_params(class_prior=prior).fit(X)


def test_a_label_of_a_class_that_never_occurs_is_a_contradiction(blobs):
    X, _, teachers = blobs
    y = np.full(len(X), -1)
    y[:3] = 4
    with pytest.raises(ValueError, match="4 never occurs, but y has 3 rows"):
        UnifiedEnsemble(teachers, class_prior=PRIOR).fit(X, y)


def test_classes_that_only_labels_have_may_be_left_out(blobs):
    X, y, teachers = blobs
    some = np.where(np.arange(len(y)) % 3 == 0, y, -1)
    some[some == 3] = 9
    with pytest.warns(UserWarning, match="no teacher knows"):
        merger = TeacherMerger(teachers, class_prior=PRIOR).fit(X, some)
    found = dict(zip(merger.classes_.tolist(), merger.class_frequencies_, strict=True))
    assert 0.01 < found[9] < 0.5
    assert found[0] == pytest.approx(0.6 * (1 - found[9]), abs=0.02)
    told = {**{k: 0.9 * f for k, f in PRIOR.items()}, 9: 0.1}
    with pytest.warns(UserWarning, match="no teacher knows"):
        merger = TeacherMerger(teachers, class_prior=told).fit(X, some)
    assert merger.class_frequencies_[merger.classes_ == 9] == pytest.approx(0.1, abs=0.02)
    labelled = np.where(some == 9, -1, some)  # a fold of a search without that class
    with pytest.warns(UserWarning, match="no label here shows"):
        merger = TeacherMerger(teachers, class_prior=told).fit(X, labelled)
    assert merger.class_frequencies_[0] == pytest.approx(0.6, abs=0.02)


def test_none_of_these_keeps_its_share_or_gets_the_one_told(sites):
    X, _, _, _, teachers, scorers = sites
    kwargs = dict(membership=scorers, none_label=-1)
    classes = UnifiedEnsemble(teachers, **kwargs).fit(X).classes_
    known = classes[classes != -1].tolist()
    prior = {label: (3 if label < 5 else 1) for label in known}
    prior = {label: f / sum(prior.values()) for label, f in prior.items()}
    merged = UnifiedEnsemble(teachers, **kwargs).fit(X).merger_.class_frequencies_[0]
    free = UnifiedEnsemble(teachers, class_prior=prior, **kwargs).fit(X).merger_.class_frequencies_
    assert free[0] == pytest.approx(merged, abs=0.01)
    np.testing.assert_allclose(free[1:] / free[1:].sum(), list(prior.values()), atol=0.02)
    told = {-1: 0.2, **{label: 0.8 * f for label, f in prior.items()}}
    found = UnifiedEnsemble(teachers, class_prior=told, **kwargs).fit(X).merger_.class_frequencies_
    assert found[0] == pytest.approx(0.2, abs=0.01)


def test_classes_lost_with_held_out_teachers_leave_the_prior(blobs):
    X, _, teachers = blobs
    lists = [list(map(str, own)) for own in LISTS]
    lists[0][0] = "only here"
    prior = {**{str(k): 0.15 for k in range(5)}, "only here": 0.25}
    clf = HeterogeneousDistiller(teachers, KNeighborsClassifier(), class_lists=lists)
    grid = {"class_prior": [None, prior], "student__n_neighbors": [3, 9]}
    search = TeacherHoldoutSearch(clf, grid, error_score="raise").fit(X)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    classes = np.array([*map(str, range(5)), "only here"])
    assert restrict_prior(prior, classes, classes[:5]) == pytest.approx({str(k): 0.2 for k in range(5)})
    assert restrict_prior({"a": 0.0, "b": 1.0}, np.array(["a", "b"]), np.array(["a"])) is None


def test_a_search_can_compare_priors(blobs):
    X, y, teachers = blobs
    clf = UnifiedEnsemble(TeacherMerger(teachers, label_model=None))
    search = GridSearchCV(clf, {"class_prior": [None, PRIOR]}, cv=2, error_score="raise")
    search.fit(X, np.where(np.arange(len(y)) % 2 == 0, y, -1))
    assert set(search.cv_results_["rank_test_score"]) <= {1, 2}


def test_rows_of_excluded_classes_only_get_the_prior():
    Q = np.array([[0.0, 0.0, 1.0], [0.5, 0.5, 0.0], [0.9, 0.1, 0.0]])
    scale = fit_scale(Q, np.array([0.5, 0.5, 0.0]))
    scaled = scale.apply(Q)
    np.testing.assert_allclose(scaled[0], [0.5, 0.5, 0.0])
    assert np.isfinite(scaled).all()
    assert (scaled[:, 2] == 0).all()


def test_tiny_frequencies_are_raised_and_weights_count():
    Q = np.random.default_rng(0).dirichlet(np.ones(4), size=200)
    scale = fit_scale(Q, np.array([1 - 2e-9 - 1e-9, 1e-9, 1e-9, 1e-9]))
    assert scale.prior.min() > 0.005
    weights = np.r_[np.ones(100), np.zeros(100)]
    some, half = fit_scale(Q, np.full(4, 0.25), weights=weights), fit_scale(Q[:100], np.full(4, 0.25))
    np.testing.assert_allclose(some.factors, half.factors)


def test_torch_answers_are_scaled_like_arrays(blobs):
    torch = pytest.importorskip("torch")
    X, _, teachers = blobs
    merger = TeacherMerger(teachers).fit(X)
    log_p, lists = merger.answers(X).log_p, [t.classes_ for t in teachers]
    given = TeacherMerger(None, class_lists=lists, class_prior=PRIOR)
    a = given.fit_transform(None, log_p=log_p)
    b = given.fit_transform(None, log_p=torch.as_tensor(log_p))
    np.testing.assert_allclose(np.asarray(b), a, atol=1e-8)


def test_backpropagation_refuses_a_prior(blobs):
    pytest.importorskip("skorch")
    torch = pytest.importorskip("torch")
    X, _, teachers = blobs
    clf = HeterogeneousDistiller(teachers, torch.nn.Linear(4, 5), backprop=True, class_prior=PRIOR)
    with pytest.raises(ValueError, match="class_prior scales soft labels"):
        clf.fit(X.astype("float32"))


def test_reading_a_prior():
    classes = np.array(["a", "b"])
    assert read_prior(None, classes, np.zeros(2, dtype=bool)) is None
    np.testing.assert_allclose(read_prior({"a": 0.333, "b": 0.66}, classes, np.zeros(2, dtype=bool)).sum(), 1)


def test_counts_that_errors_explain_are_even_and_others_are_kept():
    every = np.ones(4, dtype=bool)
    near = np.eye(4)[np.repeat(range(4), [300, 270, 230, 200])]
    np.testing.assert_allclose(estimate_prior(near, every), 0.25)
    far = np.eye(4)[np.repeat(range(4), [700, 300, 0, 0])]
    found = estimate_prior(far, every)
    np.testing.assert_allclose(found, [0.67, 0.29, 0.02, 0.02], atol=0.02)
    np.testing.assert_allclose(estimate_prior(far[:, ::-1], every), found[::-1])
    assert 0.5 < estimate_prior(far[::100], every)[0] < 0.6  # ten rows show less
    assert estimate_prior(far[:1], every).tolist() == [0.25] * 4  # one row shows nothing


def test_weights_ties_and_other_classes_count_in_estimates():
    Q = np.array([[0.5, 0.5, 0.0], [0.2, 0.1, 0.7]] * 300)
    found = estimate_prior(Q, np.array([True, True, False]))  # rows of the third class do not count
    np.testing.assert_allclose(found[:2], 0.5)
    assert np.isnan(found[2])
    weighted = estimate_prior(np.eye(3)[[0, 1, 2] * 99], np.ones(3, dtype=bool), np.tile([8.0, 1.0, 1.0], 99))
    np.testing.assert_allclose(weighted, [0.75, 0.125, 0.125], atol=0.02)


@pytest.mark.parametrize("shares", [[1, 1, 1, 1, 1], [1, 1 / 3, 1 / 6, 1 / 6, 0]])
def test_estimates_are_nearer_to_the_truth_than_labels_as_merged(shares):
    X, y = make_blobs(1500, centers=5, n_features=4, cluster_std=4.0, random_state=0)
    teachers = [
        LogisticRegression().fit(X[:500][mine], y[:500][mine]) for mine in (np.isin(y[:500], own) for own in LISTS)
    ]
    keep = 500 + np.flatnonzero(np.random.default_rng(0).random(1000) < np.array(shares)[y[500:]])
    truth = np.bincount(y[keep], minlength=5) / len(keep)
    merged, auto = (UnifiedEnsemble(teachers, balance=balance).fit(X[keep]) for balance in (False, "auto"))
    far, near = (np.abs(clf.merger_.class_frequencies_ - truth).sum() for clf in (merged, auto))
    assert near < far
    assert auto.score(X[keep], y[keep]) > merged.score(X[keep], y[keep]) - 0.005


def test_told_frequencies_replace_the_estimate_and_labels_correct_it(blobs):
    X, y, teachers = blobs
    y = np.where(np.arange(len(y)) % 10 == 0, y, -1)
    estimated = UnifiedEnsemble(teachers).fit(X).merger_
    labelled = UnifiedEnsemble(teachers).fit(X, y).merger_
    np.testing.assert_array_equal(labelled.class_scale_.prior, estimated.class_scale_.prior)
    assert labelled.label_pool_ is not None
    repeated = UnifiedEnsemble(teachers).fit(np.repeat(X, 2, axis=0)).merger_.class_scale_.prior
    weighted = UnifiedEnsemble(teachers).fit(X, sample_weight=np.full(len(X), 2.0)).merger_.class_scale_.prior
    np.testing.assert_allclose(weighted, repeated)
    told = UnifiedEnsemble(teachers, class_prior=PRIOR).fit(X).merger_.class_scale_.prior
    assert told[4] == 0
    assert TeacherMerger(teachers, class_prior=None).fit(X).class_scale_ is None
    assert restrict_prior("auto", np.arange(5), np.arange(4)) == "auto"
