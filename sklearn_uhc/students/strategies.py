"""The strategies by which an estimator can learn from soft labels, and the choice between them."""

from __future__ import annotations

from functools import partial
from typing import Any

from sklearn_uhc.students.direct import DirectStrategy, is_net
from sklearn_uhc.students.epochs import EpochStrategy
from sklearn_uhc.students.replicate import ReplicateStrategy
from sklearn_uhc.students.sample import SampleStrategy
from sklearn_uhc.students.soft_data import SoftData
from sklearn_uhc.students.temperature import power_of
from sklearn_uhc.students.twins import TwinStrategy

#: In order of preference; "auto" takes the first that accepts the estimator, but never the last.
STRATEGIES: tuple[Any, ...] = (TwinStrategy, DirectStrategy, EpochStrategy, ReplicateStrategy, SampleStrategy)


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
        how += " as a search; put the search around the distiller instead, over student__... parameters"
    able = "; ".join(f"{s.students} (strategy='{s.name}')" for s in STRATEGIES)
    raise TypeError(
        f"{type(estimator).__name__} cannot learn from soft labels{how}. These can: {able}; "
        "Pipelines that end in one of these."
    )


def train(student: Any, data: SoftData, strategy: str, params: dict[str, Any]) -> tuple[Any, str, float]:
    """Train an unfitted student; return it or its twin, the strategy's name, and the power that undoes temperature."""
    chosen, name = resolve_strategy(student, strategy), type(student).__name__
    if params and strategy == "auto" and chosen is EpochStrategy:
        chosen = resolve_strategy(student, ReplicateStrategy.name)  # partial_fit does not take parameters of fit
    given = student.get_params(deep=False)
    if given.get("warm_start"):
        raise ValueError(f"warm_start of {name} has no effect, since it is cloned before every fit: leave it at False.")
    if given.get("class_weight") is not None:
        data = data.with_class_weight(student.class_weight)
        student.set_params(class_weight=None)
    if data.eval_set and chosen in (TwinStrategy, SampleStrategy):
        raise ValueError(f"{name} does not stop early, so it does not accept eval_set.")
    fitted = chosen.fit(student, data, **params)
    power = 1.0 if is_net(fitted) else power_of(fitted, data, partial(_answers, chosen, fitted, data))
    return fitted, chosen.name, power


def _answers(strategy: Any, fitted: Any, data: SoftData, X: Any) -> Any:
    return strategy.log_answers(fitted, X, data.classes, data.mean)
