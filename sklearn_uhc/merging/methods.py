"""The methods by name."""

from __future__ import annotations

from typing import Any

from sklearn.base import clone

from sklearn_uhc.merging.cross_entropy import CrossEntropyUnifier
from sklearn_uhc.merging.factorization import LogitFactorization, ProbabilityFactorization, takes_sets
from sklearn_uhc.merging.standard_distillation import StandardDistillation

__all__ = ["METHODS", "resolve_method", "takes_sets"]

#: The paper's names. Its table calls MF-LU "MF-LV".
METHODS: dict[str, Any] = {
    "sd": StandardDistillation,
    "ce": CrossEntropyUnifier,
    "mf_p": ProbabilityFactorization,
    "mf_lu": lambda: LogitFactorization(scale="free"),
    "mf_lf": LogitFactorization,
}

#: Attributes that a merge needs of a method; SoftLabelMethod has them.
PROTOCOL = ("fit_transform_answers", "transform_answers", "temperature", "get_params")


def resolve_method(method: Any) -> Any:
    """Return a new method by name, or a clone of an instance."""
    if isinstance(method, str) and method in METHODS:
        return METHODS[method]()
    if not isinstance(method, (str, type)) and all(hasattr(method, name) for name in PROTOCOL):
        return clone(method)
    if isinstance(method, str) and method.lower().replace("_", "-").endswith("-bp"):
        raise ValueError(
            f"method={method!r}: for direct backpropagation pass backprop=True to HeterogeneousDistiller, and the name "
            f"of the method alone, one of {', '.join(METHODS)}."
        )
    raise ValueError(
        f"method must be one of {', '.join(METHODS)}, or an instance of a soft-label transformer (see "
        f"sklearn_uhc.merging.SoftLabelMethod), got {method!r}."
    )
