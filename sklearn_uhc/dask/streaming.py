"""Students that need one block at a time: naive Bayes by sums, classifiers with `partial_fit` in several passes."""

from __future__ import annotations

from inspect import signature
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.preprocessing import binarize
from sklearn.utils.validation import validate_data

from sklearn_uhc.dask.blocks import per_block
from sklearn_uhc.dask.cluster import compute
from sklearn_uhc.dask.soft_blocks import Part, SoftBlocks
from sklearn_uhc.students.epochs import GOLDEN, setting, train_by_epochs
from sklearn_uhc.students.sample import classes_at
from sklearn_uhc.students.soft_data import EvalRows

#: Estimators whose statistics are sums over the rows.
NAIVE_BAYES = frozenset(("sklearn", name) for name in ("GaussianNB", "MultinomialNB", "ComplementNB", "BernoulliNB"))


def fit_epochs(estimator: Any, data: SoftBlocks, held: Any) -> Any:
    """Train in passes over all blocks, in random order, with labels drawn anew in each. See `students.epochs`."""
    stops = setting(estimator, "early_stopping") is True
    seed, rng = held.seed(estimator), np.random.default_rng(held.seed(estimator))

    def learn(epoch: int) -> None:
        for number, part in data.stream(rng.permutation(len(data.parts))):
            kept = without(part, held.places[number]) if stops else part
            _learn(estimator, kept, held.classes, epoch, [seed, number])

    return train_by_epochs(estimator, learn, EvalRows(*held.part), held.classes, stops, "passes over all blocks")


def _learn(estimator: Any, part: Part, classes: NDArray[Any], epoch: int, seed: list[int]) -> None:
    """Learn from one block, with labels drawn for this pass; rows are resampled if `partial_fit` takes no weights."""
    if not part.weight.any():
        return
    rng = np.random.default_rng(seed)
    places = (rng.random(len(part.Q)) + epoch * GOLDEN) % 1.0
    y = classes[classes_at(np.cumsum(part.Q, axis=1), places[:, None])[:, 0]]
    if "sample_weight" in signature(estimator.partial_fit).parameters:
        estimator.partial_fit(part.X, y, classes=classes, sample_weight=part.weight)
        return
    steps = np.cumsum(part.weight)
    drawn = np.arange(max(1, round(float(steps[-1])))) + rng.random()
    rows = np.searchsorted(steps[:-1], drawn * (steps[-1] / len(drawn)), side="right")
    estimator.partial_fit(part.rows(rows).X, y[rows], classes=classes)


def without(part: Part, places: NDArray[np.int_]) -> Part:
    """Return a part without the rows that are held out."""
    return part.rows(np.setdiff1d(np.arange(len(part.Q)), places))


def fit_naive_bayes(estimator: Any, data: SoftBlocks, held: Any) -> Any:
    """Fit on sums over all rows, as in memory, in one pass on the workers. See `students.naive_bayes`."""
    gaussian = type(estimator).__name__ == "GaussianNB"
    threshold = getattr(estimator, "binarize", None)
    few = _numbers(held.part.X, threshold)
    centre = few.mean(axis=0, dtype=float) if gaussian else np.zeros(few.shape[1])
    sums = compute(per_block(sums_of_part, "moments", data.parts, centre=centre, threshold=threshold))
    N, first, second, n, x, xx = (sum(each) for each in zip(*sums, strict=True))
    N = np.maximum(N, 1e-300)
    theta = first / N[:, None]
    if gaussian:
        estimator.fit(theta, held.classes)
        estimator.epsilon_ = estimator.var_smoothing * float(np.max(xx / n - (x / n) ** 2))
        estimator.var_ = np.maximum(second / N[:, None] - theta**2, 0.0) + estimator.epsilon_
        estimator.theta_, estimator.class_count_ = theta + centre, N
        if estimator.priors is None:
            estimator.class_prior_ = N / N.sum()
    else:
        if threshold is not None:
            estimator.set_params(binarize=None)
        estimator.fit(theta, held.classes, sample_weight=N)
        if threshold is not None:
            estimator.set_params(binarize=threshold)
    validate_data(estimator, held.part.X, skip_check_array=True)  # sets the feature names
    return estimator


def sums_of_part(part: Part, centre: NDArray[np.float64], threshold: float | None) -> tuple[Any, ...]:
    """Return weights, first and second moments per class, and the same for all rows together."""
    d, L = len(centre), part.Q.shape[1]
    X = _numbers(part.X, threshold) - centre if len(part.Q) else np.empty((0, d))
    W = part.Q * part.weight[:, None]
    second = W.T @ X**2 if len(part.Q) else np.zeros((L, d))
    return W.sum(axis=0), W.T @ X, second, len(X), X.sum(axis=0), (X**2).sum(axis=0)


def _numbers(X: Any, threshold: float | None) -> NDArray[np.float64]:
    values = np.asarray(X, dtype=float)
    return values if threshold is None else binarize(values, threshold=threshold)
