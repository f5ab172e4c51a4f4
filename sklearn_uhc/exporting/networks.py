"""Torch modules and skorch nets as parts of an ONNX graph."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
import torch
from scipy.special import softmax

from sklearn_uhc.exporting.converters import PROBABILITIES, SCORES, Answer, CannotExport, Features, load
from sklearn_uhc.exporting.graph import OPSET, Graph
from sklearn_uhc.exporting.inputs import MATRIX
from sklearn_uhc.teachers.replica import replicate


def add_student_net(graph: Graph, net: Any, features: Features) -> tuple[Answer, float]:
    """Add a net trained on soft labels; also return the factor of its logits."""
    shown = net.predict_nonlinearity
    kind = PROBABILITIES if shown is None else SCORES
    factor = float(shown.keywords.get("factor", 1.0)) if isinstance(shown, partial) else 1.0
    return Answer(add_module(graph, net.module_, features), kind), factor


def add_net(graph: Graph, net: Any, features: Features) -> Answer:
    """Add a skorch net; its predictions show whether its module returns logits or probabilities."""
    rows = torch.as_tensor(np.asarray(features.example, dtype=np.float32))
    with torch.inference_mode():
        output = _ready(net.module_)(rows).numpy()
    own = np.asarray(net.predict_proba(rows.numpy()))
    for kind, answer in ((PROBABILITIES, output), (SCORES, softmax(output, axis=1))):
        if np.shape(answer) == own.shape and np.allclose(answer, own, atol=1e-5):
            return Answer(add_module(graph, net.module_, features), kind)
    raise CannotExport("predict_proba of the net is neither the output of its module nor the softmax of it.")


def add_torch_teacher(graph: Graph, teacher: Any, features: Features) -> Answer:
    """Add a TorchTeacher, including its preprocessing."""
    if teacher.preprocess is None:
        return Answer(add_module(graph, teacher.module, features), SCORES)
    return Answer(add_module(graph, _Preprocessed(teacher.preprocess, teacher.module), features), SCORES)


class _Preprocessed(torch.nn.Module):
    def __init__(self, preprocess: Any, module: Any) -> None:
        super().__init__()
        self.preprocess, self.module = preprocess, module

    def forward(self, batch: Any) -> Any:
        return self.module(self.preprocess(batch))


def add_module(graph: Graph, module: Any, features: Features) -> str:
    """Add a module that takes a batch of floats; return the name of its output in double precision."""
    load("onnxscript")
    columns = len(features.tensors) > 1 or features.inputs.columns
    X = features.matrix(graph) if columns else features.tensors[0]
    example = torch.as_tensor(np.asarray(features.example, dtype=np.float32)[:1])
    with _quiet():
        made = torch.onnx.export(
            _ready(module),
            (example.repeat(2, *[1] * (example.ndim - 1)),),  # a batch of one row would become a constant
            dynamo=True,
            opset_version=OPSET,
            external_data=False,
            verbose=False,
            dynamic_shapes=({0: torch.export.Dim.DYNAMIC},),
            input_names=[MATRIX],
            output_names=["output"],
        )
    assert made is not None
    return graph.double(graph.embed(made.model_proto, {MATRIX: graph.single(X)})[0])


def _ready(module: Any) -> Any:
    """Return a replica on the CPU, in evaluation mode: exporting must not change the module."""
    return replicate(module).to("cpu").eval()


@contextmanager
def _quiet() -> Iterator[None]:
    """Hide torch's messages during the export."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)
