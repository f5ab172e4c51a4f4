"""MF-LF with columns that stand for sets, by Gauss-Newton steps with one matrix for all samples.

    min over u of  1/2 sum_i w_i sum_k (z_k - c_i - phi_k(u))^2,      c_i at its best

With x = (u, phi of the sets), (L + S), and every set treated as a class of its own, this is the quadratic of the plain
method, 1/2 x'Ax - b'x with b = B z. Only x depends nonlinearly on u:

    gradient = g_u + R' g_sets,      g = A x - b,      R (S, L) the shares of the classes in their sets

The K columns are used only in b. A Gauss-Newton step with the same shares R0 for all samples (`SetBlocks.typical`) is
one product with the inverse of H0 = [I; R0]' A [I; R0]. The gradient is first divided by the masses of the classes,
relative to those of R0: the diagonal of the Hessian without the teachers' shifts,

    m_l = own columns + sum of w_s r_sl^2 + g_s r_sl (1 - r_sl) over the sets s of the class

and Anderson's acceleration corrects for the rest. The gradient is exact; the step from it is made in single precision,
which takes half the time and, like any correction, need not be exact. Samples in which a class vanishes are solved
without it (`set_vanishing`); samples that do not converge in a few steps go to `set_fit`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from array_api_compat import device

from sklearn_uhc.solvers.anderson import LONGEST, Rest, Step, accelerate
from sklearn_uhc.solvers.blas import one_blas_thread
from sklearn_uhc.solvers.blocks import Array, Solution
from sklearn_uhc.solvers.incidence import array_namespace, at_least, at_most
from sklearn_uhc.solvers.newton import add_diagonal, solve_each
from sklearn_uhc.solvers.set_fit import MF_LF, SetFit, by_q
from sklearn_uhc.solvers.set_stages import begin_again, solve_sets
from sklearn_uhc.solvers.set_starts import linear_start
from sklearn_uhc.solvers.set_vanishing import Entry, Smaller, run_sinking, run_without
from sklearn_uhc.solvers.sets import SetBlocks, level

#: Number of accelerated steps before the remaining samples of several batches are joined, and of Newton's at a time;
#: and of all accelerated steps.
FEW_STEPS, ACCELERATED = 12, 20
#: Number of steps before vanishing classes are predicted.
LOOK = 2
#: Number of changes that the acceleration stores.
MEMORY = 3
#: Tolerance of starts for other methods.
START_TOL = 1e-3
#: Length of an accelerated step that ends the iteration.
SHORT = 3e-8
#: Maximum size of a batch, in numbers. Small batches spend their time on calls, large ones outside the cache.
BATCH_NUMBERS = 2**21
#: Residual below which the full Hessian is used.
NEAR = 1e-1
#: Smallest mass of a class.
LEAST_MASS = 0.1
#: Smallest relative curvature, for directions that answers do not determine.
FLOOR = 1e-9


@dataclass(frozen=True)
class EvenSplit:
    """A, B and the matrices of start and steps for the class lists of `blocks`, once for all samples."""

    A: Array  #: (L + S, L + S)
    B: Array  #: (L + S, K)
    alone: Array  #: (L, 1), weight of a class's own columns
    weight_of_sets: Array  #: (S, 1)
    matrix: Array  #: (L, L), minus the inverse of H0 times the masses of R0, in single precision
    start: Array  #: (L, L + S), maps b to the solution with evenly split sets, plus
    offset: Array  #: (L,), this constant
    blocks: SetBlocks
    weight: Array | None
    tiny: float  #: smallest sum of q that differs from 0,
    small: float  #: and the smallest whose square does
    parts: dict[int, EvenSplit] = field(default_factory=dict)  #: the same for smaller label spaces

    @classmethod
    def of(cls, blocks: SetBlocks, weight: Array | None = None) -> EvenSplit:
        """Prepare a weight (N,) per teacher."""
        xp, (S, L) = array_namespace(blocks.M), blocks.in_set.shape
        eye = xp.eye(L + S, dtype=blocks.M.dtype, device=device(blocks.M))
        x_of = xp.take(eye, blocks.source, axis=0)
        centered = x_of - (blocks.to_teacher / blocks.sizes) @ (blocks.to_teacher.T @ x_of)
        B = centered.T if weight is None else (centered * (blocks.to_teacher @ weight)[:, None]).T
        A = B @ centered
        even = xp.concat([eye[:L, :L], blocks.in_set / xp.sum(blocks.in_set, axis=1)[:, None]])
        sizes = xp.concat([xp.zeros_like(even[0, :]), xp.log(xp.sum(blocks.in_set, axis=1))])
        start = xp.linalg.pinv(even.T @ A @ even, rtol=FLOOR) @ even.T
        w = blocks.to_teacher @ (xp.ones_like(blocks.sizes) if weight is None else weight)
        alone = w @ blocks.to_single
        sets = w @ blocks.to_set
        shares = blocks.in_set * blocks.typical
        shares = shares / xp.sum(shares, axis=1)[:, None]
        typical = xp.concat([eye[:L, :L], shares])
        steps = xp.linalg.pinv(typical.T @ A @ typical, rtol=FLOOR) * (alone + sets @ shares**2)
        matrix = xp.astype(-steps, xp.float32)
        tiny, offset = float(xp.finfo(A.dtype).tiny), start @ (A @ sizes)
        return cls(A, B, alone[:, None], sets[:, None], matrix, start, offset, blocks, weight, tiny, tiny**0.5)

    @cached_property
    def scale(self) -> Array:
        """(L,), scale of the damping of every class, from the columns it is in."""
        xp, L = array_namespace(self.A), self.alone.shape[0]
        d = xp.linalg.diagonal(self.A)
        return d[:L] + d[L:] @ self.blocks.in_set

    @property
    def batch_rows(self) -> int:
        """Number of samples solved together."""
        return max(64, min(4096, BATCH_NUMBERS // (12 * self.A.shape[0])))

    def solve(self, Z: Array, *, tol: float, max_iter: int) -> Solution:
        """Minimise for logits Z (n, K) at temperature 1; `u` has mean 0 in every group."""
        problem = LogitSplit(self, self.B @ Z.T, tol)
        first = self._first(problem.b)
        found, certain = run_without(problem, first, min(ACCELERATED, max_iter))
        if max_iter > ACCELERATED:
            few = min(FEW_STEPS, max_iter - ACCELERATED)
            run_sinking(problem, lambda part, V: part.run(V, ACCELERATED), found, certain)
            for _ in range(2):
                self._descend(problem, first, found, few)
                run_sinking(problem, lambda part, V: descend(part, V, V, max_iter=few), found, certain)
        U = level(found.U.T, self.blocks, 1.0)
        solution = Solution(U, U[:, :0], found.n_iter, found.residual, found.solved, found.solved)
        return self._finish(Z, first.T, solution, certain, tol, max_iter)

    def _descend(self, problem: LogitSplit, first: Array, found: Rest, most: int) -> None:
        """Take Newton steps with unsolved samples, from the start or from where they are."""
        slow = array_namespace(first).nonzero(~found.solved)[0]
        if slow.shape[0]:
            found.write(slow, descend(problem.keep(slow), first[:, slow], found.U[:, slow], max_iter=most))

    def starts(self, Z: Array) -> tuple[Array, ...]:
        """Return starts of other methods, (n, L) each.

        The evenly split solution, nearly the optimum, and the linear start, which is q if answers agree.
        """
        problem = LogitSplit(self, self.B @ Z.T, START_TOL)
        first = self._first(problem.b)
        return first.T, problem.run(first, FEW_STEPS).U.T, linear_start(Z, self.blocks)

    def even(self, Z: Array) -> Array:
        """Return the solution with evenly split sets, (n, L), for logits Z (n, K) at temperature 1."""
        return self._first(self.B @ Z.T).T

    def _first(self, b: Array) -> Array:
        """Return the solution with evenly split sets, (L, n); its largest entry is 0, so that exp() stays in range."""
        first = self.start @ b - self.offset[:, None]
        return first - array_namespace(b).max(first, axis=0)

    def without(self, part: Smaller) -> EvenSplit:
        """Return the same for a smaller label space; made once."""
        key = id(part.blocks)
        if key not in self.parts:
            self.parts[key] = EvenSplit.of(part.blocks, self.weight)
        return self.parts[key]

    def _finish(self, Z: Array, first: Array, found: Solution, certain: Array, tol: float, max_iter: int) -> Solution:
        """Solve the remaining samples by Newton's method, and those that may be in a bad local optimum again.

        In `certain` samples (n,) that is so only if others than the vanishing classes have lost their sets.
        """
        xp, blocks = array_namespace(Z), self.blocks
        w = xp.ones_like(blocks.sizes) if self.weight is None else self.weight
        problem = SetFit(Z, first, xp.ones_like(Z[:, 0]), MF_LF, w, 1.0, blocks, 1e-3 * tol)
        suspects = xp.nonzero(problem.is_doubtful(found, certain))[0]
        if not suspects.shape[0]:
            return found
        lost = problem.keep(suspects).loses_a_class(found.u[suspects, :])
        rest = suspects[~certain[suspects] & (lost | ~found.converged[suspects])]
        if rest.shape[0]:
            new = solve_sets(Z[rest], first[rest], MF_LF, blocks, tol=tol, max_iter=max_iter, weight=self.weight)
            new = new._replace(n_iter=new.n_iter + found.n_iter[rest])
            for old, part in zip(found, new, strict=True):
                old[rest, ...] = part
        return begin_again(problem, found, self._worse_than_linear(Z, found.u, suspects), Z, tol, max_iter)

    def _worse_than_linear(self, Z: Array, U: Array, rows: Array) -> Array:
        """Return those of some samples for which the linear start has a lower value than U (n, L)."""
        split = LogitSplit(self, self.B @ Z[rows, :].T, START_TOL)
        return rows[split.value(linear_start(Z[rows, :], self.blocks).T) < split.value(U[rows, :].T)]


@dataclass(frozen=True)
class LogitSplit:
    """The iteration for some samples."""

    split: EvenSplit
    b: Array  #: (L + S, n)
    tol: float
    look: int = LOOK
    T: float = 1.0

    @property
    def blocks(self) -> SetBlocks:
        """The label space."""
        return self.split.blocks

    def run(self, U: Array, most: int) -> Rest:
        """Take accelerated steps with one matrix for all samples, in batches that fit into the cache."""
        xp, n, found = array_namespace(U), U.shape[1], Rest.nothing_yet(U)
        count = -(-n // self.split.batch_rows)
        with one_blas_thread():
            for k in range(count):
                rows = slice(k * n // count, (k + 1) * n // count)
                self._run_some(found, rows, min(FEW_STEPS, most))
            # Slow samples are solved together: a batch of a few costs nearly as much as one of hundreds.
            slow = xp.nonzero(~found.solved)[0]
            if slow.shape[0] and most > FEW_STEPS:
                self._run_some(found, slow, most - FEW_STEPS)
        return found

    def _run_some(self, found: Rest, rows: Array | slice, most: int) -> None:
        """Take accelerated steps with some samples, from their current state."""
        limits: dict[str, Any] = {"tol": self.tol, "short": max(self.tol, SHORT), "max_iter": most}
        found.write(rows, accelerate(self.keep(rows), found.U[:, rows], **limits, memory=MEMORY))

    def without(self, part: Smaller) -> LogitSplit:
        """Return the problem in a smaller label space."""
        return LogitSplit(self.split.without(part), part.join @ self.b, self.tol)

    def entry(self, U: Array) -> Entry:
        """Return how the objective changes if classes enter their sets."""
        xp, L = array_namespace(U), U.shape[0]
        qS = self.blocks.in_set @ xp.exp(U) + self.split.tiny
        g = self.split.A[L:, :] @ xp.concat([U, xp.log(qS)]) - self.b[L:, :]
        return Entry.of(g, xp.linalg.diagonal(self.split.A)[L:, None], qS, self.tol, self.blocks)

    def step(self, U: Array) -> Step:
        """Return the Gauss-Newton step with even shares, the gradient, and its largest entry; in place, to be fast."""
        xp, split, members = array_namespace(U), self.split, self.split.blocks.in_set
        L, single = U.shape[0], split.matrix.dtype
        q = xp.exp(U)
        qS = members @ q
        qS += split.tiny
        g = split.A @ xp.concat([U, xp.log(qS)])
        g -= self.b
        slope = members.T @ (g[L:, :] / qS)
        slope *= q  # sum of g_s r_sl
        at_least(qS, split.small, in_place=True)
        bend = split.weight_of_sets - g[L:, :]
        bend /= qS
        bend /= qS
        mass = members.T @ bend
        mass *= q
        mass *= q
        mass += slope
        mass += split.alone
        at_least(mass, LEAST_MASS, in_place=True)
        slope += g[:L, :]
        slope, mass = xp.astype(slope, single, copy=False), xp.astype(mass, single, copy=False)
        residual = xp.maximum(xp.max(slope, axis=0), -xp.min(slope, axis=0))
        return Step(split.matrix @ (slope / mass), slope, xp.astype(residual, U.dtype, copy=False))

    def value(self, U: Array) -> Array:
        """(n,), the objective, up to a constant per sample."""
        xp, A = array_namespace(U), self.split.A
        x = xp.concat([U, xp.log(self.split.blocks.in_set @ xp.exp(U) + self.split.tiny)])
        return xp.einsum("ln,ln->n", x, 0.5 * (A @ x) - self.b)

    def hessian(self, U: Array, near: Array) -> Array:
        """(n, L, L), by q of the classes in sets only, relative; far from an optimum without what may be negative."""
        xp, A, members = array_namespace(U), self.split.A, self.split.blocks.in_set
        L = U.shape[0]
        q = xp.exp(U)
        qS = members @ q + self.split.tiny
        g = (A @ xp.concat([U, xp.log(qS)]) - self.b)[L:, :].T
        upwards = xp.where(near[:, None], g, at_least(g, 0.0))
        R = members * (q.T[:, None, :] / qS.T[:, :, None])
        mixed = A[:L, L:] @ R
        H = A[:L, :L] + mixed + xp.permute_dims(mixed, (0, 2, 1)) + self.split.blocks.component_mean
        inner = A[L:, L:] @ R - xp.where(near[:, None], g, 0 * g)[:, :, None] * R
        H += xp.matmul(xp.permute_dims(R, (0, 2, 1)), inner)
        add_diagonal(H, xp.einsum("nsl,ns->nl", R, upwards) * xp.astype(self.blocks.has_own, U.dtype))
        return H

    def keep(self, rows: Array | slice) -> LogitSplit:
        """Return the problem of some samples."""
        return replace(self, b=self.b[:, rows])


def descend(problem: LogitSplit, first: Array, reached: Array, *, max_iter: int) -> Rest:
    """Take damped Newton steps from the better of two points (L, n), each downhill; finished samples leave."""
    xp, tol, own = array_namespace(first), problem.tol, problem.blocks.has_own
    values = problem.value(first), problem.value(reached)
    U, value = xp.where(values[1] < values[0], reached, first), xp.minimum(*values)
    found = Rest.nothing_yet(U)
    now, length, rows = problem.step(U), found.residual, xp.arange(U.shape[1], device=device(U))
    mu = at_most(now.residual, 1e-3)
    rounding = 8 * float(xp.finfo(U.dtype).eps)
    for age in range(max_iter + 1):
        done = (now.residual <= tol) & (length <= tol**0.5)
        if bool(xp.any(done)) or age == max_iter:
            here = done | (age == max_iter)
            found.write(rows[here], Rest(U[:, here], 0 * rows[here] + age, now.residual[here], done[here]))
            left = xp.nonzero(~here)[0]
            if left.shape[0] == 0:
                break
            problem, U, rows, now = problem.keep(left), U[:, left], rows[left], now.keep(left)
            value, mu = value[left], mu[left]
        H = problem.hessian(U, now.residual < NEAR)
        add_diagonal(H, mu[:, None] * problem.split.scale + FLOOR)
        change = solve_each(H, -xp.astype(now.slope.T, H.dtype, copy=False))
        change = xp.where(own, change, by_q(change, U.T, 1.0, problem.blocks)).T
        change = at_most(at_least(change, -LONGEST), LONGEST)
        trial = problem.step(U + change)
        new = problem.value(U + change)
        fall, gain = xp.sum(now.slope * change, axis=0), value - new + rounding * (1 + xp.abs(value))
        better = (fall < 0) & (gain >= 0)
        mu = xp.where(better & (gain >= -0.1 * fall), xp.minimum(mu / 10, trial.residual), mu * 8)
        U, now = U + xp.where(better, change, 0 * change), now.choose(better, trial)
        value, length = xp.where(better, new, value), xp.where(better, xp.max(xp.abs(change), axis=0), xp.inf)
    return found
