"""What sets of classes leave open, in words: for the warnings of `fit` and for the report."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from sklearn_uhc.spaces.label_space import LabelSpace, spelled

__all__ = ["about_one_set", "about_undetermined", "about_undistinguished", "listed", "warnings_of_sets"]

#: Longer lists of names are cut.
MOST_NAMED = 8


def warnings_of_sets(space: LabelSpace, with_rank: bool) -> list[str]:
    """Return what `fit` says about sets; without the rank, nothing about classes that are not determined."""
    apart = space.never_apart()
    within = {label for group in apart for label in group.tolist()}
    open_ = space.undetermined().tolist() if with_rank and space.leaves_open else []
    alone = [f"{spelled(label)} ({space.called(i)})" for label, i in space.in_one_set()]
    rest = [label for label in open_ if label not in within]
    return [
        *about_undistinguished([group.tolist() for group in apart]),
        *about_undetermined(rest),
        *about_one_set(alone),
    ]


def about_undistinguished(groups: Sequence[Iterable[Any]]) -> list[str]:
    """Return a sentence about groups of classes that are in the same sets everywhere, if there are any."""
    if not groups:
        return []
    names = "; ".join("{" + listed(group) + "}" for group in groups[:MOST_NAMED])
    more = f"; and {len(groups) - MOST_NAMED} more" if len(groups) > MOST_NAMED else ""
    return [
        f"No teacher distinguishes these classes: {names}{more}. They are in the same sets everywhere and get equal "
        "shares. Add a teacher that knows one of them alone, or give each group one name."
    ]


def about_undetermined(labels: Sequence[Any]) -> list[str]:
    """Return a sentence about classes that sets do not determine, if there are any."""
    if not labels:
        return []
    return [
        f"The sets do not determine the probabilities of these classes: {listed(labels)}. Other merged answers fit the "
        "teachers as well; the one reached from equal shares is used. Add a teacher that knows some of them alone."
    ]


def about_one_set(names: Sequence[str]) -> list[str]:
    """Return a sentence about classes that are named in one set of one teacher only, if there are any."""
    if not names:
        return []
    return [
        f"These classes are named in one set of one teacher only: {listed(names)}. Check their spelling. If it is "
        "right, their probability is what the other classes leave of the set."
    ]


def listed(names: Iterable[Any], last: str = ", ") -> str:
    """Join names; long lists are cut."""
    words = [spelled(name) for name in names]
    if len(words) > MOST_NAMED:
        return ", ".join(words[:MOST_NAMED]) + f", and {len(words) - MOST_NAMED} more"
    return last.join([", ".join(words[:-1]), words[-1]]) if len(words) > 1 else words[0]
