"""The teachers' answers, read once for all candidates and folds, and fits of candidates without some teachers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from array_api_compat import array_namespace, device
from numpy.typing import NDArray
from sklearn.base import clone

from sklearn_uhc.answers import Answers, answers_given
from sklearn_uhc.estimators.merged_classifier import MergedClassifier, shared_defaults
from sklearn_uhc.estimators.merger import TeacherMerger
from sklearn_uhc.estimators.plan import abstains, given_weights
from sklearn_uhc.estimators.search.folds import Fold
from sklearn_uhc.membership.out_of_list import find_scorers, read_scorer
from sklearn_uhc.merging import resolve_method, takes_sets
from sklearn_uhc.merging.class_prior import restrict_prior
from sklearn_uhc.spaces.label_space import LabelSpace
from sklearn_uhc.teachers import TeacherOutputs
from sklearn_uhc.teachers.input import check_input
from sklearn_uhc.teachers.roster import Roster, check_teachers
from sklearn_uhc.utils.rows import count_rows, take_rows


@dataclass(frozen=True)
class Reading:
    """The teachers' answers about all rows, and what read them.

    Parameters
    ----------
    X : array-like with n rows
        What teachers and student see.
    answers : Answers
        Of all teachers.
    outputs : TeacherOutputs or None
        What asked them; None if the answers were given.
    before : Pipeline or None
        The fitted steps that X has come through.
    memberships : list of N arrays of shape (n,), or None
        What the teachers' scorers say; None for a teacher without.
    """

    X: Any
    answers: Answers
    outputs: TeacherOutputs | None
    before: Any
    memberships: list[NDArray[np.float64] | None]

    @classmethod
    def of(
        cls, merger: TeacherMerger, roster: Roster | None, space: LabelSpace, X: Any, log_p: Any, before: Any
    ) -> Reading:
        """Call all teachers and scorers, or use the given answers."""
        outputs, abstain = None, abstains(merger, resolve_method(merger.method))
        if log_p is not None:
            X = check_input(clone(merger), X, reset=True)
            answers = answers_given(log_p, space, abstain=abstain, n=count_rows(X))
        else:
            assert roster is not None
            names = ("teachers", "class_lists", "floor", "store", "n_jobs", "verbose")
            outputs = TeacherOutputs(**{name: getattr(merger, name) for name in names}, abstain=abstain)
            outputs.check_params(roster)
            answers = outputs.fit_answers(X, roster=roster)
            X = check_input(outputs, X, reset=False)
        scorers = find_scorers(merger.membership, space, () if roster is None else roster.teachers)
        titles = [f"the membership scorer of {space.called(i)}" for i in range(space.n_teachers)]
        scores = [None if s is None else read_scorer(s, t, X) for s, t in zip(scorers, titles, strict=True)]
        return cls(X, answers, outputs, before, scores)

    def for_trials(self) -> Reading:
        """Return only what trials need: neither teachers nor earlier steps are sent to other processes."""
        return replace(self, outputs=None, before=None)

    def __sizeof__(self) -> int:
        """Return the size of the answers in bytes: joblib's Dask backend sends large objects to a worker once."""
        return int(np.prod(self.answers.log_p.shape)) * self.answers.log_p.dtype.itemsize

    def without(self, fold: Fold, rows: NDArray[np.int_]) -> Reading:
        """Return the answers of the teachers that are not held out, for some rows."""
        answers = self.answers
        xp = array_namespace(answers.log_p)
        columns = np.flatnonzero(np.isin(answers.space.teacher_of, fold.rest))
        log_p = xp.take(answers.log_p, xp.asarray(columns, device=device(answers.log_p)), axis=1)
        silent = None if answers.silent is None else answers.silent[:, fold.rest]
        known = [self.memberships[i] for i in fold.rest]
        memberships = [None if d is None else d[rows] for d in known]
        return Reading(take_rows(self.X, rows), Answers(log_p, fold.space, silent).take(rows), None, None, memberships)


class Known:
    """A membership scorer whose answers are already known."""

    def __init__(self, values: NDArray[np.float64]) -> None:
        self.values = values

    def predict_membership(self, X: Any) -> NDArray[np.float64]:
        """Return the known answers."""
        return self.values


def reading_key(merger: TeacherMerger) -> tuple[Any, ...]:
    """Return the settings that candidates must share to share a reading."""
    membership = merger.membership
    scorers = membership if isinstance(membership, str) else id(membership)
    return merger.floor, abstains(merger, resolve_method(merger.method)), scorers


def weights_of(merger: TeacherMerger) -> NDArray[np.float64] | None:
    """Return the teacher weights given by the user, to the merge or to its method, or None."""
    weight = given_weights(merger, resolve_method(merger.method))
    return None if weight is None else np.asarray(weight, dtype=float)


def find_teachers(merger: TeacherMerger, log_p: Any) -> tuple[Roster | None, LabelSpace]:
    """Return the teachers and their label space, before any teacher is called."""
    if merger.teachers is not None:
        roster = check_teachers(merger.teachers, merger.class_lists)
        return roster, roster.space
    if log_p is None or (merger.class_lists is None and not isinstance(log_p, Answers)):
        raise TypeError(
            "teachers of the estimator is None: pass fitted classifiers, or their answers as class_lists and "
            "fit(X, log_p=...)."
        )
    return None, log_p.space if merger.class_lists is None else LabelSpace(merger.class_lists)


def without_teachers(merged: MergedClassifier, fold: Fold, space: LabelSpace) -> Any:
    """Return a candidate without teachers, for the answers of those that are not held out; `space` is that of all."""
    merger = merged.make_merger()
    method, given = resolve_method(merger.method), weights_of(merger)
    own = {name: None for name in ("teacher_weight", "class_lists") if name in method.get_params(deep=False)}
    merger.set_params(
        teachers=None,
        method=method.set_params(**own),
        class_lists=None,
        class_prior=restrict_prior(merger.class_prior, space.classes, fold.space.classes, merger.none_label),
        teacher_weight=merger.teacher_weight if given is None else given[fold.rest],
        membership=None,
        store=None,
        verbose=0,
    )
    return clone(merged).set_params(teachers=merger, **shared_defaults())


def fit_to(merged: Any, reading: Reading) -> Any:
    """Fit a candidate without teachers to answers that were read."""
    if takes_sets(resolve_method(merged.teachers.method)):
        merged.teachers.set_params(membership=[None if d is None else Known(d) for d in reading.memberships])
    return merged.fit(reading.X, log_p=reading.answers)
