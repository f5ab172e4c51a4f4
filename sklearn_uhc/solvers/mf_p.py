"""MF-P: rank-one factorization of the probabilities with missing entries.

    min over u, v of  || M * (P - u v') ||_F^2,      u on the simplex, v >= 0

Given v, u has a closed form: u = a / b with a_l = sum_i P_il v_i and b_l = sum_i v_i^2 over the teachers that know l.
The remaining problem is in theta = log v, one variable per teacher:

    F(theta)   = - 1/2 sum_l a_l^2 / b_l
    gradient_i = - sum_l y_il (P_il - y_il),                 y = u v'
    Hessian    = diag(d) - G diag(1 / b) G',   G_il = v_i (P_il - 2 y_il),   d_i = - sum_l u_l G_il

A class that only one teacher knows is fitted exactly and has no influence. The paper alternates between u and v, which
is the step - gradient / sum_l y^2. Its first sweeps choose the local optimum here too, unless teachers agree, up to a
squared error of 1e-6 ||P||^2: then the start is the answer of MF-LF, which is q if they agree exactly.

Residual: largest entry of the gradient, each relative to its own sum_l y^2. Relative to ||P||^2 it would be small
for every small v_i, as on plateaus far from any optimum.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from array_api_compat import device

from sklearn_uhc.solvers.blocks import Bend, Blocks, Solution
from sklearn_uhc.solvers.incidence import Array, array_namespace, at_least, samples_last, square_sum, take_samples
from sklearn_uhc.solvers.mf_lf import agreement
from sklearn_uhc.solvers.newton import Hessian, Point, break_ties, limit_step, minimize
from sklearn_uhc.solvers.plain_blocks import PlainBlocks

#: Number of sweeps of the paper's algorithm before the first Newton step.
WARM_UP = 16
#: A sample leaves the sweeps when v changes by less than this (relative); checked from this sweep on.
SETTLED, SOONEST = 3e-5, 5
#: Teachers agree if the squared error relative to ||P||^2 is below this; then MF-LF's answer is the start.
AGREED = 1e-6
#: Squared probabilities below this share of ||P||^2 are treated as zero, and so is v_i.
NOTHING = 1e-24
#: Curvature, and gain relative to ||P||^2, that are treated as zero where the objective is flat.
FLAT, NO_GAIN = 1e-9, 1e-11
#: Largest log v before all are scaled down.
LARGEST = 100.0
#: Longest step in log v.
MAX_STEP = 1.0


class ProbabilityError:
    """MF-P for any columns, as a function of phi: 1/2 sum_i w_i sum_k (p_k - v_i exp(phi_k))^2, v_i at its best.

    `class_fit.py` minimises it if columns stand for sets.
    """

    @staticmethod
    def fitted(phi: Array, P: Array, blocks: Blocks) -> Array:
        """Return v_i exp(phi_k), (n, K), with least-squares v, which is never negative."""
        xp = array_namespace(phi)
        E = xp.exp(phi - blocks.by_teacher(blocks.largest(phi)))
        return E * blocks.by_teacher(_ratio(blocks.sum_teachers(P * E), blocks.sum_teachers(E * E)))

    @classmethod
    def at(cls, phi: Array, P: Array, w: Array, blocks: Blocks) -> tuple[Array, Array]:
        """Return the value (n,) and its derivative by phi, - w_i y (p - y) with y = v_i exp(phi), (n, K)."""
        Y, wk = cls.fitted(phi, P, blocks), blocks.by_teacher(w)
        return 0.5 * array_namespace(phi).sum(wk * (P - Y) ** 2, axis=1), -wk * Y * (P - Y)

    @classmethod
    def curvature(cls, phi: Array, P: Array, w: Array, blocks: Blocks, near: Array) -> Bend:
        """Return second derivatives, log v eliminated; those of Gauss-Newton where `near` (n, 1) does not hold."""
        xp, Y, wk = array_namespace(phi), cls.fitted(phi, P, blocks), blocks.by_teacher(w)
        size = wk * Y * Y
        h = xp.where(near, wk * Y * (2 * Y - P), size)
        tiny = float(xp.finfo(phi.dtype).tiny)
        return Bend(h, h, 1 / at_least(blocks.sum_teachers(size), tiny), size)


def objective(P: Array, U: Array, V: Array, blocks: PlainBlocks) -> Array:
    """Squared error of the factorization, per sample."""
    return array_namespace(P).sum((P - blocks.by_class(U) * blocks.by_teacher(V)) ** 2, axis=1)


def best_u(P: Array, V: Array, blocks: PlainBlocks) -> Array:
    """Least squares for u given v."""
    return _ratio(blocks.sum_classes(blocks.scaled(P, V)), blocks.sum_owners(V**2))


def best_v(P: Array, U: Array, blocks: PlainBlocks) -> Array:
    """Return least-squares v given u; it is never negative."""
    return _ratio(blocks.sum_teachers(blocks.times_class(P, U)), blocks.sum_lists(U**2))


def _ratio(above: Array, below: Array) -> Array:
    """Divide in place; 0 / 0 is 0, which happens if u vanishes on a whole class list."""
    tiny = float(array_namespace(above).finfo(above.dtype).tiny)
    above /= at_least(below, tiny, in_place=True)
    return above


def sweep(P: Array, V: Array, blocks: PlainBlocks) -> Array:
    """Do one round of the paper's Algorithm 1: u from v, on the simplex, then v from u."""
    U = best_u(P, V, blocks)
    U /= array_namespace(U).sum(U, axis=1, keepdims=True)
    return best_v(P, U, blocks)


def sweeps(P: Array, blocks: PlainBlocks, most: int) -> Array:
    """Return v after at most `most` rounds from v = 1; a sample stops early when its v hardly changes."""
    xp = array_namespace(P)
    V = break_ties(blocks.sum_teachers(P))
    out, rows = V + 0, xp.arange(V.shape[0], device=device(V))
    for k in range(most):
        last, V = V, sweep(P, V, blocks)
        if k >= SOONEST and k % 2 and k + 1 < most:
            moves = xp.any(xp.abs(V - last) > SETTLED * V, axis=1)
            moving = xp.nonzero(moves)[0]
            if moving.shape[0] < V.shape[0]:
                out[rows[~moves], :] = V[~moves, :]
                rows, P, V = rows[moving], take_samples(P, moving), V[moving, :]
            if not moving.shape[0]:
                return out
    out[rows, :] = V
    return out


@dataclass(frozen=True)
class ProbabilityFit:
    """F(log v) for probabilities P (n, K)."""

    P: Array
    size: Array  #: (n,), ||P||^2
    blocks: PlainBlocks
    sweeps: int = WARM_UP
    rounding: float = 0.0
    flat: float = FLAT
    still: float = 0.0

    @property
    def nothing(self) -> Array:
        """Gain below which a step is not worthwhile, (n,)."""
        return NO_GAIN * self.size

    def __len__(self) -> int:
        return int(self.P.shape[0])

    def start(self) -> Array:
        """Return log v after some sweeps of the paper's algorithm, or from MF-LF if teachers agree."""
        V = sweeps(self.P, self.blocks, self.sweeps)
        theta = array_namespace(V).log(at_least(V, float(array_namespace(V).finfo(V.dtype).tiny)))
        rows, agreed = self._agreement()
        theta[rows, :] = agreed
        return _fix_scale(theta)

    def _agreement(self) -> tuple[Array, Array]:
        """Return the samples whose teachers agree, and their log v."""
        xp, blocks = array_namespace(self.P), self.blocks
        rows = xp.nonzero(blocks.pairs.rank_one_error(self.P) < AGREED * self.size)[0]
        if not rows.shape[0]:
            return rows, xp.zeros((0, blocks.n_teachers), dtype=self.P.dtype, device=device(self.P))
        P = take_samples(self.P, rows)
        answers, theta = agreement(at_least(P, float(xp.finfo(P.dtype).tiny)), blocks)
        agree = xp.sum((P - answers) ** 2, axis=1) < AGREED * self.size[rows]
        return rows[agree], theta[agree, :]

    def at(self, theta: Array) -> Point:
        """Return F, its gradient, and the largest entry of the gradient relative to sum_l y^2."""
        xp, blocks = array_namespace(theta), self.blocks
        V = xp.exp(theta)
        U = best_u(self.P, V, blocks)
        Y = blocks.scaled(blocks.by_class(U), V, in_place=True)
        error = self.P - Y
        error *= blocks.shared
        gradient = -blocks.sum_teachers(Y * error)
        residual = xp.max(xp.abs(gradient) / self._scale(Y), axis=1)
        return Point(theta, U, 0.5 * square_sum(error), gradient, residual)

    def _scale(self, Y: Array) -> Array:
        """Return sum_l y^2 over the classes that others know too. Overwrites Y."""
        Y *= Y
        Y *= self.blocks.shared
        return self.blocks.sum_teachers(Y) + NOTHING * self.size[:, None]

    def model(self, point: Point, mu: Array | None = None) -> Hessian:
        """Return the Hessian, with sum_l y^2 as the scale."""
        xp, blocks = array_namespace(point.x), self.blocks
        V = xp.exp(point.x)
        y = blocks.scaled(blocks.by_class(point.u), V, in_place=True)
        g = self.P - y
        g -= y
        g *= blocks.shared
        d = -blocks.sum_teachers(y * g)
        scale = self._scale(y)
        tiny = float(xp.finfo(V.dtype).tiny)
        B = at_least(blocks.sum_owners(V**2), tiny)
        G = blocks.by_class(1 / xp.sqrt(B))
        G *= blocks.scaled(g, V, in_place=True)
        # F does not depend on the common scale of a group: filling that null space keeps it out of the step.
        null = scale[:, :, None] * (scale / at_least(scale @ blocks.teacher_component_mean, tiny))[:, None, :]
        null *= blocks.teacher_component_mean
        null -= blocks.pairs.products(G)
        return Hessian.of(null, d, scale, point.gradient, mu)

    def safe(self, point: Point) -> Array:
        """Return the next v of the paper's algorithm: least squares given u."""
        xp, blocks = array_namespace(point.x), self.blocks
        u = blocks.by_class(point.u) * blocks.shared
        above, below = blocks.sum_teachers(self.P * u), blocks.sum_teachers(u**2)
        tiny = float(xp.finfo(u.dtype).tiny)
        change = xp.log(at_least(above, tiny)) - xp.log(at_least(below, tiny)) - point.x
        scale = self._scale(blocks.scaled(u, xp.exp(point.x)))
        common = ((scale * change) @ blocks.teacher_component_mean) / (scale @ blocks.teacher_component_mean)
        return point.x + xp.where(below > tiny, change - common, xp.zeros_like(change))

    def move(self, theta: Array, step: Array) -> Array:
        """Add the step, shortened if it is too long."""
        theta = theta + limit_step(step, MAX_STEP)
        return theta - at_least(_largest(theta) - LARGEST, 0.0)

    def reach(self, theta: Array) -> float:
        """Return 1: a step in log v is relative."""
        return 1.0

    def held(self, theta: Array) -> Array:
        """Return that no variable is at a bound."""
        return theta != theta

    def keep(self, rows: Array) -> ProbabilityFit:
        """Return the problem of some samples."""
        return replace(self, P=take_samples(self.P, rows), size=self.size[rows])


def _fix_scale(theta: Array) -> Array:
    """Remove the common scale of v, which does not affect F."""
    return theta - _largest(theta)


def _largest(theta: Array) -> Array:
    return array_namespace(theta).max(theta, axis=1, keepdims=True)


def solve_mf_p(P: Array, blocks: PlainBlocks, *, tol: float = 1e-8, max_iter: int = 1000) -> Solution:
    """Minimise from v = 1, as in the paper; `u` of the result is on the simplex."""
    xp = array_namespace(P)
    P, before = samples_last(P), min(WARM_UP, max_iter)
    problem = ProbabilityFit(P, square_sum(P), blocks, before)
    found = minimize(problem, room=blocks.batch_rows, tol=tol, max_iter=max_iter - before, damping=1e-2)
    V = xp.exp(found.x)
    U = best_u(P, V, blocks)
    total = xp.sum(U, axis=1, keepdims=True)
    return Solution.of(found, U / total, V * total, before)
