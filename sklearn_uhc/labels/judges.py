"""Tools of scikit-learn that take -1 in y for a class, and would judge a classifier by it in silence.

`fit` sees only y, not who will use the same y to compute an accuracy. The callers tell: scikit-learn's cross-validation
with a metric of its own, and `CalibratedClassifierCV`. If these look different in another release, nothing is refused.
"""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any

import numpy as np

VALIDATION, CALIBRATION = "sklearn.model_selection._validation", "sklearn.calibration"


def refuse_judges() -> None:
    """Raise an error if the y of the call of `fit` that goes on, which has -1 for "no label", is misread further up."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        module = frame.f_globals.get("__name__")
        if module == CALIBRATION:
            raise ValueError(
                "y has -1 for rows without a label, which CalibratedClassifierCV takes for a class. Fit the classifier "
                "with this y alone, and calibrate it with CalibratedClassifierCV(FrozenEstimator(clf)) on labelled "
                "rows."
            )
        if module == VALIDATION and (name := _misleading_metric(frame.f_locals)):
            raise ValueError(
                f"y has -1 for rows without a label, which the metric {name!r} takes for a class. Leave scoring out: "
                "the classifier's own score ignores these rows. Or pass scoring=labelled_scorer(...)."
            )
        frame = frame.f_back


def _misleading_metric(local: dict[str, Any]) -> str | None:
    """Return the name of a metric of scikit-learn that is about to be computed on rows with -1, or None."""
    scorer, y, test = local.get("scorer"), local.get("y"), local.get("test")
    if scorer is None or y is None or test is None:
        return None
    scorers = getattr(scorer, "_scorers", {"": scorer}).values()
    metrics = [metric for each in scorers if (metric := getattr(each, "_score_func", None)) is not None]
    own = [metric.__name__ for metric in metrics if getattr(metric, "__module__", "").startswith("sklearn.")]
    return own[0] if own and {-1, "-1"} & set(np.asarray(y)[test].tolist()) else None
