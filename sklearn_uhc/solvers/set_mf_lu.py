"""MF-LU with columns that stand for sets, by Newton's method in u and v together.

    1/2 sum_i w_i sum_k (z_k - c_i - phi_k(v_i u))^2 + lam / 2 (||u||^2 + sum_i w_i v_i^2),      v >= 0, c at its best

phi_k(x) = log sum_{l in S_k} exp(T x_l) / T, which is v_i u_l where the column means one class: a teacher's logits are
stretched by v_i before its sets are summed, so that the scale of u and v stays free. With r_k the shares of the classes
in their set at v_i u, and b_k = r_k' u, the derivatives of phi_k are v_i r_k by u and b_k by v_i. Near the optimum the
second derivatives of phi are added to the Gauss-Newton matrix. Residual: largest entry of the gradient, that by v_i = 0
only if it is negative, relative to ||Z||^2 + lam.

Classes that are in the same columns everywhere stay equal, as the gradient does not tell them apart. Stretched by
different v_i, sets may fit better if one of them has all, but which one would be for rounding to decide.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

from array_api_compat import array_namespace, device

from sklearn_uhc.solvers.anderson import Rest, Step, accelerate
from sklearn_uhc.solvers.blocks import Array, Solution
from sklearn_uhc.solvers.incidence import at_least, at_most
from sklearn_uhc.solvers.newton import add_diagonal, solve_each
from sklearn_uhc.solvers.set_mf_lf import EvenSplit
from sklearn_uhc.solvers.set_mf_lu_start import MOST_STEPS, Common, StretchedSteps, approach
from sklearn_uhc.solvers.set_newton import Point, minimize
from sklearn_uhc.solvers.set_solve import Split
from sklearn_uhc.solvers.sets import SetBlocks, level, lowest

#: Residual below which the full Hessian is used.
NEAR = 5e-2
#: Longest step.
MAX_STEP = 4.0
#: Maximum number of steps with one Hessian, and the residual up to which they are tried.
MOST_CHORDS, TRIED = 10, 1e-3
#: Maximum length of the last step, relative to the square root of the tolerance, and of the next one before
#: acceleration, relative to the tolerance.
SHORT, STILL = 1e-2, 10.0
#: Smallest second derivative by v, relative to its positive part.
LEAST_BEND = 1e-2
#: Largest difference of classes that are never apart, relative to the tolerance.
EQUAL = 1e-3
#: A slope by v counts as none below this many times the precision of its terms.
ROUNDINGS = 64


class Stretched(NamedTuple):
    """The columns' logits for u and v, with derivatives."""

    phi: Array  #: (n, K)
    b: Array  #: (n, K), derivative by v
    r: Array  #: (n, S, L), shares of classes in the columns of sets


def stretch(U: Array, V: Array, T: float, blocks: SetBlocks) -> Stretched:
    """Return phi(v_i u) and what its derivatives need."""
    xp, vk = array_namespace(U), blocks.by_teacher(V)
    vs, top = blocks.of_sets(vk), xp.max(U, axis=1, keepdims=True)
    r = vs[:, :, None] * (T * (U - top))[:, None, :]
    r = xp.exp(r)
    r += math.exp(lowest(U))  # so that no set is empty
    r *= blocks.in_set if blocks.is_small else blocks.members.table
    total = xp.sum(r, axis=2)
    r /= total[:, :, None]
    phi = blocks.by_source(U, xp.log(total) / T + vs * top)
    b = blocks.by_source(U, _within(r, U))
    return Stretched(phi * xp.where(blocks.set_sizes > 1, xp.ones_like(vk), vk), b, r)


def best_v(Z: Array, U: Array, T: float, lam: float, blocks: SetBlocks, steps: int = 100) -> Array:
    """Return v given u, with optimal c, for centred Z: damped Newton from v = 1, each teacher on its own.

    A teacher is done when little more than rounding is left of its slope or its step. Samples whose teachers are all
    done leave the batch, since a few need several times the steps of most; `steps` is the largest number.
    """
    xp, eps = array_namespace(Z), float(array_namespace(Z).finfo(Z.dtype).eps)
    V, fit = xp.ones_like(blocks.sum_teachers(Z)), ScaleFit.of(Z, U, T, lam, blocks)
    out, rows = xp.zeros_like(V), xp.arange(V.shape[0], device=device(V))
    damping, at = xp.zeros_like(V), fit.at(V)
    for _ in range(steps):
        trial = at_least(V - at.slope / (at.bend * (1 + damping)), 0.0)
        moving = (xp.abs(trial - V) > eps * V) & (xp.abs(at.slope) > ROUNDINGS * eps * at.size)
        going = xp.any(moving, axis=1)
        left = int(xp.count_nonzero(going))
        if left <= V.shape[0] // 2:
            out[rows, :] = trial  # the last step needs no check
            if left == 0:
                return out
            rows, fit, at = rows[going], fit.keep(going), ByScale(*(X[going, :] for X in at))
            V, trial, damping = V[going, :], trial[going, :], damping[going, :]
        new = fit.at(trial)
        better = new.value <= at.value + 8 * eps * (1 + at.value)
        V, at = xp.where(better, trial, V), ByScale(*(xp.where(better, a, b) for a, b in zip(new, at, strict=True)))
        damping = xp.where(better, damping / 8, 4 * damping + 1)
    out[rows, :] = V
    return out


class ByScale(NamedTuple):
    """The objective of each teacher as a function of its v, (n, N)."""

    value: Array
    slope: Array  #: half the derivative
    bend: Array  #: half the second derivative, taken as positive
    size: Array  #: scale of the rounding error of the slope


@dataclass(frozen=True)
class ScaleFit:
    """The objective as a function of v, for centred Z (n, K): what does not depend on v is computed once."""

    Z: Array
    base: Array  #: (n, K), u of a class or the largest of a set, centred
    below: Array  #: (n, S, L), u less the largest of the set; 0 for other classes
    far: Array  #: (n, 1), largest |u|
    inside: Array  #: (S, L), 1 if a class is in a set
    whose: Array  #: (S,), teacher of every set
    T: float
    lam: float
    blocks: SetBlocks

    @classmethod
    def of(cls, Z: Array, U: Array, T: float, lam: float, blocks: SetBlocks) -> ScaleFit:
        """Prepare for logits Z and u."""
        xp, inside = array_namespace(Z), blocks.in_set if blocks.is_small else blocks.members.table
        low = xp.min(U, axis=1)[:, None, None]
        top = xp.max((U[:, None, :] - low) * inside, axis=2) + low[:, :, 0]
        below = (U[:, None, :] - top[:, :, None]) * inside
        far = xp.max(xp.abs(U), axis=1, keepdims=True)
        whose = xp.take(blocks.teacher_of, blocks.set_columns, axis=0)
        return cls(Z, blocks.center(blocks.by_source(U, top)), below, far, inside, whose, T, lam, blocks)

    def at(self, V: Array) -> ByScale:
        """Return the objective of each teacher, with derivatives by v."""
        xp, blocks, n = array_namespace(V), self.blocks, V.shape[0]
        E = xp.exp((self.T * xp.take(V, self.whose, axis=1))[:, :, None] * self.below)
        E *= self.inside
        total = xp.sum(E, axis=2)
        E *= self.below
        mean = xp.sum(E, axis=2) / total
        E *= self.below
        variance = self.T * (xp.sum(E, axis=2) / total - mean**2)
        both = xp.concat([xp.log(total) / self.T, mean])
        nothing = xp.zeros((2 * n, blocks.n_classes), dtype=V.dtype, device=device(V))
        both = blocks.center(blocks.by_source(nothing, both))
        error, b = self.Z - self.base * blocks.by_teacher(V) - both[:n, :], self.base + both[n:, :]
        found = blocks.sum_teachers(xp.concat([error * error, error * b, b * b]))
        squares, product, linear = found[:n, :], found[n : 2 * n, :], self.lam + found[2 * n :, :]
        bent = blocks.sum_own_sets(blocks.of_sets(error) * variance)
        bend = xp.maximum(xp.abs(linear - bent), LEAST_BEND * linear)
        size = xp.sqrt(linear) * (xp.sqrt(squares) + V * self.far) + xp.sqrt(squares) * self.far
        return ByScale(squares + self.lam * V**2, self.lam * V - product, bend, size)

    def keep(self, rows: Array) -> ScaleFit:
        """Return the problem of some samples."""
        some = {name: getattr(self, name)[rows, ...] for name in ("Z", "base", "below", "far")}
        return replace(self, **some)


def _variance(U: Array, at: Stretched, T: float, blocks: SetBlocks) -> Array:
    """(n, S): second derivative of phi by v, T times the variance of u within the set."""
    return T * (_within(at.r, U**2) - blocks.of_sets(at.b) ** 2)


class Bends(NamedTuple):
    """Second derivatives: diag(du) + factors' diag(weights) factors by u, `uv` by v and u, diag(dv) by v."""

    factors: Array  #: (n, S + N, L)
    weights: Array  #: (n, S + N)
    du: Array  #: (n, L)
    uv: Array  #: (n, N, L)
    dv: Array  #: (n, N)
    scale_u: Array  #: (n, L), positive
    scale_v: Array  #: (n, N), positive


class System(NamedTuple):
    """Newton's system by u, diag(diagonal) + factors' diag(weights) factors, and how v follows u."""

    factors: Array  #: (n, S + 2 N, L)
    weights: Array  #: (n, S + 2 N)
    diagonal: Array  #: (n, L)
    uv: Array  #: (n, N, L)
    dv: Array  #: (n, N)

    def matrix(self) -> Array:
        """(n, L, L); for few classes."""
        xp = array_namespace(self.dv)
        H = xp.matmul(xp.permute_dims(self.factors * self.weights[:, :, None], (0, 2, 1)), self.factors)
        add_diagonal(H, self.diagonal)
        return H


@dataclass(frozen=True)
class SetLogitFit:
    """The objective as a function of (u, v), for centred tempered logits Z (n, K)."""

    Z: Array
    first: Array  #: (n, L + N)
    size: Array  #: (n,), ||Z||^2 + lam
    w: Array  #: (N,)
    T: float
    lam: float
    blocks: SetBlocks
    near: float = NEAR
    careful: bool = True

    def __len__(self) -> int:
        return int(self.Z.shape[0])

    @property
    def batch_rows(self) -> int:
        """Number of samples solved together."""
        return self.blocks.batch_rows

    def start(self) -> Array:
        """Return the start."""
        return self.first

    def parts(self, x: Array) -> tuple[Array, Array]:
        """Return u and v."""
        L = self.blocks.n_classes
        return x[:, :L], x[:, L:]

    def at(self, x: Array) -> Point:
        """Return objective, gradient, and the largest entry of the projected gradient, relative."""
        xp, blocks, (U, V) = array_namespace(x), self.blocks, self.parts(x)
        at = stretch(U, V, self.T, blocks)
        error = blocks.center(self.Z - at.phi)
        we = blocks.by_teacher(self.w[None, :]) * error
        pulled = we * blocks.by_teacher(V)
        by_u = self.lam * U - blocks.sum_singles(pulled) - _weigh(blocks.of_sets(pulled), at.r)
        by_v = self.lam * self.w * V - blocks.sum_teachers(we * at.b)
        value = 0.5 * (xp.sum(we * error, axis=1) + self.lam * (xp.sum(U**2, axis=1) + V**2 @ self.w))
        projected = xp.where(V > 0, by_v, at_most(by_v, 0.0))
        residual = xp.max(xp.abs(xp.concat([by_u, projected], axis=1)), axis=1) / self.size
        return Point(x, error, value, xp.concat([by_u, by_v], axis=1), residual)

    def bends(self, point: Point) -> Bends:
        """Return second derivatives; far from the optimum, those of Gauss-Newton."""
        xp, blocks, (U, V) = array_namespace(point.x), self.blocks, self.parts(point.x)
        at, wk, vk = stretch(U, V, self.T, blocks), blocks.by_teacher(self.w[None, :]), blocks.by_teacher(V)
        near = xp.astype(point.residual < self.near, V.dtype)[:, None]
        we, size, b = near * wk * point.u, wk * vk**2, at.b
        bent, sets = self.T * blocks.of_sets(we * vk), blocks.of_sets(size)
        means = blocks.sum_teachers(b) * (self.w / blocks.sizes)
        # By u: a diagonal, and rank-one terms of the sets and of the teachers' means.
        own = self._columns(at, vk)
        bent_v = bent * blocks.of_sets(vk)
        factors = xp.concat([at.r, own], axis=1)
        weights = xp.concat([sets + bent_v, 0 * V - self.w / blocks.sizes], axis=1)
        du = self.lam + blocks.sum_singles(size) - _weigh(bent_v, at.r)
        # By u and v: for phi itself r_k, and for sets also T v (u_l - b_k) r_kl.
        uv = self._columns(at, wk * vk * b - we, bent[:, :, None] * (blocks.of_sets(b)[:, :, None] - U[:, None, :]))
        uv = uv - own * means[:, :, None]
        vv = self.lam * self.w + blocks.sum_teachers(wk * b**2) - means * blocks.sum_teachers(b)
        dv = vv - blocks.sum_own_sets(blocks.of_sets(we) * _variance(U, at, self.T, blocks))
        scale_v = xp.maximum(vv, self.lam * self.w + 0 * vv)
        return Bends(factors, weights, du, uv, dv, self._scale_of_u(at, wk, vk), scale_v)

    def newton(self, point: Point, mu: Array) -> Array:
        """Return the damped step; v is eliminated, since second derivatives by v are a diagonal."""
        xp, (gu, gv), system = array_namespace(point.x), self.parts(point.gradient), self.system(point, mu)
        target = _weigh(gv / system.dv, system.uv) - gu
        step_u = solve_each(system.matrix(), target)
        step_v = -(gv + _within(system.uv, step_u)) / system.dv
        return xp.concat([step_u, step_v], axis=1)

    def system(self, point: Point, mu: Array) -> System:
        """Return the damped Hessian, with v eliminated."""
        xp, V, bends = array_namespace(point.x), self.parts(point.x)[1], self.bends(point)
        gv = self.parts(point.gradient)[1]
        # A v_i that its own slope takes to 0 is decoupled.
        free = gv < V * bends.scale_v
        dv = xp.where(free, bends.dv, bends.scale_v) + mu[:, None] * bends.scale_v
        dv = xp.maximum(dv, LEAST_BEND * bends.scale_v)
        uv = bends.uv * xp.astype(free, V.dtype)[:, :, None]
        factors = xp.concat([bends.factors, uv], axis=1)
        weights = xp.concat([bends.weights, -1 / dv], axis=1)
        diagonal = bends.du + mu[:, None] * bends.scale_u
        return System(factors, weights, diagonal, uv, dv)

    def _scale_of_u(self, at: Stretched, wk: Array, vk: Array) -> Array:
        size = wk * vk**2
        return self.lam + self.blocks.sum_singles(size) + _weigh(self.blocks.of_sets(size), at.r)

    def _columns(self, at: Stretched, x: Array, tilt: Array | float = 0.0) -> Array:
        """(n, K) to (n, N, L): sum over each teacher's columns of x_k r_k, for sets of (x_k + tilt_k) r_k."""
        xp, blocks = array_namespace(x), self.blocks
        sets = (blocks.of_sets(x)[:, :, None] + tilt) * at.r
        padded = xp.concat([x, xp.zeros_like(x[:, :1])], axis=1)
        cells = xp.reshape(xp.take(padded, blocks.alone_of, axis=1), (x.shape[0], blocks.n_teachers, blocks.n_classes))
        for own, whose in blocks.rounds:  # a teacher's first set, its second, ...
            cells[:, whose, :] = cells[:, whose, :] + sets[:, own, :]
        return cells

    def safe(self, point: Point) -> Array:
        """Return the result of a short step down the gradient."""
        U, V = self.parts(point.x)
        xp, blocks = array_namespace(U), self.blocks
        at, wk = stretch(U, V, self.T, blocks), blocks.by_teacher(self.w[None, :])
        by_v = self.lam * self.w + blocks.sum_teachers(wk * at.b**2)
        size = xp.concat([self._scale_of_u(at, wk, blocks.by_teacher(V)), by_v], axis=1)
        return self.move(point.x, -point.gradient / (2 * self.T * size))

    def move(self, x: Array, step: Array) -> Array:
        """Add the step; v stays nonnegative, and what is never apart equal."""
        xp = array_namespace(x)
        U, V = self.parts(self.blocks.same_for_twins(x + at_most(at_least(step, -MAX_STEP), MAX_STEP)))
        return xp.concat([U, at_least(V, 0.0)], axis=1)

    def keep(self, rows: Array) -> SetLogitFit:
        """Return the problem of some samples."""
        return replace(self, Z=self.Z[rows], first=self.first[rows], size=self.size[rows])


def _weigh(x: Array, r: Array) -> Array:
    """(n, S) and (n, S, L) to (n, L): sum of x_k r_k."""
    return array_namespace(x).matmul(x[:, None, :], r)[:, 0, :]


def _within(r: Array, x: Array) -> Array:
    """(n, S, L) and (n, L) to (n, S): the mean of x within every set."""
    return array_namespace(x).matmul(r, x[:, :, None])[:, :, 0]


def solve_set_mf_lu(
    Z: Array,
    split: Split,
    *,
    temperature: float,
    lam: float = 0.01,
    weight: Array | None = None,
    tol: float = 1e-8,
    max_iter: int = 1000,
) -> Solution:
    """Minimise from the evenly split start with v = 1, for logits Z at temperature 1."""
    xp, blocks = array_namespace(Z), split.blocks
    w = xp.ones_like(blocks.sizes) if weight is None else weight
    U = level(split.even(Z), blocks, 1.0) / temperature
    V = xp.ones_like(U[:, :1]) * xp.ones_like(blocks.sizes)
    uu, vv = xp.sum(U**2, axis=1, keepdims=True), xp.sum(w * V**2, axis=1, keepdims=True)
    s = xp.clip(uu / vv, 1e-6, None) ** 0.25  # at the optimum both have the same norm
    Z = blocks.center(Z / temperature)
    size = xp.sum(Z**2, axis=1) + lam
    first, T = xp.concat([U / s, V * s], axis=1), float(temperature)
    problem = SetLogitFit(Z, first, size, w, T, lam, blocks)
    if not blocks.is_small:
        from sklearn_uhc.solvers.many_mf_lu import ManyLogitFit  # builds on this module

        problem = ManyLogitFit(Z, first, size, w, T, lam, blocks)
    if not isinstance(split, EvenSplit) or max_iter < MOST_STEPS + MOST_CHORDS:
        x, n_iter, residual = minimize(problem, tol=tol, max_iter=max_iter)
    else:
        x, n_iter, residual = _solve_few(problem, Common.of(blocks, split.A, w, T, lam), tol, max_iter)
    return Solution(*problem.parts(x), n_iter, residual, residual <= tol, residual <= tol)


def _solve_few(problem: SetLogitFit, common: Common, tol: float, max_iter: int) -> tuple[Array, Array, Array]:
    """Take steps with one matrix for all samples, then with one Hessian per sample, then Newton's."""
    xp, room = array_namespace(problem.Z), problem.batch_rows
    x, residual = approach(problem.Z, problem.first, problem.size, common)
    x = problem.blocks.same_for_twins(x)
    first, done = xp.asarray(x, copy=True), residual < 0
    n_iter = xp.zeros_like(residual, dtype=xp.int64) + MOST_STEPS
    close = xp.nonzero(residual <= TRIED)[0]
    for start in range(0, close.shape[0], room):
        rows = close[start : start + room]
        found = take_chords(problem.keep(rows), first[rows, :], common, tol)
        x[rows, :], residual[rows], done[rows] = found.U.T, found.residual, found.solved
        n_iter[rows] += found.n_iter
    rest = xp.nonzero(~done)[0]
    if rest.shape[0]:
        some = replace(problem, first=first).keep(rest)
        x[rest, :], more, residual[rest] = minimize(some, tol=tol, max_iter=max_iter)
        n_iter[rest] += more
    return x, n_iter, residual


@dataclass(frozen=True)
class Chords:
    """Newton's steps with one Hessian per sample, from the end of the steps before; samples last."""

    steps: StretchedSteps
    inverse: Array  #: (n, L, L)
    uv: Array  #: (n, N, L)
    dv: Array  #: (n, N)

    def step(self, x: Array) -> Step:
        """Return the step at x (L + N, n), the projected gradient, and its largest entry, relative."""
        xp, at, L = array_namespace(x), self.steps.step(x), self.inverse.shape[1]
        gu, gv = at.slope[:L, :].T, at.slope[L:, :].T
        step_u = _within(self.inverse, _weigh(gv / self.dv, self.uv) - gu)
        step_v = -(gv + _within(self.uv, step_u)) / self.dv
        return at._replace(d=xp.concat([step_u, step_v], axis=1).T)

    def keep(self, rows: Array) -> Chords:
        """Return the problem of some samples."""
        return Chords(self.steps.keep(rows), self.inverse[rows, ...], self.uv[rows, ...], self.dv[rows, ...])


def take_chords(problem: SetLogitFit, x: Array, common: Common, tol: float) -> Rest:
    """Return the results from x (n, L + N); `solved` marks samples at an optimum."""
    xp, point = array_namespace(x), problem.at(x)
    system = problem.system(point, xp.clip(point.residual, None, 1e-3))
    try:
        inverse = xp.linalg.inv(system.matrix())
    except Exception:  # the exception for a singular matrix depends on the library
        return Rest.nothing_yet(x.T)
    steps = StretchedSteps(xp.asarray(problem.Z.T, copy=True), problem.size, common)
    found = accelerate(
        Chords(steps, inverse, system.uv, system.dv),
        xp.asarray(x.T, copy=True),
        tol=tol,
        short=SHORT * tol**0.5,
        still=STILL * tol,
        max_iter=MOST_CHORDS,
        least=common.least,
        downhill=False,
    )
    lower = steps.value(found.U) <= point.value + tol * problem.size
    ends = problem.blocks.same_for_twins(xp.asarray(found.U.T, copy=True)).T
    apart = xp.max(xp.abs(found.U - ends), axis=0)
    return found._replace(U=ends, solved=found.solved & lower & (apart <= EQUAL * tol))
