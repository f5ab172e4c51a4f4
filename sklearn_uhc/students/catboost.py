"""CatBoostClassifier on soft labels: its own `CrossEntropy` for two classes, a softmax objective for more.

CatBoost calls a custom objective row by row; numba, if installed, compiles it, once per process.
It reads them entry by entry, L (L + 1) / 2 of the Hessian's, which takes longer than to compute them; a third less from
lists than from arrays.
"""

from __future__ import annotations

import json
import warnings
from contextlib import suppress
from importlib.util import find_spec
from typing import Any

import catboost
import numpy as np

from sklearn_uhc.students.direct import refuse, soft_log_loss
from sklearn_uhc.students.soft_data import SoftData
from sklearn_uhc.utils.notes import warn_user

EARLY_STOPPING = ("early_stopping_rounds", "od_wait", "od_pval")
LOSSES = (None, "Logloss", "CrossEntropy", "MultiClass")


def accepts(estimator: Any) -> bool:
    """Accept every CatBoostClassifier."""
    return True


def _derivatives(approxes: Any, targets: Any, weight: Any) -> Any:
    """Return gradient (L,) and Hessian (L, L) of sum_l q_l log softmax(approxes)_l for one row."""
    L = len(approxes)
    s = np.empty(L)
    top = approxes[0]
    for k in range(L):
        top = max(top, approxes[k])
    total = 0.0
    for k in range(L):
        s[k] = np.exp(approxes[k] - top)
        total += s[k]
    gradient, hessian = np.empty(L), np.empty((L, L))
    for k in range(L):
        s[k] /= total
        gradient[k] = (targets[k] - s[k]) * weight
    for k in range(L):
        for j in range(L):
            hessian[k, j] = s[k] * s[j] * weight
        hessian[k, k] -= s[k] * weight
    return gradient, hessian


with suppress(ImportError):
    from numba import njit

    _derivatives = njit(_derivatives)


class SoftSoftmax(catboost.MultiTargetCustomObjective):
    """Gradient and Hessian of the soft cross-entropy."""

    no_jit = True  # CatBoost would compile it in every fit, which takes a second or more

    def calc_ders_multi(self, approxes: Any, targets: Any, weight: Any) -> Any:
        """Return both for one row."""
        gradient, hessian = _derivatives(approxes, targets, weight)
        return gradient.tolist(), hessian.tolist()


class SoftLogLoss(catboost.MultiTargetCustomMetric):
    """Mean soft cross-entropy."""

    no_jit = True

    def is_max_optimal(self) -> bool:
        """Return False: lower is better."""
        return False

    def evaluate(self, approxes: Any, targets: Any, weight: Any) -> Any:
        """Return the sum of the losses and of the weights; there is one array per class."""
        w = np.ones(len(approxes[0])) if weight is None else np.asarray(weight)
        total = float(w.sum())
        return soft_log_loss(np.column_stack(targets), np.column_stack(approxes), w) * total, total

    def get_final_error(self, error: float, weight: float) -> float:
        """Return the mean."""
        return error / (weight + 1e-38)


def fit(estimator: Any, data: SoftData, **params: Any) -> Any:
    """Fit on the soft cross-entropy, starting from score 0, as CatBoost itself does."""
    given = estimator.get_params(deep=False)
    for name in ("loss_function", "objective"):
        if given.get(name) not in (LOSSES if name == "loss_function" else (None,)):
            raise ValueError(f"{name}={given[name]!r} of CatBoostClassifier is not supported with soft labels.")
    refuse(estimator, {"custom_metric": "it would be computed from hard labels"})
    weighing = "use sample_weight for rows, or put weights into the soft labels themselves"
    refuse(estimator, dict.fromkeys(("class_weights", "auto_class_weights", "scale_pos_weight"), weighing))
    if any(given.get(name) for name in EARLY_STOPPING):
        data = data.with_validation()
    two = data.Q.shape[1] == 2
    targets = data.Q[:, 1] if two else data.Q
    sets = [_pool(estimator, rows.X, rows.Q[:, 1] if two else rows.Q, rows.weight) for rows in data.eval_set]
    if given.get("learning_rate") is None and given.get("eta") is None:
        estimator.set_params(learning_rate=_learning_rate(estimator, data))
    estimator.set_params(allow_const_label=True)
    if two:
        estimator.set_params(loss_function="CrossEntropy")
    else:
        estimator.set_params(loss_function=SoftSoftmax(), eval_metric=SoftLogLoss(), boost_from_average=False)
        _warn_without_numba()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Failed to import numba")
        estimator.fit(data.X, targets, sample_weight=data.weight, eval_set=sets or None, **params)
    if not two:
        # CatBoost writes this for its own losses; without it `predict` does not know the classes.
        estimator.get_metadata()["class_params"] = json.dumps(
            {
                "class_label_type": "Integer",
                "class_names": list(range(data.Q.shape[1])),
                "class_to_label": list(range(data.Q.shape[1])),
                "classes_count": 0,
            }
        )
    return estimator


def _pool(estimator: Any, X: Any, y: Any, weight: Any = None) -> Any:
    """Return rows as a CatBoost pool, with the feature types that the estimator was given."""
    given = estimator.get_params(deep=False)
    kinds = {name: given[name] for name in ("cat_features", "text_features", "embedding_features") if given.get(name)}
    return catboost.Pool(X, y, weight=weight, **{name: list(value) for name, value in kinds.items()})


class _Stop:
    def after_iteration(self, info: Any) -> bool:
        return False


def _learning_rate(estimator: Any, data: SoftData) -> float:
    """Return the learning rate that CatBoost would choose for its own loss, from a first iteration."""
    L = data.Q.shape[1]
    own = {name: value for name, value in estimator.get_params(deep=False).items() if "snapshot" not in name}
    probe = catboost.CatBoostClassifier(**own | {"logging_level": None, "verbose": 0})
    # Its rule depends on the number of rows, and on whether there is an evaluation set.
    sets = [_pool(estimator, rows.X, np.arange(len(rows.Q)) % L) for rows in data.eval_set]
    probe.fit(data.X, np.arange(len(data.Q)) % L, eval_set=sets or None, callbacks=[_Stop()])
    return float(probe.get_all_params()["learning_rate"])


def _warn_without_numba() -> None:
    if find_spec("numba") is None:
        warn_user(
            "CatBoost computes the soft cross-entropy row by row in Python. It is several times faster with numba "
            "(pip install numba).",
        )
