"""Soft-label methods: from teacher log-probabilities to one distribution over all classes."""

from __future__ import annotations

from typing import Any

from sklearn.base import clone

from sklearn_uhc.soft_labels.base import SoftLabelMethod
from sklearn_uhc.soft_labels.ce import CrossEntropyUnifier
from sklearn_uhc.soft_labels.mf import LogitFactorization, ProbabilityFactorization
from sklearn_uhc.soft_labels.sd import StandardDistillation

__all__ = [
    "METHODS",
    "CrossEntropyUnifier",
    "LogitFactorization",
    "ProbabilityFactorization",
    "SoftLabelMethod",
    "StandardDistillation",
    "resolve_method",
]

#: The paper's names. Its table calls MF-LU "MF-LV".
METHODS: dict[str, Any] = {
    "sd": StandardDistillation,
    "ce": CrossEntropyUnifier,
    "mf_p": ProbabilityFactorization,
    "mf_lu": lambda: LogitFactorization(scale="free"),
    "mf_lv": lambda: LogitFactorization(scale="free"),
    "mf_lf": LogitFactorization,
}


def resolve_method(method: str | SoftLabelMethod) -> SoftLabelMethod:
    """Turn a name into a new method and an instance into its clone."""
    if isinstance(method, SoftLabelMethod):
        copied: SoftLabelMethod = clone(method)
        return copied
    if isinstance(method, str) and method in METHODS:
        made: SoftLabelMethod = METHODS[method]()
        return made
    raise ValueError(
        f"method must be one of {', '.join(METHODS)}, or an instance of a soft-label transformer, got {method!r}."
    )
