"""Validation of a net: rows of its own split, which may have true labels, and scorers that need labels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from skorch import NeuralNetClassifier
from skorch.callbacks import EpochScoring
from skorch.callbacks.scoring import ScoringBase
from skorch.utils import to_numpy
from torch.utils.data import Dataset, Subset

from sklearn_uhc.utils.device import module_input
from sklearn_uhc.utils.rows import count_rows


def most_probable(targets: Any) -> NDArray[Any]:
    """Return the indices of the most probable classes; a named function, so that nets can be pickled."""
    targets = to_numpy(targets)
    return targets if targets.ndim == 1 else targets.argmax(axis=1)


def soft_accuracy(net: Any, X: Any, targets: NDArray[Any]) -> float:
    """Return the share of rows whose most probable class is that of the soft labels, or the true one."""
    return float((net.predict_proba(X).argmax(axis=1) == most_probable(targets)).mean())


class Validation:
    """A net's split into training and validation rows; `check` corrects the targets of the latter."""

    def __init__(self, split: Any, check: Callable[[Any], Any]) -> None:
        self.split, self.check = split, check

    def __call__(self, dataset: Any, *args: Any, **params: Any) -> tuple[Any, Any]:
        """Split; rows held out from the training rows already have correct targets."""
        train, valid = self.split(dataset, *args, **params)
        ours = valid is None or (isinstance(valid, Subset) and valid.dataset is dataset)
        return train, valid if ours else self.check(valid)


def with_class_numbers(valid: Any, classes: NDArray[Any]) -> Any:
    """Replace true labels by class indices; soft labels are unchanged."""
    row, shape = _first(valid)
    if shape not in ((), classes.shape):
        raise ValueError(
            f"The net's train_split returns validation rows with targets of shape {shape}: return a label, one of the "
            f"{len(classes)} classes, or a soft label with a column for each of them."
        )
    return valid if shape and not is_double(row) else Numbered(valid, classes)


def with_answers(valid: Any, n_answers: int) -> Any:
    """Raise an error for rows without the teachers' answers."""
    _, shape = _first(valid)
    if shape != (n_answers,):
        raise ValueError(
            f"The net's train_split returns validation rows with targets of shape {shape}, but direct backpropagation "
            f"compares with the {n_answers} answers of the teachers: set rows of X aside with "
            "train_split=skorch.dataset.ValidSplit(5), or use backprop=False."
        )
    return valid


def _first(valid: Any) -> tuple[Any, tuple[int, ...] | None]:
    """Return the first row and the shape of its target, or None if there is none."""
    count_rows(valid)
    item = valid[0]
    return (item[0], tuple(np.shape(item[1]))) if isinstance(item, (tuple, list)) and len(item) > 1 else (item, None)


def is_double(row: Any) -> bool:
    """Return whether this is an array or tensor in double precision."""
    return getattr(row, "dtype", None) in (torch.float64, np.dtype(np.float64))


class Numbered(Dataset):
    """Rows in single precision, with class indices instead of labels."""

    def __init__(self, rows: Any, classes: NDArray[Any]) -> None:
        self.rows, self.numbers = rows, {label: k for k, label in enumerate(classes.tolist())}

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, i: Any) -> Any:
        row, target = self.rows[i][:2]
        return module_input(row) if is_double(row) else row, target if np.ndim(target) else self._number(target, i)

    def _number(self, target: Any, i: Any) -> int:
        label = target.item() if hasattr(target, "item") else target
        if label not in self.numbers:
            raise ValueError(
                f"Validation row {i} of the net's train_split has the label {label!r}, which is not among "
                f"the classes {list(self.numbers)[:8]}: use the names of the classes."
            )
        return self.numbers[label]


def set_scores(net: Any, soft: bool) -> None:
    """Let accuracy and scikit-learn's scorers compare labels, if targets are `soft` labels.

    Otherwise there is nothing to compare with, and no callback may depend on it.
    """
    if not isinstance(net, NeuralNetClassifier) or net.callbacks == "disable":
        return
    given = [item[1] if isinstance(item, tuple) else item for item in net.callbacks or []]
    for callback in [*given, getattr(net, "callbacks__valid_acc", None)]:
        if isinstance(callback, ScoringBase) and _knows_labels_only(callback.scoring):
            _have_labels(net, callback, soft)
    if not hasattr(net, "callbacks__valid_acc"):
        _set_accuracy(net, given, soft)


def _knows_labels_only(scoring: Any) -> bool:
    """Return whether this is a scorer or metric of scikit-learn; the user's functions get the soft labels."""
    return scoring is None or isinstance(scoring, str) or str(getattr(scoring, "__module__", "")).startswith("sklearn.")


def _have_labels(net: Any, callback: Any, soft: bool) -> None:
    """Pass the most probable classes to a scorer."""
    name = f"{type(callback).__name__}({callback.scoring!r})"
    if not soft:
        raise ValueError(
            f"{name} compares with labels, and direct backpropagation has none: remove it and monitor 'valid_loss'."
        )
    cached = callback.use_caching if net.use_caching == "auto" else net.use_caching
    if isinstance(callback, EpochScoring) and not cached:  # then skorch does not have the targets of our datasets
        raise ValueError(f"{name} needs the net's predictions and targets: leave use_caching at its default.")
    if callback.target_extractor is to_numpy:
        callback.target_extractor = most_probable


def _set_accuracy(net: Any, given: list[Any], soft: bool) -> None:
    """Replace skorch's accuracy of hard labels; without it, no callback may depend on it."""
    there_is = soft and bool(net.use_caching)  # without its cache skorch does not have the targets of our datasets
    scoring = EpochScoring(soft_accuracy, name="valid_acc", lower_is_better=False) if there_is else None
    net.set_params(callbacks__valid_acc=scoring)
    waiting = [cb for cb in given if str(getattr(cb, "monitor", "")).startswith("valid_acc")]
    if not there_is and waiting and not any(getattr(cb, "name", None) == "valid_acc" for cb in given):
        raise ValueError(
            f"{type(waiting[0]).__name__} monitors {waiting[0].monitor!r}, but direct backpropagation has no accuracy, "
            "nor has a net without use_caching: monitor 'valid_loss' (Checkpoint: 'valid_loss_best')."
        )
