"""An ONNX graph under construction: nodes are added by name, and graphs of converters are embedded."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, compose, helper, inliner, numpy_helper

#: Operator versions that every onnxruntime since 1.15 supports.
OPSET, ML_OPSET, IR_VERSION = 18, 3, 8
#: ONNX types of inputs by numpy type.
TYPES = {
    "float32": TensorProto.FLOAT,
    "float64": TensorProto.DOUBLE,
    "int64": TensorProto.INT64,
    "bool": TensorProto.BOOL,
    "str": TensorProto.STRING,
}


class Graph:
    """Nodes, constants, inputs and outputs; tensors are referred to by name."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.inputs: list[Any] = []
        self.outputs: list[Any] = []
        self.domains = {"": OPSET, "ai.onnx.ml": ML_OPSET}
        self._count = 0

    def fresh(self, hint: str) -> str:
        """Return an unused tensor name."""
        self._count += 1
        return f"uhc_{self._count}_{hint}"

    def input(self, name: str, dtype: str, shape: Sequence[int | None]) -> str:
        """Declare an input; a dimension of None may have any length."""
        self.inputs.append(helper.make_tensor_value_info(name, TYPES[dtype], list(shape)))
        return name

    def output(self, tensor: str, name: str, kind: int, shape: Sequence[int | None]) -> None:
        """Declare a tensor as an output under this name."""
        self.nodes.append(helper.make_node("Identity", [tensor], [name]))
        self.outputs.append(helper.make_tensor_value_info(name, kind, list(shape)))

    def constant(self, value: Any, dtype: Any = None) -> str:
        """Add a constant, of numbers or strings, and return its name."""
        array = np.asarray(value, dtype=dtype)
        name = self.fresh("constant")
        if array.dtype.kind in "UO":
            texts = [str(text).encode() for text in array.ravel()]
            self.constants.append(helper.make_tensor(name, TensorProto.STRING, array.shape, texts))  # type: ignore[arg-type]
        else:
            self.constants.append(numpy_helper.from_array(np.ascontiguousarray(array), name))
        return name

    def add(self, operator: str, *inputs: str, domain: str = "", output: int = 0, **attributes: Any) -> str:
        """Add a node, and return the name of its output with this number; no other output is used."""
        *_, name = outputs = [self.fresh(operator) for _ in range(output + 1)]
        self.nodes.append(helper.make_node(operator, list(inputs), outputs, domain=domain, **attributes))
        return name

    def double(self, tensor: str) -> str:
        """Cast to double precision."""
        return self.add("Cast", tensor, to=TensorProto.DOUBLE)

    def single(self, tensor: str) -> str:
        """Cast to single precision."""
        return self.add("Cast", tensor, to=TensorProto.FLOAT)

    def embed(self, model: Any, inputs: dict[str, str]) -> list[str]:
        """Embed the graph of a model, with tensors of this graph as its inputs, and return the names of its outputs."""
        if len(model.functions):
            model = inliner.inline_local_functions(model)
        for domain in model.opset_import:
            self._join_domain("" if domain.domain == "ai.onnx" else domain.domain, domain.version)
        prefix = self.fresh("part_")
        graph = compose.add_prefix_graph(_without_comments(model.graph), prefix)
        for theirs, ours in inputs.items():
            self.nodes.append(helper.make_node("Identity", [ours], [prefix + theirs]))
        self.nodes.extend(graph.node)
        self.constants.extend(graph.initializer)
        return [output.name for output in graph.output]

    def _join_domain(self, domain: str, version: int) -> None:
        """Check that the operators of a part have the same version; those for trees did not change from 1 to 3."""
        if domain == "ai.onnx.ml" and version <= ML_OPSET:
            return
        if self.domains.setdefault(domain, version) != version:
            raise ValueError(f"A converter used version {version} of the operators {domain or 'ai.onnx'!r}.")

    def model(self, metadata: dict[str, str]) -> Any:
        """Return the finished model, after ONNX's own checks."""
        used = _names_read(self.nodes)
        constants = [tensor for tensor in self.constants if tensor.name in used]
        graph = helper.make_graph(self.nodes, "sklearn_uhc", self.inputs, self.outputs, initializer=constants)
        opsets = [helper.make_opsetid(domain, version) for domain, version in sorted(self.domains.items())]
        model = helper.make_model(graph, opset_imports=opsets, producer_name="sklearn_uhc")
        model.ir_version = IR_VERSION
        helper.set_model_props(model, metadata)
        onnx.checker.check_model(model)
        return model


def _without_comments(graph: Any) -> Any:
    """Copy a graph without comments of converters: torch adds paths and lines of the user's source code."""
    clean = onnx.GraphProto()
    clean.CopyFrom(graph)
    for part in [clean, *clean.node, *clean.initializer, *clean.input, *clean.output]:
        part.doc_string = ""
        if hasattr(part, "metadata_props"):
            del part.metadata_props[:]
    del clean.value_info[:]
    return clean


def _names_read(nodes: Iterable[Any]) -> set[str]:
    """Return the names of all tensors that nodes read, including those in the bodies of loops."""
    names: set[str] = set()
    for node in nodes:
        names.update(node.input)
        for attribute in node.attribute:
            for body in [attribute.g, *attribute.graphs]:
                names |= _names_read(body.node)
    return names


def class_constant(graph: Graph, classes: NDArray[Any]) -> tuple[str, int]:
    """Add the class names as a constant; return its name and type. Raise an error for types that ONNX does not have."""
    names = np.asarray(classes)
    if names.dtype.kind == "O" and all(isinstance(name, str) for name in names):
        names = names.astype(str)
    kinds = {"i": np.int64, "u": np.int64, "b": np.bool_, "f": np.float64, "U": str}
    if names.dtype.kind not in kinds:
        raise TypeError(f"Classes in an ONNX file must be strings or numbers, got {names[:3].tolist()!r}.")
    types = {"i": "int64", "u": "int64", "b": "bool", "f": "float64", "U": "str"}
    return graph.constant(names.astype(kinds[names.dtype.kind])), TYPES[types[names.dtype.kind]]
