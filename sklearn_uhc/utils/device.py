"""Input of torch modules: the choice of the device, and the type of numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import issparse


def resolve_device(device: Any) -> Any:
    """Return the device; "auto" is CUDA if available, then Apple's MPS, then the CPU."""
    import torch

    if device != "auto":
        return torch.device(device)
    if torch.cuda.is_available():
        return torch.device("cuda")
    if torch.backends.mps.is_available():
        return torch.device("mps")
    return torch.device("cpu")


def module_input(X: Any) -> Any:
    """Return input of a module: a tensor or a dense array, with floats in single precision."""
    import torch

    if isinstance(X, torch.Tensor):
        return X.float() if X.dtype == torch.float64 else X
    X = X.toarray() if issparse(X) else np.asarray(X)
    # Torch warns about arrays that are not writeable, such as those of a DataFrame.
    return X.astype(np.float32) if X.dtype == np.float64 else np.require(X, requirements="W")
