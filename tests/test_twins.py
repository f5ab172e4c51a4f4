"""Trees, forests and neighbours on soft labels: with one-hot labels they equal the original classifiers."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.ensemble import RandomForestClassifier
from sklearn.neighbors import KNeighborsClassifier, RadiusNeighborsClassifier
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from sklearn_uhc import SoftLabelClassifier
from tests.helpers import TREES


@pytest.mark.parametrize("tree", TREES, ids=lambda t: type(t).__name__)
def test_on_one_hot_labels_a_twin_is_the_gini_classifier(data, tree):
    X, y = data
    twin = SoftLabelClassifier(tree).fit(X, np.eye(4)[y])
    assert twin.strategy_ == "twin"
    plain = clone(tree).fit(X, y)
    if hasattr(plain, "tree_"):
        assert twin.estimator_.tree_.node_count == plain.tree_.node_count
    np.testing.assert_allclose(twin.predict_proba(X), plain.predict_proba(X), atol=1e-9)


@pytest.mark.parametrize("params", [{"min_impurity_decrease": 0.02}, {"ccp_alpha": 0.01}, {"max_features": 2}])
def test_a_twin_keeps_the_meaning_of_hyper_parameters(data, params):
    X, y = data
    tree = DecisionTreeClassifier(random_state=0, **params)
    twin = SoftLabelClassifier(tree).fit(X, np.eye(4)[y])
    assert twin.estimator_.tree_.node_count == tree.fit(X, y).tree_.node_count


def test_a_leaf_is_the_weighted_mean_of_its_soft_labels(data, soft):
    X, _ = data
    weight = np.random.default_rng(0).random(len(X))
    clf = SoftLabelClassifier(DecisionTreeClassifier(max_depth=3, random_state=0)).fit(X, soft, weight)
    leaf = clf.estimator_.apply(X)
    proba = clf.predict_proba(X)
    for one in np.unique(leaf):
        mean = np.average(soft[leaf == one], axis=0, weights=weight[leaf == one])
        np.testing.assert_allclose(proba[leaf == one], np.tile(mean, (np.sum(leaf == one), 1)), atol=1e-10)


def test_a_split_must_be_worth_its_nodes(data, soft):
    """Fewer nodes than rows ask for, every split explains its share, and a given threshold is taken as it is."""
    X, _ = data
    weight = np.random.default_rng(0).random(len(X)) + 0.1
    tree = SoftLabelClassifier(DecisionTreeClassifier(random_state=0)).fit(X, soft, weight).estimator_.tree_
    whole = DecisionTreeClassifier(random_state=0, min_impurity_decrease=1e-15)
    whole = SoftLabelClassifier(whole).fit(X, soft, weight).estimator_.tree_
    assert whole.n_leaves == len(X)
    assert tree.n_leaves < 0.6 * len(X)
    inner = np.flatnonzero(tree.children_left >= 0)
    left, right = tree.children_left[inner], tree.children_right[inner]
    error = tree.weighted_n_node_samples * tree.impurity
    gain = error[inner] - error[left] - error[right]
    assert gain.min() >= 0.3 * error[0] / len(X) * (1 - 1e-9)
    regressor = SoftLabelClassifier(DecisionTreeRegressor(random_state=0)).fit(X, soft, weight).estimator_
    assert regressor.get_n_leaves() == len(X)  # a regressor is the student that was asked for


def soft_gini(Q, weight):
    """Weighted Gini impurity of soft labels."""
    share = weight @ Q / weight.sum()
    return weight.sum() * (1 - share @ share)


def test_a_twin_splits_where_the_gini_impurity_of_soft_labels_is_least(data, soft):
    X, _ = data
    weight = np.random.default_rng(0).random(len(X)) + 0.1
    tree = (
        SoftLabelClassifier(DecisionTreeClassifier(max_depth=1, random_state=0)).fit(X, soft, weight).estimator_.tree_
    )
    found = {}
    for feature in range(X.shape[1]):
        values = np.unique(X[:, feature])
        for threshold in (values[1:] + values[:-1]) / 2:
            left = X[:, feature] <= threshold
            found[feature, threshold] = sum(soft_gini(soft[part], weight[part]) for part in (left, ~left))
    left = X[:, tree.feature[0]] <= tree.threshold[0]
    chosen = sum(soft_gini(soft[part], weight[part]) for part in (left, ~left))
    assert chosen == pytest.approx(min(found.values()), rel=1e-9)
    # The regressor's impurity is that of Gini divided by the number of classes, less a part that no split changes.
    assert tree.impurity[0] * 4 < 1


@pytest.mark.parametrize("weights", ["uniform", "distance"])
def test_neighbours_average_weighted_soft_labels(data, soft, weights):
    X, y = data
    sample_weight = np.random.default_rng(0).random(len(X)) + 0.1
    clf = SoftLabelClassifier(KNeighborsClassifier(5)).fit(X, soft, sample_weight)
    _, near = clf.estimator_.kneighbors(X)
    expected = [np.average(soft[rows], axis=0, weights=sample_weight[rows]) for rows in near]
    np.testing.assert_allclose(clf.predict_proba(X), expected)
    plain = KNeighborsClassifier(5, weights=weights).fit(X, y)
    one_hot = SoftLabelClassifier(KNeighborsClassifier(5, weights=weights)).fit(X, np.eye(4)[y])
    np.testing.assert_allclose(one_hot.predict_proba(X + 0.1), plain.predict_proba(X + 0.1), atol=1e-12)


def test_radius_neighbours_without_any_give_the_prior(data, soft):
    X, _ = data
    clf = SoftLabelClassifier(RadiusNeighborsClassifier(2.0)).fit(X, soft)
    with pytest.warns(UserWarning, match="1 of 2 rows .*radius") as caught:
        proba = clf.predict_proba(np.vstack([X[:1], [[1e6] * 4]]))
    assert len(caught) == 1
    np.testing.assert_allclose(proba[1], soft.mean(axis=0))
    assert np.isfinite(proba).all()


@pytest.mark.parametrize("class_weight", ["balanced", {0: 3.0, 2: 0.5}], ids=str)
@pytest.mark.parametrize("strategy", ["twin", "replicate"])
def test_class_weights_are_those_of_the_plain_classifier(data, class_weight, strategy):
    X, y = data
    keep = (y != 1) | (np.arange(len(y)) % 3 == 0)
    X, y = X[keep], y[keep]
    tree = DecisionTreeClassifier(max_depth=4, random_state=0, class_weight=class_weight)
    soft = SoftLabelClassifier(tree, strategy=strategy).fit(X, np.eye(4)[y])
    np.testing.assert_allclose(soft.predict_proba(X), tree.fit(X, y).predict_proba(X), atol=1e-9)


def test_a_class_of_weight_zero_leaves_its_rows_out(data):
    X, y = data
    tree = DecisionTreeClassifier(max_depth=4, random_state=0, class_weight={0: 0})
    soft = SoftLabelClassifier(tree).fit(X, np.eye(4)[y])
    plain = DecisionTreeClassifier(max_depth=4, random_state=0).fit(X[y != 0], y[y != 0])
    np.testing.assert_allclose(soft.predict_proba(X)[:, 1:], plain.predict_proba(X), atol=1e-9)


@pytest.mark.parametrize("params", [{"max_samples": 0.5}, {"n_jobs": 2}, {"bootstrap": False}], ids=str)
def test_a_forest_keeps_its_settings(data, params):
    X, y = data
    forest = RandomForestClassifier(10, random_state=0, **params)
    soft = SoftLabelClassifier(forest).fit(X, np.eye(4)[y])
    np.testing.assert_allclose(soft.predict_proba(X), forest.fit(X, y).predict_proba(X), atol=1e-9)


def test_out_of_bag_score_is_the_accuracy(data, soft):
    X, y = data
    forest = RandomForestClassifier(40, random_state=0, oob_score=True)
    twin = SoftLabelClassifier(forest).fit(X, np.eye(4)[y])
    plain = forest.fit(X, y)
    assert twin.estimator_.oob_score_ == pytest.approx(plain.oob_score_)
    np.testing.assert_allclose(twin.estimator_.oob_prediction_, plain.oob_decision_function_, atol=1e-9)
    assert 0.5 < SoftLabelClassifier(forest).fit(X, soft).estimator_.oob_score_ <= 1


@pytest.mark.parametrize("make", [DecisionTreeClassifier, RandomForestClassifier])
def test_monotonic_constraints_of_two_classes(data, make):
    X, y = data
    X, y = X[y < 2], y[y < 2]
    model = make(random_state=0, monotonic_cst=[1, -1, 0, 0])
    soft = SoftLabelClassifier(model).fit(X, np.eye(2)[y])
    np.testing.assert_allclose(soft.predict_proba(X), model.fit(X, y).predict_proba(X), atol=1e-9)
    Q = np.column_stack([0.3 + 0.4 * (y == 0), 0.3 + 0.4 * (y == 1)])
    grid = np.repeat(X[:20], 2, axis=0)
    grid[1::2, 0] += 3
    P = SoftLabelClassifier(model).fit(X, Q).predict_proba(grid)
    assert (P[1::2, 1] >= P[::2, 1] - 1e-12).all()


def test_entropy_is_mapped_with_a_warning(data, soft):
    X, _ = data
    with pytest.warns(UserWarning, match="criterion='entropy' of DecisionTreeClassifier is not available") as told:
        SoftLabelClassifier(DecisionTreeClassifier(criterion="entropy")).fit(X, soft)
    assert [warning.filename for warning in told] == [__file__]


def test_a_subclass_keeps_its_twin_unless_it_learns_or_answers_in_its_own_way():
    class Renamed(RandomForestClassifier):
        pass

    class Smoothed(KNeighborsClassifier):
        def predict_proba(self, X):
            return (super().predict_proba(X) + 0.1) / 1.2

    rng = np.random.default_rng(0)
    X, Q = rng.normal(size=(60, 3)), rng.dirichlet(np.ones(2), size=60)
    student = SoftLabelClassifier(Renamed(10, random_state=0)).fit(X, Q)
    expected = SoftLabelClassifier(RandomForestClassifier(10, random_state=0)).fit(X, Q)
    assert student.strategy_ == "twin"
    np.testing.assert_array_equal(student.predict_proba(X), expected.predict_proba(X))
    with pytest.raises(TypeError):
        SoftLabelClassifier(Smoothed()).fit(X, Q)
