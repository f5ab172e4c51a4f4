"""Boosters on a cluster: `xgboost.dask` and `lightgbm.dask`, trained on the soft cross-entropy.

Neither passes a matrix of soft labels to the objective on the workers, but both accept initial scores, a matrix with a
row for each row of X. So the soft labels are passed as initial scores, and the objective subtracts them again:

    scores = (scores of the library) - Q + start,     start = log of the mean soft label

The fitted model is an ordinary classifier, as in memory, and includes the start.
"""

from __future__ import annotations

import warnings
from typing import Any

import dask
import numpy as np
from dask import array
from numpy.typing import NDArray

from sklearn_uhc.dask.cluster import client_in_use
from sklearn_uhc.dask.soft_blocks import Part, SoftBlocks
from sklearn_uhc.students import lightgbm as in_memory_lightgbm
from sklearn_uhc.students.direct import SoftCrossEntropy, refuse
from sklearn_uhc.students.soft_data import SoftData
from sklearn_uhc.students.xgboost import OBJECTIVES


class Columns:
    """The inputs of a booster other than X, as collections with the blocks of X."""

    def __init__(self, data: SoftBlocks) -> None:
        self.L = len(data.prior)
        self.Q = _collected(data, carried, (1 if self.L == 2 else self.L,))
        self.weight = _collected(data, weights, ())
        self.labels = _collected(data, stand_ins, ())


def _collected(data: SoftBlocks, function: Any, shape: tuple[int, ...]) -> Any:
    blocks = [
        array.from_delayed(dask.delayed(function)(part), (int(n), *shape), float)
        for part, n in zip(data.parts, data.lengths, strict=True)
    ]
    return array.concatenate(blocks)


def carried(part: Part) -> NDArray[np.float64]:
    """Return soft labels; for two classes only the column of the second."""
    return part.Q[:, 1:] if part.Q.shape[1] == 2 else part.Q


def weights(part: Part) -> NDArray[np.float64]:
    """Return the weights of the rows."""
    return part.weight


def stand_ins(part: Part) -> NDArray[np.float64]:
    """Return labels in which every class occurs; boosters infer only the number of classes from them."""
    return np.arange(len(part.Q)) % part.Q.shape[1]


def _start(prior: NDArray[np.float64]) -> NDArray[np.float64]:
    log_mean = np.log(np.maximum(prior, 1e-15))
    return log_mean[1:] - log_mean[:1] if len(prior) == 2 else log_mean


def _gradients(
    Q: NDArray[Any], F: NDArray[Any], weight: NDArray[Any] | None, factor: float, least: float
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return gradient and Hessian of the soft cross-entropy; for two classes Q and F have one column."""
    binary = Q.shape[1] == 1
    labels = np.hstack([1 - Q, Q]) if binary else Q
    loss = SoftCrossEntropy(SoftData(None, labels, weight, np.arange(labels.shape[1])), factor, least)
    return loss(None, F[:, 0] if binary else F)


def fit_xgboost(estimator: Any, data: SoftBlocks, held: Any) -> Any:
    """Train with `xgboost.dask`; the rows stay on the workers, in bins."""
    from xgboost import dask as on_cluster

    given = estimator.get_params(deep=False)
    if given["objective"] not in OBJECTIVES or given["early_stopping_rounds"]:
        raise ValueError(
            "XGBClassifier on blocks of rows does not support an objective or early_stopping_rounds: set "
            "n_estimators instead."
        )
    refuse(estimator, {"scale_pos_weight": "use sample_weight instead"})
    columns, client, L = Columns(data), client_in_use(), len(data.prior)
    start = _start(data.prior)
    params = {k: v for k, v in estimator.get_xgb_params().items() if v is not None and k != "n_estimators"}
    params["objective"] = "binary:logistic" if L == 2 else "multi:softprob"
    params |= {} if L == 2 else {"num_class": L}
    params["base_score"] = float(data.prior[1]) if L == 2 else start.tolist()
    matrix = on_cluster.DaskQuantileDMatrix(
        client, data.X, columns.labels, weight=columns.weight, base_margin=columns.Q, max_bin=given["max_bin"] or 256
    )

    def objective(margin: NDArray[Any], rows: Any) -> tuple[NDArray[Any], NDArray[Any]]:
        Q = rows.get_base_margin().reshape(rows.num_row(), -1).astype(float)
        F = margin.reshape(Q.shape) - Q + start
        weight = rows.get_weight()
        gradient, hessian = _gradients(Q, F, weight if len(weight) else None, 2.0, 1e-16)
        return gradient.astype(np.float32), hessian.astype(np.float32)

    rounds = estimator.get_num_boosting_rounds()
    trained = on_cluster.train(client, params, matrix, num_boost_round=rounds, obj=objective)
    estimator.load_model(bytearray(trained["booster"].save_raw("ubj")))
    estimator.n_classes_ = L
    return estimator


class LightGBMObjective:
    """The objective on a worker; its first call gets the initial scores, which are the soft labels."""

    def __init__(self, start: NDArray[np.float64]) -> None:
        self.start = start
        self.Q: NDArray[np.float64] | None = None

    def __call__(self, y_true: Any, F: NDArray[Any], weight: Any = None) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return gradient and Hessian of the soft cross-entropy."""
        scores = F.reshape(len(y_true), -1)
        if self.Q is None:
            self.Q = scores.copy()
        L = 2 if scores.shape[1] == 1 else scores.shape[1]
        return _gradients(self.Q, scores - self.Q + self.start, weight, L / (L - 1), 0.0)


def fit_lightgbm(estimator: Any, data: SoftBlocks, held: Any) -> Any:
    """Train with `lightgbm.dask`; the rows stay on the workers, in bins."""
    import lightgbm

    given = estimator.get_params(deep=False)
    stops = any(given.get(name) for name in in_memory_lightgbm.EARLY_STOPPING)
    if given.get("objective") not in in_memory_lightgbm.OBJECTIVES or stops:
        raise ValueError(
            "LGBMClassifier on blocks of rows does not support an objective or early stopping: set n_estimators "
            "instead."
        )
    columns, start = Columns(data), _start(data.prior)
    own = {"objective": LightGBMObjective(start), "metric": "None", "feature_pre_filter": False}
    model = lightgbm.DaskLGBMClassifier(client=client_in_use(), **{**given, **own})
    init_score = columns.Q[:, 0] if columns.L == 2 else columns.Q
    with warnings.catch_warnings():  # LightGBM warns about n_jobs for every estimator
        warnings.filterwarnings("ignore", message="Parameter n_jobs will be ignored")
        model.fit(data.X, columns.labels, sample_weight=columns.weight, init_score=init_score)
    fitted = model.to_local()
    fitted.set_params(objective=given["objective"], metric=given.get("metric", ""))
    fitted.set_params(feature_pre_filter=given.get("feature_pre_filter", True))
    return in_memory_lightgbm._make_ordinary(fitted, start)
