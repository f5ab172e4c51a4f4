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

from array_api_compat import device

from sklearn_uhc.solvers.blocks import Array
from sklearn_uhc.solvers.incidence import array_namespace, at_least, at_most

#: Default number of changes that are stored.
MEMORY = 4
#: Longest step.
LONGEST = 4.0
#: Part of a change that the others must leave unexplained, relative, in units of rounding.
RIDGE = 500.0
#: Finished samples are removed from the batch when less than this share of it is left.
CROWDED = 0.7


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
    """The last changes of u and d, and their products, for every sample, in the precision of d.

    A correction is small relative to what is left to go, so that its rounding does not matter: if the slopes are exact,
    steps in single precision lead to the same point.
    """

    def __init__(self, d: Array, memory: int) -> None:
        xp, self.memory = array_namespace(d), memory
        self.moves = xp.zeros((memory, *d.shape), dtype=d.dtype, device=device(d))  # dU + dF
        self.dF = xp.zeros_like(self.moves)
        self.gram = xp.zeros((memory, memory, d.shape[1]), dtype=d.dtype, device=device(d))
        self.along = xp.zeros_like(self.gram[0, ...])  # dF'd
        self.count = 0

    def add(self, change: Array, new: Array, old: Array) -> None:
        """Store a change of u, and of d from old to new, in place of the oldest one."""
        xp, k = array_namespace(new), self.count % self.memory
        self.count += 1
        dF = new - old
        self.dF[k, ...] = dF
        products = xp.einsum("mln,ln->mn", self.dF, dF)
        self.gram[k, ...] = products
        self.gram[:, k, :] = products
        self.along = xp.einsum("mln,ln->mn", self.dF, new)
        dF += change
        self.moves[k, ...] = dF

    def correction(self) -> Array:
        """Return (dU + dF) gamma."""
        gamma = solve_small(self.gram, self.along)
        return array_namespace(gamma).einsum("mln,mn->ln", self.moves, gamma)

    def keep(self, rows: Array) -> None:
        """Keep some samples."""
        xp = array_namespace(rows)
        self.moves, self.dF = xp.take(self.moves, rows, axis=2), xp.take(self.dF, rows, axis=2)
        self.gram, self.along = xp.take(self.gram, rows, axis=2), xp.take(self.along, rows, axis=1)


def solve_small(G: Array, b: Array) -> Array:
    """Solve G x = b for small Gram matrices G (m, m, n) and b (m, n), samples last; x of a zero row is 0."""
    xp, m = array_namespace(G), G.shape[0]
    rounding, tiny = RIDGE * float(xp.finfo(G.dtype).eps), float(xp.finfo(G.dtype).tiny) ** 0.75
    L: list[list[Array]] = []  # G = L diag(D) L'
    D: list[Array] = []
    x: list[Array] = []
    for i in range(m):
        row: list[Array] = []
        products: list[Array] = []  # row times D
        own, y = G[i, i, :], b[i, :]
        left = own
        for j in range(i):
            product = G[i, j, :]
            for k in range(j):
                product = product - products[k] * L[j][k]
            entry = product / D[j]
            left = left - product * entry
            y = y - entry * x[j]
            products.append(product)
            row.append(entry)
        L.append(row)
        D.append(xp.maximum(left, rounding * own) + tiny)
        x.append(y)
    for i in reversed(range(m)):
        x[i] = x[i] / D[i]
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
    downhill: bool = True,
) -> Rest:
    """Iterate from U (L, n) until residuals are at most `tol`, steps `short` and proposals `still`, or to the end.

    Variables stay at or above `least` (L, 1). With `downhill`, proposals replace accelerated steps that lead uphill.
    """
    xp, found = array_namespace(U), Rest.nothing_yet(U)
    rows, now = xp.arange(U.shape[1], device=device(U)), problem.step(U)
    history = _History(now.d, memory)
    length, change, before = found.residual, now.d, now
    for age in range(max_iter + 1):
        solved = (now.residual <= tol) & (length <= short)
        if bool(xp.any(solved)):
            if still < float("inf"):
                solved = solved & (xp.max(xp.abs(now.d), axis=0) <= still)
            # The objective must curve upwards along the last step.
            upwards = xp.einsum("ln,ln->n", change, now.slope - before.slope) >= 0
            solved = solved & upwards | (now.residual == 0)
            # Finished samples stay in the batch while they are few, but their result is stored when they converge.
            new = xp.nonzero(solved & ~found.solved[rows])[0]
            found.write(rows[new], Rest(U[:, new], 0 * new + age, now.residual[new], solved[new]))
            left = xp.nonzero(~found.solved[rows])[0]
            if left.shape[0] == 0:
                break
            if left.shape[0] < CROWDED * rows.shape[0]:
                problem, U, rows, now = problem.keep(left), xp.take(U, left, axis=1), rows[left], now.keep(left)
                history.keep(left)
        if age == max_iter:
            left = xp.nonzero(~found.solved[rows])[0]
            found.write(rows[left], Rest(U[:, left], 0 * left + age, now.residual[left], found.solved[rows[left]]))
            break
        change = now.d
        if history.count:
            change = change - history.correction()
            if downhill:  # changes may mislead where the objective curves downwards
                uphill = xp.einsum("ln,ln->n", change, now.slope) >= 0
                change = xp.where(uphill, now.d, change) if bool(xp.any(uphill)) else change
        length = xp.max(xp.abs(change), axis=0)
        if float(xp.max(length)) > LONGEST:
            change = at_most(at_least(change, -LONGEST), LONGEST)
        if least is not None:
            change = xp.maximum(change, least - U)
        moved = xp.astype(change, U.dtype)
        moved += U
        U, before = moved, now
        now = problem.step(U)
        history.add(change, now.d, before.d)
    return found
