"""MF-LU: rank-one factorization of the logits with a free scale per teacher.

    min over u, v, c of  || M * (Z - u v' - 1 c') ||_F^2 + lam (||u||^2 + ||v||^2),      v >= 0

c is the mean of z_i - v_i u over the list of teacher i, so with Z centred per block it need not be stored. Given v, u
solves A u = b with b = sum_i v_i S_i' z_i and

    A = D - W W',    D = diag(lam + sum_i v_i^2),    W_li = v_i / sqrt(k_i) where teacher i knows l

a diagonal minus N rank-one terms: Woodbury's formula makes it a system of N unknowns. The remaining problem in v has

    gradient_i = lam v_i - e_i' u,                      e_i = C_i (z_i - v_i u), the error centred over the list
    Hessian    = diag(lam + ||C_i u||^2) - Hc' A^-1 Hc,   column i of Hc = v_i C_i u - e_i on the list of teacher i

The first sweeps decide between local optima: some of the paper's Algorithm 2, then some without the common shift and
scale of u, on which plain alternation spends hundreds of sweeps. Residual: largest entry of the gradient relative to
||Z||^2 + lam, where entries that push v_i = 0 below zero count as 0.

If the others' u is constant on the list of teacher i, the slope at v_i = 0 is 0, and its computed sign is rounding. In
the sweeps such a v_i stays at 0, and Newton's method treats it as free, so that it leaves a saddle point by the rule.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from sklearn_uhc.solvers.blocks import Solution
from sklearn_uhc.solvers.incidence import (
    Array,
    array_namespace,
    at_least,
    at_most,
    samples_last,
    square_sum,
    take_samples,
)
from sklearn_uhc.solvers.newton import TIE, Hessian, Point, add_diagonal, break_ties, minimize
from sklearn_uhc.solvers.plain_blocks import PlainBlocks

#: Number of sweeps before the first Newton step: the paper's own, then those without shift and scale.
PAPER_SWEEPS, BALANCED_SWEEPS = 20, 15
#: Curvature, and gain relative to ||Z||^2 + lam, that are treated as zero where the objective is flat.
FLAT, NO_GAIN = 1e-12, 1e-14
#: Slopes below this multiple of the precision, relative to ||Z|| ||u|| in sweeps and ||Z||^2 + lam after, are rounding.
NOISE = 4096
#: Share of the last change of v that is added in balanced sweeps; it halves the remaining distance.
MOMENTUM = 0.7


def objective(Z: Array, U: Array, V: Array, lam: float, blocks: PlainBlocks) -> Array:
    """Return the regularised squared error per sample, with optimal c."""
    xp = array_namespace(Z)
    error = blocks.center(Z - blocks.by_class(U) * blocks.by_teacher(V))
    return xp.sum(error**2, axis=1) + lam * (xp.sum(U**2, axis=1) + xp.sum(V**2, axis=1))


def gradient(Z: Array, U: Array, V: Array, lam: float, blocks: PlainBlocks) -> tuple[Array, Array]:
    """Return half the derivatives by u (n, L) and v (n, N), with optimal c."""
    error = blocks.center(Z - blocks.by_class(U) * blocks.by_teacher(V))
    by_u = lam * U - blocks.sum_classes(error * blocks.by_teacher(V))
    by_v = lam * V - blocks.sum_teachers(error * blocks.by_class(U))
    return by_u, by_v


def paper_sweep(
    Z: Array, V: Array, C: Array, lam: float, blocks: PlainBlocks, noise: Array | None = None
) -> tuple[Array, Array, Array]:
    """Do one round of the paper's Algorithm 2 on centred logits: u, then v, then c; `noise` as in `best_v`."""
    U = _best_u(Z, V, C, lam, blocks)
    sums, squares = blocks.sum_lists(U), blocks.sum_lists(U**2)
    above = blocks.sum_teachers(blocks.times_class(Z, U)) - C * sums
    V = _not_negative(above / (lam + squares), above, squares, noise)
    return U, V, -V * sums / blocks.sizes


def _best_u(Z: Array, V: Array, C: Array, lam: float, blocks: PlainBlocks) -> Array:
    """Least squares for u given v and c: sum_i v_i (z_i - c_i), over lam + sum_i v_i^2."""
    above = blocks.sum_classes(blocks.scaled(Z, V)) - blocks.sum_owners(C * V)
    return above / (lam + blocks.sum_owners(V**2))


def best_v(Z: Array, U: Array, lam: float, blocks: PlainBlocks, noise: Array | None = None) -> Array:
    """Return least-squares v >= 0, with optimal c, given u, for centred Z.

    Sums below `noise` (n,) times ||u|| are treated as zero: rounding must not decide which v_i leave 0.
    """
    squares = blocks.sum_lists(U**2)
    variance = squares - blocks.sum_lists(U) ** 2 / blocks.sizes
    above = blocks.sum_teachers(blocks.times_class(Z, U))
    return _not_negative(above / (lam + at_least(variance, 0.0)), above, squares, noise)


def _noise(size: Array) -> Array:
    """Return the rounding of sums of terms of this size, with a wide margin."""
    return NOISE * float(array_namespace(size).finfo(size.dtype).eps) * size


def _not_negative(V: Array, above: Array, squares: Array, noise: Array | None) -> Array:
    """Return v, and 0 where it is negative or its numerator is rounding."""
    if noise is None:
        return at_least(V, 0.0)
    xp = array_namespace(V)
    least = noise * xp.sqrt(xp.max(squares, axis=1))
    return xp.where(above > least[:, None], V, xp.zeros_like(V))


def balanced_sweep(
    Z: Array, U: Array, V: Array, lam: float, blocks: PlainBlocks, noise: Array | None = None
) -> tuple[Array, Array]:
    """Do one round on centred logits: u given c, with mean zero; v and c together; then ||u|| = ||v||."""
    xp = array_namespace(Z)
    U = _best_u(Z, V, -V * blocks.sum_lists(U) / blocks.sizes, lam, blocks)
    U = U - blocks.group_means(U)
    V = best_v(Z, U, lam, blocks, noise)
    uu, vv = xp.sum(U**2, axis=1, keepdims=True), xp.sum(V**2, axis=1, keepdims=True)
    s = xp.where((uu > 0) & (vv > 0), (uu + (uu == 0)) / (vv + (vv == 0)), xp.ones_like(uu)) ** 0.25
    return U / s, V * s


@dataclass(frozen=True)
class LogitFit:
    """The objective as a function of v, for centred logits Z (n, K)."""

    Z: Array
    size: Array  #: (n,), ||Z||^2 + lam
    lam: float
    blocks: PlainBlocks
    sweeps: int = PAPER_SWEEPS + BALANCED_SWEEPS
    rounding: float = 0.0
    flat: float = FLAT
    still: float = 0.0

    @property
    def nothing(self) -> Array:
        """Gain below which a step is not worthwhile, (n,)."""
        return NO_GAIN * self.size

    def __len__(self) -> int:
        return int(self.Z.shape[0])

    def start(self) -> Array:
        """Return v after the first sweeps, from v = 1 with ties broken."""
        blocks, Z = self.blocks, self.Z
        V = break_ties(blocks.sum_teachers(Z))
        C, noise = 0 * V, _noise(array_namespace(Z).sqrt(self.size))
        for _ in range(min(PAPER_SWEEPS, self.sweeps)):
            U, V, C = paper_sweep(Z, V, C, self.lam, blocks, noise)
        onward = 0 * V
        for k in range(self.sweeps - PAPER_SWEEPS):
            last, (U, V) = V, balanced_sweep(Z, U, at_least(V + onward, 0.0), self.lam, blocks, noise)
            onward = MOMENTUM * (V - last) if k else onward  # the first sweep also changes the scale
        return V

    def best_u(self, V: Array) -> Array:
        """Return least-squares u, with optimal c, given v."""
        xp, blocks = array_namespace(V), self.blocks
        b = blocks.sum_classes(blocks.scaled(self.Z, V))
        D = self.lam + blocks.sum_owners(V**2)
        w = V / xp.sqrt(blocks.sizes)
        y = xp.linalg.solve(self._core(w, D), (w * blocks.sum_lists(b / D))[:, :, None])[:, :, 0]
        return (b + blocks.sum_owners(w * y)) / D

    def _core(self, w: Array, D: Array) -> Array:
        """I - W' D^-1 W, positive definite, (n, N, N)."""
        core = self.blocks.pairs.sums(1 / D)
        core *= w[:, :, None]
        core *= -w[:, None, :]
        add_diagonal(core, 1 + 4 * float(array_namespace(w).finfo(w.dtype).eps) + 0 * w)
        return core

    def at(self, V: Array) -> Point:
        """Return half the objective, its gradient, and the largest entry of the projected gradient, relative."""
        xp = array_namespace(V)
        U = self.best_u(V)
        u = self.blocks.by_class(U)
        error = self.blocks.scaled(u, -V)
        error += self.Z
        error = self.blocks.center(error)
        u *= error
        slope = self.lam * V - self.blocks.sum_teachers(u)
        projected = xp.where(V > 0, slope, at_most(slope, 0.0))
        ridge = xp.sum(U**2, axis=1) + xp.sum(V**2, axis=1)
        value = 0.5 * (square_sum(error) + self.lam * ridge)
        return Point(V, U, value, slope, xp.max(xp.abs(projected), axis=1) / self.size)

    def model(self, point: Point, mu: Array | None = None) -> Hessian:
        """Return the Hessian, its first term as the scale; v_i that their own slopes take to 0 are decoupled."""
        V, blocks = point.x, self.blocks
        xp = array_namespace(V)
        U, D = point.u, self.lam + blocks.sum_owners(V**2)
        centered = blocks.center(blocks.by_class(U))
        scale = self._scale(centered)
        Hc = blocks.scaled(centered, 2 * V)
        Hc -= self.Z
        root = blocks.by_class(1 / xp.sqrt(D))
        Hc *= root
        B = blocks.pairs.products(Hc)
        root *= Hc  # Hc / D
        w = V / xp.sqrt(blocks.sizes)
        T = xp.permute_dims(blocks.pairs.spread(root), (0, 2, 1)) * w[:, :, None]
        B += xp.matmul(xp.permute_dims(T, (0, 2, 1)), xp.linalg.solve(self._core(w, D), T))
        # A slope of 0 does not hold v_i at 0: with negative curvature it is a saddle point. So rounding counts as 0.
        free = xp.astype(point.gradient < V * scale + _noise(self.size)[:, None], V.dtype)
        B *= free[:, :, None]
        B *= -free[:, None, :]
        return Hessian.of(B, scale, scale, point.gradient, mu)

    def safe(self, point: Point) -> Array:
        """Return the next v of the paper's algorithm: least squares given u, c at its best."""
        return self.move(point.x, -point.gradient / self._scale(self.blocks.center(self.blocks.by_class(point.u))))

    def _scale(self, centered: Array) -> Array:
        """Return lam + ||C_i u||^2, the second derivative by v_i given u."""
        return self.lam + self.blocks.sum_teachers(centered**2)

    def move(self, V: Array, step: Array) -> Array:
        """Take the step, v not negative."""
        return at_least(V + step, 0.0)

    def reach(self, V: Array) -> Array:
        """Return the largest v, to which the length of a step is compared."""
        return array_namespace(V).max(V, axis=1)

    def held(self, V: Array) -> Array:
        """Return which v are 0, up to a difference that ties are broken by."""
        return 0.5 * TIE * self.reach(V)[:, None] >= V

    def keep(self, rows: Array) -> LogitFit:
        """Return the problem of some samples."""
        return replace(self, Z=take_samples(self.Z, rows), size=self.size[rows])


def solve_mf_lu(
    Z: Array, blocks: PlainBlocks, *, lam: float = 0.01, tol: float = 1e-8, max_iter: int = 1000
) -> Solution:
    """Minimise from v = 1 and c = mean logit, as in the paper; `u` has mean zero in every group."""
    Z = blocks.center(samples_last(Z))
    sweeps = min(PAPER_SWEEPS + BALANCED_SWEEPS, max_iter)
    problem = LogitFit(Z, square_sum(Z) + lam, lam, blocks, sweeps)
    # More than for the others: there are twice as many calls, for which threads wait, and one thread is no slower.
    room = 3 * blocks.batch_rows // 2
    found = minimize(problem, tol=tol, max_iter=max_iter - sweeps, room=room)
    return Solution.of(found, problem.best_u(found.x), found.x, sweeps)
