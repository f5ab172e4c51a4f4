"""Soft labels of all blocks, made once and kept in the store, in the cluster's memory, or in a temporary folder.

This is the only pass in which teachers are called on all rows. All global values follow from sums over the blocks:

    n,   W = sum_i r_i,   S_l = sum_i r_i q_il

where r are the row weights. Class weights are W / S_l.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn import config_context

from sklearn_uhc.dask.blocks import (
    check_collection,
    delayed_blocks,
    is_frame,
    named_block,
    per_block,
    worker_config,
)
from sklearn_uhc.dask.cluster import client_in_use, compute, send
from sklearn_uhc.dask.outputs import merger_for_workers, open_label_store
from sklearn_uhc.dask.parcel import Parcel
from sklearn_uhc.dask.store import BlockStore, key_of_block
from sklearn_uhc.estimators.targets import known_weights
from sklearn_uhc.merging.balance import supported, weights_of_mean
from sklearn_uhc.utils.rows import in_range
from sklearn_uhc.utils.simplex import sharpen


class LabelMaker:
    """Makes the soft labels of a block on a worker; holds the merge and the store of its results."""

    def __init__(self, merger: Any, store: BlockStore | None) -> None:
        self.merger, self.store = merger, store

    def labels(self, block: Any, given: NDArray[Any] | None) -> NDArray[np.float64]:
        """Return soft labels with row weights in the last column, (n, L + 1); read from the store if they are there."""
        key = None if self.store is None else key_of_block(block)
        found: Any = None if self.store is None or key is None else self.store.load(key, len(block))
        if found is None:
            found = self._make(block)
            if self.store is not None and key is not None:
                found = self.store.save(key, found)
        return found if given is None else np.column_stack([found[:, :-1], found[:, -1] * given])

    def _make(self, block: Any) -> NDArray[np.float64]:
        merger = self.merger
        answers = merger.answers(block)
        Q = np.asarray(merger.merge(merger.adjust(answers, block), block), dtype=float)
        weights = answers.answered.astype(float)
        known = known_weights(Q, merger.classes_, merger.none_label, merger.method_.temperature, weights)
        return np.column_stack([Q, np.asarray(known)])


def labels_of_block(block: Any, number: int, given: Any, sent: Parcel, config: dict[str, Any]) -> NDArray[np.float64]:
    """Return the soft labels of a block, which may be empty; `given` are the user's row weights."""
    maker: LabelMaker = sent.value
    if len(block) == 0:
        return np.empty((0, len(maker.merger.classes_) + 1))
    with named_block(number, block), config_context(**config):
        return maker.labels(block, None if given is None else _checked_weights(given, len(block)))


def _checked_weights(given: Any, n_rows: int) -> NDArray[np.float64]:
    weights = np.asarray(given, dtype=float).ravel()
    if len(weights) != n_rows or not (np.isfinite(weights) & (weights >= 0)).all():
        raise ValueError(
            f"sample_weight must have a finite number of at least 0 for each of the {n_rows} rows of the block."
        )
    return weights


@dataclass(frozen=True)
class Sums:
    """Sums over all blocks."""

    rows: NDArray[np.int_]  #: (blocks,), number of rows of each block
    total: float  #: sum of the row weights
    by_class: NDArray[np.float64]  #: (L,), sum of soft labels times row weights
    supported: NDArray[np.bool_]  #: (L,), whether the class is the most probable one of a row

    @property
    def mean(self) -> NDArray[np.float64]:
        """Mean soft label."""
        return self.by_class / self.total

    def class_weights(self) -> NDArray[np.float64]:
        """Return the weights that balance the classes."""
        return weights_of_mean(self.mean, self.supported)


def sums_of(labels: list[Any], temperature: float = 1.0) -> Sums:
    """Add up all blocks in one pass, which also writes their soft labels to the store if there is one.

    Soft labels at a temperature are brought back to 1 first.
    """
    parts = compute(per_block(sums_of_block, "sums", labels, temperature=temperature))
    rows, totals, by_class, support = (np.asarray(each) for each in zip(*parts, strict=True))
    if not totals.sum() > 0:
        raise ValueError("No teacher answers for any row whose weight is above zero: there is nothing to learn from.")
    return Sums(rows, float(totals.sum()), by_class.sum(axis=0), np.asarray(support.any(axis=0)))


def sums_of_block(
    labels: NDArray[np.float64], temperature: float
) -> tuple[int, float, NDArray[np.float64], NDArray[np.bool_]]:
    """Return the sums over one block."""
    Q, weights = labels[:, :-1], labels[:, -1]
    return len(labels), float(weights.sum()), weights @ sharpen(Q, temperature), supported(Q, weights)


@contextmanager
def soft_labels(merger: Any, X: Any, sample_weight: Any) -> Iterator[list[Any]]:
    """Provide the delayed soft labels of all blocks such that they can be used more than once.

    With `store` they are kept on disk. Without it, a cluster keeps them in its workers' memory, which spills to disk,
    and Dask's local schedulers keep them in a temporary folder.
    """
    X, client = check_collection(X), client_in_use()
    if merger.store is not None:
        yield labels_in_passing(merger, X, sample_weight)
    elif client is not None:
        yield client.persist(_delayed_labels(merger, X, sample_weight, None))
    else:
        with TemporaryDirectory(prefix="sklearn_uhc-") as folder:
            yield _delayed_labels(merger, X, sample_weight, folder)


def labels_in_passing(merger: Any, X: Any, sample_weight: Any) -> list[Any]:
    """Return the delayed soft labels of all blocks for a single use: without `store` they are not kept."""
    return _delayed_labels(merger, X, sample_weight, merger.store)


def _delayed_labels(merger: Any, X: Any, sample_weight: Any, folder: Any) -> list[Any]:
    store = None if folder is None else open_label_store(merger, folder)
    light = merger_for_workers(merger, merger.store)
    blocks = delayed_blocks(X)
    weights = weights_of_blocks(sample_weight, X)
    sent, config = send(LabelMaker(light, store)), worker_config()
    numbers: list[Any] = list(range(len(blocks)))
    return per_block(labels_of_block, "soft-labels", blocks, numbers, weights, sent=sent, config=config)


def weights_of_blocks(sample_weight: Any, X: Any) -> list[Any]:
    """Return row weights block by block; raise an error if their blocks are not those of X."""
    n = len(delayed_blocks(X))
    if sample_weight is None:
        return [None] * n
    return aligned(sample_weight, X, "sample_weight")


def aligned(other: Any, X: Any, name: str) -> list[Any]:
    """Return the blocks of a collection that belongs to X; raise an error if its blocks are not those of X."""
    if not hasattr(type(other), "to_delayed"):
        raise TypeError(
            f"X is a Dask collection: {name} must be one too, with the same blocks, got {type(other).__name__}."
        )
    found, wanted = delayed_blocks(check_collection(other)), delayed_blocks(X)
    known = not is_frame(other) and not is_frame(X) and not np.isnan([*other.chunks[0], *X.chunks[0]]).any()
    if len(found) != len(wanted) or (known and other.chunks[0] != X.chunks[0]):
        raise ValueError(
            f"{name} must have the same blocks as X: it has {len(found)}, X has {len(wanted)}. Make both from one "
            "frame, or use rechunk."
        )
    return found


class Balance:
    """Turns soft labels into training targets, block by block: w q, normalised; the sum of all row weights is kept."""

    def __init__(self, sums: Sums, class_weight: NDArray[np.float64] | None) -> None:
        self.weight = None if class_weight is None else in_range(class_weight)
        self.factor = 1.0 if self.weight is None else sums.total / float(self.weight @ sums.by_class)
        share = sums.by_class if self.weight is None else self.weight * sums.by_class
        self.prior = share / share.sum()

    def __call__(self, labels: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the targets and row weights of a block. See `balance.balanced_targets`."""
        Q, rows = labels[:, :-1], labels[:, -1]
        if self.weight is None:
            return Q, rows
        weighted = Q * self.weight
        total = weighted.sum(axis=1)
        return weighted / total[:, None], rows * total * self.factor
