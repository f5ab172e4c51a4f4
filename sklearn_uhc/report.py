"""What is known about teachers without labels: who is confident, who agrees with whom."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_array

from sklearn_uhc._answers import check_answers, silent_teachers
from sklearn_uhc._rows import chunks
from sklearn_uhc.calibration import TeacherCalibrator
from sklearn_uhc.label_space import LabelSpace
from sklearn_uhc.metrics import pairwise_agreement
from sklearn_uhc.soft_labels import LogitFactorization
from sklearn_uhc.solvers.blocks import Blocks
from sklearn_uhc.teachers import TeacherOutputs

__all__ = ["teacher_report"]

Floats = NDArray[np.floating[Any]]


def teacher_report(
    teachers: Any = None,
    X: Any = None,
    *,
    log_p: Any = None,
    class_lists: Sequence[Any] | None = None,
    n_pairs: int = 5,
    as_frame: bool = False,
) -> dict[str, Any]:
    """Describe teachers by their answers on unlabelled rows.

    Parameters
    ----------
    teachers : list of fitted classifiers, default=None
        Asked about X. None if `log_p` is given.
    X : array-like with n rows, default=None
        Unlabelled data.
    log_p : array-like of shape (n, K), default=None
        Answers computed before, see `TeacherOutputs`, instead of teachers and X; NaN where a teacher is silent.
    class_lists : list of lists, default=None
        Names of each teacher's classes. Needed with `log_p`.
    n_pairs : int, default=5
        Pairs of teachers to show, those that disagree most first.
    as_frame : bool, default=False
        Whether both tables are pandas DataFrames instead of lists of dicts.

    Returns
    -------
    report : dict
        "teachers", one entry each: `teacher` (its number), `name`, `n_classes`, `classes`; `coverage`, the share of
        rows it answers; `confidence`, the mean of its largest probability; `temperature` and `weight` of
        `TeacherCalibrator`, and `left`, why it has no temperature; `shared`, how many of its classes others know;
        `agreement`, how often it prefers the same as others among the classes it shares with each
        (`pairwise_agreement`); `residual`, its mean Kullback-Leibler divergence from the merge (MF-LF at temperature
        1, calibrated). "pairs": `first`, `second`, `shared` and `agreement` of teachers that share two classes or
        more. What cannot be told is None.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_uhc import teacher_report
    >>> Z = np.random.default_rng(0).normal(size=(200, 3))
    >>> report = teacher_report(log_p=np.hstack([Z, 3 * Z]), class_lists=[["a", "b", "c"]] * 2)
    >>> [round(row["agreement"], 2) for row in report["teachers"]]
    [1.0, 1.0]
    >>> report["teachers"][0]["confidence"] < report["teachers"][1]["confidence"]
    True
    """
    names, space, Z = _answers(teachers, X, log_p, class_lists)
    blocks = Blocks.from_label_space(space)
    lists, silent = space.class_lists, silent_teachers(Z, space.blocks)
    calibrator = TeacherCalibrator(lists, abstain=True).fit(Z)
    agree: Floats = pairwise_agreement(Z, lists).filled(np.nan)
    np.fill_diagonal(agree, np.nan)
    shared = space.mask.astype(int) @ space.mask.T.astype(int)
    residual = _residuals(calibrator.transform(Z), silent, lists, blocks)
    rows = []
    for i, labels in enumerate(lists):
        answered = Z[~silent[:, i]][:, space.blocks[i]]
        known = np.flatnonzero(~np.isnan(agree[i]))
        rows.append(
            {
                "teacher": i,
                "name": names[i],
                "n_classes": len(labels),
                "classes": labels.tolist(),
                "coverage": float(1 - silent[:, i].mean()),
                "confidence": _number(np.exp(_log_softmax(answered).max(axis=1)).mean() if len(answered) else np.nan),
                "temperature": float(calibrator.temperatures_[i]),
                "weight": float(calibrator.weights_[i]),
                "left": calibrator.left_.get(i),
                "shared": int((space.mask[i] & (space.mask.sum(axis=0) > 1)).sum()),
                "agreement": _number(np.average(agree[i, known], weights=shared[i, known]) if len(known) else np.nan),
                "residual": _number(residual[i]),
            }
        )
    pairs = _pairs(agree, shared, n_pairs)
    if as_frame:
        import pandas as pd

        return {"teachers": pd.DataFrame(rows), "pairs": pd.DataFrame(pairs)}
    return {"teachers": rows, "pairs": pairs}


def _answers(teachers: Any, X: Any, log_p: Any, class_lists: Any) -> tuple[list[str], LabelSpace, Floats]:
    """Return names, label space and answers, from teachers or as they were given."""
    if (teachers is None) == (log_p is None):
        raise ValueError("Give either fitted teachers and X, or log_p and class_lists.")
    if log_p is None:
        outputs = TeacherOutputs(teachers, class_lists=class_lists, abstain=True).set_output(transform="default")
        Z = outputs.fit_transform(X)
        return [type(teacher).__name__ for teacher in teachers], outputs.label_space_, np.asarray(Z, dtype=float)
    if class_lists is None:
        raise ValueError("log_p needs class_lists: one list of classes per teacher, in block order.")
    space = LabelSpace(class_lists)
    Z = check_array(log_p, dtype=np.float64, ensure_all_finite=False, input_name="log_p")
    if Z.shape[1] != space.n_outputs:
        raise ValueError(f"log_p has {Z.shape[1]} columns, but the class lists name {space.n_outputs} classes in all.")
    check_answers(Z, space.blocks, abstain=True, name="log_p")
    return [f"teacher {i}" for i in range(space.n_teachers)], space, Z


def _residuals(Z: Floats, silent: NDArray[np.bool_], lists: Any, blocks: Blocks) -> Floats:
    """Return the mean divergence of every teacher from the merge."""
    heard = ~silent.all(axis=1)
    total, count = np.zeros(len(lists)), (~silent).sum(axis=0)
    method = LogitFactorization(lists, temperature=1.0, abstain=True)
    Z = Z[heard]
    Q = _merge(method, Z) if len(Z) else Z
    for rows in chunks(len(Z), 64 * Z.shape[1]) if len(Z) else ():
        quiet = np.isnan(Z[rows])
        log_p = blocks.log_softmax(np.where(quiet, 0.0, Z[rows]))
        log_q = blocks.log_softmax(np.log(np.maximum(Q[rows], 1e-300))[:, blocks.class_of])
        total += (np.where(quiet, 0.0, np.exp(log_p) * (log_p - log_q)) @ blocks.to_teacher).sum(axis=0)
    return np.where(count > 0, np.maximum(total, 0.0) / np.maximum(count, 1), np.nan)


def _merge(method: LogitFactorization, Z: Floats) -> Floats:
    """Merge; that the class lists do not connect is no news in a report."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The class lists do not connect")
        Q: Floats = method.set_output(transform="default").fit_transform(Z)
    return Q


def _log_softmax(Z: Floats) -> Floats:
    """Normalise the rows; a row of -inf says that all is alike."""
    Z = np.where(np.isneginf(Z).all(axis=1, keepdims=True), 0.0, Z)
    Z = Z - Z.max(axis=1, keepdims=True)
    return Z - np.log(np.exp(Z).sum(axis=1, keepdims=True))


def _pairs(agree: Floats, shared: NDArray[np.int_], most: int) -> list[dict[str, Any]]:
    """List the pairs of teachers that disagree most, those first."""
    first, second = np.triu_indices(len(agree), k=1)
    known = ~np.isnan(agree[first, second])
    first, second = first[known], second[known]
    order = np.argsort(agree[first, second], kind="stable")[:most]
    return [
        {"first": int(i), "second": int(j), "shared": int(shared[i, j]), "agreement": float(agree[i, j])}
        for i, j in zip(first[order], second[order], strict=True)
    ]


def _number(value: Any) -> float | None:
    return None if np.isnan(value) else float(value)
