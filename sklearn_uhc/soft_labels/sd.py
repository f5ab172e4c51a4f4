"""SD, the naive baseline."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from array_api_compat import array_namespace, device

from sklearn_uhc.soft_labels.base import Merged, SoftLabelMethod
from sklearn_uhc.solvers.blocks import Array, Blocks

__all__ = ["StandardDistillation"]


class StandardDistillation(SoftLabelMethod):
    r"""SD: average the teachers, each taken to say 0 for the classes it does not know.

    .. math:: q_l = \frac{1}{N} \sum_{i:\, l \in L_i} p_i(l)

    The baseline of the paper, exact when all teachers share one class list and wrong otherwise: a teacher's ignorance
    counts as a vote against.

    Parameters
    ----------
    class_lists : list of lists, default=None
        Classes of each teacher, in block order. None: one block, its columns are the classes.
    temperature : float, default=3.0
        Divides the logits of every teacher first.
    teacher_weight : array-like of N positive numbers, default=None
        Trust in each teacher: the mean over teachers becomes a weighted mean.
    abstain : bool, default=False
        Whether a teacher may be silent about a row: NaN in its whole block. It is left out for that row.
    verbose : int, default=0
        1 shows a progress bar.

    Attributes
    ----------
    classes_ : ndarray of shape (L,)
        The union of all lists, sorted.
    label_space_ : LabelSpace
        Blocks and connected components of the lists.
    n_iter_ : int
        Always 1.
    max_residual_ : float
        Always 0.
    n_not_converged_ : int
        Always 0.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_uhc import StandardDistillation
    >>> log_p = np.log([[0.8, 0.2, 0.5, 0.5]])
    >>> StandardDistillation([["a", "b"], ["b", "c"]], temperature=1).fit_transform(log_p)
    array([[0.4 , 0.35, 0.25]])
    """

    _levels_groups = False  # its zeros fix the mass between groups, right or wrong

    def __init__(
        self,
        class_lists: Sequence[Any] | None = None,
        *,
        temperature: float = 3.0,
        teacher_weight: Sequence[float] | None = None,
        abstain: bool = False,
        verbose: int = 0,
    ) -> None:
        self.class_lists = class_lists
        self.temperature = temperature
        self.teacher_weight = teacher_weight
        self.abstain = abstain
        self.verbose = verbose

    def merge(self, Z: Array, blocks: Blocks, weight: Array | None) -> Merged:
        """Average the teachers. See `SoftLabelMethod.merge`."""
        P = self._tempered(Z, blocks)
        P = P if weight is None else P * blocks.by_teacher(weight[None, :])
        return Merged(P @ blocks.to_class / len(blocks.M))

    def _spread(self, Q: Array, blocks: Blocks, classes: Array, n_classes: int) -> Array:
        """Leave classes that nobody answers for at 0, as SD does with all that a teacher does not know."""
        xp = array_namespace(Q)
        out = xp.zeros((Q.shape[0], n_classes), dtype=Q.dtype, device=device(Q))
        out[:, classes] = Q
        return out
