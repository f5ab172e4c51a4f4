"""Membership without the owner: the student's out-of-fold predictions say whose classes a row belongs to.

The student is trained on merged soft labels of the other folds. The probability that it gives to a teacher's classes
replaces that teacher's scorer, and the answers are merged again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.model_selection import KFold

from sklearn_uhc.answers import Answers
from sklearn_uhc.not_mine import Memberships, extended_space
from sklearn_uhc.students import SoftLabelClassifier
from sklearn_uhc.utils.rows import count_rows, take_rows

#: Number of folds of the cross-fitting.
N_FOLDS = 5


def by_student(membership: Any) -> bool:
    """Return whether membership is estimated by the student."""
    return isinstance(membership, str) and membership == "student"


def judge_by_student(answers: Answers, S: NDArray[np.float64], weight: float, folder: Any = None) -> Answers:
    """Return answers with memberships added: the probability that S, (n, L), gives to every teacher's classes."""
    space = answers.space
    whose = [i for i in range(space.n_teachers) if not space.mask[i].all()]
    if not whose or weight == 0:
        return answers
    memberships = Memberships([], whose, [], extended_space(space, whose, []), weight, folder)
    D = S @ space.mask[whose].T.astype(float)
    return memberships.join_scores(answers, np.clip(D, 0.0, 1.0))


def out_of_fold(fit: Callable[[NDArray[np.int_]], SoftLabelClassifier], X: Any) -> NDArray[np.float64]:
    """Return (n, L), the out-of-fold probabilities, at temperature 1, of students that `fit` trains on some rows."""
    n = count_rows(X)
    if n < N_FOLDS:
        raise ValueError(f'membership="student" needs at least {N_FOLDS} rows, got {n}: use membership=None.')
    folds = list(KFold(N_FOLDS, shuffle=True, random_state=0).split(np.zeros(n)))
    parts = [fit(train).predict_proba(take_rows(X, test)) for train, test in folds]
    S = np.empty((n, parts[0].shape[1]))
    S[np.concatenate([test for _, test in folds])] = np.concatenate(parts)
    return S


def fit_rows(
    student: SoftLabelClassifier,
    X: Any,
    rows: NDArray[np.int_],
    targets: NDArray[Any],
    weights: NDArray[Any] | None,
) -> SoftLabelClassifier:
    """Return a copy of the student, trained on the soft labels of some rows."""
    some = None if weights is None else weights[rows]
    return clone(student).fit(take_rows(X, rows), targets[rows], sample_weight=some)
