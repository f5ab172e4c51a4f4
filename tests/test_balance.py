import numpy as np
import pytest

from sklearn_uhc import LabelSpace
from sklearn_uhc.answers import Answers
from sklearn_uhc.balance import balanced_targets, class_weights, decide_balance, evenness, look_for_skew


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


def named(*counts):
    """Five teachers of two classes each, in a ring, who are unsure of other classes; rows by class, in twenties."""
    lists = [[0, 1], [1, 2], [2, 3], [3, 4], [0, 4]]
    y = np.repeat(np.arange(5), 20 * np.array(counts))
    known = {(label, k): 0.9 if label == k else 0.1 for own in lists for label in own for k in own}
    P = [
        [known.get((label, k), 0.5) if label in own else 0.5 + 0.01 * j for own in lists for j, k in enumerate(own)]
        for label in y
    ]
    Q = np.full((len(y), 5), 0.1) + 0.5 * np.eye(5)[y]
    return Answers.of(np.log(P), LabelSpace(lists), abstain=False), Q, y


def test_auto_balances_to_estimated_frequencies_where_classes_are_rare():
    answers, Q, y = named(40, 2, 4, 1, 3)
    found = look_for_skew(answers, answers.space, Q, 1.0)
    np.testing.assert_allclose(found, np.bincount(y) / len(y), atol=0.05)
    decided = decide_balance("auto", answers.space, len(Q), found)
    assert decided.balances
    assert "['3 (1" in decided.why  # the rarest first
    targets, weights = balanced_targets(Q, decided.weigh(class_weights(Q)))
    np.testing.assert_allclose((weights[:, None] * targets).mean(axis=0), found)
    for other in (
        decide_balance(True, answers.space, len(Q), found),
        decide_balance("auto", answers.space, len(Q), None),
    ):
        assert other.balances
        assert other.weigh(class_weights(Q)) is not None
        assert other.frequencies is None
    of_labels = decide_balance("auto", answers.space, len(Q), found, np.array([0.2, 0.3, 0.1, 0.2, 0.2]))
    assert "of the labels" in of_labels.why
    assert not decide_balance(False, answers.space, len(Q), found).balances


def test_what_a_decision_is_good_for():
    space, rare = LabelSpace([["a", "b"], ["b", "c"]]), np.array([0.8, 0.15, 0.05])
    assert decide_balance("auto", space, 60, rare).serves == "like these"
    assert decide_balance("auto", space, 60, of_labels=rare).serves == "like these"
    assert decide_balance("auto", space, 60, np.full(3, 1 / 3)).serves == "equal"
    assert decide_balance(True, space, 60, rare).serves == "equal"
    assert decide_balance(False, space, 60, rare).serves == "merged"


def test_auto_balances_what_only_the_merge_makes_uneven():
    answers, Q, _ = named(5, 5, 5, 5, 5)
    biased = Q * [1, 9, 1, 1, 1]
    biased /= biased.sum(axis=1, keepdims=True)
    found = look_for_skew(answers, answers.space, biased, 1.0)
    np.testing.assert_allclose(found, 0.2, atol=0.03)
    decided = decide_balance("auto", answers.space, len(Q), found)
    assert decided.frequencies is None
    assert "no sign" in decided.why
    assert look_for_skew(answers, answers.space, Q, 1.0) is None  # merged labels are even


def test_frequencies_are_the_same_at_any_temperature():
    answers, Q, _ = named(40, 2, 4, 1, 3)
    tempered = Q ** (1 / 3) / (Q ** (1 / 3)).sum(axis=1, keepdims=True)
    found = look_for_skew(answers, answers.space, tempered, 3.0)
    np.testing.assert_allclose(found, look_for_skew(answers, answers.space, Q, 1.0))
    decided = decide_balance("auto", answers.space, len(Q), found)
    weight = decided.weigh(np.ones(5), 3.0)
    np.testing.assert_allclose(weight**3, 5 * decided.frequencies)


def test_auto_does_not_balance_shared_lists_or_few_rows():
    shared = LabelSpace([["a", "b"], ["b", "a"]])
    assert "same classes" in decide_balance("auto", shared, 60).why
    assert look_for_skew(Answers.of(np.zeros((60, 4)), shared, abstain=False), shared, np.eye(2)[[0] * 60], 1.0) is None
    assert "fewer" in decide_balance("auto", LabelSpace([["a", "b"], ["b", "c"]]), 2).why
