"""Read the classes and the meaning of the outputs from an ONNX file.

onnxruntime runs a model but does not show its nodes, so the file is parsed with the `onnx` package. onnxruntime then
gets what was parsed here, written anew, and never the original bytes: what was looked at is what runs.

A ZipMap node turns a matrix of probabilities into one dict per row. It is removed, so that the matrix is the output.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto, NodeProto, TensorProto

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
    """The bytes are not an ONNX model, or one that must not be used."""


@dataclass
class OnnxFile:
    """Facts about a model, and its bytes without ZipMap."""

    content: bytes = field(repr=False)
    outputs: list[str]
    made_by: dict[str, NodeProto] = field(repr=False)  # by name of the value
    constants: dict[str, TensorProto] = field(repr=False)
    metadata: dict[str, str] = field(default_factory=dict)
    zipped: dict[str, NodeProto] = field(default_factory=dict)  # by name of the matrix
    weights: list[str] = field(default_factory=list)  # other files, relative to the model's folder

    def source(self, value: str) -> NodeProto | None:
        """Return the operator that computes a value, skipping those that do not change it, or None for an input."""
        node = self.made_by.get(value)
        for _ in range(len(self.made_by)):  # a broken file may have a cycle
            if node is None or node.op_type not in TRANSPARENT or not node.input:
                break
            node = self.made_by.get(node.input[0])
        return node

    def classes_of(self, output: str, n_classes: int | None) -> list[Any] | None:
        """Return the class names of an output, if the file has as many names as the output has columns.

        Sources in order of preference: metadata; names of the columns in a ZipMap; labels of the other outputs; labels
        of the operator that computes the output, which may be numbers inside an ensemble.
        """
        others = [name for name in self.outputs if name != output]
        candidates = [_parse_names(self.metadata[key]) for key in METADATA_KEYS if key in self.metadata]
        candidates += [_labels_of(self.zipped[output])] if output in self.zipped else []
        candidates += [self._labels(self.source(name)) for name in (*others, output)]
        return next((names for names in candidates if names and n_classes in (None, len(names))), None)

    def _labels(self, node: NodeProto | None) -> list[Any] | None:
        if node is None:
            return None
        if node.op_type in PICKING and node.input and node.input[0] in self.constants:
            return _list_of_labels(self.constants[node.input[0]])
        return _labels_of(node)


def parse_onnx(content: bytes) -> ModelProto:
    """Parse a model; fields that the `onnx` package does not know are still in it."""
    try:
        import onnx
        from google.protobuf.message import DecodeError
    except ImportError as error:
        raise ImportError("ONNX files need onnx and onnxruntime: pip install 'sklearn-uhc[onnx]'.") from error
    try:
        model = onnx.ModelProto.FromString(content)
    except DecodeError as error:
        raise NotOnnxError("it cannot be parsed") from error
    if not model.HasField("graph"):
        raise NotOnnxError("it holds no graph")
    return model


def read_onnx(model: ModelProto) -> OnnxFile:
    """Read the facts about a model, and write it anew without ZipMap."""
    model.DiscardUnknownFields()  # type: ignore[no-untyped-call,unused-ignore]
    try:
        return _read(model)
    except UnicodeDecodeError as error:
        raise NotOnnxError("a name in it is not UTF-8") from error


def _read(model: ModelProto) -> OnnxFile:
    graph, weights = model.graph, _external_files(model)
    outputs = [output.name for output in graph.output]
    made_by = {name: node for node in graph.node for name in node.output}
    zips = {name: made_by[name] for name in outputs if name in made_by and _is_zip(made_by[name])}
    if zips:
        _remove(graph, zips)
    return OnnxFile(
        model.SerializeToString(),
        [output.name for output in graph.output],
        made_by,
        {tensor.name: tensor for tensor in graph.initializer},
        {entry.key: entry.value for entry in model.metadata_props},
        {node.input[0]: node for node in zips.values()},
        weights,
    )


def _is_zip(node: NodeProto) -> bool:
    return node.op_type == "ZipMap" and len(node.input) == 1 and len(node.output) == 1


def _remove(graph: GraphProto, zips: dict[str, NodeProto]) -> None:
    """Remove ZipMap nodes; their inputs become outputs instead."""
    for i in reversed(range(len(graph.node))):
        if not zips.keys().isdisjoint(graph.node[i].output):
            del graph.node[i]
    for output in graph.output:
        if output.name in zips:
            name = zips[output.name].input[0]
            output.Clear()  # its type was that of the dicts
            output.name = name


def tensors_of(graph: GraphProto) -> Iterator[TensorProto]:
    """Yield all constants of a graph and of the graphs in its nodes."""
    yield from graph.initializer
    yield from _dense(graph.sparse_initializer)
    for node in graph.node:
        for attribute in node.attribute:
            yield from (attribute.t, *attribute.tensors)
            yield from _dense([attribute.sparse_tensor, *attribute.sparse_tensors])
            for inner in (attribute.g, *attribute.graphs):
                yield from tensors_of(inner)


def _dense(tensors: Any) -> Iterator[TensorProto]:
    """Yield the two tensors of each sparse one."""
    for tensor in tensors:
        yield from (tensor.values, tensor.indices)


def is_external(tensor: TensorProto) -> bool:
    """Return whether the numbers of a tensor are, or may be, in another file."""
    return bool(len(tensor.external_data) or tensor.data_location)


def _external_files(model: ModelProto) -> list[str]:
    """Return the names of other files with weights; raise an error for one outside the model's folder."""
    tensors = (tensor for tensor in tensors_of(model.graph) if is_external(tensor))
    found = {entry.value for tensor in tensors for entry in tensor.external_data if entry.key == "location"}
    for name in found:
        path = PurePosixPath(name.replace("\\", "/"))
        if path.is_absolute() or ".." in path.parts or ":" in name:
            raise NotOnnxError(f"the model wants to read {name!r}, outside its own folder: this is not allowed")
    return sorted(found)


def _labels_of(node: NodeProto) -> list[Any] | None:
    """Return the class names in the attributes of an operator."""
    lists = [a for a in node.attribute if a.name in CLASS_ATTRIBUTES]
    found = [[text.decode("utf-8", "replace") for text in a.strings] or list(a.ints) for a in lists]
    return next((names for names in reversed(found) if names), None)


def _list_of_labels(tensor: TensorProto) -> list[Any] | None:
    """Return a one-dimensional tensor of strings or integers as a list, or None for any other."""
    from onnx import TensorProto, numpy_helper

    kinds = (TensorProto.STRING, TensorProto.INT32, TensorProto.INT64)
    if tensor.data_type not in kinds or len(tensor.dims) != 1 or is_external(tensor):
        return None
    try:
        return [str(name) if isinstance(name, str) else name for name in numpy_helper.to_array(tensor).tolist()]
    except (ValueError, TypeError):  # its numbers do not fit its shape
        return None


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
