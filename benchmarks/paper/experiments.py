"""The experiments by name: which dataset, ranges, architectures and methods."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Any

from benchmarks.paper import published
from benchmarks.paper.protocol import FEW_CLASSES, MANY_CLASSES, Ranges
from benchmarks.paper.rivals import RIVALS, Rival

_UNIFIERS = {"CE": "ce", "MF-P": "mf_p", "MF-LU": "mf_lu", "MF-LF": "mf_lf"}
#: How the rows of the paper's table are made: method, direct backpropagation, balanced soft labels.
METHODS: dict[str, tuple[str, bool, bool]] = {
    "SD": ("sd", False, False),
    **{f"{name}-E": (method, False, False) for name, method in _UNIFIERS.items()},
    **{f"{name}-BP": (method, True, False) for name, method in _UNIFIERS.items()},
    "SD-BS": ("sd", False, True),
    **{f"{name}-BS": (method, False, True) for name, method in _UNIFIERS.items()},
}
#: All rows of the table; SPV is supervised training on the data of all teachers together.
TABLE = tuple(published.METHODS)
#: What the paper's sensitivity studies compare.
STUDIED = ("SD", "SD-BS", "MF-P-BP", "MF-LF-BS", "CE-BS")
#: The studies, and the values that they run through; the main experiment has one setting.
STUDIES: dict[str, tuple[float | None, ...]] = {
    "main": (None,),
    "size": (1000, 3000, 10_000, 30_000, 100_000),
    "temperature": (1, 3, 6, 10),
    "accuracy": (0.4, 0.5, 0.6, 0.7, 0.8),
}
PAPER_ARCHITECTURES = ("alexnet", "vgg16", "resnet18", "resnet34")


@dataclass(frozen=True)
class Experiment:
    """One setting of the paper's table, or one of its studies."""

    dataset: str
    ranges: Ranges
    teachers: tuple[str, ...]  #: architectures, one of them drawn for each teacher
    student: str  #: architecture
    folder: str | None = None
    protocol: str = "random"
    study: str = "main"
    values: tuple[float | None, ...] = (None,)
    methods: tuple[str, ...] = TABLE
    temperature: float = 3.0
    epochs: int = 20
    batch_size: int = 128
    cache: str | None = None  #: where extracted features are kept
    device: str = "auto"

    @property
    def name(self) -> str:
        """Return a name for files."""
        return f"{self.dataset}-{self.protocol}-{self.student}-{self.study}"


EXPERIMENTS: dict[str, Experiment] = {
    "digits": Experiment("digits", FEW_CLASSES, ("features",), "features", batch_size=16),
    "synthetic": Experiment("synthetic", FEW_CLASSES, ("features",), "features"),
    "features": Experiment("features", MANY_CLASSES, ("features",), "features"),
    "tinyimagenet": Experiment("tinyimagenet", MANY_CLASSES, ("efficientnet_lite0",), "efficientnet_lite0"),
    "imagenet": Experiment("imagenet", MANY_CLASSES, PAPER_ARCHITECTURES, "vgg16"),
    "places365": Experiment("places365", MANY_CLASSES, PAPER_ARCHITECTURES, "vgg16"),
    "lsun": Experiment("lsun", FEW_CLASSES, PAPER_ARCHITECTURES, "vgg16"),
}


def choose_methods(names: str, study: str) -> tuple[str, ...]:
    """Turn "all", "paper", "rivals", names or package.module:Class, with commas, into rows of the table."""
    known = {name.lower(): name for name in (*TABLE, *RIVALS)}
    chosen: list[str] = []
    for name in names.split(","):
        if name == "paper":
            chosen += TABLE if study == "main" else STUDIED
        elif name == "all":
            chosen += TABLE
        elif name == "rivals":
            chosen += RIVALS
        elif ":" in name:
            find_method(name.strip())  # an error now rather than after teachers are trained
            chosen.append(name.strip())
        elif name.strip().lower() in known:
            chosen.append(known[name.strip().lower()])
        else:
            raise ValueError(
                f"There is no method {name!r}; take 'paper', 'all', 'rivals', your own as package.module:Class, or "
                f"{', '.join(known.values())}."
            )
    return tuple(dict.fromkeys(chosen))


def find_method(name: str) -> tuple[Any, bool, bool] | Rival:
    """Return how a row of the table is made: a soft-label method, direct backpropagation, balance; or a rival.

    `package.module:Class` is a soft-label method of one's own, fitted as the paper's are without balance;
    `package.module:function` is a rival, called with the answers (n, K) and their label space.
    """
    if name in RIVALS:
        return RIVALS[name]
    if ":" not in name:
        return METHODS[name]
    module, _, attribute = name.partition(":")
    try:
        found = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise ValueError(f"--methods {name}: {error}. It must be package.module:Class, found from here.") from error
    if not isinstance(found, type):
        rival: Rival = found
        return rival
    if not hasattr(found, "fit_transform_answers"):
        raise ValueError(f"--methods {name}: the class has no fit_transform_answers, see sklearn_uhc.SoftLabelMethod.")
    return found(), False, False
