"""Rules for comparisons of teachers: a teacher is wrong, or names are positions.

The limits were chosen on data and seeds other than those reported in `benchmarks/results/findings.json`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sklearn_uhc.evidence.comparisons import LEAST_EVIDENCE, Comparisons
from sklearn_uhc.evidence.finding import Finding
from sklearn_uhc.spaces.class_sets import plain_entries
from sklearn_uhc.spaces.label_space import LabelSpace, shorten, spelled

#: A teacher contradicts the others if its reliability is at most this share of the best one. .1 found 2 to 4 % fewer;
#: .25 accused three times as many good teachers, 11 of 3,025.
LITTLE = 0.15
#: Lists of numbers from 0 are positions if the better half of the other teachers has less mean reliability: where they
#: mean the same it was .8 and more.
RELIABLE = 0.65


def judge(found: Comparisons, space: LabelSpace, *, discounted: bool = True) -> list[Finding]:
    """Return problems with teachers or lists; `discounted` says that a teacher that is named has next to no weight."""
    culprits, every = find_culprits(found), np.flatnonzero(found.compared).tolist()
    rest = np.setdiff1d(every, culprits)
    apart = len(every) == 2 and found.kappa[every[0], every[1]] <= 0
    agree = not apart if len(every) <= 2 else level(found.confirmed[rest]) >= RELIABLE
    if like_positions(space) and (not agree or len(culprits) > len(every) / 3):
        return [positions(found, space)]
    nobody = len(every) > 2 and level(found.confirmed[every]) < 0.5  # random answers: at most .4; clean: from .67
    if apart or nobody or len(culprits) > len(every) / 2:
        return [conflict(found, space, every)]
    return [contradiction(found, space, i, discounted) for i in culprits]


def find_culprits(found: Comparisons) -> list[int]:
    """Return teachers that contradict the others."""
    little = found.reliability <= LITTLE * found.confirmed.max()
    return np.flatnonzero(little & (found.evidence >= LEAST_EVIDENCE)).tolist()


def level(r: NDArray[np.float64]) -> float:
    """Return the mean of the better half of the reliabilities."""
    better = np.sort(r)[len(r) // 2 :]
    return float(better.mean()) if len(better) else 0.0


def is_range(labels: NDArray[Any]) -> bool:
    """Return whether a class list is 0, 1, 2, ..., as numbers or digits."""
    return [str(label) for label in labels.tolist()] == [str(k) for k in range(len(labels))]


def like_positions(space: LabelSpace) -> bool:
    """Return whether all class lists are 0, 1, 2, ..."""
    return all(map(is_range, space.class_lists))


def contradiction(found: Comparisons, space: LabelSpace, i: int, discounted: bool) -> Finding:
    """Return the finding that a teacher is wrong."""
    who, names = space.called(i), plain_entries(space.class_lists[i])
    called = {names[a]: names[b] for a, b in found.called(i).items()}
    figures = reliabilities(found, i)
    says = (
        f"T{who[1:]} contradicts the other teachers: on a scale from 0, no better than chance, to 1, it agrees with "
        f"them by {figures['reliability']:.2f}, and they with each other by {figures['reliability_others']:.2f}."
        f"{_call(called)}{' The merge gives it next to no weight.' if discounted else ''}"
    )
    remedy = f"Check that its class list, {shorten(names)}, has the order of its outputs. Otherwise leave it out."
    if is_range(space.class_lists[i]):
        remedy = f"Its class list looks like positions: after a LabelEncoder, pass encoder.classes_. {remedy}"
    return Finding("contradiction", (i,), figures | {"called": called}, says, remedy)


def conflict(found: Comparisons, space: LabelSpace, who: list[int]) -> Finding:
    """Return the finding that teachers contradict each other, and that none can be told to be right."""
    names = " and ".join(shorten([space.called(i) for i in who]))
    says = f"T{names[1:]} contradict each other about the classes that they share{_agreement(found)}."
    remedy = (
        "Either a class list is not in the order of the outputs, or some of them are wrong, or the rows are foreign to "
        "them: check class_lists, and use rows like those that they were trained on."
    )
    return Finding("contradiction", tuple(who), reliabilities(found), says, remedy)


def positions(found: Comparisons, space: LabelSpace) -> Finding:
    """Return the finding that class lists look like positions."""
    lengths = sorted({len(labels) for labels in space.class_lists})
    size = f"0 to {lengths[0] - 1}" if len(lengths) == 1 else f"0 to {lengths[0] - 1} up to 0 to {lengths[-1] - 1}"
    says = (
        f"The class lists look like positions, not names: all {space.n_teachers} teachers have the classes {size}, "
        f"but do not mean the same by them{_agreement(found)}."
    )
    remedy = (
        "A teacher trained after a LabelEncoder knows only numbers: pass the names in the order of its "
        "outputs, class_lists=[encoder.classes_, ...]. If the names are right, the rows may be foreign to the teachers."
    )
    return Finding("positions", tuple(range(space.n_teachers)), reliabilities(found), says, remedy)


def reliabilities(found: Comparisons, i: int | None = None) -> dict[str, Any]:
    """Return the reliability of all teachers, or of teacher i and of the others."""
    others = found.confirmed[found.compared & (np.arange(len(found.kappa)) != i)]
    mean = {"reliability" if i is None else "reliability_others": level(others)}
    return mean if i is None else {"reliability": float(found.reliability[i]), **mean}


def _agreement(found: Comparisons) -> str:
    return f" (agreement {reliabilities(found)['reliability']:.2f}, where 0 is chance and 1 perfect)"


def _call(called: dict[Any, Any]) -> str:
    pairs = shorten([f"{spelled(a)} is {spelled(b)}" for a, b in called.items()])
    return f" According to the others, its {', its '.join(pairs)}." if pairs else ""
