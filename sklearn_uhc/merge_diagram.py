"""The content of the diagram of a merge: teachers with their classes, calibration, method, and the student."""

from __future__ import annotations

from typing import Any

from sklearn_uhc.soft_labels import resolve_method
from sklearn_uhc.steps import resolve_calibrator
from sklearn_uhc.teachers.roster import match_lists, name_teachers
from sklearn_uhc.utils.diagram import DiagramBlock, merge_block


def diagram_of_merge(merger: Any, **more: Any) -> DiagramBlock:
    """Return the diagram of a `TeacherMerger`, fitted or not, followed by more estimators by name."""
    teachers, lists, names = _teachers(merger)
    return merge_block(teachers, lists, names, {**_steps(merger), **more})


def _teachers(merger: Any) -> tuple[list[Any], list[Any], list[str] | None]:
    """Return teachers, class lists and names, as far as known before `fit`."""
    lists = merger.class_lists
    if merger.teachers is None:
        known = list(lists.values() if isinstance(lists, dict) else lists or [])
        return ["answers given as log_p"] * len(known), known, None
    names, teachers = name_teachers(merger.teachers)
    given = match_lists(lists, names, len(teachers))
    own = [getattr(teacher, "classes_", None) for teacher in teachers]
    return teachers, [k if labels is None else labels for k, labels in zip(own, given, strict=True)], names


def _steps(merger: Any) -> dict[str, Any]:
    """Return calibration and method by name."""
    method = resolve_method(merger.method)
    if merger.temperature is not None:
        method.set_params(temperature=merger.temperature)
    # Before fit, "auto" is not decided yet, so only certain steps are shown.
    certain = None if isinstance(merger.calibrate, str) else resolve_calibrator(merger.calibrate)
    calibrator = merger.calibrator_ if hasattr(merger, "steps_") else certain
    return {**({} if calibrator is None else {"calibration": calibrator}), "method": method}
