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
Rival = Callable[[Array, LabelSpace], Array]


def most_confident(log_p: Array, space: LabelSpace) -> Array:
    """Follow the teacher whose best class is the most probable."""
    best = np.stack([log_p[:, block].max(axis=1) for block in space.blocks])
    votes = _votes(log_p, space)
    return np.eye(space.n_classes)[votes[best.argmax(axis=0), np.arange(len(log_p))]]


def known_average(log_p: Array, space: LabelSpace) -> Array:
    """Average each class over the teachers that know it."""
    total, owners = np.zeros((len(log_p), space.n_classes)), np.zeros(space.n_classes)
    for block, columns in zip(space.blocks, space.columns, strict=True):
        total[:, columns] += np.exp(log_p[:, block])
        owners[columns] += 1
    mean = total / owners
    return np.asarray(mean / mean.sum(axis=1, keepdims=True))


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


def one_coin(log_p: Array, space: LabelSpace, n_rounds: int = 40) -> Array:
    """Dawid and Skene's model with one accuracy per teacher; a class that a teacher does not know is neutral.

    With accuracy r_i, a teacher of k_i classes names the right one with probability r_i and any other of its list with
    (1 - r_i) / (k_i - 1); if it does not know the right one, any with 1 / k_i. Accuracies and class frequencies by EM.
    """
    votes, rows = _votes(log_p, space), np.arange(len(log_p))
    known = np.stack([np.isin(np.arange(space.n_classes), columns) for columns in space.columns])  # (N, L)
    k = known.sum(axis=1)
    r, frequencies = np.full(len(k), 0.7), np.full(space.n_classes, 1 / space.n_classes)
    for _ in range(n_rounds):
        wrong = np.log((1 - r) / np.maximum(k - 1, 1))
        start = np.log(frequencies) + np.where(known, wrong[:, None], -np.log(k)[:, None]).sum(axis=0)
        Z = np.tile(start, (len(rows), 1))
        for i, own in enumerate(votes):
            Z[rows, own] += np.log(r[i]) - wrong[i]
        Q = np.exp(Z - Z.max(axis=1, keepdims=True))
        Q /= Q.sum(axis=1, keepdims=True)
        frequencies = (Q.sum(axis=0) + 0.1) / (len(Q) + 0.1 * Q.shape[1])
        right = np.array([Q[rows, own].sum() for own in votes])
        r = np.clip((right + 1) / (known @ Q.sum(axis=0) + 2), 0.05, 0.99)
    return Q


def hyper_label_model(log_p: Array, space: LabelSpace) -> Array:
    """Merge by the hyper label model, from the teachers' most probable classes (hyperlm).

    Where a teacher abstains on classes that it does not know, it is up to 30 points worse.
    """
    try:
        import torch
        from hyperlm import HyperLabelModel
    except ImportError as error:
        raise ImportError("The hyper label model needs hyperlm: pip install hyperlm.") from error
    scalar = (np.float64(0).__reduce__()[0], "numpy.core.multiarray.scalar")  # in its file of weights
    with torch.serialization.safe_globals([scalar, np.dtype, np.dtypes.Float64DType]):
        model = HyperLabelModel(device="cpu")
    Q = np.zeros((len(log_p), space.n_classes))
    found = model.infer(_votes(log_p, space).T, return_probs=True)  # up to the last class that has a vote
    Q[:, : found.shape[1]] = found
    return Q


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


RIVALS: dict[str, Rival] = {
    "Most confident": most_confident,
    "Average of those who know": known_average,
    "Dawid-Skene": dawid_skene,
    "One-coin Dawid-Skene": one_coin,
    "Snorkel": snorkel,
    "Hyper label model": hyper_label_model,
}
