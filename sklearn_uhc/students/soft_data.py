"""Training data of a strategy: rows, soft labels, weights, and rows for early stopping."""

from __future__ import annotations

from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_array, check_random_state

from sklearn_uhc.spaces.label_space import LabelSpace
from sklearn_uhc.utils.response import SUM_TOLERANCE
from sklearn_uhc.utils.rows import count_rows, in_range, take_rows


class EvalRows(NamedTuple):
    """Rows for early stopping."""

    X: Any
    Q: NDArray[np.float64]  #: (m, L), rows on the simplex
    weight: NDArray[np.float64] | None = None  #: (m,)


@dataclass(frozen=True)
class SoftData:
    """Rows X with soft labels Q, checked."""

    X: Any
    Q: NDArray[np.float64]  #: (n, L), rows on the simplex
    weight: NDArray[np.float64] | None  #: (n,)
    classes: NDArray[Any]  #: (L,), sorted
    eval_set: tuple[EvalRows, ...] = ()  #: rows for early stopping
    validation_fraction: float = 0.1
    random_state: Any = None
    temperature: float = 1.0  #: of the soft labels, for students that handle it themselves
    copies: int | str = "auto"  #: maximum number per row, "all", or "auto"

    @property
    def mean(self) -> NDArray[np.float64]:
        """Mean soft label (L,), at least 1e-15 so that its logarithm is finite."""
        return np.maximum(np.average(self.Q, axis=0, weights=self.weight), 1e-15)

    @property
    def row_weights(self) -> NDArray[np.float64]:
        """Weights (n,), ones if there are none."""
        return np.ones(len(self.Q)) if self.weight is None else self.weight

    def copies_or(self, default: int) -> int:
        """Return the requested number of copies per row, or `default` for "auto"."""
        return {"auto": default, "all": self.Q.shape[1]}.get(str(self.copies)) or int(self.copies)

    def rng(self, estimator: Any) -> np.random.RandomState:
        """Return the generator for random draws: from the given state, else from the estimator's, else a new one."""
        own = estimator.get_params(deep=False).get("random_state")
        return check_random_state(own if self.random_state is None and isinstance(own, Integral) else self.random_state)

    def rows(self, rows: NDArray[np.int_]) -> SoftData:
        """Return some of the rows."""
        weight = None if self.weight is None else self.weight[rows]
        return replace(self, X=take_rows(self.X, rows), Q=self.Q[rows], weight=weight)

    def with_validation(self) -> SoftData:
        """Hold out a random share of the rows in `eval_set`, unless there is one already."""
        if self.eval_set:
            return self
        n = len(self.Q)
        aside = round(self.validation_fraction * n)
        if not 0 < aside < n:
            raise ValueError(
                f"validation_fraction={self.validation_fraction} of {n} rows leaves no rows for early stopping, or "
                "none for training. Use a share between 0 and 1, or pass eval_set."
            )
        order = check_random_state(self.random_state).permutation(n)
        held_out = self.rows(order[:aside])
        return replace(self.rows(np.sort(order[aside:])), eval_set=(EvalRows(held_out.X, held_out.Q, held_out.weight),))

    def one_eval_set(self, name: str) -> EvalRows:
        """Return the rows for early stopping, for an estimator that accepts one such set."""
        if len(self.eval_set) > 1:
            raise ValueError(f"{name} accepts one eval_set for early stopping, got {len(self.eval_set)}.")
        return self.eval_set[0]

    def with_class_weight(self, class_weight: Any) -> SoftData:
        """Apply class weights to the soft labels: targets w q / sum(w q), row weights times sum(w q)."""
        W = self.Q * in_range(self._weight_per_class(class_weight))
        total = W.sum(axis=1)
        seen = np.flatnonzero(total > 0)
        if len(seen) == 0:
            raise ValueError("class_weight gives every row zero weight.")
        weighted = replace(self, Q=W / np.where(total > 0, total, 1.0)[:, None], weight=self.row_weights * total)
        return weighted if len(seen) == len(total) else weighted.rows(seen)

    def _weight_per_class(self, class_weight: Any) -> NDArray[np.float64]:
        if isinstance(class_weight, str) and class_weight == "balanced":
            counts = self.row_weights @ self.Q
            return np.where(counts > 0, counts.sum() / (len(counts) * np.where(counts > 0, counts, 1.0)), 1.0)
        if not isinstance(class_weight, dict):
            raise ValueError(
                "With soft labels, class_weight must be 'balanced' or a dict from classes to weights, got "
                f"{class_weight!r}."
            )
        unknown = [label for label in class_weight if label not in set(self.classes.tolist())]
        if unknown:
            raise ValueError(f"class_weight names {unknown}, which are not among the classes {self.classes.tolist()}.")
        return np.array([float(class_weight.get(label, 1.0)) for label in self.classes.tolist()])


def check_soft_labels(X: Any, y: Any, columns: NDArray[Any]) -> NDArray[np.float64]:
    """Check soft labels, and return them with columns sorted by class."""
    Q = check_array(y, dtype=np.float64, input_name="y")
    if len(Q) != count_rows(X):
        raise ValueError(
            f"Found input variables with inconsistent numbers of samples: X has {count_rows(X)} rows, "
            f"the soft labels y have {len(Q)}."
        )
    if (Q < 0).any():
        row = int(np.argmax((Q < 0).any(axis=1)))
        raise ValueError(
            f"Soft labels must be probabilities: row {row} of y has the value {Q[row].min():.6g}. If they are "
            "logarithms, take the exponential first."
        )
    total = Q.sum(axis=1)
    wrong = ~(np.abs(total - 1) <= SUM_TOLERANCE)
    if wrong.any():
        row = int(np.argmax(wrong))
        raise ValueError(
            f"Soft labels must be probabilities: row {row} of y sums to {total[row]:.6g}. Normalise the rows, and "
            "pass row weights as sample_weight."
        )
    return Q[:, np.argsort(columns)] / total[:, None]


def column_classes(y: Any, classes: Any) -> NDArray[Any]:
    """Return the class of every column of soft labels, from `classes`, the column names, or column numbers."""
    n = np.shape(y)[1]
    given = None if classes is None else list(classes)
    own = list(y.columns) if hasattr(y, "columns") else list(range(n))
    named = own != list(range(n))
    if given is not None and named and set(given) != set(own):
        raise ValueError(f"classes={given} differ from the columns of y, {own}: pass one or the other.")
    names = own if named or given is None else given
    if len(names) != n:
        raise ValueError(f"classes must have one distinct name for each of the {n} columns of y, got {given}.")
    return LabelSpace([names]).class_lists[0]


def columns_like(y: Any, own: NDArray[Any]) -> NDArray[Any]:
    """Return the class of every column of later soft labels: by name if they have names, else as in `fit` (`own`)."""
    shape = np.shape(y)
    if len(shape) != 2:
        raise ValueError(
            f"Soft labels need a column for each of the classes {own.tolist()}, got y of shape {shape}. "
            "To use true labels as soft ones: (y[:, None] == classes).astype(float)."
        )
    names = list(getattr(y, "columns", range(shape[1])))
    named = names != list(range(shape[1]))
    if (named and set(names) != set(own.tolist())) or len(names) != len(own):
        what = names if named else f"{shape[1]} columns"
        raise ValueError(f"Soft labels must have the classes seen in fit, {own.tolist()}, got {what}.")
    return np.asarray(names, dtype=own.dtype) if named else own


def check_copies(copies: Any) -> None:
    """Raise an error unless this is a valid number of copies per row."""
    number = isinstance(copies, Integral) and not isinstance(copies, bool) and int(copies) >= 1
    if not number and not (isinstance(copies, str) and copies in ("auto", "all")):
        raise ValueError(f"copies must be 'auto', 'all' or a whole number of at least 1, got {copies!r}.")
