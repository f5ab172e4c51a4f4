"""Teachers, then soft labels: what the distiller and the ensemble have in common."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
from joblib import Memory
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin, clone
from sklearn.utils import assert_all_finite, check_consistent_length, column_or_1d
from sklearn.utils.multiclass import check_classification_targets

from sklearn_uhc.answers import check_given, silent_teachers, to_numpy
from sklearn_uhc.calibration import TeacherCalibrator
from sklearn_uhc.label_space import LabelSpace
from sklearn_uhc.metrics import teacher_agreement
from sklearn_uhc.soft_labels import SoftLabelMethod, resolve_method
from sklearn_uhc.teachers import TeacherOutputs
from sklearn_uhc.teachers.holder import TeacherHolder, check_teachers, warn_if_reordered
from sklearn_uhc.utils.diagram import Block, merge_block
from sklearn_uhc.utils.notes import warn_user
from sklearn_uhc.utils.parameters import check_flag, check_weights
from sklearn_uhc.utils.rows import check_row_weights, count_rows


class TeacherMerger(TeacherHolder, ClassifierMixin):
    """Mixin for classifiers that merge teachers: reading them, soft labels, and the score without labels."""

    class_lists: Sequence[Any] | None
    method: str | SoftLabelMethod
    balance: bool | str
    temperature: float | None
    calibrate: bool | str | TeacherCalibrator
    teacher_weight: Sequence[float] | str | None
    abstain: bool
    floor: float | str
    memory: str | Memory | None
    store: str | os.PathLike[str] | None
    n_jobs: int | None
    verbose: int
    label_space_: LabelSpace
    teacher_outputs_: TeacherOutputs | None
    calibrator_: TeacherCalibrator | None
    method_: SoftLabelMethod
    _answered: NDArray[np.bool_] | None

    def _merge_teachers(self, X: Any, log_p: Any = None) -> NDArray[Any]:
        """Read the teachers, unless `log_p` is given, and return the soft labels; sets the fitted attributes."""
        self._check_merge()
        log_p = self._read_teachers(X, log_p)
        self._answered = answered_rows(log_p, self.label_space_) if self.method_.abstain else None
        if self._answered is not None and not self._answered.any() and np.isnan(to_numpy(log_p)).all():
            raise ValueError("No teacher answers for any row: there is nothing to learn from.")
        Q: NDArray[Any] = self.method_.fit_transform(self._calibrated(log_p))
        return Q

    def _calibrated(self, log_p: Any) -> Any:
        """Learn the teachers' temperatures and weights, as far as that is wanted, and apply the temperatures."""
        self.calibrator_ = None
        by_agreement = isinstance(self.teacher_weight, str)
        wanted = self._make_calibrator()
        if wanted is None and not by_agreement:
            return log_p
        calibrator = TeacherCalibrator() if wanted is None else wanted
        if self.method_.teacher_weight is not None:
            calibrator.set_params(teacher_weight=self.method_.teacher_weight)
        calibrator.set_params(class_lists=self.label_space_.class_lists, abstain=self.method_.abstain)
        calibrator.set_output(transform="default").fit(log_p)
        if by_agreement:
            self.method_.set_params(teacher_weight=calibrator.weights_)
            if not calibrator.comparable_.any():
                warn_user(
                    'teacher_weight="agreement" cannot tell a broken teacher here, weights stay as they are: it takes '
                    "three teachers or more whose lists share two classes and overlap enough, and ten rows."
                )
        self.calibrator_ = wanted
        return self._tempered(log_p)

    def _tempered(self, log_p: Any) -> Any:
        """Divide answers by the temperatures learnt, if there are any."""
        if self.calibrator_ is None or (self.calibrator_.temperatures_ == 1).all():
            return log_p
        return self.calibrator_.transform(log_p)

    def _make_calibrator(self) -> TeacherCalibrator | None:
        """Return the calibrator, not fitted yet, if one is wanted; True means whatever the overlap of the lists."""
        if isinstance(self.calibrate, TeacherCalibrator):
            return clone(self.calibrate)
        if isinstance(self.calibrate, str):
            return TeacherCalibrator()
        return TeacherCalibrator(min_overlap=0.0) if self.calibrate else None

    def _row_weights(self, sample_weight: NDArray[Any] | None) -> NDArray[Any] | None:
        """Take the weight from rows for which no teacher answers."""
        if self._answered is None or self._answered.all():
            return sample_weight
        weights = self._answered * (1.0 if sample_weight is None else sample_weight)
        if not weights.any():
            raise ValueError(
                "No teacher answers for any row whose sample_weight is above zero: there is nothing to learn from."
            )
        return weights

    def _check_merge(self) -> None:
        """Refuse wrong parameters of the merge, before anything is read; sets `method_`, not fitted yet."""
        self._check_balance()
        check_flag("abstain", self.abstain)
        if isinstance(self.calibrate, TeacherCalibrator):
            self.calibrate._check_params()
            if self.calibrate.teacher_weight is not None:
                check_weights(self.calibrate.teacher_weight, self.label_space_.n_teachers)
        elif not isinstance(self.calibrate, (bool, np.bool_)) and self.calibrate != "auto":
            raise ValueError(f'calibrate must be True, False, "auto" or a TeacherCalibrator, got {self.calibrate!r}.')
        if isinstance(self.teacher_weight, str) and self.teacher_weight != "agreement":
            raise ValueError(
                f'teacher_weight must be one positive number per teacher or "agreement", got {self.teacher_weight!r}.'
            )
        self.method_ = self._make_method()
        self.method_._check_params()
        self.method_._set_structure(self.label_space_)

    def _read_teachers(self, X: Any, log_p: Any = None) -> Any:
        """Return the answers of all teachers, or `log_p` as it was given, once it is checked."""
        if log_p is None:
            self.teacher_outputs_ = TeacherOutputs(
                self.teachers,
                class_lists=self.class_lists,
                floor=self.floor,
                abstain=self.method_.abstain,
                memory=self.memory,
                store=self.store,
                n_jobs=self.n_jobs,
                verbose=self.verbose,
            ).set_output(transform="default")
            log_p = self.teacher_outputs_.fit_transform(X)
        else:
            if self.teachers is not None:
                warn_if_reordered(self.teachers, self.label_space_)
            log_p = check_given(log_p, self.label_space_, count_rows(X))
            self.teacher_outputs_ = None
        return log_p

    def _set_label_space(self, log_p: Any = None) -> None:
        """Check teachers and class lists, before anything is read."""
        if self.teachers is not None:
            self.label_space_ = check_teachers(self.teachers, self.class_lists)
        elif self.class_lists is not None and log_p is not None:
            self.label_space_ = LabelSpace(self.class_lists)
        else:
            raise TypeError(
                "teachers is None: give fitted classifiers, or, to a HeterogeneousDistiller, their answers: "
                "class_lists and fit(X, log_p=...)."
            )
        self.classes_ = self.label_space_.classes

    def _make_method(self) -> SoftLabelMethod:
        """Return the method with the settings of this estimator, which win over its own; weights learnt come later."""
        method = resolve_method(self.method)
        method.set_params(class_lists=self.label_space_.class_lists, verbose=self.verbose)
        if self.teacher_weight is not None and not isinstance(self.teacher_weight, str):
            method.set_params(teacher_weight=self.teacher_weight)
        if self.abstain:
            method.set_params(abstain=True)
        if self.temperature is not None:
            method.set_params(temperature=self.temperature)
        method.set_output(transform="default")
        return method

    def _check_balance(self) -> None:
        if not (isinstance(self.balance, (bool, np.bool_)) or self.balance == "auto"):
            raise ValueError(f'balance must be True, False or "auto", got {self.balance!r}.')

    def _balances(self, n: int) -> bool:
        """Whether to balance; "auto" does unless all teachers share one class list (the paper's two tables).

        Fewer rows than classes say nothing about how often a class is meant.
        """
        if isinstance(self.balance, str):
            return not self.label_space_.is_shared and n >= self.label_space_.n_classes
        return bool(self.balance)

    def _check_labels(self, X: Any, y: Any) -> None:
        """Validate a y that is given but not learnt from, as a wrong one would spoil every score."""
        if y is None:
            return
        y = column_or_1d(y, warn=True)
        if any(map(_is_missing, set(y.tolist()))):
            raise ValueError(
                "y contains NaN or other missing labels. Nothing is learnt from y: leave it out of fit, or, if a "
                "search needs it for its score, give rows with labels only."
            )
        assert_all_finite(y, input_name="y")
        check_classification_targets(y)
        check_consistent_length(X, y)
        known, seen = set(self.classes_.tolist()), set(np.unique(y).tolist())
        if not seen & known:
            raise ValueError(
                f"No teacher knows any class of y: y has {sorted(seen)[:8]}, the teachers know {sorted(known)[:8]}. "
                "Use the same names, or rename the teachers' classes with class_lists. Some tools of scikit-learn "
                "number the classes before they call fit: leave y out there, it is not needed."
            )
        if seen - known:
            warn_user(
                f"y holds classes that no teacher knows: {sorted(seen - known)[:8]}. They can never be predicted and "
                "count as errors in every score."
            )

    def _sk_visual_block_(self) -> Block:
        """Tell scikit-learn how to draw this in a notebook."""
        teachers = [] if self.teachers is None else list(self.teachers)
        given = [None] * len(teachers) if self.class_lists is None else list(self.class_lists)
        known = [getattr(teacher, "classes_", None) for teacher in teachers] or given
        lists = [own if labels is None else labels for own, labels in zip(known, given, strict=True)]
        if not teachers:
            teachers = ["answers given as log_p"] * len(lists)
        method = resolve_method(self.method)
        if self.temperature is not None:
            method.set_params(temperature=self.temperature)
        student = {"student": self.student} if hasattr(self, "student") else {}
        # Before fit, "auto" has not been decided: what is certain is shown.
        certain = None if isinstance(self.calibrate, str) else self._make_calibrator()
        calibrator = getattr(self, "calibrator_", certain)
        calibration = {} if calibrator is None else {"calibration": calibrator}
        return merge_block(teachers, lists, {**calibration, "method": method, **student})

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return class probabilities."""
        raise NotImplementedError

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the most probable class of every row.

        Parameters
        ----------
        X : array-like with n rows
            New data, of the kind given to `fit`.

        Returns
        -------
        labels : ndarray of shape (n,)
            From the union of the teachers' classes.
        """
        proba = self.predict_proba(X)
        return self.classes_[proba.argmax(axis=1)]

    def predict_log_proba(self, X: Any) -> NDArray[np.float64]:
        """Return the logarithm of `predict_proba`.

        Parameters
        ----------
        X : array-like with n rows
            New data, of the kind given to `fit`.

        Returns
        -------
        log_proba : ndarray of shape (n, L)
        """
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Return the accuracy if labels are given, else the agreement with the teachers.

        Parameters
        ----------
        X : array-like with n rows
            Data to score on.
        y : array-like of shape (n,), default=None
            True labels. None: `metrics.teacher_agreement`, which needs none.
        sample_weight : array-like of shape (n,), default=None
            Weights of the rows.

        Returns
        -------
        score : float
            Higher is better; the agreement is at most 0.
        """
        if y is not None:
            return float(super().score(X, y, sample_weight))
        proba = self.predict_proba(X)
        if self.teacher_outputs_ is None:
            raise ValueError(
                "score without y asks the teachers, but fit was given log_p instead. Pass y, or call "
                "sklearn_uhc.metrics.teacher_agreement(log_p, self.predict_proba(X), class_lists)."
            )
        sample_weight = check_row_weights(sample_weight, X)
        log_p = self.teacher_outputs_.transform(X)
        lists = self.label_space_.class_lists
        return teacher_agreement(log_p, proba, lists, sample_weight=sample_weight, abstain=self.method_.abstain)


def _is_missing(label: Any) -> bool:
    """Whether a label is None, NaN or pandas' NA, whose comparisons are neither true nor false."""
    return label is None or type(label).__name__ == "NAType" or bool(label != label)


def answered_rows(log_p: Any, space: LabelSpace) -> NDArray[np.bool_]:
    """Return (n,): whether any teacher answers for a row."""
    return np.asarray(~silent_teachers(log_p, space.blocks).all(axis=1))
