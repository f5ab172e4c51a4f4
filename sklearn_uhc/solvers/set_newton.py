"""Levenberg-Marquardt for problems with one variable per class, where columns stand for sets.

As in `newton`, the step solves (H + damping I) step = - gradient and is taken if it does not increase the objective.
Otherwise the damping grows, and the sample takes the problem's own safe step. A sample is solved when its residual is
within the tolerance and the step is short. The Hessian has a row for every class, so its eigenvalues are not computed.
Instead, a step that gains less than a tenth of what it promised increases the damping of the next one. Samples that
take many steps are an exception: negative curvature, along which they crawl, is taken as positive there (`flipped`).

With many classes (`many_fit`, `many_mf_lu`) the objective's rounding, `noise`, exceeds what the last steps gain, and a
problem has its own `search` for a shorter step instead of the safe one.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

from array_api_compat import array_namespace, device

from sklearn_uhc.solvers.blas import one_blas_thread
from sklearn_uhc.solvers.blocks import Array
from sklearn_uhc.solvers.incidence import at_least, at_most, take_samples
from sklearn_uhc.solvers.newton import Point, choose, rows_of

#: Number of steps after which a sample is worth the eigenvalues of its Hessian.
LATE = 15
#: Factor of the damping after a step that failed, and its least value then, relative to the residual.
LESS_TRUST, DAMPING = 4.0, 10.0


class Objective(Protocol):
    """An objective of some variables per sample, with its data."""

    @property
    def batch_rows(self) -> int:
        """Number of samples solved together."""

    def __len__(self) -> int:
        """Return the number of samples."""

    def start(self) -> Array:
        """Return the start, (n, N)."""

    def at(self, x: Array) -> Point:
        """Evaluate the objective, its gradient and the optimality measure."""

    def newton(self, point: Point, mu: Array) -> Array:
        """Return Newton's step, (n, N), with the damping mu (n,), relative to each variable's own scale."""

    def safe(self, point: Point) -> Array:
        """Return the result of a step that never increases the objective."""

    def move(self, x: Array, step: Array) -> Array:
        """Add a step, within the constraints."""

    def keep(self, rows: Array) -> Any:
        """Return the problem of some samples only."""


class Batch(NamedTuple):
    """Samples that are being solved."""

    rows: Array  #: (n,), their indices in the problem
    age: Array  #: (n,), steps taken
    mu: Array  #: (n,), damping
    settled: Array  #: (n,), nothing more to gain, or one short step away
    point: Point

    def take(self, rows: Array) -> Batch:
        """Return some of the samples."""
        rest = {name: getattr(self, name)[rows] for name in ("rows", "age", "mu", "settled")}
        return Batch(point=rows_of(self.point, rows), **rest)

    def join(self, other: Batch) -> Batch:
        """Return both, one after the other."""
        xp = array_namespace(self.rows)
        point = Point(*(xp.concat(pair) for pair in zip(self.point, other.point, strict=True)))
        rest = {
            name: xp.concat([getattr(self, name), getattr(other, name)]) for name in ("rows", "age", "mu", "settled")
        }
        return Batch(point=point, **rest)


def minimize(problem: Objective, *, tol: float, max_iter: int, damping: float = 1e-3) -> tuple[Array, Array, Array]:
    """Return x (n, N), the number of steps (n,) and the residual (n,) of every sample."""
    # BLAS with two threads gains little for products this small, and waits if the other cores are busy.
    with one_blas_thread():
        return _minimize(problem, tol, max_iter, damping)


def _minimize(problem: Objective, tol: float, max_iter: int, damping: float) -> tuple[Array, Array, Array]:
    """Add samples to the batch as others leave it, so that it stays full to the end."""
    n, room = len(problem), problem.batch_rows
    batch = _enter(problem, slice(0, min(n, room)), damping)
    entered, x = min(n, room), batch.point.x
    xp, where = array_namespace(x), device(x)
    out = xp.empty((n, x.shape[1]), dtype=x.dtype, device=where)
    n_iter, residual = (xp.empty((n,), dtype=dtype, device=where) for dtype in (xp.int64, x.dtype))
    while batch.rows.shape[0]:
        done = (batch.settled & (batch.point.residual <= tol)) | (batch.age >= max_iter)
        rows, point = batch.rows[done], rows_of(batch.point, done)
        out[rows, :], n_iter[rows], residual[rows] = point.x, batch.age[done], point.residual
        batch = batch.take(~done)
        free = min(room - batch.rows.shape[0], n - entered)
        if free == n - entered > 0 or 2 * free >= room:  # adding only a few does not pay
            batch = batch.join(_enter(problem, slice(entered, entered + free), damping))
            entered += free
        elif batch.rows.shape[0]:
            batch = _advance(problem.keep(batch.rows), batch, tol)
    return out, n_iter, residual


def _enter(problem: Objective, rows: slice, damping: float) -> Batch:
    """Return the samples of these rows at their start."""
    part = problem.keep(rows)
    x = part.start()
    point, xp = part.at(x), array_namespace(x)
    eps = float(xp.finfo(x.dtype).eps)
    # Damping is proportional to the gradient: near the optimum it vanishes, and the step is Newton's.
    mu = _damp(xp, point.residual, damping, eps)
    numbers = xp.arange(rows.start, rows.stop, device=device(x))
    return Batch(numbers, xp.zeros_like(numbers), mu, point.residual <= 4 * eps, point)


def _advance(problem: Objective, batch: Batch, tol: float) -> Batch:
    """Take one step: Newton's if it does not increase the objective, else the safe one."""
    point, mu, xp = batch.point, batch.mu, array_namespace(batch.mu)
    eps = float(xp.finfo(mu.dtype).eps)
    late = batch.age >= (LATE if getattr(problem, "has_eigenvalues", False) else float("inf"))
    step = _step(problem, point, mu, late)
    trial = problem.at(problem.move(point.x, step))
    noise = getattr(problem, "noise", 0.0)
    better = _is_better(xp, trial, point, eps, noise)
    if not bool(xp.all(better)):
        rows = xp.nonzero(~better)[0]
        stuck, rest = rows_of(point, rows), problem.keep(rows)
        if hasattr(rest, "search"):
            stuck = rest.search(stuck, take_samples(step, rows), lambda new, old: _is_better(xp, new, old, eps, noise))
        else:
            safe = rest.at(rest.safe(stuck))
            stuck = choose(xp, _is_better(xp, safe, stuck, eps, noise), safe, stuck)
        for old, new in zip(trial, stuck, strict=True):
            old[rows, ...] = new
    trusted = better & _has_gained(xp, trial, point, eps, noise) if getattr(problem, "careful", False) else better
    most = xp.ones_like(mu) if noise else trial.residual
    more = xp.maximum(LESS_TRUST * mu, DAMPING * trial.residual)
    mu = xp.where(trusted, _damp(xp, most, mu / 10, eps), at_most(more, 1e6))
    length = getattr(problem, "length", _largest)(point, step)
    short = length <= tol**0.5  # the next Newton step is about the square of the last
    gain = -xp.sum(point.gradient * (trial.x - point.x), axis=1)
    worthless = gain <= getattr(problem, "nothing", 0.0) * xp.abs(point.value)
    settled = ~better | short | (trial.residual <= getattr(problem, "still", 4 * eps)) | worthless
    return Batch(batch.rows, batch.age + 1, mu, settled, trial)


def _step(problem: Any, point: Point, mu: Array, late: Array) -> Array:
    """Return Newton's step, of `late` samples (n,) the more expensive one."""
    xp = array_namespace(mu)
    if not bool(xp.any(late)):
        return problem.newton(point, mu)
    if bool(xp.all(late)):
        return problem.flipped(point, mu)
    step, rows = problem.newton(point, mu), xp.nonzero(late)[0]
    step[rows, :] = problem.keep(rows).flipped(rows_of(point, rows), mu[rows])
    return step


def _largest(point: Point, step: Array) -> Array:
    """Return the length of steps, for problems without their own measure."""
    xp = array_namespace(step)
    return xp.max(xp.abs(step), axis=1)


def _is_better(xp: Any, new: Point, old: Point, eps: float, noise: float) -> Array:
    """Return where a step went downhill; near the optimum, rounding hides a true decrease, so that much is allowed.

    Where the change is within `noise`, relative, the slopes at both ends decide, which rounding affects much less.
    """
    move = new.x - old.x
    before, after = xp.sum(old.gradient * move, axis=1), xp.sum(new.gradient * move, axis=1)
    lower = new.value <= old.value + 8 * eps * (1 + xp.abs(old.value))
    return (before < 0) & xp.where(_is_noise(xp, new, old, noise), after <= -0.9 * before, lower)


def _has_gained(xp: Any, new: Point, old: Point, eps: float, noise: float) -> Array:
    """Return where a step gained a fair share of what it promised; the others overshoot, and may cycle."""
    promised = -0.5 * xp.sum(old.gradient * (new.x - old.x), axis=1)
    gained = old.value - new.value + 8 * eps * (1 + xp.abs(old.value)) >= 0.1 * promised
    return gained | _is_noise(xp, new, old, noise)


def _is_noise(xp: Any, new: Point, old: Point, noise: float) -> Array:
    """Return where the change of the objective may be rounding."""
    return xp.abs(new.value - old.value) < noise * (1 + xp.abs(old.value))


def _damp(xp: Any, residual: Array, most: Any, eps: float) -> Array:
    return at_least(xp.minimum(residual, most + xp.zeros_like(residual)), 10 * eps)
