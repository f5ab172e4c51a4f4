"""What people use instead, each trained into the same student: hard votes, and models of who votes how.

Every rival turns the teachers' answers into soft labels over all classes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sklearn_uhc import LabelSpace

Array = NDArray[Any]


def most_confident(log_p: Array, space: LabelSpace) -> Array:
    """Follow the teacher whose best class is the most probable."""
    best = np.stack([log_p[:, block].max(axis=1) for block in space.blocks])
    votes = _votes(log_p, space)
    return np.eye(space.n_classes)[votes[best.argmax(axis=0), np.arange(len(log_p))]]


def dawid_skene(log_p: Array, space: LabelSpace) -> Array:
    """Dawid and Skene's model of the teachers' confusions, from their most probable classes (crowd-kit)."""
    try:
        import pandas as pd
        from crowdkit.aggregation import DawidSkene
    except ImportError as error:
        raise ImportError("The Dawid-Skene rival needs crowd-kit: pip install crowd-kit.") from error
    votes = _votes(log_p, space)
    teacher, task = np.indices(votes.shape)
    table = pd.DataFrame({"task": task.ravel(), "worker": teacher.ravel(), "label": votes.ravel()})
    found = DawidSkene(n_iter=100).fit_predict_proba(table)
    Q = found.reindex(index=range(len(log_p)), columns=range(space.n_classes), fill_value=0).to_numpy(dtype=float)
    return Q / Q.sum(axis=1, keepdims=True)


def snorkel(log_p: Array, space: LabelSpace) -> Array:
    """Snorkel's label model, from the teachers' most probable classes."""
    try:
        from snorkel.labeling.model import LabelModel
    except ImportError as error:
        raise ImportError("The Snorkel rival needs snorkel: pip install snorkel.") from error
    model = LabelModel(cardinality=space.n_classes, verbose=False)
    votes = _votes(log_p, space).T
    model.fit(votes, n_epochs=500, seed=0, progress_bar=False)
    return np.asarray(model.predict_proba(votes), dtype=float)


def _votes(log_p: Array, space: LabelSpace) -> Array:
    """(N, n): the most probable class of every teacher, as a number among all classes."""
    pairs = zip(space.blocks, space.columns, strict=True)
    return np.stack([columns[log_p[:, block].argmax(axis=1)] for block, columns in pairs])


RIVALS: dict[str, Callable[[Array, LabelSpace], Array]] = {
    "Most confident": most_confident,
    "Dawid-Skene": dawid_skene,
    "Snorkel": snorkel,
}
