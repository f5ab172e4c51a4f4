"""Conjugate gradients for many systems at once, each stopping on its own, without storing the matrices.

Solves H x = b for symmetric H given as a product, with a diagonal preconditioner. If H has negative curvature, a sample
stops at its current x, which still leads downhill if b is minus a gradient.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from array_api_compat import array_namespace, device

from sklearn_uhc.solvers.blocks import Array
from sklearn_uhc.solvers.incidence import take_samples

#: Maximum number of products.
MOST_PRODUCTS = 200
#: Curvature below this share of the preconditioner's is treated as zero.
FLAT = 1e-13
#: Smallest size of negative curvature, likewise.
LEAST = 0.1
#: Samples that are done leave when at most this share is left.
CROWDED = 0.8


def solve_products(product: Callable[[Array], Array], b: Array, diagonal: Array, share: Array) -> Array:
    """Solve H x = b (n, L) until the residual, in the preconditioner's norm, has fallen to `share` (n,) of its start.

    Parameters
    ----------
    product : function of an array (n, L)
        Returns H x.
    b : Array
        (n, L)
    diagonal : Array
        (n, L), positive: about the diagonal of H.
    share : Array
        (n,)
    """
    xp = array_namespace(b)
    x, r = xp.zeros_like(b), b
    z = r / diagonal
    p, rz = z, xp.sum(r * z, axis=1)
    goal = share**2 * rz
    active = rz > 0
    for step in range(MOST_PRODUCTS):
        Hp = product(p)
        bend = xp.sum(p * Hp, axis=1)
        downwards = bend <= FLAT * xp.sum(p * p * diagonal, axis=1)
        if step == 0 and bool(xp.any(active & downwards)):
            x = xp.where((active & downwards)[:, None], z, x)
        active = active & ~downwards
        if not bool(xp.any(active)):
            break
        far = xp.where(active, rz / xp.where(active, bend, xp.ones_like(bend)), xp.zeros_like(rz))
        x = x + far[:, None] * p
        r = r - far[:, None] * Hp
        z = r / diagonal
        new = xp.sum(r * z, axis=1)
        active = active & (new > goal)
        if not bool(xp.any(active)):
            break
        p = z + (new / xp.where(rz > 0, rz, xp.ones_like(rz)))[:, None] * p
        rz = new
    return x


class System(Protocol):
    """A system per sample."""

    @property
    def about(self) -> Array:
        """(n, L), positive: about the diagonal of H."""

    def product(self, x: Array) -> Array:
        """Return H x."""

    def keep(self, rows: Array) -> Any:
        """Return the systems of some samples."""


def solve_system(system: System, b: Array, share: Array) -> Array:
    """Like `solve_products`; samples that are done leave when they are a few."""
    xp, out = array_namespace(b), array_namespace(b).zeros_like(b)
    rows, x, r = xp.arange(b.shape[0], device=device(b)), out, b
    z = r / system.about
    p, rz = z, xp.sum(r * z, axis=1)
    goal, active = share**2 * rz, rz > 0
    for step in range(MOST_PRODUCTS):
        Hp = system.product(p)
        bend = xp.sum(p * Hp, axis=1)
        about = xp.sum(p * p * system.about, axis=1)
        downwards = bend <= FLAT * about
        # Negative curvature counts as positive, and ends the search.
        bend = xp.where(downwards, xp.maximum(-bend, LEAST * about), bend)
        far = xp.where(active, rz / xp.where(active, bend, xp.ones_like(bend)), xp.zeros_like(rz))
        active = active & ~downwards
        x = x + far[:, None] * p
        r = r - far[:, None] * Hp
        z = r / system.about
        new = xp.sum(r * z, axis=1)
        active = active & (new > goal)
        p = z + (new / xp.where(rz > 0, rz, xp.ones_like(rz)))[:, None] * p
        rz = new
        left = xp.nonzero(active)[0]
        if left.shape[0] <= CROWDED * rows.shape[0]:
            out[rows, :] = x
            if not left.shape[0]:
                break
            system, rows, goal, rz, active = system.keep(left), rows[left], goal[left], rz[left], active[left]
            x, r, p = (take_samples(part, left) for part in (x, r, p))
    out[rows, :] = x
    return out
