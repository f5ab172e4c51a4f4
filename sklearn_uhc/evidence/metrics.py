"""Agreement of a merged prediction with the teachers: a score without labels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_array

from sklearn_uhc.answers import Answers, answers_given, to_numpy
from sklearn_uhc.solvers import blocks_of
from sklearn_uhc.spaces.label_space import LabelSpace
from sklearn_uhc.utils.rows import in_range

__all__ = ["pairwise_agreement", "teacher_agreement", "teacher_agreement_scorer"]

#: Smallest merged probability; smaller ones are raised to it, since an exact zero would have infinite loss.
MIN_PROBABILITY = float(np.finfo(float).eps)


def teacher_agreement(
    log_p: Any,
    proba: Any,
    class_lists: Sequence[Any],
    *,
    sample_weight: NDArray[Any] | None = None,
    abstain: bool = False,
) -> float:
    r"""Mean negative cross-entropy of the merged prediction against each teacher, over that teacher's classes.

    .. math:: \frac{1}{nN} \sum_x \sum_i \sum_{l \in L_i} p_i(l) \log \frac{q_l}{\sum_{k \in L_i} q_k}

    It is taken at temperature 1, so that scores are comparable across temperatures of the soft labels. Higher is
    better; a perfect merge reaches minus the mean entropy of the teachers. It measures how well a merge reproduces its
    teachers: a drop shows that something is wrong with one of them. Do not use it to choose settings. It is the
    objective of CE with all teachers taken equally and as they are, including their errors on rows of classes they do
    not know. So by construction it prefers CE, no balance, no calibration and no teacher weights. To choose without
    labels, use `TeacherHoldoutSearch`.

    Parameters
    ----------
    log_p : array-like of shape (n, K)
        Log-probabilities or logits of the teachers, as returned by `TeacherOutputs`.
    proba : array-like of shape (n, L)
        Merged probabilities, columns in the sorted order of all classes.
    class_lists : list of lists
        Classes of each teacher, in the order of the blocks.
    sample_weight : ndarray of shape (n,), default=None
        Row weights.
    abstain : bool, default=False
        Whether a teacher may leave a row unanswered (NaN in its whole block). The mean is over the existing answers.

    Returns
    -------
    agreement : float
        At most 0.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_uhc.evidence.metrics import teacher_agreement
    >>> log_p = np.log([[0.8, 0.2, 0.5, 0.5]])
    >>> lists = [["a", "b"], ["b", "c"]]
    >>> round(teacher_agreement(log_p, [[4/6, 1/6, 1/6]], lists), 4)
    -0.5968
    >>> round(teacher_agreement(log_p, [[0.2, 0.6, 0.2]], lists), 4)
    -1.0018
    """
    answers = answers_given(log_p, LabelSpace(class_lists), abstain=abstain)
    return agreement_with(answers, proba, sample_weight)


def agreement_with(answers: Answers, proba: Any, sample_weight: NDArray[Any] | None = None) -> float:
    """Return `teacher_agreement` with answers that are already checked."""
    space = answers.space
    blocks, Z = blocks_of(space), to_numpy(answers.log_p).astype(np.float64)
    Q = check_array(proba, dtype=np.float64, input_name="proba")
    if Q.shape != (len(Z), space.n_classes):
        raise ValueError(
            f"log_p must have shape (n, {space.n_outputs}) and proba (n, {space.n_classes}) for these class lists, got "
            f"{Z.shape} and {Q.shape}."
        )
    silent = np.isnan(Z)
    P = np.exp(blocks.log_softmax(np.where(silent, 0.0, Z)))
    log_q = blocks.log_softmax(blocks.column_logits(np.log(np.maximum(Q, MIN_PROBABILITY))))
    per_sample = np.where(silent, 0.0, P * log_q).sum(axis=1)
    speaking = answers.speaking.sum(axis=1)
    weights = np.ones(len(Q)) if sample_weight is None else in_range(np.asarray(sample_weight, dtype=float))
    return float((weights * per_sample).sum() / max((weights * speaking).sum(), np.finfo(float).tiny))


def pairwise_agreement(
    log_p: Any, class_lists: Sequence[Any], *, sample_weight: NDArray[Any] | None = None
) -> np.ma.MaskedArray[Any, Any]:
    """Share of rows for which two teachers choose the same class among those that both know.

    Columns that stand for several classes are ignored.

    A row is weighted by the product of the probabilities that the two teachers give to their shared classes. So rows
    of classes that one of them has never seen hardly count, and rows that one of them did not answer (NaN) do not
    count at all.

    Parameters
    ----------
    log_p : array-like of shape (n, K)
        Log-probabilities or logits of the teachers, as returned by `TeacherOutputs`.
    class_lists : list of lists
        Classes of each teacher, in the order of the blocks.
    sample_weight : ndarray of shape (n,), default=None
        Row weights.

    Returns
    -------
    agreement : masked array of shape (N, N)
        Between 0 and 1, symmetric. Masked if two teachers share fewer than two classes, or expect none of them.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_uhc.evidence.metrics import pairwise_agreement
    >>> log_p = np.log([[0.7, 0.2, 0.1, 0.6, 0.4], [0.1, 0.8, 0.1, 0.6, 0.4]])
    >>> pairwise_agreement(log_p, [["a", "b", "c"], ["a", "b"]]).round(2).tolist()
    [[1.0, 0.5], [0.5, 1.0]]
    """
    return agreement_of_pairs(answers_given(log_p, LabelSpace(class_lists), abstain=True), sample_weight)


def agreement_of_pairs(answers: Answers, sample_weight: NDArray[Any] | None = None) -> np.ma.MaskedArray[Any, Any]:
    """Return `pairwise_agreement` of answers that are already checked."""
    space, Z = answers.space, to_numpy(answers.log_p).astype(np.float64)
    weights = np.ones(len(Z)) if sample_weight is None else in_range(np.asarray(sample_weight, dtype=float))
    # NaN is no answer: its probabilities are set to 0, so that the row does not count for pairs with this teacher.
    P = np.exp(blocks_of(space).log_softmax(np.nan_to_num(Z, nan=0.0))) * ~np.isnan(Z)
    agreement = np.ma.masked_all((space.n_teachers, space.n_teachers))
    single = [space.singles(i) for i in range(space.n_teachers)]
    for i in range(space.n_teachers):
        agreement[i, i] = 1.0
        for j in range(i):
            _, a, b = np.intersect1d(single[i].classes, single[j].classes, return_indices=True)
            Pi, Pj = P[:, single[i].columns[a]], P[:, single[j].columns[b]]
            counts = weights * Pi.sum(axis=1) * Pj.sum(axis=1)
            if len(a) > 1 and counts.sum() > 0:
                same = Pi.argmax(axis=1) == Pj.argmax(axis=1)
                agreement[i, j] = agreement[j, i] = np.average(same, weights=counts)
    return agreement


def teacher_agreement_scorer(estimator: Any, X: Any, y: Any = None) -> float:
    """Score a distiller, or a Pipeline that ends in one, by its agreement with the teachers, even if y is given.

    Pass it as `scoring` of a search, alone or next to a score with labels. Without y, `score` is the same.

    Parameters
    ----------
    estimator : HeterogeneousDistiller or UnifiedEnsemble, fitted
        Or a Pipeline that ends in one.
    X : array-like with n rows
        Unlabelled data.
    y : ignored
        Not used, present for API consistency by convention.

    Returns
    -------
    agreement : float

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn_uhc import UnifiedEnsemble
    >>> from sklearn_uhc.evidence.metrics import teacher_agreement_scorer
    >>> X, y = load_iris(return_X_y=True)
    >>> teachers = [LogisticRegression(max_iter=500).fit(X[y != k], y[y != k]) for k in (0, 2)]
    >>> clf = UnifiedEnsemble(teachers).fit(X)
    >>> teacher_agreement_scorer(clf, X, y) == clf.score(X)
    True
    """
    return float(estimator.score(X))
