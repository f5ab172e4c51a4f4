"""The diagram of a merge in notebooks: teachers with their classes, calibration, method, and the student.

scikit-learn draws whatever `_sk_visual_block_` returns, and since 1.6 reads only the attributes below. If a later
version needs others, it falls back to the plain text of the estimator.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sklearn_uhc.estimators.steps import resolve_calibrator
from sklearn_uhc.merging import resolve_method
from sklearn_uhc.spaces.class_sets import name_of_entry
from sklearn_uhc.teachers.roster import match_lists, name_teachers

#: Maximum number of teachers drawn side by side, the others are counted; and the longest title of one, in characters:
#: what 1,280 pixels have room for.
MOST_TEACHERS, LONGEST_TITLE = 3, 28


@dataclass
class DiagramBlock:
    """Estimators side by side ("parallel"), one after the other ("serial"), or a single one with a text ("single")."""

    kind: str
    estimators: Any
    names: Any
    name_details: Any
    name_caption: str | None = None
    doc_link_label: str | None = None
    dash_wrapped: bool = True

    def _sk_visual_block_(self) -> DiagramBlock:
        return self


def merge_block(
    teachers: Sequence[Any], class_lists: Sequence[Any], names: Sequence[str] | None, steps: dict[str, Any]
) -> DiagramBlock:
    """Return the block of a merge.

    Parameters
    ----------
    teachers : sequence of N classifiers
        As the user gave them.
    class_lists : sequence of N class lists
        None for a teacher of which they are not known.
    names : sequence of N str or None
        What the user calls them.
    steps : dict of estimators
        What comes after the teachers, by name.
    """
    shown: list[Any] = list(teachers[:MOST_TEACHERS])
    called = [f"teacher {i}" for i in range(len(class_lists))] if names is None else names
    titles = [_title(*pair) for pair in zip(called, class_lists, strict=True)]
    details: list[str | None] = [
        _details(*pair) for pair in list(zip(called, class_lists, strict=True))[:MOST_TEACHERS]
    ]
    if len(teachers) > len(shown):
        rest = "\n".join(titles[MOST_TEACHERS:])
        more = f"and {len(teachers) - MOST_TEACHERS} more teachers"
        shown, details = [*shown, DiagramBlock("single", None, more, rest)], [*details, None]
        titles = [*titles[:MOST_TEACHERS], ""]
    row = DiagramBlock("parallel", shown, titles, details)
    # A single estimator shows only its own name; in a row of its own, it also shows its role.
    rows = [row, *(DiagramBlock("serial", [_drawn(s)], [None], [None], dash_wrapped=False) for s in steps.values())]
    texts = [None, *(str(part) for part in steps.values())]
    return DiagramBlock("serial", rows, ["", *steps], texts, dash_wrapped=False)


def _title(name: str, labels: Any) -> str:
    """Return the name of a teacher with its classes if there is room, else with their number."""
    if labels is None:
        return name
    title = f"{name}: " + ", ".join(name_of_entry(label) for label in labels)
    if len(title) <= LONGEST_TITLE:
        return title
    classes = f": {len(labels)} classes"
    room = LONGEST_TITLE - len(classes)
    return (name if len(name) <= room else f"{name[: room - 1]}…") + classes


def _drawn(step: Any) -> Any:
    """Return what stands for a step: scikit-learn would call the teachers' columns its output features."""
    if hasattr(step, "get_feature_names_out"):
        return DiagramBlock("single", None, type(step).__name__, str(step))
    return step


def _details(name: str, labels: Any) -> str:
    if labels is None:
        return "classes unknown: name them with class_lists"
    return f"{name}\n{len(labels)} classes\n" + "\n".join(name_of_entry(label) for label in labels)


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
