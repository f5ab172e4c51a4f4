"""Estimators that hold fitted teachers: `clone` carries these over instead of un-fitting them."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, is_clusterer, is_regressor
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.utils.validation import check_is_fitted

from sklearn_uhc.label_space import LabelSpace, check_class_list, check_is_list, shorten
from sklearn_uhc.utils.notes import warn_user
from sklearn_uhc.utils.versioned import Versioned


class TeacherHolder(Versioned):
    """Mixin for estimators with a `teachers` parameter, which is never fitted, cloned or changed."""

    teachers: Sequence[Any]

    def __sklearn_clone__(self) -> Any:
        without = copy.copy(self)
        without.teachers = ()
        new = super(TeacherHolder, without).__sklearn_clone__()  # type: ignore[misc]
        new.teachers = self.teachers
        return new


def teacher_name(i: int, teacher: Any) -> str:
    """Return how messages call a teacher: its place in the list and its type."""
    return f"teacher {i} ({type(teacher).__name__})"


def kind_of_teacher(teacher: Any) -> str:
    """Return what plots call a teacher: the type of what is frozen, of a Pipeline's last step, of a net's module."""
    if isinstance(teacher, FrozenEstimator):
        return kind_of_teacher(teacher.estimator)
    if getattr(teacher, "steps", None):
        return kind_of_teacher(teacher.steps[-1][1])
    inner = getattr(teacher, "module", teacher)
    return (inner if isinstance(inner, type) else type(inner)).__name__


def check_teachers(teachers: Any, class_lists: Any = None) -> LabelSpace:
    """Check that all teachers are fitted classifiers and return the space of their classes."""
    if isinstance(teachers, (str, bytes, dict)) or not isinstance(teachers, Sequence) or len(teachers) == 0:
        raise TypeError(f"teachers must be a non-empty list of fitted classifiers, got {teachers!r}.")
    for i, teacher in enumerate(teachers):
        _check_classifier(teacher, teacher_name(i, teacher))
        _check_fitted(teacher, teacher_name(i, teacher))
    given = [None] * len(teachers)
    if class_lists is not None:
        check_is_list(class_lists)
        given = list(class_lists)
    if len(given) != len(teachers):
        raise ValueError(f"class_lists has {len(given)} lists for {len(teachers)} teachers: give one for each.")
    lists = [_class_list(i, t, labels) for i, (t, labels) in enumerate(zip(teachers, given, strict=True))]
    return LabelSpace(lists)


def _check_classifier(teacher: Any, name: str) -> None:
    if isinstance(teacher, type):
        raise TypeError(f"{name}: a class was given where a fitted classifier is needed; got {teacher!r}.")
    if isinstance(teacher, (tuple, list)):
        raise TypeError(f"{name}: give the fitted classifiers themselves, without names, got {teacher!r}.")
    if isinstance(teacher, BaseEstimator) and (is_regressor(teacher) or is_clusterer(teacher)):
        raise TypeError(f"{name} is not a classifier.")


def _check_fitted(teacher: Any, name: str) -> None:
    if hasattr(teacher, "classes_") or not hasattr(teacher, "fit"):
        return  # objects that only predict have nothing to fit
    try:
        check_is_fitted(teacher)
    except NotFittedError as error:
        raise NotFittedError(
            f"{name} is not fitted. Teachers are used as they are: call its fit(X, y) before passing it on. In a "
            "search over `teachers` itself, wrap each in sklearn.frozen.FrozenEstimator."
        ) from error


def _class_list(i: int, teacher: Any, labels: Any) -> Any:
    own = getattr(teacher, "classes_", None)
    if own is not None and len(own) and np.ndim(own[0]) > 0:
        raise ValueError(
            f"{teacher_name(i, teacher)} predicts several outputs at once: give one classifier per output."
        )
    if labels is None:
        if own is None:
            raise ValueError(f"{teacher_name(i, teacher)} has no classes_: name its classes with class_lists.")
        return own
    names = check_class_list(i, labels)
    if own is not None and len(own) != len(names):
        raise ValueError(
            f"class_lists[{i}] names {len(names)} classes, but {teacher_name(i, teacher)} has {len(own)} outputs: "
            "name every class, in the order of its classes_."
        )
    return names


def warn_if_reordered(teachers: Sequence[Any], space: LabelSpace) -> None:
    """Warn of class lists that hold a teacher's own classes in another order, which may be a mistake."""
    for i, (teacher, names) in enumerate(zip(teachers, space.class_lists, strict=True)):
        if getattr(teacher, "classes_", None) is None:
            continue
        own = np.asarray(teacher.classes_).tolist()
        if own != names.tolist() and set(own) == set(names.tolist()):
            warn_user(
                f"class_lists[{i}] holds the classes of {teacher_name(i, teacher)} in another order. It renames its "
                f"outputs one by one: {shorten(own)} become {shorten(names)}. If that is not meant, give None to keep "
                "them."
            )
