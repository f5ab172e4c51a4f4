"""A plain torch module as a teacher."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin

from sklearn_uhc.teachers.replica import is_module, replicate
from sklearn_uhc.utils.device import module_input, resolve_device
from sklearn_uhc.utils.rows import count_rows, take_rows
from sklearn_uhc.utils.versioned import Versioned

__all__ = ["TorchTeacher"]


class TorchTeacher(Versioned, ClassifierMixin, BaseEstimator):
    """A trained `torch.nn.Module` that returns logits, as a fitted classifier.

    The module is called in batches, in evaluation mode and without gradients. Each call uses a replica with the same
    weights, so the module itself keeps its mode, buffers and device. Several threads may use it, or modules that share
    parts with it, and many large teachers need not fit on the device together.

    Parameters
    ----------
    module : torch.nn.Module
        The trained module. It returns logits of shape (batch, k).
    classes : list
        The k classes, in the order of the logits.
    batch_size : int, default=256
        Rows per forward pass.
    device : str or torch.device, default="auto"
        Where to compute. "auto" means CUDA if available, then MPS, then the CPU.
    dtype : torch.dtype, default=None
        Type of `torch.autocast` for mixed precision, such as `torch.bfloat16`. None: the type of the module.
    preprocess : callable, default=None
        Applied to each batch, a tensor on the device, before the module, for example to scale or resize. It may
        overwrite its batch. If it is a module, it is called in evaluation mode too.

    Attributes
    ----------
    classes_ : ndarray of shape (k,)
        `classes`.

    Examples
    --------
    >>> import torch
    >>> from sklearn_uhc import TorchTeacher
    >>> module = torch.nn.Linear(4, 2)
    >>> teacher = TorchTeacher(module, ["cat", "dog"], device="cpu")
    >>> teacher.predict_proba(torch.zeros(3, 4)).shape
    (3, 2)
    """

    def __init__(
        self,
        module: Any,
        classes: Sequence[Any],
        *,
        batch_size: int = 256,
        device: Any = "auto",
        dtype: Any = None,
        preprocess: Callable[[Any], Any] | None = None,
    ) -> None:
        self.module = module
        self.classes = classes
        self.batch_size = batch_size
        self.device = device
        self.dtype = dtype
        self.preprocess = preprocess

    @property
    def classes_(self) -> NDArray[Any]:
        """The classes, in the order of the logits."""
        return np.asarray(self.classes)

    def fit(self, X: Any, y: Any = None) -> TorchTeacher:
        """Do nothing: the module is trained already.

        Parameters
        ----------
        X : ignored
            Not used, present for API consistency by convention.
        y : ignored
            Not used, present for API consistency by convention.

        Returns
        -------
        self
        """
        return self

    def decision_function(self, X: Any) -> NDArray[np.float32]:
        """Return the logits.

        Parameters
        ----------
        X : array, tensor or torch Dataset with n rows
            Images or features, in the shape that the module expects. Floats are converted to single precision.

        Returns
        -------
        logits : ndarray of shape (n, k)
        """
        import torch

        device = resolve_device(self.device)
        out = np.empty((count_rows(X), len(self.classes)), dtype=np.float32)
        mixed = nullcontext() if self.dtype is None else torch.autocast(device.type, dtype=self.dtype)
        module, preprocess = _ready(self.module, device), _ready(self.preprocess, device)
        with torch.inference_mode(), mixed:
            for start in range(0, len(out), self.batch_size):
                rows = slice(start, min(start + self.batch_size, len(out)))
                # A copy, since preprocess or the first layer may write to its input.
                batch = torch.as_tensor(module_input(take_rows(X, rows))).to(device, copy=True)
                logits = module(batch if preprocess is None else preprocess(batch))
                self._check_logits(logits, len(batch))
                if start == 0:
                    self._check_no_probabilities(logits)
                out[rows] = logits.float().cpu().numpy()
        return out

    def predict_log_proba(self, X: Any) -> NDArray[np.float32]:
        """Return log-probabilities, the softmax of the logits.

        Parameters
        ----------
        X : array, tensor or torch Dataset with n rows
            See `decision_function`.

        Returns
        -------
        log_proba : ndarray of shape (n, k)
        """
        logits = self.decision_function(X)
        top = logits.max(axis=1, keepdims=True)
        log_p: NDArray[np.float32] = logits - top - np.log(np.exp(logits - top).sum(axis=1, keepdims=True))
        return log_p

    def predict_proba(self, X: Any) -> NDArray[np.float32]:
        """Return probabilities.

        Parameters
        ----------
        X : array, tensor or torch Dataset with n rows
            See `decision_function`.

        Returns
        -------
        proba : ndarray of shape (n, k)
        """
        proba: NDArray[np.float32] = np.exp(self.predict_log_proba(X))
        return proba

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the most probable class of every row.

        Parameters
        ----------
        X : array, tensor or torch Dataset with n rows
            See `decision_function`.

        Returns
        -------
        labels : ndarray of shape (n,)
        """
        labels: NDArray[Any] = self.classes_[self.decision_function(X).argmax(axis=1)]
        return labels

    def _check_logits(self, logits: Any, n_rows: int) -> None:
        if logits.ndim != 2 or logits.shape != (n_rows, len(self.classes)):
            raise ValueError(
                f"{type(self.module).__name__} gave an output of shape {tuple(logits.shape)} for {n_rows} rows and "
                f"{len(self.classes)} classes: it must give one logit per class."
            )

    def _check_no_probabilities(self, logits: Any) -> None:
        if logits.shape[1] > 1 and bool((logits >= 0).all()) and bool(((logits.sum(dim=1) - 1).abs() < 1e-3).all()):
            raise ValueError(
                f"{type(self.module).__name__} returns probabilities where TorchTeacher expects logits: remove its "
                "last softmax, or wrap it in a module that returns their logarithm."
            )

    def __sklearn_is_fitted__(self) -> bool:
        return True


def _ready(part: Any, device: Any) -> Any:
    """Return a replica of a module, on the device and in evaluation mode; other objects are returned as they are."""
    return replicate(part).to(device).eval() if is_module(part) else part
