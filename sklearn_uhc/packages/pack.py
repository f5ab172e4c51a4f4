"""Write a fitted classifier as a teacher package."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, is_classifier, is_regressor
from sklearn.utils.validation import check_is_fitted

from sklearn_uhc.exporting.inputs import Inputs
from sklearn_uhc.membership.scorer import MembershipScorer, OwnOrPublic
from sklearn_uhc.packages.archive import CARD, EXAMPLE, MEMBERSHIP, MODEL, write_archive
from sklearn_uhc.packages.card import Card, example_to_json, installed_versions, membership_of, plain_classes
from sklearn_uhc.spaces.class_sets import holds_sets
from sklearn_uhc.teachers import TorchTeacher
from sklearn_uhc.teachers.onnx_audit import audit_model
from sklearn_uhc.teachers.onnx_file import NotOnnxError, parse_onnx
from sklearn_uhc.teachers.replica import is_module
from sklearn_uhc.utils.notes import add_note
from sklearn_uhc.utils.response import log_proba
from sklearn_uhc.utils.rows import count_rows

__all__ = ["pack_teacher"]


def pack_teacher(
    model: Any,
    path: str | os.PathLike[str],
    X_example: Any,
    classes: Sequence[Any] | None = None,
    membership: Any = "auto",
    description: str = "",
    *,
    n_examples: int = 5,
) -> Path:
    """Write a fitted classifier to one file that others can load without running your code.

    The file is a zip of an ONNX model, a card in JSON (classes, names and types of the inputs, versions of libraries),
    a few example rows with their answers, and checksums. `load_teacher` reads it. Nothing is written unless the
    ONNX model answers `X_example` as the original does, to 1e-5 in every probability.

    Parameters
    ----------
    model : fitted classifier, Pipeline, TorchTeacher or torch.nn.Module
        A model of scikit-learn, LightGBM, XGBoost, CatBoost, skorch or torch; also a fitted SoftLabelClassifier or
        HeterogeneousDistiller. A plain module must return logits.
    path : str or path-like
        The file to write.
    X_example : array-like with n rows
        Rows as the model expects them, if possible a few hundred. Answers are compared on all of them. **The first
        `n_examples` are stored in the file**, so pass rows that may be shared: public ones, synthetic ones, or real
        ones with shuffled columns.
    classes : list, default=None
        Names of the model's classes, in the order of its outputs. None: its own `classes_`.
    membership : MembershipScorer, fitted binary classifier, None or "auto", default="auto"
        Says how likely a row belongs to any of the model's classes: the result of `fit_membership`, or a classifier
        whose second class means just that. It may also be an object with `predict_membership` that has such a
        classifier as `classifier_` or `estimator_`. "auto" means the model's attribute `membership_`, if it has one.
    description : str, default=""
        Text for the card: what the model was trained on, by whom, under what terms.
    n_examples : int, default=5
        Rows of `X_example` to store. With 0 the receiver cannot check that the model gives the same answers there.

    Returns
    -------
    path : Path
        The file.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn_uhc import load_teacher, pack_teacher
    >>> X, y = load_iris(return_X_y=True)
    >>> model = LogisticRegression(max_iter=500).fit(X, y)
    >>> file = pack_teacher(model, getfixture("tmp_path") / "iris.teacher", X, classes=["setosa", "versi", "virg"])
    >>> teacher = load_teacher(file)
    >>> teacher.predict(X[:2]).tolist()
    ['setosa', 'setosa']
    """
    folder = Path(path).resolve().parent
    if not folder.is_dir():
        raise FileNotFoundError(f"There is no folder {str(folder)!r} to write {Path(path).name!r} to.")
    if not isinstance(description, str):
        raise TypeError(f"description must be a string, got {type(description).__name__}.")
    if not isinstance(n_examples, int) or n_examples < 0:
        raise ValueError(f"n_examples must be an integer of at least 0, got {n_examples!r}.")
    membership = _membership_of(model, membership)
    model, names = _with_classes(model, classes)
    inputs = Inputs.of(X_example)
    made = _verified(model, X_example, names, inputs)
    _check_loadable(made.content, model)
    members, known = {MODEL: made.content}, None
    if membership is not None:
        classifier = _binary_classifier(membership, X_example)
        try:
            answers = _verified(classifier, X_example, np.array([False, True]), inputs)
            _check_loadable(answers.content, classifier)
        except Exception as error:
            add_note(error, "This came from the membership scorer.")
            raise
        members[MEMBERSHIP], known = answers.content, answers.answers[:n_examples, 1]
    feed = {name: values[:n_examples] for name, values in inputs.feed(X_example).items()}
    members[EXAMPLE] = example_to_json(feed, made.answers[:n_examples], known)
    members[CARD] = _card(model, names, inputs, made.max_error, description, membership).to_json()
    write_archive(path, members)
    return Path(path)


def _membership_of(model: Any, membership: Any) -> Any:
    """Return the membership to pack; "auto" is what the model has as `membership_`, unless that is an array."""
    if not isinstance(membership, str):
        return membership
    if membership != "auto":
        raise ValueError(f'membership must be a scorer, None or "auto", got {membership!r}.')
    found = getattr(model, "membership_", None)
    return None if hasattr(found, "shape") else found


def _verified(model: Any, X: Any, classes: NDArray[Any], inputs: Inputs) -> Any:
    from sklearn_uhc.exporting.converters import load

    for package in ("onnx", "onnxruntime"):
        load(package)
    from sklearn_uhc.exporting.verified import convert_and_verify

    metadata = {"classes": json.dumps(plain_classes(classes))}
    return convert_and_verify(model, X, classes, inputs, metadata, single_output=False)


def _check_loadable(content: bytes, model: Any) -> None:
    """Raise an error for a model that `load_teacher` would refuse, such as one whose conversion holds a loop."""
    try:
        audit_model(parse_onnx(content))
    except NotOnnxError as error:
        raise ValueError(
            f"{type(model).__name__} cannot be packed, because load_teacher would refuse its ONNX model: {error}. Pack "
            "another kind of classifier, or send the ONNX file itself, for OnnxTeacher."
        ) from None


def _card(
    model: Any, classes: NDArray[Any], inputs: Inputs, max_error: float, description: str, membership: Any
) -> Card:
    from sklearn_uhc.exporting.verified import TOLERANCE

    known = None if membership is None else type(membership).__name__
    versions = installed_versions()
    name = type(model.module if isinstance(model, TorchTeacher) else model).__name__
    scale = _log_scale(membership)
    lineage = getattr(getattr(model, "student_", model), "lineage_", None)
    return Card(
        name, plain_classes(classes), inputs, TOLERANCE, max_error, description, known, scale, versions, lineage
    )


def _with_classes(model: Any, classes: Sequence[Any] | None) -> tuple[Any, NDArray[Any]]:
    """Return the model as a classifier, and the names of its classes."""
    if is_module(model):
        if classes is None:
            raise ValueError(
                "A torch module does not know its classes: pass classes=[...], in the order of its outputs."
            )
        model = TorchTeacher(model, list(classes), device="cpu")
    if isinstance(model, (str, os.PathLike, bytes)):
        raise TypeError(
            "model is a file: pass the fitted model itself. An ONNX file can be sent as it is (OnnxTeacher)."
        )
    if (
        isinstance(model, type)
        or (isinstance(model, BaseEstimator) and is_regressor(model))
        or not hasattr(model, "classes_")
    ):
        raise TypeError(f"model must be a fitted classifier, with classes_, or a torch module; got {model!r:.200}.")
    own = np.asarray(model.classes_)
    if classes is not None and holds_sets(classes):
        raise TypeError(
            f"classes must name one class per output, got {list(classes)!r}. What a coarse class or OTHER stands for "
            "is said in the merge: pass class_lists there."
        )
    names = own if classes is None else np.asarray(list(classes))
    if names.shape != own.shape:
        raise ValueError(
            f"classes has {len(names)} entries, but {type(model).__name__} has {len(own)}: name each class."
        )
    if len(set(names.tolist())) < len(names):
        raise ValueError("classes has a name twice.")
    return model, names


def _binary_classifier(membership: Any, X: Any) -> Any:
    """Return the classifier whose second class is membership; it must agree with any `predict_membership`."""
    if isinstance(membership, MembershipScorer):
        check_is_fitted(membership)
        return OwnOrPublic(membership.estimator_, getattr(membership, "class_offsets_", 0.0))
    inside = [getattr(membership, name, None) for name in ("classifier_", "estimator_")]
    models = [m for m in (membership, *inside) if isinstance(m, BaseEstimator) and is_classifier(m)]
    found = [m for m in models if len(getattr(m, "classes_", ())) == 2]
    if not found:
        raise TypeError(
            f"membership must be a fitted classifier of two classes, or have one as classifier_; got "
            f"{membership!r:.200}. membership=None leaves it out."
        )
    if hasattr(membership, "predict_membership"):
        log_p = log_proba(found[0], X, type(found[0]).__name__)
        off = np.abs(np.asarray(membership.predict_membership(X)) - membership_of(log_p, None))
        if not (off <= 1e-5).all() or len(off) != count_rows(X):
            raise TypeError(
                f"predict_membership of {type(membership).__name__} is not the second probability of its "
                f"{type(found[0]).__name__}: only that, or a MembershipScorer, can be packed."
            )
    return found[0]


def _log_scale(membership: Any) -> float | None:
    """Return the scale of a MembershipScorer, or None."""
    return float(membership.log_scale_) if isinstance(membership, MembershipScorer) else None
