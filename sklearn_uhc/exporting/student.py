"""Classifiers as graphs from inputs to probabilities, including a student's temperature and normalisation."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.pipeline import Pipeline

from sklearn_uhc.exporting.converters import (
    PROBABILITIES,
    SCORES,
    VALUES,
    Answer,
    CannotExport,
    Features,
    add_estimator,
    add_head,
    unwrap,
)
from sklearn_uhc.exporting.graph import Graph
from sklearn_uhc.membership.scorer import OwnOrPublic
from sklearn_uhc.students import SoftLabelClassifier
from sklearn_uhc.students.direct import is_net
from sklearn_uhc.teachers import TorchTeacher


def add_classifier(graph: Graph, model: Any, features: Features, double: bool) -> str:
    """Add a fitted classifier; return the name of its probabilities (n, k), in double precision."""
    model = unwrap(model)
    model = getattr(model, "student_", model)
    if isinstance(model, SoftLabelClassifier):
        return add_student(graph, model, features, double)
    if isinstance(model, Pipeline):
        return add_classifier(graph, model.steps[-1][1], add_head(graph, model[:-1], features, double), double)
    if isinstance(model, OwnOrPublic):
        return _added_up(graph, add_classifier(graph, model.estimator_, features, double), model.offsets)
    if is_net(model):
        from sklearn_uhc.exporting.networks import add_net

        return probabilities(graph, add_net(graph, model, features))
    if isinstance(model, TorchTeacher):
        from sklearn_uhc.exporting.networks import add_torch_teacher

        return probabilities(graph, add_torch_teacher(graph, model, features))
    return probabilities(graph, add_estimator(graph, model, features, double))


def add_student(graph: Graph, clf: SoftLabelClassifier, features: Features, double: bool) -> str:
    """Add a fitted SoftLabelClassifier; return the name of its probabilities (n, L) at temperature 1."""
    if clf.strategy_ == "hard":
        return add_classifier(graph, clf.estimator_, features, double)
    if clf.strategy_ == "pipeline":
        head = add_head(graph, clf.estimator_[:-1], features, double)
        return add_student(graph, clf.estimator_.steps[-1][1], head, double)
    power = clf._power
    if is_net(clf.estimator_):
        from sklearn_uhc.exporting.networks import add_student_net

        answer, factor = add_student_net(graph, clf.estimator_, features)
        power *= factor
    else:
        answer = add_estimator(graph, clf.estimator_, features, double)
    if answer.kind == VALUES:
        answer = _simplex(graph, answer, clf.class_prior_)
    made = probabilities(graph, answer, power)
    own = getattr(clf.estimator_, "classes_", clf.classes_)
    if len(own) < len(clf.classes_):
        made = _spread(graph, made, np.searchsorted(clf.classes_, np.asarray(own)), len(clf.classes_))
    return made


def probabilities(graph: Graph, answer: Answer, power: float = 1.0) -> str:
    """Raise an answer to a power and normalise it."""
    if answer.kind == VALUES:
        raise CannotExport("it is a regressor, which has no classes.")
    exponent = graph.constant(power, float)
    if answer.kind == SCORES:
        scores = answer.tensor
        if answer.single:  # it is the second class; the first has score 0
            scores = graph.add("Pad", scores, graph.constant([0, 1, 0, 0], np.int64), graph.constant(0.0, float))
        return graph.add("Softmax", graph.add("Mul", scores, exponent), axis=1)
    # Converters that compute 1 - p may return negative values. Division by the largest one avoids underflow.
    positive = graph.add("Max", answer.tensor, graph.constant(0.0, float))
    top = graph.add("ReduceMax", positive, graph.constant([1], np.int64), keepdims=1)
    raised = graph.add("Pow", graph.add("Div", positive, top), exponent)
    return graph.add("Div", raised, _row_sums(graph, raised))


def _simplex(graph: Graph, answer: Answer, prior: NDArray[Any]) -> Answer:
    """Turn a regressor's values into probabilities, as the twin strategy does; the prior if no value is positive."""
    values = answer.tensor
    if answer.single and len(prior) == 2:
        values = graph.add("Concat", graph.add("Sub", graph.constant(1.0, float), values), values, axis=1)
    positive = graph.add("Max", values, graph.constant(0.0, float))
    some = graph.add("Greater", _row_sums(graph, positive), graph.constant(0.0, float))
    return Answer(graph.add("Where", some, positive, graph.constant(prior[None, :], float)), PROBABILITIES)


def _spread(graph: Graph, made: str, places: NDArray[np.int_], n_classes: int) -> str:
    """Put columns at their positions among all classes; classes unknown to the student get probability 0."""
    columns = np.full(n_classes, len(places))  # index of an extra column of zeros
    columns[places] = np.arange(len(places))
    padded = graph.add("Pad", made, graph.constant([0, 0, 0, 1], np.int64), graph.constant(0.0, float))
    return graph.add("Gather", padded, graph.constant(columns, np.int64), axis=1)


def _added_up(graph: Graph, made: str, offsets: Any) -> str:
    """Add up all columns but the first, each times exp(offset), and normalise: (n, 2)."""
    if np.any(offsets):
        made = graph.add("Mul", made, graph.constant(np.exp(np.append(0.0, offsets)), np.float64))
        made = graph.add("Div", made, _row_sums(graph, made))
    ends = [graph.constant(values, np.int64) for values in ([1], [np.iinfo(np.int64).max], [1])]
    first = graph.add("Gather", made, graph.constant([0], np.int64), axis=1)
    return graph.add("Concat", first, _row_sums(graph, graph.add("Slice", made, *ends)), axis=1)


def _row_sums(graph: Graph, tensor: str) -> str:
    return graph.add("ReduceSum", tensor, graph.constant([1], np.int64), keepdims=1)
