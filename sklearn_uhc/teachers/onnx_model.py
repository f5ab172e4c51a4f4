"""A loaded ONNX model: a session of onnxruntime, and what is known about its inputs, its output and its classes."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

from sklearn_uhc.teachers.onnx_audit import audit_model
from sklearn_uhc.teachers.onnx_file import NotOnnxError, OnnxFile, parse_onnx, read_onnx
from sklearn_uhc.teachers.onnx_inputs import Input, read_inputs

#: Last operators of networks that return logits.
LINEAR = frozenset({"Gemm", "MatMul", "Add", "Conv"})
#: Operators that return the scores -s and s for two classes.
MIRRORING = frozenset({"LinearClassifier", "SVMClassifier", "TreeEnsembleClassifier"})
FLOATS = ("tensor(float)", "tensor(double)", "tensor(float16)")
#: Option of onnxruntime for the folder of external weights, for a model that is passed as bytes.
FOLDER_OPTION = "session.model_external_initializers_file_folder_path"
#: A file of weights is hashed in pieces of this many bytes.
HASHED = 2**20


@dataclass(frozen=True)
class OnnxModel:
    """A session and facts about it."""

    session: Any
    inputs: list[Input]
    output: str
    output_kind: str  # by the last operator: "logits", "log_proba", else "proba"
    mirrored: bool  # whether the scores of two classes are -s and s
    n_columns: int | None  # of the output; None if unknown before a run
    classes: list[Any] | None
    feature_names: list[str] | None
    digest: str


def load_model(
    model: Any,
    output: str | None = None,
    n_threads: int | None = None,
    providers: Sequence[Any] | None = None,
    audit: bool = False,
) -> OnnxModel:
    """Load a model from a file or from bytes."""
    where, folder = name_of(model), None if isinstance(model, bytes) else Path(model).parent
    content = model if isinstance(model, bytes) else Path(model).read_bytes()
    try:
        file = _parse(content, audit)
    except NotOnnxError as error:
        raise ValueError(f"{where} is not an ONNX model{' that can be trusted' if audit else ''}: {error}.") from error
    weights = file.weights
    if weights and folder is None:
        raise ValueError(f"The model keeps weights in other files, {weights[:3]}: pass its path instead of its bytes.")
    session = _open_session(file, where, folder if weights else None, n_threads, providers)
    chosen = _choose_output(session, output, where)
    n_columns = _n_columns(chosen)
    return OnnxModel(
        session,
        read_inputs(session),
        chosen.name,
        _kind_of(file, chosen.name),
        getattr(file.source(chosen.name), "op_type", None) in MIRRORING,
        n_columns,
        file.classes_of(chosen.name, 2 if n_columns == 1 else n_columns),
        _feature_names(session, file),
        _digest(content, [folder / name for name in weights] if folder else []),
    )


def _parse(content: bytes, audit: bool) -> OnnxFile:
    parsed = parse_onnx(content)
    if audit:
        audit_model(parsed)
    return read_onnx(parsed)


class ModelBytes(bytes):
    """Bytes of a model with a short repr, since that of a large model would fill the memory."""

    def __repr__(self) -> str:
        return f"<{len(self)} bytes>"


def name_of(model: Any) -> str:
    """Return the name of a model in messages."""
    return f"the model of {len(model)} bytes" if isinstance(model, bytes) else f"the model {os.fspath(model)!r}"


def _open_session(
    file: OnnxFile, where: str, folder: Path | None, n_threads: int | None, providers: Sequence[Any] | None
) -> Any:
    try:
        import onnxruntime
    except ImportError as error:
        raise ImportError("ONNX files need onnx and onnxruntime: pip install 'sklearn-uhc[onnx]'.") from error
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3  # errors only, and these are raised anyway
    options.intra_op_num_threads = n_threads or 0
    if folder is not None:
        options.add_session_config_entry(FOLDER_OPTION, str(folder.resolve()))
    chosen = _choose_providers(providers, onnxruntime.get_available_providers())
    try:
        return onnxruntime.InferenceSession(file.content, options, providers=chosen)
    except Exception as error:  # onnxruntime has an exception class for each status code
        raise ValueError(f"onnxruntime cannot load {where}: {error}") from error


def _choose_providers(providers: Sequence[Any] | None, available: list[str]) -> list[Any]:
    """Return the providers to use; raise an error if one is not available, since onnxruntime replaces it silently."""
    if providers is None:
        return [name for name in ("CUDAExecutionProvider", "CPUExecutionProvider") if name in available]
    missing = [p for p in providers if (p if isinstance(p, str) else p[0]) not in available]
    if missing or isinstance(providers, str):
        raise ValueError(f"providers must be a list of onnxruntime's providers here, {available}; got {providers!r}.")
    return list(providers)


def _choose_output(session: Any, wanted: str | None, where: str) -> Any:
    """Return the output that has a number per class."""
    outputs = session.get_outputs()
    fit = [o for o in outputs if o.type in FLOATS]
    if wanted is None:
        named = [o for o in fit if "prob" in o.name.lower()]
        found = named if len(fit) > 1 and len(named) == 1 else fit
    else:
        found = [o for o in fit if o.name == wanted]
    if len(found) == 1:
        return found[0]
    shown = ", ".join(f"{o.name!r} ({o.type})" for o in outputs)
    if wanted is None and not fit:
        raise ValueError(f"{where} returns no probabilities, only {shown}: export it with its probabilities.")
    raise ValueError(f"{where} has several outputs, {shown}: pass output= the name of the one with probabilities.")


def _n_columns(output: Any) -> int | None:
    shape = output.shape or []
    if len(shape) == 1:
        return 1
    return shape[1] if len(shape) == 2 and isinstance(shape[1], int) else None


def _kind_of(file: OnnxFile, output: str) -> str:
    node = file.source(output)
    if node is None or node.op_type not in (*LINEAR, "LogSoftmax"):
        return "proba"
    return "log_proba" if node.op_type == "LogSoftmax" else "logits"


def _feature_names(session: Any, file: OnnxFile) -> list[str] | None:
    """Return the model's column names: those of its inputs, or those in its metadata."""
    inputs = session.get_inputs()
    if len(inputs) > 1:
        return [given.name for given in inputs]
    try:
        names = json.loads(file.metadata.get("feature_names", "null"))
    except (ValueError, RecursionError):
        return None
    return names if isinstance(names, list) and names and all(isinstance(name, str) for name in names) else None


def _digest(content: bytes, files: list[Path]) -> str:
    """Hash a model with all its weights."""
    total = blake2b(content, digest_size=16)
    for path in files:
        with open(path, "rb") as file:
            while part := file.read(HASHED):
                total.update(part)
    return total.hexdigest()
