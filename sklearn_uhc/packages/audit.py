"""Checks of an ONNX model in a package, before onnxruntime loads it.

Rejected are weights in other files, which onnxruntime would read from any path in the model, operators that are not
part of ONNX itself, and loops, which may never end. Graphs nested in the attributes of nodes are checked too.
"""

from __future__ import annotations

from sklearn_uhc.packages.archive import PackageError
from sklearn_uhc.teachers.onnx_file import NotOnnxError, wire_fields

#: By kind of message: the fields that hold nested messages, with their numbers in onnx.proto.
NESTED: dict[str, dict[int, str]] = {
    "model": {7: "graph", 25: "function"},
    "graph": {1: "node", 5: "tensor", 15: "sparse tensor"},
    "function": {7: "node"},
    "node": {5: "attribute"},
    "attribute": {5: "tensor", 6: "graph", 10: "tensor", 11: "graph", 22: "sparse tensor", 23: "sparse tensor"},
    "sparse tensor": {1: "tensor", 2: "tensor"},
    "tensor": {},
}
EXTERNAL_DATA, DATA_LOCATION, NODE_DOMAIN, NODE_OP = 13, 14, 7, 4
DOMAINS = ("", "ai.onnx", "ai.onnx.ml")
ENDLESS = "Loop"


def audit_onnx(content: bytes, name: str) -> None:
    """Raise an error if a model reads files, uses custom operators or has loops."""
    waiting = [("model", memoryview(content))]
    try:
        while waiting:
            kind, message = waiting.pop()
            for number, _, value in wire_fields(message):
                _check_field(kind, number, value, name)
                if number in NESTED[kind]:
                    if isinstance(value, int):
                        raise NotOnnxError("it has a number where a message should be")
                    waiting.append((NESTED[kind][number], value))
    except (NotOnnxError, IndexError) as error:
        raise PackageError(f"{name!r} is not an ONNX model ({error})") from error


def _check_field(kind: str, number: int, value: object, name: str) -> None:
    if kind == "tensor" and (number == EXTERNAL_DATA or (number == DATA_LOCATION and value != 0)):
        raise PackageError(f"{name!r} keeps weights in another file, but a package must contain everything")
    if kind == "node" and number in (NODE_DOMAIN, NODE_OP):
        text = bytes(value).decode(errors="replace") if isinstance(value, memoryview) else str(value)
        if number == NODE_OP and text == ENDLESS:
            raise PackageError(f"{name!r} has a loop, which may never end")
        if number == NODE_DOMAIN and text not in DOMAINS:
            raise PackageError(f"{name!r} uses operators of {text[:80]!r}, which are not part of ONNX")
