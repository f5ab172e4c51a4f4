"""The teachers with their names and classes, in any form that users pass, checked once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator, is_clusterer
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.utils.validation import check_is_fitted

from sklearn_uhc.spaces.label_space import OTHER, LabelSpace, check_class_list, check_is_list, shorten
from sklearn_uhc.teachers.answering import AnsweringTeacher
from sklearn_uhc.teachers.check_kind import check_kind_of_teacher, check_several
from sklearn_uhc.utils.notes import warn_user


class Roster(NamedTuple):
    """The teachers with their names and classes, already checked."""

    teachers: list[Any]
    space: LabelSpace  #: its class lists are in the order of the teachers

    def called(self, i: int) -> str:
        """Return the name of a teacher in messages: its name or position, and its type."""
        return _called(self.space.called(i), self.teachers[i])

    @property
    def is_of_one_kind(self) -> bool:
        """Whether all teachers are of the same type; what is behind a file or a server is not known."""
        known = not any(isinstance(teacher, AnsweringTeacher) for teacher in self.teachers)
        return known and len(set(map(kind_of_teacher, self.teachers))) == 1

    def names_of_sets(self) -> dict[Any, str]:
        """Return the teachers' own names of columns that class lists turn into sets, and what became of them."""
        found: dict[Any, str] = {}
        for i, (teacher, entries) in enumerate(zip(self.teachers, self.space.class_lists, strict=True)):
            own = getattr(teacher, "classes_", None)
            if own is not None and entries.dtype == object:
                for label, entry in zip(np.asarray(own).tolist(), entries, strict=True):
                    if entry is OTHER or isinstance(entry, tuple):
                        found.setdefault(label, f"class_lists makes it {entry!r} for {self.space.called(i)}")
        return found

    def labels(self) -> list[str]:
        """Return the labels of the teachers in plots and tables: their names, or positions and kinds."""
        if self.space.is_named:
            return list(self.space.teacher_names)
        return [f"{i} {kind_of_teacher(teacher)}" for i, teacher in enumerate(self.teachers)]


def kind_of_teacher(teacher: Any) -> str:
    """Return the type that plots show: of the frozen estimator, of a Pipeline's last step, or of a net's module."""
    if isinstance(teacher, FrozenEstimator):
        return kind_of_teacher(teacher.estimator)
    if getattr(teacher, "steps", None):
        return kind_of_teacher(teacher.steps[-1][1])
    inner = getattr(teacher, "module", teacher)
    return (inner if isinstance(inner, type) else type(inner)).__name__


def name_teachers(teachers: Any) -> tuple[list[str] | None, list[Any]]:
    """Split a dict or (name, teacher) pairs into names and teachers; for a plain list the names are None."""
    check_several(teachers)
    if isinstance(teachers, Mapping) and teachers:
        names, found = list(teachers), list(teachers.values())
    elif isinstance(teachers, (str, bytes)) or not isinstance(teachers, Sequence) or len(teachers) == 0:
        raise TypeError(
            "teachers must be a list of fitted classifiers, (name, classifier) pairs, or a dict of them by name, with "
            f"at least one; got {teachers!r}."
        )
    elif not any(_is_pair(teacher) for teacher in teachers):
        return None, list(teachers)
    elif all(_is_pair(teacher) for teacher in teachers):
        names, found = [name for name, _ in teachers], [teacher for _, teacher in teachers]
    else:
        raise TypeError("teachers mixes (name, classifier) pairs with classifiers without a name: name all, or none.")
    _check_names(names)
    return names, found


def _is_pair(teacher: Any) -> bool:
    return isinstance(teacher, tuple) and len(teacher) == 2 and isinstance(teacher[0], str)


def _check_names(names: list[Any]) -> None:
    for name in names:
        if not isinstance(name, str) or not name or "__" in name:
            raise ValueError(f"A teacher's name must be a string without '__', got {name!r}.")
        if names.count(name) > 1:
            raise ValueError(f"Two teachers are named {name!r}: names must be unique.")


def check_teachers(teachers: Any, class_lists: Any = None, universe: Any = None) -> Roster:
    """Check that all teachers are fitted classifiers, and return them with their label space.

    `universe` has additional classes that OTHER includes.
    """
    names, teachers = name_teachers(teachers)
    titles = [f"teacher {i}" if names is None else f"teacher {names[i]!r}" for i in range(len(teachers))]
    titles = [_called(title, teacher) for title, teacher in zip(titles, teachers, strict=True)]
    for title, teacher in zip(titles, teachers, strict=True):
        _check_classifier(teacher, title)
        _check_fitted(teacher, title)
    given = match_lists(class_lists, names, len(teachers))
    which: Sequence[int | str] = range(len(teachers)) if names is None else [repr(name) for name in names]
    lists = [_class_list(*each) for each in zip(which, titles, teachers, given, strict=True)]
    named = lists if names is None else dict(zip(names, lists, strict=True))
    roster = Roster(teachers, LabelSpace(named, universe=universe))
    _warn_if_reordered(roster)
    return roster


def match_lists(class_lists: Any, names: list[str] | None, n: int) -> list[Any]:
    """Return one class list or None per teacher; a dict of lists is put in the order of the teachers."""
    if class_lists is None:
        return [None] * n
    if isinstance(class_lists, Mapping):
        unknown = [name for name in class_lists if name not in (names or [])]
        if unknown:
            known = f"the teachers are {shorten(names or [])}."
            if names is None:
                known = (
                    "the teachers have no names. Pass them as a dict of classifiers by name, or, if the lists are in "
                    "the teachers' order, class_lists=list(class_lists.values())."
                )
            raise ValueError(f"class_lists names unknown teachers: {shorten(unknown)}; {known}")
        return [class_lists.get(name) for name in names or []]
    return _one_for_each(class_lists, n)


def _one_for_each(class_lists: Any, n: int) -> list[Any]:
    """Return a list of n class lists; raise an error for a flat list."""
    check_is_list(class_lists)
    given = list(class_lists)
    flat = [entry for entry in given if isinstance(entry, str) or (entry is not None and np.isscalar(entry))]
    if flat:
        raise TypeError(
            f"class_lists must be a list of lists, one for each of the {n} teachers: its first entry would be the "
            f"classes of the first teacher, but it has {flat[0]!r}."
        )
    if len(given) != n:
        raise ValueError(f"class_lists has {len(given)} lists for {n} teachers: pass one for each.")
    return given


def _called(title: str, teacher: Any) -> str:
    return f"{title} ({type(teacher).__name__})"


def _check_classifier(teacher: Any, name: str) -> None:
    if isinstance(teacher, type):
        raise TypeError(f"{name} is a class, not a fitted classifier: {teacher!r}. Pass a fitted instance.")
    if isinstance(teacher, (tuple, list)):
        raise TypeError(f"{name}: pass fitted classifiers, or (name, classifier) pairs, got {teacher!r}.")
    check_kind_of_teacher(teacher, name)
    if isinstance(teacher, BaseEstimator) and is_clusterer(teacher):
        raise TypeError(f"{name} is not a classifier.")


def _check_fitted(teacher: Any, name: str) -> None:
    if hasattr(teacher, "classes_") or not hasattr(teacher, "fit"):
        return  # objects without fit cannot be unfitted
    try:
        check_is_fitted(teacher)
    except NotFittedError as error:
        raise NotFittedError(
            f"{name} is not fitted. Teachers must be fitted before they are merged: call its fit(X, y). In a "
            "search over `teachers` itself, wrap each in sklearn.frozen.FrozenEstimator."
        ) from error


def _class_list(i: int | str, title: str, teacher: Any, labels: Any) -> Any:
    own = getattr(teacher, "classes_", None)
    if own is not None and len(own) and np.ndim(own[0]) > 0:
        raise ValueError(f"{title} predicts several outputs at once: pass one classifier per output.")
    if labels is None:
        if own is None:
            raise ValueError(f"{title} has no classes_: name its classes with class_lists.")
        return own
    names = check_class_list(i, labels)
    if own is not None and len(own) != len(names):
        raise ValueError(
            f"class_lists[{i}] has {len(names)} classes, but {title} has {len(own)} outputs: "
            "name every class, in the order of its classes_."
        )
    return names


def _warn_if_reordered(roster: Roster) -> None:
    """Warn if a class list has a teacher's own classes in other places, which may be a mistake."""
    for i, (teacher, names) in enumerate(zip(roster.teachers, roster.space.class_lists, strict=True)):
        if getattr(teacher, "classes_", None) is None:
            continue
        own = np.asarray(teacher.classes_).tolist()
        if own != names.tolist() and set(own) == set(names.tolist()):
            warn_user(
                f"class_lists[{i}] holds the classes of {roster.called(i)} in another order, which renames its "
                f"outputs: {shorten(own)} become {shorten(names)}. If that is not what you want, pass None to keep "
                "them."
            )
        elif moved := _moved(own, names.tolist()):
            old, entry, label = moved
            warn_user(
                f"class_lists[{i}] gives {roster.called(i)} its own class {label!r} in another place: the output "
                f"{old!r} becomes {entry!r}. If that is not what you want, write the list in the order of its "
                f"classes_, {shorten(own)}."
            )


def _moved(own: list[Any], entries: list[Any]) -> tuple[Any, Any, Any] | None:
    """Return the first output that gets the name of another one: its class, its entry and that name.

    Only for strings: numbers are often positions, and new names may be among them by chance.
    """
    places = {label: k for k, label in enumerate(own) if isinstance(label, str)}
    for k, entry in enumerate(entries):
        for label in entry if isinstance(entry, tuple) else (entry,):
            if isinstance(label, str) and places.get(label, k) != k:
                return own[k], entry, label
    return None
