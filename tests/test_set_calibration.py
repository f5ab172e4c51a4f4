"""Temperatures of teachers with columns of sets: compared with the definition, and what can be compared."""

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax, logsumexp

from sklearn_uhc import LabelSpace, LogitFactorization, TeacherCalibrator

FINE = [[0, 1, 2, 3], [2, 3, 4, 5], [0, 1, 4, 5]]
PARITY = [(0, 2, 4), (1, 3, 5)]


def consistent(lists, n=400, noise=0.3, seed=0):
    """Answers of one q over 0 to 5, in logits, with noise."""
    rng, space = np.random.default_rng(seed), LabelSpace(lists)
    U = 2 * rng.normal(size=(n, space.n_classes))
    sets = [U[:, space.members[a:b]] for a, b in zip(space.offsets[:-1], space.offsets[1:], strict=True)]
    Z = np.stack([logsumexp(columns, axis=1) for columns in sets], axis=1)
    return Z + noise * rng.normal(size=Z.shape)


def raised(Z, lists, teacher, tau):
    """The answers, with one teacher more confident."""
    blocks, Z = LabelSpace(lists).blocks, Z.copy()
    Z[:, blocks[teacher]] = tau * log_softmax(Z[:, blocks[teacher]], axis=1)
    return np.hstack([log_softmax(Z[:, block], axis=1) for block in blocks])


def test_the_temperature_minimises_the_cross_entropy_against_single_classes_summed_over_the_sets():
    lists = [*FINE, PARITY]
    log_p = raised(consistent(lists), lists, 3, 8.0)
    calibrator = TeacherCalibrator(lists, tolerance=0).fit(log_p)
    assert calibrator.temperatures_[:3].tolist() == [1, 1, 1]  # alike
    Q = LogitFactorization(FINE).fit_transform(log_p[:, :12])
    even, odds = Q[:, ::2].sum(axis=1), log_p[:, 12] - log_p[:, 13]

    def loss(x):
        return (even * np.logaddexp(0, -odds * x) + (1 - even) * np.logaddexp(0, odds * x)).sum()

    best = 1 / minimize_scalar(loss, bounds=(1e-3, 5), method="bounded", options={"xatol": 1e-9}).x
    # Relative to the others, and shrunk a little.
    assert calibrator.temperatures_[3] == pytest.approx(best, rel=0.1)


def test_an_overconfident_teacher_of_sets_is_found_and_the_others_keep_theirs():
    lists = [*FINE, PARITY, PARITY]
    log_p = raised(consistent(lists), lists, 4, 8.0)
    calibrator, alone = TeacherCalibrator(lists).fit(log_p), TeacherCalibrator(FINE).fit(log_p[:, :12])
    np.testing.assert_array_equal(calibrator.temperatures_[:3], alone.temperatures_)
    assert calibrator.temperatures_[4] / calibrator.temperatures_[3] == pytest.approx(8, rel=0.15)
    assert calibrator.uncalibrated_ == {}
    assert np.isfinite(calibrator.standard_errors_).all()


@pytest.mark.parametrize(
    "sets",
    [
        [(0, 1), (2, 3)],  # the single classes of others do not link them
        [(0, 4), (2, 3)],  # 4 is no single class
        [(0, 2), (1, 3)],  # each stands in both groups
    ],
)
def test_sets_that_single_classes_do_not_link_are_not_compared(sets):
    lists = [[0, 1], [0, 1], [0, 1], [2, 3], [2, 3], [2, 3], sets]
    rng = np.random.default_rng(0)
    calibrator = TeacherCalibrator(lists, min_overlap=0).fit(rng.normal(size=(200, 14)))
    assert calibrator.temperatures_[6] == 1
    assert list(calibrator.uncalibrated_)[-1] == 6
    assert "has sets" in calibrator.uncalibrated_[6]


@pytest.mark.parametrize("more", [[[0]], [[(0, 1)]], [[0], [1], [2]]])
def test_a_teacher_with_one_column_does_not_switch_off_the_others(more):
    lists = [*FINE, PARITY]
    log_p = raised(consistent(lists, n=600), lists, 3, 3.0)
    alone = TeacherCalibrator(lists).fit(log_p)
    assert alone.temperatures_[3] > 1.5
    columns = np.where(np.random.default_rng(1).uniform(size=(600, len(more))) < 0.5, np.nan, 0.0)  # often silent
    beside = TeacherCalibrator([*lists, *more], abstain=True).fit(np.hstack([log_p, columns]))
    np.testing.assert_allclose(beside.temperatures_, [*alone.temperatures_, *np.ones(len(more))], rtol=1e-9)
    assert beside.uncalibrated_ == {
        i: "has one column only, so its answers say nothing" for i in range(4, 4 + len(more))
    }


def test_silent_teachers_of_sets_are_compared_where_they_answer():
    lists = [*FINE, PARITY]
    log_p = raised(consistent(lists, n=600), lists, 3, 6.0)
    everywhere = TeacherCalibrator(lists).fit(log_p).temperatures_[3]
    log_p[::3, 12:] = np.nan
    log_p[1::5, :4] = np.nan
    some = TeacherCalibrator(lists, abstain=True).fit(log_p).temperatures_[3]
    assert some == pytest.approx(everywhere, rel=0.1)
    log_p[:, 12:] = np.nan
    nowhere = TeacherCalibrator(lists, abstain=True).fit(log_p)
    assert nowhere.temperatures_[3] == 1
    assert nowhere.uncalibrated_ == {3: "answers none of the rows used"}
