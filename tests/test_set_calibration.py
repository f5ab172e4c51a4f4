"""Temperatures of teachers with columns of sets: compared with the definition, and the choice of comparisons."""

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax, logsumexp
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB

from sklearn_uhc import OTHER, LabelSpace, LogitFactorization, TeacherCalibrator, TeacherMerger
from sklearn_uhc.solvers.leave_one_out import CoarsePiece, SetComparison, comparable_parts, search

FINE = [[0, 1, 2, 3], [2, 3, 4, 5], [0, 1, 4, 5]]
PARITY = [(0, 2, 4), (1, 3, 5)]


def consistent(lists, n=400, noise=0.3, seed=0):
    """Answers of one q over 0 to 5, in logits, with noise."""
    rng, space = np.random.default_rng(seed), LabelSpace(lists)
    U = 2 * rng.normal(size=(n, space.n_classes))
    sets = [U[:, space.members[a:b]] for a, b in zip(space.offsets[:-1], space.offsets[1:], strict=True)]
    Z = np.stack([logsumexp(columns, axis=1) for columns in sets], axis=1)
    return Z + noise * rng.normal(size=Z.shape)


def normalised(Z, lists):
    return np.hstack([log_softmax(Z[:, block], axis=1) for block in LabelSpace(lists).blocks])


def raised(Z, lists, teacher, tau):
    """The answers, with one teacher more confident."""
    Z, block = normalised(Z, lists).copy(), LabelSpace(lists).blocks[teacher]
    Z[:, block] *= tau
    return normalised(Z, lists)


def test_the_temperature_minimises_the_cross_entropy_against_the_others_summed_over_the_sets():
    lists = [*FINE, PARITY]
    log_p = raised(consistent(lists), lists, 3, 5.0)
    compared = SetComparison.of(3, log_p, LabelSpace(lists), np.ones(4, dtype=bool))
    found = np.exp(-search([compared.piece(np.ones(4), np.ones(4))], 0.0))
    Q = LogitFactorization(FINE, temperature=1).fit_transform(log_p[:, :12])
    even, odds = Q[:, ::2].sum(axis=1), log_p[:, 12] - log_p[:, 13]

    def loss(x):
        return (even * np.logaddexp(0, -odds * x) + (1 - even) * np.logaddexp(0, odds * x)).sum()

    best = minimize_scalar(loss, bounds=(1e-3, 5), method="bounded", options={"xatol": 1e-9}).x
    assert found == pytest.approx(1 / best, rel=1e-4)


def test_an_overconfident_teacher_of_sets_is_found_and_the_others_keep_theirs():
    lists = [*FINE, PARITY, PARITY]
    log_p = raised(consistent(lists), lists, 4, 8.0)
    calibrator = TeacherCalibrator(lists).fit(log_p)
    alone = TeacherCalibrator(FINE).fit(log_p[:, :12])
    np.testing.assert_array_equal(calibrator.temperatures_[:3], alone.temperatures_)
    assert calibrator.temperatures_[4] / calibrator.temperatures_[3] == pytest.approx(8, rel=0.15)
    assert calibrator.uncalibrated_ == {}
    assert np.isfinite(calibrator.standard_errors_).all()


def test_teachers_of_sets_alone_are_compared_with_each_other():
    lists = [[(0, 1), (2, 3), (4, 5)], [(0, 1), (2, 3, 4, 5)], [(0, 1, 2, 3), (4, 5)], [(0, 1), (2, 3), OTHER]]
    log_p = raised(consistent(lists, noise=0.1), lists, 0, 6.0)
    found = TeacherCalibrator(lists, n_rounds=6).fit(log_p).temperatures_
    assert found[0] / np.median(found[1:]) == pytest.approx(6, rel=0.25)


def test_sets_that_cut_across_are_compared_as_far_as_they_agree():
    space = LabelSpace([[0, 1, (2, 3)], [(0, 1), 2, 3]])
    parts = comparable_parts(0, space, space.restrict([1]))
    assert parts.columns.tolist() == [0, 1, 2]
    assert parts.starts.tolist() == [0, 2]
    np.testing.assert_array_equal(parts.sets, [[1, 1, 0, 0], [0, 0, 1, 1]])
    across = LabelSpace([[(0, 1), (2, 3)], [(0, 2), (1, 3)]])
    assert comparable_parts(0, across, across.restrict([1])) is None


def test_groups_that_the_others_do_not_link_are_not_compared():
    space = LabelSpace([[(0, 1), (2, 3)], [0, 1], [2, 3]])
    assert comparable_parts(0, space, space.restrict([1, 2])) is None
    log_p = np.log(np.full((40, 6), 0.5))
    calibrator = TeacherCalibrator(space.class_lists, min_overlap=0).fit(log_p)
    assert calibrator.temperatures_.tolist() == [1, 1, 1]
    assert "do not determine" in calibrator.uncalibrated_[0]


@pytest.mark.parametrize("more", [[[0]], [[(0, 1)]], [[0], [1], [2]]])
def test_a_teacher_with_one_column_does_not_switch_off_the_others(more):
    lists = [[0, 1, 2], [(0, 1), OTHER]]
    log_p = raised(consistent(lists, n=600), lists, 1, 3.0)
    alone = TeacherCalibrator(lists).fit(log_p)
    assert alone.temperatures_[1] / alone.temperatures_[0] > 1.5
    columns = np.where(np.random.default_rng(1).uniform(size=(600, len(more))) < 0.5, np.nan, 0.0)  # often silent
    beside = TeacherCalibrator([*lists, *more], abstain=True).fit(np.hstack([log_p, columns]))
    np.testing.assert_array_equal(beside.temperatures_, [*alone.temperatures_, *np.ones(len(more))])
    assert beside.uncalibrated_ == {
        i: "has one column only, so its answers say nothing" for i in range(2, 2 + len(more))
    }


def test_reasons_are_those_of_all_columns():
    little = TeacherCalibrator([[0, 1], [(0, 1), 2]]).fit(np.zeros((40, 4)))
    assert all("overlap too little" in why for why in little.uncalibrated_.values())
    lists = [[0, 1, 2], [0, 1, 2], [(0, 1), 2]]
    log_p = consistent(lists)
    log_p[:, 6:] = np.nan
    assert TeacherCalibrator(lists, abstain=True).fit(log_p).uncalibrated_ == {2: "answers none of the rows used"}


@pytest.mark.parametrize("b", [0.1, 1.0, 4.0])
def test_slopes_are_the_derivatives_of_the_loss(b):
    rng = np.random.default_rng(0)
    z, target = 3 * rng.normal(size=(5, 7)), rng.dirichlet(np.ones(2), size=7).T
    piece = CoarsePiece(z - z.max(axis=0), np.array([0, 2]), target, rng.uniform(size=7), np.zeros(7, dtype=int))

    def loss(x):
        inner = [logsumexp(x * piece.z[rows], axis=0) for rows in (slice(0, 2), slice(2, 5))]
        return piece.weight * (logsumexp(x * piece.z, axis=0) - (target * inner).sum(axis=0))

    step = 1e-4
    first, second = piece.slopes(b)
    np.testing.assert_allclose(first, (loss(b + step) - loss(b - step)) / (2 * step), atol=1e-6)
    np.testing.assert_allclose(second, (loss(b + step) - 2 * loss(b) + loss(b - step)) / step**2, atol=1e-5)


def test_silent_teachers_of_sets_are_compared_where_they_answer():
    lists = [*FINE, PARITY]
    log_p = raised(consistent(lists, n=600), lists, 3, 6.0)
    everywhere = TeacherCalibrator(lists).fit(log_p).temperatures_[3]
    log_p[::3, 12:] = np.nan
    some = TeacherCalibrator(lists, abstain=True).fit(log_p).temperatures_[3]
    assert some == pytest.approx(everywhere, rel=0.1)
    log_p[:, 12:] = np.nan
    assert TeacherCalibrator(lists, abstain=True).fit(log_p).temperatures_[3] == 1


def test_naive_bayes_for_even_and_odd_does_little_harm():
    X, y = load_digits(return_X_y=True)
    train, rows = np.split(np.random.default_rng(2).permutation(len(X)), [600])
    lists = [[0, 1, 2, 3], [2, 3, 4, 5], [4, 5, 6, 7], [6, 7, 8, 9], [0, 1, 8, 9]]
    kinds = [RandomForestClassifier(30, random_state=0), LogisticRegression(max_iter=3000)]
    fine = []
    for i, known in enumerate(lists):
        own = train[np.isin(y[train], known)]
        fine.append(kinds[i % 2].__class__(**kinds[i % 2].get_params()).fit(X[own], y[own]))
    parity = [GaussianNB().fit(X[half], y[half] % 2) for half in np.array_split(train, 2)]
    sets = [*lists, *[[(0, 2, 4, 6, 8), (1, 3, 5, 7, 9)]] * 2]
    right = {}
    for calibrate in (False, True):
        merger = TeacherMerger([*fine, *parity], class_lists=sets, calibrate=calibrate)
        right[calibrate] = (merger.fit_transform(X[rows]).argmax(axis=1) == y[rows]).mean()
    assert right[True] > right[False] + 0.05
