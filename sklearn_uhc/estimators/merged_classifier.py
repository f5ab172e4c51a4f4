"""Base of the distiller and the ensemble: classifiers over all classes that are based on a merge."""

from __future__ import annotations

from inspect import signature
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.utils.validation import check_is_fitted

from sklearn_uhc.answers import Answers
from sklearn_uhc.estimators.diagram import DiagramBlock, diagram_of_merge
from sklearn_uhc.estimators.lineage import make_lineage
from sklearn_uhc.estimators.merger import TeacherMerger
from sklearn_uhc.evidence.metrics import agreement_with
from sklearn_uhc.labels import labelled_part
from sklearn_uhc.teachers.holder import TeacherHolder
from sklearn_uhc.teachers.input import input_tags
from sklearn_uhc.utils.fitting import all_or_nothing
from sklearn_uhc.utils.lazy import lazily
from sklearn_uhc.utils.notes import warn_user
from sklearn_uhc.utils.rows import check_row_weights

if TYPE_CHECKING:
    from sklearn_uhc.estimators.update import MergeUpdate

#: Parameters of a merge that the distiller and the ensemble have, too, since many users set them.
SHARED = ("method", "temperature", "class_prior", "class_lists", "membership", "none_label", "n_jobs", "verbose")
NOT_BY_AGREEMENT = (
    "score(X) without y is the agreement with the teachers. It can compare students, but not settings of a merge: it "
    "prefers whatever reproduces the teachers, including their errors. Use TeacherHoldoutSearch, or pass some "
    "labels as y."
)


class MergedClassifier(TeacherHolder, ClassifierMixin, MetaEstimatorMixin):
    """Mixin for classifiers that contain a merge: its parameters are their own, or those of a given `TeacherMerger`."""

    balance: bool | str
    merger_: TeacherMerger
    classes_: NDArray[Any]
    lineage_: dict[str, Any]

    def make_merger(self) -> TeacherMerger:
        """Return the merge that the parameters describe, not fitted yet.

        Returns
        -------
        merger : TeacherMerger
        """
        merger = self._given_merger()
        if merger.class_prior is None and isinstance(self.balance, str):  # "auto"
            merger.class_prior = "auto"
        if hasattr(self, "_earlier"):  # an update
            merger._earlier = self._earlier
        return merger

    def _given_merger(self) -> TeacherMerger:
        """Return the merge of the given teachers, or the given merge, with the parameters set here."""
        default = shared_defaults()
        given = {name: getattr(self, name) for name in SHARED if not _same(getattr(self, name), default[name])}
        if not isinstance(self.teachers, TeacherMerger):
            return TeacherMerger(self.teachers, **given)
        merger = clone(self.teachers)
        for name, value in given.items():
            if not _same(getattr(merger, name), default[name]):
                raise ValueError(
                    f"{name} is given twice: {value!r} here, and {getattr(merger, name)!r} in the TeacherMerger "
                    "that is passed as teachers. Set it in one place."
                )
        return merger.set_params(**given)

    @all_or_nothing
    def update(self, teachers: Any, X: Any = None, y: Any = None, *, sample_weight: Any = None) -> MergeUpdate:
        """Add, replace or remove teachers, and fit again; only new teachers are called.

        The merge is made anew, and so is the student, with the parameters of this classifier.

        Parameters
        ----------
        teachers : dict or list of fitted classifiers
            A dict works like `dict.update`: a new name adds a teacher, a known one replaces it, and None removes it. A
            list holds all teachers; those that took part in the last fit are recognised.
        X : array-like with n rows, default=None
            None: the rows of the last fit, about which the other teachers are not called again. They are not kept in
            pickles. Pass them then, and use `store`, so that only new teachers are called.
        y : array-like of shape (n,), default=None
            Labels of some rows, see `fit`. None with X None: those of the last fit.
        sample_weight : array-like of shape (n,), default=None
            Row weights.

        Returns
        -------
        update : MergeUpdate
            What changed; `print` says it. If something fails, this classifier stays as it was.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from sklearn.linear_model import LogisticRegression
        >>> from sklearn_uhc import UnifiedEnsemble
        >>> X, y = load_iris(return_X_y=True)
        >>> a, b, c = (LogisticRegression(C=10**k, max_iter=500).fit(X[y != k], y[y != k]) for k in (2, 1, 0))
        >>> clf = UnifiedEnsemble({"a": a, "b": b}).fit(X)
        >>> report = clf.update({"c": c, "b": None})
        >>> report.called, report.removed
        (["teacher 'c' (LogisticRegression)"], ['b'])
        """
        check_is_fitted(self, "merger_")
        from sklearn_uhc.estimators.update import update

        return update(self, teachers, X, y, sample_weight)

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return class probabilities."""
        raise NotImplementedError

    @lazily
    def predict(self, X: Any) -> NDArray[Any]:
        """Return the most probable class of every row.

        Parameters
        ----------
        X : array-like with n rows
            New data, of the kind given to `fit`.

        Returns
        -------
        labels : ndarray of shape (n,)
            One of `classes_` per row.
        """
        proba = self.predict_proba(X)
        return self.classes_[proba.argmax(axis=1)]

    @lazily
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

    @lazily
    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Return the accuracy if labels are given, else the agreement with the teachers.

        Parameters
        ----------
        X : array-like with n rows
            Data to score on.
        y : array-like of shape (n,), default=None
            Labels of all or some rows. Rows with None, NaN or -1 are ignored; at least one row must have a label. If y
            is None, the score is `metrics.teacher_agreement`, which needs no labels, but cannot choose settings of the
            merge, as a warning says. See `TeacherHoldoutSearch`.
        sample_weight : array-like of shape (n,), default=None
            Row weights.

        Returns
        -------
        score : float
            Higher is better. The agreement is at most 0.
        """
        if y is not None:
            X, y, known = labelled_part(X, y, self.classes_)
            return float(super().score(X, y, None if sample_weight is None else np.asarray(sample_weight)[known]))
        warn_user(NOT_BY_AGREEMENT)
        sample_weight = check_row_weights(sample_weight, X)
        answers = self._answers_to_score(X)
        known = np.isin(self.classes_, answers.space.classes)  # the teachers do not know none_label
        return agreement_with(answers, self._proba_to_score(X, answers)[:, known], sample_weight)

    def _answers_to_score(self, X: Any) -> Answers:
        if self.merger_.teacher_outputs_ is None:
            raise ValueError(
                "score without y calls the teachers, but fit was given log_p instead. Pass y, or call "
                "sklearn_uhc.evidence.metrics.teacher_agreement(log_p, self.predict_proba(X), class_lists)."
            )
        return self.merger_.answers(X)

    def _proba_to_score(self, X: Any, answers: Answers) -> NDArray[np.float64]:
        """Return the probabilities to compare with the teachers' answers on the same rows."""
        return self.predict_proba(X)

    def _take_features(self) -> None:
        """Copy the merge's attributes about the features of X."""
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(self.merger_, name):
                setattr(self, name, getattr(self.merger_, name))

    def _record_lineage(self, n_rows: int | None) -> None:
        """Record who took part, here and in the student, which may be shared alone."""
        student = getattr(self, "student_", None)
        self.lineage_ = make_lineage(self.merger_, student, self.balance, n_rows)
        if student is not None:
            student.lineage_ = self.lineage_

    def _sk_visual_block_(self) -> DiagramBlock:
        """Return how scikit-learn draws this estimator in a notebook."""
        merger: TeacherMerger = getattr(self, "merger_", None) or self.make_merger()
        student = {"student": self.student} if hasattr(self, "student") else {}
        return diagram_of_merge(merger, **student)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags = input_tags(tags.input_tags, self.teachers, *self._other_readers())
        tags.target_tags.required = False
        return tags

    def _other_readers(self) -> list[Any]:
        """Return estimators other than the teachers that read X."""
        return []


def shared_defaults() -> dict[str, Any]:
    """Return the defaults of the parameters that a distiller or an ensemble shares with its merge."""
    parameters = signature(TeacherMerger).parameters
    return {name: parameters[name].default for name in SHARED}


def _same(value: Any, default: Any) -> bool:
    """Return whether a parameter, which may be an array, has its default."""
    return value is default or (isinstance(value, (str, int)) and type(value) is type(default) and value == default)
