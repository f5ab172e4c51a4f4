"""The same merge with no student: all teachers are asked for every prediction."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
from joblib import Memory
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from sklearn_uhc.balance import balanced_targets, class_weights
from sklearn_uhc.calibration import TeacherCalibrator
from sklearn_uhc.merging import TeacherMerger, answered_rows
from sklearn_uhc.soft_labels import SoftLabelMethod
from sklearn_uhc.students.temperature import sharpen
from sklearn_uhc.teachers.input import check_input, input_tags
from sklearn_uhc.utils.rows import check_row_weights

__all__ = ["UnifiedEnsemble"]


class UnifiedEnsemble(TeacherMerger, BaseEstimator):
    """Merge fitted classifiers with different classes at prediction time, for those who may keep all of them.

    `predict_proba` asks every teacher and merges the answers as `HeterogeneousDistiller` does for its student; all
    that is learnt are the teachers' floors, their temperatures and weights if wanted, and the class weights.

    Parameters
    ----------
    teachers : list of fitted classifiers
        Anything with `predict_log_proba`, `predict_proba` or `decision_function`. Never fitted, changed or cloned.
    method : {"mf_lf", "ce", "mf_p", "mf_lu", "sd"} or soft-label transformer, default="mf_lf"
        How the teachers' answers are merged.
    balance : bool or "auto", default="auto"
        Whether merged probabilities, still at the temperature of the merge, are divided by their mean over the data
        given to `fit`: what a student would learn from balanced soft labels. "auto" does so unless all teachers know
        the same classes or there are fewer rows than classes.
    temperature : float, default=None
        Divides the teachers' logits before the merge; the merged probabilities are brought back to temperature 1.
        None: the method's own, 3 by default.
    class_lists : list of lists, default=None
        Names of each teacher's classes in the order of its outputs. None, for all or for one teacher: its `classes_`.
    calibrate : bool, "auto" or TeacherCalibrator, default="auto"
        Whether each teacher's logits are divided by a temperature of its own, learnt from the others' answers, before
        the merge. "auto" does so where the class lists overlap enough to compare teachers, True in any case; where
        teachers differ by no more than noise, all temperatures are 1. See `docs/teachers.md`.
    teacher_weight : array-like of N positive numbers or "agreement", default=None
        Trust in each teacher, in the method's objective. "agreement" learns which teachers are noise to the others
        and gives them next to none; finer weights learnt from agreement did not help.
    abstain : bool, default=False
        Whether a teacher may be silent about a row: NaN for all its classes. It is left out there; a row that nobody
        answers for gets uniform probabilities. False: as the method has it.
    floor : float or "auto", default="auto"
        Smallest probability a teacher may give, see `TeacherOutputs`.
    memory : str or joblib.Memory, default=None
        Where to keep the teachers' answers. **It is unpickled: whoever can
        write there can run code as you.** Prefer `store`.
    store : str or path, default=None
        Folder that keeps the teachers' answers, so that an interrupted reading goes on; see `TeacherOutputs`.
    n_jobs : int, default=None
        Number of teachers that answer at the same time.
    verbose : int, default=0
        1 shows progress.

    Attributes
    ----------
    classes_ : ndarray of shape (L,)
        The union of the teachers' classes, sorted.
    label_space_ : LabelSpace
        Who knows which class, and what that leaves undetermined.
    teacher_outputs_ : TeacherOutputs
        The fitted teacher step.
    calibrator_ : TeacherCalibrator or None
        The fitted calibration; None if there is none.
    method_ : soft-label transformer
        The fitted method.
    class_weight_ : ndarray of shape (L,) or None
        1 / mean soft label; None if not balanced.
    n_features_in_ : int
        Number of features, if X is two-dimensional.

    See Also
    --------
    HeterogeneousDistiller : Trains one classifier that needs no teacher any more.

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
        teachers: Sequence[Any],
        *,
        method: str | SoftLabelMethod = "mf_lf",
        balance: bool | str = "auto",
        temperature: float | None = None,
        class_lists: Sequence[Any] | None = None,
        calibrate: bool | str | TeacherCalibrator = "auto",
        teacher_weight: Sequence[float] | str | None = None,
        abstain: bool = False,
        floor: float | str = "auto",
        memory: str | Memory | None = None,
        store: str | os.PathLike[str] | None = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.teachers = teachers
        self.method = method
        self.balance = balance
        self.temperature = temperature
        self.class_lists = class_lists
        self.calibrate = calibrate
        self.teacher_weight = teacher_weight
        self.abstain = abstain
        self.floor = floor
        self.memory = memory
        self.store = store
        self.n_jobs = n_jobs
        self.verbose = verbose

    def fit(self, X: Any, y: Any = None, *, sample_weight: Any = None) -> UnifiedEnsemble:
        """Learn the teachers' floors, their temperatures and weights if wanted, and the class weights, without labels.

        Parameters
        ----------
        X : array-like with n rows
            Unlabelled data, passed on to the teachers as it is.
        y : array-like of shape (n,), default=None
            Checked and then not used.
        sample_weight : array-like of shape (n,), default=None
            Weights of the rows in the class weights.

        Returns
        -------
        self
        """
        X = check_input(self, X, reset=True)
        sample_weight = check_row_weights(sample_weight, X)
        self._set_label_space()
        self._check_labels(X, y)
        Q = self._merge_teachers(X)
        sample_weight = self._row_weights(sample_weight)
        self.class_weight_ = class_weights(Q, sample_weight) if self._balances(len(Q)) else None
        return self

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
        check_is_fitted(self)
        assert self.teacher_outputs_ is not None
        X = check_input(self, X, reset=False)
        log_p = self._tempered(self.teacher_outputs_.transform(X))
        Q = self.method_.transform(log_p)
        if self.class_weight_ is not None:
            Q = balanced_targets(Q, self.class_weight_)[0]
        proba = sharpen(Q, self.method_.temperature)
        if self.method_.abstain:
            proba[~answered_rows(log_p, self.label_space_)] = 1 / len(self.classes_)
        return proba

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags = input_tags(tags.input_tags, self.teachers)
        tags.target_tags.required = False
        return tags
