"""The merge without a student: all teachers are called for every prediction."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from sklearn_uhc.answers import Answers
from sklearn_uhc.estimators.merged_classifier import MergedClassifier
from sklearn_uhc.estimators.targets import answered_weights, known_weights, spare_none
from sklearn_uhc.labels.learning import warn_of_labels
from sklearn_uhc.merging import SoftLabelMethod
from sklearn_uhc.merging.balance import balanced_targets, balances, check_balance, class_weights
from sklearn_uhc.teachers.input import check_input
from sklearn_uhc.utils.fitting import all_or_nothing
from sklearn_uhc.utils.lazy import lazily
from sklearn_uhc.utils.rows import check_row_weights
from sklearn_uhc.utils.simplex import sharpen

__all__ = ["UnifiedEnsemble"]


class UnifiedEnsemble(MergedClassifier, BaseEstimator):
    """Merge fitted classifiers with different classes at prediction time, without a student.

    `predict_proba` calls every teacher and merges the answers as `HeterogeneousDistiller` does for its student. `fit`
    learns only the teachers' floors, their temperatures and weights if requested, and the class weights.

    Parameters
    ----------
    teachers : list or dict of fitted classifiers, or TeacherMerger
        Any objects with `predict_log_proba`, `predict_proba` or `decision_function`. A dict, or a list of
        (name, classifier) pairs, names them. They are never refitted, changed or cloned. A `TeacherMerger` carries
        further settings of the merge: `TeacherMerger(teachers, store="answers", calibrate=False)`.
    method : {"ce", "mf_lf", "mf_p", "mf_lu", "sd"} or soft-label transformer, default="ce"
        How the teachers' answers are merged.
    balance : bool or "auto", default="auto"
        Whether to divide the merged probabilities by their mean over the data given to `fit`, as if all classes were
        equally frequent. False does not. "auto" scales them to class frequencies that are estimated from them. If you
        know better, pass `class_prior`, or labels of some random rows, which correct the estimate.
    temperature : float, default=None
        The teachers' logits are divided by it before the merge; the merged probabilities are brought back to
        temperature 1. None means the method's own temperature, 1 by default (the paper uses 3).
    class_prior : dict or array-like of shape (L,), default=None
        How frequent the classes are in the rows, if you know: frequencies by class, or in the order of `classes_`. The
        merged labels are scaled until their mean is the prior. 0 means that a class never occurs. A dict may leave out
        `none_label` and classes that only y has, which keep the share that the merge gives them. None: see
        `balance`.
    class_lists : list or dict of lists, default=None
        The names of each teacher's classes, in the order of its outputs. None, for all teachers or for one, means the
        teacher's own `classes_`.
    membership : None, "auto", list or dict of scorers, default="auto"
        Scorers that say how likely a row belongs to any of a teacher's classes: a list with a scorer or None per
        teacher, or a dict of scorers by teacher name. A scorer has `predict_membership(X)`, which returns values in
        [0, 1] of shape (n,); `fit_membership` makes one. "auto" uses the `membership_` attribute of every teacher that
        has one.
    none_label : label, default=None
        Name of an additional class, "none of these", for rows that belong to no teacher. It must have the type of the
        other classes. Only scorers and OTHER can assign rows to it.
    n_jobs : int, default=None
        Number of teachers that are called, and of chunks of rows that are merged, at the same time, in threads.
    verbose : int, default=0
        1 shows progress.

    Attributes
    ----------
    classes_ : ndarray of shape (L,)
        All classes, sorted: those of the teachers, `none_label`, and classes that occur only in the labels given to
        `fit`.
    merger_ : TeacherMerger
        The fitted merge: teachers, calibration, weights, method.
    class_weight_ : ndarray of shape (L,) or None
        1 / mean merged probability, at temperature 1; None if not balanced.
    lineage_ : dict
        Who took part (name and type of every teacher, checksum of its file), method, class frequencies, rows,
        findings, versions and date, as plain values. ONNX files, packages and pickles carry it.
    n_features_in_ : int
        Number of features, if X is two-dimensional.

    See Also
    --------
    HeterogeneousDistiller : Trains one classifier that does not need the teachers any more.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn_uhc import UnifiedEnsemble
    >>> X, y = load_iris(return_X_y=True)
    >>> a = LogisticRegression(max_iter=500).fit(X[y != 2], y[y != 2])
    >>> b = LogisticRegression(max_iter=500).fit(X[y != 0], y[y != 0])
    >>> UnifiedEnsemble([a, b]).fit(X).score(X, y) > 0.9
    True
    """

    def __init__(
        self,
        teachers: Any,
        *,
        method: str | SoftLabelMethod = "ce",
        balance: bool | str = "auto",
        temperature: float | None = None,
        class_prior: Any = None,
        class_lists: Any = None,
        membership: Any = "auto",
        none_label: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.teachers = teachers
        self.method = method
        self.balance = balance
        self.temperature = temperature
        self.class_prior = class_prior
        self.class_lists = class_lists
        self.membership = membership
        self.none_label = none_label
        self.n_jobs = n_jobs
        self.verbose = verbose

    @all_or_nothing
    @lazily
    def fit(self, X: Any, y: Any = None, *, sample_weight: Any = None, log_p: Any = None) -> UnifiedEnsemble:
        """Learn the teachers' floors, their temperatures and weights if requested, and the class weights.

        Parameters
        ----------
        X : array-like with n rows
            Unlabelled data, passed unchanged to the teachers.
        y : array-like of shape (n,), default=None
            Labels of some rows, with None, NaN or -1 for the others.
        sample_weight : array-like of shape (n,), default=None
            Row weights, used for the class weights and for the labels.
        log_p : array-like of shape (n, K), default=None
            The teachers' answers on X, if you have computed them already. No teacher is called, so the ensemble cannot
            predict afterwards; `merger_` has what was learned.

        Returns
        -------
        self
        """
        check_balance(self.balance)
        sample_weight = check_row_weights(sample_weight, X)
        merger = self.make_merger()
        answers = merger.fit_answers(X, y, log_p=log_p)
        Q = merger.fit_merge(answers, X, sample_weight=sample_weight)
        weights = answered_weights(answers, sample_weight)
        T = merger.method_.temperature
        weights = known_weights(Q, merger.classes_, merger.none_label, T, weights, merger.labels_)
        self.class_weight_ = None
        if balances(self.balance):
            equal = class_weights(sharpen(Q, T), weights)
            self.class_weight_ = spare_none(equal, merger.classes_, merger.none_label)
        merger._look_at_shares(Q, answers)
        self.merger_, self.classes_ = merger, merger.classes_
        self._take_features()
        self._record_lineage(len(answers))
        warn_of_labels(merger.label_pool_)
        return self

    @lazily
    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return the merged class probabilities, at temperature 1.

        Parameters
        ----------
        X : array-like with n rows
            New data, of the kind given to `fit`.

        Returns
        -------
        proba : ndarray of shape (n, L)
            Columns follow `classes_`. Uniform where no teacher answers, which is warned of once after `fit`.
        """
        check_is_fitted(self, "merger_")
        X = check_input(self, X, reset=False)
        return self._proba(self.merger_.answers(X), X)

    def _proba(self, answers: Answers, X: Any) -> NDArray[np.float64]:
        """Merge, balance, and return probabilities at temperature 1."""
        adjusted = self.merger_.adjust(answers, X)
        proba = sharpen(self.merger_.merge(adjusted, X), self.merger_.method_.temperature)
        if self.class_weight_ is not None:
            proba = balanced_targets(proba, self.class_weight_)[0]
        proba[~adjusted.answered] = 1 / len(self.classes_)
        return proba

    def _proba_to_score(self, X: Any, answers: Answers) -> NDArray[np.float64]:
        return self._proba(answers, X)
