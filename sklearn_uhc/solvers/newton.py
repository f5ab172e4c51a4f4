"""Levenberg-Marquardt for many small problems at once, each stopping on its own.

A problem has N variables per sample. In units in which its own scale is 1, the step solves

    (H + damping I) step = - gradient

and is taken if it does not increase the objective. Otherwise the sample takes the better of two others: the same step
with negative curvature taken as positive, and the problem's own safe step, which cannot increase the objective: the MM
step for CE, least squares for v given u for MF-P and MF-LU.

A sample is solved when the residual is within the tolerance, the next step would be negligible or none leads downhill,
and H has no eigenvalue below -1e-6, in the same units. At a saddle point it is pushed along the negative curvature. If
two optima tie, the push and the start follow one rule, weights 1, 1 / sqrt 2, 1 / sqrt 3, ... for the teachers in their
order. This is far above rounding, so the result does not depend on the batch or the library. If no push leads downhill,
H is judged again, for variables at a bound that can only grow. Where H is flat, below 1e-6, a sample also stops when
there is nothing left to gain, and does not count as well conditioned.

Solved samples leave the batch and others enter: the slowest need ten times the steps of most, and a batch of a few
costs nearly as much as one of hundreds.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import repeat
from typing import Any, NamedTuple, Protocol

import numpy as np
from array_api_compat import device, is_torch_array

from sklearn_uhc.solvers.blas import one_blas_thread
from sklearn_uhc.solvers.incidence import Array, array_namespace, at_least, at_most, take_samples

#: A Hessian whose smallest eigenvalue, in units in which the scale of every variable is 1, is below this one is ill
#: conditioned: rounding moves the optimum by more than 1e-9.
WELL_CONDITIONED = 1e-6
#: Objectives with a smaller relative difference tie; also the difference of the start from the paper's.
TIE = 1e-8
#: Steps shorter than this share of a long one may be judged by the residual.
CLOSE = 1e-2
#: A slope at a bound that shrinks to less than this share in the last step may vanish.
VANISHING = 0.5
#: Maximum number of times a push off a saddle point is shortened.
PUSHES = 8


class Point(NamedTuple):
    """The current state of the samples of a batch."""

    x: Array  #: (n, N)
    u: Array  #: (n, L), the eliminated variables, kept for the curvature
    value: Array  #: (n,)
    gradient: Array  #: (n, N)
    residual: Array  #: (n,), the optimality measure


class Model(Protocol):
    """The second derivatives at a point, in units in which the scale of every variable is 1."""

    def step(self) -> Array:
        """Return Newton's step."""

    def bent_step(self, flat: float) -> Array:
        """Return Newton's step with all curvatures taken as positive: it leads downhill, away from saddle points."""

    def lowest(self) -> Array:
        """Return the smallest eigenvalues, (n,), or 1 where they are known to be large enough. Called last."""

    def way_down(self) -> Array:
        """Return the part of the rule for ties along negative curvature, weighted by it."""

    def within(self, held: Array) -> Model:
        """Return a model that is positive only if this one is so where held variables (n, N) can only grow."""

    def take(self, rows: Array) -> Model:
        """Return the model of some samples."""


class Problem(Protocol):
    """An objective of some variables per sample, with its data."""

    @property
    def rounding(self) -> Array | float:
        """Size of terms of the objective that may cancel; its rounding error is relative to this plus its value."""

    @property
    def flat(self) -> float:
        """Curvature that is treated as zero, in units in which the scale of every variable is 1."""

    @property
    def still(self) -> float:
        """Residual at which steps end, however long they are."""

    @property
    def nothing(self) -> Array | float:
        """Gain that is not worth a step where the objective is flat, (n,) or one number for all."""

    def __len__(self) -> int:
        """Return the number of samples."""

    def start(self) -> Array:
        """Return the start, (n, N)."""

    def at(self, x: Array) -> Point:
        """Evaluate the objective, its gradient and the optimality measure."""

    def model(self, point: Point, mu: Array | None = None) -> Model:
        """Return the second derivatives, with the damping mu (n,) added to each variable."""

    def safe(self, point: Point) -> Array:
        """Return the result of a step that never increases the objective."""

    def move(self, x: Array, step: Array) -> Array:
        """Add a step, within the constraints."""

    def reach(self, x: Array) -> Array | float:
        """Return the length of a long step, (n,) or one number for all."""

    def held(self, x: Array) -> Array:
        """Return which variables are at a bound and cannot decrease, (n, N)."""

    def keep(self, rows: Array) -> Any:
        """Return the problem of some samples only."""


class Batch(NamedTuple):
    """Samples that are being solved."""

    rows: Array  #: (n,), their indices in the problem
    age: Array  #: (n,), steps taken
    mu: Array  #: (n,), damping
    solved: Array  #: (n,), finished: residual within the tolerance, or nothing to gain
    lowest: Array  #: (n,), smallest eigenvalue of the scaled Hessian where solved
    point: Point

    def take(self, rows: Array) -> Batch:
        """Return some of the samples."""
        rest = {name: getattr(self, name)[rows] for name in self._fields[:-1]}
        return Batch(point=rows_of(self.point, rows), **rest)

    def join(self, other: Batch) -> Batch:
        """Return both, one after the other."""
        xp = array_namespace(self.rows)
        point = Point(*(xp.concat(pair) for pair in zip(self.point, other.point, strict=True)))
        rest = {name: xp.concat([getattr(self, name), getattr(other, name)]) for name in self._fields[:-1]}
        return Batch(point=point, **rest)


class Found(NamedTuple):
    """The result for every sample."""

    x: Array  #: (n, N)
    n_iter: Array  #: (n,), steps taken
    residual: Array  #: (n,)
    converged: Array  #: (n,), certified as a local optimum
    well_conditioned: Array  #: (n,), the certificate holds with a curvature above `WELL_CONDITIONED`


def minimize(problem: Problem, *, room: int, tol: float, max_iter: int, damping: float = 1e-3) -> Found:
    """Return a local optimum of every sample; at most `room` are solved together."""
    # BLAS with two threads gains little for products this small, and waits if the other cores are busy.
    with one_blas_thread():
        return _minimize(problem, tol, max_iter, damping, room)


def _minimize(problem: Problem, tol: float, max_iter: int, damping: float, room: int) -> Found:
    """Add samples to the batch as others leave it, so that it stays full to the end."""
    n = len(problem)
    batch = _enter(problem, slice(0, min(n, room)), damping)
    entered, found = min(n, room), _nothing_yet(n, batch.point.x)
    while batch.rows.shape[0]:
        done = (batch.age >= max_iter) | batch.solved
        if bool(done.any()):
            _write(found, batch.take(done), tol)
            batch = batch.take(~done)
        free = min(room - batch.rows.shape[0], n - entered)
        if free == n - entered > 0 or 2 * free >= room:  # adding only a few does not pay
            batch = batch.join(_enter(problem, slice(entered, entered + free), damping))
            entered += free
        elif batch.rows.shape[0]:
            batch = _advance(problem.keep(batch.rows), batch, tol)
    return found


def _nothing_yet(n: int, x: Array) -> Found:
    xp, where = array_namespace(x), device(x)
    kinds = (xp.int64, x.dtype, xp.bool, xp.bool)
    columns = (xp.empty((n,), dtype=dtype, device=where) for dtype in kinds)
    return Found(xp.empty((n, x.shape[1]), dtype=x.dtype, device=where), *columns)


def _write(found: Found, batch: Batch, tol: float) -> None:
    rows, point = batch.rows, batch.point
    found.x[rows, :], found.n_iter[rows], found.residual[rows] = point.x, batch.age, point.residual
    found.converged[rows] = batch.solved
    found.well_conditioned[rows] = batch.solved & (point.residual <= tol) & (batch.lowest >= WELL_CONDITIONED)


def _enter(problem: Problem, rows: slice, damping: float) -> Batch:
    """Return the samples of these rows at their start."""
    part = problem.keep(rows)
    x = part.start()
    point, xp = part.at(x), array_namespace(x)
    # Damping is proportional to the gradient: near the optimum it vanishes, and the step is Newton's.
    mu = _damp(xp, point.residual, damping, problem.flat)
    numbers = xp.arange(rows.start, rows.stop, device=device(x))
    return Batch(numbers, xp.zeros_like(numbers), mu, mu < 0, xp.zeros_like(mu), point)


def _push(problem: Problem, point: Point) -> tuple[Point, Array]:
    """Leave saddle points along negative curvature, by the rule for ties; also return where this failed."""
    xp = array_namespace(point.x)
    eps = float(xp.finfo(point.x.dtype).eps)
    step = problem.model(point).way_down()
    longest = xp.max(xp.abs(step), axis=1)  # 0 if the last step has left the region of negative curvature
    step *= (problem.reach(point.x) / xp.where(longest > 0, longest, xp.ones_like(longest)))[:, None]
    moved = xp.zeros_like(point.value) > 1
    for _ in range(PUSHES):
        ahead, back = (problem.at(problem.move(point.x, sign * step)) for sign in (1, -1))
        # In a tie, go ahead; otherwise go where the objective is lower.
        trial = choose(xp, ahead.value <= back.value + TIE * xp.abs(point.value), ahead, back)
        lower = ~moved & (trial.value < point.value - 8 * eps * (problem.rounding + xp.abs(point.value)))
        point, moved = choose(xp, lower, trial, point), moved | lower
        if bool(xp.all(moved)):
            break
        step = step / 4
    return point, ~moved


def _is_released(problem: Problem, new: Point, old: Point) -> Array:
    """Return where the slope that holds a variable at its bound is about to vanish, which the old H does not show."""
    xp = array_namespace(new.x)
    rounding = float(xp.finfo(new.x.dtype).eps) * (problem.rounding + xp.abs(old.value))
    counts = old.gradient * xp.reshape(problem.reach(old.x) + 0 * rounding, (-1, 1)) > rounding[:, None]
    return xp.any(counts & (new.gradient <= VANISHING * old.gradient) & problem.held(new.x), axis=1)


def _advance(problem: Problem, batch: Batch, tol: float) -> Batch:
    """Take one step: Newton's if it does not increase the objective, else a better one."""
    point, mu, xp = batch.point, batch.mu, array_namespace(batch.mu)
    eps = float(xp.finfo(mu.dtype).eps)
    model = problem.model(point, mu)
    step = model.step()
    trial = problem.at(problem.move(point.x, step))
    better = _is_better(problem, trial, point)
    # The next step is shorter by about the ratio of the residuals.
    shrinking = at_most(trial.residual / at_least(point.residual, eps**4), 1.0)
    change = trial.x - point.x  # the step within the constraints
    settled = better & (xp.max(xp.abs(change), axis=1) * shrinking <= 0.1 * tol * problem.reach(point.x))
    gain = -xp.sum(point.gradient * change, axis=1)
    if not bool(xp.all(better)):
        rows = xp.nonzero(~better)[0]
        other, bent, stuck = _otherwise(problem.keep(rows), rows_of(point, rows))
        gain[rows] = point.value[rows] - other.value
        _put(trial, rows, other)
        settled[rows], better[rows] = stuck, bent
    mu = xp.where(better, _damp(xp, trial.residual, mu / 10, problem.flat), at_most(mu * 8, 1.0))
    settled = (settled | (trial.residual <= max(problem.still, 4 * eps))) & (trial.residual <= tol)
    solved, lowest = settled | (gain <= problem.nothing), xp.zeros_like(mu)
    rows = xp.nonzero(solved)[0]
    if rows.shape[0]:
        lowest[rows] = model.take(rows).lowest()
        solved = settled | (solved & (lowest < WELL_CONDITIONED))
        solved = solved & ((lowest < -WELL_CONDITIONED) | ~_is_released(problem, trial, point))
        rows = xp.nonzero(solved & (lowest < -WELL_CONDITIONED))[0]
    if rows.shape[0]:
        part = problem.keep(rows)
        pushed, stuck = _push(part, rows_of(trial, rows))
        _put(trial, rows, pushed)
        solved[rows] = stuck
        if bool(xp.any(stuck)):  # bounds, or the last step, may have made it an optimum
            lowest[rows] = part.model(pushed).within(part.held(pushed.x)).lowest()
    return Batch(batch.rows, batch.age + 1, mu, solved, lowest, trial)


def _otherwise(problem: Problem, point: Point) -> tuple[Point, Array, Array]:
    """Return the better of a step along negative curvature and the safe one, for samples whose Newton step fails.

    Also return which samples took the former, and which are stuck.
    """
    xp = array_namespace(point.x)
    best = problem.at(problem.safe(point))
    fine = _is_better(problem, best, point)
    best, bent = choose(xp, fine, best, point), ~fine & fine
    step = problem.model(point).bent_step(problem.flat)
    for part in (1.0, 0.2, 0.04):
        trial = problem.at(problem.move(point.x, part * step))
        lower = _is_better(problem, trial, point) & ((trial.value < best.value) | ~fine)
        best, fine, bent = choose(xp, lower, trial, best), fine | lower, bent | lower
    return best, bent, ~fine


def _is_better(problem: Problem, new: Point, old: Point) -> Array:
    """Return where a step went downhill.

    Near the optimum, rounding hides a true decrease, so that much is allowed. The gain of a variable of small scale is
    hidden all the same: a short step that halves the residual, which does not depend on scales, is accepted too.
    """
    xp = array_namespace(new.x)
    rounding = float(xp.finfo(new.x.dtype).eps) * (problem.rounding + xp.abs(old.value))
    change = new.x - old.x
    downhill = xp.sum(old.gradient * change, axis=1) < 0
    close = xp.max(xp.abs(change), axis=1) <= CLOSE * problem.reach(old.x)
    smaller = close & (new.residual <= 0.5 * old.residual) & (new.value <= old.value + 1e6 * rounding)
    return (downhill & (new.value <= old.value + 8 * rounding)) | smaller


def _damp(xp: Any, residual: Array, most: Any, least: float) -> Array:
    return at_least(xp.minimum(residual, most + xp.zeros_like(residual)), least)


def limit_step(step: Array, longest: float) -> Array:
    """Scale each sample's step down so that no entry exceeds `longest`."""
    xp = array_namespace(step)
    length = xp.max(xp.abs(step), axis=1, keepdims=True)
    return step * at_most(longest / at_least(length, 1e-30), 1.0)


@dataclass(frozen=True)
class Hessian:
    """A model given by a matrix per sample."""

    H: Array  #: (n, N, N)
    unit: Array  #: (n, N), length of a unit step
    slope: Array  #: (n, N), the gradient in these units

    least: float = WELL_CONDITIONED  #: eigenvalues above this one need not be known

    @classmethod
    def of(cls, H: Array, d: Array, scale: Array, gradient: Array, mu: Array | None) -> Hessian:
        """Scale H (n, N, N) plus diag(d), (n, N), by the scales of the variables, and add the damping. Overwrites H."""
        unit = 1 / array_namespace(H).sqrt(scale)
        H *= unit[:, :, None]  # in place, since a batch of matrices is the largest array
        H *= unit[:, None, :]
        add_diagonal(H, d * unit**2 + (0.0 if mu is None else mu[:, None]))
        return cls(H, unit, unit * gradient)

    def take(self, rows: Array) -> Hessian:
        """Return those of some samples."""
        return Hessian(self.H[rows], self.unit[rows], self.slope[rows], self.least)

    def step(self) -> Array:
        """Return Newton's step."""
        return self.unit * solve_each(self.H, -self.slope)

    def bent_step(self, flat: float) -> Array:
        """Return Newton's step with all curvatures taken as positive: it leads downhill, away from saddle points."""
        xp = array_namespace(self.H)
        values, vectors = xp.linalg.eigh(self.H)
        along = xp.matmul(self.slope[:, None, :], vectors)[:, 0, :]
        along = along / at_least(xp.abs(values), flat)
        along = xp.where(values < 0, 2 * along, along)  # go further along negative curvature
        return -self.unit * xp.matmul(vectors, along[:, :, None])[:, :, 0]

    def lowest(self) -> Array:
        """Return the smallest eigenvalues, (n,); 1 if all are above `least` (a fast check). Overwrites H."""
        xp = array_namespace(self.H)
        add_diagonal(self.H, 0 * self.unit - self.least)
        try:
            xp.linalg.cholesky(self.H)
        except Exception:  # the exception for a matrix that is not positive definite depends on the library
            return xp.linalg.eigvalsh(self.H)[:, 0] + self.least
        return xp.ones_like(self.unit[:, 0])

    def within(self, held: Array) -> Hessian:
        """Return a Hessian that is positive only if the true one is so where held variables (n, N) can only grow.

        Where two of them grow, a positive mixed derivative only helps, so it is dropped.
        """
        xp, H = array_namespace(self.H), self.H
        both = held[:, :, None] & held[:, None, :] & ~(xp.eye(H.shape[1], dtype=H.dtype, device=device(H)) > 0)
        return Hessian(xp.where(both, at_most(H, 0.0), H), self.unit, self.slope, self.least)

    def way_down(self) -> Array:
        """Return the part of the rule for ties along negative curvature, weighted by it.

        It is a function of the matrix, not of single eigenvectors, which are arbitrary if eigenvalues tie.
        """
        xp = array_namespace(self.H)
        values, vectors = xp.linalg.eigh(self.H)
        rule = tie_rule(self.H, self.H.shape[1])
        along = xp.matmul(rule[None, None, :], vectors)[:, 0, :] * at_least(-values, 0.0)
        return self.unit * xp.matmul(vectors, along[:, :, None])[:, :, 0]


def tie_rule(like: Array, n_teachers: int) -> Array:
    """Return 1, 1 / sqrt 2, 1 / sqrt 3, ..., (N,): if optima tie, earlier teachers count more."""
    xp = array_namespace(like)
    return 1 / xp.sqrt(1 + xp.arange(n_teachers, dtype=like.dtype, device=device(like)))


def break_ties(V: Array) -> Array:
    """Return the paper's start v = 1, in the shape of V, changed slightly by the rule for ties.

    The change is far above rounding and far below the differences between teachers.
    """
    return 1 + TIE * tie_rule(V, V.shape[1]) + array_namespace(V).zeros_like(V)


def add_diagonal(H: Array, d: Array) -> None:
    """Add d (n, N) to the diagonals of H (n, N, N), in place."""
    diagonals = H.diagonal(dim1=1, dim2=2) if is_torch_array(H) else np.einsum("nii->ni", H)  # views
    diagonals += d


def solve_each(A: Array, b: Array) -> Array:
    """Solve every system of a batch; if one of them is exactly singular, all take a gradient step this time."""
    xp = array_namespace(A)
    try:
        x = xp.linalg.solve(A, b[:, :, None])[:, :, 0]
    except Exception:  # the exception for a singular matrix depends on the library
        return b
    return xp.where(xp.isfinite(x), x, xp.zeros_like(x))


def rows_of(point: Point, rows: Array) -> Point:
    """Return some of the samples."""
    return Point(*map(take_samples, point, repeat(rows)))


def _put(point: Point, rows: Array, new: Point) -> None:
    for old, part in zip(point, new, strict=True):
        old[rows, ...] = part


def choose(xp: Any, mask: Array, new: Point, old: Point) -> Point:
    """Return the new point where the mask holds, else the old one."""
    pairs = zip(new, old, strict=True)
    return Point(*(xp.where(mask[:, None] if a.ndim == 2 else mask, a, b) for a, b in pairs))
