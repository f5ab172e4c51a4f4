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
from sklearn.utils.validation import check_is_fitted

from sklearn_uhc.students import SoftLabelClassifier

__all__ = ["export_booster"]

TOLERANCE = 1e-5


def export_booster(clf: Any, path: str | os.PathLike[str], X_example: Any) -> Path:
    """Write a LightGBM, XGBoost or CatBoost student as a model file of its own library, at temperature 1.

    `clf.student_.estimator_` itself answers at the temperature of the soft labels. This function multiplies the
    temperature into the leaves, so that the library alone returns the probabilities of `predict_proba`. Classes are
    numbers in the file: column l is `clf.classes_[l]`. Nothing is written unless the answers on `X_example` agree to
    1e-5.

    Parameters
    ----------
    clf : HeterogeneousDistiller or SoftLabelClassifier
        Fitted, with an LGBMClassifier, XGBClassifier or CatBoostClassifier as the student, not in a Pipeline.
    path : str or path-like
        The file to write. XGBoost chooses its format by the suffix, ".json" or ".ubj".
    X_example : array-like with n rows
        Rows to compare answers on.

    Returns
    -------
    path : Path
        The file.

    Examples
    --------
    >>> import lightgbm
    >>> from sklearn.datasets import load_iris
    >>> from sklearn_uhc import SoftLabelClassifier, export_booster
    >>> X, y = load_iris(return_X_y=True)
    >>> Q = 0.7 * (y[:, None] == [0, 1, 2]) + 0.1
    >>> student = lightgbm.LGBMClassifier(n_estimators=5, verbose=-1)
    >>> clf = SoftLabelClassifier(student, temperature=3).fit(X, Q)
    >>> file = export_booster(clf, getfixture("tmp_path") / "student.txt", X)
    >>> P = lightgbm.Booster(model_file=file).predict(X)
    >>> bool(abs(P - clf.predict_proba(X)).max() < 1e-5)
    True
    """
    student = getattr(clf, "student_", clf)
    if not isinstance(student, SoftLabelClassifier):
        raise TypeError(f"export_booster needs a HeterogeneousDistiller or SoftLabelClassifier, got {clf!r:.200}.")
    check_is_fitted(student, "estimator_")
    library = type(student.estimator_).__module__.split(".")[0]
    if library not in SCALED or student.strategy_ != "direct":
        raise TypeError(
            f"The student is a {type(student.estimator_).__name__}, not a LightGBM, XGBoost or CatBoost classifier "
            "trained on soft labels. export_onnx writes other students, and Pipelines."
        )
    if not Path(path).resolve().parent.is_dir():
        raise FileNotFoundError(f"There is no folder to write {os.fspath(path)!r} to.")
    model, predict = SCALED[library](student.estimator_, float(student._power))
    off = float(np.abs(_columns(predict(X_example)) - student.predict_proba(X_example)).max())
    if not off <= TOLERANCE:
        raise TypeError(
            f"The temperature cannot be put into this {type(student.estimator_).__name__}: probabilities would be off "
            f"by {off:.2g}. Save estimator_ by itself, raise its probabilities to the power {student._power:g} and "
            "normalise them; or use export_onnx."
        )
    model.save_model(os.fspath(path))
    return Path(path)


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
