"""MF-LU with columns that stand for sets, for too many classes to use arrays of teachers by classes.

The objective and its derivatives are those of `set_mf_lu`, with the shares of the classes in their sets as sums
(`many_shares`). With R the shares (S, L), M the single columns of the teachers, e the errors of the columns, b the
derivative of their logits by v, and a bar for means over a teacher's columns:

    by u, u   diag(lam + M'(w v^2) - R'(T w e v^2)) + R' diag(w v^2 + T w e v^2) R - sum_i w_i k_i y_i y_i'
    by v, u   row i: sum over columns of (w v b - w e) r, for sets plus T w e v (b - u) r, minus w k b-bar y_i
    by v, v   diag(lam w + sum of w (b - b-bar)^2 - sum over sets of T w e (variance of u within the set))

y_i the mean of v r over the columns of teacher i. v is eliminated, and the step is found by conjugate gradients.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from array_api_compat import array_namespace

from sklearn_uhc.solvers.blocks import Array
from sklearn_uhc.solvers.conjugate import solve_system
from sklearn_uhc.solvers.incidence import samples_first, samples_last, take_samples, to_cpu
from sklearn_uhc.solvers.many_fit import NOISE, shorter
from sklearn_uhc.solvers.many_shares import Shares, Stretches
from sklearn_uhc.solvers.many_sources import Lists
from sklearn_uhc.solvers.newton import Point
from sklearn_uhc.solvers.set_mf_lu import LEAST_BEND, SetLogitFit


@dataclass(frozen=True)
class Rows:
    """The shares of some samples."""

    each: tuple[Shares, ...]

    @classmethod
    def of(cls, U: Array, V: Array, T: float, lists: Lists) -> Rows:
        """Prepare U (n, L), whose largest entries are 0, and V (n, N)."""
        index, U = Stretches.of(lists), samples_first(U)
        return cls(tuple(Shares.of(U[j, :], V[j, :], T, index) for j in range(U.shape[0])))

    def within(self, *X: Array) -> list[Array]:
        """(n, L) each to (n, S) each: means within the sets."""
        xp, whole = array_namespace(X[0]), samples_first(array_namespace(X[0]).stack(X, axis=2))
        out = xp.stack([own.within(whole[j, ...]) for j, own in enumerate(self.each)])
        return [out[:, :, m] for m in range(len(X))]

    def weigh(self, *Y: Array) -> list[Array]:
        """(n, S) each to (n, L) each: sums of Y times the shares."""
        xp, whole = array_namespace(Y[0]), array_namespace(Y[0]).stack(Y, axis=2)
        out = xp.stack([own.weigh(whole[j, ...]) for j, own in enumerate(self.each)])
        return [samples_last(out[:, :, m]) for m in range(len(Y))]

    def keep(self, rows: Array) -> Rows:
        """Return those of some samples."""
        return Rows(tuple(self.each[j] for j in to_cpu(rows).tolist()))


@dataclass(frozen=True)
class System:
    """The damped Hessian by u, with v eliminated, as a product."""

    lists: Lists
    shares: Rows
    U: Array  #: (n, L)
    V: Array  #: (n, N)
    w: Array  #: (1, N)
    we: Array  #: (n, K), weighted errors
    b: Array  #: (n, S), derivative of the logits of sets by v
    means: Array  #: (n, N), weighted means of b
    bent: Array  #: (n, S)
    diagonal: Array  #: (n, L)
    inner: Array  #: (n, S)
    dv: Array  #: (n, N)
    free: Array  #: (n, N), 0 for v_i that stay at 0
    about: Array  #: (n, L)

    def product(self, x: Array) -> Array:
        """(n, L) to (n, L)."""
        within, tilted = self.shares.within(x, self.U * x)
        own = self.V * self.lists.over_teachers(x, within)
        u, sets = self.lists.from_teachers(self.V * (self.w / self.lists.blocks.sizes) * own)
        back, back_sets, bent = self._from_v(self._by_v(x, within, tilted) / self.dv)
        given, given_bent = self.shares.weigh(self.inner * within - sets - back_sets, bent)
        return self.diagonal * x - u - back + self.U * given_bent + given

    def by_v(self, x: Array) -> Array:
        """(n, L) to (n, N): the second derivatives by v and u times x."""
        return self._by_v(x, *self.shares.within(x, self.U * x))

    def _by_v(self, x: Array, within: Array, tilted: Array) -> Array:
        """Return the same, given the means of x and u x within the sets."""
        lists = self.lists
        linear = self.w * self.V * lists.over_teachers(self.U * x, self.b * within)
        linear = linear + lists.sets(self.bent * (self.b * within - tilted))
        means = self.means * self.V * lists.over_teachers(x, within)
        return self.free * (linear - lists.weigh(self.we, x, within) - means)

    def from_v(self, y: Array) -> Array:
        """(n, N) to (n, L): their transpose."""
        u, sets, bent = self._from_v(y)
        given, given_bent = self.shares.weigh(sets, bent)
        return u - self.U * given_bent + given

    def _from_v(self, y: Array) -> tuple[Array, Array, Array]:
        """Return the part by single classes, and by sets two that are to be distributed, the second one times u."""
        xp, lists, y = array_namespace(y), self.lists, self.free * y
        linear, linear_sets = lists.from_teachers(self.w * self.V * y)
        mean, mean_sets = lists.from_teachers(self.means * self.V * y)
        cells, cell_sets = lists.weigh_back(self.we, y)
        bent = self.bent * xp.take(y.T, lists.owner, axis=0).T
        return self.U * linear - cells - mean, self.b * (linear_sets + bent) - cell_sets - mean_sets, bent

    def keep(self, rows: Array) -> System:
        """Return the system of some samples."""
        names = ("U", "V", "we", "b", "means", "bent", "diagonal", "inner", "dv", "free", "about")
        parts = {name: take_samples(getattr(self, name), rows) for name in names}
        return System(lists=self.lists, shares=self.shares.keep(rows), w=self.w, **parts)


@dataclass(frozen=True)
class ManyLogitFit(SetLogitFit):
    """Like `SetLogitFit`, by sums."""

    noise: float = NOISE

    @property
    def lists(self) -> Lists:
        """Sums over lists."""
        return Lists.of(self.blocks)

    def at(self, x: Array) -> Point:
        """Return objective, gradient, and the largest entry of the projected gradient, relative."""
        xp, (U, V) = array_namespace(x), self.parts(x)
        shares, b = self._shares(U, V)
        error = self._error(U, V, shares)
        we = samples_first(error * self.blocks.by_teacher(self.w[None, :]))
        cells, sets = self.lists.weigh_back(we, V)
        by_u = self.lam * U - cells - shares.weigh(sets)[0]
        by_v = self.lam * self.w * V - self.lists.weigh(we, U, b)
        value = 0.5 * (xp.sum(we * error, axis=1) + self.lam * (xp.sum(U**2, axis=1) + V**2 @ self.w))
        projected = xp.where(V > 0, by_v, xp.clip(by_v, None, 0.0))
        residual = xp.max(xp.abs(xp.concat([by_u, projected], axis=1)), axis=1) / self.size
        return Point(x, error, value, xp.concat([by_u, by_v], axis=1), residual)

    def _shares(self, U: Array, V: Array) -> tuple[Rows, Array]:
        """Return the shares, and the means of u within the sets, (n, S)."""
        top = array_namespace(U).max(U, axis=1, keepdims=True)
        shares = Rows.of(U - top, V, self.T, self.lists)
        return shares, shares.within(U - top)[0] + top

    def _error(self, U: Array, V: Array, shares: Rows) -> Array:
        """(n, K), the errors of the columns."""
        xp, blocks = array_namespace(U), self.blocks
        sums = xp.stack([own.total for own in shares.each])
        vs = xp.take(V.T, self.lists.owner, axis=0).T
        phi = xp.log(sums) / self.T + vs * xp.max(U, axis=1, keepdims=True)
        logits = blocks.by_source(U, phi / xp.where(vs > 0, vs, xp.ones_like(vs)))
        whole = xp.where(blocks.set_sizes > 1, xp.ones_like(blocks.set_sizes), 0 * blocks.set_sizes)
        vk = blocks.by_teacher(V)
        vk = xp.where((whole > 0) & (vk <= 0), xp.ones_like(vk), vk)
        return samples_first(blocks.center(self.Z - logits * vk))

    def newton(self, point: Point, mu: Array) -> Array:
        """Return the approximate damped step; v is eliminated, since second derivatives by v are a diagonal."""
        xp, (gu, gv), system = array_namespace(point.x), self.parts(point.gradient), self.many(point, mu)
        target = system.from_v(gv / system.dv) - gu
        length = xp.sqrt(xp.sum(target**2 / system.about, axis=1) / xp.sum(system.about, axis=1))
        step_u = solve_system(system, target, xp.clip(xp.sqrt(length), 1e-5, 0.1))
        return xp.concat([step_u, -(gv + system.by_v(step_u)) / system.dv], axis=1)

    def many(self, point: Point, mu: Array) -> System:
        """Return the damped Hessian, with v eliminated."""
        xp, lists, (U, V), w = array_namespace(point.x), self.lists, self.parts(point.x), self.w[None, :]
        shares, b = self._shares(U, V)
        we = samples_first(point.u * self.blocks.by_teacher(w))
        we_sets = self.blocks.of_sets(we)
        vs, ws = (xp.take((part + 0 * V).T, lists.owner, axis=0).T for part in (V, w))
        means = lists.over_teachers(U, b) * (w / self.blocks.sizes)
        bent = self.T * we_sets * vs
        size, size_sets = lists.from_teachers(w * V**2)
        vv = self.lam * w + w * lists.over_teachers(U**2, b**2) - means * lists.over_teachers(U, b)
        top = xp.max(U, axis=1, keepdims=True)
        variance = self.T * (shares.within((U - top) ** 2)[0] - (b - top) ** 2)
        scale_v = xp.maximum(vv, self.lam * w)
        gv = self.parts(point.gradient)[1]
        free = gv < V * scale_v
        dv = xp.where(free, vv - lists.sets(we_sets * variance), scale_v) + mu[:, None] * scale_v
        given, lost = shares.weigh(size_sets, bent * vs)
        scale = self.lam + size + given
        diagonal = self.lam + size - lost + mu[:, None] * scale
        return System(
            lists,
            shares,
            U,
            V,
            w,
            we,
            b,
            means,
            bent,
            diagonal,
            ws * vs**2 + bent * vs,
            xp.maximum(dv, LEAST_BEND * scale_v),
            xp.astype(free, V.dtype),
            xp.maximum(diagonal, 0.1 * scale),
        )

    def search(self, point: Point, step: Array, better: Callable[[Point, Point], Array]) -> Point:
        """See `many_fit.shorter`."""
        return shorter(self, point, step, better)
