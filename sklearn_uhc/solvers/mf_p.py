"""MF-P: rank-one factorization of the probabilities with missing entries.

    min over u, v of  || M * (P - u v') ||_F^2,      u on the simplex, v >= 0

Given v, u is closed form: u = a / b with a_l = sum_i P_il v_i and b_l = sum_i v_i^2 over the teachers that know l. What
is left is a problem in theta = log v, one variable per teacher:

    F(theta)   = - 1/2 sum_l a_l^2 / b_l
    gradient_i = - sum_l y_il (P_il - y_il),                 y = u v'
    Hessian    = diag(d) - G diag(1 / b) G',   G_il = v_i (P_il - 2 y_il),   d_i = - sum_l u_l G_il

The paper alternates between u and v, which is the step - gradient / sum_l y^2. Its first sweeps choose the local
optimum here too. Residual: largest entry of the gradient, relative to ||P||^2.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from array_api_compat import array_namespace, device

from sklearn_uhc.solvers.blocks import Array, Blocks, Solution
from sklearn_uhc.solvers.newton import Point, minimize, shorten

#: Sweeps of the paper's algorithm before the first Newton step.
WARM_UP = 5
#: Longest step in log v.
MAX_STEP = 2.0


def objective(P: Array, U: Array, V: Array, blocks: Blocks) -> Array:
    """Squared error of the factorization, per sample."""
    return array_namespace(P).sum((P - blocks.by_class(U) * blocks.by_teacher(V)) ** 2, axis=1)


def best_u(P: Array, V: Array, blocks: Blocks) -> Array:
    """Least squares for u given v."""
    return _ratio((P * blocks.by_teacher(V)) @ blocks.to_class, V**2 @ blocks.M)


def best_v(P: Array, U: Array, blocks: Blocks) -> Array:
    """Least squares for v given u; not negative, as nothing in it is."""
    return _ratio((P * blocks.by_class(U)) @ blocks.to_teacher, U**2 @ blocks.M.T)


def _ratio(above: Array, below: Array) -> Array:
    """Divide; 0 / 0 is 0, as when u vanishes on a whole class list."""
    xp = array_namespace(above)
    return above / xp.clip(below, float(xp.finfo(above.dtype).tiny), None)


def sweep(P: Array, V: Array, blocks: Blocks) -> Array:
    """One round of the paper's Algorithm 1: v from u from v, with u on the simplex."""
    U = best_u(P, V, blocks)
    return best_v(P, U / array_namespace(U).sum(U, axis=1, keepdims=True), blocks)


@dataclass(frozen=True)
class ProbabilityFit:
    """F(log v) for probabilities P (n, K)."""

    P: Array
    size: Array  #: (n,), ||P||^2
    blocks: Blocks
    sweeps: int = WARM_UP

    def __len__(self) -> int:
        return int(self.P.shape[0])

    def start(self) -> Array:
        """Return log v after some sweeps of the paper's algorithm from v = 1."""
        xp, P = array_namespace(self.P), self.P
        V = xp.ones((len(self), self.blocks.M.shape[0]), dtype=P.dtype, device=device(P))
        for _ in range(self.sweeps):
            V = sweep(P, V, self.blocks)
        return self._logarithm(V)

    def at(self, theta: Array) -> Point:
        """F, its gradient, and the largest entry of that relative to ||P||^2."""
        xp = array_namespace(theta)
        V = xp.exp(theta)
        U = best_u(self.P, V, self.blocks)
        Y = self.blocks.by_class(U) * self.blocks.by_teacher(V)
        error = self.P - Y
        gradient = -((Y * error) @ self.blocks.to_teacher)
        residual = xp.max(xp.abs(gradient), axis=1) / self.size
        return Point(theta, U, 0.5 * xp.sum(error**2, axis=1), gradient, residual)

    def curvature(self, point: Point) -> tuple[Array, Array, Array]:
        """Hessian, and sum_l y^2 as the scale."""
        xp, blocks = array_namespace(point.x), self.blocks
        V = xp.exp(point.x)
        u, v = blocks.by_class(point.u), blocks.by_teacher(V)
        g = v * (self.P - 2 * u * v)
        B = xp.clip(V**2 @ blocks.M, float(xp.finfo(V.dtype).tiny), None)
        G = blocks.cube(g * blocks.by_class(1 / xp.sqrt(B)))
        scale = ((u * v) ** 2) @ blocks.to_teacher + 1e-12 * self.size[:, None]
        # F does not see the common scale of a component: filling that null space in keeps it out of the step.
        null = xp.min(scale, axis=1)[:, None, None] * blocks.teacher_component_mean
        return null - xp.matmul(G, xp.permute_dims(G, (0, 2, 1))), -((u * g) @ blocks.to_teacher), scale

    def safe(self, point: Point) -> Array:
        """Return the next v of the paper's algorithm: least squares given u."""
        return self._logarithm(best_v(self.P, point.u, self.blocks))

    def move(self, theta: Array, step: Array) -> Array:
        """Take the step, shortened if need be."""
        return _fix_scale(theta + shorten(step, MAX_STEP))

    @staticmethod
    def _logarithm(V: Array) -> Array:
        xp = array_namespace(V)
        return _fix_scale(xp.log(xp.clip(V, float(xp.finfo(V.dtype).tiny), None)))

    def keep(self, rows: Array) -> ProbabilityFit:
        """Return the problem of some samples."""
        return replace(self, P=self.P[rows], size=self.size[rows])


def _fix_scale(theta: Array) -> Array:
    """Take the common scale, which F does not see, out of v; a change of it would look like a step to nowhere."""
    return theta - array_namespace(theta).max(theta, axis=1, keepdims=True)


def solve_mf_p(P: Array, blocks: Blocks, *, tol: float = 1e-8, max_iter: int = 1000) -> Solution:
    """Minimise from v = 1, as in the paper; `u` of the answer lies on the simplex."""
    xp = array_namespace(P)
    sweeps = min(WARM_UP, max_iter)
    problem = ProbabilityFit(P, xp.sum(P**2, axis=1), blocks, sweeps)
    theta, n_iter, residual = minimize(problem, tol=tol, max_iter=max_iter - sweeps, damping=1e-2)
    V = xp.exp(theta)
    U = best_u(P, V, blocks)
    total = xp.sum(U, axis=1, keepdims=True)
    return Solution(U / total, V * total, n_iter + sweeps, residual, residual <= tol)
