"""Temperatures learned without labels: their certificate, what they recover, and when they do not change."""

import warnings

import numpy as np
import pytest
import sklearn
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax, logsumexp, softmax
from sklearn.base import clone
from sklearn.datasets import load_iris, make_blobs
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sklearn_uhc import (
    FunctionTeacher,
    LabelSpace,
    LogitFactorization,
    TeacherCalibrator,
    TeacherMerger,
    UnifiedEnsemble,
)
from sklearn_uhc.merging.calibration import LEAST_OVERLAP, overlap
from sklearn_uhc.solvers import blocks_of
from sklearn_uhc.solvers.leave_one_out import BOUNDS, Part, best_temperatures, shrink, weighted_median
from sklearn_uhc.teachers.roster import check_teachers
from sklearn_uhc.utils.rows import some_rows
from tests.helpers import random_outputs

LISTS = [[0, 1, 2, 3], [2, 3, 4], [0, 1, 4, 5], [1, 3, 5], [0, 2, 4, 5]]


def tempered(rng, lists, log_tau, n=400, noise=0.5):
    """Answers that agree up to noise, teacher i multiplied by its temperature."""
    space = LabelSpace(lists)
    Z = random_outputs(rng, lists, n, spread=2.0, noise=noise)
    return Z * np.repeat(np.exp(log_tau), [len(c) for c in space.columns])


def one_part(X, lists):
    space = LabelSpace(lists)
    blocks = blocks_of(space)
    return Part.of(X, blocks, np.ones(len(lists)))


@pytest.mark.parametrize("lists", [LISTS, [[0, 1, 2, 3], [0, 1], [2, 3]], [[0, 1, 2], [0, 1, 2]]])
def test_temperature_minimises_the_cross_entropy_against_the_others_merged(lists):
    """Compare with the definition: merge the others by the public method, then search for one temperature."""
    X = tempered(np.random.default_rng(0), lists, np.linspace(-0.5, 0.7, len(lists)))
    part, ones = one_part(X, lists), np.ones(len(lists))
    found, _ = best_temperatures([part], [part.targets(ones)], ones, part.blocks.M.shape[1])
    space = LabelSpace(lists)
    Q = LogitFactorization(lists, temperature=1).fit_transform(X)
    for i, block in enumerate(space.blocks):
        rest = [k for k in range(len(lists)) if k != i]
        others = LabelSpace([lists[k] for k in rest])
        merged = others_merged(X, space, rest, others)
        groups = list(shared_groups(space.class_lists[i], others))
        own, weight = X[:, block], np.sqrt(Q[:, space.columns[i]].sum(axis=1))

        def loss(x, groups=groups, own=own, merged=merged, weight=weight):
            pairs = [(merged[:, there], np.exp(x) * own[:, here]) for here, there in groups]
            return sum((weight * cross_entropy(*pair)).sum() for pair in pairs)

        best = minimize_scalar(loss, bounds=(-5, 3), method="bounded", options={"xatol": 1e-8}).x
        assert found[i] == pytest.approx(-best, abs=1e-4)


def others_merged(X, space, rest, others):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        columns = np.concatenate([np.arange(X.shape[1])[space.blocks[k]] for k in rest])
        return np.log(LogitFactorization(others.class_lists, temperature=1).fit_transform(X[:, columns]))


def shared_groups(own, others):
    for group in others.groups():
        both = np.intersect1d(own, group)
        if len(both) > 1:
            yield [list(own).index(c) for c in both], np.searchsorted(others.classes, both)


def cross_entropy(target_logits, logits):
    t = softmax(target_logits, axis=1)
    return logsumexp(logits, axis=1) - (t * logits).sum(axis=1)


def test_known_temperatures_are_recovered():
    rng, true = np.random.default_rng(1), np.array([0.0, 1.0, -0.5, 0.3, 0.0])
    X = tempered(rng, LISTS, true, n=2000, noise=0.0)
    found = np.log(TeacherCalibrator(LISTS, tolerance=0.0, n_rounds=60).fit(X).temperatures_)
    np.testing.assert_allclose(found, true, atol=0.03)
    gentle = np.log(TeacherCalibrator(LISTS).fit(X).temperatures_)
    assert np.abs(gentle - true).max() < 0.5 * np.abs(true).max()


def test_what_all_have_in_common_stays():
    X = tempered(np.random.default_rng(2), LISTS, np.array([0.0, 0.8, -0.4, 0.2, 0.0]))
    calibrator = TeacherCalibrator(LISTS).fit(X)
    assert np.median(calibrator.temperatures_) == pytest.approx(1.0)


def test_teachers_that_differ_by_noise_only_are_left_alone():
    close = []
    for seed in range(5):
        X = tempered(np.random.default_rng(seed), LISTS, np.zeros(5), n=60, noise=2.0)
        close.append(np.abs(np.log(TeacherCalibrator(LISTS).fit(X).temperatures_)).max())
    assert np.median(close) < 0.2


def test_teachers_of_one_kind_are_left_exactly_as_they_are():
    """However many rows show that their temperatures differ by a tenth."""
    X = tempered(np.random.default_rng(11), LISTS, np.array([0.1, -0.1, 0.0, 0.1, -0.1]), n=4000, noise=0.1)
    assert (TeacherCalibrator(LISTS).fit(X).temperatures_ == 1).all()
    assert (TeacherCalibrator(LISTS, tolerance=0).fit(X).temperatures_ != 1).any()


def test_evidence_decides_how_much_is_shrunk():
    log_tau = np.array([0.0, 1.0, 0.8, -1.0, -1.0])
    error = np.array([0.1, 0.1, 2.0, 0.1, np.inf])
    ones = np.ones(5)
    out = shrink(log_tau, error, ones, 0.0)
    away = log_tau - 0.4  # less the median of those with evidence
    assert 0.9 * away[1] < out[1] < away[1]
    assert 0 < out[2] < 0.2 * away[2]
    assert out[4] == 0
    assert (shrink(log_tau, np.full(5, 2.0), ones, 0.0) == 0).all()
    np.testing.assert_array_equal(shrink(log_tau, error, ones, 0.5), shrink(log_tau, np.hypot(error, 0.5), ones, 0.0))


@pytest.mark.parametrize("n", [1, 2, 5, 6])
def test_weighted_median(n):
    values = np.random.default_rng(n).normal(size=n)
    assert weighted_median(values, np.ones(n)) == pytest.approx(np.median(values))
    counts = np.random.default_rng(n).integers(1, 4, n)
    for scale in (1.0, 0.1, 0.7):
        assert weighted_median(values, scale * counts) == pytest.approx(np.median(np.repeat(values, counts)))


def test_transform_divides_logits_and_normalises():
    rng = np.random.default_rng(3)
    X = tempered(rng, LISTS, np.array([0.0, 1.2, 0.0, 0.0, 0.0]))
    calibrator = TeacherCalibrator(LISTS).fit(X)
    out = calibrator.transform(X)
    for block, tau in zip(LabelSpace(LISTS).blocks, calibrator.temperatures_, strict=True):
        np.testing.assert_allclose(out[:, block], log_softmax(X[:, block] / tau, axis=1), atol=1e-12)
    assert calibrator.temperatures_[1] > 2


def test_reordering_teachers_and_classes_changes_nothing_else():
    rng = np.random.default_rng(4)
    X = tempered(rng, LISTS, np.array([0.0, 0.8, -0.4, 0.2, 0.0]))
    space, order = LabelSpace(LISTS), [3, 0, 4, 2, 1]
    permuted = np.hstack([X[:, space.blocks[i]][:, ::-1] for i in order])
    lists = [LISTS[i][::-1] for i in order]
    expected = TeacherCalibrator(LISTS).fit(X).temperatures_[order]
    np.testing.assert_allclose(TeacherCalibrator(lists).fit(permuted).temperatures_, expected, rtol=1e-6)


def test_teachers_of_one_kind_need_more_overlap():
    X, y = make_blobs(1500, n_features=5, centers=8, random_state=22)
    lists = [[0, 1, 2, 3], [2, 3, 4, 5], [4, 5, 6, 7]]
    assert LEAST_OVERLAP < overlap(LabelSpace(lists)) < 2 * LEAST_OVERLAP

    def accuracy(models, calibrate):
        own = [rows[np.isin(y[rows], known)] for rows, known in zip(np.split(np.arange(600), 3), lists, strict=True)]
        teachers = [clone(model).fit(X[rows], y[rows]) for model, rows in zip(models, own, strict=True)]
        clf = UnifiedEnsemble(TeacherMerger(teachers, method="mf_lf", calibrate=calibrate))
        clf.fit(X[600:1100])
        calibrated = bool(calibrate) and not clf.merger_.calibrator_.uncalibrated_
        return clf.score(X[1100:], y[1100:]), calibrated

    alike = [LogisticRegression(max_iter=300)] * 3
    plain, _ = accuracy(alike, False)
    assert accuracy(alike, "auto") == (plain, False)
    assert accuracy(alike, True)[0] < plain - 0.1  # this is what the rule is for
    assert accuracy([*alike[:2], GaussianNB()], "auto")[1]


def test_kinds_of_teachers():
    X, y = load_iris(return_X_y=True)
    models = [LogisticRegression(max_iter=500), make_pipeline(StandardScaler(), LogisticRegression()), GaussianNB()]
    first, second, other = (model.fit(X, y) for model in models)
    function = FunctionTeacher(first.predict_proba, [0, 1, 2])
    for teachers, alike in (
        ([first, second, FrozenEstimator(first)], True),
        ([first, other], False),
        ([function, function], False),  # what is behind them is not known
    ):
        assert check_teachers(teachers).is_of_one_kind == alike


def test_trust_that_is_given_decides_what_is_usual():
    """Three overconfident teachers among seven that have little weight."""
    log_tau = np.array([1.0, 1.0, 1.0, 1.0, 0.0, 0.0, 0.0])
    lists = [[0, 1, 2, 3], [1, 2, 3, 4], [0, 2, 4], [0, 1, 3, 4], [0, 1, 2, 4], [1, 2, 4], [0, 2, 3, 4]]
    X = tempered(np.random.default_rng(12), lists, log_tau, n=2000, noise=0.1)
    by_count = np.log(TeacherCalibrator(lists).fit(X).temperatures_)
    by_trust = np.log(TeacherCalibrator(lists, teacher_weight=[1e-3] * 4 + [1.0] * 3).fit(X).temperatures_)
    np.testing.assert_allclose(by_count[:4], 0, atol=0.15)
    np.testing.assert_allclose(by_trust[4:], 0, atol=0.15)
    assert by_trust[:4].min() > 0.7
    for scale in (0.1, 0.7):
        alike = TeacherCalibrator(lists, teacher_weight=[scale] * 7).fit(X).temperatures_
        np.testing.assert_allclose(np.log(alike), by_count, atol=1e-6)
    with pytest.raises(ValueError, match="2 numbers for 7 teachers"):
        TeacherCalibrator(lists, teacher_weight=[1, 2]).fit(X)


@pytest.mark.parametrize(
    ("lists", "left"),
    [
        ([["a", "b", "c"]], {0}),
        ([["a", "b"], ["b", "c"]], {0, 1}),
        ([["a", "b", "c"], ["a", "b", "c"], ["c", "d"]], {2}),
        ([["a", "b"], ["a", "b"], ["c", "d"], ["c", "d"]], set()),
        ([["a"], ["a"]], {0, 1}),
        ([["a", "b"], ["a"], ["b"]], {0, 1, 2}),
    ],
)
def test_teachers_that_cannot_be_compared_keep_their_answers(lists, left):
    X = log_logits(np.random.default_rng(6), lists, 200)
    calibrator = TeacherCalibrator(lists, min_overlap=0).fit(X)
    assert set(calibrator.uncalibrated_) == left
    reasons = [("fewer than two classes" if len(lists[i]) > 1 else "one column only", i) for i in left]
    assert all(why in calibrator.uncalibrated_[i] for why, i in reasons)
    assert (calibrator.temperatures_[list(left)] == 1).all()
    assert np.isfinite(calibrator.transform(X)).all()


def test_a_teacher_with_one_column_does_not_change_the_others():
    X = tempered(np.random.default_rng(0), [[0, 1, 2], [0, 1]], np.array([0.0, 1.5]), n=600)
    alone = TeacherCalibrator([[0, 1, 2], [0, 1]]).fit(X)
    assert alone.temperatures_[1] > 1.2
    assert not alone.uncalibrated_
    more = np.where(np.random.default_rng(1).uniform(size=(600, 2)) < 0.5, np.nan, 0.0)  # often silent
    beside = TeacherCalibrator([[0, 1, 2], [0, 1], [0], [3]], abstain=True).fit(np.hstack([X, more]))
    np.testing.assert_allclose(beside.temperatures_, [*alone.temperatures_, 1, 1], rtol=1e-12)
    assert set(beside.uncalibrated_) == {2, 3}
    assert all("one column only" in why for why in beside.uncalibrated_.values())


def log_logits(rng, lists, n):
    return 2 * rng.normal(size=(n, sum(map(len, lists))))


@pytest.mark.parametrize("n", [1, 2, 9])
def test_few_rows_change_nothing(n):
    X = tempered(np.random.default_rng(7), LISTS, np.array([0.0, 1.0, 0.0, 0.0, -1.0]), n=n)
    calibrator = TeacherCalibrator(LISTS).fit(X)
    assert (calibrator.temperatures_ == 1).all()
    assert all("too few rows" in why for why in calibrator.uncalibrated_.values())
    assert np.isfinite(calibrator.transform(X)).all()


@pytest.mark.parametrize("value", [0.0, 5.0, -np.inf])
def test_constant_answers(value):
    X = np.zeros((50, 18))
    X[:, ::3] = value
    assert np.isfinite(TeacherCalibrator(LISTS).fit_transform(X)).all()


def test_silent_teachers_stay_silent_and_the_others_are_compared_without_them():
    rng, true = np.random.default_rng(8), np.array([0.0, 1.0, -0.5, 0.3, 0.0])
    X = tempered(rng, LISTS, true, n=1500, noise=0.2)
    complete = TeacherCalibrator(LISTS).fit(X)
    for i, block in enumerate(LabelSpace(LISTS).blocks):
        X[i * 200 : i * 200 + 300, block] = np.nan
    calibrator = TeacherCalibrator(LISTS, abstain=True).fit(X)
    np.testing.assert_allclose(np.log(calibrator.temperatures_), np.log(complete.temperatures_), atol=0.15)
    assert (np.isnan(calibrator.transform(X)) == np.isnan(X)).all()
    with pytest.raises(ValueError, match="abstain=True"):
        TeacherCalibrator(LISTS).fit(X)


def test_a_teacher_that_never_answers_takes_its_weight_along():
    X = tempered(np.random.default_rng(25), LISTS, np.array([0.0, 1.0, -0.5, 0.3, 0.0]))
    weight = [100.0, 1.0, 30.0, 0.1, 2.0]
    expected = TeacherCalibrator(LISTS[1:], teacher_weight=weight[1:]).fit(X[:, 4:]).temperatures_
    X[:, :4] = np.nan
    found = TeacherCalibrator(LISTS, teacher_weight=weight, abstain=True).fit(X).temperatures_
    np.testing.assert_allclose(found[1:], expected, rtol=1e-9)
    assert np.abs(np.log(expected)).max() > 0.3


def test_the_most_frequent_patterns_of_silence_are_looked_at_alone():
    """Each pattern needs its own matrices: their number is limited, however many patterns there are."""
    lists = [[0, 1, 2]] * 9
    X = tempered(np.random.default_rng(26), lists, np.linspace(-1, 1, 9), n=650)
    quiet = np.array([[pattern >> i & 1 for i in range(9)] for pattern in range(1, 201)], dtype=bool)
    pattern_of = np.r_[np.repeat(np.arange(150), 4), np.arange(150, 200)]  # 150 of four rows, 50 of one
    X[np.repeat(quiet[pattern_of], 3, axis=1)] = np.nan

    def temperatures(loud, factor):
        changed = X.copy()
        changed[loud, :3] *= factor
        return TeacherCalibrator(lists, abstain=True).fit(changed).temperatures_

    expected = temperatures(slice(0), 1)
    np.testing.assert_array_equal(temperatures(slice(600, None), 5), expected)
    assert np.abs(np.log(temperatures(slice(600), 5) / expected)).max() > 0.3


def test_precision_tensors_and_names():
    torch = pytest.importorskip("torch")
    X = tempered(np.random.default_rng(9), LISTS, np.array([0.0, 1.0, -0.5, 0.3, 0.0]))
    calibrator = TeacherCalibrator(LISTS).fit(X)
    single = TeacherCalibrator(LISTS).fit(X.astype(np.float32))
    assert single.transform(X.astype(np.float32)).dtype == np.float32
    np.testing.assert_allclose(single.temperatures_, calibrator.temperatures_, rtol=1e-4)
    tensor = TeacherCalibrator(LISTS).fit_transform(torch.asarray(X))
    np.testing.assert_allclose(tensor.numpy(), calibrator.transform(X), atol=1e-10)
    assert calibrator.get_feature_names_out()[:2].tolist() == ["teacher0__0", "teacher0__1"]


def test_a_sample_of_the_rows_is_enough():
    X = tempered(np.random.default_rng(10), LISTS, np.array([0.0, 1.0, -0.5, 0.3, 0.0]), n=4000)
    some = TeacherCalibrator(LISTS, max_samples=1000).fit(X).temperatures_
    np.testing.assert_allclose(some, TeacherCalibrator(LISTS, max_samples=None).fit(X).temperatures_, rtol=0.1)


@pytest.mark.parametrize(
    "params",
    [
        {"tolerance": -0.1},
        {"tolerance": np.inf},
        {"min_overlap": None},
        {"teacher_weight": [1, -1]},
        {"n_rounds": 0},
        {"max_samples": -1},
        {"abstain": "no"},
    ],
)
def test_wrong_parameters(params):
    with pytest.raises(ValueError, match=f"{next(iter(params))} must be"):
        TeacherCalibrator(LISTS, **params).fit(np.zeros((5, 17)))


def test_the_search_ends_at_the_bound_for_teachers_that_contradict_the_others():
    Z = np.random.default_rng(20).normal(size=(300, 3))
    X = np.hstack([Z, Z, -Z, Z])
    part, ones = one_part(X, [list("abc")] * 4), np.ones(4)
    found, _ = best_temperatures([part], [part.targets(ones)], ones, 3)
    assert -found[2] == BOUNDS[0]
    assert (np.delete(-found, 2) > BOUNDS[0] + 1).all()


def test_where_the_search_starts_does_not_matter():
    X = tempered(np.random.default_rng(21), LISTS, np.linspace(-0.5, 0.7, 5))
    part = one_part(X, LISTS)
    targets = [part.targets(np.ones(5))]
    expected = best_temperatures([part], targets, np.ones(5), 6)
    for start in (1e-6, 0.05, 8.0, 1e3):
        np.testing.assert_allclose(best_temperatures([part], targets, np.full(5, start), 6), expected, atol=1e-6)


def test_chunks_of_bounded_memory_change_nothing():
    X = tempered(np.random.default_rng(22), LISTS, np.linspace(-0.5, 0.7, 5))
    X[np.random.default_rng(23).random(len(X)) < 0.2, LabelSpace(LISTS).blocks[1]] = np.nan
    whole = TeacherCalibrator(LISTS, abstain=True).fit(X)
    with sklearn.config_context(working_memory=64 * 24 * 50 / 2**20):
        chunked = TeacherCalibrator(LISTS, abstain=True).fit(X)
    np.testing.assert_allclose(chunked.temperatures_, whole.temperatures_, rtol=1e-7)
    np.testing.assert_allclose(chunked.standard_errors_, whole.standard_errors_, rtol=1e-6)


@pytest.mark.parametrize(("n", "most"), [(5001, 5000), (9999, 5000), (12, 5), (7, 6), (3, 1)])
def test_as_many_rows_are_looked_at_as_allowed_evenly_spaced(n, most):
    rows = some_rows(n, most)
    assert len(np.unique(rows)) == most
    assert (rows[0], rows[-1]) == (0, n - 1 if most > 1 else 0)
    assert np.ptp(np.diff(rows)) <= 1 if most > 1 else True


def test_all_rows_are_looked_at_if_they_are_few():
    assert some_rows(10, 10) == some_rows(10, None) == slice(None)


def test_a_teacher_that_answers_alone_is_left_for_that_reason():
    X = tempered(np.random.default_rng(35), LISTS, np.zeros(5))
    space = LabelSpace(LISTS)
    for i, block in enumerate(space.blocks):
        X[: 100 if i != 3 else 0, block] = np.nan
    X[100:, space.blocks[3]] = np.nan
    calibrator = TeacherCalibrator(LISTS, abstain=True).fit(X)
    assert calibrator.uncalibrated_ == {3: "answers too few rows that others also answer"}


def test_a_teacher_that_never_answers_is_left_for_that_reason():
    X = tempered(np.random.default_rng(24), LISTS, np.zeros(5))
    X[:, LabelSpace(LISTS).blocks[3]] = np.nan
    calibrator = TeacherCalibrator(LISTS, abstain=True).fit(X)
    assert calibrator.uncalibrated_ == {3: "answers none of the rows used"}
