"""The ensemble and the distiller on Dask collections."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from sklearn_uhc.dask.blocks import check_collection, map_rows, per_block
from sklearn_uhc.dask.cluster import compute
from sklearn_uhc.dask.labels import Balance, aligned, labels_in_passing, soft_labels, sums_of, weights_of_blocks
from sklearn_uhc.dask.outputs import merger_for_workers
from sklearn_uhc.dask.sampling import check_columns
from sklearn_uhc.dask.soft_blocks import SoftBlocks, parts_of
from sklearn_uhc.dask.students import train
from sklearn_uhc.dask.transformers import fit_on_sample, refuse_given
from sklearn_uhc.estimators.ensemble import UnifiedEnsemble
from sklearn_uhc.estimators.targets import spare_none
from sklearn_uhc.merging.balance import balances, check_balance
from sklearn_uhc.students import SoftLabelClassifier, check_student
from sklearn_uhc.teachers.input import check_input


def fit(estimator: Any, X: Any, y: Any = None, **kwargs: Any) -> Any:
    """Fit the ensemble or the distiller."""
    if isinstance(estimator, UnifiedEnsemble):
        return fit_ensemble(estimator, X, y, **kwargs)
    return fit_distiller(estimator, X, y, **kwargs)


def fit_ensemble(ensemble: UnifiedEnsemble, X: Any, y: Any = None, *, sample_weight: Any = None) -> UnifiedEnsemble:
    """Learn floors and temperatures from a sample; class weights, if requested, need a pass over all rows."""
    refuse_given(y=y)
    check_balance(ensemble.balance)
    whole = check_collection(X)
    weights_of_blocks(sample_weight, whole)
    merger = ensemble.make_merger()
    fit_on_sample(merger, X)
    class_weight = None
    if balances(ensemble.balance):
        sums = sums_of(labels_in_passing(merger, whole, sample_weight), merger.method_.temperature)
        class_weight = spare_none(sums.class_weights(), merger.classes_, merger.none_label)
    ensemble.class_weight_, ensemble.merger_, ensemble.classes_ = class_weight, merger, merger.classes_
    ensemble._take_features()
    ensemble._record_lineage(None)
    return ensemble


def fit_distiller(
    distiller: Any, X: Any, y: Any = None, *, sample_weight: Any = None, log_p: Any = None, **fit_params: Any
) -> Any:
    """Merge block by block, balance, and train the student, on all blocks if it supports this."""
    refuse_given(y=y, log_p=log_p, **fit_params)
    _check_params(distiller)
    student = distiller._make_student()
    check_student(student.estimator, student.strategy)
    whole = check_collection(X)
    weights_of_blocks(sample_weight, whole)
    merger = distiller.make_merger()
    fit_on_sample(merger, X)
    student.set_params(temperature=merger.method_.temperature, classes=merger.classes_)
    with soft_labels(merger, whole, sample_weight) as labels:
        sums, class_weight = sums_of(labels), None
        if balances(distiller.balance):
            class_weight = spare_none(sums.class_weights(), merger.classes_, merger.none_label)
        balance = Balance(sums, class_weight)
        parts = parts_of(whole, labels, balance)
        train(student, SoftBlocks(whole, parts, sums.rows, balance.prior, sums.total))
    distiller.class_weight_, distiller.merger_, distiller.student_ = class_weight, merger, student
    distiller.classes_ = merger.classes_
    distiller._take_features()
    distiller._record_lineage(int(sums.rows.sum()))
    return distiller


def _check_params(distiller: Any) -> None:
    """Raise an error for settings that need all rows in memory."""
    check_balance(distiller.balance)
    if distiller.backprop:
        raise ValueError(
            "backprop=True is not supported with a Dask collection: leave it out, or compute X first and fit in memory."
        )


def predict_proba(estimator: Any, X: Any) -> Any:
    """Return probabilities, lazily."""
    names = [str(label) for label in _fitted(estimator, X).classes_]
    return map_rows(_for_workers(estimator), "predict_proba", X, np.empty((0, len(names))), names)


def predict_log_proba(estimator: Any, X: Any) -> Any:
    """Return log-probabilities, lazily."""
    names = [str(label) for label in _fitted(estimator, X).classes_]
    return map_rows(_for_workers(estimator), "predict_log_proba", X, np.empty((0, len(names))), names)


def predict(estimator: Any, X: Any) -> Any:
    """Return the most probable classes, lazily; for a frame, a series named "prediction"."""
    classes = _fitted(estimator, X).classes_
    return map_rows(_for_workers(estimator), "predict", X, classes[:0], "prediction")


def score(estimator: Any, X: Any, y: Any = None, sample_weight: Any = None) -> float:
    """Return the accuracy, in one pass."""
    if y is None:
        raise ValueError("score without labels is not supported with a Dask collection: score on rows in memory.")
    X = check_collection(X)
    columns = aligned(predict(estimator, X), X, "y"), aligned(y, X, "y"), weights_of_blocks(sample_weight, X)
    right, total = np.sum(compute(per_block(_right, "score", *columns)), axis=0)
    return float(right / total)


def _right(predicted: Any, y: Any, weight: Any) -> NDArray[np.float64]:
    weights = np.ones(len(y)) if weight is None else np.asarray(weight, dtype=float)
    return np.array([weights @ (np.asarray(predicted) == np.asarray(y)), weights.sum()])


def _fitted(estimator: Any, X: Any) -> Any:
    """Return the estimator; raise an error if it is not fitted or X has other columns."""
    if isinstance(estimator, SoftLabelClassifier):
        check_is_fitted(estimator, "estimator_")
        return estimator
    check_is_fitted(estimator, "merger_")
    check_columns(estimator, X, check_input)
    return estimator


def _for_workers(estimator: Any) -> Any:
    """Return a light copy for predictions; if a student predicts, it has no teachers."""
    light = copy.copy(estimator)
    if isinstance(estimator, UnifiedEnsemble):
        light.merger_ = merger_for_workers(estimator.merger_)
        light.teachers = None
    elif not isinstance(estimator, SoftLabelClassifier):
        light.teachers, light.merger_ = None, None
    return light
