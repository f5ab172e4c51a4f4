"""Classes that are in sets only and vanish: such samples are solved without these classes.

A class j without a column of its own matters only through the sums q(S) of its sets. If q_j = 0 is best, the others
solve the same problem without j, and

    sum over the sets S of j of  G_S / q(S)  >= 0,      G the derivative of the objective by phi of the sets

says that j does not return. In noisy answers that is so for about half of the samples. With u_j on its way to -inf,
steps that all samples share would never end. So after a few steps without any such class, the sign of the sum predicts
which of them vanish. Samples with the same prediction are solved together in a smaller label space. The sum at the end
confirms the result; samples without confirmation are solved with all classes, and what that leaves unsolved without the
classes that have become small.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol, TypeVar

import numpy as np
from array_api_compat import array_namespace, device
from numpy.typing import NDArray

from sklearn_uhc.label_space import LabelSpace
from sklearn_uhc.solvers.anderson import Rest
from sklearn_uhc.solvers.blocks import Array
from sklearn_uhc.solvers.incidence import at_least, like_array, to_cpu
from sklearn_uhc.solvers.sets import SetBlocks, lowest

#: With more classes in sets only, just some combinations of them get a label space of their own: all, all but one, one.
#: How many samples share a combination must not matter, for a sample's result should not depend on the others.
FEW = 4
#: Maximum number of classes that are considered.
MOST_CLASSES = 50
#: Mean share of its sets below which a class of an unsolved sample is tried without.
SINKING = 0.1
#: Errors of G that the sum must exceed, relative to G and to the tolerance.
CLEAR, BEYOND = 1e-6, 100.0


class Smaller(NamedTuple):
    """A label space without some of its classes."""

    blocks: SetBlocks
    kept: Array  #: (L',), the classes that remain
    join: Array  #: (L' + S', L + S), sums over the classes and sets that have become the same


def smaller(blocks: SetBlocks, gone: tuple[int, ...]) -> Smaller | None:
    """Return the label space without some classes, or None if no teacher would link others then; made once."""
    made: dict[tuple[int, ...], Smaller | None] = blocks.once("smaller", dict)
    if gone not in made:
        made[gone] = _without(blocks, gone)
    return made[gone]


def _without(blocks: SetBlocks, gone: tuple[int, ...]) -> Smaller | None:
    space, L = blocks.space, blocks.n_classes
    kept = np.setdiff1d(np.arange(L), gone)
    stays = ~np.isin(space.members, gone)
    ends = np.cumsum(np.add.reduceat(stays, space.offsets[:-1]))
    columns = [part.tolist() for part in np.split(space.members[stays], ends[:-1])]
    entries = [part[0] if len(part) == 1 else tuple(part) for part in columns]
    rest = LabelSpace([entries[block] for block in space.blocks])
    if rest.n_components > space.n_components:
        return None
    part = SetBlocks.from_label_space(rest).like(blocks.sizes[None, :])
    before, after = to_cpu(blocks.source), to_cpu(part.source)
    join = np.zeros((len(kept) + len(part.set_columns), L + len(blocks.set_columns)))
    join[np.arange(len(kept)), kept] = 1.0
    join[after, before] = 1.0
    return Smaller(part, like_array(kept, blocks.sizes), like_array(join, blocks.sizes))


def may_vanish(blocks: SetBlocks) -> tuple[int, ...]:
    """Return classes that are in sets only, as long as every set keeps another class; found once."""
    found: tuple[int, ...] = blocks.once("may vanish", lambda: _may_vanish(blocks))
    return found


def _may_vanish(blocks: SetBlocks) -> tuple[int, ...]:
    space, members = blocks.space, to_cpu(blocks.in_set)
    alike = space.identification.never_apart
    # What is not determined must stay as even as it is; classes that are never apart do, as they vanish together.
    if space.rank_bound + sum(len(group) - 1 for group in alike) < blocks.n_classes - blocks.n_components:
        return ()
    lonely, left, chosen = ~to_cpu(blocks.has_own), members.sum(axis=1), []
    together = {int(j): group for group in alike for j in group}
    for j in np.flatnonzero(lonely)[:MOST_CLASSES].tolist():
        group = together.get(j, np.array([j]))
        taken = members[:, group].sum(axis=1)
        if j == group[0] and lonely[group].all() and (left[taken > 0] > taken[taken > 0]).all():
            left = left - taken
            chosen += group.tolist()
    chosen.sort()
    return tuple(chosen) if chosen and smaller(blocks, tuple(chosen)) is not None else ()


class Entry(NamedTuple):
    """What the objective does if a class enters its sets with a small q, (L, n) each."""

    slope: Array  #: sum of G / q(S)
    least: Array  #: what errors of G may contribute to it
    bend: Array  #: its derivative by q

    @classmethod
    def of(cls, G: Array, h: Array, qS: Array, error: Array | float, blocks: SetBlocks) -> Entry:
        """Sum over the sets of every class, given G, its derivative h by T phi, and q(S), (S, n) each."""
        xp, members = array_namespace(G), blocks.in_set.T
        least = members @ ((CLEAR * xp.abs(G) + BEYOND * error) / qS)
        square = at_least(qS, float(xp.finfo(qS.dtype).tiny) ** 0.5) ** 2
        return cls(members @ (G / qS), least, members @ ((h - G) / square))


P = TypeVar("P", bound="Problem")


class Problem(Protocol):
    """Samples with an iteration that is the same for all of them."""

    @property
    def blocks(self) -> SetBlocks:
        """The label space."""

    @property
    def look(self) -> int:
        """Number of steps before vanishing classes are predicted."""

    def run(self, U: Array, most: int) -> Rest:
        """Take at most so many steps from U (L, n)."""

    def entry(self, U: Array) -> Entry:
        """Return how the objective changes if classes enter their sets."""

    def keep(self: P, rows: Array) -> P:
        """Return the problem of some samples."""

    def without(self: P, part: Smaller) -> P:
        """Return the problem in a smaller label space."""

    @property
    def T(self) -> float:
        """The temperature, q = exp(T u)."""


#: Steps of a problem from U (L, n).
Run = Callable[[P, Array], Rest]


def run_without(problem: Problem, U: Array, most: int) -> tuple[Rest, Array]:
    """Take steps from U (L, n), without the classes that vanish; also return in which samples (n,) some do."""
    xp, found, classes = array_namespace(U), Rest.nothing_yet(U), may_vanish(problem.blocks)
    certain = xp.zeros_like(found.solved)
    if not classes:
        return problem.run(U, most), certain
    part = _part(problem, classes)
    few = problem.without(part).run(U[part.kept, :], problem.look)
    gone = to_cpu(problem.entry(_with_zeros(problem, few.U, part)).slope)[list(classes), :] > 0
    all_gone = xp.asarray(gone.all(axis=0), device=device(U))
    found.U[part.kept, :] = xp.where(all_gone, few.U, found.U[part.kept, :])  # these go on from there
    rows = xp.arange(U.shape[1], device=device(U))
    _solve_patterns(problem, rows, gone, lambda part, V: part.run(V, most), found, certain)
    rows = xp.nonzero(~found.solved)[0]
    if rows.shape[0]:
        found.write(rows, problem.keep(rows).run(U[:, rows], most))
    return found, certain


def run_sinking(problem: P, run: Run[P], found: Rest, certain: Array) -> None:
    """Go on with unsolved samples without the classes that have become small."""
    xp, blocks, classes = array_namespace(found.U), problem.blocks, may_vanish(problem.blocks)
    rows = xp.nonzero(~found.solved)[0]
    if classes and rows.shape[0]:
        shares = to_cpu(blocks.set_shares(found.U[:, rows].T, problem.T).T)[list(classes), :]
        sinking = shares < SINKING * to_cpu(xp.sum(blocks.in_set, axis=0))[list(classes), None]
        _solve_patterns(problem, rows, sinking, run, found, certain)


def _part(problem: Problem, classes: tuple[int, ...]) -> Smaller:
    part = smaller(problem.blocks, classes)
    assert part is not None  # fewer classes are left out than in `may_vanish`
    return part


def _solve_patterns(problem: P, rows: Array, gone: NDArray[np.bool_], run: Run[P], found: Rest, certain: Array) -> None:
    """Solve some samples from where they are without the classes `gone` (classes, n); again if some of these return."""
    for _ in may_vanish(problem.blocks):
        rows, gone = _try_patterns(problem, rows, gone, run, found, certain)
        if not rows.shape[0]:
            break


def _try_patterns(
    problem: P, rows: Array, gone: NDArray[np.bool_], run: Run[P], found: Rest, certain: Array
) -> tuple[Array, NDArray[np.bool_]]:
    """Return the samples in which only some of the classes return, with those that stay away."""
    xp, classes = array_namespace(rows), may_vanish(problem.blocks)
    code, again = 2.0 ** np.arange(len(classes)) @ gone, np.zeros(gone.shape[1], dtype=bool)
    away = gone.copy()
    for pattern in np.unique(code):
        same = np.flatnonzero(code == pattern)
        own = gone[:, same[0]]
        if own.any() and (len(own) <= FEW or own.sum() in (1, len(own) - 1, len(own))):
            here = rows[xp.asarray(same, device=device(rows))]
            away[:, same] = _solve_pattern(problem, here, own, run, found, certain)
            again[same] = away[:, same].any(axis=0) & (away[:, same] != gone[:, same]).any(axis=0)
    return rows[xp.asarray(np.flatnonzero(again), device=device(rows))], away[:, again]


def _names(classes: tuple[int, ...], own: NDArray[np.bool_]) -> tuple[int, ...]:
    return tuple(j for j, away in zip(classes, own, strict=True) if away)


def _solve_pattern(
    problem: P, rows: Array, own: NDArray[np.bool_], run: Run[P], found: Rest, certain: Array
) -> NDArray[np.bool_]:
    """Solve some samples without the classes `own` (classes,), and store those that are confirmed.

    Return which classes stay away (classes, n), in samples that are solved but not confirmed; in others all of them.
    """
    xp, classes = array_namespace(rows), may_vanish(problem.blocks)
    gone = _names(classes, own)
    part, some = _part(problem, gone), problem.keep(rows)
    rest = run(some.without(part), found.U[part.kept, :][:, rows])
    rest = rest._replace(U=_with_zeros(some, rest.U, part))
    entry, ok = some.entry(rest.U), rest.solved
    for j in gone:
        ok = ok & (entry.slope[j, :] > entry.least[j, :])
    done = xp.nonzero(ok)[0]
    found.write(rows[done], Rest(rest.U[:, done], rest.n_iter[done], rest.residual[done], ok[done]))
    certain[rows[done]] = True
    open_ = to_cpu(rest.solved & ~ok)
    return own[:, None] & ((to_cpu(entry.slope)[list(classes), :] > 0) | ~open_)


def _with_zeros(problem: Problem, V: Array, part: Smaller) -> Array:
    """(L', n) to (L, n), classes without probability included."""
    xp = array_namespace(V)
    V, bottom = V - xp.max(V, axis=0), lowest(V) / problem.T
    U = xp.full((problem.blocks.n_classes, V.shape[1]), bottom, dtype=V.dtype, device=device(V))
    U[part.kept, :] = V
    return U
