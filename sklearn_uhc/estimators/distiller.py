"""The meta-estimator: fitted teachers with different classes in, one trained classifier out."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, process_routing
from sklearn.utils.validation import check_is_fitted

from sklearn_uhc.answers import Answers, to_numpy
from sklearn_uhc.estimators.merged_classifier import MergedClassifier
from sklearn_uhc.estimators.merger import TeacherMerger
from sklearn_uhc.estimators.targets import answered_weights, known_weights, spare_none
from sklearn_uhc.labels import read_labels
from sklearn_uhc.labels.learning import as_given, warn_of_labels
from sklearn_uhc.merging import SoftLabelMethod
from sklearn_uhc.merging.balance import balanced_targets, balances, check_balance, class_weights
from sklearn_uhc.merging.class_prior import is_estimated
from sklearn_uhc.students import SoftLabelClassifier, check_readable, check_routing, check_student
from sklearn_uhc.teachers.input import check_input
from sklearn_uhc.utils.fitting import all_or_nothing
from sklearn_uhc.utils.lazy import lazily
from sklearn_uhc.utils.notes import warn_user
from sklearn_uhc.utils.rows import check_row_weights

__all__ = ["HeterogeneousDistiller"]

#: Default temperature of direct backpropagation, from the paper.
BACKPROP_TEMPERATURE = 3.0
NO_LABELS = (
    "backprop=True ignores y: the network learns from the teachers alone. To use the labels, set backprop=False."
)

ALL_LABELLED = (
    "y labels every row, so the student is trained on y alone: teachers, method and temperature have no effect. To "
    "learn from the teachers, call fit(X), or put None into y for the rows whose labels are not to be used."
)


class HeterogeneousDistiller(MergedClassifier, BaseEstimator):
    """Distil fitted classifiers, each with its own list of classes, into one classifier over all classes.

    For every unlabelled row, each teacher gives probabilities for the classes it knows. A soft-label method merges
    these answers into one distribution over all classes, and the student is trained on the merged soft labels. Neither
    labels nor the teachers' training data are needed.

    Parameters
    ----------
    teachers : list or dict of fitted classifiers, or TeacherMerger
        Any objects with `predict_log_proba`, `predict_proba` or `decision_function`. A dict, or a list of
        (name, classifier) pairs, names them in messages, plots and reports. They are never refitted, changed or
        cloned, not even by `clone`, Pipelines and searches. May be None if `fit` is given `log_p`. A `TeacherMerger`
        carries further settings of the merge: `TeacherMerger(teachers, store="answers", calibrate=False)`.
    student : estimator
        The classifier to train: a tree, a forest, nearest neighbours, LightGBM, XGBoost, CatBoost, any classifier whose
        `fit` accepts `sample_weight`, a skorch net, a torch module, or a Pipeline that ends in one of these. Trees,
        forests and neighbours are trained as regressors of the same kind, so a fitted forest shows up as a
        `RandomForestRegressor`; see `SoftLabelClassifier`. You may also pass a `SoftLabelClassifier`, for example to
        set its `strategy`; its classes and temperature are set by the merge.
    method : {"ce", "mf_lf", "mf_p", "mf_lu", "sd"} or soft-label transformer, default="ce"
        How the teachers' answers are merged.
    balance : bool or "auto", default="auto"
        Whether classes that are rare among the soft labels get more weight in training. True makes all classes count
        equally, as in the paper: choose it if they are, or should count, about equally often. False leaves the soft
        labels as they are. "auto" scales them to class frequencies that are estimated from them. If you know better,
        pass `class_prior`, or labels of some random rows, which correct the estimate. See `docs/evidence.md`.
    temperature : float, default=None
        The teachers' logits are divided by it. Values above 1 make the soft labels smoother. None means the method's
        own temperature: 1 by default (the paper uses 3), and 3 with `backprop`.
    class_prior : dict or array-like of shape (L,), default=None
        How frequent the classes are in the rows, if you know: frequencies by class, or in the order of `classes_`. The
        merged labels are scaled until their mean is the prior. 0 means that a class never occurs. A dict may leave out
        `none_label` and classes that only y has, which keep the share that the merge gives them. None: see
        `balance`.
    backprop : bool, default=False
        Whether to train a network directly on the method's objective instead of on soft labels (CE-BP, MF-P-BP,
        MF-LU-BP, MF-LF-BP of the paper; see `sklearn_uhc.merging.losses`). The student must be a skorch net or a torch
        module. Balance is not available, and `balance="auto"` means none. Teacher weights, silence and memberships are
        as on soft labels.
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
    student_ : SoftLabelClassifier
        The trained student. `student_.estimator_` is the model inside: for a tree, forest or neighbours student, the
        regressor of the same kind (`SoftLabelClassifier` says why).
    merger_ : TeacherMerger
        The fitted merge: teachers, calibration, weights, method.
    class_weight_ : ndarray of shape (L,) or None
        Class weights, see `balance`; None if not balanced.
    lineage_ : dict
        Who took part (name and type of every teacher, checksum of its file), method, class frequencies, rows,
        findings, versions and date, as plain values. ONNX files, packages and pickles carry it.
    n_features_in_ : int
        Number of features, if X is two-dimensional.

    See Also
    --------
    UnifiedEnsemble : The same merge without a student; it calls all teachers at every prediction.

    Notes
    -----
    A pickled distiller contains its teachers. To share the merged classifier alone, pickle `student_`, which predicts
    the same. A transformer before the distiller in a Pipeline changes what the teachers see as well. To preprocess X
    for the student alone, use a Pipeline as the student.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn_uhc import HeterogeneousDistiller
    >>> X, y = load_iris(return_X_y=True)
    >>> a = LogisticRegression(max_iter=500).fit(X[y != 2], y[y != 2])
    >>> b = LogisticRegression(max_iter=500).fit(X[y != 0], y[y != 0])
    >>> clf = HeterogeneousDistiller([a, b], RandomForestClassifier(random_state=0)).fit(X)
    >>> clf.classes_.tolist()
    [0, 1, 2]
    >>> clf.score(X, y) > 0.9
    True
    """

    class_weight_: NDArray[np.float64] | None

    def __init__(
        self,
        teachers: Any,
        student: Any,
        *,
        method: str | SoftLabelMethod = "ce",
        balance: bool | str = "auto",
        temperature: float | None = None,
        class_prior: Any = None,
        backprop: bool = False,
        class_lists: Any = None,
        membership: Any = "auto",
        none_label: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.teachers = teachers
        self.student = student
        self.method = method
        self.balance = balance
        self.temperature = temperature
        self.class_prior = class_prior
        self.backprop = backprop
        self.class_lists = class_lists
        self.membership = membership
        self.none_label = none_label
        self.n_jobs = n_jobs
        self.verbose = verbose

    @all_or_nothing
    @lazily
    def fit(
        self, X: Any, y: Any = None, *, sample_weight: Any = None, log_p: Any = None, **fit_params: Any
    ) -> HeterogeneousDistiller:
        """Merge the teachers on unlabelled data and train the student.

        Parameters
        ----------
        X : array-like with n rows
            The unlabelled rows (transfer set): arrays, sparse matrices, DataFrames, images, texts. They are passed
            unchanged to the teachers and the student.
        y : array-like of shape (n,), default=None
            Labels of some rows, with None, NaN or -1 for the others. With `backprop` they are ignored, with a warning.
        sample_weight : array-like of shape (n,), default=None
            Row weights, used in the class balance and in the student's training.
        log_p : array-like of shape (n, K), default=None
            The teachers' answers on X, if you have computed them already (see `TeacherOutputs`). No teacher is called.
        **fit_params : dict
            Passed to the student's `fit` if metadata routing is enabled.

        Returns
        -------
        self
        """
        check_routing(fit_params)
        check_balance(self.balance)
        student = self._make_student()
        check_student(student.estimator, student.strategy)  # before teachers are called, which may take hours
        X = check_input(self, X, reset=True)
        check_readable(student.estimator, X)
        sample_weight = check_row_weights(sample_weight, X)
        merger = self.make_merger()
        train = self._train_by_backprop if self.backprop else self._train_on_soft_labels
        if self.backprop:
            self._check_backprop(merger, fit_params, sample_weight)
            student.check_is_network()
        answers = merger.fit_answers(X, None if self.backprop else y, log_p=log_p)
        if self.backprop and read_labels(y, X, merger.classes_) is not None:
            warn_user(NO_LABELS)
        learnt = train(merger, student, X, answers, sample_weight, fit_params)
        self.__dict__.update(learnt)
        self.merger_, self.classes_, self.student_ = merger, merger.classes_, student
        self._record_lineage(len(answers))
        return self

    def make_merger(self) -> TeacherMerger:
        """Return the merge that the parameters describe, not fitted yet and without the student's part.

        Returns
        -------
        merger : TeacherMerger
        """
        merger = super().make_merger()
        if self.backprop and merger.temperature is None and isinstance(merger.method, str):
            merger.set_params(temperature=BACKPROP_TEMPERATURE)
        if isinstance(merger.label_model, str) and merger.label_model == "auto":
            merger.set_params(label_model=self._make_student())
        return merger

    @lazily
    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return the student's class probabilities, at temperature 1.

        Parameters
        ----------
        X : array-like with n rows
            New data, of the kind given to `fit`.

        Returns
        -------
        proba : ndarray of shape (n, L)
            Columns follow `classes_`.
        """
        check_is_fitted(self, "student_")
        return self.student_.predict_proba(check_input(self, X, reset=False))

    def get_metadata_routing(self) -> MetadataRouter:
        """Return the routing of fit parameters to the student.

        Returns
        -------
        routing : MetadataRouter
        """
        mapping = MethodMapping().add(caller="fit", callee="fit")
        return (
            MetadataRouter(owner=self).add_self_request(self).add(student=self._make_student(), method_mapping=mapping)
        )

    def _train_on_soft_labels(
        self,
        merger: TeacherMerger,
        student: SoftLabelClassifier,
        X: Any,
        answers: Answers,
        sample_weight: NDArray[Any] | None,
        fit_params: dict[str, Any],
    ) -> dict[str, Any]:
        """Merge, balance and train; return the attributes to set."""
        Q, pool = merger.fit_merge(answers, X, sample_weight=sample_weight), merger.label_pool_
        student.set_params(temperature=merger.method_.temperature, classes=merger.classes_)
        if merger.labels_ is not None and len(merger.labels_) == merger.labels_.n:
            warn_user(ALL_LABELLED)
        answered = answered_weights(answers, sample_weight, merger.labels_)
        Q, targets, weights, class_weight = self._targets(merger, Q, answered)
        merger._look_at_shares(Q, answers)
        self._tell(f"on {len(Q)} rows, {len(merger.classes_)} classes")
        routed = process_routing(self, "fit", **fit_params).student.fit if fit_params else {}
        student.fit(X, targets, sample_weight=weights, **routed)
        warn_of_labels(pool)
        return {"class_weight_": class_weight}

    def _targets(
        self, merger: TeacherMerger, Q: NDArray[Any], weights: NDArray[Any] | None
    ) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any] | None, NDArray[np.float64] | None]:
        """Return soft labels, the student's targets, row weights and class weights."""
        T = merger.method_.temperature
        Q = as_given(Q, merger.labels_, T)
        weights = known_weights(Q, merger.classes_, merger.none_label, T, weights, merger.labels_)
        if not balances(self.balance):
            return Q, Q, weights, None
        class_weight = spare_none(class_weights(Q, weights), merger.classes_, merger.none_label)
        return Q, *balanced_targets(Q, class_weight, weights), class_weight

    def _train_by_backprop(
        self, merger: TeacherMerger, student: SoftLabelClassifier, X: Any, answers: Answers, *_: Any
    ) -> dict[str, Any]:
        """Train a network on the method's own objective, with its logits in place of u."""
        method = merger.method_
        loss = _make_loss(method, answers)
        method.warn_about(answers)
        student.set_params(temperature=method.temperature, classes=merger.classes_)
        self._tell(f"by backpropagation, {len(merger.classes_)} classes")
        student.fit_to_teachers(X, to_numpy(answers.log_p), loss)
        return {"class_weight_": None}

    def _check_backprop(self, merger: TeacherMerger, fit_params: dict[str, Any], sample_weight: Any) -> None:
        """Raise an error for settings that direct backpropagation does not support, before any teacher is called."""
        if fit_params:
            raise ValueError(f"Direct backpropagation does not accept fit parameters, got {sorted(fit_params)}.")
        if not isinstance(self.balance, str) and self.balance:
            raise ValueError(
                "balance=True weights soft labels, and direct backpropagation makes none. Use balance='auto' or False "
                "with backprop=True, or backprop=False."
            )
        if merger.class_prior is not None and not is_estimated(merger.class_prior):
            raise ValueError(
                "class_prior scales soft labels, and direct backpropagation makes none: leave it out, or use "
                "backprop=False."
            )
        if sample_weight is not None:
            raise ValueError("Direct backpropagation does not accept sample_weight: omit it, or use backprop=False.")

    def _tell(self, how: str) -> None:
        if self.verbose:
            print(f"Training {type(self.student).__name__} {how}")

    def _make_student(self) -> SoftLabelClassifier:
        if not isinstance(self.student, SoftLabelClassifier):
            return SoftLabelClassifier(self.student)
        if self.student.temperature != 1:
            raise ValueError(
                "In a distiller, the student gets the temperature of the merge: leave temperature of the "
                f"SoftLabelClassifier at 1, got {self.student.temperature!r}, and set that of the distiller."
            )
        student: SoftLabelClassifier = clone(self.student)
        return student

    def _other_readers(self) -> list[Any]:
        given = isinstance(self.student, SoftLabelClassifier)
        return [self.student if given else SoftLabelClassifier(self.student)]


def _make_loss(method: Any, answers: Answers) -> Any:
    """Return the method's loss for these teachers; a method of the user's own may know no weights."""
    of_teachers = {"teacher_weight": answers.teacher_weight, "untempered": answers.untempered}
    return method.make_loss(answers.space, **{name: x for name, x in of_teachers.items() if x is not None})
