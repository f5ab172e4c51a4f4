"""Estimators that hold fitted teachers and scorers: `clone` keeps these instead of un-fitting them.

A `TeacherMerger` in the place of teachers is cloned, with its own teachers carried over: a search sets its parameters.
"""

from __future__ import annotations

import copy
from typing import Any

from sklearn.base import clone

from sklearn_uhc.utils.versioned import Versioned

#: Parameters that hold fitted objects.
FITTED = ("teachers", "membership")


class TeacherHolder(Versioned):
    """Mixin for estimators with a `teachers` parameter, which is never fitted, cloned or changed."""

    teachers: Any

    def __sklearn_clone__(self) -> Any:
        without, held = copy.copy(self), {name: getattr(self, name) for name in FITTED if hasattr(self, name)}
        for name in held:
            setattr(without, name, ())
        new = super(TeacherHolder, without).__sklearn_clone__()  # type: ignore[misc]
        for name, value in held.items():
            setattr(new, name, clone(value) if isinstance(value, TeacherHolder) else value)
        return new
