"""From X to soft labels: teachers are called, and their answers adjusted and merged."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from sklearn_uhc.answers import Answers, answers_given, to_numpy
from sklearn_uhc.estimators.diagram import DiagramBlock, diagram_of_merge
from sklearn_uhc.estimators.plan import Plan, given_weights, make_plan
from sklearn_uhc.estimators.steps import WeightByReliability
from sklearn_uhc.estimators.targets import answered_weights
from sklearn_uhc.evidence import (
    Judgement,
    examine,
    find_foreign,
    find_only_none,
    find_uneven,
    find_wrong_labels,
    warn_of,
)
from sklearn_uhc.labels.learning import LabelPool, learn_from_labels, warn_of_labels
from sklearn_uhc.membership.out_of_list import with_none
from sklearn_uhc.merging import SoftLabelMethod
from sklearn_uhc.merging.class_prior import ClassScale, estimate_prior, fit_scale, is_estimated
from sklearn_uhc.students.template import as_template
from sklearn_uhc.teachers.holder import TeacherHolder
from sklearn_uhc.teachers.input import check_input, input_tags
from sklearn_uhc.utils.fitting import all_or_nothing
from sklearn_uhc.utils.lazy import lazily
from sklearn_uhc.utils.rows import count_rows
from sklearn_uhc.utils.simplex import sharpen

__all__ = ["TeacherMerger"]


class TeacherMerger(TeacherHolder, TransformerMixin, BaseEstimator):
    """Transform X into soft labels over all classes: call the teachers, calibrate them, merge their answers.

    `HeterogeneousDistiller` trains its student on these soft labels, and `UnifiedEnsemble` predicts with them. Use the
    merger itself if you need soft labels: in a Pipeline, for a learner of your own, or as features.

    Parameters
    ----------
    teachers : list or dict of fitted classifiers
        Any objects with `predict_log_proba`, `predict_proba` or `decision_function`. A dict, or a list of
        (name, classifier) pairs, names them. They are never refitted, changed or cloned. May be None if `fit` is given
        `log_p`.
    method : {"ce", "mf_lf", "mf_p", "mf_lu", "sd"} or soft-label transformer, default="ce"
        How the teachers' answers are merged. An instance must not have class lists of its own.
    temperature : float, default=None
        The teachers' logits are divided by it. Values above 1 make the soft labels smoother. None means the method's
        own temperature, 1 by default (the paper uses 3).
    class_prior : dict, array-like of shape (L,), "auto" or None, default=None
        How frequent the classes are in the rows, if you know: frequencies by class, or in the order of `classes_`. The
        merged labels are scaled until their mean is the prior. 0 means that a class never occurs. A dict may leave out
        `none_label` and classes that only y has, which keep the share that the merge gives them. "auto" estimates the
        frequencies from the merged labels, as `balance="auto"` of the distiller and the
        ensemble does; None leaves the labels as merged. See `docs/evidence.md`.
    class_lists : list or dict of lists, default=None
        The names of each teacher's classes, in the order of its outputs. None, for all teachers or for one, means the
        teacher's own `classes_`.
    calibrate : bool, "auto" or TeacherCalibrator, default="auto"
        Whether to divide each teacher's logits by its own temperature before the merge. Temperatures are learned from
        the other teachers' answers, without labels. "auto" does so if the class lists overlap enough to compare
        teachers, those of one kind twice as much, and True always. If teachers differ by no more than noise, all
        temperatures are 1. See `docs/evidence.md`.
    teacher_weight : array-like of N positive numbers, default=None
        Weight of each teacher in the method's objective, used as it is. None means the method's own weights; if it has
        none either, all teachers count alike, but for two cases: one that contradicts the others counts next to
        nothing, and `fit` warns; one with sets of classes counts by its reliability on these rows.
    membership : None, "auto", list or dict of scorers, default="auto"
        Scorers that say how likely a row belongs to any of a teacher's classes: a list with a scorer or None per
        teacher, or a dict of scorers by teacher name. A scorer has `predict_membership(X)`, which returns values in
        [0, 1] of shape (n,); `fit_membership` makes one. "auto" uses the `membership_` attribute of every teacher that
        has one.
    membership_weight : float, default=1.0
        Weight of every scorer in the merge, relative to the mean weight of the teachers. 0 turns scorers off.
    none_label : label, default=None
        Name of an additional class, "none of these", for rows that belong to no teacher. It must have the type of the
        other classes. Only scorers and OTHER can assign rows to it.
    label_model : classifier, "auto" or None, default="auto"
        Classifier of X that is trained on the labelled rows, if `fit` is given labels. Its predictions are combined
        with the merge; cross-validation decides how much they count. "auto" means logistic regression, if X is a
        matrix of numbers. None uses the labels only to learn from the teachers' answers. See
        `docs/guide/frequencies_and_labels.md`.
    abstain : bool, default=None
        Whether a teacher may leave a row unanswered, by NaN for all its classes. It is then left out for that row. A
        row that no teacher answers for gets uniform soft labels; with `none_label`, scorers decide about it.
        None means the method's own setting.
    floor : float or "auto", default="auto"
        Smallest probability of a teacher's answers; smaller values are raised to it. See `TeacherOutputs`.
    store : str or path, default=None
        Folder that keeps the teachers' answers, so that an interrupted run can resume. See `TeacherOutputs`.
    n_jobs : int, default=None
        Number of teachers that are called, and of chunks of rows that are merged, at the same time, in threads.
    verbose : int, default=0
        1 shows progress.

    Attributes
    ----------
    classes_ : ndarray of shape (L,)
        All classes, sorted: those of the teachers, `none_label`, and classes that occur only in the labels given to
        `fit`. They are the columns of the soft labels.
    label_space_ : LabelSpace
        Which teacher knows which class, and what this leaves undetermined.
    roster_ : Roster or None
        The teachers with their names; None if there are none.
    teacher_outputs_ : TeacherOutputs or None
        The fitted teacher step; None if `fit` was given `log_p`.
    steps_ : list
        The fitted steps between the answers and the method.
    calibrator_ : TeacherCalibrator or None
        The calibration step; None if there is none.
    teacher_weight_ : ndarray of shape (N,) or None
        The teachers' weights in the merge, given or learned; None if all count equally.
    memberships_ : Memberships or None
        The membership scorers in use; None if there are none.
    method_ : soft-label transformer
        The fitted method.
    class_frequencies_ : ndarray of shape (L,)
        How frequent the classes are among the rows by the soft labels, at temperature 1.
    class_scale_ : ClassScale or None
        The factors of the classes that follow from `class_prior`, told or estimated; None without it.
    labels_ : Labels or None
        The labelled rows and their labels in `fit`; None if there were none.
    label_pool_ : LabelPool or None
        What was learned from labels; None if there were none.
    findings_ : list of Finding
        Problems found with teachers and rows. Each was reported by a `FindingWarning`.
    n_features_in_ : int
        Number of features, if X is two-dimensional.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn_uhc import TeacherMerger
    >>> X, y = load_iris(return_X_y=True)
    >>> a = LogisticRegression(max_iter=500).fit(X[y != 2], y[y != 2])
    >>> b = LogisticRegression(max_iter=500).fit(X[y != 0], y[y != 0])
    >>> merger = TeacherMerger({"north": a, "south": b}, method="ce", temperature=1).fit(X)
    >>> merger.transform(X[:1]).round(2)
    array([[0.98, 0.02, 0.  ]])
    >>> merger.answers(X[:1]).space.output_names.tolist()
    ['north__0', 'north__1', 'south__1', 'south__2']
    """

    def __init__(
        self,
        teachers: Any,
        *,
        method: str | SoftLabelMethod = "ce",
        temperature: float | None = None,
        class_prior: Any = None,
        class_lists: Any = None,
        calibrate: Any = "auto",
        teacher_weight: Sequence[float] | None = None,
        membership: Any = "auto",
        membership_weight: float = 1.0,
        none_label: Any = None,
        label_model: Any = "auto",
        abstain: bool | None = None,
        floor: float | str = "auto",
        store: str | os.PathLike[str] | None = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.teachers = teachers
        self.method = method
        self.temperature = temperature
        self.class_prior = class_prior
        self.class_lists = class_lists
        self.calibrate = calibrate
        self.teacher_weight = teacher_weight
        self.membership = membership
        self.membership_weight = membership_weight
        self.none_label = none_label
        self.label_model = label_model
        self.abstain = abstain
        self.floor = floor
        self.store = store
        self.n_jobs = n_jobs
        self.verbose = verbose

    @all_or_nothing
    @lazily
    def fit(self, X: Any, y: Any = None, *, log_p: Any = None) -> TeacherMerger:
        """Learn the teachers' floors, and their temperatures and weights if requested. No labels are needed.

        Parameters
        ----------
        X : array-like with n rows
            Unlabelled data, passed unchanged to the teachers. None is allowed if `log_p` is given.
        y : array-like of shape (n,), default=None
            Labels of some rows, with None, NaN or -1 for the others. Ignored if it has no class in common with the
            teachers, as it is then meant for a later step of a Pipeline.
        log_p : array-like of shape (n, K) or Answers, default=None
            The teachers' answers on X, if you have computed them already. No teacher is called.

        Returns
        -------
        self
        """
        self.fit_transform(X, y, log_p=log_p)
        return self

    @all_or_nothing
    @lazily
    def fit_transform(self, X: Any, y: Any = None, *, log_p: Any = None) -> Any:
        """Fit, and return the soft labels of X. See `fit` and `transform`.

        Parameters
        ----------
        X : array-like with n rows
            Unlabelled data. May be None if `log_p` is given.
        y : array-like of shape (n,), default=None
            Labels of some rows, see `fit`.
        log_p : array-like of shape (n, K) or Answers, default=None
            The teachers' answers on X, if you have computed them already.

        Returns
        -------
        Q : ndarray of shape (n, L)
        """
        answers = self.fit_answers(X, y, log_p=log_p, foreign="ignore")
        Q = self.fit_merge(answers, X)
        warn_of_labels(self.label_pool_)
        return Q

    @lazily
    def transform(self, X: Any) -> Any:
        """Return the soft labels of X.

        Parameters
        ----------
        X : array-like with n rows
            New data, of the kind given to `fit`.

        Returns
        -------
        Q : ndarray of shape (n, L)
            Rows on the simplex, at the method's temperature; columns follow `classes_`.
        """
        return self.merge(self.adjust(self.answers(X), X), X)

    @all_or_nothing
    def fit_answers(self, X: Any, y: Any = None, *, log_p: Any = None, foreign: str = "raise") -> Answers:
        """Fit everything except the method, and return the answers that the method gets: calibrated and weighted.

        Parameters
        ----------
        X : array-like with n rows
            Unlabelled data. May be None if `log_p` is given.
        y : array-like of shape (n,), default=None
            Labels of some rows, kept in `labels_` for `fit_merge`.
        log_p : array-like of shape (n, K) or Answers, default=None
            The teachers' answers on X, if you have computed them already.
        foreign : {"raise", "ignore"}, default="raise"
            What to do with a y that has no class in common with the teachers.

        Returns
        -------
        answers : Answers
        """
        if isinstance(log_p, Answers) and self.none_label is not None:
            log_p = with_none(log_p, self.none_label)
        plan = make_plan(self, X, y, log_p, foreign)
        answers, scores = self._read(plan, X, log_p)
        if not answers.answered.any():
            raise ValueError("No teacher answers for any row: there is nothing to learn from.")
        weighs = plan.teacher_weight is None
        findings, weight = self._look_at_answers(answers, scores, weighs)
        weighing = [WeightByReliability(weight)] if weighs and (weight != 1).any() else []
        steps, adjusted = [*weighing, *plan.steps], answers
        for step in steps:
            adjusted = step.fit_transform_answers(adjusted)
        self.roster_, self.label_space_ = plan.roster, plan.space
        self.labels_, self.classes_ = plan.labels, plan.classes
        self.teacher_outputs_ = plan.outputs if log_p is None else None
        self.method_, self.steps_, self.memberships_ = plan.method, steps, plan.memberships
        self.teacher_weight_, self._prior = adjusted.teacher_weight, plan.prior
        self.findings_ = findings
        warn_of(findings)
        return (
            adjusted if scores is None or plan.memberships is None else plan.memberships.join_scores(adjusted, scores)
        )

    def _read(self, plan: Plan, X: Any, log_p: Any) -> tuple[Answers, NDArray[Any] | None]:
        """Return what teachers and membership scorers say about X, or the answers that are given."""
        X = None if X is None else check_input(self, X, reset=True)
        # Scorers first: one that does not work is found before teachers are called, which may take hours.
        scores = None if plan.memberships is None else plan.memberships.read(X)
        if log_p is None:
            plan.outputs._earlier = self.__dict__.pop("_earlier", None)
            return plan.outputs.fit_answers(X, roster=plan.roster, teacher_weight=plan.teacher_weight), scores
        n, abstain = None if X is None else count_rows(X), bool(plan.outputs.abstain)
        return answers_given(log_p, plan.space, abstain=abstain, n=n, teacher_weight=plan.teacher_weight), scores

    def _look_at_answers(self, answers: Answers, scores: NDArray[Any] | None, weighs: bool) -> Judgement:
        """Return what is wrong with teachers or rows, and how much each teacher should count."""
        N = answers.space.n_teachers
        foreign = find_foreign(scores, self.none_label) if scores is not None and scores.shape[1] == N else []
        # About foreign rows teachers contradict each other, too.
        return Judgement(foreign, np.ones(N)) if foreign else examine(answers, discounted=weighs)

    def fit_merge(self, answers: Answers, X: Any = None, *, sample_weight: NDArray[Any] | None = None) -> Any:
        """Fit the method, learn from the labels given to `fit_answers`, and return the soft labels.

        Parameters
        ----------
        answers : Answers
            The result of `fit_answers`.
        X : array-like with n rows, default=None
            The same rows, for the classifier of labelled rows. None: there is no such classifier.
        sample_weight : ndarray of shape (n,), default=None
            Row weights.

        Returns
        -------
        Q : array of shape (n, L)
        """
        Q = self.method_.fit_transform_answers(answers)
        counts = answers.answered if sample_weight is None else answers.answered & (sample_weight > 0)
        self._drop_wrong_labels(Q, answers, counts)
        weights, estimated = answered_weights(answers, sample_weight, self.labels_), is_estimated(self.class_prior)
        self.class_scale_ = self._fit_scale(Q, answers.space.classes, weights) if estimated else None
        Q = self._scaled(Q, estimated)  # labels correct an estimate, but not what is told
        Q, self.label_pool_ = self._learn_labels(Q, answers, X, sample_weight)
        if self._prior is not None:
            self.class_scale_ = fit_scale(Q, self._prior, self.method_.temperature, weights)
        Q = self._scaled(Q, not estimated)
        self.class_frequencies_ = np.average(sharpen(to_numpy(Q), self.method_.temperature), axis=0, weights=weights)
        if self.none_label is not None and not self.findings_:
            self.findings_ = find_only_none(to_numpy(Q)[answers.answered], self.classes_, self.none_label)
            warn_of(self.findings_)
        return Q

    def merge(self, answers: Answers, X: Any = None) -> Any:
        """Return the soft labels of adjusted answers.

        Parameters
        ----------
        answers : Answers
            The result of `adjust`.
        X : array-like with n rows, default=None
            The same rows. Required if `fit` was given labels.

        Returns
        -------
        Q : array of shape (n, L)
        """
        estimated = is_estimated(self.class_prior)
        Q = self._scaled(self.method_.transform_answers(answers), estimated)
        pool: LabelPool | None = getattr(self, "label_pool_", None)
        if pool is not None:
            Q = pool.apply(Q, answers, None if X is None else check_input(self, X, reset=False))
        return self._scaled(Q, not estimated)

    def _scaled(self, Q: Any, now: bool) -> Any:
        """Return soft labels scaled to told or estimated frequencies, if there are some and it is time."""
        scale: ClassScale | None = getattr(self, "class_scale_", None)
        return Q if scale is None or not now else scale.apply(Q, self.method_.temperature)

    def _fit_scale(self, Q: Any, classes: NDArray[Any], weights: NDArray[Any] | None) -> ClassScale:
        """Return the factors that bring soft labels to their estimated frequencies."""
        known = np.array([label != self.none_label for label in classes.tolist()])
        return fit_scale(Q, estimate_prior(Q, known, weights), self.method_.temperature, weights)

    def _learn_labels(
        self, Q: Any, answers: Answers, X: Any, sample_weight: NDArray[Any] | None
    ) -> tuple[Any, LabelPool | None]:
        """Return the soft labels, improved by the labels given to `fit_answers`, and what was learned from these."""
        labels = self.labels_
        if labels is None or (sample_weight is not None and not sample_weight[labels.rows].any()):
            return Q, None
        X = None if X is None else check_input(self, X, reset=False)
        pool = learn_from_labels(
            Q,
            answers,
            X,
            labels,
            space=self.label_space_,
            temperature=self.method_.temperature,
            label_model=self.label_model,
            as_template=as_template,
            row_weight=sample_weight,
            none_label=self.none_label,
        )
        return pool.apply(Q, answers, X), pool

    def answers(self, X: Any) -> Answers:
        """Return the teachers' answers for X, before calibration.

        Parameters
        ----------
        X : array-like with n rows
            New data, of the kind given to `fit`.

        Returns
        -------
        answers : Answers
        """
        check_is_fitted(self, "method_")
        if self.teacher_outputs_ is None:
            raise ValueError(
                "fit was given log_p, so no teacher can be called: use answers that you have computed, or fit with "
                "teachers."
            )
        return self.teacher_outputs_.answers(X, teacher_weight=given_weights(self, self.method_))

    def answers_of_fit(self) -> Answers:
        """Return the teachers' answers to the rows of `fit`, before calibration; no teacher is called.

        Returns
        -------
        answers : Answers
        """
        outputs = self.teacher_outputs_
        if outputs is None or outputs._kept is None:
            raise ValueError("The answers of fit are not kept: call answers(X).")
        return outputs.answers_of_fit(teacher_weight=given_weights(self, self.method_))

    def adjust(self, answers: Answers, X: Any = None) -> Answers:
        """Apply the fitted steps to answers: calibrate and weight them, and add memberships, ready to be merged.

        Parameters
        ----------
        answers : Answers
            The teachers' answers.
        X : array-like with n rows, default=None
            The same rows. Required if teachers have memberships.

        Returns
        -------
        answers : Answers
        """
        for step in self.steps_:
            answers = step.transform_answers(answers)
        memberships = getattr(self, "memberships_", None)
        if memberships is None:
            return answers
        if X is None:
            raise ValueError("This merge has memberships, which need X: pass the rows with the answers.")
        return memberships.join(answers, check_input(self, X, reset=False))

    def _look_at_shares(self, Q: Any, answers: Answers) -> None:
        """Warn if some classes seem rare or absent and there is neither a prior nor a label."""
        known = self._prior is not None or self.labels_ is not None
        if not self.findings_ and not known:  # if teachers contradict each other, uneven classes are only a symptom
            space, none = self.label_space_, self.none_label
            self.findings_ = find_uneven(to_numpy(Q), answers.answered, self.classes_, space, none)
            warn_of(self.findings_)

    @property
    def calibrator_(self) -> Any:
        """The fitted calibration step; None if there is none."""
        return next((step for step in self.steps_ if hasattr(step, "get_params")), None)

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Return the names of the columns: the classes.

        Parameters
        ----------
        input_features : ignored
            Not used, present for API consistency by convention.

        Returns
        -------
        names : ndarray of str
        """
        check_is_fitted(self, "method_")
        return np.asarray([str(label) for label in self.classes_], dtype=object)

    def _drop_wrong_labels(self, Q: Any, answers: Answers, counts: NDArray[np.bool_]) -> None:
        """Warn of labels that have nothing to do with the rows, and forget them and the classes that only they have."""
        if self.labels_ is None:
            return
        P, classes = sharpen(to_numpy(Q), self.method_.temperature), answers.space.classes
        if found := find_wrong_labels(P, classes, self.labels_, counts):
            warn_of(found)
            self.findings_ = self.findings_ + found
            if self._prior is not None:
                kept = self._prior[np.isin(self.classes_, classes)]
                self._prior = kept / np.nansum(kept)
            self.labels_, self.classes_ = None, classes

    def _sk_visual_block_(self) -> DiagramBlock:
        """Return how scikit-learn draws this estimator in a notebook."""
        return diagram_of_merge(self)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags = input_tags(tags.input_tags, self.teachers)
        tags.target_tags.required = False
        return tags
