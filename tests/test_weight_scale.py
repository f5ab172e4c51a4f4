"""Only ratios of weights matter: scaling them by any constant gives the same results, up to the limits of floats."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB

from sklearn_uhc import HeterogeneousDistiller, SoftLabelClassifier, TeacherCalibrator, TeacherMerger, UnifiedEnsemble
from sklearn_uhc.evidence import pairwise_agreement
from sklearn_uhc.evidence.metrics import teacher_agreement
from sklearn_uhc.inspection import SoftLabelDisplay
from sklearn_uhc.merging.balance import balanced_targets, class_weights
from tests.helpers import METHOD_NAMES, linear_teachers, make_method, random_outputs

LISTS = [[0, 1, 2], [1, 2, 3], [0, 3, 4], [2, 4, 0]]
#: Powers of two lose no digits; the limits are the largest factor of 7 and the smallest positive number.
SCALES = [2.0**1021, 2.0**600, 2.0**20, 2.0**-20, 2.0**-600, 2.0**-1074]
every_scale = pytest.mark.parametrize("scale", SCALES)
TRUST = np.array([1.0, 2.0, 7.0, 3.0])
RNG = np.random.default_rng(0)
Z = random_outputs(RNG, LISTS, 60)
X = RNG.normal(size=(60, 3))
Q = RNG.dirichlet(np.ones(5), 60)
ROWS = RNG.integers(0, 8, 60).astype(float)


@every_scale
@pytest.mark.parametrize("name", METHOD_NAMES)
def test_methods(name, scale):
    expected = make_method(name, LISTS, teacher_weight=TRUST).fit_transform(Z)
    scaled = make_method(name, LISTS, teacher_weight=scale * TRUST).fit_transform(Z)
    np.testing.assert_allclose(scaled, expected, rtol=1e-9, atol=1e-12)


@every_scale
def test_calibration(scale):
    outputs = random_outputs(np.random.default_rng(1), [[0, 1, 2, 3]] * 4, 200, noise=0.5)
    outputs[:, :4] *= 3
    fitted = [TeacherCalibrator([[0, 1, 2, 3]] * 4, teacher_weight=s * TRUST).fit(outputs) for s in (1.0, scale)]
    assert fitted[0].temperatures_[0] > 1.5
    np.testing.assert_allclose(fitted[1].temperatures_, fitted[0].temperatures_, rtol=1e-9)


@every_scale
def test_class_weights_and_targets(scale):
    w = class_weights(Q, ROWS)
    np.testing.assert_allclose(class_weights(Q, scale * ROWS), w, rtol=1e-12)
    for factor in (1.0, scale):
        targets, rows = balanced_targets(Q, factor * np.arange(1.0, 6.0), scale * ROWS)
        expected, plain = balanced_targets(Q, np.arange(1.0, 6.0), ROWS)
        np.testing.assert_allclose(targets, expected, rtol=1e-9)
        np.testing.assert_allclose(rows / rows.max(), plain / plain.max(), rtol=1e-9, atol=1e-12)


@every_scale
def test_scores_and_plots(scale):
    args = Z, Q, LISTS
    assert teacher_agreement(*args, sample_weight=scale * ROWS) == pytest.approx(
        teacher_agreement(*args, sample_weight=ROWS), rel=1e-9
    )
    np.testing.assert_allclose(
        pairwise_agreement(Z, LISTS, sample_weight=scale * ROWS).filled(-1),
        pairwise_agreement(Z, LISTS, sample_weight=ROWS).filled(-1),
        rtol=1e-9,
    )
    shown, plain = (SoftLabelDisplay(Q, sample_weight=s * ROWS) for s in (scale, 1.0))
    for name in ("mean", "balanced_mean", "top", "balanced_top"):
        np.testing.assert_allclose(getattr(shown, name), getattr(plain, name), rtol=1e-9)


@every_scale
def test_the_whole_merge(scale):
    teachers = linear_teachers(LISTS)
    ensembles = [
        UnifiedEnsemble(TeacherMerger(teachers, teacher_weight=s * TRUST), balance=True).fit(X, sample_weight=s * ROWS)
        for s in (scale, 1.0)
    ]
    P, expected = (ensemble.predict_proba(X) for ensemble in ensembles)
    np.testing.assert_allclose(P, expected, rtol=1e-9)
    assert ensembles[0].score(X, sample_weight=scale * ROWS) == pytest.approx(
        ensembles[1].score(X, sample_weight=ROWS), rel=1e-9
    )
    student = RandomForestClassifier(5, random_state=0)
    distillers = [
        HeterogeneousDistiller(TeacherMerger(teachers, teacher_weight=s * TRUST), student, balance=True).fit(
            X, sample_weight=s * ROWS
        )
        for s in (scale, 1.0)
    ]
    np.testing.assert_allclose(*(d.predict_proba(X) for d in distillers), rtol=1e-9)


@every_scale
@pytest.mark.parametrize("student", [GaussianNB(), LogisticRegression(C=np.inf)], ids=["copies", "direct"])
def test_students_without_a_penalty(student, scale):
    P, expected = (SoftLabelClassifier(student).fit(X, Q, s * ROWS).predict_proba(X) for s in (scale, 1.0))
    np.testing.assert_allclose(P, expected, rtol=1e-4)


@every_scale
def test_class_weight_of_a_student(scale):
    answers = []
    for factor in (scale, 1.0):
        weights = {k: factor * (k + 1) for k in range(5)}
        student = RandomForestClassifier(3, random_state=0, class_weight=weights)
        answers.append(SoftLabelClassifier(student).fit(X, Q).predict_proba(X))
    np.testing.assert_allclose(*answers, rtol=1e-9)


@settings(max_examples=60, deadline=None)
@given(st.floats(-1020, 1020), st.sampled_from(METHOD_NAMES), st.integers(0, 2**32 - 1))
def test_any_constant(exponent, name, seed):
    """Between the limits, only rounding of the scaled weights can differ."""
    rng = np.random.default_rng(seed)
    teacher_weight = np.exp(rng.normal(size=4))
    scale = 2.0**exponent
    first = make_method(name, LISTS, teacher_weight=teacher_weight).fit_transform(Z[:8])
    second = make_method(name, LISTS, teacher_weight=teacher_weight * scale).fit_transform(Z[:8])
    np.testing.assert_allclose(second, first, atol=1e-6)
    weights = rng.random(60)
    np.testing.assert_allclose(class_weights(Q, weights * scale), class_weights(Q, weights), rtol=1e-9)
