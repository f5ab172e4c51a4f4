"""MF-P, MF-LU and MF-LF: matrix factorization with missing entries."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from array_api_compat import array_namespace

from sklearn_uhc.merging.method import CHUNK_NUMBERS, CHUNK_ROWS, Merged, SoftLabelMethod, losses
from sklearn_uhc.merging.scales import root_of
from sklearn_uhc.solvers.blocks import Blocks, softmax
from sklearn_uhc.solvers.class_fit import solve_sets, tempered
from sklearn_uhc.solvers.incidence import Array
from sklearn_uhc.solvers.mf_lf import LogitAverage, LogitError
from sklearn_uhc.solvers.mf_lu import solve_mf_lu
from sklearn_uhc.solvers.mf_p import NO_GAIN, ProbabilityError, solve_mf_p
from sklearn_uhc.solvers.plain_blocks import PlainBlocks
from sklearn_uhc.solvers.set_blocks import SetBlocks
from sklearn_uhc.spaces.class_sets import refuse_sets

__all__ = ["LogitFactorization", "ProbabilityFactorization", "takes_sets"]


class ProbabilityFactorization(SoftLabelMethod):
    r"""MF-P: the probabilities as a rank-one matrix with missing entries.

    .. math:: \min_{u, v} \lVert M \odot (P - u v^\top) \rVert_F^2
              \quad u^\top 1 = 1,\; u \ge 0,\; v \ge 0

    q is u; v_i is the inverse of the probability that q gives to the classes of teacher i. If two optima tie, earlier
    teachers count more.

    Parameters
    ----------
    class_lists : list of lists, default=None
        Classes of each teacher, in the order of the blocks. None: one block whose columns are the classes.
    temperature : float, default=1.0
        The logits of every teacher are divided by it first.
    tol : float, default=1e-8
        A sample is solved if no entry of the gradient by log v exceeds it, each relative to its teacher's part in the
        fit, and the curvature is nowhere negative.
    max_iter : int, default=1000
        Largest number of steps. Newton steps replace the paper's alternating sweeps: 10 to 40 instead of thousands.
    teacher_weight : array-like of N positive numbers, default=None
        Weight of each teacher: its squared errors count that often, as if there were that many such teachers.
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
        Steps of the slowest sample given to `fit`.
    max_residual_ : float
        Largest relative gradient over the samples given to `fit`: the optimality certificate.
    n_not_converged_ : int
        Number of samples given to `fit` that stopped at `max_iter` without a certificate of local optimality.
    n_ill_conditioned_ : int
        Number of samples given to `fit` whose optimum is so flat (smallest eigenvalue of the Hessian, each variable in
        its own scale, below 1e-6) that rounding may change the result by more than 1e-8. Rounding depends on the batch
        and the library.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_uhc import ProbabilityFactorization
    >>> log_p = np.log([[0.8, 0.2, 0.5, 0.5]])
    >>> ProbabilityFactorization([["a", "b"], ["b", "c"]], temperature=1).fit_transform(log_p).round(4)
    array([[0.6667, 0.1667, 0.1667]])
    """

    _positive = ("temperature", "tol", "max_iter")

    def __init__(
        self,
        class_lists: Sequence[Any] | None = None,
        *,
        temperature: float = 1.0,
        tol: float = 1e-8,
        max_iter: int = 1000,
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
        """Factorise the probabilities. See `SoftLabelMethod.merge`."""
        tol = self._tolerance(self.tol, Z)
        if isinstance(blocks, SetBlocks):
            T, P = float(self.temperature), tempered(Z, float(self.temperature), blocks)
            size = array_namespace(P).sum(
                P**2 * (1.0 if weight is None else blocks.by_teacher(weight[None, :])), axis=1
            )
            options: Any = {"tol": tol, "max_iter": int(self.max_iter), "weight": weight, "size": size, "gain": NO_GAIN}
            solved = solve_sets(ProbabilityError(), P, Z, blocks, T=T, vanish=True, **options)
            return Merged.of(softmax(solved.u), solved)
        assert isinstance(blocks, PlainBlocks)
        # The weighted problem is the plain one for rows multiplied by sqrt(weight): v takes the factor, u does not.
        P = self._tempered(Z, blocks)
        P *= blocks.by_teacher(root_of(weight, blocks))
        solved = solve_mf_p(P, blocks, tol=tol, max_iter=int(self.max_iter))
        return Merged.of(blocks.level_components(solved.u), solved)

    def floats_per_row(self, blocks: Blocks) -> int:
        """Add the Hessian's arrays of teachers by classes. See `SoftLabelMethod.floats_per_row`."""
        return super().floats_per_row(blocks) + 3 * _cube(blocks)

    def make_loss(self, class_lists: Any, **of_teachers: Any) -> Any:
        """Return MF-P-BP. See `SoftLabelMethod.make_loss`."""
        return losses().ProbabilityFactorizationLoss(class_lists, temperature=self.temperature, **of_teachers)


class LogitFactorization(SoftLabelMethod):
    r"""MF-LF and MF-LU: the logits as a rank-one matrix with missing entries and a shift per teacher.

    .. math:: \min_{u, v, c} \lVert M \odot (Z - u v^\top - 1 c^\top) \rVert_F^2
              + \lambda (\lVert u \rVert^2 + \lVert v \rVert^2) \quad v \ge 0

    With `scale="fixed"` (MF-LF), v = 1 and there is no ridge: a linear least-squares problem with the same matrix for
    all samples, so the whole dataset is one matrix product. With `scale="free"` (MF-LU), every teacher has its own
    scale per sample. The result is a local optimum, in nearly all cases the one that the paper's algorithm slowly
    approaches. If two optima tie, earlier teachers count more. MF-LU does not support columns that stand for sets.

    Parameters
    ----------
    class_lists : list of lists, default=None
        Classes of each teacher, in the order of the blocks. None: one block whose columns are the classes.
    scale : {"fixed", "free"}, default="fixed"
        MF-LF or MF-LU.
    temperature : float, default=1.0
        The logits of every teacher are divided by it first.
    lam : float, default=0.01
        The ridge of MF-LU, as in the paper. It has more influence at higher temperatures, since logits are divided by
        them; for `backprop=True` see `docs/guide/any_teacher.md`.
    gauge : {"mean", "paper"}, default="mean"
        MF-LU determines u only up to a scale, which the ridge sets arbitrarily. "mean" uses u times the mean of v as
        the logits, "paper" the raw u.
    tol : float, default=1e-8
        MF-LU: a sample is solved if no entry of the projected gradient by v, relative to ||Z||^2 + lam, exceeds it,
        and the curvature is nowhere negative.
    max_iter : int, default=1000
        MF-LU: largest number of steps. 35 sweeps like the paper's are followed by a few Newton steps; sweeps alone need
        thousands.
    teacher_weight : array-like of N positive numbers, default=None
        Weight of each teacher: its squared errors count that often, as if there were that many such teachers.
        For MF-LU the ridge then applies to sqrt(weight) * v.
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
        Steps of the slowest sample given to `fit`; 1 for MF-LF.
    max_residual_ : float
        Over the samples given to `fit`, the largest entry of the normal equations' error (MF-LF) or of the relative
        projected gradient (MF-LU): the optimality certificate.
    n_not_converged_ : int
        Number of samples given to `fit` that stopped at `max_iter` without a certificate of local optimality.
    n_ill_conditioned_ : int
        Number of samples given to `fit` whose optimum is so flat (smallest eigenvalue of the Hessian, each variable in
        its own scale, below 1e-6) that rounding may change the result by more than 1e-8. Rounding depends on the batch
        and the library.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_uhc import LogitFactorization
    >>> log_p = np.log([[0.8, 0.2, 0.5, 0.5]])
    >>> LogitFactorization([["a", "b"], ["b", "c"]], temperature=1).fit_transform(log_p).round(4)
    array([[0.6667, 0.1667, 0.1667]])
    """

    _positive = ("temperature", "lam", "tol", "max_iter")

    def __init__(
        self,
        class_lists: Sequence[Any] | None = None,
        *,
        scale: str = "fixed",
        temperature: float = 1.0,
        lam: float = 0.01,
        gauge: str = "mean",
        tol: float = 1e-8,
        max_iter: int = 1000,
        teacher_weight: Sequence[float] | None = None,
        abstain: bool = False,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.class_lists = class_lists
        self.scale = scale
        self.temperature = temperature
        self.lam = lam
        self.gauge = gauge
        self.tol = tol
        self.max_iter = max_iter
        self.teacher_weight = teacher_weight
        self.abstain = abstain
        self.n_jobs = n_jobs
        self.verbose = verbose

    def check_params(self) -> None:
        """Raise if a parameter is wrong, before anything is computed."""
        super().check_params()
        for name, allowed in (("scale", ("fixed", "free")), ("gauge", ("mean", "paper"))):
            if getattr(self, name) not in allowed:
                raise ValueError(f"{name} must be one of {allowed}, got {getattr(self, name)!r}.")

    def solver(self, blocks: Blocks, weight: Array | None) -> Callable[[Array], Merged]:
        """Prepare the normal equations of MF-LF, which all rows share. See `SoftLabelMethod.solver`."""
        if self.scale == "free":
            if isinstance(blocks, SetBlocks):
                refuse_sets(blocks.space.class_lists)
            return super().solver(blocks, weight)
        if isinstance(blocks, SetBlocks):
            return lambda X: self._merge_sets(blocks.unshifted(X), blocks, weight)
        assert isinstance(blocks, PlainBlocks)
        equations = LogitAverage.of(blocks, weight)

        def merge(X: Array) -> Merged:
            U, residual = equations.solve(blocks.unshifted(X))  # linear, so the temperature can be applied afterwards
            return Merged(softmax(U / self.temperature), max_residual=float(residual.max()) / self.temperature)

        return merge

    def merge(self, Z: Array, blocks: Blocks, weight: Array | None) -> Merged:
        """Factorise the logits with free scales (MF-LU). See `SoftLabelMethod.merge`."""
        assert isinstance(blocks, PlainBlocks)
        root = root_of(weight, blocks)  # see ProbabilityFactorization
        Z *= blocks.by_teacher(root / self.temperature)
        tol = self._tolerance(self.tol, Z)
        solved = solve_mf_lu(Z, blocks, lam=self.lam, tol=tol, max_iter=int(self.max_iter))
        scale = _mean_scale(solved.v / root, blocks) if self.gauge == "mean" else 1.0
        return Merged.of(softmax(solved.u * scale), solved)

    def _merge_sets(self, Z: Array, blocks: SetBlocks, weight: Array | None) -> Merged:
        """Merge rows by MF-LF if columns stand for sets, which needs iterations but no temperature."""
        options: Any = {"tol": self._tolerance(self.tol, Z), "max_iter": int(self.max_iter), "weight": weight}
        solved = solve_sets(LogitError(), Z, Z, blocks, **options)
        return Merged.of(softmax(solved.u / self.temperature), solved)

    def floats_per_row(self, blocks: Blocks) -> int:
        """Add the Hessian's arrays of teachers by classes, for MF-LU. See `SoftLabelMethod.floats_per_row`."""
        return super().floats_per_row(blocks) + (5 * _cube(blocks) if self.scale == "free" else 0)

    def chunk_rows(self, blocks: Blocks) -> int:
        """Take fewer numbers for MF-LF, which has no batch to fill. See `SoftLabelMethod.chunk_rows`."""
        if self.scale == "free" or isinstance(blocks, SetBlocks):
            return super().chunk_rows(blocks)
        return max(16, min(CHUNK_ROWS, CHUNK_NUMBERS // (4 * len(blocks.teacher_of))))

    def make_loss(self, class_lists: Any, **of_teachers: Any) -> Any:
        """Return MF-LF-BP or MF-LU-BP. See `SoftLabelMethod.make_loss`."""
        return losses().LogitFactorizationLoss(
            class_lists, temperature=self.temperature, scale=self.scale, lam=self.lam, **of_teachers
        )


def takes_sets(method: Any) -> bool:
    """Return whether a method supports columns that stand for sets of classes: all but MF-LU do."""
    return not (isinstance(method, LogitFactorization) and method.scale == "free")


def _mean_scale(V: Array, blocks: Blocks) -> Array:
    """(n, N) to (n, 1): mean over the teachers with two columns or more; the ridge takes v of the others to 0."""
    xp = array_namespace(V)
    says = xp.astype(blocks.sizes > 1, V.dtype)
    return (V @ says)[:, None] / xp.clip(xp.sum(says), 1.0, None)


def _cube(blocks: Blocks) -> int:
    """Return the size of a dense array of teachers by classes, or 0 if none is made."""
    dense = isinstance(blocks, PlainBlocks) and blocks.pairs.is_dense
    return blocks.n_teachers * blocks.n_classes if dense else 0
