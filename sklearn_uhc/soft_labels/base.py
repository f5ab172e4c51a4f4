"""What all soft-label methods share: checks, chunks, diagnostics."""

from __future__ import annotations

import re
import warnings
from abc import ABCMeta, abstractmethod
from collections.abc import Callable, Sequence
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
from array_api_compat import array_namespace, device, is_torch_array
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import gen_batches
from sklearn.utils.validation import check_is_fitted, validate_data

from sklearn_uhc._progress import progress
from sklearn_uhc._rows import chunks
from sklearn_uhc.label_space import LabelSpace
from sklearn_uhc.solvers.blocks import Array, Blocks, Solution

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

    A subclass says how one chunk of rows is merged, in `_merge(log_p)`.
    """

    class_lists: Sequence[Any] | None
    temperature: float
    verbose: int
    #: Groups of classes that no teacher links get the same mean logit, which is warned of.
    _levels_groups = True

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
        self._report(self._solve(X))
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
        self._report(self._solve(X, Q))
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
        self._solve(X, Q)
        return Q

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
        check_positive("temperature", self.temperature)

    def _start(self, X: Any) -> Any:
        """Validate parameters and X, and prepare the structure that all samples share."""
        self._check_params()
        X = self._check_outputs(X, reset=True)
        own = getattr(self, "feature_names_in_", range(X.shape[1]))
        if self.class_lists is None and all(re.match(r"teacher\d+__", str(name)) for name in own):
            raise ValueError(
                "These are the answers of several teachers: say which with class_lists=outputs.class_lists_."
            )
        self.label_space_ = LabelSpace([own] if self.class_lists is None else self.class_lists)
        if self.label_space_.n_outputs != X.shape[1]:
            raise ValueError(
                f"X has {X.shape[1]} columns, but the {self.label_space_.n_teachers} class lists name "
                f"{self.label_space_.n_outputs} classes in all: X must have one column per teacher and class."
            )
        self._refuse_probabilities(X)
        self.classes_ = self.label_space_.classes
        self._blocks = Blocks.from_label_space(self.label_space_)
        if self._levels_groups:
            warn_if_disconnected(self.label_space_, stacklevel=5)
        return X

    def _refuse_probabilities(self, X: Any) -> None:
        """Raise if the first rows are probabilities, of which somebody forgot to take the logarithm."""
        blocks, head = self.label_space_.blocks, np.asarray(X[:100], dtype=float)
        if (
            len(head) >= 5
            and (head >= 0).all()
            and all(np.allclose(head[:, b].sum(axis=1), 1, atol=1e-6) for b in blocks)
        ):
            raise ValueError("X holds probabilities: this method takes their logarithms, or logits.")

    def _check_outputs(self, X: Any, reset: bool) -> Any:
        if is_torch_array(X):
            X = self._check_tensor(X, reset)
        else:
            X = validate_data(self, X, reset=reset, dtype=[np.float64, np.float32], ensure_all_finite=False)
        for rows in gen_batches(len(X), CHUNK_ROWS):
            _check_logs(X[rows], rows.start)
        return X

    def _check_tensor(self, X: Any, reset: bool) -> Any:
        if X.ndim != 2 or not X.is_floating_point() or len(X) == 0:
            raise ValueError(f"Expected a floating-point tensor of shape (n, K), got {X.dtype} of {tuple(X.shape)}.")
        if reset:
            self.n_features_in_ = X.shape[1]
        elif X.shape[1] != self.n_features_in_:
            raise ValueError(
                f"X has {X.shape[1]} features, but {type(self).__name__} is expecting {self.n_features_in_}."
            )
        return X.detach()

    def _solve(self, X: Any, out: Any = None) -> Merged:
        """Merge chunk by chunk into `out`; memory beyond X and Q stays within scikit-learn's `working_memory`."""
        problem = self._problem(self._blocks.like(X[:1]))
        parts = list(chunks(len(X), X.dtype.itemsize * self._floats_per_row(), CHUNK_ROWS))
        report = Merged(None)
        for rows in progress(parts, total=len(parts), desc="Soft labels", verbose=self.verbose):
            merged = problem(X[rows])
            report = report.then(merged)
            if out is not None:
                out[rows] = merged.Q
        if report.n_not_converged:
            warnings.warn(
                f"{type(self).__name__} stopped at max_iter for {report.n_not_converged} of {len(X)} samples; their "
                "soft labels are usable but not optimal. Raise max_iter or tol.",
                ConvergenceWarning,
                stacklevel=4,
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
        """Return the tolerance, or what the precision of X allows."""
        return max(float(tol), 64 * float(array_namespace(X).finfo(X.dtype).eps))

    def _tempered(self, Z: Array, blocks: Blocks) -> Array:
        """Probabilities p_i of every teacher at this temperature."""
        E = array_namespace(Z).exp(Z / self.temperature)
        E /= blocks.by_teacher(E @ blocks.to_teacher)
        return E

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def warn_if_disconnected(space: LabelSpace, stacklevel: int) -> None:
    """Warn of groups of classes that no teacher links."""
    if not space.is_connected:
        warnings.warn(
            f"The class lists do not connect: {space.describe()}. How probable one group is beside another is not "
            "determined; every group gets mean logit 0. A teacher that knows classes of two groups would link them.",
            UserWarning,
            stacklevel=stacklevel,
        )


def _check_logs(X: Array, first_row: int) -> None:
    """Refuse NaN and +inf among log-probabilities."""
    xp = array_namespace(X)
    for bad, what, where in (
        (xp.isnan(X), "NaN", "A teacher must answer every row."),
        (xp.isinf(X) & (X > 0), "infinity", "Only -inf, the logarithm of zero, is allowed."),
    ):
        if bool(xp.any(bad)):
            row, column = (int(index[0]) for index in xp.nonzero(bad))
            raise ValueError(f"Input X contains {what}, first in row {first_row + row}, column {column}. {where}")


def check_positive(name: str, value: Any, integer: bool = False) -> None:
    """Raise if a parameter is not a positive finite number."""
    number = isinstance(value, Real) and not isinstance(value, bool) and 0 < float(value) < np.inf
    if not number or (integer and float(value) != int(value)):
        raise ValueError(f"{name} must be a positive {'integer' if integer else 'number'}, got {value!r}.")
