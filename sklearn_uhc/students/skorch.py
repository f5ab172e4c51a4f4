"""Networks: skorch nets, and bare torch modules, on soft labels or directly on the teachers' answers.

The soft cross-entropy is taken at the temperature of the soft labels, softmax(logits / T), times T^2, so that one
learning rate works at all temperatures (see `losses`). Predictions are softmax(logits), at temperature 1. A net written
for hard labels is cloned and adapted: its criterion, stratified split, and the accuracy that skorch reports, which does
not exist for direct backpropagation.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from math import ceil
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils import check_random_state
from skorch import NeuralNet, NeuralNetClassifier
from skorch.dataset import Dataset as SkorchDataset
from skorch.dataset import ValidSplit
from skorch.helper import predefined_split
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, default_collate

from sklearn_uhc.students.net_validation import Validation, set_scores, with_answers, with_class_numbers
from sklearn_uhc.students.soft_data import SoftData
from sklearn_uhc.utils.device import module_input, resolve_device
from sklearn_uhc.utils.notes import warn_user
from sklearn_uhc.utils.rows import count_rows, is_dataset

#: Number of rows of the batch that shows what the module returns.
PROBE = 16
#: A bare module is trained for at least this many epochs, and at least this many steps.
LEAST_EPOCHS, LEAST_STEPS = 20, 2000


class SoftTargetLoss(nn.Module):
    """T^2 times the mean over the rows of - sum_l target_l log softmax(logits / T)_l; targets may be weighted."""

    def __init__(self, temperature: float = 1.0, probabilities: bool = False) -> None:
        super().__init__()
        self.temperature, self.probabilities = temperature, probabilities

    def forward(self, output: Tensor, target: Tensor) -> Tensor:
        """Return the loss of logits, or of probabilities if the module returns these."""
        logits = log_of(output) if self.probabilities else output
        losses = -(target * torch.log_softmax(logits / self.temperature, dim=-1)).sum(dim=-1)
        return self.temperature**2 * losses.mean()


def log_of(probabilities: Tensor) -> Tensor:
    """Return the logarithm, finite at 0."""
    return probabilities.clamp_min(torch.finfo(probabilities.dtype).tiny).log()


class StudentLoss(SoftTargetLoss):
    """The same; for true labels, which validation rows may have, the log-loss of the predictions."""

    def forward(self, output: Tensor, target: Tensor) -> Tensor:
        """Return the loss of targets (n, L), or of class indices (n,), at temperature 1."""
        if target.ndim > 1:
            return super().forward(output, target)
        return nn.functional.cross_entropy(log_of(output) if self.probabilities else output, target)


class Given:
    """Wraps an existing criterion in a callable, since skorch creates criteria when the net is initialised."""

    def __init__(self, loss: nn.Module) -> None:
        self.loss = loss

    def __call__(self) -> nn.Module:
        """Return the criterion."""
        return self.loss


class WithTargets(Dataset):
    """Inputs of a dataset, without its other items, with one target per row."""

    def __init__(self, inputs: Any, targets: NDArray[Any]) -> None:
        self.inputs, self.targets = inputs, targets

    def __len__(self) -> int:
        return len(self.targets)

    def __getitem__(self, i: Any) -> Any:
        item = self.inputs[i]
        return (item[0] if isinstance(item, (tuple, list)) else item), self.targets[i]


class Rows(Dataset):
    """Rows of arrays, returned in batches: `DataLoader` would get them one by one and stack them again."""

    def __init__(self, *arrays: Any) -> None:
        self.arrays = [torch.as_tensor(array) for array in arrays]

    def __len__(self) -> int:
        return len(self.arrays[0])

    def __getitem__(self, i: Any) -> Any:
        return tuple(array[i] for array in self.arrays)

    def __getitems__(self, rows: list[int]) -> ReadyBatch:
        index = torch.as_tensor(rows)
        return ReadyBatch(array[index] for array in self.arrays)


class ReadyBatch(tuple):
    """Tensors that already are a batch."""


def collate(items: Any) -> Any:
    """Collate rows into a batch, unless they already are one."""
    return tuple(items) if isinstance(items, ReadyBatch) else default_collate(items)


def softmax(output: Tensor, factor: float = 1.0) -> Tensor:
    """Return probabilities at temperature 1; a named function, so that nets can be pickled."""
    return torch.softmax(factor * output, dim=-1)


def accepts(estimator: Any) -> bool:
    """Accept every skorch net."""
    return True


def wrap(module: Any) -> NeuralNet:
    """Make a net of a bare module: Adam, shuffled batches of 128, no validation; the epochs depend on the rows."""
    return NeuralNet(
        module,
        criterion=SoftTargetLoss,
        optimizer=torch.optim.Adam,
        lr=1e-3,
        max_epochs=None,
        batch_size=128,
        iterator_train__shuffle=True,
        train_split=None,
        device=resolve_device("auto"),
        verbose=0,
    )


def fit(net: Any, data: SoftData, **params: Any) -> Any:
    """Train on w q, with row weights of mean 1."""
    probabilities = _prepare(net, data.X, data.classes)
    set_scores(net, soft=True)
    net.set_params(criterion=StudentLoss, criterion__temperature=data.temperature)
    net.set_params(criterion__probabilities=probabilities)
    split = net.train_split
    if split:
        split = Validation(split, partial(with_class_numbers, classes=data.classes))
    if data.eval_set:
        X, Q, weight = data.one_eval_set(type(net).__name__)
        split = predefined_split(_as_dataset(net, X, _weighted(Q, weight)))
    return _train(net, split, data.X, _weighted(data.Q, data.weight), data.random_state, params)


def _weighted(Q: NDArray[Any], weight: NDArray[Any] | None) -> NDArray[np.float32]:
    """Multiply the targets by row weights of mean 1."""
    return (Q if weight is None else Q * (weight / weight.mean())[:, None]).astype(np.float32)


def fit_to_teachers(net: Any, X: Any, log_p: NDArray[Any], loss: Any, random_state: Any) -> Any:
    """Train by direct backpropagation: `loss` compares logits with the answers of all teachers."""
    if _prepare(net, X, loss.classes):
        raise ValueError("Direct backpropagation needs a module that returns logits: remove its softmax.")
    set_scores(net, soft=False)
    net.set_params(criterion=Given(loss))
    split = net.train_split
    if split:
        split = Validation(split, partial(with_answers, n_answers=log_p.shape[1]))
    _train(net, split, X, np.asarray(log_p, dtype=np.float32), random_state, {})
    if getattr(loss, "scale", "fixed") == "free":
        # The scale of MF-LU's u is arbitrary: the mean of v brings it to that of the teachers.
        net.set_params(predict_nonlinearity=partial(softmax, factor=_mean_scale(net, X, log_p, loss)))
    return net


def _mean_scale(net: Any, X: Any, log_p: NDArray[Any], loss: Any) -> float:
    """Return the mean over the rows of the mean v of the teachers that answer, batch by batch."""
    total, answered, start = 0.0, 0, 0
    for logits in net.forward_iter(as_input(X), training=False, device="cpu"):
        rows = torch.as_tensor(np.asarray(log_p[start : start + len(logits)]))
        means = loss.scales(logits, rows).nanmean(dim=1)  # NaN if nobody answers
        total += float(means.nansum())
        answered += int((~means.isnan()).sum())
        start += len(logits)
    return total / answered if answered else 1.0


def predict_proba(net: Any, X: Any) -> NDArray[np.float64]:
    """Return probabilities at temperature 1."""
    return np.asarray(net.predict_proba(as_input(X)), dtype=float)


def _train(net: Any, split: Any, X: Any, targets: NDArray[Any], random_state: Any, params: dict[str, Any]) -> Any:
    """Train with validation rows from `split`, which is removed from the net afterwards."""
    if net.max_epochs is None:
        net.set_params(max_epochs=enough_epochs(len(targets), net.batch_size))
    own = {"train_split": net.train_split}
    net.set_params(train_split=split)
    if isinstance(net, NeuralNetClassifier):  # it predicts class indices, so its scorers get indices
        own["classes"] = net.classes
        net.set_params(classes=np.arange(len(net.classes)))
    with seeded(random_state):
        net.fit(_as_dataset(net, X, targets), None, **params)
    net.set_params(**own)
    _check_training(net)
    return net


def enough_epochs(n_rows: int, batch_size: int) -> int:
    """Return the number of epochs for a bare module: with few rows an epoch has few steps, so more are needed."""
    steps = ceil(n_rows / batch_size)
    return max(LEAST_EPOCHS, ceil(LEAST_STEPS / steps))


def _check_training(net: Any) -> None:
    """Raise an error at once if training diverged, not at the first prediction."""
    if not all(bool(torch.isfinite(weights).all()) for weights in net.module_.parameters()):
        raise ValueError(
            f"The training of {type(net.module_).__name__} diverged: its weights are NaN or infinite. Lower the "
            "learning rate (student__lr), clip gradients (skorch.callbacks.GradientNormClipping), and look for NaN "
            "in X."
        )


def _prepare(net: Any, X: Any, classes: NDArray[Any]) -> bool:
    """Adapt settings for hard labels; return whether the module returns probabilities instead of logits."""
    if net.device == "auto":
        net.set_params(device=resolve_device("auto"))
    set_by_user = [name for name in net.get_params(deep=False) if name.startswith("criterion__")]
    if net.criterion not in (nn.NLLLoss, nn.CrossEntropyLoss, SoftTargetLoss, StudentLoss) or set_by_user:
        warn_user(
            f"The criterion of {type(net).__name__} is replaced by the loss on soft labels, together with "
            f"{set_by_user or 'its settings'}. Put class weights into the soft labels, and use sample_weight for rows.",
        )
    split = net.train_split
    if isinstance(split, ValidSplit) and split.stratified:
        net.set_params(train_split=ValidSplit(split.cv, stratified=False, random_state=split.random_state))
    for name in set_by_user:
        delattr(net, name)
    if isinstance(net, NeuralNetClassifier):
        net.set_params(classes=classes)
    probabilities = _gives_probabilities(net, X, len(classes))
    net.set_params(predict_nonlinearity=None if probabilities else softmax)
    return probabilities


def _gives_probabilities(net: Any, X: Any, L: int) -> bool:
    """Check on a few rows, with a temporary copy, that there are L outputs; return whether they are probabilities."""
    few = as_input(X, PROBE)
    with seeded(0):
        probe = NeuralNet(**_module_parameters(net)).initialize()
        output = probe.forward(few, training=False)
    output = output[0] if isinstance(output, tuple) else output
    if output.ndim != 2 or output.shape[1] != L:
        raise ValueError(
            f"The module returns outputs of shape {tuple(output.shape)} for {len(few)} rows, but there are {L} "
            f"classes: its last layer needs {L} outputs."
        )
    sums = output.sum(dim=1)
    return bool((output >= 0).all() and torch.allclose(sums, torch.ones_like(sums), atol=1e-3))


def _module_parameters(net: Any) -> dict[str, Any]:
    wanted = {name: value for name, value in net.get_params(deep=False).items() if name.startswith("module")}
    return wanted | {"criterion": nn.MSELoss, "device": net.device, "verbose": 0}


def as_input(X: Any, rows: int | None = None) -> Any:
    """Return module input in single precision, from arrays, tables or datasets; with `rows`, only the first rows."""
    if is_dataset(X):
        inputs = WithTargets(X, np.zeros(count_rows(X)))
        if rows is None:
            return inputs
        return torch.stack([torch.as_tensor(inputs[i][0]) for i in range(min(rows, len(inputs)))])
    X = module_input(X)
    return X if rows is None else X[:rows]


def _as_dataset(net: Any, X: Any, targets: NDArray[Any]) -> Any:
    """Join rows and targets; arrays are read in whole batches, unless the net loads data in its own way."""
    if is_dataset(X):
        return WithTargets(X, targets)
    own_ways = net.dataset is not SkorchDataset or not all(_loads_batches(net, part) for part in ("train", "valid"))
    return net.get_dataset(as_input(X), targets) if own_ways else Rows(as_input(X), targets)


def _loads_batches(net: Any, part: str) -> bool:
    """Let the net's iterator accept ready batches, if it is torch's and the user did not set this."""
    name = f"iterator_{part}__collate_fn"
    if getattr(net, f"iterator_{part}") is not DataLoader:
        return False
    if not hasattr(net, name):
        net.set_params(**{name: collate})
    return getattr(net, name) is collate


@contextmanager
def seeded(random_state: Any) -> Iterator[None]:
    """Seed torch temporarily; without a seed nothing is changed."""
    if random_state is None:
        yield
        return
    with torch.random.fork_rng():
        torch.manual_seed(int(check_random_state(random_state).randint(2**31 - 1)))
        yield
