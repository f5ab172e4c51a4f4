"""On the way into a torch module: which device, the one place that names any, and what kind of numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import issparse


def resolve_device(device: Any) -> Any:
    """Return the device; "auto" takes CUDA, then Apple's MPS, then the CPU, whatever there is."""
    import torch

    if device != "auto":
        return torch.device(device)
    if torch.cuda.is_available():
        return torch.device("cuda")
    if torch.backends.mps.is_available():
        return torch.device("mps")
    return torch.device("cpu")


def module_input(X: Any) -> Any:
    """Return what a module takes: a tensor, or a dense array that can become one, floats in single precision."""
    import torch

    if isinstance(X, torch.Tensor):
        return X.float() if X.dtype == torch.float64 else X
    X = X.toarray() if issparse(X) else np.asarray(X)
    # Torch wants arrays that it could write to; those of a DataFrame cannot be.
    return X.astype(np.float32) if X.dtype == np.float64 else np.require(X, requirements="W")
