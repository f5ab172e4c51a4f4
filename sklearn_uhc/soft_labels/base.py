"""What all soft-label methods share: checks, chunks, diagnostics."""

from __future__ import annotations

import warnings
from abc import ABCMeta, abstractmethod
from collections.abc import Iterator, Sequence
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted, validate_data

from sklearn_uhc._progress import progress
from sklearn_uhc._rows import chunks
from sklearn_uhc.label_space import LabelSpace
from sklearn_uhc.solvers.blocks import Array, Blocks

#: Rows solved together: enough for the matrix products, few enough for the cache.
CHUNK_ROWS = 4096


class Merged(NamedTuple):
    """Soft labels of a chunk of rows, and how the solver got there."""

    Q: Array  #: (n, L)
    n_iter: int = 1
    n_not_converged: int = 0


class SoftLabelMethod(TransformerMixin, BaseEstimator, metaclass=ABCMeta):
    """Base of the transformers from teacher log-probabilities (n, K) to soft labels (n, L).

    A subclass says how one chunk of rows is merged, in `_merge(log_p)`.
    """

    class_lists: Sequence[Any] | None
    temperature: float
    verbose: int

    @abstractmethod
    def _merge(self, log_p: Array) -> Merged:
        """Merge rows of block-normalised log-probabilities at temperature 1."""

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
        for _ in self._solve(X):
            pass
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
        return self._collect(X)

    def transform(self, X: Any) -> Any:
        """Return soft labels over all classes.

        Parameters
        ----------
        X : array-like of shape (n, K)
            Log-probabilities or logits of all teachers, block by block in the order of `class_lists`.

        Returns
        -------
        Q : ndarray of shape (n, L)
            Rows on the simplex, at this transformer's temperature; columns follow `classes_`.
        """
        check_is_fitted(self)
        return self._collect(self._check_outputs(X, reset=False))

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
        self.label_space_ = LabelSpace([own] if self.class_lists is None else self.class_lists)
        if self.label_space_.n_outputs != X.shape[1]:
            raise ValueError(
                f"X has {X.shape[1]} columns, but the {self.label_space_.n_teachers} class lists name "
                f"{self.label_space_.n_outputs} classes in all: X must have one column per teacher and class."
            )
        self.classes_ = self.label_space_.classes
        self._blocks = Blocks.from_label_space(self.label_space_)
        self._warn_if_disconnected()
        return X

    def _check_outputs(self, X: Any, reset: bool) -> Any:
        X = validate_data(self, X, reset=reset, dtype=[np.float64, np.float32], ensure_all_finite=False)
        for bad, what, where in (
            (np.isnan(X), "NaN", "A teacher must answer every row."),
            (np.isposinf(X), "infinity", "Only -inf, the logarithm of zero, is allowed."),
        ):
            if bad.any():
                row, column = np.argwhere(bad)[0]
                raise ValueError(f"Input X contains {what}, first in row {row}, column {column}. {where}")
        return X

    def _warn_if_disconnected(self) -> None:
        if not self.label_space_.is_connected:
            warnings.warn(
                f"The class lists do not connect: {self.label_space_.describe()}. How probable one group is beside "
                "another is not determined; every group gets mean logit 0. A teacher that knows classes of two "
                "groups would link them.",
                UserWarning,
                stacklevel=4,
            )

    def _solve(self, X: Any) -> Iterator[tuple[slice, Array]]:
        """Merge chunk by chunk; memory beyond X and Q stays within scikit-learn's `working_memory`."""
        N, L, K = len(self._blocks.M), len(self.classes_), X.shape[1]
        parts = list(chunks(len(X), 8 * (8 * K + 8 * L + 3 * N * N), CHUNK_ROWS))
        self.n_iter_, self.n_not_converged_ = 1, 0
        for rows in progress(parts, total=len(parts), desc="Soft labels", verbose=self.verbose):
            log_p = self._blocks.log_softmax(X[rows].astype(np.float64))
            merged = self._merge(log_p)
            self.n_iter_ = max(self.n_iter_, merged.n_iter)
            self.n_not_converged_ += merged.n_not_converged
            yield rows, merged.Q
        if self.n_not_converged_:
            warnings.warn(
                f"{type(self).__name__} stopped at max_iter for {self.n_not_converged_} of {len(X)} samples; their "
                "soft labels are usable but not optimal. Raise max_iter or tol.",
                ConvergenceWarning,
                stacklevel=4,
            )

    def _collect(self, X: Any) -> Any:
        Q = np.empty((len(X), len(self.classes_)), dtype=X.dtype)
        for rows, part in self._solve(X):
            Q[rows] = part
        return Q

    def _tempered(self, log_p: Array) -> Array:
        """Probabilities p_i of every teacher at this temperature."""
        P: Array = np.exp(self._blocks.log_softmax(log_p / self.temperature))
        return P

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def check_positive(name: str, value: Any, integer: bool = False) -> None:
    """Raise if a parameter is not a positive finite number."""
    number = isinstance(value, Real) and not isinstance(value, bool) and 0 < float(value) < np.inf
    if not number or (integer and float(value) != int(value)):
        raise ValueError(f"{name} must be a positive {'integer' if integer else 'number'}, got {value!r}.")
