"""CE, cross-entropy against every teacher."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sklearn_uhc.merging.method import Merged, SoftLabelMethod, losses
from sklearn_uhc.solvers.blocks import Blocks, softmax
from sklearn_uhc.solvers.ce import CrossEntropy, solve_ce
from sklearn_uhc.solvers.class_fit import solve_sets, tempered
from sklearn_uhc.solvers.incidence import Array
from sklearn_uhc.solvers.plain_blocks import PlainBlocks
from sklearn_uhc.solvers.set_blocks import SetBlocks

__all__ = ["CrossEntropyUnifier"]


class CrossEntropyUnifier(SoftLabelMethod):
    r"""CE: the q whose restriction to each teacher's classes is closest to that teacher.

    .. math:: J(q) = -\sum_i \sum_{l \in L_i} p_i(l) \log \frac{q_l}{\sum_{k \in L_i} q_k}

    J is convex in the logits of q, and is solved to the optimum by Newton's method on a dual with one variable per
    teacher. If a column stands for a set of classes, q is summed over the set at temperature 1, then tempered like the
    teacher's answer. J need not be convex then; the result is the optimum reached from even shares within every set.

    Parameters
    ----------
    class_lists : list of lists, default=None
        Classes of each teacher, in the order of the blocks. None: one block whose columns are the classes.
    temperature : float, default=1.0
        The logits of every teacher are divided by it first.
    tol : float, default=1e-9
        A sample is solved if no entry of the dual gradient (with sets: of the gradient by the logits of q) exceeds it.
    max_iter : int, default=200
        Largest number of Newton steps; problems of the paper's size take 4 to 8.
    teacher_weight : array-like of N positive numbers, default=None
        Weight of each teacher: its cross-entropy counts that often in J, as if there were that many such teachers.
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
        Newton steps of the slowest sample given to `fit`.
    max_residual_ : float
        Largest entry of that gradient over the samples given to `fit`: the optimality certificate.
    n_not_converged_ : int
        Number of samples given to `fit` that stopped at `max_iter` without a certificate of optimality.
    n_ill_conditioned_ : int
        Always 0: the result is determined to 1e-8, however weakly teachers are linked.

    Examples
    --------
    Two teachers that share one class determine the odds between all three.

    >>> import numpy as np
    >>> from sklearn_uhc import CrossEntropyUnifier
    >>> log_p = np.log([[0.8, 0.2, 0.5, 0.5]])
    >>> CrossEntropyUnifier([["a", "b"], ["b", "c"]], temperature=1).fit_transform(log_p).round(4)
    array([[0.6667, 0.1667, 0.1667]])
    """

    _positive = ("temperature", "tol", "max_iter")

    def __init__(
        self,
        class_lists: Sequence[Any] | None = None,
        *,
        temperature: float = 1.0,
        tol: float = 1e-9,
        max_iter: int = 200,
        teacher_weight: Sequence[float] | None = None,
        abstain: bool = False,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.class_lists = class_lists
        self.temperature = temperature
        self.tol = tol
        self.max_iter = max_iter
        self.teacher_weight = teacher_weight
        self.abstain = abstain
        self.n_jobs = n_jobs
        self.verbose = verbose

    def merge(self, Z: Array, blocks: Blocks, weight: Array | None) -> Merged:
        """Minimise J. See `SoftLabelMethod.merge`."""
        options: Any = {"tol": self._tolerance(self.tol, Z), "max_iter": int(self.max_iter), "weight": weight}
        if isinstance(blocks, SetBlocks):
            T = float(self.temperature)
            solved = solve_sets(CrossEntropy(), tempered(Z, T, blocks), Z, blocks, T=T, **options)
            return Merged.of(softmax(solved.u), solved)
        assert isinstance(blocks, PlainBlocks)
        solved = solve_ce(self._tempered(Z, blocks), blocks, **options)
        return Merged.of(solved.u, solved)

    def make_loss(self, class_lists: Any, **of_teachers: Any) -> Any:
        """Return CE-BP. See `SoftLabelMethod.make_loss`."""
        return losses().CrossEntropyUnifierLoss(class_lists, temperature=self.temperature, **of_teachers)
