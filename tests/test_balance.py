import numpy as np
import pytest

from sklearn_uhc.balance import balanced_targets, class_weights


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
