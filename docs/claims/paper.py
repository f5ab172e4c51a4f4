"""Our run of the paper's main experiment, from benchmarks/results/features-*.jsonl, beside the paper's table."""

from __future__ import annotations

from benchmarks.paper.published import column
from docs.claims import Rows
from docs.claims.records import mean, pick, short

METHODS = ("CE", "MF-P", "MF-LU", "MF-LF")


def ours(method: str, key: str = "accuracy", protocol: str = "random") -> float:
    """Return the mean of a method over the trials of the main experiment."""
    return mean(pick(f"features-{protocol}.jsonl", study="main", method=method), key)


def published(method: str) -> float:
    """Return the paper's accuracy on ImageNet with VGG16, random classes."""
    found = column("random", "imagenet", "vgg16")
    assert found is not None
    return found.accuracy[method]


def main_table() -> Rows:
    """Return the table of README."""
    rows = [["soft labels", "paper, as merged", "paper, balanced", "ours, as merged", "ours, balanced"]]
    for name in ("SD", *METHODS):
        pair = ("SD" if name == "SD" else f"{name}-E", f"{name}-BS")
        cells = [short(of(method)) for of in (published, ours) for method in pair]
        rows.append(["SD (naive)" if name == "SD" else name, *cells])
    supervised = [f"*{short(of('SPV'))}*" for of in (published, ours)]
    return [*rows, ["*supervised, on all the teachers' data*", supervised[0], "", supervised[1], ""]]


def points(first: str, second: str, protocol: str = "random") -> float:
    """Return how many points a method is above another."""
    return 100 * (ours(first, protocol=protocol) - ours(second, protocol=protocol))
