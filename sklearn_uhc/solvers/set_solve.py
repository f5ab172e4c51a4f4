"""CE, MF-P and SD with columns that stand for sets: choice of start and objective.

CE and MF-P begin at the best of a few points, all derived from an even split of every set: that split itself, and the
result of MF-LF from it, which is fast.
"""

from __future__ import annotations

from array_api_compat import array_namespace

from sklearn_uhc.solvers.blocks import Array, Solution
from sklearn_uhc.solvers.set_fit import CE, MF_P
from sklearn_uhc.solvers.set_many import ManyClasses, problem_of
from sklearn_uhc.solvers.set_mf_lf import EvenSplit
from sklearn_uhc.solvers.set_sources import CrossEntropyTerms
from sklearn_uhc.solvers.set_stages import solve_sets
from sklearn_uhc.solvers.set_steps import Common, CommonSteps
from sklearn_uhc.solvers.sets import SetBlocks, level

#: Tolerance of MF-P's start by CE, and its maximum number of Newton steps with many classes, of other steps with few.
START_TOL, START_ITER, START_STEPS = 1e-3, 40, 12
#: Tolerance and iterations of SD, which has no such parameters.
SD_TOL, SD_ITER = 1e-9, 1000


#: MF-LF with sets, and the starts of other methods.
Split = EvenSplit | ManyClasses


def even_split(blocks: SetBlocks, weight: Array | None = None) -> Split:
    """Prepare MF-LF with a weight (N,) per teacher, with or without matrices, depending on the number of classes."""
    return EvenSplit.of(blocks, weight) if blocks.is_small else ManyClasses(blocks, weight)


def solve_set_ce(
    Z: Array, split: Split, *, temperature: float, tol: float, max_iter: int, weight: Array | None = None
) -> Solution:
    """Solve CE for logits Z at temperature 1; `u` are logits at T."""
    P, T = tempered(Z, temperature, split.blocks), float(temperature)
    return solve_sets(
        P,
        split.even(Z) / T,
        CE,
        split.blocks,
        temperature=T,
        tol=tol,
        max_iter=max_iter,
        weight=weight,
        logits=Z,
        make=problem_of(split.blocks),
        others=lambda rows: tuple(start / T for start in split.starts(Z[rows])),
    )


def solve_set_mf_p(
    Z: Array, split: Split, *, temperature: float, tol: float, max_iter: int, weight: Array | None = None
) -> Solution:
    """Solve MF-P for logits Z at temperature 1, starting near the result of CE; `u` are logits at T."""
    xp, blocks, T = array_namespace(Z), split.blocks, float(temperature)
    P, even, make = tempered(Z, T, blocks), split.even(Z) / T, problem_of(blocks)
    start = _start_by_ce(P, even, blocks, T, weight, max_iter)
    size = xp.sum((P**2 if weight is None else P**2 * blocks.by_teacher(weight[None, :])), axis=1)
    return solve_sets(
        P,
        start,
        MF_P,
        blocks,
        temperature=T,
        tol=tol,
        max_iter=max_iter,
        weight=weight,
        size=size,
        logits=Z,
        make=make,
        others=lambda rows: (even[rows], *(other / T for other in split.starts(Z[rows]))),
    )


def _start_by_ce(P: Array, even: Array, blocks: SetBlocks, T: float, weight: Array | None, max_iter: int) -> Array:
    """Return the start of MF-P (n, L), near the result of CE from an even split."""
    if not blocks.is_small:
        most, make = min(START_ITER, max_iter), problem_of(blocks)
        return solve_sets(P, even, CE, blocks, temperature=T, tol=START_TOL, max_iter=most, weight=weight, make=make).u
    common = Common.of(CrossEntropyTerms, blocks, weight, T)
    size = array_namespace(P).ones_like(P[:, 0])
    steps = CommonSteps.of(CrossEntropyTerms, P, size, common, tol=START_TOL, rough=True)
    return level(steps.run(level(even, blocks, T).T, START_STEPS).U.T, blocks, T)


def solve_set_sd(P: Array, whole: SetBlocks, *, temperature: float, weight: Array | None = None) -> Solution:
    """Solve SD for tempered probabilities P: CE where each teacher has a column for every class, some with P = 0."""
    xp = array_namespace(P)
    even = whole.give(whole.of_sets(P / whole.set_sizes))
    first = xp.log(whole.sum_singles(P) + even + 1e-6)
    objective = CE._replace(vanish=True, terms=None)
    make = problem_of(whole)
    return solve_sets(
        P, first, objective, whole, temperature=temperature, tol=SD_TOL, max_iter=SD_ITER, weight=weight, make=make
    )


def tempered(Z: Array, T: float, blocks: SetBlocks) -> Array:
    """Return the teachers' probabilities at temperature T, of logits whose largest is 0."""
    E = array_namespace(Z).exp(Z / T)
    return E / blocks.by_teacher(blocks.sum_teachers(E))
