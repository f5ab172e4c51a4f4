"""What all soft-label methods share: checks, chunks, diagnostics."""

from __future__ import annotations

import copy
from abc import ABCMeta, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from array_api_compat import array_namespace, device
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from sklearn_uhc.answers import (
    Pattern,
    check_answers,
    patterns,
    read_answers,
    refuse_probabilities,
    silent_teachers,
    space_of_answers,
)
from sklearn_uhc.label_space import LabelSpace, shorten
from sklearn_uhc.names import about_look_alikes, look_alikes
from sklearn_uhc.solvers.blocks import MIN_LOG_P, Array, Blocks, Solution, softmax
from sklearn_uhc.utils.notes import warn_user
from sklearn_uhc.utils.parameters import check_flag, check_positive, check_weights
from sklearn_uhc.utils.progress import progress
from sklearn_uhc.utils.rows import chunks

#: Rows taken together at most: enough that the last few to be solved of them do not count, few enough for the memory.
CHUNK_ROWS = 4096


class Merged(NamedTuple):
    """Soft labels of a chunk of rows, and how the solver got there."""

    Q: Array  #: (n, L)
    n_iter: int = 1
    max_residual: float = 0.0
    n_not_converged: int = 0

    @classmethod
    def of(cls, Q: Array, solved: Solution) -> Merged:
        """Take the diagnostics of a solver's answer."""
        n_iter, residual = int(solved.n_iter.max()), float(solved.residual.max())
        return cls(Q, max(n_iter, 1), residual, int((~solved.converged).sum()))

    def then(self, other: Merged) -> Merged:
        """Diagnostics of two chunks together."""
        worst = max(self.n_iter, other.n_iter), max(self.max_residual, other.max_residual)
        return Merged(None, *worst, self.n_not_converged + other.n_not_converged)


class SoftLabelMethod(TransformerMixin, BaseEstimator, metaclass=ABCMeta):
    """Base of the transformers from teacher log-probabilities (n, K) to soft labels (n, L).

    A subclass says how one chunk of rows is merged, in `_merge(Z, blocks)`: Z (n, K) are logits at temperature 1, the
    largest of each teacher 0, in double precision where the device has it; `blocks` is the label space as matrices of
    the same library. Its parameters are `class_lists` and `temperature`, and those of the attributes below that it
    offers; `_tempered` and `_weights` apply temperature and weights.
    """

    class_lists: Sequence[Any] | None
    temperature: float
    teacher_weight: Sequence[float] | None = None
    abstain: bool = False
    verbose: int = 0
    #: Parameters that must be positive numbers.
    _positive: tuple[str, ...] = ("temperature",)
    #: Groups of classes that no teacher links get the same mean logit, which is warned of.
    _levels_groups = True
    #: Whether rows without any answer were warned of since `fit`: an ensemble would say so at every prediction.
    _told = False

    @abstractmethod
    def _merge(self, Z: Array, blocks: Blocks) -> Merged:
        """Merge rows of logits at temperature 1, the largest of each teacher 0; `blocks` is of their library."""

    def fit(self, X: Any, y: Any = None) -> Any:
        """Set up the label space and solve for the rows of X, to report how the solver fares on them.

        Parameters
        ----------
        X : array-like of shape (n, K)
            Log-probabilities or logits of all teachers, block by block in the order of `class_lists`.
        y : ignored
            There for the API.

        Returns
        -------
        self
        """
        X = self._start(X)
        self._report(self._solve_all(X))
        return self

    def fit_transform(self, X: Any, y: Any = None) -> Any:
        """Fit, and return the soft labels that were solved for it. See `fit` and `transform`.

        Parameters
        ----------
        X : array-like of shape (n, K)
            Log-probabilities or logits of all teachers, block by block in the order of `class_lists`.
        y : ignored
            There for the API.

        Returns
        -------
        Q : ndarray of shape (n, L)
        """
        X = self._start(X)
        Q = self._new_labels(X)
        self._report(self._solve_all(X, Q))
        return Q

    def transform(self, X: Any) -> Any:
        """Return soft labels over all classes.

        Parameters
        ----------
        X : array-like of shape (n, K)
            Log-probabilities or logits of all teachers, block by block in the order of `class_lists`. A torch tensor is
            solved on its own device and gives a tensor.

        Returns
        -------
        Q : ndarray of shape (n, L)
            Rows on the simplex, at this transformer's temperature; columns follow `classes_`.
        """
        check_is_fitted(self)
        X = self._check_outputs(X, reset=False)
        Q = self._new_labels(X)
        self._solve_all(X, Q)
        return Q

    def reconciliation_error(self, X: Any) -> Any:
        """Return how far the merged answer is from the teachers, row by row: where they cannot be reconciled.

        The Kullback-Leibler divergence of the merged answer, restricted to a teacher's classes, from that teacher's
        own, at this transformer's temperature, on average over the teachers that answer. 0: they agree in everything,
        or there is nothing to reconcile, as where one teacher answers, or none.

        Parameters
        ----------
        X : array-like of shape (n, K)
            Log-probabilities or logits of all teachers, block by block in the order of `class_lists`.

        Returns
        -------
        error : ndarray of shape (n,)
            Never NaN. A row that nobody answers has no error to speak of: do not take its 0 for agreement.
        """
        check_is_fitted(self)
        X = self._check_outputs(X, reset=False)
        Q = self._new_labels(X)
        self._solve_all(X, Q)
        blocks = self._blocks.like(X[:1])
        xp = array_namespace(X)
        out = xp.empty_like(X[:, 0])
        for rows in chunks(len(X), X.dtype.itemsize * self._floats_per_row(), CHUNK_ROWS):
            apart = blocks.divergences(blocks.shift(X[rows]) / self.temperature, Q[rows])
            silent = xp.isnan(apart)
            speaking = xp.sum(xp.astype(~silent, X.dtype), axis=1)
            out[rows] = xp.sum(xp.where(silent, xp.zeros_like(apart), apart), axis=1) / xp.clip(speaking, 1.0, None)
        return out

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Return the names of the columns: the classes.

        Parameters
        ----------
        input_features : ignored
            There for the API.

        Returns
        -------
        names : ndarray of str
        """
        check_is_fitted(self)
        return np.asarray([str(label) for label in self.classes_], dtype=object)

    def _check_params(self) -> None:
        for name in self._positive:
            check_positive(name, getattr(self, name), integer=name == "max_iter")
        check_flag("abstain", self.abstain)
        if self.teacher_weight is not None:
            check_weights(self.teacher_weight)

    def _start(self, X: Any) -> Any:
        """Validate parameters and X, and prepare the structure that all samples share."""
        self._told = False
        self._check_params()
        X = self._check_outputs(X, reset=True)
        self._set_structure(self.label_space_)
        if self._levels_groups:
            warn_if_disconnected(self.label_space_)
        if alike := about_look_alikes(look_alikes(self.label_space_.class_lists)):
            warn_user(alike)
        if self.abstain:
            warn_if_mute(silent_teachers(X, self.label_space_.blocks), self.label_space_)
        return X

    def _set_structure(self, space: LabelSpace) -> None:
        """Prepare what depends on the class lists alone."""
        self.label_space_, self.classes_ = space, space.classes
        self._blocks = Blocks.from_label_space(space)
        if self.teacher_weight is not None:
            check_weights(self.teacher_weight, space.n_teachers)

    def _check_outputs(self, X: Any, reset: bool) -> Any:
        X = read_answers(self, X, reset=reset)
        if reset:
            self.label_space_ = space_of_answers(X, self.class_lists, getattr(self, "feature_names_in_", None))
        check_answers(X, self.label_space_.blocks, bool(self.abstain))
        if reset:  # later a row's answer must not depend on its batch
            refuse_probabilities(X, self.label_space_)
        return X

    def _solve_all(self, X: Any, out: Any = None) -> Merged:
        """Solve for all rows at once, or, where teachers are silent, for all rows with the same silent teachers."""
        silent = silent_teachers(X, self.label_space_.blocks) if self.abstain else np.zeros((1, 1), dtype=bool)
        if not silent.any():
            return self._solve(X, out)
        report, nobody = Merged(None), int(silent.all(axis=1).sum())
        if out is not None:
            out[...] = 1 / len(self.classes_)
        if nobody and not self._told:
            self._told = True
            warn_user(
                f"No teacher answers for {nobody} of {len(X)} rows: nothing is known about them. Their soft labels are "
                "uniform, and have no weight in the distiller's student and in class weights."
            )
        for pattern in patterns(silent, self.label_space_):
            part = self._restrict(pattern)
            for some in chunks(len(pattern.rows), 2 * X.dtype.itemsize * (X.shape[1] + len(self.classes_))):
                report = report.then(self._solve_pattern(X, out, part, pattern, pattern.rows[some]))
        return report

    def _solve_pattern(self, X: Any, out: Any, part: Any, pattern: Pattern, rows: NDArray[np.int_]) -> Merged:
        """Solve for rows about which the same teachers are silent; `part` is the method for those that are not."""
        xp, where = array_namespace(X), device(X)
        here, columns, classes = (xp.asarray(i, device=where) for i in (rows, pattern.columns, pattern.classes))
        answers = xp.take(X[here], columns, axis=1)
        Q = None if out is None else part._new_labels(answers)
        merged: Merged = part._solve(answers, Q)
        if out is not None:
            blocks = part._blocks.like(answers[:1])
            out[here] = self._spread(Q, blocks, classes)
        return merged

    def _restrict(self, pattern: Pattern) -> Any:
        """Return the same method for some of the teachers."""
        part = copy.copy(self)
        part.class_lists, part.verbose = pattern.space.class_lists, 0
        if self.teacher_weight is not None:
            part.teacher_weight = np.asarray(self.teacher_weight, dtype=float)[pattern.teachers].tolist()
        part._set_structure(pattern.space)
        return part

    def _spread(self, Q: Array, blocks: Blocks, classes: Array) -> Array:
        """Take soft labels of some classes to all of them.

        A class that nobody answers for is not determined, like a group of classes that no teacher links, and gets what
        such a group gets: mean logit 0. Silence is not a no.
        """
        if Q.shape[1] == len(self.classes_):
            return Q
        xp = array_namespace(Q)
        logits = xp.log(xp.clip(Q, float(np.exp(MIN_LOG_P)), None))
        all_logits = xp.zeros((Q.shape[0], len(self.classes_)), dtype=Q.dtype, device=device(Q))
        all_logits[:, classes] = logits - logits @ blocks.component_mean
        return softmax(all_logits)

    def _solve(self, X: Any, out: Any = None) -> Merged:
        """Merge chunk by chunk into `out`; memory beyond X and Q stays within scikit-learn's `working_memory`.

        In double precision, whatever that of X: where a shared class is nearly impossible the objectives are so flat
        that single precision stops anywhere and calls it solved.
        """
        xp, one = array_namespace(X), to_double(X[:1])
        problem, lowest = self._problem(self._blocks.like(one)), float(xp.finfo(one.dtype).min)
        parts = list(chunks(len(X), one.dtype.itemsize * self._floats_per_row(), CHUNK_ROWS))
        report = Merged(None)
        for rows in progress(parts, total=len(parts), desc="Soft labels", verbose=self.verbose):
            # -inf as a number: a teacher that says nothing else then says that all are alike, at any temperature.
            merged = problem(xp.clip(to_double(X[rows]), lowest, None))
            report = report.then(merged)
            if out is not None:
                out[rows] = xp.astype(merged.Q, X.dtype, copy=False)
        if report.n_not_converged:
            warn_user(
                f"{type(self).__name__} stopped at max_iter for {report.n_not_converged} of {len(X)} samples; their "
                "soft labels are usable but not optimal. Raise max_iter or tol.",
                ConvergenceWarning,
            )
        return report

    def _problem(self, blocks: Blocks) -> Callable[[Array], Merged]:
        """Return the function that merges a chunk of rows as they were given."""

        def merge(X: Array) -> Merged:
            return self._merge(blocks.shift(X), blocks)

        return merge

    def _floats_per_row(self) -> int:
        """Return how many numbers a solver holds per row at most, roughly."""
        N, L = self._blocks.M.shape
        return 12 * self.label_space_.n_outputs + 12 * L + 6 * N * N

    def _new_labels(self, X: Any) -> Any:
        return array_namespace(X).empty((len(X), len(self.classes_)), dtype=X.dtype, device=device(X))

    def _report(self, merged: Merged) -> None:
        self.n_iter_ = merged.n_iter
        self.max_residual_ = merged.max_residual
        self.n_not_converged_ = merged.n_not_converged

    def _tolerance(self, tol: float, X: Array) -> float:
        """Return the tolerance, or what the precision of X allows on a device without double precision."""
        return max(float(tol), 64 * float(array_namespace(X).finfo(X.dtype).eps))

    def _weights(self, like: Array) -> Array | None:
        """Return the trust in every teacher, of mean 1; None: all alike."""
        if self.teacher_weight is None:
            return None
        w = np.asarray(self.teacher_weight, dtype=float)
        w = w / w.max()  # a sum of very large ones would overflow
        return array_namespace(like).asarray(w / w.mean(), dtype=like.dtype, device=device(like))

    def _root_weights(self, like: Array) -> Array:
        """Return the square roots of the weights, (1, N)."""
        w = self._weights(like)
        xp, N = array_namespace(like), len(self._blocks.M)
        return xp.ones((1, N), dtype=like.dtype, device=device(like)) if w is None else xp.sqrt(w)[None, :]

    def _tempered(self, Z: Array, blocks: Blocks) -> Array:
        """Probabilities p_i of every teacher at this temperature."""
        E = array_namespace(Z).exp(Z / self.temperature)
        E /= blocks.by_teacher(E @ blocks.to_teacher)
        return E

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def to_double(X: Array) -> Array:
    """Return X in double precision; as it is on devices that have none, such as Apple's MPS."""
    xp = array_namespace(X)
    known = xp.__array_namespace_info__().dtypes(device=device(X), kind="real floating")
    return xp.astype(X, known["float64"], copy=False) if "float64" in known else X


def warn_if_disconnected(space: LabelSpace) -> None:
    """Warn of groups of classes that no teacher links."""
    if not space.is_connected:
        warn_user(
            f"The class lists do not connect: {space.describe()}. How probable one group is beside another is not "
            "determined; every group gets mean logit 0. A teacher that knows classes of two groups would link them."
        )


def warn_if_mute(silent: NDArray[np.bool_], space: LabelSpace) -> None:
    """Warn of teachers that answer no row, and of classes that nobody answers for therefore."""
    mute = silent.all(axis=0)
    if not mute.any():
        return
    unheard = space.classes[~space.mask[~mute].any(axis=0)]
    who = ("teacher " if mute.sum() == 1 else "teachers ") + ", ".join(map(str, np.flatnonzero(mute)))
    lost = f"Nobody answers for {shorten(unheard)}: what is said of them is a guess. " if len(unheard) else ""
    warn_user(
        f"None of the {len(silent)} rows is answered by {who}: the merge does without. {lost}Give rows that can be "
        "answered, or leave out who is silent."
    )
