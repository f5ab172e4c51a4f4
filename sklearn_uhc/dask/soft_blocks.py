"""The training data of a student in blocks: rows, targets and weights, of which only a few blocks are in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import dask
import numpy as np
from numpy.typing import NDArray

from sklearn_uhc.dask.blocks import delayed_blocks, per_block, stacked
from sklearn_uhc.dask.cluster import client_in_use, compute, result_of, send
from sklearn_uhc.dask.parcel import Parcel
from sklearn_uhc.utils.rows import some_rows, take_rows

#: Number of blocks that are computed ahead for a student that learns from one block after the other.
AHEAD = 2


class Part(NamedTuple):
    """A block in memory."""

    X: Any
    Q: NDArray[np.float64]  #: (m, L), rows on the simplex
    weight: NDArray[np.float64]  #: (m,)

    def rows(self, rows: Any) -> Part:
        """Return some of the rows."""
        return Part(take_rows(self.X, rows), self.Q[rows], self.weight[rows])


@dataclass(frozen=True)
class SoftBlocks:
    """Rows with soft labels, in blocks."""

    X: Any  #: the Dask collection
    parts: list[Any]  #: a delayed `Part` per block
    lengths: NDArray[np.int_]  #: (blocks,), number of rows of each block
    prior: NDArray[np.float64]  #: (L,), mean target
    total: float  #: sum of the weights

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.lengths.sum())

    def some(self, most: int) -> tuple[Part, list[NDArray[np.int_]]]:
        """Return `most` evenly spaced rows in memory, and their positions in every block."""
        rows = np.arange(self.n_rows)[some_rows(self.n_rows, most)]
        ends = np.cumsum(self.lengths)
        cuts = np.searchsorted(rows, np.concatenate([[0], ends]))
        places = [
            rows[a:b] - start for a, b, start in zip(cuts[:-1], cuts[1:], ends - self.lengths, strict=True)
        ]  # fmt: skip
        chosen = [i for i, here in enumerate(places) if len(here)]
        picks = per_block(Part.rows, "sample", [self.parts[i] for i in chosen], [places[i] for i in chosen])
        return joined(compute(picks)), places

    def drawn(self, most: int, seed: int) -> Part:
        """Return at most `most` rows, drawn with probability proportional to weight; weights are divided by it.

        Rows of rare classes have larger weights after balancing and are drawn more often. So all drawn rows have about
        the same weight, and their expected loss is that of all rows.
        """
        rate = most / self.total
        numbers: list[Any] = list(range(len(self.parts)))
        part = joined(compute(per_block(draw, "drawn-rows", self.parts, numbers, rate=rate, seed=seed)))
        surplus = len(part.Q) - most
        if surplus <= 0:
            return part
        return part.rows(np.sort(np.random.default_rng(seed).permutation(len(part.Q))[surplus:]))

    def in_memory(self) -> Part:
        """Return all rows in memory."""
        return joined(compute(self.parts))

    def stream(self, order: NDArray[np.int_]) -> Iterator[tuple[int, Part]]:
        """Yield the number and content of each block, in this order; the cluster computes the next ones meanwhile."""
        client = client_in_use()
        if client is None:
            for i in order:
                yield int(i), compute([self.parts[i]])[0]
            return
        coming = [client.compute(self.parts[i]) for i in order[:AHEAD]]
        for k, i in enumerate(order):
            if k + AHEAD < len(order):
                coming.append(client.compute(self.parts[order[k + AHEAD]]))
            yield int(i), result_of(coming.pop(0))

    def mapped(self, function: Callable[[Any], Any], width: int) -> SoftBlocks:
        """Return the same blocks with other features, `width` columns of them."""
        from dask import array

        parts = per_block(transformed, "features", self.parts, sent=send(function))
        features = [
            array.from_delayed(dask.delayed(getattr)(part, "X"), (int(n), width), float)
            for part, n in zip(parts, self.lengths, strict=True)
        ]
        return replace(self, parts=parts, X=array.concatenate(features))


def parts_of(X: Any, labels: list[Any], targets: Callable[[Any], Any]) -> list[Any]:
    """Return delayed parts for the blocks of X; `targets` turns labels into targets and weights."""
    return per_block(make_part, "training-rows", delayed_blocks(X), labels, targets=targets)


def make_part(block: Any, labels: Any, targets: Callable[[Any], Any]) -> Part:
    """Combine rows, targets and weights."""
    return Part(block, *targets(labels))


def transformed(part: Part, sent: Parcel) -> Part:
    """Return a part with transformed features; a block without rows is returned as it is."""
    return part._replace(X=sent.value(part.X)) if len(part.Q) else part


def draw(part: Part, number: int, rate: float, seed: int) -> Part:
    """Draw rows with probability min(weight * rate, 1), by systematic sampling."""
    chance = np.minimum(part.weight * rate, 1.0)
    steps = np.cumsum(chance) + np.random.default_rng([seed, number]).random()
    chosen = np.flatnonzero(np.floor(steps) > np.floor(steps - chance))
    picked = part.rows(chosen)
    return picked._replace(weight=picked.weight / np.maximum(chance[chosen], 1e-300))


def joined(parts: list[Part]) -> Part:
    """Concatenate parts along the rows."""
    parts = [part for part in parts if len(part.Q)]
    X, Q, weight = zip(*parts, strict=True)
    return Part(stacked(list(X)), np.concatenate(Q), np.concatenate(weight))
