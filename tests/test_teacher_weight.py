"""Teacher weights: a weight of 2 equals two such teachers."""

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier

from sklearn_uhc import (
    CrossEntropyUnifier,
    FindingWarning,
    HeterogeneousDistiller,
    LabelSpace,
    TeacherCalibrator,
    TeacherMerger,
    UnifiedEnsemble,
)
from sklearn_uhc.merging.calibration import LEAST_OVERLAP, overlap
from sklearn_uhc.solvers import blocks_of, ce
from tests.helpers import METHOD_NAMES, linear_teachers, make_method, random_lists, random_outputs

LISTS = [[0, 1, 2], [1, 2, 3], [0, 3, 4], [2, 4]]


@pytest.fixture
def Z():
    return random_outputs(np.random.default_rng(0), LISTS, 40)


@pytest.mark.parametrize("name", [name for name in METHOD_NAMES if name != "mf_lu"])
def test_a_weight_of_two_is_two_such_teachers(name, Z):
    block = LabelSpace(LISTS).blocks[1]
    twice = make_method(name, [*LISTS, LISTS[1]]).fit_transform(np.hstack([Z, Z[:, block]]))
    weighted = make_method(name, LISTS, teacher_weight=[1, 2, 1, 1]).fit_transform(Z)
    np.testing.assert_allclose(weighted, twice, atol=2e-6)


def test_a_weight_of_two_is_two_such_teachers_up_to_the_ridge_of_mf_lu(Z):
    block = LabelSpace(LISTS).blocks[1]
    params = {"lam": 1e-4, "gauge": "paper"}
    twice = make_method("mf_lu", [*LISTS, LISTS[1]], **params).fit_transform(np.hstack([Z, Z[:, block]]))
    weighted = make_method("mf_lu", LISTS, teacher_weight=[1, 2, 1, 1], **params).fit_transform(Z)
    ratio = np.log(weighted) - np.log(weighted).mean(axis=1, keepdims=True)
    other = np.log(twice) - np.log(twice).mean(axis=1, keepdims=True)
    cosine = (ratio * other).sum(axis=1) / np.linalg.norm(ratio, axis=1) / np.linalg.norm(other, axis=1)
    assert np.median(cosine) > 0.999  # the gauge sets another scale, and a few rows end in other optima


@pytest.mark.parametrize("name", METHOD_NAMES)
def test_equal_weights_of_any_size_change_nothing(name, Z):
    expected = make_method(name, LISTS).fit_transform(Z)
    np.testing.assert_allclose(make_method(name, LISTS, teacher_weight=[7.0] * 4).fit_transform(Z), expected, atol=1e-7)


@pytest.mark.parametrize("name", ["ce", "mf_lf", "sd"])
def test_a_tiny_weight_takes_a_teacher_out(name):
    lists = [[0, 1, 2], [1, 2, 3], [0, 3, 1], [2, 3, 0]]
    Z = random_outputs(np.random.default_rng(1), lists, 30)
    rest = make_method(name, lists[:3]).fit_transform(Z[:, :9])
    weighted = make_method(name, lists, teacher_weight=[1, 1, 1, 1e-7]).fit_transform(Z)
    np.testing.assert_allclose(weighted, rest, atol=1e-5)


def test_weighted_ce_meets_its_certificate(Z):
    blocks = blocks_of(LabelSpace(LISTS))
    w = np.array([0.2, 1.0, 3.0, 0.5])
    P = np.exp(blocks.log_softmax(Z))
    solved = ce.solve_ce(P, blocks, weight=w)
    assert solved.residual.max() < 1e-9
    # Stationarity in q itself: the weighted sums of p and of q restricted to the lists are the same.
    restricted = np.exp(blocks.log_softmax(blocks.by_class(np.log(solved.u))))
    np.testing.assert_allclose(((P - restricted) * w[blocks.teacher_of]) @ blocks.to_class, 0, atol=1e-8)


@pytest.mark.parametrize(
    "weight", [[1, 2], [1, 1, 1, 0], [1, 1, 1, np.nan], [1, 1, 1, -1], "trust", [[1, 1, 1, 1]], []]
)
@pytest.mark.parametrize("name", METHOD_NAMES)
def test_wrong_weights(name, weight, Z):
    with pytest.raises(ValueError, match="teacher_weight"):
        make_method(name, LISTS, teacher_weight=weight).fit(Z)


def test_distiller_and_ensemble_pass_weights_on():
    X, weight = np.random.default_rng(2).normal(size=(50, 3)), [1.0, 2.0, 0.5, 1.0]
    teachers = linear_teachers(LISTS)
    clf = HeterogeneousDistiller(TeacherMerger(teachers, teacher_weight=weight), RandomForestClassifier(5)).fit(X)
    assert clf.merger_.teacher_weight_.tolist() == weight
    ensemble = UnifiedEnsemble(TeacherMerger(teachers, teacher_weight=weight)).fit(X)
    assert ensemble.merger_.teacher_weight_.tolist() == weight
    method = CrossEntropyUnifier(teacher_weight=weight)
    np.testing.assert_array_equal(
        UnifiedEnsemble(teachers, method=method).fit(X).predict_proba(X), ensemble.predict_proba(X)
    )
    assert ensemble.merger_.method_.teacher_weight is None  # parameters are left as they were given
    with pytest.raises(ValueError, match=r"one positive number per teacher, got .trust"):
        UnifiedEnsemble(TeacherMerger(teachers, teacher_weight="trust")).fit(X)


def noisy(seed=3):
    rng = np.random.default_rng(seed)
    lists = random_lists(rng, 8, 6, 4, 6)
    Z = random_outputs(rng, lists, 500, spread=2.0, noise=0.7)
    block = LabelSpace(lists).blocks[4]
    Z[:, block] = 10 * rng.normal(size=Z[:, block].shape)
    return lists, Z


@pytest.mark.parametrize("calibrate", [True, False, "auto", TeacherCalibrator(n_rounds=2)])
def test_a_teacher_that_answers_at_random_loses_its_weight(calibrate):
    lists, Z = noisy()
    clf = HeterogeneousDistiller(TeacherMerger(None, calibrate=calibrate), RandomForestClassifier(5), class_lists=lists)
    with pytest.warns(FindingWarning, match="Teacher 4 contradicts .* next to no weight"):
        clf.fit(np.zeros((500, 1)), log_p=Z)
    assert (clf.merger_.teacher_weight_ < 1).tolist() == [i == 4 for i in range(6)]
    assert (clf.merger_.calibrator_ is None) == (calibrate is False)


def test_trust_that_is_given_reaches_the_calibration():
    lists = [[0, 1, 2, 3]] * 5
    Z = random_outputs(np.random.default_rng(9), lists, 400, spread=2.0, noise=0.1)
    Z[:, :12] *= 3  # three loud ones of five: what is usual is a matter of trust
    weight = [0.01, 0.01, 0.01, 1, 1]
    clf = HeterogeneousDistiller(
        TeacherMerger(None, teacher_weight=weight), RandomForestClassifier(5), class_lists=lists
    )
    clf.fit(np.zeros((400, 1)), log_p=Z)
    assert clf.merger_.calibrator_.temperatures_[:3].min() > 2
    equal = clf.set_params(teachers__teacher_weight=None).fit(np.zeros((400, 1)), log_p=Z)
    assert equal.merger_.calibrator_.temperatures_[:3].max() < 1.2


def test_overlap_counts_what_can_be_compared():
    triangle = LabelSpace([[0, 1], [1, 2], [0, 2]])  # one spare odds for three teachers
    assert overlap(triangle) == pytest.approx(1 / 3)
    assert overlap(triangle) < LEAST_OVERLAP
    assert overlap(LabelSpace([[0, 1, 2], [0, 1, 2]])) == 1
    assert overlap(LabelSpace([[0, 1, 2]])) == 0
    assert overlap(LabelSpace([[0, 1], [2, 3]])) == 0
    assert overlap(LabelSpace([*LISTS, [0, 1, 2, 3, 4]])) >= LEAST_OVERLAP


@pytest.mark.parametrize("estimator", [UnifiedEnsemble, lambda merger: HeterogeneousDistiller(merger, forest())])
def test_calibration_stands_between_teachers_and_method(estimator):
    X = np.random.default_rng(4).normal(size=(100, 3))
    teachers = linear_teachers([[0, 1, 2], [1, 2, 0], [0, 2, 1]])
    fitted = estimator(TeacherMerger(teachers)).fit(X)
    assert isinstance(fitted.merger_.calibrator_, TeacherCalibrator)
    expected = TeacherCalibrator(fitted.merger_.teacher_outputs_.class_lists_).fit(
        fitted.merger_.teacher_outputs_.transform(X)
    )
    np.testing.assert_allclose(fitted.merger_.calibrator_.temperatures_, expected.temperatures_)
    assert estimator(TeacherMerger(teachers, calibrate=False)).fit(X).merger_.calibrator_ is None
    with pytest.raises(ValueError, match="calibrate must be"):
        estimator(TeacherMerger(teachers, calibrate="always")).fit(X)


def test_calibrate_true_does_not_ask_whether_the_lists_overlap():
    """A triangle of pairs allows one comparison for three teachers: "auto" does not calibrate them."""
    lists = [[0, 1], [1, 2], [0, 2]]
    log_p = random_outputs(np.random.default_rng(14), lists, 400, spread=2.0, noise=0.2) * np.repeat([3, 1, 1], 2)

    def soft_labels(calibrate):
        return TeacherMerger(None, class_lists=lists, calibrate=calibrate).fit_transform(None, log_p=log_p)

    method = make_method("ce", lists)
    calibrated = method.fit_transform(TeacherCalibrator(lists, min_overlap=0).fit_transform(log_p))
    np.testing.assert_allclose(soft_labels(True), calibrated, atol=1e-7)
    np.testing.assert_allclose(soft_labels("auto"), method.fit_transform(log_p), atol=1e-7)
    assert np.abs(soft_labels(True) - soft_labels("auto")).max() > 0.1


def test_ensemble_predicts_with_the_temperatures_of_fit():
    X = np.random.default_rng(5).normal(size=(100, 3))
    teachers = linear_teachers([[0, 1, 2], [1, 2, 0], [0, 2, 1]])
    ensemble = UnifiedEnsemble(teachers, balance=False, temperature=1).fit(X)
    log_p = ensemble.merger_.calibrator_.transform(ensemble.merger_.teacher_outputs_.transform(X[:1]))
    np.testing.assert_allclose(ensemble.predict_proba(X[:1]), ensemble.merger_.method_.transform(log_p))


def forest():
    return RandomForestClassifier(5, random_state=0)


def test_weights_of_a_calibrator_are_checked_before_teachers_are_read():
    class Unread:
        classes_ = np.array([0, 1, 2])

        def predict_proba(self, X):
            raise AssertionError("was read")

    for weight, match in (([1, -1], "one positive number"), ([1, 1], "is ignored in a merge")):
        calibrator = TeacherCalibrator(teacher_weight=weight)
        with pytest.raises(ValueError, match=match):
            UnifiedEnsemble(TeacherMerger([Unread(), Unread()], calibrate=calibrator)).fit(np.zeros((20, 2)))
