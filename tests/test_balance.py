import numpy as np
import pytest

from sklearn_uhc import LabelSpace
from sklearn_uhc.answers import Answers
from sklearn_uhc.balance import (
    Skew,
    balanced_targets,
    class_weights,
    decide_balance,
    evenness,
    measure_skew,
    rare_classes,
)


@pytest.fixture
def Q():
    return np.random.default_rng(0).dirichlet([5, 1, 0.2], size=50)


def test_weights_are_inverse_means(Q):
    np.testing.assert_allclose(class_weights(Q), 1 / Q.mean(axis=0))
    weight = np.arange(50.0)
    np.testing.assert_allclose(class_weights(Q, weight), 1 / np.average(Q, axis=0, weights=weight))


def test_weighted_cross_entropy_is_plain_cross_entropy_of_the_targets(Q):
    w = class_weights(Q)
    log_s = np.log(np.random.default_rng(1).dirichlet([1, 1, 1], size=50))
    targets, weights = balanced_targets(Q, w)
    weighted = -(w * Q * log_s).sum(axis=1)
    plain = -(targets * log_s).sum(axis=1) * weights
    np.testing.assert_allclose(plain * weighted.sum() / plain.sum(), weighted)


def test_all_classes_count_alike_and_the_mean_weight_stays(Q):
    targets, weights = balanced_targets(Q, class_weights(Q))
    np.testing.assert_allclose((weights[:, None] * targets).mean(axis=0), 1 / 3)
    assert weights.mean() == pytest.approx(1)
    given = np.random.default_rng(2).random(50)
    assert balanced_targets(Q, class_weights(Q, given), given)[1].mean() == pytest.approx(given.mean())


def test_a_class_that_never_appears_has_a_finite_weight():
    Q = np.array([[1.0, 0.0], [1.0, 0.0]])
    w = class_weights(Q)
    assert np.isfinite(w).all()
    targets, weights = balanced_targets(Q, w)
    np.testing.assert_array_equal(targets, Q)
    np.testing.assert_array_equal(weights, 1)


def test_evenness_counts_classes_at_temperature_one(Q):
    assert evenness(np.eye(4)) == pytest.approx(1)
    assert evenness(np.eye(4)[[0, 0]]) == pytest.approx(1 / 4)
    assert evenness(np.eye(4)[[0, 1]], sample_weight=np.array([1.0, 0.0])) == pytest.approx(1 / 4)
    tempered = Q ** (1 / 3) / (Q ** (1 / 3)).sum(axis=1, keepdims=True)
    assert evenness(tempered, 3.0) == pytest.approx(evenness(Q))


def answers_for(named, lists, abstain=False):
    """Teachers that are nearly certain of one of their classes in every row; None: silent."""
    space, log_p = LabelSpace(lists), []
    for classes, own in zip(lists, named, strict=True):
        P = np.full((len(own), len(classes)), 0.01)
        for n, label in enumerate(own):
            P[n] = np.nan if label is None else np.where(np.asarray(classes) == label, 0.98, 0.01)
        log_p.append(np.log(P))
    return Answers.of(np.hstack(log_p), space, abstain=abstain)


def test_a_class_is_rare_if_one_of_its_teachers_hardly_names_it():
    lists = [["a", "b"], ["b", "c"]]
    both = answers_for([["a"] * 9 + ["b"], ["b"] * 5 + ["c"] * 5], lists)
    assert rare_classes(both, both.space).tolist() == [False, True, False]
    silent = answers_for([["a"] * 5 + [None] * 4 + ["b"], ["b"] * 5 + ["c"] * 5], lists, abstain=True)
    assert rare_classes(silent, silent.space).tolist() == [False, False, False]  # one row of six


@pytest.mark.parametrize(("n", "power"), [(60, 0.5), (30, 1.0)])
def test_auto_goes_half_the_way_if_there_are_rows_to_tell(n, power):
    lists = [["a", "b"], ["b", "c"]]
    answers = answers_for([["a"] * (n - 2) + ["b"] * 2, ["b"] * n], lists)
    Q = np.repeat([[0.98, 0.01, 0.01], [0.01, 0.98, 0.01]], [n - 2, 2], axis=0)
    skew = measure_skew(answers, answers.space, Q, 1.0)
    decided = decide_balance("auto", answers.space, n, skew)
    assert decided.power == power
    assert ("['b', 'c']" in decided.why) is (power < 1)
    assert decide_balance(True, answers.space, n, skew).power == 1
    assert decide_balance("auto", answers.space, n, skew, labelled=True).power == 1


def test_auto_balances_what_only_the_merge_makes_uneven():
    lists = [["a", "b"], ["b", "c"]]
    answers = answers_for([["a", "b"] * 30, ["b", "c"] * 30], lists)
    Q = np.repeat([[0.98, 0.01, 0.01]], 60, axis=0)
    assert decide_balance("auto", answers.space, 60, measure_skew(answers, answers.space, Q, 1.0)).power == 1


def test_auto_does_not_balance_shared_lists_or_few_rows():
    even = Skew(1.0, np.zeros(3, dtype=bool), 60)
    assert "same classes" in decide_balance("auto", LabelSpace([["a", "b"], ["b", "a"]]), 60, even).why
    assert "fewer" in decide_balance("auto", LabelSpace([["a", "b"], ["b", "c"]]), 2, even).why
