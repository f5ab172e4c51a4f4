"""Newton's steps with the Hessian of the start, accelerated: one matrix per sample instead of one per step.

Where columns mean sets, most of the time goes into Hessians of classes by classes. From a good start, steps with the
inverse of the first one and Anderson's acceleration take 6 to 10 rounds, each at a fraction of the price of one of
Newton's. Samples that do not come to rest in a few of them, or end above their start, are left to Newton's method, from
the start.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from array_api_compat import array_namespace, device

from sklearn_uhc.solvers.anderson import Rest, Step, accelerate
from sklearn_uhc.solvers.blas import one_blas_thread
from sklearn_uhc.solvers.blocks import Array
from sklearn_uhc.solvers.newton import Point, add_diagonal

#: Most steps.
MOST_STEPS = 16
#: The last step is at most this long, in u, relative to the root of the tolerance.
SHORT = 1e-2
#: Damping of the one Hessian, relative to each variable's own scale.
DAMPING = 1e-3
#: Numbers that the inverses of a batch may hold: what fits into the cache of a core.
BATCH_NUMBERS = 2**19


class Curved(Protocol):
    """An objective with a Hessian."""

    def __len__(self) -> int:
        """Return the number of samples."""

    def start(self) -> Array:
        """Return where to begin, (n, L)."""

    def at(self, x: Array) -> Point:
        """Evaluate the objective, its gradient and the optimality measure."""

    def curvature(self, point: Point) -> tuple[Array, Array, Array]:
        """Return the Hessian as a matrix plus a diagonal, and the scale of every variable."""

    def keep(self, rows: Array) -> Any:
        """Return the problem of some samples only."""


@dataclass(frozen=True)
class ChordSteps:
    """The iteration for some samples."""

    problem: Curved
    inverse: Array  #: (n, L, L)

    def step(self, U: Array) -> Step:
        """Return the step at U (L, n), the gradient, and its largest entry."""
        xp, point = array_namespace(U), self.problem.at(U.T)
        d = xp.matmul(self.inverse, point.gradient[:, :, None])[:, :, 0]
        return Step(-d.T, point.gradient.T, point.residual)

    def keep(self, rows: Array) -> ChordSteps:
        """Return the problem of some samples."""
        return ChordSteps(self.problem.keep(rows), self.inverse[rows, ...])


def take_chords(problem: Curved, tol: float) -> Rest:
    """Return where samples come to rest, (L, n); `solved` tells which of them are at an optimum."""
    U = problem.start()
    xp, found = array_namespace(U), Rest.nothing_yet(U.T)
    n, room = U.shape[0], max(32, BATCH_NUMBERS // U.shape[1] ** 2)
    with one_blas_thread():
        for first in range(0, n, room):
            rows = xp.arange(first, min(first + room, n), device=device(U))
            found.write(rows, _chords(problem.keep(rows), U[rows, :], tol))
    return found


def _chords(problem: Curved, U: Array, tol: float) -> Rest:
    """Solve a batch from U (n, L)."""
    xp, point = array_namespace(U), problem.at(U)
    H, diagonal, scale = problem.curvature(point)
    add_diagonal(H, diagonal + xp.clip(point.residual, None, DAMPING)[:, None] * scale)
    try:
        inverse = xp.linalg.inv(H)
    except Exception:  # the name of a singular matrix differs from library to library
        return Rest.nothing_yet(U.T)
    steps = ChordSteps(problem, inverse)
    found = accelerate(steps, xp.asarray(U.T, copy=True), tol=tol, short=SHORT * tol**0.5, max_iter=MOST_STEPS)
    lower = problem.at(found.U.T).value <= point.value + 1e-3 * tol
    return found._replace(solved=found.solved & lower)
