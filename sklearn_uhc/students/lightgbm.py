"""LGBMClassifier on soft labels, by a softmax objective; the fitted model is an ordinary LightGBM classifier."""

from __future__ import annotations

from typing import Any

import lightgbm
import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import has_fit_parameter

from sklearn_uhc.students.direct import SoftCrossEntropy, evaluation, refuse, stand_in_labels
from sklearn_uhc.students.soft_data import SoftData
from sklearn_uhc.utils.rows import some_rows, take_rows

OBJECTIVES = (None, "multiclass", "softmax", "binary")
#: Aliases of LightGBM's parameters.
EARLY_STOPPING = ("early_stopping_round", "early_stopping_rounds", "early_stopping", "n_iter_no_change")
OBJECTIVE = ("objective_type", "app", "application", "loss")
BOOSTING = ("boosting_type", "boosting", "boost")
LINEAR = ("linear_tree", "linear_trees")
BALANCE = ("is_unbalance", "unbalance", "unbalanced_sets", "scale_pos_weight")
CLASS_BAGGING = tuple(
    f"{sign}_{name}" for sign in ("pos", "neg") for name in ("bagging_fraction", "sub_row", "subsample", "bagging")
)
#: Parameters that do not affect features.
UNRELATED = ("objective", "importance_type", "verbose", "verbosity")
#: Maximum number of rows in which a feature that can be split is searched.
SEEN_ROWS = 2000


def accepts(estimator: Any) -> bool:
    """Accept every LGBMClassifier."""
    return True


def fit(estimator: Any, data: SoftData, **params: Any) -> Any:
    """Fit on the soft cross-entropy, starting from the log of the mean soft label, as LightGBM itself does."""
    given = estimator.get_params(deep=False)
    if given.get("objective") not in OBJECTIVES:
        raise ValueError(f"objective={given['objective']!r} of LGBMClassifier: soft labels need the default, None.")
    refuse(estimator, dict.fromkeys(OBJECTIVE, "soft labels use their own objective"))
    refuse(estimator, dict.fromkeys((*BALANCE, *CLASS_BAGGING), "use class_weight instead"))
    if any(given.get(name) in ("rf", "random_forest") for name in BOOSTING):
        raise ValueError(
            "LightGBM's random forests cannot learn from soft labels. Use RandomForestClassifier, or boosting."
        )
    if any(given.get(name) for name in EARLY_STOPPING):
        data = data.with_validation()
    L = data.Q.shape[1]
    labels, (sets, soft_logloss) = stand_in_labels(data, "LGBMClassifier"), evaluation(data)
    start = _start(estimator, data)

    def metric(y_true: NDArray[Any], F: NDArray[Any]) -> tuple[str, float, bool]:
        return "multi_logloss" if L > 2 else "binary_logloss", soft_logloss(y_true, F), False

    # With K / (K - 1) in the Hessian, one-hot labels give LightGBM's own results. It stores scores by class.
    loss = SoftCrossEntropy(data, L / (L - 1), order="F")
    if sets:
        params |= _eval_arguments(estimator, sets)
        params |= {"eval_init_score": [_repeat(start, len(k)) for _, k in sets], "eval_metric": metric}
    own = {"objective": given["objective"], "metric": given.get("metric", "")}
    if not _can_split(estimator, data.X, params.get("categorical_feature", "auto")):
        own["feature_pre_filter"] = given.get("feature_pre_filter", True)
        estimator.set_params(feature_pre_filter=False)
    estimator.set_params(objective=loss, metric="None")
    estimator.fit(data.X, labels, init_score=_repeat(start, len(labels)), **params)
    estimator.set_params(**own)
    return _make_ordinary(estimator, start)


def _can_split(estimator: Any, X: Any, categorical: Any) -> bool:
    """Return whether LightGBM keeps a feature of X, judged by some rows.

    It drops features without a split that has `min_data_in_leaf` rows on either side. If none is left, its own
    objectives return the mean and all others fail. `feature_pre_filter=False` keeps all features, which is always right
    but takes twice the time on words, most of which are rare.
    """
    given = {k: v for k, v in estimator.get_params().items() if isinstance(v, (str, int, float)) and k not in UNRELATED}
    X = X if hasattr(X, "shape") else np.asarray(X)
    some = take_rows(X, some_rows(X.shape[0], SEEN_ROWS))
    seen = lightgbm.Dataset(some, params={**given, "verbose": -1}, categorical_feature=categorical).construct()
    return any(seen.feature_num_bin(j) for j in range(seen.num_feature()))


def _eval_arguments(estimator: Any, sets: list[tuple[Any, Any]]) -> dict[str, Any]:
    """Return the evaluation sets as arguments for this version of LightGBM."""
    if has_fit_parameter(estimator, "eval_X"):  # 4.7 and later
        return {"eval_X": tuple(X for X, _ in sets), "eval_y": tuple(y for _, y in sets)}
    return {"eval_set": sets}


def _start(estimator: Any, data: SoftData) -> NDArray[np.float64]:
    """Return the scores from which boosting starts: (L,), or (1,) for two classes."""
    given = estimator.get_params(deep=False)
    # A linear tree has no single value per leaf to which the start could be added afterwards.
    if given.get("boost_from_average") is False or any(given.get(name) for name in LINEAR):
        return np.zeros(1 if data.Q.shape[1] == 2 else data.Q.shape[1])
    log_mean = np.log(data.mean)
    return log_mean[1:] - log_mean[:1] if len(log_mean) == 2 else log_mean


def _repeat(start: NDArray[np.float64], n: int) -> NDArray[np.float64]:
    return np.full(n, start[0]) if len(start) == 1 else np.tile(start, (n, 1))


def _make_ordinary(estimator: Any, start: NDArray[np.float64]) -> Any:
    """Add the start to the first trees, and set LightGBM's own objective, so that the model returns probabilities."""
    booster = estimator.booster_
    for tree, info in enumerate(booster.dump_model(num_iteration=1)["tree_info"]):
        for leaf in range(info["num_leaves"] if start[tree] else 0):
            booster.set_leaf_output(tree, leaf, booster.get_leaf_output(tree, leaf) + start[tree])
    L = len(start)
    objective = "binary sigmoid:1" if L == 1 else f"multiclass num_class:{L}"
    head, rest = booster.model_to_string().split("\nfeature_names=", 1)
    estimator._Booster = lightgbm.Booster(model_str=f"{head}\nobjective={objective}\nfeature_names={rest}")
    estimator._objective = objective.split()[0]
    return estimator
