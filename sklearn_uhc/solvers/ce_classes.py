"""CE with one variable per class: Newton's method on J itself, for more teachers than classes.

    J(u)       = - sum_l a_l u_l + sum_i w_i log sum_{k in L_i} exp(u_k),      a_l = sum_{i: l in L_i} w_i p_i(l)
    gradient_l = sum_{i: l in L_i} w_i q_i(l) - a_l,      q_i = softmax of u on the classes of teacher i
    Hessian    = diag(sum_i w_i q_i) - sum_i w_i q_i q_i'

Scaled by its diagonal, the Hessian is I - A A' where that of the dual in `ce.py` is I - A'A, so both are equally well
conditioned. The optimum is that of the dual with theta_i = log w_i - log sum_{k in L_i} exp(u_k), whose residual counts
in the end: here, classes with very small a hardly affect the residual.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from sklearn_uhc.solvers.blocks import Array, Blocks
from sklearn_uhc.solvers.ce_chords import MAX_STEP
from sklearn_uhc.solvers.incidence import array_namespace, at_least, like_array, take_samples, to_cpu
from sklearn_uhc.solvers.newton import Found, Point, limit_step, minimize
from sklearn_uhc.solvers.pairs import Pairs

#: Smallest sum of probabilities: its logarithm must be finite.
LEAST = 1e-300


class ClassPairs(NamedTuple):
    """Sums over the teachers that know two classes."""

    order: Array  #: (K,), columns sorted by class
    pairs: Pairs  #: of these, with the roles of teachers and classes exchanged
    together: Array  #: (L, L), 1 for classes of the same group

    @classmethod
    def of(cls, blocks: Blocks) -> ClassPairs:
        """Prepare the class lists of `blocks`."""
        class_of, teacher_of, group = (to_cpu(x) for x in (blocks.class_of, blocks.teacher_of, blocks.component_of))
        order = np.argsort(class_of, kind="stable")
        pairs = Pairs(teacher_of[order], class_of[order], blocks.n_classes, blocks.n_teachers, blocks.sizes)
        together = (group[:, None] == group).astype(float)
        return cls(like_array(order, blocks.sizes), pairs, like_array(together, blocks.sizes))


@dataclass(frozen=True)
class CrossEntropyByClasses:
    """J(u) for the sums a (n, L) of the teachers' weighted probabilities."""

    a: Array
    blocks: Blocks
    w: Array  #: (N,)
    begin: Array  #: (n, L)
    rounding: float = 1.0
    flat: float = 1e-15
    nothing: float = 0.0

    def __len__(self) -> int:
        return int(self.a.shape[0])

    def start(self) -> Array:
        """Return the start."""
        return self.begin

    def at(self, u: Array) -> Point:
        """Return J, its gradient, and the largest entry of the gradient; the q_i (n, K) are stored."""
        xp, blocks = array_namespace(u), self.blocks
        logits, sums = blocks.by_class(u), log_sums(blocks, u)
        q = xp.exp(logits - blocks.by_teacher(sums))
        value = xp.sum(self.w * sums, axis=1) - xp.sum(self.a * u, axis=1)
        gradient = blocks.sum_classes(q * blocks.by_teacher(self.w[None, :])) - self.a
        return Point(u, q, value, gradient, xp.max(xp.abs(gradient), axis=1))

    def curvature(self, point: Point) -> tuple[Array, Array, Array]:
        """Return the Hessian, and its diagonal term as the scale."""
        xp, blocks = array_namespace(point.x), self.blocks
        order, pairs, together = blocks.once("ce by classes", lambda: ClassPairs.of(blocks))
        d = at_least(point.gradient + self.a, LEAST)
        root = point.u * xp.sqrt(blocks.by_teacher(self.w[None, :]))
        B = -pairs.products(xp.take(root, order, axis=1))
        # The gradient has no component along the common shift of a group: filling that null space, d in these units,
        # keeps it out of the step as well.
        B += together * (d / (d @ together))[:, :, None] * d[:, None, :]
        return B, d, d

    def safe(self, point: Point) -> Array:
        """Return the next point of the MM iteration: u_l + log(a_l / (sum_i w_i q_i)_l)."""
        xp = array_namespace(point.x)
        return point.x + xp.log(at_least(self.a, LEAST) / at_least(point.gradient + self.a, LEAST))

    def move(self, u: Array, step: Array) -> Array:
        """Add the step, shortened if it is too long."""
        return u + limit_step(step, MAX_STEP)

    def reach(self, u: Array) -> float:
        """Return 1: a step in u is relative."""
        return 1.0

    def keep(self, rows: Array) -> CrossEntropyByClasses:
        """Return the problem of some samples."""
        return replace(self, a=take_samples(self.a, rows), begin=self.begin[rows, :])


def log_sums(blocks: Blocks, u: Array) -> Array:
    """Return (n, N), log sum_{k in L_i} exp(u_k)."""
    xp, logits = array_namespace(u), blocks.by_class(u)
    top = blocks.largest(logits)
    return top + xp.log(blocks.sum_teachers(xp.exp(logits - blocks.by_teacher(top))))


def minimize_by_classes(a: Array, blocks: Blocks, w: Array, theta: Array, *, tol: float, max_iter: int) -> Found:
    """Minimise J from theta (n, N); the result is theta, and the residual that of J."""
    xp = array_namespace(a)
    begin = xp.log(at_least(a, LEAST)) - xp.log(blocks.sum_owners(xp.exp(theta)))
    room = max(16, min(2000, 3 * 2**18 // (len(blocks.class_of) + blocks.n_classes**2)))
    found = minimize(CrossEntropyByClasses(a, blocks, w, begin), tol=tol, max_iter=max_iter, damping=1e-8, room=room)
    return found._replace(x=xp.log(w) - log_sums(blocks, found.x))
