"""Anderson's acceleration of a fixed-point iteration, for many small problems at once, each stopping on its own.

A problem offers a step d(u) that vanishes at its solution. With dU and dF the last few changes of u and of d,

    u <- u + d - (dU + dF) gamma,      gamma the least-squares solution of  dF gamma = d

which is a quasi-Newton method that never forms a matrix (Walker and Ni, 2011). Samples are the last axis, so that all
sums over variables are contiguous. A problem that needs one matrix for all samples and no factorisation per sample is
solved in the time of a few matrix products. There is no line search: samples that do not converge are returned as
unsolved.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from array_api_compat import array_namespace, device

from sklearn_uhc.solvers.blocks import Array

#: Default number of changes that are stored.
MEMORY = 4
#: Longest step.
LONGEST = 4.0
#: Added to the Gram matrix of the changes, relative.
RIDGE = 1e-13
#: Finished samples are removed from the batch when less than this share of it is left.
CROWDED = 0.8


class Step(NamedTuple):
    """The current state of the samples of a batch."""

    d: Array  #: (L, n), the step that the problem proposes
    slope: Array  #: (L, n), gradient of the objective
    residual: Array  #: (n,), optimality measure

    def keep(self, rows: Array) -> Step:
        """Return the state of some samples."""
        xp = array_namespace(rows)
        return Step(xp.take(self.d, rows, axis=1), xp.take(self.slope, rows, axis=1), self.residual[rows])

    def choose(self, where: Array, other: Step) -> Step:
        """Return the state of `other` where the mask holds, else this one."""
        xp = array_namespace(where)
        return Step(*(xp.where(where, new, old) for new, old in zip(other, self, strict=True)))


class Iteration(Protocol):
    """A fixed-point iteration of some variables per sample, with its data."""

    def step(self, U: Array) -> Step:
        """Return the step at U (L, n)."""

    def keep(self, rows: Array) -> Iteration:
        """Return the problem of some samples only."""


class Rest(NamedTuple):
    """The result of the iteration for every sample."""

    U: Array  #: (L, n)
    n_iter: Array  #: (n,)
    residual: Array  #: (n,)
    solved: Array  #: (n,), residual and last step are within their tolerances, and the objective curves upwards there

    @classmethod
    def nothing_yet(cls, U: Array) -> Rest:
        """Return the initial result, with all samples at U."""
        xp, none = array_namespace(U), array_namespace(U).zeros_like(U[0, :])
        return cls(xp.asarray(U, copy=True), xp.astype(none, xp.int64), none + xp.inf, none > 0)

    def write(self, rows: Array, other: Rest) -> None:
        """Store the result of some samples after more steps."""
        self.U[:, rows], self.residual[rows], self.solved[rows] = other.U, other.residual, other.solved
        self.n_iter[rows] = self.n_iter[rows] + other.n_iter


class _History:
    """The last changes of u and d, and their products, for every sample."""

    def __init__(self, U: Array, memory: int) -> None:
        xp, self.memory = array_namespace(U), memory
        self.moves = xp.zeros((memory, *U.shape), dtype=U.dtype, device=device(U))  # dU + dF
        self.dF = xp.zeros_like(self.moves)
        self.gram = xp.zeros((memory, memory, U.shape[1]), dtype=U.dtype, device=device(U))
        self.along = xp.zeros_like(self.gram[0, ...])  # dF'd
        self.count = 0

    def add(self, change: Array, new: Array, old: Array) -> None:
        """Store a change of u, and of d from old to new, in place of the oldest one."""
        xp, k, m = array_namespace(new), self.count % self.memory, min(self.count + 1, self.memory)
        self.dF[k, ...] = new - old
        self.moves[k, ...] = change + self.dF[k, ...]
        self.count += 1
        # dF'dF of the new change is dF'd now minus dF'd before, and both are needed anyway.
        before = self.along
        before[k, :] = xp.sum(self.dF[k, ...] * old, axis=0)
        self.along = xp.zeros_like(before)
        self.along[:m, :] = xp.einsum("mln,ln->mn", self.dF[:m, ...], new)
        products = self.along - before
        self.gram[k, ...] = products
        self.gram[:, k, :] = products

    def correction(self) -> Array:
        """Return (dU + dF) gamma."""
        xp, m = array_namespace(self.gram), min(self.count, self.memory)
        gamma = solve_small(self.gram[:m, :m, :], self.along[:m, :])
        return xp.einsum("mln,mn->ln", self.moves[:m, ...], gamma)

    def keep(self, rows: Array) -> None:
        """Keep some samples."""
        xp = array_namespace(rows)
        self.moves, self.dF = xp.take(self.moves, rows, axis=2), xp.take(self.dF, rows, axis=2)
        self.gram, self.along = xp.take(self.gram, rows, axis=2), xp.take(self.along, rows, axis=1)


def solve_small(G: Array, b: Array) -> Array:
    """Solve G x = b for small Gram matrices G (m, m, n) and b (m, n), with a small ridge, samples last."""
    xp, m = array_namespace(G), G.shape[0]
    ridge = RIDGE * sum(G[j, j, :] for j in range(m)) + float(xp.finfo(G.dtype).tiny) ** 0.5
    L: list[list[Array]] = []
    D: list[Array] = []
    y: list[Array] = []
    for i in range(m):
        row: list[Array] = []
        for j in range(i):
            row.append((G[i, j, :] - sum(row[k] * L[j][k] * D[k] for k in range(j))) / D[j])
        left = G[i, i, :] - sum(row[k] ** 2 * D[k] for k in range(i))
        D.append(left + ridge)
        L.append(row)
        y.append(b[i, :] - sum(row[k] * y[k] for k in range(i)))
    x = [y[i] / D[i] for i in range(m)]
    for i in reversed(range(m)):
        for k in range(i + 1, m):
            x[i] = x[i] - L[k][i] * x[k]
    return xp.stack(x)


def accelerate(
    problem: Iteration,
    U: Array,
    *,
    tol: float,
    short: float,
    max_iter: int,
    still: float = float("inf"),
    memory: int = MEMORY,
    least: Array | None = None,
) -> Rest:
    """Iterate from U (L, n) until residuals are at most `tol`, steps `short` and proposals `still`, or to the end.

    Variables stay at or above `least` (L, 1).
    """
    xp, found = array_namespace(U), Rest.nothing_yet(U)
    rows, history, now = xp.arange(U.shape[1], device=device(U)), _History(U, memory), problem.step(U)
    length, change, before = found.residual, now.d, now
    for age in range(max_iter + 1):
        solved = (now.residual <= tol) & (length <= short)
        if still < float("inf") and bool(xp.any(solved)):
            solved = solved & (xp.max(xp.abs(now.d), axis=0) <= still)
        if bool(xp.any(solved)):  # the objective must curve upwards along the last step
            solved = solved & (xp.sum(change * (now.slope - before.slope), axis=0) >= 0) | (now.residual == 0)
        # Finished samples stay in the batch while they are few, but their result is stored when they converge.
        new = solved & ~found.solved[rows] if age < max_iter else ~found.solved[rows]
        if bool(xp.any(new)):
            here = rows[new]
            found.U[:, here], found.residual[here], found.n_iter[here] = U[:, new], now.residual[new], age
            found.solved[here] = solved[new]
            left = xp.nonzero(~found.solved[rows])[0]
            if left.shape[0] == 0 or age == max_iter:
                break
            if left.shape[0] < CROWDED * rows.shape[0]:
                problem, U, rows, now = problem.keep(left), xp.take(U, left, axis=1), rows[left], now.keep(left)
                history.keep(left)
        change = now.d - history.correction() if history.count else now.d
        length = xp.max(xp.abs(change), axis=0)
        if bool(xp.any(length > LONGEST)):
            change = xp.clip(change, -LONGEST, LONGEST)
        if least is not None:
            change = xp.maximum(change, least - U)
        U, before = U + change, now
        now = problem.step(U)
        history.add(change, now.d, before.d)
    return found
