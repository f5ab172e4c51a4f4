"""Keys of teachers and data: what answers that were kept on disk are found again by.

A key holds everything in a teacher that may decide its answers, so that two teachers never share one. What cannot be
hashed, such as a lambda, is refused: counted by its name only, it would let one teacher answer for another.
"""

from __future__ import annotations

import sys
from pickle import PicklingError
from typing import Any

import joblib
import numpy as np
from joblib.hashing import NumpyHasher

from sklearn_uhc._rows import count_rows, is_dataset, take_rows
from sklearn_uhc.teachers.torch_teacher import TorchTeacher

#: Rows of a Dataset that go into its key: all of them would have to be read for more.
SAMPLED = 64
#: How a network is run, not what it says: a reading goes on with smaller batches, or on another device.
HOW_TO_RUN = ("batch_size", "device", "verbose", "compile")
#: What a skorch net has for its training only, with all that is set in it (`callbacks__...`).
FOR_TRAINING = (
    *("callbacks", "cuda_dependent_attributes", "history", "iterator_train", "lr", "max_epochs", "optimizer"),
    *("prefixes", "train_split", "virtual_params", "warm_start", "_modules", "_criteria", "_optimizers"),
    "_params_to_validate",
)


class TeacherHasher(NumpyHasher):
    """Joblib's hash with tensors by value, and without what does not matter in networks."""

    def __init__(self) -> None:
        super().__init__()
        self._modules: dict[int, int] = {}

    def save(self, obj: Any) -> None:
        """Hash an object, or what stands for it."""
        torch, skorch = sys.modules.get("torch"), sys.modules.get("skorch")
        if torch is not None and isinstance(obj, torch.Tensor):
            values = obj.detach().cpu().flatten().view(torch.uint8).numpy()  # bytes: NumPy has no bfloat16
            obj = "tensor", str(obj.dtype), tuple(obj.shape), values
        elif torch is not None and isinstance(obj, torch.nn.Module):
            obj = self._module(obj)
        elif torch is not None and isinstance(obj, (torch.dtype, torch.device)):
            obj = str(obj)
        elif isinstance(obj, TorchTeacher):
            obj = type(obj), _without(obj, HOW_TO_RUN)
        elif skorch is not None and isinstance(obj, skorch.NeuralNet):
            obj = type(obj), _without(obj, HOW_TO_RUN + FOR_TRAINING)
        super().save(obj)

    def memoize(self, obj: Any) -> None:
        """Leave tuples out as well as strings: whether two equal ones are the same object says nothing."""
        if not isinstance(obj, tuple):
            super().memoize(obj)

    def _module(self, module: Any) -> Any:
        """Return what decides a module's output; a module that was there before, by its number."""
        if id(module) in self._modules:
            return "module", self._modules[id(module)]
        self._modules[id(module)] = len(self._modules)
        return type(module), list(module._modules), _without(module, ("training",))


def _without(obj: Any, names: tuple[str, ...]) -> dict[str, Any]:
    """Return the attributes of an object but some: `name`, `name_`, `name__part`."""
    return {key: value for key, value in vars(obj).items() if key.rstrip("_").split("__")[0] not in names}


def fingerprint(teacher: Any) -> str:
    """Hash what decides a teacher's answers: its parameters and what it learnt."""
    try:
        return str(TeacherHasher().hash(teacher))
    except (PicklingError, TypeError, AttributeError) as error:
        raise ValueError(
            f"{type(teacher).__name__} cannot be pickled, so its answers cannot be found again in a store: use "
            f"functions that can be imported instead of lambdas in it, or leave store out. ({error.args[0]})"
        ) from error


def fingerprint_of_data(X: Any) -> str:
    """Hash X; of a Dataset its length and some of its rows."""
    if not is_dataset(X):
        return str(joblib.hash(X if not hasattr(X, "detach") else X.detach().cpu().numpy()))
    n = count_rows(X)
    return str(joblib.hash((n, take_rows(X, np.unique(np.linspace(0, n - 1, SAMPLED).astype(int))))))
