"""Shared by all soft-label methods: checks, chunks, diagnostics."""

from __future__ import annotations

from abc import ABCMeta, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from array_api_compat import array_namespace, device
from joblib import effective_n_jobs
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from sklearn_uhc.answers import Answers, Pattern, answers_of_input
from sklearn_uhc.merging.list_warnings import warn_if_disconnected, warn_if_mute, warn_of_sets, warn_of_unanswered
from sklearn_uhc.merging.scales import of_mean_one, temper_rest, to_double
from sklearn_uhc.solvers import blocks_of
from sklearn_uhc.solvers.blocks import MIN_LOG_P, Blocks, Solution, softmax
from sklearn_uhc.solvers.incidence import Array, exponentials
from sklearn_uhc.solvers.newton import Found
from sklearn_uhc.spaces.names import about_look_alikes, about_rests, look_alikes, sounding_like_other
from sklearn_uhc.utils.fitting import all_or_nothing
from sklearn_uhc.utils.lazy import lazily
from sklearn_uhc.utils.notes import warn_user
from sklearn_uhc.utils.parameters import check_flag, check_positive, check_weights
from sklearn_uhc.utils.progress import progress
from sklearn_uhc.utils.rows import chunks, some_rows
from sklearn_uhc.utils.threads import in_threads
from sklearn_uhc.utils.versioned import Versioned

#: Maximum rows per chunk: enough that the last rows to converge cost little, and few enough for the memory.
CHUNK_ROWS = 6000
#: Maximum entries per chunk: larger arrays do not fit into the cache, and are allocated anew every time.
CHUNK_NUMBERS = 2**20
#: Maximum number of rows that `fit` solves for the diagnostics.
FIT_ROWS = 1000


class Merged(NamedTuple):
    """Soft labels of a chunk of rows, with diagnostics of the solver."""

    Q: Array  #: (n, L)
    n_iter: int = 1
    max_residual: float = 0.0
    n_not_converged: int = 0
    n_ill_conditioned: int = 0

    @classmethod
    def of(cls, Q: Array, solved: Solution | Found) -> Merged:
        """Take the diagnostics from a solver's result."""
        n_iter, residual = int(solved.n_iter.max()), float(solved.residual.max())
        poor = int((solved.converged & ~solved.well_conditioned).sum())
        return cls(Q, max(n_iter, 1), residual, int((~solved.converged).sum()), poor)

    def then(self, other: Merged) -> Merged:
        """Return these soft labels with the diagnostics of both chunks together."""
        worst = max(self.n_iter, other.n_iter), max(self.max_residual, other.max_residual)
        sums = self.n_not_converged + other.n_not_converged, self.n_ill_conditioned + other.n_ill_conditioned
        return Merged(self.Q, *worst, *sums)


class SoftLabelMethod(Versioned, TransformerMixin, BaseEstimator, metaclass=ABCMeta):
    """Base of the transformers from teacher log-probabilities (n, K) to soft labels (n, L).

    To write a method of your own, derive from it and define `merge`, which merges a chunk of rows. Its parameters are
    `class_lists` and `temperature`, and optionally `teacher_weight`, `abstain`, `n_jobs` and `verbose`. This class
    takes care of checks, chunks, threads, silent teachers, float32 and tensors. `HeterogeneousDistiller` and
    `TeacherMerger` accept any object with `fit_transform_answers`, `transform_answers` and a `temperature`.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_uhc.merging import SoftLabelMethod
    >>> from sklearn_uhc.merging import Merged
    >>> class MostConfident(SoftLabelMethod):
    ...     def __init__(self, class_lists=None, *, temperature=1.0):
    ...         self.class_lists = class_lists
    ...         self.temperature = temperature
    ...
    ...     def merge(self, Z, blocks, weight):
    ...         P = np.exp(blocks.log_softmax(Z / self.temperature))
    ...         chosen = blocks.teacher_of == blocks.largest(P).argmax(axis=1)[:, None]
    ...         return Merged(blocks.sum_classes(P * chosen))
    >>> log_p = np.log([[0.8, 0.2, 0.5, 0.5]])
    >>> MostConfident([["a", "b"], ["b", "c"]]).fit_transform(log_p)
    array([[0.8, 0.2, 0. ]])
    """

    class_lists: Any
    temperature: float
    teacher_weight: Sequence[float] | None = None
    abstain: bool = False
    n_jobs: int | None = None
    verbose: int = 0
    #: Parameters that must be positive numbers.
    _positive: tuple[str, ...] = ("temperature",)
    #: Groups of classes that no teacher links get the same mean logit, with a warning.
    _levels_groups = True

    @abstractmethod
    def merge(self, Z: Array, blocks: Blocks, weight: Array | None) -> Merged:
        """Merge a chunk of rows.

        Parameters
        ----------
        Z : array of shape (n, K)
            Logits at temperature 1, the largest of each teacher 0, in double precision if the device supports it. They
            are not used again, so they may be overwritten.
        blocks : Blocks
            The label space as arrays of the library, device and precision of Z.
        weight : array of shape (N,) or None
            Weight of every teacher, of mean 1. None: all equal.

        Returns
        -------
        merged : Merged
            Soft labels (n, L), and the solver's diagnostics.
        """

    def solver(self, blocks: Blocks, weight: Array | None) -> Callable[[Array], Merged]:
        """Prepare what all chunks share, and return the function that merges a chunk of rows.

        Parameters
        ----------
        blocks : Blocks
            The label space as arrays.
        weight : array of shape (N,) or None
            Weight of every teacher, of mean 1. None: all equal.

        Returns
        -------
        solve : function of an array of shape (n, K)
            Returns a `Merged`.
        """
        return lambda X: self.merge(blocks.shift(X), blocks, weight)

    def make_loss(self, class_lists: Any, **of_teachers: Any) -> Any:
        """Return the loss of direct backpropagation, a torch module of `sklearn_uhc.merging.losses`.

        Parameters
        ----------
        class_lists : list of lists or LabelSpace
            Classes of each teacher, in the order of the blocks.
        **of_teachers : dict
            `teacher_weight` and `untempered` of the loss. The method's own `teacher_weight` is not used.

        Returns
        -------
        loss : TeacherLoss
        """
        raise ValueError(
            f"{type(self).__name__} cannot be used by backpropagation: its soft labels do not depend on the student. "
            "Use 'ce', 'mf_p', 'mf_lu' or 'mf_lf', or backprop=False."
        )

    @all_or_nothing
    @lazily
    def fit(self, X: Any, y: Any = None) -> Any:
        """Set up the label space, and solve at most 1,000 evenly spaced rows of X for the diagnostics.

        `fit_transform` solves all rows and reports on all of them.

        Parameters
        ----------
        X : array-like of shape (n, K)
            Log-probabilities or logits of all teachers, block by block in the order of `class_lists`.
        y : ignored
            Not used, present for API consistency by convention.

        Returns
        -------
        self
        """
        self.check_params()
        self._fit(answers_of_input(self, X, reset=True), keep=False)
        return self

    @all_or_nothing
    @lazily
    def fit_transform(self, X: Any, y: Any = None) -> Any:
        """Fit, and return the soft labels. See `fit` and `transform`.

        Parameters
        ----------
        X : array-like of shape (n, K)
            Log-probabilities or logits of all teachers, block by block in the order of `class_lists`.
        y : ignored
            Not used, present for API consistency by convention.

        Returns
        -------
        Q : ndarray of shape (n, L)
        """
        self.check_params()
        return self._fit(answers_of_input(self, X, reset=True), keep=True)

    @lazily
    def transform(self, X: Any) -> Any:
        """Return soft labels over all classes.

        Parameters
        ----------
        X : array-like of shape (n, K)
            Log-probabilities or logits of all teachers, block by block in the order of `class_lists`. A torch tensor is
            solved on its own device, and the result is a tensor.

        Returns
        -------
        Q : ndarray of shape (n, L)
            Rows sum to 1, at this transformer's temperature; columns follow `classes_`.
        """
        check_is_fitted(self, "label_space_")
        return self.transform_answers(answers_of_input(self, X, reset=False))

    @all_or_nothing
    def fit_transform_answers(self, answers: Answers) -> Any:
        """Fit on answers that are already checked, and return their soft labels.

        `class_lists`, `teacher_weight` and `abstain` of this transformer are ignored: `answers` has its own.

        Parameters
        ----------
        answers : Answers
            Answers of all teachers.

        Returns
        -------
        Q : array of shape (n, L)
        """
        self.check_params()
        self.n_features_in_ = answers.space.n_outputs
        return self._fit(answers, keep=True)

    def transform_answers(self, answers: Answers) -> Any:
        """Return the soft labels of answers that are already checked.

        Parameters
        ----------
        answers : Answers
            Answers of all teachers.

        Returns
        -------
        Q : array of shape (n, L)
        """
        if not answers.answered.all():
            warn_of_unanswered(answers)
        return self._solve_all(answers, keep=True).Q

    @lazily
    def reconciliation_error(self, X: Any) -> Any:
        """Return, row by row, how far the merged answer is from the teachers' own answers.

        The error is the Kullback-Leibler divergence of the merged answer, restricted to a teacher's classes, from that
        teacher's answer, at this transformer's temperature, averaged over the teachers that answer. It is 0 if they
        agree completely, or if at most one teacher answers.

        Parameters
        ----------
        X : array-like of shape (n, K)
            Log-probabilities or logits of all teachers, block by block in the order of `class_lists`.

        Returns
        -------
        error : ndarray of shape (n,)
            Never NaN. It is 0 for a row that no teacher answers, which does not mean agreement.
        """
        check_is_fitted(self, "label_space_")
        answers = answers_of_input(self, X, reset=False)
        Q, X = self._solve_all(answers, keep=True).Q, answers.log_p
        blocks, xp = blocks_of(answers.space).like(X[:1]), array_namespace(X)
        out = xp.empty_like(X[:, 0])
        for rows in chunks(len(X), X.dtype.itemsize * self.floats_per_row(blocks), CHUNK_ROWS):
            Z = xp.where(xp.isnan(X[rows]), X[rows], blocks.shift(X[rows])) / self.temperature  # NaN stays
            apart = blocks.divergences(Z, Q[rows], self.temperature)
            silent = xp.isnan(apart)
            speaking = xp.sum(xp.astype(~silent, X.dtype), axis=1)
            out[rows] = xp.sum(xp.where(silent, xp.zeros_like(apart), apart), axis=1) / xp.clip(speaking, 1.0, None)
        return out

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Return the names of the columns: the classes.

        Parameters
        ----------
        input_features : ignored
            Not used, present for API consistency by convention.

        Returns
        -------
        names : ndarray of str
        """
        check_is_fitted(self, "label_space_")
        return np.asarray([str(label) for label in self.classes_], dtype=object)

    def check_params(self) -> None:
        """Raise if a parameter is wrong, before anything is computed."""
        for name in self._positive:
            check_positive(name, getattr(self, name), integer=name == "max_iter")
        check_flag("abstain", self.abstain)
        if self.teacher_weight is not None:
            check_weights(self.teacher_weight)

    def warn_about(self, answers: Answers) -> None:
        """Warn about problems with the class lists and about silent teachers.

        Parameters
        ----------
        answers : Answers
            Answers of all teachers.
        """
        if self._levels_groups:
            warn_if_disconnected(answers.space)
        warn_of_sets(answers, self._levels_groups)
        if answers.space.classes.dtype.kind not in "biuf":  # numbers are not misspelled
            lists, called = answers.space.class_lists, answers.space.called
            about = about_look_alikes(look_alikes(lists), called), about_rests(sounding_like_other(lists), called)
            for warning in filter(None, about):
                warn_user(warning)
        warn_if_mute(answers)
        if not answers.answered.all():
            warn_of_unanswered(answers)

    def floats_per_row(self, blocks: Blocks) -> int:
        """Return roughly how many numbers a solver holds per row at most. It determines the size of chunks.

        Parameters
        ----------
        blocks : Blocks
            The label space as arrays.

        Returns
        -------
        n : int
        """
        N, L, K = blocks.n_teachers, blocks.n_classes, len(blocks.teacher_of)
        return int(12 * K + 12 * L + 6 * N * N)

    def chunk_rows(self, blocks: Blocks) -> int:
        """Return the largest number of rows merged at a time, regardless of memory.

        Parameters
        ----------
        blocks : Blocks
            The label space as arrays.

        Returns
        -------
        n : int
        """
        return max(64, min(CHUNK_ROWS, CHUNK_NUMBERS // len(blocks.teacher_of)))

    def _fit(self, answers: Answers, keep: bool) -> Any:
        """Warn about problems, solve (all rows only if `keep`), and store the diagnostics."""
        self.warn_about(answers)
        seen = answers if keep else answers.take(some_rows(len(answers), FIT_ROWS))
        merged, space = self._solve_all(seen, keep), answers.space
        self.label_space_, self.classes_ = space, space.classes
        self.n_iter_ = merged.n_iter
        self.max_residual_ = merged.max_residual
        self.n_not_converged_ = merged.n_not_converged
        self.n_ill_conditioned_ = merged.n_ill_conditioned
        return merged.Q

    def _solve_all(self, answers: Answers, keep: bool) -> Merged:
        """Solve all rows at once, or, if teachers are silent, all rows with the same silent teachers together."""
        if answers.silent is None:
            return self._solve(answers, keep, self.verbose)
        Q, L, K = _new_labels(answers) if keep else None, answers.space.n_classes, answers.space.n_outputs
        if Q is not None:
            Q[...] = 1 / L
        report = Merged(Q)
        for pattern in answers.patterns():
            for some in chunks(len(pattern.rows), 2 * answers.log_p.dtype.itemsize * (K + L)):
                report = report.then(self._solve_pattern(answers, pattern, pattern.rows[some], Q))
        return report

    def _solve_pattern(self, answers: Answers, pattern: Pattern, rows: NDArray[np.int_], out: Any) -> Merged:
        """Solve rows with the same silent teachers."""
        part = answers.part(pattern, rows)
        merged = self._solve(part, out is not None)
        if out is not None:
            xp, where = array_namespace(out), device(out)
            here, classes = (xp.asarray(index, device=where) for index in (rows, pattern.classes))
            out[here] = self._spread(merged.Q, blocks_of(part.space).like(merged.Q[:1]), classes, out.shape[1])
        return merged

    def _spread(self, Q: Array, blocks: Blocks, classes: Array, n_classes: int) -> Array:
        """Extend soft labels of some classes to all classes.

        A class without any answer is not determined, like a group of classes that no teacher links, and is treated like
        such a group: mean logit 0. Silence does not mean no.
        """
        if Q.shape[1] == n_classes:
            return Q
        xp = array_namespace(Q)
        logits = xp.log(xp.clip(Q, float(np.exp(MIN_LOG_P)), None))
        all_logits = xp.zeros((Q.shape[0], n_classes), dtype=Q.dtype, device=device(Q))
        all_logits[:, classes] = logits - blocks.group_means(logits)
        return softmax(all_logits)

    def _solve(self, answers: Answers, keep: bool, verbose: int = 0) -> Merged:
        """Merge chunk by chunk; memory beyond answers and soft labels stays within scikit-learn's `working_memory`.

        Computed in double precision, whatever the type of the answers: if a shared class is nearly impossible, the
        objectives are so flat that single precision stops anywhere and reports convergence.
        """
        X = answers.log_p
        xp, one = array_namespace(X), to_double(X[:1])
        blocks, jobs = blocks_of(answers.space).like(one), effective_n_jobs(self.n_jobs)
        solve = self._solver_of(answers, blocks, one)
        Q = _new_labels(answers) if keep else None

        def solved(rows: slice) -> Merged:
            merged = solve(to_double(X[rows]))
            if Q is not None:
                Q[rows] = xp.astype(merged.Q, X.dtype, copy=False)
            return merged._replace(Q=None)

        bytes_per_row = jobs * one.dtype.itemsize * self.floats_per_row(blocks)
        parts = list(chunks(len(X), bytes_per_row, self.chunk_rows(blocks), jobs))
        report = Merged(Q)
        for merged in progress(in_threads(solved, parts, jobs), total=len(parts), desc="Soft labels", verbose=verbose):
            report = report.then(merged)
        if report.n_not_converged:
            warn_user(
                f"{type(self).__name__} stopped at max_iter for {report.n_not_converged} of {len(X)} samples; their "
                "soft labels are usable but not optimal. Increase max_iter or tol.",
                ConvergenceWarning,
            )
        return report

    def _solver_of(self, answers: Answers, blocks: Blocks, one: Array) -> Callable[[Array], Merged]:
        """Return the solver; if some answers are untempered, that at temperature 1, with all others tempered first.

        Untempered answers get weight 1 / T, since next to flatter answers they would decide everything. `one` is a row
        of the answers, which defines the type of arrays.
        """
        T, as_is = float(self.temperature), answers.untempered
        if as_is is None or T == 1:
            return self.solver(blocks, of_mean_one(answers.teacher_weight, one))
        teacher_weight = np.where(as_is, 1 / T, 1.0) * (
            1.0 if answers.teacher_weight is None else answers.teacher_weight
        )
        solve = clone(self).set_params(temperature=1.0).solver(blocks, of_mean_one(teacher_weight, one))
        xp, divisor = array_namespace(one), np.where(as_is, 1.0, T)[answers.space.teacher_of]
        scale = xp.asarray(1 / divisor, dtype=one.dtype, device=device(one))
        known = xp.asarray(answers.space.mask[~as_is].any(axis=0), device=device(one))

        def merge(X: Array) -> Merged:
            merged = solve(blocks.shift(X) * scale)
            return merged if bool(xp.all(known)) else merged._replace(Q=temper_rest(merged.Q, known, T))

        return merge

    def _tolerance(self, tol: float, X: Array) -> float:
        """Return the tolerance, or the smallest possible one on a device without double precision."""
        return max(float(tol), 64 * float(array_namespace(X).finfo(X.dtype).eps))

    def _tempered(self, Z: Array, blocks: Blocks) -> Array:
        """Return the probabilities p_i of every teacher at this temperature. Overwrites Z."""
        Z /= self.temperature
        E = exponentials(Z)
        return blocks.scaled(E, 1 / blocks.sum_teachers(E), in_place=True)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def losses() -> Any:
    """Return the module of losses, which needs torch."""
    try:
        from sklearn_uhc.merging import losses
    except ImportError as error:
        raise ImportError("backprop=True needs torch: pip install 'sklearn-uhc[torch]'.") from error
    return losses


def _new_labels(answers: Answers) -> Any:
    X = answers.log_p
    return array_namespace(X).empty((len(X), answers.space.n_classes), dtype=X.dtype, device=device(X))
