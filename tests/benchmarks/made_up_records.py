"""Records of fictitious runs, for the tests of the benchmark's report."""

import json

import numpy as np

from benchmarks.paper.figures import REPRESENTATIVES
from benchmarks.paper.published import METHODS, column

OTHERS = ["Dawid-Skene", "Most confident", "Snorkel"]


def record(method="CE-E", trial=0, accuracy=0.7, **fields):
    base = {"dataset": "features", "protocol": "random", "student": "features", "study": "main", "value": None}
    base |= {"log_loss": 1.25, "seconds": 2.0, "n_classes": 30, "n_teachers": 12, "n_unlabelled": 10000}
    return base | {"trial": trial, "method": method, "accuracy": accuracy} | fields


def experiment(n_trials=20, protocol="random", methods=tuple(METHODS), shift=None, noise=0.01, **fields):
    """Trials around the paper's own accuracies, moved by `shift`."""
    rng, paper = np.random.default_rng(0), column(protocol, "features", "vgg16").accuracy
    mean = {method: paper.get(method, 0.6) for method in methods} | (shift or {})
    hardness = rng.normal(0, 0.05, n_trials)
    return [
        record(method, trial, mean[method] + hardness[trial] + rng.normal(0, noise), protocol=protocol, **fields)
        for trial in range(n_trials)
        for method in methods
    ]


def write(path, records, end=""):
    path.write_text("".join(json.dumps(r) + "\n" for r in records) + end)
    return path


def study(name, values, methods=tuple(REPRESENTATIVES), n_trials=6):
    return [r for v in values for r in experiment(n_trials, methods=methods, study=name, value=v)]
