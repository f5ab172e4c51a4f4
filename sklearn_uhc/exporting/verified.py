"""Convert a model to ONNX and compare it with the original on example rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import TensorProto

from sklearn_uhc.exporting.converters import CannotExport, Features, load
from sklearn_uhc.exporting.graph import Graph, class_constant
from sklearn_uhc.exporting.inputs import Inputs
from sklearn_uhc.exporting.student import add_classifier
from sklearn_uhc.utils.response import log_proba
from sklearn_uhc.utils.rows import count_rows, take_rows

#: Maximum difference between the probabilities of the ONNX model and of the original.
TOLERANCE = 1e-5
#: Names of the outputs.
LABEL, PROBABILITIES = "label", "probabilities"


@dataclass(frozen=True)
class Verified:
    """An ONNX model, its inputs, its answers on the example, and their largest difference from the original's."""

    content: bytes
    inputs: Inputs
    answers: NDArray[np.floating[Any]]
    max_error: float


def convert_and_verify(
    model: Any, X: Any, classes: NDArray[Any], inputs: Inputs, metadata: dict[str, str], single_output: bool
) -> Verified:
    """Convert a fitted classifier and compare its answers on X; in double precision if its converter supports it."""
    seen = inputs.cast(X, keep_types=True)
    wanted = np.exp(log_proba(model, seen, type(model).__name__))
    reasons = []
    for double in (True, False):
        try:
            content = _convert(model, X, classes, inputs, metadata, double, single_output)
            labels, answers = run(content, inputs.feed(X))
            max_error = compare(answers, labels, wanted, classes)
        except ImportError:
            raise
        except Exception as error:  # converters raise all kinds of errors
            reasons.append(_first_line(error))
        else:
            return Verified(content, inputs, answers, max_error)
    tried = [f"In {precision} precision: {why}" for precision, why in zip(("double", "single"), reasons, strict=True)]
    why = reasons[0] if len(set(reasons)) == 1 else " ".join(tried)
    raise CannotExport(
        f"{_name(model)} cannot be written as ONNX. {why} The page 'From owner to deployment' lists what can. For "
        "other models, its owner can send answers instead (fit(X, log_p=...))."
    )


def _convert(
    model: Any, X: Any, classes: NDArray[Any], inputs: Inputs, metadata: dict[str, str], double: bool, single: bool
) -> bytes:
    graph = Graph()
    few = take_rows(X, slice(0, min(8, count_rows(X))))
    features = Features(tuple(inputs.declare(graph)), inputs, few)
    made = add_classifier(graph, model, features, double)
    names, kind = class_constant(graph, classes)
    best = graph.add("ArgMax", made, axis=1, keepdims=0)
    graph.output(graph.add("Gather", names, best, axis=0), LABEL, kind, [None])
    number = TensorProto.FLOAT if single else TensorProto.DOUBLE
    graph.output(graph.single(made) if single else made, PROBABILITIES, number, [None, len(classes)])
    content: bytes = graph.model(metadata).SerializeToString()
    return content


def run(content: bytes, feed: dict[str, NDArray[Any]]) -> tuple[NDArray[Any], NDArray[np.floating[Any]]]:
    """Return the labels and probabilities of a model for some rows."""
    ort = load("onnxruntime")
    options = ort.SessionOptions()
    options.log_severity_level = 4
    session = ort.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    labels, answers = session.run([LABEL, PROBABILITIES], feed)
    return labels, answers


def compare(answers: NDArray[Any], labels: NDArray[Any], wanted: NDArray[Any], classes: NDArray[Any]) -> float:
    """Return the largest difference; raise an error if it exceeds the tolerance, or if labels differ without a tie."""
    if answers.shape != wanted.shape:
        raise ValueError(f"it returns {answers.shape[1:]} probabilities per row, the original {wanted.shape[1:]}.")
    off = np.abs(answers - wanted).max(axis=1)
    bad = ~(off <= TOLERANCE)
    if bad.any():
        row = int(np.argmax(np.nan_to_num(off, nan=np.inf)))
        raise ValueError(
            f"its probabilities differ from the original in {int(bad.sum())} of {len(bad)} example rows, by up to "
            f"{off[row]:.2g} in row {row} (allowed: {TOLERANCE:g})."
        )
    ranked = np.sort(wanted, axis=1)
    clear = ranked[:, -1] - (ranked[:, -2] if wanted.shape[1] > 1 else 0.0) > TOLERANCE
    if (np.asarray(labels)[clear] != classes[wanted.argmax(axis=1)][clear]).any():
        raise ValueError("its labels differ from the original.")
    return float(off.max())


def _name(model: Any) -> str:
    """Return the name of a model and of its inner models: a Pipeline's last step, a student's estimator."""
    names = [type(model).__name__]
    while True:
        inner = getattr(model, "student_", None) or getattr(model, "estimator_", None)
        if inner is None and hasattr(model, "steps"):
            inner = model.steps[-1][1]
        if inner is None:
            return " with ".join(dict.fromkeys(names))
        model = inner
        names.append(type(model).__name__)


def _first_line(error: Exception) -> str:
    text = str(error).strip().split("\n")[0] or type(error).__name__
    return f"{text[:300]}{'' if text.endswith('.') else '.'}"
