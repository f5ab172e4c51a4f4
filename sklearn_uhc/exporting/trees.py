"""Trees with thresholds in double precision, as in their libraries; other converters round them to single precision.

A node sends a row to the left if its feature is at most the threshold. ONNX sums the leaves in double precision and
returns the sum in single precision.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from onnx import numpy_helper

from sklearn_uhc.exporting.graph import Graph


@dataclass
class Trees:
    """Nodes of all trees: each list has one entry per node, the last four one per leaf value."""

    tree: list[int] = field(default_factory=list)
    node: list[int] = field(default_factory=list)
    feature: list[int] = field(default_factory=list)
    threshold: list[float] = field(default_factory=list)
    left: list[int] = field(default_factory=list)
    right: list[int] = field(default_factory=list)
    missing_left: list[int] = field(default_factory=list)
    is_leaf: list[bool] = field(default_factory=list)
    target: list[int] = field(default_factory=list)
    value: list[float] = field(default_factory=list)
    leaf_tree: list[int] = field(default_factory=list)
    leaf_node: list[int] = field(default_factory=list)

    def split(self, tree: int, node: int, feature: int, threshold: float, left: int, right: int, missing: bool) -> None:
        """Add an inner node; with `missing`, NaN goes to the left."""
        self._node(tree, node, feature, threshold, left, right, missing)
        self.is_leaf.append(False)

    def leaf(self, tree: int, node: int, target: int, value: float) -> None:
        """Add a leaf, whose value is added to one of the scores."""
        self._node(tree, node, 0, 0.0, 0, 0, False)
        self.is_leaf.append(True)
        self.leaf_tree.append(tree)
        self.leaf_node.append(node)
        self.target.append(target)
        self.value.append(value)

    def _node(self, tree: int, node: int, feature: int, threshold: float, left: int, right: int, missing: bool) -> None:
        self.tree.append(tree)
        self.node.append(node)
        self.feature.append(feature)
        self.threshold.append(threshold)
        self.left.append(left)
        self.right.append(right)
        self.missing_left.append(int(missing))

    def add_to(self, graph: Graph, X: str, n_scores: int) -> str:
        """Add the ensemble to a graph; return the name of its scores, (n, n_scores), in double precision."""
        modes = ["LEAF" if leaf else "BRANCH_LEQ" for leaf in self.is_leaf]
        scores = graph.add(
            "TreeEnsembleRegressor",
            graph.double(X),
            domain="ai.onnx.ml",
            n_targets=n_scores,
            nodes_treeids=self.tree,
            nodes_nodeids=self.node,
            nodes_featureids=self.feature,
            nodes_modes=modes,
            nodes_values_as_tensor=numpy_helper.from_array(np.array(self.threshold), "thresholds"),
            nodes_truenodeids=self.left,
            nodes_falsenodeids=self.right,
            nodes_missing_value_tracks_true=self.missing_left,
            target_treeids=self.leaf_tree,
            target_nodeids=self.leaf_node,
            target_ids=self.target,
            target_weights_as_tensor=numpy_helper.from_array(np.array(self.value), "leaves"),
        )
        return graph.double(scores)


def forest_trees(estimators: Sequence[Any], classifier: bool) -> tuple[Trees, int]:
    """Return the mean of scikit-learn's trees, and its number of outputs: classes, or targets of a regressor."""
    trees, n_scores = Trees(), 0
    for i, estimator in enumerate(estimators):
        tree = estimator.tree_
        leaves = np.flatnonzero(tree.children_left < 0)
        values = tree.value[leaves, 0, :] if classifier else tree.value[leaves, :, 0]
        if classifier:
            values = values / values.sum(axis=1, keepdims=True)
        n_scores = values.shape[1]
        own = values != 0
        own[:, 0] = True  # a leaf needs at least one value
        at, target = np.nonzero(own)
        trees.tree += [i] * tree.node_count
        trees.node += range(tree.node_count)
        trees.feature += np.maximum(tree.feature, 0).tolist()
        trees.threshold += tree.threshold.tolist()
        trees.left += np.maximum(tree.children_left, 0).tolist()
        trees.right += np.maximum(tree.children_right, 0).tolist()
        trees.missing_left += np.asarray(tree.missing_go_to_left, dtype=int).tolist()
        trees.is_leaf += (tree.children_left < 0).tolist()
        trees.leaf_tree += [i] * len(at)
        trees.leaf_node += leaves[at].tolist()
        trees.target += target.tolist()
        trees.value += (values[at, target] / len(estimators)).tolist()
    return trees, n_scores


def lightgbm_trees(booster: Any) -> tuple[Trees, int]:
    """Return the trees of a LightGBM booster and its number of scores; categorical splits are not supported."""
    model, trees = booster.dump_model(num_iteration=booster.best_iteration or -1), Trees()
    n_scores = int(model["num_tree_per_iteration"])
    for i, info in enumerate(model["tree_info"]):
        _walk(info["tree_structure"], trees, i, i % n_scores)
    return trees, n_scores


def _walk(root: dict[str, Any], trees: Trees, tree: int, target: int) -> None:
    """Add one tree, with nodes numbered in the order of the traversal."""
    waiting, count = [(root, 0)], 1
    while waiting:
        node, number = waiting.pop()
        if "split_index" not in node:
            trees.leaf(tree, number, target, float(node["leaf_value"]))
            continue
        _check_split(node)
        left, right, count = count, count + 1, count + 2
        threshold = float(node["threshold"])
        # LightGBM treats NaN as 0 if a node has no rule for it.
        missing = bool(node["default_left"]) if node["missing_type"] == "NaN" else threshold >= 0.0
        trees.split(tree, number, int(node["split_feature"]), threshold, left, right, missing)
        waiting += [(node["left_child"], left), (node["right_child"], right)]


def _check_split(node: dict[str, Any]) -> None:
    if node["decision_type"] != "<=":
        raise NotImplementedError("splits by category (categorical_feature)")
    if node["missing_type"] == "Zero":
        raise NotImplementedError("zero_as_missing")


def histogram_trees(model: Any) -> tuple[Trees, int]:
    """Return the trees of a HistGradientBoosting model and its number of scores."""
    trees, count = Trees(), 0
    for iteration in model._predictors:
        for target, predictor in enumerate(iteration):
            for number, node in enumerate(predictor.nodes):
                if node["is_leaf"]:
                    trees.leaf(count, number, target, float(node["value"]))
                    continue
                if node["is_categorical"]:
                    raise NotImplementedError("splits by category (categorical_features)")
                own = int(node["feature_idx"]), float(node["num_threshold"]), int(node["left"]), int(node["right"])
                trees.split(count, number, *own, bool(node["missing_go_to_left"]))
            count += 1
    return trees, int(model.n_trees_per_iteration_)
