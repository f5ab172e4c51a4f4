"""Booster students in the format of their own library, including the temperature.

A booster's probabilities are softmax(F), where the scores F are sums of leaves. Raised to the power T and normalised
they are softmax(T F). So leaves and starting scores are multiplied by T, and the file does not need this library.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit

from sklearn_uhc.exporting.report import ExportReport
from sklearn_uhc.students import SoftLabelClassifier
from sklearn_uhc.utils.rows import count_rows

#: Largest difference of a probability.
TOLERANCE = 1e-5
#: The library that reads a file, by its suffix.
LIBRARY_OF = {".txt": "lightgbm", ".json": "xgboost", ".ubj": "xgboost", ".cbm": "catboost"}


def write_booster(student: SoftLabelClassifier, path: Path, X_example: Any) -> ExportReport:
    """Write a booster in its own format, with the temperature in its leaves; nothing is written if answers differ."""
    library = type(student.estimator_).__module__.split(".")[0]
    expected = LIBRARY_OF[path.suffix]
    if library != expected or student.strategy_ != "direct":
        raise TypeError(
            f"{path.name} would be a model file of {expected}, but the student is a "
            f"{type(student.estimator_).__name__} trained by the strategy {student.strategy_!r}: use the suffix .onnx."
        )
    model, predict = SCALED[library](student.estimator_, float(student._power))
    off = float(np.abs(_columns(predict(X_example)) - student.predict_proba(X_example)).max())
    if not off <= TOLERANCE:
        raise TypeError(
            f"The temperature cannot be put into this {type(student.estimator_).__name__}: probabilities would be off "
            f"by {off:.2g}. Save estimator_ by itself, raise its probabilities to the power {student._power:g} and "
            "normalise them; or use the suffix .onnx."
        )
    model.save_model(os.fspath(path))
    return ExportReport(path, count_rows(X_example), off)


def _columns(P: NDArray[Any]) -> NDArray[Any]:
    return np.column_stack([1 - P, P]) if P.ndim == 1 else P


def _scaled_lightgbm(estimator: Any, T: float) -> tuple[Any, Callable[[Any], Any]]:
    import lightgbm

    booster = lightgbm.Booster(model_str=estimator.booster_.model_to_string())
    for tree, info in enumerate(booster.dump_model()["tree_info"]):
        for leaf in range(info["num_leaves"]):
            booster.set_leaf_output(tree, leaf, T * booster.get_leaf_output(tree, leaf))
    return booster, booster.predict


def _scaled_xgboost(estimator: Any, T: float) -> tuple[Any, Callable[[Any], Any]]:
    import xgboost

    model = json.loads(bytes(estimator.get_booster().save_raw("json")))
    learner = model["learner"]
    start = np.atleast_1d(np.array(json.loads(learner["learner_model_param"]["base_score"]), dtype=float))
    two = estimator.n_classes_ == 2
    scaled = expit(T * logit(start)) if two else T * start
    learner["learner_model_param"]["base_score"] = json.dumps([float(s) for s in scaled])
    booster = learner["gradient_booster"]
    for tree in booster.get("gbtree", booster)["model"]["trees"]:
        leaves = np.array(tree["left_children"]) == -1
        for name in ("base_weights", "split_conditions"):  # a leaf's value is stored in both
            values = np.array(tree[name], dtype=float)
            tree[name] = np.where(leaves, T * values, values).tolist()
    new = xgboost.XGBClassifier()
    new.load_model(bytearray(json.dumps(model).encode()))
    return new, new.predict_proba


def _scaled_catboost(estimator: Any, T: float) -> tuple[Any, Callable[[Any], Any]]:
    new = estimator.copy()
    scale, bias = new.get_scale_and_bias()
    new.set_scale_and_bias(T * scale, (T * np.asarray(bias)).tolist())
    return new, new.predict_proba


SCALED: dict[str, Callable[[Any, float], tuple[Any, Callable[[Any], Any]]]] = {
    "lightgbm": _scaled_lightgbm,
    "xgboost": _scaled_xgboost,
    "catboost": _scaled_catboost,
}
