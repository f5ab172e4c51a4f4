"""Students on Dask collections: in memory if all rows fit, else on all blocks if they can, else on a sample.

| student | how |
|---|---|
| XGBClassifier, LGBMClassifier | `xgboost.dask`, `lightgbm.dask`: the rows stay on the workers |
| naive Bayes | sums over all blocks, in one pass |
| classifiers with `partial_fit` and `max_iter`, skorch nets, torch modules | block after block, in several passes |
| all others | rows drawn by weight, as many as `max_rows` or the memory budget allow |
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.pipeline import Pipeline

from sklearn_uhc.dask.blocks import check_collection, delayed_blocks, per_block, row_bytes
from sklearn_uhc.dask.cluster import client_in_use
from sklearn_uhc.dask.labels import Balance, aligned, sums_of, weights_of_blocks
from sklearn_uhc.dask.soft_blocks import Part, SoftBlocks, parts_of
from sklearn_uhc.dask.transformers import refuse_given
from sklearn_uhc.students.direct import as_estimator, clone_student, is_net
from sklearn_uhc.students.epochs import EpochStrategy
from sklearn_uhc.students.soft_data import SoftData, check_soft_labels
from sklearn_uhc.students.soft_label_classifier import SoftLabelClassifier
from sklearn_uhc.students.strategies import STRATEGIES
from sklearn_uhc.students.temperature import power_of
from sklearn_uhc.utils.notes import add_note, warn_user
from sklearn_uhc.utils.parameters import check_positive

#: Memory for rows and soft labels of a student that learns from all rows at once, in bytes.
BUDGET = 2**30
#: Maximum number of rows in memory for early stopping, temperatures, and the transformers of a Pipeline.
HELD_ROWS = 5_000

Way = Callable[[Any, SoftBlocks, "Held"], Any]


class Held:
    """Some rows in memory, with settings that all training functions need."""

    def __init__(self, data: SoftBlocks, student: SoftLabelClassifier) -> None:
        self.part, self.places = data.some(min(HELD_ROWS, max(1, data.n_rows // 10)))
        self.classes, self.random_state = student.classes_, student.random_state
        self.data = SoftData(
            *self.part, self.classes, random_state=student.random_state, temperature=float(student.temperature)
        )

    def seed(self, estimator: Any) -> int:
        """Return a seed for random draws."""
        return int(self.data.rng(estimator).randint(2**31 - 1))


def fit(
    student: SoftLabelClassifier, X: Any, y: Any, sample_weight: Any = None, *, eval_set: Any = None, **params: Any
) -> SoftLabelClassifier:
    """Train on soft labels that are a Dask collection with the same blocks as X."""
    refuse_given(eval_set=eval_set, **params)
    X = check_collection(X)
    if not hasattr(y, "to_delayed") or getattr(y, "ndim", 1) != 2:
        raise TypeError(
            "X is a Dask collection: the soft labels y must be one too, with a column per class and the same blocks. "
            "For ordinary labels use the estimator itself, or dask-ml."
        )
    columns = _columns_of(student, y)
    labels = per_block(
        checked_labels, "soft-labels", delayed_blocks(X), aligned(y, X, "y"), weights_of_blocks(sample_weight, X),
        columns=columns,
    )  # fmt: skip
    sums = sums_of(labels)
    balance = Balance(sums, None)
    original, student.classes = student.classes, np.sort(columns)
    try:
        train(student, SoftBlocks(X, parts_of(X, labels, balance), sums.rows, balance.prior, sums.total))
    finally:
        student.classes = original
    student._columns = columns
    return student


def _columns_of(student: SoftLabelClassifier, y: Any) -> NDArray[Any]:
    """Return the class of every column of y."""
    from sklearn_uhc.students.soft_data import column_classes

    if hasattr(y, "columns"):
        return column_classes(y._meta, student.classes)
    return column_classes(np.empty((0, y.shape[1])), student.classes)


def checked_labels(block: Any, y: Any, weight: Any, columns: NDArray[Any]) -> NDArray[np.float64]:
    """Return the soft labels of a block, in the order of the classes, with row weights in the last column."""
    if len(block) == 0:
        return np.empty((0, len(columns) + 1))
    weights = np.ones(len(block)) if weight is None else np.asarray(weight, dtype=float).ravel()
    return np.column_stack([check_soft_labels(block, np.asarray(y), columns), weights])


def train(student: SoftLabelClassifier, data: SoftBlocks) -> None:
    """Train a student, whose classes and temperature are set, in the best way for its kind."""
    most = most_rows(student, data)
    if data.n_rows <= most:
        _fit_in_memory(student, data.in_memory())
        return
    way = way_to_train(student)
    if way is None:
        name = type(as_estimator(student.estimator)).__name__
        if student.max_rows is None:
            warn_user(
                f"{name} learns from all rows at once, and {data.n_rows:,} rows need more than {BUDGET / 2**30:.0f} "
                f"GiB of memory: it was trained on {most:,} rows, drawn by their weight. Set the number with "
                f"SoftLabelClassifier({name}(...), max_rows=...), or use a student that learns block by block: a "
                "booster, a network, naive Bayes or a classifier with partial_fit."
            )
        part = data.drawn(most, seed_of(student))
        _fit_in_memory(student, part)
        return
    student.classes_ = student._columns = np.sort(np.asarray(student.classes))
    student.class_prior_ = data.prior
    try:
        way(data)
    except Exception as error:
        add_note(error, f"This came from training the student, {type(student.estimator).__name__}, on blocks.")
        raise


def most_rows(student: SoftLabelClassifier, data: SoftBlocks) -> int:
    """Return the number of rows that may be in memory: `max_rows`, or what fits into the budget."""
    if student.max_rows is not None:
        check_positive("max_rows", student.max_rows, integer=True)
        return int(student.max_rows)
    return max(1, int(BUDGET // (row_bytes(data.X) + 24 * len(data.prior))))


def seed_of(student: SoftLabelClassifier) -> int:
    """Return the seed for drawing rows: an integer `random_state` of the student, otherwise 0."""
    state = student.random_state
    return int(state) if isinstance(state, (int, np.integer)) else 0


def _fit_in_memory(student: SoftLabelClassifier, part: Part) -> None:
    """Train in memory; weights that are all equal are left out."""
    alike = bool((part.weight == part.weight[0]).all())
    SoftLabelClassifier.fit(student, part.X, part.Q, None if alike else part.weight)


def way_to_train(student: SoftLabelClassifier) -> Callable[[SoftBlocks], None] | None:
    """Return the function that trains the student on blocks, or None if it cannot."""
    estimator = as_estimator(student.estimator)
    if isinstance(estimator, Pipeline):
        inner = student._take_apart()[1].set_params(classes=student.classes, max_rows=student.max_rows)
        return None if way_to_train(inner) is None else partial(_train_pipeline, student)
    way, name = _block_way(estimator)
    if way is None or student.strategy not in ("auto", name):
        return None
    return partial(_train_alone, student, way, name)


def _block_way(estimator: Any) -> tuple[Way | None, str]:
    """Return the function that trains this estimator on blocks, or None, and the name of its strategy."""
    kind = type(estimator).__module__.partition(".")[0], type(estimator).__name__
    if is_net(estimator):
        from sklearn_uhc.dask.networks import fit_net

        return fit_net, "direct"
    if kind in (("xgboost", "XGBClassifier"), ("lightgbm", "LGBMClassifier")):
        if client_in_use() is None:
            return None, "direct"
        from sklearn_uhc.dask import boosters

        return (boosters.fit_xgboost if kind[0] == "xgboost" else boosters.fit_lightgbm), "direct"
    from sklearn_uhc.dask import streaming

    if kind in streaming.NAIVE_BAYES:
        return streaming.fit_naive_bayes, "direct"
    return (streaming.fit_epochs, "epochs") if EpochStrategy.accepts(estimator) else (None, "")


def _train_alone(student: SoftLabelClassifier, way: Way, name: str, data: SoftBlocks) -> None:
    estimator = clone_student(as_estimator(student.estimator))
    given = estimator.get_params(deep=False)
    for setting in ("warm_start", "class_weight"):
        if given.get(setting) not in (None, False):
            raise ValueError(
                f"{setting}={given[setting]!r} of {type(estimator).__name__} is not supported on blocks of rows: leave "
                "it out; use balance of the distiller for classes, and sample_weight for rows."
            )
    held = Held(data, student)
    strategy = next(s for s in STRATEGIES if s.name == name)
    fitted = way(estimator, data, held)
    student.estimator_, student.strategy_ = fitted, name
    answers = partial(strategy.log_answers, fitted, classes=held.classes, prior=data.prior)
    student._power = 1.0 if is_net(fitted) else power_of(fitted, held.data, answers)


def _train_pipeline(student: SoftLabelClassifier, data: SoftBlocks) -> None:
    """Fit the transformers on some rows, and the last step on all transformed blocks."""
    head, inner = student._take_apart()
    inner.set_params(classes=student.classes, max_rows=student.max_rows)
    if len(head.steps):
        some, _ = data.some(HELD_ROWS)
        shown = clone(head).fit(some.X, student.classes_[some.Q.argmax(axis=1)])
        head, width = shown, np.shape(shown.transform(some.X[:1] if hasattr(some.X, "shape") else some.X))[1]
        data = data.mapped(head.transform, width)
    inner.classes_ = inner._columns = student.classes_
    inner.class_prior_ = data.prior
    way = way_to_train(inner)
    assert way is not None
    way(data)
    student._put_together(head, inner)
