"""The stages in which CE, MF-LF and MF-P with sets are solved.

1. Steps with one matrix for all samples (`set_steps`), without classes that vanish (`set_vanishing`)
2. Newton's method (`set_fit`) for the rest, from the best of several starts
3. What vanishes is moved to the bottom, what should not have vanished returns, and both go on
4. Samples that may be in a bad local optimum are solved again, if the linear start has a lower value
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from array_api_compat import array_namespace

from sklearn_uhc.solvers.blocks import Array, Solution
from sklearn_uhc.solvers.set_fit import Objective, SetFit
from sklearn_uhc.solvers.set_newton import minimize
from sklearn_uhc.solvers.set_starts import linear_start, lowest_of
from sklearn_uhc.solvers.set_steps import MOST_STEPS, Common, CommonSteps
from sklearn_uhc.solvers.set_vanishing import run_sinking, run_without
from sklearn_uhc.solvers.sets import SetBlocks, level

#: Other starts of some samples, (n, L) each, at temperature T; made only for those that need them.
Starts = Callable[[Array], tuple[Array, ...]]


def solve_sets(
    X: Array,
    first: Array,
    objective: Objective,
    blocks: SetBlocks,
    *,
    weight: Array | None = None,
    temperature: float = 1.0,
    tol: float,
    max_iter: int,
    size: Array | None = None,
    logits: Array | None = None,
    others: Starts | None = None,
    make: Callable[..., SetFit] = SetFit,
) -> Solution:
    """Minimise from `first` (n, L); `u` of the result are logits with mean 0 in every group.

    With the answers' `logits` (n, K) at temperature 1, samples that may be in a bad local optimum are solved again.
    Newton's method begins at the best of `first` and `others`.
    """
    xp, T = array_namespace(X), float(temperature)
    w = xp.ones_like(blocks.sizes) if weight is None else weight
    size = xp.ones_like(X[:, 0]) if size is None else size
    problem = make(X, first, size, objective, w, T, blocks, 1e-3 * tol)
    common = None
    if objective.terms is not None and blocks.is_small and max_iter >= MOST_STEPS:
        common = Common.of(objective.terms, blocks, weight, T)
    U, n_iter, residual, certain = _minimize(problem, common, others, tol, max_iter)
    found = Solution(U, U[:, :0], n_iter, residual, residual <= tol, residual <= tol)
    if logits is None:
        return found
    rows = xp.nonzero(problem.is_doubtful(found, certain))[0]
    return begin_again(problem, found, rows, logits, tol, max_iter)


def begin_again(problem: SetFit, found: Solution, rows: Array, logits: Array, tol: float, max_iter: int) -> Solution:
    """Solve some samples again from the linear start, if its value is lower: they may be in a bad local optimum.

    `logits` (n, K) are the answers at temperature 1.
    """
    xp, blocks, T = array_namespace(logits), problem.blocks, problem.T
    if not blocks.is_small or not rows.shape[0]:
        return found
    start = level(linear_start(logits[rows], blocks) / T, blocks, T)
    some = replace(problem.keep(rows), first=start)
    lower = xp.nonzero(some.at(start).value < some.at(found.u[rows]).value)[0]
    rows, some = rows[lower], some.keep(lower)
    if rows.shape[0]:
        U, n_iter, residual, _ = _minimize(some, None, None, tol, max_iter)
        better = (some.at(U).value < some.at(found.u[rows]).value) | ~found.converged[rows]
        found.u[rows, :] = xp.where(better[:, None], U, found.u[rows])
        found.residual[rows] = xp.where(better, residual, found.residual[rows])
        found.converged[rows] = found.residual[rows] <= tol
        found.n_iter[rows] = found.n_iter[rows] + n_iter
    return found._replace(well_conditioned=found.converged)


class Reached(NamedTuple):
    """Where samples end."""

    U: Array  #: (n, L)
    n_iter: Array  #: (n,)
    residual: Array  #: (n,)
    certain: Array  #: (n,), whether the problem without some classes confirms that these vanish


def _approach(problem: SetFit, common: Common | None, others: Starts | None, tol: float, max_iter: int) -> Reached:
    """Take steps with one matrix for all samples, and solve the remaining samples by Newton's method."""
    terms, blocks, T, xp = problem.objective.terms, problem.blocks, problem.T, array_namespace(problem.X)
    if terms is None or common is None:
        U, n_iter, residual = minimize(problem, tol=tol, max_iter=max_iter, damping=1e-3)
        return Reached(U, n_iter, residual, residual < 0)
    steps = CommonSteps.of(terms, problem.X, problem.size, common, tol=tol)
    most = problem.objective.most
    found, certain = run_without(steps, problem.start().T, most)
    run_sinking(steps, lambda part, V: part.run(V, most), found, certain)
    U, n_iter, residual = found.U.T, found.n_iter, found.residual
    rows = xp.nonzero(~found.solved)[0]
    if rows.shape[0]:
        rest = problem.keep(rows)
        more = (*((U[rows, :],) if problem.objective.goes_on else ()), *(() if others is None else others(rows)))
        rest = replace(rest, first=lowest_of(rest, rest.start(), *(level(start, blocks, T) for start in more)))
        U[rows, :], steps_more, residual[rows] = minimize(rest, tol=tol, max_iter=max_iter, damping=1e-3)
        n_iter[rows] = n_iter[rows] + steps_more
    return Reached(level(U, blocks, T), n_iter, residual, certain)


def _minimize(problem: SetFit, common: Common | None, others: Starts | None, tol: float, max_iter: int) -> Reached:
    """Return where samples end; vanishing classes get the smallest possible u."""
    xp = array_namespace(problem.X)
    reached = _approach(problem, common, others, tol, max_iter)
    rows = xp.nonzero(~reached.certain & problem.is_suspect(reached.U) & (reached.residual <= tol))[0]
    if not rows.shape[0]:
        return reached
    some, U = problem.keep(rows), reached.U[rows, :]
    if problem.blocks.is_small:
        _go_on(problem, reached, rows, some.returning(U), tol, max_iter)
        U = reached.U[rows, :]
    _go_on(problem, reached, rows, some.at_bottom(U), tol, max_iter)
    return reached


def _go_on(problem: SetFit, reached: Reached, rows: Array, U: Array, tol: float, max_iter: int) -> None:
    """Go on with some samples from U (n, L), if it is new, and store what ends no higher than before."""
    xp = array_namespace(U)
    new = xp.nonzero(xp.any(reached.U[rows, :] != U, axis=1))[0]
    if not new.shape[0]:
        return
    rows, some = rows[new], replace(problem.keep(rows[new]), first=U[new, :])
    ends, more, left = minimize(some, tol=tol, max_iter=max_iter, damping=1e-3)
    # Others may vanish with them: without these nothing is gained.
    before = reached.U[rows, :]
    lower = some.at(ends).value <= some.at(before).value + tol * some.size
    reached.U[rows, :] = xp.where(lower[:, None], ends, before)
    reached.residual[rows] = xp.where(lower, left, reached.residual[rows])
    reached.n_iter[rows] = reached.n_iter[rows] + more
