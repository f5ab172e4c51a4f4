"""Measurements and the demo. They use the public API only."""

from typing import Any

from sklearn_uhc import TeacherMerger

#: The paper's setting, at the library's T = 1. Studies of other choices keep it fixed.
PAPER: dict[str, Any] = {"method": "mf_lf", "balance": True}


def configured(kind: Any, teachers: Any, *student: Any, **settings: Any) -> Any:
    """Return a distiller or an ensemble; settings that it does not have itself go into a `TeacherMerger`."""
    of_merge = {name: settings.pop(name) for name in list(settings) if name not in kind._get_param_names()}
    return kind(TeacherMerger(teachers, **of_merge) if of_merge else teachers, *student, **settings)
