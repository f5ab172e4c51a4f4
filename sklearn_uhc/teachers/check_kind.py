"""Objects that users often pass instead of fitted classifiers: errors with a remedy, before any teacher is called."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, is_regressor
from sklearn.ensemble import VotingClassifier

from sklearn_uhc.teachers.replica import is_module
from sklearn_uhc.utils.response import RESPONSES

#: Remedy by file suffix.
FILES = {
    ".onnx": "use OnnxTeacher({path!r})",
    **dict.fromkeys((".csv", ".tsv", ".parquet", ".pq"), "read it with read_answers and use fit(X, log_p=...)"),
    **dict.fromkeys(
        (".pt", ".pth", ".safetensors"), "load the weights into a module and use TorchTeacher(module, classes)"
    ),
}
OTHER_FILES = "load the model first; a pickle can run any code, so load only files whose origin you trust"


def check_kind_of_teacher(teacher: Any, name: str) -> None:
    """Raise an error if a teacher is not a classifier, or has no probabilities."""
    remedy = _remedy(teacher)
    if remedy is not None:
        raise TypeError(f"{name} is not a classifier: {remedy}.")
    if _has_no_probabilities(teacher):
        raise TypeError(f"{name} {_why_silent(teacher)}.")


def check_several(teachers: Any) -> None:
    """Raise an error if a single teacher was passed instead of several."""
    name = type(teachers).__name__
    if isinstance(teachers, VotingClassifier) and hasattr(teachers, "estimators_"):
        raise TypeError(
            f"teachers is a {name}, not a list. Its members number their classes. To use them as teachers, pass "
            "teachers=list(voting.estimators_), class_lists=[voting.classes_[e.classes_] for e in voting.estimators_]. "
            "To use it as one teacher among others, pass teachers=[voting, ...]."
        )
    if isinstance(teachers, (str, bytes, os.PathLike)) or is_module(teachers):
        raise TypeError(f"teachers is a {name}, not a list: put it into a list, and {_remedy(teachers)}.")
    if not isinstance(teachers, type) and any(hasattr(teachers, r) for r in ("fit", "predict", *RESPONSES)):
        raise TypeError(f"teachers is one {name}, not a list of fitted classifiers: pass [classifier, ...].")


def _remedy(teacher: Any) -> str | None:
    """Return the remedy for an object that is not a classifier, or None if it may be one."""
    if isinstance(teacher, (str, os.PathLike)):
        path = os.fspath(teacher)
        return FILES.get(Path(path).suffix.lower(), OTHER_FILES).format(path=path)
    if isinstance(teacher, (bytes, bytearray)):
        return "if these are the bytes of an ONNX model, use OnnxTeacher(model)"
    if is_module(teacher):
        return "use TorchTeacher(module, classes), with the classes in the order of its logits"
    if type(teacher).__module__.startswith("onnx"):  # a ModelProto, a session
        return "use OnnxTeacher, with the path of the model or model.SerializeToString()"
    if isinstance(teacher, np.ndarray) or (hasattr(teacher, "columns") and not hasattr(teacher, "predict")):
        return "pass answers that you have computed already as fit(X, log_p=...), see read_answers"
    if isinstance(teacher, BaseEstimator) and is_regressor(teacher):
        return (
            "it is a regressor, which predicts numbers, not probabilities of classes. Train the classifier of the same "
            "kind, or wrap it: FunctionTeacher(function, classes), with a function that turns its output into "
            "probabilities"
        )
    return None


def _has_no_probabilities(teacher: Any) -> bool:
    """Return whether an object can predict but provides no probabilities."""
    if isinstance(teacher, (type, tuple, list)):  # other checks reject these
        return False
    fitted = not hasattr(teacher, "fit") or hasattr(teacher, "classes_")
    return (
        fitted
        and (hasattr(teacher, "predict") or callable(teacher))
        and not any(hasattr(teacher, r) for r in RESPONSES)
    )


def _why_silent(teacher: Any) -> str:
    if isinstance(teacher, VotingClassifier):
        return "uses hard voting, without probabilities: call set_params(voting='soft'); it need not be fitted again"
    function = "booster.predict" if hasattr(teacher, "predict") else "function"
    return (
        f"has none of {', '.join(RESPONSES)}, so it cannot say how probable its classes are. If it returns a number "
        f"per class, use FunctionTeacher({function}, classes); for a scikit-learn classifier use "
        "CalibratedClassifierCV"
    )
