"""Conjugate gradients for many systems at once, each stopping on its own, without storing the matrices.

Solves H x = b for symmetric H given as a product, with a diagonal preconditioner. If H has negative curvature, a sample
stops at its current x, which still leads downhill if b is minus a gradient.
"""

from __future__ import annotations

from collections.abc import Callable

from array_api_compat import array_namespace

from sklearn_uhc.solvers.blocks import Array

#: Maximum number of products.
MOST_PRODUCTS = 200
#: Curvature below this share of the preconditioner's is treated as zero.
FLAT = 1e-13


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
