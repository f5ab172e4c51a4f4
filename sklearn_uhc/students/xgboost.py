"""XGBClassifier on soft labels, by a softmax objective; the fitted model is an ordinary XGBoost classifier."""

from __future__ import annotations

from typing import Any

import numpy as np

from sklearn_uhc.students.direct import SoftCrossEntropy, evaluation, refuse, stand_in_labels
from sklearn_uhc.students.soft_data import SoftData

OBJECTIVES = (None, "binary:logistic", "multi:softprob", "multi:softmax")


def accepts(estimator: Any) -> bool:
    """Accept every XGBClassifier."""
    return True


def fit(estimator: Any, data: SoftData, **params: Any) -> Any:
    """Fit on the soft cross-entropy, starting from the log of the mean soft label, as XGBoost itself does."""
    given = estimator.get_params(deep=False)
    if given["objective"] not in OBJECTIVES:
        raise ValueError(f"objective={given['objective']!r} of XGBClassifier: soft labels need the default, None.")
    refuse(estimator, {"scale_pos_weight": "use sample_weight instead"})
    if given["early_stopping_rounds"]:
        data = data.with_validation()
    labels, (sets, soft_logloss) = stand_in_labels(data, "XGBClassifier"), evaluation(data)
    if sets:
        params["eval_set"] = sets
    changed = {
        # With 2 in the Hessian, one-hot labels give XGBoost's own results.
        "objective": SoftCrossEntropy(data, 2.0, least_hessian=1e-16),
        "eval_metric": soft_logloss if sets else None,
        "disable_default_eval_metric": True,
        "base_score": given["base_score"] if given["base_score"] is not None else _start(data),
    }
    estimator.set_params(**changed)
    # The loss already includes the weights; here they are for the histogram bins.
    estimator.fit(data.X, labels, sample_weight=data.weight, **params)
    for name in changed:  # set_params would change the fitted model too
        if name in given:
            setattr(estimator, name, given[name])
        else:
            estimator.kwargs.pop(name)
    return estimator


def _start(data: SoftData) -> float | list[float]:
    """Return the scores from which boosting starts; for two classes XGBoost needs a probability."""
    mean = data.mean
    return float(mean[1]) if len(mean) == 2 else np.log(mean).tolist()
