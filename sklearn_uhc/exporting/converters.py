"""Fitted models as parts of an ONNX graph: the converter of each model, and the meaning of its output.

A converter adds a model to a graph and returns its `Answer`. Everything is computed in double precision, except for
models whose library computes in single precision or whose converter supports nothing else.
"""

from __future__ import annotations

import copy
import re
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.base import BaseEstimator, is_classifier, is_regressor
from sklearn.compose import ColumnTransformer
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import (
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
    VotingClassifier,
)
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.kernel_approximation import Nystroem
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.svm import LinearSVC
from sklearn.tree import BaseDecisionTree

from sklearn_uhc.exporting.graph import ML_OPSET, OPSET, Graph
from sklearn_uhc.exporting.inputs import MATRIX, Input, Inputs
from sklearn_uhc.exporting.trees import forest_trees, histogram_trees, lightgbm_trees
from sklearn_uhc.membership.scorer import bounded_rows

#: Kinds of answers of a converter.
PROBABILITIES, SCORES, VALUES = "probabilities", "scores", "values"

FORESTS = (ExtraTreesClassifier, ExtraTreesRegressor, RandomForestClassifier, RandomForestRegressor)


class CannotExport(TypeError):
    """No converter supports this model, or the converted model gives other answers."""


@dataclass(frozen=True)
class Answer:
    """Name of a tensor (n, k) in double precision, and its kind: probabilities, scores or values of a regressor.

    `single`: it has one column, which is that of the second of two classes, or of the only class.
    """

    tensor: str
    kind: str
    single: bool = False


@dataclass(frozen=True)
class Features:
    """Tensors that a model reads: the inputs of the graph, or the single matrix that a transformer made of them.

    `example` has a few rows of the same data.
    """

    tensors: tuple[str, ...]
    inputs: Inputs
    example: Any

    def matrix(self, graph: Graph) -> str:
        """Return all features as one numeric tensor in double precision."""
        if any(part.dtype == "str" for part in self.inputs.parts):
            texts = [part.name for part in self.inputs.parts if part.dtype == "str"]
            raise CannotExport(f"it would read strings as numbers: {texts}.")
        doubles = [graph.double(tensor) for tensor in self.tensors]
        return doubles[0] if len(doubles) == 1 else graph.add("Concat", *doubles, axis=1)


def unwrap(model: Any) -> Any:
    """Return the fitted model inside a FrozenEstimator or a search."""
    while isinstance(model, FrozenEstimator) or hasattr(model, "best_estimator_"):
        model = model.estimator if isinstance(model, FrozenEstimator) else model.best_estimator_
    return model


def add_estimator(graph: Graph, model: Any, features: Features, double: bool) -> Answer:
    """Add a fitted classifier or regressor, or a Pipeline that ends in one."""
    model = unwrap(model)
    if isinstance(model, Pipeline):
        return add_estimator(graph, model.steps[-1][1], add_head(graph, model[:-1], features, double), double)
    package = type(model).__module__.split(".")[0]
    converter = CONVERTERS.get(package, add_sklearn)
    return converter(graph, model, features, double)


def add_head(graph: Graph, head: Pipeline, features: Features, double: bool) -> Features:
    """Add the transformers of a Pipeline to the graph, and return their output, one matrix, as features."""
    waiting: list[Any] = []
    for step in head.steps:
        if isinstance(step[1], Nystroem) or _has_kernel(step[1]):
            add = _add_nystroem if isinstance(step[1], Nystroem) else _add_union
            features = add(graph, step[1], _add_steps(graph, waiting, features, double))
            waiting = []
        elif step[1] not in (None, "passthrough"):
            waiting.append(step)
    return _add_steps(graph, waiting, features, double)


def _add_steps(graph: Graph, steps: list[Any], features: Features, double: bool) -> Features:
    if not steps:
        return features
    (made,) = _skl2onnx(graph, Pipeline(steps), features, double)
    example = Pipeline(steps).transform(features.example)
    return Features((made,), _matrix_like(example), example)


def _add_nystroem(graph: Graph, step: Any, features: Features) -> Features:
    """Add kernel features, exp(-gamma ||x - c||^2) times a matrix; skl2onnx has no converter for them."""
    if step.kernel != "rbf" or step.kernel_params:
        raise CannotExport(f"Nystroem is written with kernel='rbf' only, got {step.kernel!r}.")
    C, X = np.asarray(step.components_, dtype=float), features.matrix(graph)
    gamma = 1.0 / C.shape[1] if step.gamma is None else float(step.gamma)
    distances = graph.add("Max", _squared_distances(graph, X, C), graph.constant(0.0, float))
    kernel = graph.add("Exp", graph.add("Mul", distances, graph.constant(-gamma, float)))
    made = graph.add("MatMul", kernel, graph.constant(np.asarray(step.normalization_, dtype=float).T))
    example = step.transform(features.example)
    return Features((made,), _matrix_like(example), example)


def _squared_distances(graph: Graph, X: str, C: np.ndarray[Any, Any]) -> str:
    """Add ||x - c||^2 for every row c of C."""
    squares = graph.add("ReduceSum", graph.add("Mul", X, X), graph.constant([1], np.int64), keepdims=1)
    products = graph.add("MatMul", X, graph.constant(-2.0 * C.T))
    return graph.add("Add", graph.add("Add", squares, products), graph.constant((C**2).sum(axis=1)[None, :]))


def _add_neighbors(graph: Graph, model: Any, features: Features) -> Answer:
    """Add nearest neighbours by Euclidean distance; skl2onnx would compute it in a loop, which audits refuse."""
    C, y = np.asarray(model._fit_X, dtype=float), np.asarray(model._y)
    values = np.eye(len(model.classes_))[y.ravel()] if is_classifier(model) else y.reshape(len(C), -1).astype(float)
    k = graph.constant([model.n_neighbors], np.int64)
    near = graph.add("TopK", _squared_distances(graph, features.matrix(graph), C), k, output=1, largest=0, axis=1)
    found = graph.add("Gather", graph.constant(values), near, axis=0)
    mean = graph.add("ReduceMean", found, graph.constant([1], np.int64), keepdims=0)
    return Answer(mean, PROBABILITIES if is_classifier(model) else VALUES, values.shape[1] == 1)


def _is_euclidean(model: Any) -> bool:
    """Return whether these are nearest neighbours that all count the same, by Euclidean distance in dense rows."""
    if not isinstance(model, (KNeighborsClassifier, KNeighborsRegressor)) or model.weights not in (None, "uniform"):
        return False
    several = is_classifier(model) and model.outputs_2d_
    return model.effective_metric_ == "euclidean" and not issparse(model._fit_X) and not several


def _has_kernel(step: Any) -> bool:
    return isinstance(step, FeatureUnion) and any(isinstance(part, Nystroem) for _, part in step.transformer_list)


def _add_union(graph: Graph, step: Any, features: Features) -> Features:
    """Add kernel features and the original features, unchanged or bounded, side by side, each times its weight."""
    parts = []
    for name, part in step.transformer_list:
        if isinstance(part, Nystroem):
            made = _add_nystroem(graph, part, features).matrix(graph)
        elif part == "passthrough" or (isinstance(part, FunctionTransformer) and part.func is None):
            made = features.matrix(graph)
        elif isinstance(part, FunctionTransformer) and part.func is bounded_rows:
            made = _add_bounded_rows(graph, features)
        else:
            raise CannotExport(f"{type(part).__name__} cannot be written as ONNX next to Nystroem in a FeatureUnion.")
        weight = (step.transformer_weights or {}).get(name, 1.0)
        parts.append(graph.add("Mul", made, graph.constant(weight, float)))
    example = step.transform(features.example)
    return Features((graph.add("Concat", *parts, axis=1),), _matrix_like(example), example)


def _add_bounded_rows(graph: Graph, features: Features) -> str:
    """Add the computation of `bounded_rows`."""
    X = features.matrix(graph)
    squares = graph.add("ReduceSum", graph.add("Mul", X, X), graph.constant([1], np.int64), keepdims=1)
    longer = graph.add("Add", squares, graph.constant(features.example.shape[1], float))
    return graph.add("Div", X, graph.add("Sqrt", graph.add("Mul", longer, graph.constant(0.5, float))))


def add_sklearn(graph: Graph, model: Any, features: Features, double: bool) -> Answer:
    """Add an estimator of scikit-learn, or one whose converter is registered with skl2onnx."""
    if isinstance(model, (HistGradientBoostingClassifier, HistGradientBoostingRegressor)):
        return add_histogram_boosting(graph, model, features, double)
    if _is_linear(model):
        return _linear_scores(graph, model, features)
    if isinstance(model, (BaseDecisionTree, *FORESTS)):
        return add_forest(graph, model, features)
    if _is_euclidean(model):
        return _add_neighbors(graph, model, features)
    if isinstance(model, DummyClassifier):
        return _constant(graph, model, features)
    if isinstance(model, (GradientBoostingClassifier, GradientBoostingRegressor)):
        features = _rounded(graph, features)
    if isinstance(model, VotingClassifier):  # else its converter needs an output shape that is not used here
        model = copy.copy(model)
        model.flatten_transform = False
    made = _skl2onnx(graph, model, features, double)
    if is_regressor(model):
        n_targets = np.size(model.predict(features.example)[:1])
        shape = graph.constant([-1, n_targets], np.int64)
        return Answer(graph.add("Reshape", graph.double(made[0]), shape), VALUES, n_targets == 1)
    if hasattr(model, "predict_proba"):
        return Answer(graph.double(made[1]), PROBABILITIES)
    scores, two = graph.double(made[1]), len(model.classes_) == 2
    if two:  # the converter of SVC returns the score s as (s, -s)
        scores = graph.add("Gather", scores, graph.constant([0], np.int64), axis=1)
    return Answer(scores, SCORES, two)


def add_forest(graph: Graph, model: Any, features: Features) -> Answer:
    """Add a tree or forest of scikit-learn; exact zeros stay exact."""
    classifier = is_classifier(model)
    if model.n_outputs_ > 1 and classifier:
        raise CannotExport("it predicts several outputs at once.")
    trees, n_scores = forest_trees(getattr(model, "estimators_", [model]), classifier)
    # scikit-learn's trees round X to single precision before they compare it with thresholds.
    values = trees.add_to(graph, graph.single(features.matrix(graph)), n_scores)
    return Answer(values, PROBABILITIES if classifier else VALUES, n_scores == 1)


def _rounded(graph: Graph, features: Features) -> Features:
    rounded = graph.double(graph.single(features.matrix(graph)))
    return Features((rounded,), _matrix_like(features.example), features.example)


def _matrix_like(example: Any) -> Inputs:
    return Inputs.of(example.toarray() if issparse(example) else np.asarray(example), "float64")


def _constant(graph: Graph, model: Any, features: Features) -> Answer:
    """Add constant answers, for a student that learned a single class."""
    rows = graph.add("Shape", features.tensors[0], start=0, end=1)
    shape = graph.add("Concat", rows, graph.constant([1], np.int64), axis=0)
    prior = graph.constant(model.predict_proba(np.zeros((1, 1))), float)
    return Answer(graph.add("Expand", prior, shape), PROBABILITIES)


def _skl2onnx(graph: Graph, model: Any, features: Features, double: bool) -> list[str]:
    skl2onnx = load("skl2onnx")
    types = import_module("skl2onnx.common.data_types")
    features = _joined(graph, model, features)
    number = types.DoubleTensorType if double else types.FloatTensorType
    initial, feeds = [], []
    for part, tensor in zip(features.inputs.parts, features.tensors, strict=True):
        text = part.dtype == "str"
        initial.append((part.name, (types.StringTensorType if text else number)([None, *part.shape])))
        feeds.append(tensor if text else (graph.double if double else graph.single)(tensor))
    convert_imputer = import_module("sklearn_uhc.exporting.imputer").convert_imputer
    wanted = {
        "initial_types": initial,
        "target_opset": {"": OPSET, "ai.onnx.ml": ML_OPSET},
        "custom_conversion_functions": {SimpleImputer: convert_imputer},
    }
    options = {id(model): {"zipmap": False}} if isinstance(model, BaseEstimator) and is_classifier(model) else None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            made = skl2onnx.convert_sklearn(model, options=options, **wanted)
        except NameError:  # this converter has no such option
            made = skl2onnx.convert_sklearn(model, **wanted)
    # skl2onnx replaces spaces and the like by underscores, and drops inputs that are not used.
    given = {re.sub(r"\W", "_", part.name): tensor for part, tensor in zip(features.inputs.parts, feeds, strict=True)}
    return graph.embed(
        _at_our_opset(made), {read.name: given[re.sub(r"\W", "_", read.name)] for read in made.graph.input}
    )


def _joined(graph: Graph, model: Any, features: Features) -> Features:
    """Return columns as one matrix, which most converters need, unless the model selects some by name."""
    parts = features.inputs.parts
    if len(parts) == 1 or any(part.dtype == "str" for part in parts):
        return features
    if any(isinstance(step, ColumnTransformer) for step in [model, *model.get_params().values()]):
        return features
    return Features(
        (features.matrix(graph),), Inputs((Input(MATRIX, "float64", (len(parts),)),), columns=False), features.example
    )


def _is_linear(model: Any) -> bool:
    """Return whether to use a matrix product: skl2onnx has single-precision scores, and is wrong for binary LDA."""
    if isinstance(model, (LinearDiscriminantAnalysis, LinearSVC)):
        return True
    linear = type(model).__module__.startswith("sklearn.linear_model.") and is_classifier(model)
    return linear and not hasattr(model, "predict_proba")


def _linear_scores(graph: Graph, model: Any, features: Features) -> Answer:
    """Add scores of linear classifiers; for LDA, their softmax is its probabilities."""
    weights = graph.constant(np.atleast_2d(model.coef_).T, float)
    product = graph.add("MatMul", features.matrix(graph), weights)
    scores = graph.add("Add", product, graph.constant(np.atleast_1d(model.intercept_), float))
    return Answer(scores, SCORES, len(model.classes_) == 2)


def add_histogram_boosting(graph: Graph, model: Any, features: Features, double: bool) -> Answer:
    """Add a HistGradientBoosting model of scikit-learn."""
    if getattr(model, "_preprocessor", None) is not None:
        raise CannotExport("HistGradientBoosting with categorical features has no converter: encode them before it.")
    trees, n_scores = histogram_trees(model)
    raw = trees.add_to(graph, features.matrix(graph), n_scores)
    raw = graph.add("Add", raw, graph.constant(np.ravel(model._baseline_prediction), float))
    return Answer(raw, VALUES if is_regressor(model) else SCORES, n_scores == 1)


def add_lightgbm(graph: Graph, model: Any, features: Features, double: bool) -> Answer:
    """Add an LGBMClassifier; with categorical features by its converter, in single precision."""
    if not double:
        return _by_onnxmltools("convert_lightgbm", graph, model, features, zipmap=False)
    trees, n_scores = lightgbm_trees(model.booster_)
    return Answer(trees.add_to(graph, features.matrix(graph), n_scores), SCORES, n_scores == 1)


def add_xgboost(graph: Graph, model: Any, features: Features, double: bool) -> Answer:
    """Add an XGBClassifier, which itself computes in single precision."""
    return _by_onnxmltools("convert_xgboost", graph, model, features)


def _by_onnxmltools(converter: str, graph: Graph, model: Any, features: Features, **options: Any) -> Answer:
    tools, types = load("onnxmltools"), import_module("onnxmltools.convert.common.data_types")
    X, n_features = graph.single(features.matrix(graph)), int(model.n_features_in_)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = getattr(tools, converter)(
            _with_plain_names(model), initial_types=[(MATRIX, types.FloatTensorType([None, n_features]))],
            target_opset=15, **options,
        )  # fmt: skip
    return Answer(graph.double(graph.embed(_at_our_opset(made), {MATRIX: X})[1]), PROBABILITIES)


def _at_our_opset(made: Any) -> Any:
    """Declare our operator set version; converters declare the oldest that has all operators they use."""
    for domain in made.opset_import:
        domain.version = domain.version if domain.domain else OPSET
    return made


def _with_plain_names(model: Any) -> Any:
    """Return an XGBoost model with features named f0, f1, ..., as its converter requires."""
    if type(model).__module__.split(".")[0] != "xgboost" or model.get_booster().feature_names is None:
        return model
    kind, booster = type(model), model.get_booster().copy()
    booster.feature_names = None
    plain = kind(**model.get_params())
    plain.__dict__.update(model.__dict__ | {"_Booster": booster})
    return plain


def add_catboost(graph: Graph, model: Any, features: Features, double: bool) -> Answer:
    """Add a CatBoostClassifier by CatBoost's own export, which does not support categorical features."""
    load("catboost")
    onnx = load("onnx")
    if model.get_cat_feature_indices() or model.get_text_feature_indices() or model.get_embedding_feature_indices():
        raise CannotExport("CatBoost itself writes ONNX for numbers only: encode categories and strings before it.")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        model.save_model(str(path), format="onnx")
        made = onnx.load(str(path))
    maps = [node for node in made.graph.node if node.op_type == "ZipMap"]
    for node in maps:
        made.graph.node.remove(node)
    made.graph.output[1].name = maps[0].input[0] if maps else made.graph.output[1].name
    X = graph.single(features.matrix(graph))
    return Answer(graph.double(graph.embed(made, {made.graph.input[0].name: X})[1]), PROBABILITIES)


#: Converters by package of the model; all others are converted by skl2onnx.
CONVERTERS: dict[str, Callable[[Graph, Any, Features, bool], Answer]] = {
    "lightgbm": add_lightgbm,
    "xgboost": add_xgboost,
    "catboost": add_catboost,
}


def load(package: str) -> Any:
    """Import an optional package; the error says how to install it."""
    try:
        return import_module(package)
    except ImportError as error:
        raise ImportError(f"Writing ONNX needs {package}: pip install 'sklearn-uhc[export]'.") from error
