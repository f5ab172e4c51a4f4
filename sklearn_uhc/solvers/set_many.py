"""MF-LF with sets, and starts of the other methods, for too many classes to use matrices of them.

If every set is split evenly, phi is linear in u: the normal equations of MF-LF are the same for all samples, and are
solved by conjugate gradients. MF-LF itself continues from there by Newton's method (`set_fit`).
"""

from __future__ import annotations

from dataclasses import dataclass

from array_api_compat import array_namespace

from sklearn_uhc.solvers.blocks import Array, Solution
from sklearn_uhc.solvers.conjugate import solve_products
from sklearn_uhc.solvers.set_fit import MF_LF, solve_sets
from sklearn_uhc.solvers.sets import Columns, SetBlocks

#: Relative precision of the start.
START_SHARE = 1e-6


@dataclass(frozen=True)
class ManyClasses:
    """Like `set_mf_lf.EvenSplit`, without matrices."""

    blocks: SetBlocks
    weight: Array | None

    def solve(self, Z: Array, *, tol: float, max_iter: int) -> Solution:
        """Minimise for logits Z (n, K) at temperature 1; `u` has mean 0 in every group."""
        return solve_sets(Z, self.even(Z), MF_LF, self.blocks, tol=tol, max_iter=max_iter, weight=self.weight)

    def starts(self, Z: Array) -> tuple[Array, ...]:
        """Return the starts of other methods: the evenly split solution, (n, L)."""
        return (self.even(Z),)

    def even(self, Z: Array) -> Array:
        """Return the solution with evenly split sets, (n, L)."""
        xp, blocks = array_namespace(Z), self.blocks
        w = blocks.by_teacher((xp.ones_like(blocks.sizes) if self.weight is None else self.weight)[None, :])
        sizes = blocks.of_sets(blocks.set_sizes[None, :])
        even = Columns(Z, xp.ones_like(Z[:1, :1]), sizes)

        def product(x: Array) -> Array:
            return blocks.pull(w * blocks.center(blocks.push(x, even)), even)

        b = blocks.pull(w * blocks.center(Z - xp.log(blocks.set_sizes)), even)
        diagonal = blocks.pull(w + xp.zeros_like(Z[:1, :]), even) + xp.zeros_like(b)
        return solve_products(product, b, diagonal, START_SHARE + xp.zeros_like(b[:, 0]))
