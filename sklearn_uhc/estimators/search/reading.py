"""The teachers' answers, read once for all candidates and folds, and fits of candidates without some teachers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from array_api_compat import array_namespace, device
from numpy.typing import NDArray
from sklearn.base import clone

from sklearn_uhc.answers import Answers, answers_given
from sklearn_uhc.estimators.merged_classifier import MergedClassifier
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
        cls, merged: MergedClassifier, roster: Roster | None, space: LabelSpace, X: Any, log_p: Any, before: Any
    ) -> Reading:
        """Call all teachers and scorers, or use the given answers."""
        outputs = None
        if log_p is not None:
            X = check_input(clone(merged), X, reset=True)
            answers = answers_given(log_p, space, abstain=_abstains(merged), n=count_rows(X))
        else:
            assert roster is not None
            names = ("teachers", "class_lists", "floor", "memory", "store", "n_jobs", "verbose")
            outputs = TeacherOutputs(**{name: getattr(merged, name) for name in names}, abstain=_abstains(merged))
            outputs.check_params(roster)
            answers = outputs.fit_answers(X, roster=roster)
            X = check_input(outputs, X, reset=False)
        scorers = find_scorers(merged.membership, space, () if roster is None else roster.teachers)
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


def reading_key(merged: MergedClassifier) -> tuple[Any, ...]:
    """Return the settings that candidates must share to share a reading."""
    membership = merged.membership
    scorers = membership if isinstance(membership, str) else id(membership)
    return merged.floor, _abstains(merged), scorers


def _abstains(merged: MergedClassifier) -> bool:
    own = getattr(resolve_method(merged.method), "abstain", False)
    return bool(own if merged.abstain is None else merged.abstain)


def given_weights(merged: MergedClassifier) -> NDArray[np.float64] | None:
    """Return the teacher weights given by the user, to the merge or to its method, or None."""
    weight = merged.teacher_weight
    if weight is None:
        weight = getattr(resolve_method(merged.method), "teacher_weight", None)
    return None if weight is None or isinstance(weight, str) else np.asarray(weight, dtype=float)


def find_teachers(merged: MergedClassifier, log_p: Any) -> tuple[Roster | None, LabelSpace]:
    """Return the teachers and their label space, before any teacher is called."""
    if merged.teachers is not None:
        roster = check_teachers(merged.teachers, merged.class_lists)
        return roster, roster.space
    if log_p is None or (merged.class_lists is None and not isinstance(log_p, Answers)):
        raise TypeError(
            "teachers of the estimator is None: pass fitted classifiers, or their answers as class_lists and "
            "fit(X, log_p=...)."
        )
    return None, log_p.space if merged.class_lists is None else LabelSpace(merged.class_lists)


def without_teachers(merged: MergedClassifier, fold: Fold, space: LabelSpace) -> Any:
    """Return a candidate without teachers, for the answers of those that are not held out; `space` is that of all."""
    method, given = resolve_method(merged.method), given_weights(merged)
    weight = merged.teacher_weight if given is None else given[fold.rest]
    own = {name: None for name in ("teacher_weight", "class_lists") if name in method.get_params(deep=False)}
    new = clone(merged).set_params(teachers=None, class_lists=None, membership=None, memory=None, store=None, verbose=0)
    prior = restrict_prior(merged.class_prior, space.classes, fold.space.classes, merged.none_label)
    return new.set_params(method=method.set_params(**own), teacher_weight=weight, class_prior=prior)


def fit_to(merged: Any, reading: Reading) -> Any:
    """Fit a candidate without teachers to answers that were read."""
    if takes_sets(resolve_method(merged.method)):
        merged.set_params(membership=[None if d is None else Known(d) for d in reading.memberships])
    return merged.fit(reading.X, log_p=reading.answers)
