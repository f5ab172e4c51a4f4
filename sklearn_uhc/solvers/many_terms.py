"""The objectives of CE, MF-LF and MF-P by x = (u, phi of the sets), for many classes: sums over lists only.

With N x the sums over the columns of each teacher (`many_sources.Lists`) and e = exp(x),

    CE      sum_i w_i log (N e)_i - a'x,                        a the sums of w_i p over columns
    MF-LF   1/2 x'Dx - 1/2 sum_i w_i (N x)_i^2 / k_i - b'x,     b those of w_i times centred logits, D of w_i
    MF-P    1/2 sum_i w_i sum_k (p_k - v_i e_k)^2,              optimal v_i

which are those of `set_terms`, up to a constant per sample. The Hessian by x is always

    diag(h) - sum_i c_i a_i a_i',      a_i the part of f that teacher i has columns of

and for MF-P a_i has a second part, w_i v_i p e.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

from sklearn_uhc.solvers.blocks import Array
from sklearn_uhc.solvers.incidence import array_namespace, samples_first, take_samples
from sklearn_uhc.solvers.many_sources import Lists


class Parted(NamedTuple):
    """A number per class and per set."""

    u: Array  #: (n, L)
    sets: Array  #: (n, S)

    def __mul__(self, other: Parted) -> Parted:  # type: ignore[override]
        return Parted(self.u * other.u, self.sets * other.sets)

    def minus(self, other: Parted) -> Parted:
        """Return the difference."""
        return Parted(self.u - other.u, self.sets - other.sets)

    def plus(self, other: Parted) -> Parted:
        """Return the sum."""
        return Parted(self.u + other.u, self.sets + other.sets)

    def dot(self, other: Parted) -> Array:
        """(n,), sum of products."""
        return _dot(self.u, other.u) + _dot(self.sets, other.sets)

    def keep(self, rows: Array) -> Parted:
        """Return some samples."""
        return Parted(take_samples(self.u, rows), take_samples(self.sets, rows))


class Slope(NamedTuple):
    """The objective (n,) and its derivative by x."""

    value: Array
    by: Parted


@dataclass(frozen=True)
class Bend:
    """Second derivatives by x: diag(h) - sum_i c_i a_i a_i', a_i the part of s_i f - t_i P e that teacher i has."""

    h: Parted
    size: Parted  #: nonnegative: scale of every class and set
    c: Array  #: (n, N)
    lists: Lists
    f: Parted | None = None  #: None: 1
    s: Array | float = 1.0  #: (n, N)
    e: Parted | None = None
    t: Array | float = 1.0  #: (n, N)
    P: Array | None = None  #: (n, K)

    def product(self, x: Parted) -> Parted:
        """Return the product with x."""
        lists, f, P, e, t = self.lists, self.f, self.P, self.e, self.t
        along = self.s * over(lists, x if f is None else f * x)
        if P is not None and e is not None:
            along = along - t * lists.weigh(P, *(e * x))
        along = self.c * along
        back = under(lists, self.s * along)
        out = (self.h * x).minus(back if f is None else f * back)
        if P is not None and e is not None:
            out = out.plus(e * Parted(*lists.weigh_back(P, t * along)))
        return out

    def keep(self, rows: Array) -> Bend:
        """Return that of some samples."""
        names = ("h", "size", "c", "f", "s", "e", "t", "P")
        kept: dict[str, Any] = {name: _keep(getattr(self, name), rows) for name in names}
        return replace(self, **kept)


class Terms(Protocol):
    """An objective as a function of x."""

    def prepare(self, X: Array, w: Array, lists: Lists) -> Array:
        """Return what the objective needs of the tempered answers X (n, K)."""

    def slope(self, x: Parted, X: Array, w: Array, lists: Lists) -> Slope:
        """Return value and derivative."""

    def bend(self, x: Parted, X: Array, w: Array, lists: Lists) -> Bend:
        """Return second derivatives."""


class CrossEntropy:
    """CE."""

    def prepare(self, P: Array, w: Array, lists: Lists) -> Array:
        """Return a (n, L + S)."""
        return lists.columns(P * lists.blocks.by_teacher(w[None, :]))

    def slope(self, x: Parted, a: Array, w: Array, lists: Lists) -> Slope:
        """Return value and derivative."""
        xp, e, a = array_namespace(x.u), _exp(x), parted(a, lists)
        total = over(lists, e)
        return Slope(xp.log(total) @ w - a.dot(x), (e * under(lists, w / total)).minus(a))

    def bend(self, x: Parted, a: Array, w: Array, lists: Lists) -> Bend:
        """Return second derivatives."""
        e = _exp(x)
        total = over(lists, e)
        mass = e * under(lists, w / total)
        return Bend(mass, mass, w / total**2, lists, e)


class LogitError:
    """MF-LF."""

    def prepare(self, Z: Array, w: Array, lists: Lists) -> Array:
        """Return b (n, L + S)."""
        return lists.columns(lists.blocks.center(Z) * lists.blocks.by_teacher(w[None, :]))

    def slope(self, x: Parted, b: Array, w: Array, lists: Lists) -> Slope:
        """Return value and derivative."""
        mass, b = self._mass(w, lists), parted(b, lists)
        Ax = (mass * x).minus(under(lists, over(lists, x) * (w / lists.blocks.sizes)))
        by = Ax.minus(b)
        return Slope(0.5 * by.minus(b).dot(x), by)

    def bend(self, x: Parted, b: Array, w: Array, lists: Lists) -> Bend:
        """Return second derivatives."""
        xp, mass = array_namespace(b), self._mass(w, lists)
        none = xp.zeros_like(x.u[:, :1])
        mass = Parted(mass.u + none, mass.sets + none)
        return Bend(mass, mass, w / lists.blocks.sizes + none, lists)

    def _mass(self, w: Array, lists: Lists) -> Parted:
        return under(lists, w[None, :])


class ProbabilityError:
    """MF-P."""

    def prepare(self, P: Array, w: Array, lists: Lists) -> Array:
        """Return P (n, K)."""
        return samples_first(P)

    def slope(self, x: Parted, P: Array, w: Array, lists: Lists) -> Slope:
        """Return value and derivative."""
        xp, e = array_namespace(P), _exp(x)
        v, squares = self._scales(e, P, lists)
        wv = w * v
        pulled = Parted(*lists.weigh_back(P, wv))
        by = e * (e * under(lists, wv * v)).minus(pulled)
        return Slope(-0.5 * xp.sum(wv * v * squares, axis=1), by)

    def bend(self, x: Parted, P: Array, w: Array, lists: Lists) -> Bend:
        """Return second derivatives."""
        xp, e = array_namespace(P), _exp(x)
        v, squares = self._scales(e, P, lists)
        wv = w * v
        size = e * e * under(lists, wv * v)
        c = 1 / xp.clip(wv * v * squares, 1e-200, None)
        h = size.plus(size).minus(e * Parted(*lists.weigh_back(P, wv)))
        return Bend(h, size, c, lists, e * e, 2 * wv * v, e, wv, P)

    def _scales(self, e: Parted, P: Array, lists: Lists) -> tuple[Array, Array]:
        """(n, N) twice: v given e, and the sums of e^2."""
        xp = array_namespace(P)
        squares = xp.clip(over(lists, e * e), float(xp.finfo(P.dtype).tiny), None)
        return lists.weigh(P, *e) / squares, squares


def over(lists: Lists, x: Parted) -> Array:
    """Sum x over the columns of every teacher, (n, N)."""
    return lists.over_teachers(x.u, x.sets)


def under(lists: Lists, v: Array) -> Parted:
    """Sum v (n, N) over the teachers that have a column of every class or set."""
    return Parted(*lists.from_teachers(v))


def parted(x: Array, lists: Lists) -> Parted:
    """Split (n, L + S) into classes and sets."""
    L = lists.blocks.n_classes
    return Parted(x[:, :L], x[:, L:])


def _exp(x: Parted) -> Parted:
    xp = array_namespace(x.u)
    return Parted(xp.exp(x.u), xp.exp(x.sets))


def _dot(a: Array, b: Array) -> Array:
    return array_namespace(a).sum(a * b, axis=1)


def _keep(part: Any, rows: Array) -> Any:
    """Return some samples of an array or a `Parted`; numbers and None are for all."""
    if part is None or isinstance(part, float):
        return part
    return part.keep(rows) if isinstance(part, Parted) else take_samples(part, rows)
