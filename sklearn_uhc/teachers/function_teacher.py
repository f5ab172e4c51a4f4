"""Any function of rows as a teacher."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import gen_batches

from sklearn_uhc.teachers.answering import AnsweringTeacher, Floats, check_kind, to_log_proba
from sklearn_uhc.utils.parameters import check_positive
from sklearn_uhc.utils.rows import count_rows, take_rows
from sklearn_uhc.utils.unchanged import copy_of

__all__ = ["FunctionTeacher"]


class FunctionTeacher(AnsweringTeacher):
    """A function from rows to probabilities, as a fitted classifier.

    For anything without a more specific class: a model of another library, a rule, an external program.

    Parameters
    ----------
    function : callable
        Takes rows of X, in the type that X has, and returns an array or frame of shape (n, k), a number per class. It
        gets a copy and may change it. It may return NaN for all classes to leave a row unanswered.
    classes : list
        The k classes, in the order of the function's output.
    output_kind : {"proba", "log_proba", "logits"}, default="proba"
        What the function returns.
    batch_size : int, default=None
        Largest number of rows per call. None: no limit, which in a merge means scikit-learn's `working_memory`.

    Attributes
    ----------
    classes_ : ndarray of shape (k,)
        `classes`.

    Notes
    -----
    For `store`, `memory` and pickling, the function must be importable. It counts by its name: use an
    empty folder when its code changes. A `functools.partial` of such a function counts with its arguments.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_uhc import FunctionTeacher
    >>> def by_sign(X):
    ...     positive = 1 / (1 + np.exp(-X[:, 0]))
    ...     return np.column_stack([1 - positive, positive])
    >>> teacher = FunctionTeacher(by_sign, ["minus", "plus"])
    >>> teacher.predict(np.array([[-2.0], [3.0]])).tolist()
    ['minus', 'plus']
    """

    def __init__(
        self,
        function: Callable[[Any], Any],
        classes: Sequence[Any],
        *,
        output_kind: str = "proba",
        batch_size: int | None = None,
    ) -> None:
        self.function = function
        self.classes = classes
        self.output_kind = output_kind
        self.batch_size = batch_size

    @property
    def classes_(self) -> NDArray[Any]:
        """The classes, in the order of the answers."""
        self._check_parameters()
        return np.asarray(self.classes)

    def predict_log_proba(self, X: Any) -> Floats:
        """Return log-probabilities.

        Parameters
        ----------
        X : anything with n rows
            Passed to the function.

        Returns
        -------
        log_proba : ndarray of shape (n, k)
        """
        self._check_parameters()
        n = count_rows(X)
        if self.batch_size is None or self.batch_size >= n:
            return self._ask(X)
        return np.concatenate([self._ask(take_rows(X, rows)) for rows in gen_batches(n, int(self.batch_size))])

    def _ask(self, rows: Any) -> Floats:
        name = getattr(self.function, "__name__", type(self.function).__name__)
        remedy = 'If these are scores or logits, pass output_kind="logits".'
        answer = self.function(copy_of(rows))
        return to_log_proba(answer, self.output_kind, count_rows(rows), len(self.classes), name, remedy)

    def _check_parameters(self) -> None:
        if not callable(self.function):
            raise TypeError(f"function must be a function of rows, got {self.function!r}.")
        check_kind("output_kind", self.output_kind)
        if self.batch_size is not None:
            check_positive("batch_size", self.batch_size, integer=True)

    def _decides_answers(self) -> Any:
        """Return what the answers depend on; the batch size is not part of it."""
        return self.function, self.classes, self.output_kind
