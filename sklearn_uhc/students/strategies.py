"""The ways in which an estimator can learn from soft labels, and which of them one takes."""

from __future__ import annotations

from typing import Any

from sklearn_uhc.students.direct import DirectStrategy
from sklearn_uhc.students.replicate import ReplicateStrategy
from sklearn_uhc.students.sample import SampleStrategy
from sklearn_uhc.students.twins import TwinStrategy

#: In order of preference; "auto" takes the first that accepts the estimator, but never the last.
STRATEGIES: tuple[Any, ...] = (TwinStrategy, DirectStrategy, ReplicateStrategy, SampleStrategy)


def resolve_strategy(estimator: Any, strategy: str = "auto") -> Any:
    """Return the strategy by name, or the first that accepts the estimator."""
    names = [s.name for s in STRATEGIES]
    if strategy not in ("auto", *names):
        raise ValueError(f"strategy must be one of {', '.join(['auto', *names])}, got {strategy!r}.")
    for candidate in STRATEGIES:
        wanted = candidate.name == strategy or (strategy == "auto" and candidate is not SampleStrategy)
        if wanted and candidate.accepts(estimator):
            return candidate
    how = "" if strategy == "auto" else f" with strategy={strategy!r}"
    if hasattr(estimator, "refit"):
        how += " as a search; search around it instead, over its parameters (student__... of the distiller)"
    able = "; ".join(f"{s.students} (strategy='{s.name}')" for s in STRATEGIES)
    raise TypeError(
        f"{type(estimator).__name__} cannot learn from soft labels{how}. What can: {able}; "
        "Pipelines that end in one of these."
    )
