"""Read the classes and the meaning of the outputs from an ONNX file.

onnxruntime runs a model but does not show its nodes, and the `onnx` package is not needed to run one. So the few fields
that matter are read here, straight from the protobuf encoding: a message is a list of (field number, wire type, value),
and nested messages are slices of the same memory. No code of the file is run.

A ZipMap node turns a matrix of probabilities into one dict per row. It is removed, so that the matrix is the output.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any

import numpy as np

# Field numbers of onnx.proto.
MODEL_GRAPH, MODEL_METADATA = 7, 14
GRAPH_NODE, GRAPH_INITIALIZER, GRAPH_OUTPUT = 1, 5, 12
NODE_INPUT, NODE_OUTPUT, NODE_OP, NODE_ATTRIBUTE = 1, 2, 4, 5
ATTRIBUTE_NAME, ATTRIBUTE_INTS, ATTRIBUTE_STRINGS = 1, 8, 9
TENSOR_DIMS, TENSOR_TYPE, TENSOR_STRINGS, TENSOR_NAME, TENSOR_RAW, TENSOR_EXTERNAL = 1, 2, 6, 8, 9, 13
#: By tensor type of integers: the field that holds them, and their dtype if they are stored as raw bytes.
INTEGER_TYPES = {6: (5, "<i4"), 7: (7, "<i8")}
VARINT, EIGHT_BYTES, BYTES, FOUR_BYTES = 0, 1, 2, 5

#: Attributes with class names: of tree ensembles and ZipMap, of linear models and support vector machines.
CLASS_ATTRIBUTES = ("classlabels_strings", "classlabels_int64s", "classlabels_ints")
#: Operators that do not change values.
TRANSPARENT = frozenset({"Identity", "Cast", "Reshape", "Squeeze", "Unsqueeze", "Flatten"})
#: Operators that select labels from a list.
PICKING = frozenset({"ArrayFeatureExtractor", "Gather"})
#: Metadata keys under which exporters store class names.
METADATA_KEYS = ("classes", "class_names", "names")
#: Longer lists of names in the metadata, in characters, are ignored.
LONGEST_LIST = 2**20


class NotOnnxError(ValueError):
    """The bytes are not an ONNX model."""


@dataclass
class Node:
    """An operator of the graph, with its class names if it has any."""

    op: str
    inputs: list[str]
    outputs: list[str]
    labels: list[Any] | None


@dataclass
class OnnxFile:
    """Facts about a model, and its bytes without ZipMap."""

    content: bytes = field(repr=False)
    outputs: list[str]
    made_by: dict[str, Node] = field(repr=False)  # by name of the value
    constants: dict[str, memoryview] = field(repr=False)  # initializers, not decoded
    metadata: dict[str, str] = field(default_factory=dict)
    zipped: dict[str, Node] = field(default_factory=dict)  # by name of the matrix

    def source(self, value: str) -> Node | None:
        """Return the operator that computes a value, skipping those that do not change it, or None for an input."""
        node = self.made_by.get(value)
        for _ in range(len(self.made_by)):  # a broken file may have a cycle
            if node is None or node.op not in TRANSPARENT or not node.inputs:
                break
            node = self.made_by.get(node.inputs[0])
        return node

    def classes_of(self, output: str, n_classes: int | None) -> list[Any] | None:
        """Return the class names of an output, if the file has as many names as the output has columns.

        Sources in order of preference: metadata; names of the columns in a ZipMap; labels of the other outputs; labels
        of the operator that computes the output, which may be numbers inside an ensemble.
        """
        others = [name for name in self.outputs if name != output]
        candidates = [_parse_names(self.metadata[key]) for key in METADATA_KEYS if key in self.metadata]
        candidates += [self.zipped[output].labels] if output in self.zipped else []
        candidates += [self._labels(self.source(name)) for name in (*others, output)]
        return next((names for names in candidates if names and n_classes in (None, len(names))), None)

    def external_files(self) -> list[str]:
        """Return the names of other files with weights, relative to the model's folder."""
        found = {_text(location) for tensor in self.constants.values() if (location := _external(tensor)) is not None}
        for name in found:
            path = PurePosixPath(name.replace("\\", "/"))
            if path.is_absolute() or ".." in path.parts or ":" in name:
                raise NotOnnxError(f"the model wants to read {name!r}, outside its own folder: this is not allowed.")
        return sorted(found)

    def _labels(self, node: Node | None) -> list[Any] | None:
        if node is None:
            return None
        if node.op in PICKING and node.inputs and node.inputs[0] in self.constants:
            return _list_of_labels(self.constants[node.inputs[0]])
        return node.labels


def read_onnx(content: bytes) -> OnnxFile:
    """Read the facts about a model."""
    fields = list(wire_fields(memoryview(content)))
    graphs = [value for number, wire, value in fields if number == MODEL_GRAPH and wire == BYTES]
    if not graphs:
        raise NotOnnxError("it holds no graph")
    metadata = dict(_pair(value) for number, _, value in fields if number == MODEL_METADATA)
    graph = memoryview(b"".join(graphs)) if len(graphs) > 1 else graphs[0]
    return _read_graph(content, graph, metadata)


def _read_graph(content: bytes, graph: memoryview, metadata: dict[str, str]) -> OnnxFile:
    nodes, constants, outputs = [], {}, []
    for number, _, value in wire_fields(graph):
        if number == GRAPH_NODE:
            nodes.append(_node(value))
        elif number == GRAPH_INITIALIZER:
            constants[_text(_first(value, TENSOR_NAME))] = value
        elif number == GRAPH_OUTPUT:
            outputs.append(_text(_first(value, 1)))
    zips = {n.outputs[0]: n for n in nodes if n.op == "ZipMap" and n.inputs and n.outputs and n.outputs[0] in outputs}
    made_by = {name: node for node in nodes for name in node.outputs}
    if zips:
        content = _without(content, graph, zips)
    outputs = [zips[name].inputs[0] if name in zips else name for name in outputs]
    return OnnxFile(content, outputs, made_by, constants, metadata, {node.inputs[0]: node for node in zips.values()})


def _node(message: memoryview) -> Node:
    op, inputs, outputs, labels = "", [], [], None
    for number, _, value in wire_fields(message):
        if number == NODE_OP:
            op = _text(value)
        elif number == NODE_INPUT:
            inputs.append(_text(value))
        elif number == NODE_OUTPUT:
            outputs.append(_text(value))
        elif number == NODE_ATTRIBUTE and _text(_first(value, ATTRIBUTE_NAME)) in CLASS_ATTRIBUTES:
            labels = _attribute_values(value) or labels
    return Node(op, inputs, outputs, labels)


def _attribute_values(message: memoryview) -> list[Any]:
    strings = [_text(value) for number, _, value in wire_fields(message) if number == ATTRIBUTE_STRINGS]
    return strings or _integers(message, ATTRIBUTE_INTS)


def _list_of_labels(tensor: memoryview) -> list[Any] | None:
    """Return a one-dimensional tensor of strings or integers as a list, or None for any other."""
    strings = [_text(value) for number, _, value in wire_fields(tensor) if number == TENSOR_STRINGS]
    if strings:
        return strings
    kind = INTEGER_TYPES.get(_first(tensor, TENSOR_TYPE))
    if kind is None or len(_integers(tensor, TENSOR_DIMS)) != 1:
        return None
    raw = _first(tensor, TENSOR_RAW)
    if raw is None:
        return _integers(tensor, kind[0])
    return np.frombuffer(raw, kind[1]).tolist() if len(_bytes(raw)) % np.dtype(kind[1]).itemsize == 0 else None


def _external(tensor: memoryview) -> Any:
    """Return the location of a tensor that is stored in another file, or None."""
    pairs = [value for number, _, value in wire_fields(tensor) if number == TENSOR_EXTERNAL]
    return next((_first(pair, 2) for pair in pairs if _text(_first(pair, 1)) == "location"), None)


def _parse_names(text: str) -> list[Any] | None:
    """Parse a list or dict of names in JSON or Python syntax; return None for anything else."""
    for parse in (json.loads, ast.literal_eval) if len(text) <= LONGEST_LIST else ():
        try:
            names = _in_order(parse(text))
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            continue
        if isinstance(names, (list, tuple)) and all(type(name) in (str, int) for name in names):
            return list(names)
    return None


def _in_order(found: Any) -> Any:
    """Return names by number, such as {0: "cat", 1: "dog"}, as a list."""
    if not isinstance(found, dict):
        return found
    by_number = {int(number): name for number, name in found.items()}
    return [by_number[i] for i in range(len(by_number))] if set(by_number) == set(range(len(by_number))) else None


def _without(content: bytes, graph: memoryview, zips: dict[str, Node]) -> bytes:
    """Return the model without some ZipMap nodes; their inputs become outputs instead."""
    kept = bytearray()
    for number, wire, value in wire_fields(graph):
        if number == GRAPH_NODE and not zips.keys().isdisjoint(_node(value).outputs):
            continue
        if number == GRAPH_OUTPUT and (name := _text(_first(value, 1))) in zips:
            value = memoryview(_encoded(1, zips[name].inputs[0].encode()))
        kept += _encoded(number, value, wire)
    rest = (_encoded(n, v, w) for n, w, v in wire_fields(memoryview(content)) if n != MODEL_GRAPH)
    return b"".join([*rest, _encoded(MODEL_GRAPH, kept)])


def _pair(message: memoryview) -> tuple[str, str]:
    return _text(_first(message, 1)), _text(_first(message, 2))


def _first(message: memoryview, wanted: int) -> Any:
    """Return the first value of a field, or None if there is none."""
    return next((value for number, _, value in wire_fields(message) if number == wanted), None)


def _text(value: Any) -> str:
    return "" if value is None else str(_bytes(value), "utf-8", "replace")


def _bytes(value: Any) -> memoryview:
    if not isinstance(value, memoryview):
        raise NotOnnxError("it has a number where a string or a message should be")
    return value


def _integers(message: memoryview, wanted: int) -> list[int]:
    """Return the integers of a repeated field, packed or not."""
    found: list[int] = []
    for number, wire, value in wire_fields(message):
        if number == wanted and wire == VARINT:
            found.append(_signed(value))
        elif number == wanted and wire == BYTES:
            place = 0
            while place < len(value):
                one, place = _varint(value, place)
                found.append(_signed(one))
    return found


def _signed(value: int) -> int:
    return value - 2**64 if value >= 2**63 else value


def wire_fields(message: memoryview) -> Iterator[tuple[int, int, Any]]:
    """Yield field number, wire type and value of each field; a value is an integer or a slice of the message."""
    place = 0
    while place < len(_bytes(message)):
        key, place = _varint(message, place)
        number, wire = key >> 3, key & 7
        if wire == VARINT:
            value, place = _varint(message, place)
            yield number, wire, value
            continue
        if wire == BYTES:
            size, place = _varint(message, place)
        elif wire in (EIGHT_BYTES, FOUR_BYTES):
            size = 8 if wire == EIGHT_BYTES else 4
        else:
            raise NotOnnxError(f"it has a field of the unknown type {wire}")
        if place + size > len(message):
            raise NotOnnxError("it ends in the middle of a field")
        yield number, wire, message[place : place + size]
        place += size


def _varint(message: memoryview, place: int) -> tuple[int, int]:
    """Decode a varint; return its value and the position after it."""
    value = 0
    for shift in range(0, min(70, 7 * (len(message) - place)), 7):
        byte = message[place]
        place += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, place
    raise NotOnnxError("it has a number that does not end")


def _encoded(number: int, value: Any, wire: int = BYTES) -> bytes:
    """Encode a field."""
    key = _encoded_integer(number << 3 | wire)
    if wire == VARINT:
        return key + _encoded_integer(value)
    return key + (_encoded_integer(len(value)) if wire == BYTES else b"") + bytes(value)


def _encoded_integer(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])
