"""Which device torch is to use: the one place that names any."""

from __future__ import annotations

from typing import Any


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
