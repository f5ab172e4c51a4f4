"""SD, standard distillation: the naive baseline."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from array_api_compat import array_namespace, device

from sklearn_uhc.merging.cross_entropy import CrossEntropyUnifier
from sklearn_uhc.merging.method import Merged, SoftLabelMethod
from sklearn_uhc.solvers import blocks_of
from sklearn_uhc.solvers.blocks import Blocks, softmax
from sklearn_uhc.solvers.ce import CrossEntropy
from sklearn_uhc.solvers.class_fit import solve_by_classes
from sklearn_uhc.solvers.incidence import Array
from sklearn_uhc.solvers.plain_blocks import PlainBlocks
from sklearn_uhc.solvers.set_blocks import SetBlocks

__all__ = ["StandardDistillation"]

#: Tolerance and iterations with sets, and what is added to the mean of even splits as a start: no class begins at 0.
TOL, MAX_ITER, START = 1e-9, 1000, 1e-6


class StandardDistillation(SoftLabelMethod):
    r"""SD: average the teachers, with probability 0 for the classes that a teacher does not know.

    .. math:: q_l = \frac{1}{N} \sum_{i:\, l \in L_i} p_i(l)

    This is the paper's baseline. It is exact if all teachers share one class list, and wrong otherwise: a class that a
    teacher does not know counts as a vote against it.

    If columns stand for sets of classes, q minimises the cross-entropy against all teachers, each with probability 0
    for the classes in none of its columns. If every list has OTHER, this is CE, and right.

    Parameters
    ----------
    class_lists : list of lists, default=None
        Classes of each teacher, in the order of the blocks. None: one block whose columns are the classes.
    temperature : float, default=1.0
        The logits of every teacher are divided by it first.
    teacher_weight : array-like of N positive numbers, default=None
        Weight of each teacher: the mean over teachers becomes a weighted mean.
    abstain : bool, default=False
        Whether a teacher may leave a row unanswered, by NaN in its whole block. It is then left out for that row.
    n_jobs : int, default=None
        Number of chunks of rows solved at the same time, in threads. None: 1, or that of `joblib.parallel_config`.
    verbose : int, default=0
        1 shows a progress bar.

    Attributes
    ----------
    classes_ : ndarray of shape (L,)
        All classes, sorted.
    label_space_ : LabelSpace
        Blocks and connected components of the lists.
    n_iter_ : int
        1; with sets, Newton steps of the slowest sample given to `fit`.
    max_residual_ : float
        0; with sets, the largest entry of the gradient by the logits of q over the samples given to `fit`.
    n_not_converged_, n_ill_conditioned_ : int
        0; with sets, samples given to `fit` that were not solved, and 0.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_uhc import StandardDistillation
    >>> log_p = np.log([[0.8, 0.2, 0.5, 0.5]])
    >>> StandardDistillation([["a", "b"], ["b", "c"]], temperature=1).fit_transform(log_p)
    array([[0.4 , 0.35, 0.25]])
    """

    _levels_groups = False  # its zeros determine the probabilities of groups, right or wrong

    def __init__(
        self,
        class_lists: Sequence[Any] | None = None,
        *,
        temperature: float = 1.0,
        teacher_weight: Sequence[float] | None = None,
        abstain: bool = False,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.class_lists = class_lists
        self.temperature = temperature
        self.teacher_weight = teacher_weight
        self.abstain = abstain
        self.n_jobs = n_jobs
        self.verbose = verbose

    def solver(self, blocks: Blocks, weight: Array | None) -> Callable[[Array], Merged]:
        """Complete the lists of all teachers where columns mean sets. See `SoftLabelMethod.solver`."""
        if not isinstance(blocks, SetBlocks):
            return super().solver(blocks, weight)
        if blocks.space.is_shared:  # no teacher leaves a class out, so this is CE
            return CrossEntropyUnifier(temperature=self.temperature, tol=TOL, max_iter=MAX_ITER).solver(blocks, weight)
        space, columns = blocks.space.complete()
        xp, whole = array_namespace(blocks.sizes), blocks_of(space).like(blocks.sizes)
        taken, T = xp.asarray(columns, device=device(blocks.sizes)), float(self.temperature)

        def merge(X: Array) -> Merged:
            P = self._tempered(blocks.shift(X), blocks)
            P = xp.take(xp.concat([P, xp.zeros_like(P[:, :1])], axis=1), taken, axis=1)
            first = xp.log(whole.pull(P, whole.at(xp.zeros_like(P[:, : whole.n_classes]), T)) + START)
            options: Any = {"tol": self._tolerance(TOL, P), "max_iter": MAX_ITER, "weight": weight}
            solved = solve_by_classes(CrossEntropy(), P, first, whole, T=T, vanish=True, **options)
            return Merged.of(softmax(solved.x), solved._replace(well_conditioned=solved.converged))

        return merge

    def merge(self, Z: Array, blocks: Blocks, weight: Array | None) -> Merged:
        """Average the teachers. See `SoftLabelMethod.merge`."""
        assert isinstance(blocks, PlainBlocks)
        P = self._tempered(Z, blocks)
        P = P if weight is None else P * blocks.by_teacher(weight[None, :])
        return Merged(blocks.sum_classes(P) / blocks.n_teachers)

    def _spread(self, Q: Array, blocks: Blocks, classes: Array, n_classes: int) -> Array:
        """Leave classes without any answer at 0, as SD does for all classes that a teacher does not know."""
        xp = array_namespace(Q)
        out = xp.zeros((Q.shape[0], n_classes), dtype=Q.dtype, device=device(Q))
        out[:, classes] = Q
        return out
