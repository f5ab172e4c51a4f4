"""Estimators that hold fitted teachers: `clone` carries these over instead of un-fitting them."""

from __future__ import annotations

import copy
from typing import Any

from sklearn_uhc.utils.versioned import Versioned


class TeacherHolder(Versioned):
    """Mixin for estimators with a `teachers` parameter, which is never fitted, cloned or changed."""

    teachers: Any

    def __sklearn_clone__(self) -> Any:
        without = copy.copy(self)
        without.teachers = ()
        new = super(TeacherHolder, without).__sklearn_clone__()  # type: ignore[misc]
        new.teachers = self.teachers
        return new
