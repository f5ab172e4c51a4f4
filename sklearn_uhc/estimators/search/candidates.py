"""The candidates of a search: one estimator each, checked before any teacher is called."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from sklearn.base import clone
from sklearn.model_selection import ParameterGrid
from sklearn.pipeline import Pipeline

from sklearn_uhc.estimators.merged_classifier import MergedClassifier
from sklearn_uhc.estimators.search.folds import Fold
from sklearn_uhc.estimators.search.reading import Reading, reading_key, weights_of
from sklearn_uhc.estimators.steps import resolve_calibrator
from sklearn_uhc.merging.balance import check_balance
from sklearn_uhc.spaces.label_space import LabelSpace
from sklearn_uhc.students import SoftLabelClassifier, check_student
from sklearn_uhc.students.direct import as_estimator, is_net
from sklearn_uhc.utils.notes import add_note
from sklearn_uhc.utils.parameters import check_weights

#: Parameters that cannot be searched: all candidates are compared with the same teachers.
FIXED = ("teachers", "class_lists", "teachers__teachers", "teachers__class_lists")


@dataclass(frozen=True)
class Candidate:
    """One point of the grid.

    Parameters
    ----------
    params : dict
        As the grid has it.
    estimator : estimator
        With these parameters, not fitted.
    merged : MergedClassifier
        The estimator itself, or the last step of the Pipeline that it is.
    key : tuple
        Candidates with the same key can share a reading of the teachers.
    """

    params: dict[str, Any]
    estimator: Any
    merged: MergedClassifier
    key: tuple[Any, ...]


def split_estimator(estimator: Any) -> tuple[Pipeline | None, MergedClassifier]:
    """Return the steps before the merge, or None, and the merge."""
    before, merged = (estimator[:-1], estimator[-1]) if isinstance(estimator, Pipeline) else (None, estimator)
    if not isinstance(merged, MergedClassifier):
        raise TypeError(
            "TeacherHoldoutSearch needs a HeterogeneousDistiller or a UnifiedEnsemble, or a Pipeline that ends in one, "
            f"got {type(merged).__name__}. For a TeacherMerger, search over UnifiedEnsemble(merger)."
        )
    return before if before is not None and len(before) else None, merged


def make_candidates(estimator: Any, param_grid: Any, space: LabelSpace) -> list[Candidate]:
    """Return all candidates; raise an error if a parameter is wrong."""
    step = f"{estimator.steps[-1][0]}__" if isinstance(estimator, Pipeline) else ""
    candidates = [_make_candidate(estimator, step, params, space) for params in _points(param_grid)]
    if not candidates:
        raise ValueError("param_grid has no candidates: pass at least one value for each parameter.")
    return candidates


def _points(param_grid: Any) -> list[dict[str, Any]]:
    if isinstance(param_grid, (Mapping, list, tuple)):
        return list(ParameterGrid(param_grid))
    if isinstance(param_grid, str) or not isinstance(param_grid, Iterable):
        raise TypeError(f"param_grid must be a dict of lists, a list of these, or candidates, got {param_grid!r}.")
    return [dict(point) for point in param_grid]


def _make_candidate(estimator: Any, step: str, params: dict[str, Any], space: LabelSpace) -> Candidate:
    for name in params:
        if name == step.removesuffix("__") or (name.startswith(step) and name.removeprefix(step) in FIXED):
            raise ValueError(
                f"param_grid cannot search over {name!r}, since candidates are compared by the same held-out teachers. "
                "Run a search for each choice of teachers, and compare the results with labels."
            )
    made = clone(estimator).set_params(**clone(params, safe=False))
    merged = split_estimator(made)[1]
    try:
        check_candidate(merged, space)
    except Exception as error:
        add_note(error, f"This came from the candidate {params!r}.")
        raise
    outside = tuple((name, id(value)) for name, value in sorted(params.items()) if not name.startswith(step))
    return Candidate(params, made, merged, (*outside, *reading_key(merged.make_merger())))


def check_candidate(merged: MergedClassifier, space: LabelSpace) -> None:
    """Raise an error for parameters that `fit` would reject, before teachers are called for hours."""
    merger = merged.make_merger()
    if (weights := weights_of(merger)) is not None:
        check_weights(weights, space.n_teachers)
    resolve_calibrator(merger.calibrate)
    check_balance(merged.balance)
    if hasattr(merged, "student"):
        student = merged.student
        given = student if isinstance(student, SoftLabelClassifier) else SoftLabelClassifier(student)
        check_student(given.estimator, given.strategy)


def check_networks(candidates: list[Candidate], folds: list[Fold], space: LabelSpace) -> None:
    """Raise an error if a network, with its fixed number of outputs, would have to learn fewer classes in a fold."""
    short = next((fold for fold in folds if fold.space.n_classes < space.n_classes), None)
    nets = [c for c in candidates if is_network(getattr(c.merged, "student", None))]
    if short is None or not nets:
        return
    held = [i for i in range(space.n_teachers) if i not in short.rest.tolist()]
    raise ValueError(
        f"TeacherHoldoutSearch cannot train a network here, because the number of its outputs is fixed: without "
        f"{' and '.join(space.called(i) for i in held)}, {short.space.n_classes} of {space.n_classes} classes are "
        "left. Pass as folds only teachers whose classes others know too, leave networks out of the search, or choose "
        "their settings with some labelled rows and GridSearchCV."
    )


def is_network(student: Any) -> bool:
    """Return whether a student is a network, or a Pipeline that ends in one."""
    given = student.estimator if isinstance(student, SoftLabelClassifier) else student
    last = given[-1] if isinstance(given, Pipeline) else given
    return last is not None and is_net(as_estimator(last))


def read_all(candidates: list[Candidate], roster: Any, space: LabelSpace, X: Any, log_p: Any) -> dict[Any, Reading]:
    """Call the teachers once for all candidates that can share their answers."""
    readings: dict[Any, Reading] = {}
    for candidate in candidates:
        if candidate.key not in readings:
            before, merged = split_estimator(candidate.estimator)
            seen = X if before is None else before.fit_transform(X)
            readings[candidate.key] = Reading.of(merged.make_merger(), roster, space, seen, log_p, before)
    return readings
