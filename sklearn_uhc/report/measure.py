"""What is known about teachers without labels: who is confident, who agrees with whom, where they cannot be merged."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_array

from sklearn_uhc.answers import check_answers, check_given, silent_teachers
from sklearn_uhc.calibration import TeacherCalibrator
from sklearn_uhc.label_space import LabelSpace
from sklearn_uhc.metrics import pairwise_agreement
from sklearn_uhc.names import look_alikes
from sklearn_uhc.plots import ClassOverlapDisplay, SoftLabelDisplay, TeacherAgreementDisplay
from sklearn_uhc.report.result import TeacherReport
from sklearn_uhc.report.words import label_of
from sklearn_uhc.soft_labels import LogitFactorization
from sklearn_uhc.solvers.blocks import Blocks
from sklearn_uhc.teachers import TeacherOutputs
from sklearn_uhc.teachers.holder import kind_of_teacher
from sklearn_uhc.utils.rows import chunks

__all__ = ["teacher_report"]

Floats = NDArray[np.floating[Any]]

#: Divergences below this are rounding, not contradiction.
ROUNDING = 1e-9
#: How many teachers that contradict the merge are named per row.
MOST_AGAINST = 2


def teacher_report(
    teachers: Any = None,
    X: Any = None,
    *,
    log_p: Any = None,
    class_lists: Sequence[Any] | None = None,
    teacher_names: Sequence[str] | None = None,
    n_pairs: int = 5,
    n_rows: int = 5,
    as_frame: bool = False,
) -> TeacherReport:
    """Describe teachers, and the merge that rests on them, by their answers on unlabelled rows.

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
    teacher_names : list of str, default=None
        What readers know the teachers by. None: their kinds, or their numbers.
    n_pairs : int, default=5
        Pairs of teachers to show, those that disagree most first.
    n_rows : int, default=5
        Rows to show, those that are hardest to reconcile first.
    as_frame : bool, default=False
        Whether the tables are pandas DataFrames instead of lists of dicts.

    Returns
    -------
    report : TeacherReport
        A dict that prints as tables, shows itself in notebooks and saves itself as a page: `report.to_html(path)`.

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
    >>> report["warnings"]
    []
    """
    for name, value in (("n_pairs", n_pairs), ("n_rows", n_rows)):
        if not isinstance(value, Integral) or value < 0:
            raise ValueError(f"{name} must be an integer of at least 0, got {value!r}.")
    names, space, Z = _answers(teachers, X, log_p, class_lists, teacher_names)
    silent = silent_teachers(Z, space.blocks)
    calibrator = TeacherCalibrator(space.class_lists, abstain=True).set_output(transform="default").fit(Z)
    agree = pairwise_agreement(Z, space.class_lists)
    heard = np.flatnonzero(~silent.all(axis=1))
    answers = calibrator.transform(Z)[heard]
    Q = _merge(answers, space)
    apart = _divergences(answers, Q, Blocks.from_label_space(space))
    contents: dict[str, Any] = {
        "space": _describe(space),
        "n_samples": len(Z),
        "n_unanswered": len(Z) - len(heard),
        "teachers": _teachers(names, space, Z, silent, calibrator, agree.filled(np.nan), apart),
        "pairs": _pairs(agree.filled(np.nan), _shared(space), n_pairs),
        "rows": _hardest_rows(heard, answers, Q, _without_noise(apart, calibrator.weights_), space, n_rows),
    }
    labels = [label_of(teacher) for teacher in contents["teachers"]]
    displays: dict[str, Any] = {
        "overlap": ClassOverlapDisplay(space.mask, classes=space.classes, teacher_names=labels),
        "agreement": TeacherAgreementDisplay(agree, teacher_names=labels),
    }
    if len(Q):
        displays["soft_labels"] = SoftLabelDisplay(Q, classes=space.classes)
    return TeacherReport(contents, displays, as_frame=as_frame)


def _answers(teachers: Any, X: Any, log_p: Any, class_lists: Any, names: Any) -> tuple[list[str], LabelSpace, Floats]:
    """Return names, label space and answers, from teachers or as they were given."""
    if (teachers is None) == (log_p is None) or (X is None) == (log_p is None):
        raise ValueError("Give either fitted teachers and X, or log_p and class_lists.")
    if log_p is None:
        outputs = TeacherOutputs(teachers, class_lists=class_lists, abstain=True).set_output(transform="default")
        Z = np.asarray(outputs.fit_transform(X), dtype=float)
        space, own = outputs.label_space_, [kind_of_teacher(teacher) for teacher in teachers]
    else:
        if class_lists is None:
            raise ValueError("log_p needs class_lists: one list of classes per teacher, in block order.")
        space = LabelSpace(class_lists)
        log_p = check_given(log_p, space)
        Z = check_array(log_p, dtype=np.float64, ensure_all_finite=False, input_name="log_p")
        check_answers(Z, space.blocks, abstain=True, name="log_p")
        own = [f"teacher {i}" for i in range(space.n_teachers)]
    if names is not None and len(names) != space.n_teachers:
        raise ValueError(f"teacher_names has {len(names)} names for {space.n_teachers} teachers: give one for each.")
    return own if names is None else [str(name) for name in names], space, Z


def _merge(answers: Floats, space: LabelSpace) -> Floats:
    """Merge; that class lists do not connect, names look alike or a teacher is mute is said in the report."""
    if len(answers) == 0:
        return np.empty((0, space.n_classes))
    method = LogitFactorization(space.class_lists, temperature=1.0, abstain=True).set_output(transform="default")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The class lists do not connect")
        warnings.filterwarnings("ignore", message="None of the .* rows is answered")
        warnings.filterwarnings("ignore", message="Names that differ")
        Q: Floats = method.fit_transform(answers)
    return Q


def _divergences(answers: Floats, Q: Floats, blocks: Blocks) -> Floats:
    """Return the divergence of the merge from every teacher, (n, N); NaN where it is silent."""
    out = np.empty((len(answers), len(blocks.slices)))
    for rows in chunks(len(answers), 64 * answers.shape[1]) if len(answers) else ():
        out[rows] = blocks.divergences(answers[rows], Q[rows])
    return out


def _describe(space: LabelSpace) -> dict[str, Any]:
    """Say what the class lists determine."""
    lonely = np.flatnonzero(space.mask.sum(axis=0) == 1)
    owners, labels = space.mask[:, lonely].argmax(axis=0), space.classes[lonely]
    return {
        "summary": space.describe(),
        "n_teachers": space.n_teachers,
        "n_classes": space.n_classes,
        "groups": [group.tolist() for group in space.groups()],
        "known_by_one": [{"class": c, "teacher": i} for c, i in zip(labels.tolist(), owners.tolist(), strict=True)],
        "look_alikes": look_alikes(space.class_lists),
    }


def _teachers(
    names: list[str],
    space: LabelSpace,
    Z: Floats,
    silent: NDArray[np.bool_],
    calibrator: TeacherCalibrator,
    agree: Floats,
    apart: Floats,
) -> list[dict[str, Any]]:
    """Describe every teacher."""
    rows, shared, several = [], _shared(space), space.mask.sum(axis=0) > 1
    top = _largest_probabilities(Z, Blocks.from_label_space(space))
    for i, labels in enumerate(space.class_lists):
        confidence = top[~silent[:, i], i]
        known = np.flatnonzero(~np.isnan(agree[i]) & (np.arange(len(names)) != i))
        residual = apart[~np.isnan(apart[:, i]), i]
        rows.append(
            {
                "teacher": i,
                "name": names[i],
                "n_classes": len(labels),
                "classes": labels.tolist(),
                "coverage": float(1 - silent[:, i].mean()),
                "confidence": float(confidence.mean()) if len(confidence) else None,
                "temperature": float(calibrator.temperatures_[i]),
                "weight": float(calibrator.weights_[i]),
                "left": calibrator.left_.get(i),
                "shared": int((space.mask[i] & several).sum()),
                "agreement": float(np.average(agree[i, known], weights=shared[i, known])) if len(known) else None,
                "residual": float(residual.mean()) if len(residual) else None,
            }
        )
    return rows


def _shared(space: LabelSpace) -> NDArray[np.int_]:
    """Count the classes that two teachers share, (N, N)."""
    counts: NDArray[np.int_] = space.mask.astype(int) @ space.mask.T.astype(int)
    return counts


def _largest_probabilities(Z: Floats, blocks: Blocks) -> Floats:
    """Return the probability of every teacher's first choice, (n, N); of no meaning where it is silent."""
    out = np.empty((len(Z), len(blocks.slices)))
    for rows in chunks(len(Z), 64 * Z.shape[1]):
        P = np.exp(blocks.log_softmax(np.where(np.isnan(Z[rows]), 0.0, Z[rows])))
        out[rows] = np.stack([P[:, block].max(axis=1) for block in blocks.slices], axis=1)
    return out


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


def _without_noise(apart: Floats, weights: Floats) -> Floats:
    """Leave out teachers that are noise: they contradict everywhere, and would hide the rows that others differ on."""
    return np.where(weights < 1, np.nan, apart)


def _hardest_rows(
    heard: NDArray[np.int_], answers: Floats, Q: Floats, apart: Floats, space: LabelSpace, most: int
) -> list[dict[str, Any]]:
    """List the rows that the merge is furthest from the teachers on, those first."""
    speaking = (~np.isnan(apart)).sum(axis=1)
    error = np.nansum(apart, axis=1) / np.maximum(speaking, 1)
    hardest = np.argsort(-error, kind="stable")[:most]
    return [
        {
            "row": int(heard[k]),
            "error": float(error[k]),
            "says": space.classes[Q[k].argmax()].item(),
            "probability": float(Q[k].max()),
            "contradicted_by": _against(answers[k], Q[k], apart[k], space),
        }
        for k in hardest[error[hardest] > ROUNDING]
    ]


def _against(answer: Floats, q: Floats, apart: Floats, space: LabelSpace) -> list[dict[str, Any]]:
    """Say what the teachers that contradict the merge most say, and the merge among their classes."""
    worst = np.argsort(-np.nan_to_num(apart), kind="stable")[:MOST_AGAINST]
    out = []
    for i in worst[np.nan_to_num(apart[worst]) > ROUNDING]:
        p, merged = np.exp(answer[space.blocks[i]]), q[space.columns[i]]
        # Where all of a teacher's classes are next to impossible, the merge may say 0 to each of them.
        merged = merged / merged.sum() if merged.sum() > 0 else np.full(len(p), 1 / len(p))
        labels = space.class_lists[i].tolist()
        out.append(
            {
                "teacher": int(i),
                "divergence": float(apart[i]),
                "says": labels[p.argmax()],
                "probability": float(p.max()),
                "merge_says": labels[merged.argmax()],
                "merge_probability": float(merged.max()),
            }
        )
    return out
