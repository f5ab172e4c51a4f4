"""Protocols of model servers: Open Inference Protocol v2, and MLflow's scoring protocol.

A protocol is a function of rows and of `send`, which posts an object as JSON and returns the JSON of the reply. It
returns the answers as anything that `numpy.asarray` converts to a matrix.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sklearn_uhc.utils.rows import column_names

#: A function that posts JSON and returns the JSON of the reply.
Send = Callable[[Any], Any]

#: Names of NumPy's types in the protocol.
DATATYPES = {"f2": "FP16", "f4": "FP32", "f8": "FP64", "b1": "BOOL"} | {
    f"{kind}{size}": f"{name}{8 * size}" for kind, name in (("i", "INT"), ("u", "UINT")) for size in (1, 2, 4, 8)
}


class WrongReplyError(ValueError):
    """The server's reply does not follow the protocol."""


@dataclass(frozen=True)
class Options:
    """Settings of a protocol."""

    classes: list[Any]
    input_name: str = "input-0"
    output: str | None = None
    dtype: Any = None


def ask_v2(rows: Any, send: Send, options: Options) -> Any:
    """Call a server by the Open Inference Protocol: KServe, Triton, MLServer, Seldon."""
    request: dict[str, Any] = {"inputs": _tensors(rows, options)}
    if column_names(rows) is not None:
        request["parameters"] = {"content_type": "pd"}  # MLServer converts its inputs to a frame
    if options.output is not None:
        request["outputs"] = [{"name": options.output}]
    reply = send(request)
    outputs = reply.get("outputs") if isinstance(reply, dict) else None
    if not isinstance(outputs, list) or not all(isinstance(output, dict) for output in outputs):
        raise WrongReplyError(f'the reply has no list of "outputs": {_short(reply)}')
    output = _choose(outputs, options.output)
    try:
        return np.asarray(output["data"]).reshape(output["shape"])
    except (KeyError, ValueError, TypeError, OverflowError, RecursionError) as error:
        raise WrongReplyError(
            f"output {_short(output.get('name'))} of the reply has no data that fit its shape: {error}"
        ) from error


def ask_mlflow(rows: Any, send: Send, options: Options) -> Any:
    """Call an MLflow server, at /invocations."""
    names = column_names(rows)
    if names is None:
        request: dict[str, Any] = {"inputs": _plain(_array(rows, options.dtype))}
    else:
        columns = [_plain(_array(rows[name], None)) for name in names]
        data = [list(row) for row in zip(*columns, strict=True)]
        request = {"dataframe_split": {"columns": names, "data": data}}
    reply = send(request)
    answers = reply.get("predictions") if isinstance(reply, dict) else None
    if not isinstance(answers, list):
        raise WrongReplyError(f'the reply has no list of "predictions": {_short(reply)}')
    if answers and isinstance(answers[0], dict):
        return _by_class(answers, options.classes)
    return answers


def _tensors(rows: Any, options: Options) -> list[dict[str, Any]]:
    """Return one tensor of all rows, or one per column of a frame."""
    names = column_names(rows)
    if names is None:
        return [_tensor(options.input_name, _array(rows, options.dtype))]
    return [_tensor(name, _array(rows[name], options.dtype).reshape(-1, 1)) for name in names]


def _tensor(name: str, values: NDArray[Any]) -> dict[str, Any]:
    datatype = DATATYPES.get(values.dtype.str[1:], "BYTES")
    tensor: dict[str, Any] = {"name": name, "shape": list(values.shape), "datatype": datatype}
    if datatype == "BYTES":
        tensor["parameters"] = {"content_type": "str"}
    return tensor | {"data": _plain(values.ravel())}


def _array(rows: Any, dtype: Any) -> NDArray[Any]:
    """Return rows as an array of numbers or strings; `dtype` applies to numbers only."""
    array = np.asarray(rows.toarray() if hasattr(rows, "toarray") else rows)
    if array.dtype.kind in "OUST":
        return array.astype(str)
    return array if dtype is None else array.astype(dtype)


def _plain(array: NDArray[Any]) -> Any:
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise ValueError(
            "X has NaN or infinite values, which JSON cannot represent: impute them first, or pass a function of your "
            "own as the protocol."
        )
    return array.tolist()


def _choose(outputs: list[dict[str, Any]], wanted: str | None) -> dict[str, Any]:
    """Return the requested output, or the only one."""
    fit = [output for output in outputs if wanted in (None, output.get("name"))]
    if len(fit) != 1:
        names = [output.get("name") for output in outputs]
        raise WrongReplyError(
            f"the reply has the outputs {_short(names)}: pass output= the name of the one with probabilities"
        )
    return fit[0]


def _by_class(answers: list[dict[str, Any]], classes: list[Any]) -> Any:
    """Return a matrix from answers that are dicts by class name."""
    if not all(isinstance(answer, dict) for answer in answers):
        raise WrongReplyError("some of the answers are named by class, others are not")
    keys = [str(label) for label in classes]
    missing = [key for key in keys if key not in answers[0]]
    if missing:
        raise WrongReplyError(f"the answers are named {_short(list(answers[0])[:8])}, and {missing[:8]} are missing")
    return [[answer.get(key) for key in keys] for answer in answers]


def _short(reply: Any) -> str:
    try:
        text = repr(reply)
    except RecursionError:
        return "it is too deeply nested to be shown"
    return text if len(text) <= 200 else f"{text[:200]}..."
