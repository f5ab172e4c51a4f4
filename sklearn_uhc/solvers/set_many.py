"""MF-LF with sets, and starts of the other methods, for too many classes to use matrices of them.

If every set is split evenly, phi is linear in u, and MF-LF is one Gauss-Newton step, by conjugate gradients. MF-LF
itself continues from there by Newton's method (`many_fit`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from array_api_compat import array_namespace

from sklearn_uhc.solvers.blocks import Array, Solution
from sklearn_uhc.solvers.conjugate import solve_system
from sklearn_uhc.solvers.many_fit import ManyFit
from sklearn_uhc.solvers.set_fit import MF_LF, SetFit
from sklearn_uhc.solvers.set_stages import solve_sets
from sklearn_uhc.solvers.sets import SetBlocks

#: Relative precision of the start.
START_SHARE = 1e-6


@dataclass(frozen=True)
class ManyClasses:
    """Like `set_mf_lf.EvenSplit`, without matrices."""

    blocks: SetBlocks
    weight: Array | None

    def solve(self, Z: Array, *, tol: float, max_iter: int) -> Solution:
        """Minimise for logits Z (n, K) at temperature 1; `u` has mean 0 in every group."""
        return solve_sets(
            Z, self.even(Z), MF_LF, self.blocks, tol=tol, max_iter=max_iter, weight=self.weight, make=ManyFit.of
        )

    def starts(self, Z: Array) -> tuple[Array, ...]:
        """Return the starts of other methods: the evenly split solution, (n, L)."""
        return (self.even(Z),)

    def even(self, Z: Array) -> Array:
        """Return the solution with evenly split sets, (n, L): a Gauss-Newton step of MF-LF from u = 0."""
        xp, blocks = array_namespace(Z), self.blocks
        w = xp.ones_like(blocks.sizes) if self.weight is None else self.weight
        zero = Z[:, :1] * xp.zeros_like(blocks.has_own, dtype=Z.dtype)
        fit = ManyFit.of(Z, zero, xp.ones_like(Z[:, 0]), MF_LF, w, 1.0, blocks, 0.0)
        point = fit.at(zero)
        system = fit.system(point._replace(u=0 * point.u), xp.zeros_like(Z[:, 0]))
        return solve_system(system, -point.gradient, START_SHARE + xp.zeros_like(Z[:, 0]))


def problem_of(blocks: SetBlocks) -> Callable[..., SetFit]:
    """Return how to make the problem of CE, MF-LF or MF-P, depending on the number of classes."""
    return SetFit if blocks.is_small else ManyFit.of
