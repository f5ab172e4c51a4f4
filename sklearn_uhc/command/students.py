"""The students that the command can train, by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sklearn_uhc.command.console import CommandError


def make_student(name: str) -> Any:
    """Return an unfitted student."""
    return STUDENTS[name]()


def _lightgbm() -> Any:
    try:
        from lightgbm import LGBMClassifier
    except ImportError as error:
        raise CommandError("--student lightgbm needs LightGBM: pip install lightgbm.") from error
    return LGBMClassifier(random_state=0, verbose=-1)


STUDENTS: dict[str, Callable[[], Any]] = {
    "logistic": lambda: make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)),
    "forest": lambda: RandomForestClassifier(200, random_state=0),
    "knn": lambda: make_pipeline(StandardScaler(), KNeighborsClassifier()),
    "lightgbm": _lightgbm,
    "mlp": lambda: make_pipeline(StandardScaler(), MLPClassifier(random_state=0)),
}
