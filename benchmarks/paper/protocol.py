"""What a trial draws: classes, who knows which, who saw which images, with which architecture.

Random classes: L classes, N teachers that know some of them each. Completely overlapping classes: all teachers know
all. No image is shared between teachers. Where a class has too few images for the draw, every teacher that knows it
gets the same share of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sklearn_uhc import LabelSpace

Array = NDArray[Any]
PROTOCOLS = ("random", "overlapping")


@dataclass(frozen=True)
class Ranges:
    """The paper's ranges, both ends included."""

    classes: tuple[int, int]
    teachers: tuple[int, int]
    known: tuple[int, int]  #: classes per teacher, with random classes
    samples: tuple[int, int] = (50, 200)  #: images per class and teacher
    adjustment: int = 50  #: images per class that the study of the teachers' accuracy sets aside


MANY_CLASSES = Ranges((20, 50), (10, 20), (5, 15))
FEW_CLASSES = Ranges((5, 10), (3, 7), (2, 5))


@dataclass(frozen=True)
class Draw:
    """One trial's teachers, not trained yet."""

    lists: list[Array]  #: classes of every teacher, sorted
    rows: list[Array]  #: its rows of the training part
    adjustment: Array  #: rows of the training part that no teacher sees
    architectures: list[str]
    samples: tuple[int, float, int]  #: fewest, mean and most images per class and teacher

    @property
    def classes(self) -> Array:
        """All classes of the trial, sorted."""
        return LabelSpace(self.lists).classes


def draw_trial(
    seed: int, y: Array, ranges: Ranges, protocol: str, architectures: tuple[str, ...], set_aside: bool = False
) -> Draw:
    """Draw a trial; the same seed gives the same one.

    Parameters
    ----------
    seed : int
        Number of the trial.
    y : ndarray of int
        Classes of the training part.
    ranges : Ranges
        How many of what.
    protocol : {"random", "overlapping"}
        Whether teachers know some or all of the classes.
    architectures : tuple of str
        Each teacher has one of them.
    set_aside : bool
        Whether to keep images for adjusting the teachers' accuracy.
    """
    rng = np.random.default_rng(seed)
    lists = draw_lists(rng, np.unique(y), ranges, protocol)
    chosen = [str(name) for name in rng.choice(architectures, len(lists))]
    rows, adjustment = draw_rows(rng, lists, y, ranges, set_aside)
    counts = np.concatenate([np.unique(y[own], return_counts=True)[1] for own in rows])
    return Draw(lists, rows, adjustment, chosen, (int(counts.min()), float(counts.mean()), int(counts.max())))


def draw_lists(rng: np.random.Generator, available: Array, ranges: Ranges, protocol: str) -> list[Array]:
    """Draw who knows which class; with random classes all must be known to somebody, and connect.

    Drawing everything again until they do would favour few classes and many teachers. So classes that nobody has drawn
    take the place of some that several teachers have, and teachers are drawn again only if that does not help.
    """
    most = min(ranges.classes[1], len(available))
    classes = np.sort(rng.choice(available, _between(rng, (ranges.classes[0], most)), replace=False))
    while True:
        n_teachers = _between(rng, ranges.teachers)
        if protocol == "overlapping":
            return [classes] * n_teachers
        known = [min(_between(rng, ranges.known), len(classes)) for _ in range(n_teachers)]
        lists = [rng.choice(classes, size, replace=False) for size in known]
        if sum(known) >= len(classes):
            _hand_out(rng, classes, lists)
        space = LabelSpace(lists)
        if space.n_classes == len(classes) and space.is_connected:
            return [np.sort(known) for known in lists]


def _hand_out(rng: np.random.Generator, classes: Array, lists: list[Array]) -> None:
    """Give every class that nobody knows to a teacher, for one that another teacher knows as well; in place."""
    for label in np.setdiff1d(classes, np.concatenate(lists)):
        labels, counts = np.unique(np.concatenate(lists), return_counts=True)
        spare = [(i, j) for i, own in enumerate(lists) for j in np.flatnonzero(np.isin(own, labels[counts > 1]))]
        i, j = spare[rng.integers(len(spare))]
        lists[i][j] = label


def draw_rows(
    rng: np.random.Generator, lists: list[Array], y: Array, ranges: Ranges, set_aside: bool
) -> tuple[list[Array], Array]:
    """Draw each teacher's rows, and those set aside: at most a quarter of a class."""
    rows: list[list[Array]] = [[] for _ in lists]
    adjustment = []
    for label in np.unique(np.concatenate(lists)):
        pool = rng.permutation(np.flatnonzero(y == label))
        kept = min(ranges.adjustment, len(pool) // 4) if set_aside else 0
        adjustment.append(pool[:kept])
        owners = [i for i, known in enumerate(lists) if label in known]
        shares = np.array_split(pool[kept:], len(owners))
        for i, share in zip(owners, shares, strict=True):
            rows[i].append(share[: min(_between(rng, ranges.samples), len(pool[kept:]) // len(owners))])
    return [np.concatenate(parts) for parts in rows], np.concatenate(adjustment)


def _between(rng: np.random.Generator, ends: tuple[int, int]) -> int:
    return int(rng.integers(ends[0], ends[1] + 1))
