"""Audit an ONNX model that comes from elsewhere, before onnxruntime loads it.

The audit looks at the very message that is written anew for onnxruntime. It is a list of what is allowed: operators of
the ONNX standard that hold no graphs of their own (no `Loop`, `If` or `Scan`), and all weights in the file itself.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from sklearn_uhc.teachers.onnx_file import NotOnnxError, is_external, tensors_of

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto

DOMAINS = ("", "ai.onnx.ml")
#: Parts of a model that onnxruntime needs. Not among them: functions, and graphs for training.
PARTS = frozenset({
    "ir_version", "opset_import", "producer_name", "producer_version", "domain", "model_version", "doc_string", "graph",
    "metadata_props",
})  # fmt: skip
#: Largest number of nodes, attributes and tensors. Networks of a thousand layers have some ten thousand; a tree
#: ensemble is one node.
MOST_PARTS = 200_000


def audit_model(model: ModelProto) -> None:
    """Raise an error for anything that is not on the list, and for what `onnx.checker` rejects."""
    try:
        _check_parts(model)
        _check_nodes(model)
        _check_tensors(model)
    except UnicodeDecodeError as error:
        raise NotOnnxError("a name in it is not UTF-8") from error
    _run_checker(model)


def _check_parts(model: ModelProto) -> None:
    size = model.ByteSize()
    model.DiscardUnknownFields()  # type: ignore[no-untyped-call,unused-ignore]
    if model.ByteSize() != size:
        raise NotOnnxError("it has fields that ONNX does not know")
    others = sorted({part.name for part, _ in model.ListFields()} - PARTS)
    if others:
        raise NotOnnxError(f"it has {others[0]}, which are not allowed")
    graph = model.graph
    for count in (_top_parts, _attributes, _inner_tensors):  # each can be counted because the one before is small
        if count(graph) > MOST_PARTS:
            raise NotOnnxError(f"it has more than {MOST_PARTS:,} parts")


def _top_parts(graph: GraphProto) -> int:
    parts = (graph.node, graph.initializer, graph.sparse_initializer, graph.input, graph.output, graph.value_info)
    return sum(map(len, parts))


def _attributes(graph: GraphProto) -> int:
    return sum(len(node.attribute) for node in graph.node)


def _inner_tensors(graph: GraphProto) -> int:
    return sum(len(a.tensors) + len(a.sparse_tensors) for node in graph.node for a in node.attribute)


def _check_nodes(model: ModelProto) -> None:
    for node in model.graph.node:
        domain = "" if node.domain == "ai.onnx" else node.domain
        if domain not in DOMAINS:
            raise NotOnnxError(f"it uses operators of {domain[:80]!r}, which are not part of ONNX")
        if any(attribute.HasField("g") or len(attribute.graphs) for attribute in node.attribute):
            raise NotOnnxError(f"its operator {node.op_type[:80]!r} holds a graph of its own, which may run forever")
        if (domain, node.op_type) not in allowed_operators():
            raise NotOnnxError(f"its operator {node.op_type[:80]!r} is not allowed")


def _check_tensors(model: ModelProto) -> None:
    if any(is_external(tensor) for tensor in tensors_of(model.graph)):
        raise NotOnnxError("it keeps weights in another file, but must contain everything")


def _run_checker(model: ModelProto) -> None:
    from onnx import checker

    try:
        checker.check_model(model)
    except Exception as error:  # it raises several kinds
        raise NotOnnxError(f"onnx.checker rejects it: {str(error).strip()[:200]}") from error


@lru_cache
def allowed_operators() -> frozenset[tuple[str, str]]:
    """Return domain and name of the operators of the ONNX standard, without those that take graphs."""
    from onnx import defs

    graphs = (defs.OpSchema.AttrType.GRAPH, defs.OpSchema.AttrType.GRAPHS)
    schemas = [schema for schema in defs.get_all_schemas_with_history() if schema.domain in DOMAINS]
    nested = {s.name for s in schemas if any(attribute.type in graphs for attribute in s.attributes.values())}
    return frozenset((schema.domain, schema.name) for schema in schemas if schema.name not in nested)
