"""Diagnostics of teachers without labels: confidence, agreement, and rows on which they cannot be reconciled."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sklearn_uhc.answers import Answers, answers_given, to_numpy
from sklearn_uhc.estimators.merged_classifier import MergedClassifier
from sklearn_uhc.estimators.merger import TeacherMerger
from sklearn_uhc.estimators.steps import WeightByReliability, resolve_calibrator
from sklearn_uhc.evidence import DOUBTED_WEIGHT, Finding, accepted, examine, find_foreign, find_uneven
from sklearn_uhc.evidence.metrics import agreement_of_pairs
from sklearn_uhc.inspection.plots import SoftLabelDisplay, TeacherAgreementDisplay
from sklearn_uhc.inspection.plots.overlap import overlap_of_space
from sklearn_uhc.inspection.report.hardest import check_n_rows, divergences, hardest_rows
from sklearn_uhc.inspection.report.result import TeacherReport
from sklearn_uhc.inspection.report.words import label_of
from sklearn_uhc.inspection.suggestions import Suggestions, suggest_harmonization
from sklearn_uhc.membership.out_of_list import Memberships, make_memberships
from sklearn_uhc.merging import CrossEntropyUnifier
from sklearn_uhc.merging.calibration import TeacherCalibrator
from sklearn_uhc.merging.class_prior import estimate_prior, fit_scale
from sklearn_uhc.solvers import blocks_of
from sklearn_uhc.solvers.blocks import Blocks
from sklearn_uhc.spaces.class_sets import plain_entries
from sklearn_uhc.spaces.label_space import LabelSpace
from sklearn_uhc.spaces.names import look_alikes, sounding_like_other
from sklearn_uhc.teachers import TeacherOutputs
from sklearn_uhc.teachers.input import check_input
from sklearn_uhc.teachers.roster import check_teachers, kind_of_teacher
from sklearn_uhc.utils.rows import chunks, count_rows

__all__ = ["teacher_report"]

Floats = NDArray[np.floating[Any]]

#: Number of pairs of teachers listed.
MOST_PAIRS = 5
#: What is told of a suggestion.
SUGGESTED = ("kind", "name", "becomes", "score", "evidence")
#: With more classes the condition is not computed; with more columns answers are not compared column by column.
MOST_CLASSES = 1000
#: How the warnings of `fit` begin that the report itself has.
REPORTED = (
    "The class lists do not connect",
    "None of the .* rows is answered",
    "No teacher answers for",
    "Names that differ",
    "Names that sound like",
    "No teacher distinguishes",
    "The sets do not determine",
    "These classes are named in one set",
)


def teacher_report(
    teachers: Any = None,
    X: Any = None,
    *,
    log_p: Any = None,
    class_lists: Any = None,
    membership: Any = "auto",
    n_rows: int = 5,
) -> TeacherReport:
    """Describe teachers, and what their merge is based on, from their answers on unlabelled rows.

    Parameters
    ----------
    teachers : list or dict of fitted classifiers, default=None
        Called on X. A dict, or a list of (name, classifier) pairs, names them. A `HeterogeneousDistiller`,
        `UnifiedEnsemble` or `TeacherMerger` stands for its teachers. None if `log_p` is given.
    X : array-like with n rows, default=None
        Unlabelled data. With `log_p`, only membership scorers need it.
    log_p : array-like of shape (n, K), default=None
        Answers instead of teachers, if you have computed them already, see `TeacherOutputs`. NaN where a teacher is
        silent.
    class_lists : list of lists, or dict of them by teacher name, default=None
        Names of each teacher's classes. Required with `log_p`.
    membership : None, "auto", list or dict of scorers, default="auto"
        Membership scorers, called on X: a list with a scorer or None per teacher, or a dict of scorers by teacher name.
        "auto" uses the `membership_` attribute of every teacher that has one. See `TeacherMerger`.
    n_rows : int, default=5
        Number of rows to show, those that are hardest to reconcile first.

    Returns
    -------
    report : TeacherReport
        A dict that prints as tables, is displayed in notebooks, and can be saved as a page: `report.to_html(path)`.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_uhc.inspection import teacher_report
    >>> Z = np.random.default_rng(0).normal(size=(200, 3))
    >>> report = teacher_report(log_p=np.hstack([Z, 3 * Z]), class_lists=[["a", "b", "c"]] * 2)
    >>> [round(row["agreement"], 2) for row in report["teachers"]]
    [1.0, 1.0]
    >>> report["teachers"][0]["confidence"] < report["teachers"][1]["confidence"]
    True
    >>> report["warnings"]
    []
    """
    check_n_rows(n_rows)
    if isinstance(teachers, (MergedClassifier, TeacherMerger)):
        merger = teachers.make_merger() if isinstance(teachers, MergedClassifier) else teachers
        class_lists = merger.class_lists if class_lists is None else class_lists
        membership = merger.membership if isinstance(membership, str) else membership
        teachers = merger.teachers
    names, answers, scores, one_kind = _read(teachers, X, log_p, class_lists, membership)
    space, calibrator = answers.space, resolve_calibrator("auto", one_kind=one_kind)
    found, weight = scores.find(space.n_teachers), np.ones(space.n_teachers)
    if not found:
        found, weight = examine(answers)
    doubted = weight <= DOUBTED_WEIGHT
    calibrated = calibrator.fit_transform_answers(WeightByReliability(weight).transform_answers(answers))
    agree = agreement_of_pairs(answers)
    answered = np.flatnonzero(answers.answered)
    merged, joined = calibrated.take(answered), scores.join(calibrated).take(answered)
    Q = _merge(joined)
    scaled = fit_scale(Q, estimate_prior(Q, np.ones(Q.shape[1], dtype=bool))).apply(Q) if len(Q) else Q  # as fit does
    apart = divergences(merged.log_p, Q, blocks_of(space))
    suggestions = _suggest(answers)
    contents: dict[str, Any] = {
        "space": _describe(space, joined.space, np.flatnonzero(answers.speaking.any(axis=0))),
        "n_samples": len(answers),
        "n_unanswered": len(answers) - len(answered),
        "accepted": scores.accepted(),
        "frequencies": _shares(scaled, joined.space),
        "teachers": _teachers(names, answers, scores, calibrator, doubted, agree.filled(np.nan)),
        "pairs": _pairs(agree.filled(np.nan), _comparable(space)),
        "rows": hardest_rows(answered, merged.log_p, Q, _without(apart, doubted), space, n_rows),
        "suggestions": [{name: getattr(one, name) for name in SUGGESTED} for one in suggestions],
        "suggestions_note": suggestions.note,
        "findings": [plain(finding) for finding in found or _find_uneven(joined, scaled, space)],
    }
    labels = [label_of(teacher) for teacher in contents["teachers"]]
    displays: dict[str, Any] = {
        "overlap": overlap_of_space(space, labels),
        "agreement": TeacherAgreementDisplay(agree, teacher_names=labels),
    }
    if len(Q):
        displays["soft_labels"] = SoftLabelDisplay(scaled, classes=space.classes)
    return TeacherReport(contents, displays)


@dataclass(frozen=True)
class _Scores:
    """What membership scorers say; nothing if no teacher has one."""

    memberships: Memberships | None = None
    D: NDArray[np.float64] | None = None  #: (n, M)

    def join(self, answers: Answers) -> Answers:
        """Return the answers with those of the scorers, as they are merged."""
        return answers if self.memberships is None or self.D is None else self.memberships.join_scores(answers, self.D)

    def accepted(self, teacher: int | None = None) -> float | None:
        """Return the share of rows that a teacher's scorer accepts, or any scorer; None without scorers."""
        if self.memberships is None or self.D is None or not len(self.D):
            return None
        if teacher is None:
            return accepted(self.D)
        whose = self.memberships.whose
        return accepted(self.D[:, [whose.index(teacher)]]) if teacher in whose else None

    def find(self, n_teachers: int) -> list[Finding]:
        """Return a finding if the rows look foreign to the scorers of all teachers."""
        return find_foreign(self.D) if self.D is not None and self.D.shape[1] == n_teachers else []


def _read(
    teachers: Any, X: Any, log_p: Any, class_lists: Any, membership: Any
) -> tuple[list[str], Answers, _Scores, bool]:
    """Return names, answers (called or passed) in double precision, scores, and whether teachers are of one kind."""
    if (teachers is None) == (log_p is None) or (X is None and log_p is None):
        raise ValueError("Pass either fitted teachers and X, or log_p and class_lists.")
    outputs, one_kind = TeacherOutputs(teachers, class_lists=class_lists, abstain=True), False
    if log_p is None:
        roster = check_teachers(teachers, class_lists)
        space, own = roster.space, [kind_of_teacher(teacher) for teacher in roster.teachers]
        one_kind = roster.is_of_one_kind
        memberships = make_memberships(membership, 1.0, None, space, roster.teachers)
        answers = outputs.fit_answers(X, roster=roster)
    else:
        if class_lists is None:
            raise ValueError("log_p needs class_lists: one list of classes per teacher, in the order of the blocks.")
        space = LabelSpace(class_lists)
        own = [f"teacher {i}" for i in range(space.n_teachers)]
        memberships = make_memberships(membership, 1.0, None, space)
        if memberships is not None and X is None:
            raise ValueError("Memberships need X, which is None: pass X with log_p, or membership=None.")
        answers = answers_given(log_p, space, abstain=True, n=None if X is None else count_rows(X))
    scores = _Scores()
    if memberships is not None:
        scores = _Scores(memberships, memberships.read(check_input(outputs, X, reset=log_p is not None)))
    names = space.teacher_names if space.is_named else own
    return names, answers.saying(to_numpy(answers.log_p).astype(float)), scores, one_kind


def _shares(Q: Floats, space: LabelSpace) -> dict[Any, float]:
    """Return the mean of every class; nothing without rows."""
    return dict(zip(space.classes.tolist(), Q.mean(axis=0).tolist(), strict=True)) if len(Q) else {}


def _find_uneven(joined: Answers, Q: Floats, space: LabelSpace) -> list[Finding]:
    """Return what `fit` would say about uneven classes, if it found nothing else."""
    return find_uneven(Q, np.ones(len(Q), dtype=bool), joined.space.classes, space)


def plain(finding: Finding) -> dict[str, Any]:
    """Return a finding as a dict of plain values."""
    teachers, names = list(finding.teachers), ("kind", "evidence", "says", "remedy")
    return {"teachers": teachers, **{name: getattr(finding, name) for name in names}}


@contextmanager
def without_repeats() -> Iterator[None]:
    """Merge without the warnings that the report has itself."""
    with warnings.catch_warnings():
        for about in REPORTED:
            warnings.filterwarnings("ignore", message=about)
        yield


def _merge(answers: Answers) -> Floats:
    """Return the merge of the report."""
    if len(answers) == 0:
        return np.empty((0, answers.space.n_classes))
    with without_repeats():
        Q: Floats = CrossEntropyUnifier(temperature=1.0).fit_transform_answers(answers)
    return Q


def _suggest(answers: Answers) -> Suggestions:
    """Compare names, and answers unless there are too many columns; suggestions are never applied."""
    if answers.space.n_outputs <= MOST_CLASSES:
        return suggest_harmonization(answers.space, log_p=answers)
    note = f"Answers were not compared: there are more than {MOST_CLASSES:,} columns."
    return Suggestions(suggest_harmonization(answers.space), note=note)


def what_is_open(space: LabelSpace, merged: LabelSpace) -> dict[str, Any]:
    """Return what the class lists leave open; `merged` is the space with the lists of membership scorers."""
    return {
        "groups": [group.tolist() for group in merged.groups()],
        "never_apart": [group.tolist() for group in merged.never_apart()] if merged.has_sets else [],
        "undetermined": merged.undetermined().tolist() if merged.leaves_open else [],
        "in_one_set": [{"class": c, "teacher": i} for c, i in space.in_one_set()],
    }


def _describe(space: LabelSpace, merged: LabelSpace, answered: NDArray[np.int_]) -> dict[str, Any]:
    """Describe what the class lists determine.

    `merged` is the space with the lists of membership scorers, `answered` are the teachers with at least one answer.
    """
    lonely = np.flatnonzero(space.named.sum(axis=0) == 1)
    owners, labels = space.named[:, lonely].argmax(axis=0), space.classes[lonely]
    return {
        "summary": space.describe(),
        "n_teachers": space.n_teachers,
        "n_classes": space.n_classes,
        **what_is_open(space, merged),
        "rank": merged.rank if merged.rank_is_cheap else None,
        "condition": merged.condition() if space.n_classes <= MOST_CLASSES else None,
        "known_by_one": [{"class": c, "teacher": i} for c, i in zip(labels.tolist(), owners.tolist(), strict=True)],
        "unanswered": space.classes[~space.mask[answered].any(axis=0)].tolist(),
        "look_alikes": look_alikes(space.class_lists),
        "rests": sounding_like_other(space.class_lists),
    }


def _teachers(
    names: list[str],
    answers: Answers,
    scores: _Scores,
    calibrator: TeacherCalibrator,
    doubted: NDArray[np.bool_],
    agree: Floats,
) -> list[dict[str, Any]]:
    """Describe every teacher."""
    space, silent = answers.space, ~answers.speaking
    rows, shared = [], _comparable(space)
    top = _largest_probabilities(answers.log_p, blocks_of(space))
    for i, labels in enumerate(space.class_lists):
        confidence = top[~silent[:, i], i]
        known = np.flatnonzero(~np.isnan(agree[i]) & (np.arange(len(names)) != i))
        rows.append(
            {
                "teacher": i,
                "name": names[i],
                "called": space.called(i),
                "n_classes": int(space.named[i].sum()),
                "classes": plain_entries(labels),
                "coverage": float(1 - silent[:, i].mean()),
                "accepted": scores.accepted(i),
                "confidence": float(confidence.mean()) if len(confidence) else None,
                "temperature": float(calibrator.temperatures_[i]),
                "contradicts": bool(doubted[i]),
                "left": calibrator.uncalibrated_.get(i),
                "agreement": float(np.average(agree[i, known], weights=shared[i, known])) if len(known) else None,
            }
        )
    return rows


def _comparable(space: LabelSpace) -> NDArray[np.int_]:
    """Return the number of single classes that two teachers share, (N, N)."""
    single = np.zeros_like(space.mask, dtype=int)
    for i in range(space.n_teachers):
        single[i, space.singles(i).classes] = 1
    return single @ single.T


def _largest_probabilities(Z: Floats, blocks: Blocks) -> Floats:
    """Return the probability of every teacher's first choice, (n, N); meaningless where it is silent."""
    out = np.empty((len(Z), len(blocks.slices)))
    for rows in chunks(len(Z), 64 * Z.shape[1]):
        P = np.exp(blocks.log_softmax(np.where(np.isnan(Z[rows]), 0.0, Z[rows])))
        out[rows] = np.stack([P[:, block].max(axis=1) for block in blocks.slices], axis=1)
    return out


def _pairs(agree: Floats, shared: NDArray[np.int_]) -> list[dict[str, Any]]:
    """List the pairs of teachers that disagree most, worst first."""
    first, second = np.triu_indices(len(agree), k=1)
    known = ~np.isnan(agree[first, second])
    first, second = first[known], second[known]
    order = np.argsort(agree[first, second], kind="stable")[:MOST_PAIRS]
    return [
        {"first": int(i), "second": int(j), "shared": int(shared[i, j]), "agreement": float(agree[i, j])}
        for i, j in zip(first[order], second[order], strict=True)
    ]


def _without(apart: Floats, doubted: NDArray[np.bool_]) -> Floats:
    """Exclude teachers that contradict the others everywhere: they would hide rows on which others differ."""
    return np.where(doubted, np.nan, apart)
