"""Networks from blocks: an epoch is a pass over all blocks in random order, with batches shuffled within blocks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from skorch import NeuralNetClassifier
from skorch.helper import predefined_split
from torch.utils.data import DataLoader, IterableDataset

from sklearn_uhc.dask.soft_blocks import Part, SoftBlocks
from sklearn_uhc.dask.streaming import without
from sklearn_uhc.students import skorch as nets
from sklearn_uhc.students.net_validation import set_scores


class BlockStream(IterableDataset):
    """Batches of inputs and weighted targets, one block after the other."""

    def __init__(self, data: SoftBlocks, held: Any, batch_size: int, set_aside: bool, seed: int) -> None:
        self.data, self.held, self.batch_size, self.set_aside = data, held, batch_size, set_aside
        self.rng = np.random.default_rng(seed)
        self.mean = data.total / data.n_rows  # mean row weight

    def __iter__(self) -> Iterator[tuple[Any, Any]]:
        for number, part in self.data.stream(self.rng.permutation(len(self.data.parts))):
            part = without(part, self.held.places[number]) if self.set_aside else part
            yield from self._batches(part)

    def _batches(self, part: Part) -> Iterator[tuple[Any, Any]]:
        if not len(part.Q):
            return
        X = part.X.copy() if isinstance(part.X, np.ndarray) else part.X  # arrays from the network are read-only
        inputs = torch.as_tensor(nets.as_input(X))
        targets = torch.as_tensor((part.Q * (part.weight / self.mean)[:, None]).astype(np.float32))
        order = torch.as_tensor(self.rng.permutation(len(targets)))
        for rows in order.split(self.batch_size):
            yield inputs[rows], targets[rows]


def fit_net(net: Any, data: SoftBlocks, held: Any) -> Any:
    """Train a net on w q; if it has a validation split, the rows held in memory replace it."""
    probabilities = nets._prepare(net, held.part.X, held.classes)
    set_scores(net, soft=True)
    net.set_params(criterion=nets.StudentLoss, criterion__temperature=held.data.temperature)
    net.set_params(criterion__probabilities=probabilities)
    if net.iterator_train is not DataLoader:
        raise ValueError("A net with its own iterator_train cannot train on blocks of rows: use torch's DataLoader.")
    if net.max_epochs is None:
        net.set_params(max_epochs=nets.enough_epochs(data.n_rows, net.batch_size))
    batch_size = net.batch_size if isinstance(net.batch_size, int) and net.batch_size > 0 else 128
    stream = BlockStream(data, held, batch_size, bool(net.train_split), held.seed(net))
    own = _set_for_blocks(net, held)
    with nets.seeded(held.random_state):
        net.fit(stream, None)
    net.iterator_train = DataLoader
    net.set_params(**own)
    nets._check_training(net)
    return net


def _set_for_blocks(net: Any, held: Any) -> dict[str, Any]:
    """Make the net accept ready batches, and return its previous settings."""
    own = {"train_split": net.train_split}
    if net.train_split:
        own_targets: NDArray[np.float32] = held.part.Q.astype(np.float32)
        net.set_params(train_split=predefined_split(nets._as_dataset(net, held.part.X, own_targets)))
    if isinstance(net, NeuralNetClassifier):  # it predicts class indices, so its scorers get indices
        own["classes"] = net.classes
        net.set_params(classes=np.arange(len(net.classes)))
    net.iterator_train = ready_batches
    return own


def ready_batches(stream: BlockStream, **settings: Any) -> BlockStream:
    """Return the stream unchanged, since it yields batches; used as the net's `iterator_train`."""
    return stream
