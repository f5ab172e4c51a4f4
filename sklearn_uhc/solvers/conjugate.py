"""Conjugate gradients for many systems at once, each stopping on its own, without storing the matrices.

Solves H x = b for symmetric H given as a product, with a diagonal preconditioner. A sample ends where H has negative
curvature, after a step in that direction as if it were positive: if b is minus a gradient, x still leads downhill.
"""

from __future__ import annotations

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
    """Solve H x = b (n, L) until the residual, in the preconditioner's norm, has fallen to `share` (n,) of its start.

    Samples that are done leave as soon as they are a few.
    """
    xp, out = array_namespace(b), array_namespace(b).zeros_like(b)
    rows, x, r = xp.arange(b.shape[0], device=device(b)), out, b
    z = r / system.about
    p, rz = z, xp.sum(r * z, axis=1)
    goal, active = share**2 * rz, rz > 0
    for _ in range(MOST_PRODUCTS):
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
