import numpy as np
import pytest
from scipy.special import softmax

from sklearn_uhc import CrossEntropyUnifier, StandardDistillation
from sklearn_uhc.evidence import pairwise_agreement, teacher_agreement
from tests import reference
from tests.helpers import consistent_outputs, random_outputs

LISTS = [["cat", "dog"], ["dog", "cow", "ant"], ["cat", "ant"]]
CLASSES = ["ant", "cat", "cow", "dog"]


def test_it_is_minus_the_papers_objective():
    rng = np.random.default_rng(0)
    log_p, U = random_outputs(rng, LISTS, 6), rng.normal(size=(6, 4))
    expected = []
    for row, u in zip(log_p, U, strict=True):
        Z, M = reference.dense(row, LISTS, CLASSES)
        expected.append(-reference.ce_objective(u, reference.temper(Z, M, 1), M) / 3)
    proba = softmax(U, axis=1)
    assert teacher_agreement(log_p, proba, LISTS) == pytest.approx(np.mean(expected))
    weights = np.arange(6)
    weighted = teacher_agreement(log_p, proba, LISTS, sample_weight=weights)
    assert weighted == pytest.approx(np.average(expected, weights=weights))


def test_the_truth_of_consistent_teachers_is_best():
    Q = softmax(np.random.default_rng(0).normal(size=(30, 4)), axis=1)
    log_p = consistent_outputs(Q, LISTS)
    best = teacher_agreement(log_p, Q, LISTS)
    entropy = -(np.exp(log_p) * log_p).sum(axis=1).mean() / 3
    assert best == pytest.approx(-entropy)
    assert best > teacher_agreement(log_p, softmax(np.log(Q) / 2, axis=1), LISTS)


def test_ce_has_the_best_agreement():
    log_p = random_outputs(np.random.default_rng(0), LISTS, 40)
    ce, sd = (m(LISTS, temperature=1).fit_transform(log_p) for m in (CrossEntropyUnifier, StandardDistillation))
    assert teacher_agreement(log_p, ce, LISTS) > teacher_agreement(log_p, sd, LISTS)


def test_zeros_stay_finite():
    proba = np.array([[0.0, 0.0, 1.0, 0.0]])
    assert np.isfinite(teacher_agreement(np.zeros((1, 7)), proba, LISTS))
    assert np.isfinite(teacher_agreement(np.full((1, 7), -np.inf), proba, LISTS))


@pytest.mark.parametrize(
    ("log_p", "proba", "message"),
    [
        (np.zeros((2, 6)), np.full((2, 4), 0.25), r"log_p must have shape \(n, 7\)"),
        (np.zeros((2, 7)), np.full((2, 3), 1 / 3), r"proba \(n, 4\)"),
        (np.zeros((2, 7)), np.full((3, 4), 0.25), "for these class lists"),
        (np.full((2, 7), np.nan), np.full((2, 4), 0.25), "log_p contains NaN"),
        (np.zeros((2, 7)), np.full((2, 4), np.nan), "proba contains NaN"),
    ],
)
def test_bad_input(log_p, proba, message):
    with pytest.raises(ValueError, match=message):
        teacher_agreement(log_p, proba, LISTS)


@pytest.mark.parametrize(("bad", "message"), [(np.nan, "for all its classes, or for none"), (np.inf, "infinity")])
def test_pairwise_agreement_refuses_half_answers(bad, message):
    log_p = np.zeros((3, 7))
    log_p[1, 1] = bad
    with pytest.raises(ValueError, match=message):
        pairwise_agreement(log_p, LISTS)
