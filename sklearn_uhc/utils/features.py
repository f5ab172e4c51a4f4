"""Find the columns of a frame that a teacher was trained on, so that it gets them by name and in its own order."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import numpy as np
from sklearn.compose import ColumnTransformer
from sklearn.preprocessing import FunctionTransformer

from sklearn_uhc.utils.rows import column_names
from sklearn_uhc.utils.unchanged import first_step, package_of

#: Attributes with the feature names: scikit-learn and XGBoost, CatBoost, LightGBM.
ATTRIBUTES = ("feature_names_in_", "feature_names_", "feature_name_")
#: Names that boosters make up for the columns of an array.
AUTOMATIC = ("Column_{}", "f{}", "{}")


def own_columns(teacher: Any, X: Any, name: str) -> list[str] | None:
    """Return the columns of X that a teacher was trained on, in its order, or None if it takes X as it is."""
    given, step = column_names(X), first_step(teacher)
    known = feature_names(step)
    if known is None:
        return None
    if given is None or len(set(given)) < len(given) or (_made_up(known) and not set(known) <= set(given)):
        _check_number(step, known, X, name)
        return None
    found = _spellings(given)
    missing = [column for column in known if column not in found]
    if missing:
        _check_dispensable(step, missing, given, name)
        return None
    columns = [found[column] for column in known]
    return None if columns == given else columns


def _spellings(given: list[str]) -> dict[str, str]:
    """Return columns by name, and by the spellings that libraries derive from it, if these are unique.

    LightGBM replaces spaces by underscores, and estimators that wrap it use its names. skl2onnx replaces everything but
    letters and digits, and puts an underscore before a leading digit.
    """
    spaces = [column.replace(" ", "_") for column in given]
    words = [re.sub(r"^(?=\d)", "_", re.sub(r"[^\w+]", "_", column)) for column in given]
    times = Counter(words)
    unique = {word: column for word, column in zip(words, given, strict=True) if times[word] == 1}
    return unique | dict(zip(spaces, given, strict=True)) | {column: column for column in given}


def readable(teacher: Any, X: Any) -> Any:
    """Return a frame as an array for libraries that cannot read its type; its columns are already in order."""
    package = package_of(first_step(teacher))
    is_arrow, is_pandas = hasattr(type(X), "column_names"), hasattr(X, "iloc")
    unknown = (package == "skorch" and not is_pandas) or (package == "catboost" and is_arrow)
    return np.asarray(X) if hasattr(X, "columns") and unknown else X


def feature_names(step: Any) -> list[str] | None:
    """Return the feature names of a fitted estimator, or None if it has none or they are not strings."""
    for attribute in ATTRIBUTES:
        names = getattr(step, attribute, None)
        if names is not None and len(names):
            known = np.asarray(names).tolist()
            return known if all(isinstance(column, str) for column in known) else None
    return None


def _made_up(known: list[str]) -> bool:
    """Return whether these are names that a booster makes up for the columns of an array."""
    return any(known == [pattern.format(i) for i in range(len(known))] for pattern in AUTOMATIC)


def _check_number(step: Any, known: list[str], X: Any, name: str) -> None:
    """Raise an error for a wrong number of columns if they are matched by position: CatBoost ignores extra ones."""
    shape: tuple[int, ...] = getattr(X, "shape", ())
    if len(shape) == 2 and shape[1] != len(known) and not isinstance(step, FunctionTransformer):
        raise ValueError(
            f"{name} was trained on {len(known)} columns, but X has {shape[1]}. Pass X with the same columns in the "
            "same order, or train teachers on frames: then they take their columns from a frame by name."
        )


def _check_dispensable(step: Any, missing: list[str], given: list[str], name: str) -> None:
    """Raise an error if X lacks columns that a teacher needs."""
    if isinstance(step, FunctionTransformer):  # only its function knows which columns it needs
        return
    if isinstance(step, ColumnTransformer):
        missing = sorted(set(missing) & _selected(step))
    if missing:
        raise ValueError(
            f"{name} was trained on columns that X does not have: {missing[:8]}. X has {given[:8]}"
            f"{' and others' if len(given) > 8 else ''}. X needs a column for each feature of every teacher, under the "
            "name that the teacher knows. A teacher does not see columns that only others know."
        )


def _selected(step: Any) -> set[str]:
    """Return the columns that a ColumnTransformer does not drop."""
    used = [label for label, transformer, _ in step.transformers_ if not _is_drop(transformer)]
    return {str(step.feature_names_in_[i]) for label in used for i in step._transformer_to_input_indices[label]}


def _is_drop(transformer: Any) -> bool:
    return isinstance(transformer, str) and transformer == "drop"
