"""Any estimator as a classifier that is trained on soft labels."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax
from sklearn import get_config
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, process_routing
from sklearn.utils.validation import check_is_fitted, has_fit_parameter

from sklearn_uhc.students.direct import DirectStrategy, as_estimator, clone_student, is_net, with_tags
from sklearn_uhc.students.soft_data import (
    EvalRows,
    SoftData,
    check_copies,
    check_soft_labels,
    column_classes,
    columns_like,
)
from sklearn_uhc.students.strategies import STRATEGIES, resolve_strategy, train
from sklearn_uhc.utils.lazy import lazily
from sklearn_uhc.utils.notes import add_note
from sklearn_uhc.utils.response import log_proba
from sklearn_uhc.utils.rows import check_row_weights, is_dataset
from sklearn_uhc.utils.unchanged import unchanged
from sklearn_uhc.utils.versioned import Versioned

__all__ = ["SoftLabelClassifier"]


class SoftLabelClassifier(Versioned, MetaEstimatorMixin, ClassifierMixin, BaseEstimator):
    """Train any classifier on soft labels: rows of probabilities instead of one label each.

    Trees, forests and nearest neighbours are trained as the multi-output regressor of the same kind (see Notes).
    Boosters, LogisticRegression, networks, naive Bayes and some others are trained on the soft labels directly.
    Learners with `partial_fit` get labels that are drawn anew in every epoch. Every other classifier whose `fit`
    accepts `sample_weight` gets a few weighted copies of each row. The cost is about that of hard labels, at most a few
    times as much. With ordinary labels the estimator is trained as usual.

    Parameters
    ----------
    estimator : classifier, multi-output regressor, or Pipeline that ends in one
        Cloned before it is fitted. The earlier steps of a Pipeline are fitted on X once and get the most probable
        classes as y, if they need one.
    strategy : {"auto", "twin", "direct", "epochs", "replicate", "sample"}, default="auto"
        How the estimator learns from soft labels. "auto" takes the first of these that works, but never "sample".

        - "twin": as the regressor that is the same model on soft labels.
        - "direct": by the estimator's own training, with its loss over soft labels.
        - "epochs": by `partial_fit`, with labels drawn anew from the soft labels in every epoch.
        - "replicate": on weighted copies of the rows.
        - "sample": on labels drawn from the soft labels, one per row or `copies` of them. Works with every classifier
          but costs accuracy, since the row's other classes are lost.
    temperature : float, default=1.0
        Temperature of the soft labels given to `fit`. Predicted probabilities are brought back to temperature 1: they
        are raised to this power and normalised. For estimators whose answers do not follow the temperature of the
        labels, the power is learned (see Notes).
    classes : array-like of shape (L,), default=None
        The classes of the columns of the soft labels. None: the columns of a DataFrame, else 0 to L - 1. Not allowed
        with ordinary labels.
    copies : int, "all" or "auto", default="auto"
        Largest number of copies of a row for "replicate" and "sample". If there are fewer copies than classes, they are
        drawn at random, with the expected loss of all copies. Each takes as long as training on hard labels. "auto"
        means 4, and 1 for "sample". Kernel support vector machines, whose time grows with the square, get each row
        once, as its most probable class, weighted by its lead over the second.
    validation_fraction : float, default=0.1
        Share of the rows used for early stopping, if the estimator stops early and `fit` gets no `eval_set`:
        `early_stopping_rounds` of a booster, `early_stopping=True` of HistGradientBoostingClassifier or SGDClassifier.
    max_rows : int, default=None
        Largest number of rows of a Dask collection that are loaded into memory. If it has more, estimators that learn
        block by block use all of them; any other uses a sample of this size, drawn by weight
        (`docs/guide/scale.md`). None: 1 GiB of rows and soft labels. No effect on rows in memory.
    random_state : int, RandomState instance or None, default=None
        Used to choose rows for early stopping and to draw labels and copies. None: the `random_state` of the estimator,
        if that is a number. The estimator itself uses its own.

    Attributes
    ----------
    estimator_ : estimator
        The fitted model: the classifier itself, or the regressor of the same kind with "twin" (a
        `RandomForestRegressor` for a `RandomForestClassifier`), or a Pipeline that ends in a SoftLabelClassifier.
    classes_ : ndarray of shape (L,)
        Class labels, sorted.
    strategy_ : str
        The strategy used: "twin", "direct", "epochs", "replicate", "sample", "pipeline", or "hard" for ordinary labels.
    class_prior_ : ndarray of shape (L,)
        Mean soft label. It is the prediction for rows that the student has no answer for (radius neighbours far from
        all samples, a regressor that is nowhere positive).
    n_features_in_ : int
        Number of features, if the estimator has it.

    Notes
    -----
    **Why a regressor?** scikit-learn's trees, forests and neighbours classifiers do not accept probabilities as
    targets; the regressors do. Minimising their squared error is the same as minimising the Gini impurity of the soft
    labels, so a `RandomForestRegressor` on soft labels grows the trees of the `RandomForestClassifier`. Leaves on soft
    labels are hardly ever of one class, and trees would grow down to single rows. So branches end where a split
    explains less than 0.3 of what one row has of the labels' variance, unless `min_impurity_decrease` is set: half the
    memory at the same accuracy. `min_impurity_decrease=1e-15` lets them grow.

    `class_weight` of the estimator becomes part of the soft labels: a class of weight 2 counts twice in every row.

    A fitted booster is an ordinary one: `estimator_.booster_.save_model`, `estimator_.save_model` and feature
    importances work, and the saved model returns probabilities by itself, at the temperature of the soft labels. Its
    classes are the indices of `classes_`. For CatBoost, pass lists as tuples so that scikit-learn can clone it
    (`cat_features=("colour",)`), and install numba for speed.

    A plain torch module becomes a skorch net with Adam at 0.001 and batches of 128, trained for 20 epochs, or, with
    fewer than 12,800 rows, for as many as make 2,000 steps. For more control, pass a skorch net. A module may return
    logits or probabilities; in a net, the criterion is replaced by the soft cross-entropy.

    Scores of a `decision_function`, such as those of an SVC, are not probabilities. Their softmax is raised to the
    power at which it is closest to the soft labels of the rows given to `fit`, at temperature 1. Probabilities of naive
    Bayes, discriminant analysis and AdaBoost do not follow the temperature of the labels. They are left unchanged at
    temperature 1, and raised to a power found in the same way otherwise.

    Among m copies of a row, classes with a large share are always included; others are drawn by systematic
    sampling in proportion to their probability q. The mean weight of a copy is q, its variance at most 1 / (4 m^2), and
    a row's weights sum to what they should. "all" leaves out entries below 0.001 / L, together at most 0.1 % of a row,
    which its other classes take over. If scikit-learn's `working_memory` is too small for the copies, fewer are drawn.
    Early stopping must not validate on copies of training rows: with copies, "auto" is switched off and any other
    setting is rejected. HistGradientBoostingClassifier and learners of "epochs" get separate rows for early stopping.
    Estimators that cross-validate internally get folds in which all copies of a row are on the same side.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> from sklearn_uhc import SoftLabelClassifier
    >>> X = np.array([[0.0], [1.0], [2.0], [3.0]])
    >>> Q = np.array([[0.9, 0.1], [0.7, 0.3], [0.4, 0.6], [0.1, 0.9]])
    >>> forest = RandomForestClassifier(random_state=0)
    >>> clf = SoftLabelClassifier(forest, classes=["no", "yes"]).fit(X, Q)
    >>> clf.predict([[0.2], [2.9]]).tolist()
    ['no', 'yes']
    """

    estimator_: Any
    strategy_: str
    classes_: NDArray[Any]
    class_prior_: NDArray[np.float64]

    def __init__(
        self,
        estimator: Any,
        *,
        strategy: str = "auto",
        temperature: float = 1.0,
        classes: Sequence[Any] | NDArray[Any] | None = None,
        copies: int | str = "auto",
        validation_fraction: float = 0.1,
        max_rows: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.estimator = estimator
        self.strategy = strategy
        self.temperature = temperature
        self.classes = classes
        self.copies = copies
        self.validation_fraction = validation_fraction
        self.max_rows = max_rows
        self.random_state = random_state

    @lazily
    def fit(
        self, X: Any, y: Any, sample_weight: Any = None, *, eval_set: Any = None, **fit_params: Any
    ) -> SoftLabelClassifier:
        """Train the estimator.

        Parameters
        ----------
        X : array-like with n rows
            Passed unchanged to the estimator.
        y : array-like of shape (n, L) or (n,)
            Soft labels, whose rows sum to 1, or ordinary labels.
        sample_weight : array-like of shape (n,), default=None
            Row weights.
        eval_set : list of (X, y) pairs, default=None
            Rows and soft labels for early stopping, for boosters and HistGradientBoostingClassifier. Boosters report
            the soft cross-entropy on them.
        **fit_params : dict
            Passed to the estimator's `fit` if metadata routing is enabled.

        Returns
        -------
        self
        """
        number = isinstance(self.temperature, Real) and not isinstance(self.temperature, bool)
        if not (number and 0 < float(self.temperature) < np.inf):
            raise ValueError(f"temperature must be a positive number, got {self.temperature!r}.")
        check_copies(self.copies)
        check_student(self.estimator)
        check_readable(self.estimator, X)
        params = self._route(fit_params)
        sample_weight = check_row_weights(sample_weight, X)
        self.__dict__.pop("lineage_", None)  # it told of an earlier training in a merge
        if not self._is_soft(y):
            return self._fit_hard(X, y, sample_weight, params if eval_set is None else params | {"eval_set": eval_set})
        data = self._check_data(X, y, sample_weight, eval_set)
        self.class_prior_ = np.average(data.Q, axis=0, weights=data.weight)
        try:
            unchanged(as_estimator(self.estimator), lambda X: self._fit_soft(replace(data, X=X), params), data.X)
        except Exception as error:
            add_note(error, f"This came from training the student, {type(self.estimator).__name__}, on soft labels.")
            raise
        return self

    @lazily
    def predict(self, X: Any) -> NDArray[Any]:
        """Return the most probable class of every row.

        Parameters
        ----------
        X : array-like with n rows
            Passed unchanged to the estimator.

        Returns
        -------
        labels : ndarray of shape (n,)
        """
        check_is_fitted(self, "estimator_")
        if self.strategy_ == "hard":
            return unchanged(self.estimator_, self.estimator_.predict, X)
        return self.classes_[self.predict_proba(X).argmax(axis=1)]

    @lazily
    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return class probabilities at temperature 1.

        Parameters
        ----------
        X : array-like with n rows
            Passed unchanged to the estimator.

        Returns
        -------
        proba : ndarray of shape (n, L)
            Columns follow `classes_`. An estimator with only `decision_function` returns the softmax of its scores,
            times a factor learned from the soft labels.
        """
        check_is_fitted(self, "estimator_")
        return unchanged(self.estimator_, self._predict_proba, X)

    def _predict_proba(self, X: Any) -> NDArray[np.float64]:
        if self.strategy_ in ("hard", "pipeline"):
            return np.exp(log_proba(self.estimator_, X, type(self.estimator_).__name__))
        strategy = next(s for s in STRATEGIES if s.name == self.strategy_)
        log_s = strategy.log_answers(self.estimator_, X, self.classes_, self.class_prior_)
        return softmax(self._power * log_s, axis=1)

    @lazily
    def predict_log_proba(self, X: Any) -> NDArray[np.float64]:
        """Return the logarithm of `predict_proba`.

        Parameters
        ----------
        X : array-like with n rows
            Passed unchanged to the estimator.

        Returns
        -------
        log_proba : ndarray of shape (n, L)
        """
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))

    @lazily
    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the accuracy. Soft labels count as their most probable class.

        Parameters
        ----------
        X : array-like with n rows
            Passed unchanged to the estimator.
        y : array-like of shape (n,) or (n, L)
            Labels, or soft labels with the columns seen in `fit`.
        sample_weight : array-like of shape (n,), default=None
            Row weights.

        Returns
        -------
        accuracy : float
        """
        if self._is_soft(y):
            check_is_fitted(self, "estimator_")
            y = columns_like(y, self._columns)[np.asarray(y).argmax(axis=1)]
        return float(super().score(X, y, sample_weight))

    @property
    def n_features_in_(self) -> int:
        """Number of features that the fitted estimator saw."""
        return self.estimator_.n_features_in_

    @property
    def feature_names_in_(self) -> NDArray[Any]:
        """Names of the features that the fitted estimator saw."""
        return self.estimator_.feature_names_in_

    def get_metadata_routing(self) -> MetadataRouter:
        """Return the routing of fit parameters to the estimator.

        Returns
        -------
        routing : MetadataRouter
        """
        mapping = MethodMapping().add(caller="fit", callee="fit")
        return MetadataRouter(owner=self).add_self_request(self).add(estimator=self.estimator, method_mapping=mapping)

    def _route(self, fit_params: dict[str, Any]) -> dict[str, Any]:
        check_routing(fit_params)
        if not fit_params:
            return {}
        return dict(process_routing(self, "fit", **fit_params).estimator.fit)

    def _is_soft(self, y: Any) -> bool:
        """Return whether y has one column per class; a single column is labels, unless `classes` names one class."""
        shape = y.shape if hasattr(y, "shape") else np.asarray(y).shape
        one_class = self.classes is not None and len(self.classes) == 1
        return len(shape) == 2 and (shape[1] > 1 or one_class)

    def _fit_hard(self, X: Any, y: Any, sample_weight: Any, params: dict[str, Any]) -> SoftLabelClassifier:
        if self.classes is not None:
            raise ValueError("classes is for soft labels, but y holds ordinary labels: leave classes at None.")
        estimator = as_estimator(self.estimator)
        if estimator is not self.estimator:  # a bare module has no criterion for hard labels
            return self._fit_one_hot(X, y, sample_weight, params)
        last = estimator.steps[-1] if isinstance(estimator, Pipeline) else ("", estimator)
        if sample_weight is not None and not has_fit_parameter(last[1], "sample_weight"):
            raise TypeError(f"{type(last[1]).__name__}.fit does not accept sample_weight.")
        if sample_weight is not None:
            params[f"{last[0]}__sample_weight" if last[0] else "sample_weight"] = sample_weight
        self.estimator_ = unchanged(estimator, lambda X: clone_student(estimator).fit(X, y, **params), X)
        self.classes_ = self._columns = self.estimator_.classes_
        self.strategy_ = "hard"
        return self

    def _fit_one_hot(self, X: Any, y: Any, sample_weight: Any, params: dict[str, Any]) -> SoftLabelClassifier:
        self.classes_, codes = np.unique(np.asarray(y), return_inverse=True)
        self._columns = self.classes_
        data = self._make_data(X, np.eye(len(self.classes_))[codes], sample_weight)
        self.class_prior_ = data.mean
        self._fit_soft(data, params)
        return self

    def _check_data(self, X: Any, y: Any, sample_weight: Any, eval_set: Any) -> SoftData:
        """Check soft labels, also those for early stopping, and drop rows without weight."""
        self._columns = column_classes(y, self.classes)
        self.classes_ = np.sort(self._columns)
        Q = check_soft_labels(X, y, self._columns)
        pairs = [eval_set] if isinstance(eval_set, tuple) and len(eval_set) == 2 else list(eval_set or [])
        sets = tuple(
            EvalRows(X_val, check_soft_labels(X_val, y_val, columns_like(y_val, self._columns)))
            for X_val, y_val in pairs
        )
        data = self._make_data(X, Q, sample_weight, sets)
        if sample_weight is not None and not sample_weight.all():  # rows without weight must not be neighbours either
            data = data.rows(np.flatnonzero(sample_weight))
        return data

    def _make_data(self, X: Any, Q: NDArray[Any], sample_weight: Any, sets: tuple[EvalRows, ...] = ()) -> SoftData:
        own = self.validation_fraction, self.random_state, float(self.temperature), self.copies
        return SoftData(X, Q, sample_weight, self.classes_, sets, *own)

    def _fit_soft(self, data: SoftData, params: dict[str, Any]) -> None:
        if isinstance(self.estimator, Pipeline):
            self._fit_pipeline(data, params)
            return
        estimator = as_estimator(self.estimator)
        self.estimator_, self.strategy_, self._power = train(clone_student(estimator), data, self.strategy, params)

    def _fit_pipeline(self, data: SoftData, params: dict[str, Any]) -> None:
        """Fit the transformers on X, then the last step on soft labels."""
        head, student = self._take_apart()
        X, sets = data.X, [(rows.X, rows.Q) for rows in data.eval_set]
        if len(head.steps):
            X = head.fit_transform(X, self.classes_[data.Q.argmax(axis=1)])
            sets = [(unchanged(head, head.transform, X_val), Q_val) for X_val, Q_val in sets]
        if sets:
            params = params | {"eval_set": sets}
        student.set_params(classes=self.classes_).fit(X, data.Q, data.weight, **params)
        self._put_together(head, student)

    def _take_apart(self) -> tuple[Pipeline, SoftLabelClassifier]:
        """Return the transformers of a Pipeline, and its last step as a student with the settings of this one."""
        last = self.estimator.steps[-1][1]
        own = {name: getattr(self, name) for name in ("strategy", "copies", "validation_fraction")}
        student = clone(last) if isinstance(last, SoftLabelClassifier) else SoftLabelClassifier(last, **own)
        if student.random_state is None:
            student.set_params(random_state=self.random_state)
        return clone(self.estimator[:-1]), student.set_params(temperature=self.temperature)

    def _put_together(self, head: Pipeline, student: SoftLabelClassifier) -> None:
        self.estimator_ = Pipeline([*head.steps, (self.estimator.steps[-1][0], student)])
        self.strategy_ = "pipeline"

    def fit_to_teachers(self, X: Any, log_p: NDArray[Any], loss: Any) -> SoftLabelClassifier:
        """Train a network by direct backpropagation, or a Pipeline that ends in one.

        Parameters
        ----------
        X : array-like with n rows
            Passed unchanged to the estimator.
        log_p : ndarray of shape (n, K)
            The teachers' answers.
        loss : TeacherLoss
            From `sklearn_uhc.merging.losses`.

        Returns
        -------
        self
        """
        self.check_is_network()
        estimator = as_estimator(self.estimator)
        if isinstance(estimator, Pipeline):
            head, inner = self._take_apart()
            inner.fit_to_teachers(unchanged(head, head.fit_transform, X) if len(head.steps) else X, log_p, loss)
            self._put_together(head, inner)
        else:
            from sklearn_uhc.students.skorch import fit_to_teachers

            self.estimator_ = fit_to_teachers(clone(estimator), X, log_p, loss, self.random_state)
            self.strategy_, self._power = DirectStrategy.name, 1.0
        self.classes_ = self._columns = loss.classes
        self.class_prior_ = np.full(len(self.classes_), 1 / len(self.classes_))
        return self

    def check_is_network(self) -> None:
        """Raise an error if direct backpropagation cannot train the estimator, or the last step of a Pipeline."""
        estimator = as_estimator(self.estimator)
        if isinstance(estimator, Pipeline):
            self._take_apart()[1].check_is_network()
        elif not is_net(estimator):
            raise TypeError(
                f"Direct backpropagation trains networks, and {type(estimator).__name__} is not one. Pass a skorch net "
                "or a torch module (pip install 'sklearn-uhc[torch]'), or backprop=False."
            )

    def __sklearn_clone__(self) -> Any:
        without = copy.copy(self)
        without.estimator = None
        new = super(SoftLabelClassifier, without).__sklearn_clone__()
        new.estimator = clone_student(self.estimator)
        return new

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        wrapped = get_tags(with_tags(self.estimator))
        tags.input_tags = copy.copy(wrapped.input_tags)
        if wrapped.classifier_tags is not None:
            tags.classifier_tags = copy.copy(wrapped.classifier_tags)
            tags.classifier_tags.multi_label = False  # columns of y are the probabilities of one label
        tags.non_deterministic = wrapped.non_deterministic
        return tags


def check_routing(fit_params: dict[str, Any]) -> None:
    """Raise an error for extra fit parameters if metadata routing is not enabled."""
    if fit_params and not get_config()["enable_metadata_routing"]:
        raise ValueError(
            f"fit got {sorted(fit_params)}: extra parameters are passed to the student only with "
            "sklearn.set_config(enable_metadata_routing=True) and its set_fit_request."
        )


def check_student(estimator: Any, strategy: str | None = None) -> None:
    """Raise an error if this is not an estimator or, with a strategy, if it cannot learn from soft labels that way."""
    estimator = as_estimator(estimator)
    if isinstance(estimator, type) or not hasattr(estimator, "fit"):
        raise TypeError(f"The student must be an estimator, such as RandomForestClassifier(), got {estimator!r}.")
    if strategy is None:
        return
    while isinstance(estimator, (Pipeline, SoftLabelClassifier)):
        if isinstance(estimator, SoftLabelClassifier):
            estimator, strategy = estimator.estimator, estimator.strategy
        else:
            estimator = estimator.steps[-1][1]
    estimator = as_estimator(estimator)
    resolve_strategy(estimator, strategy)


def check_readable(estimator: Any, X: Any) -> None:
    """Raise an error if X is a torch Dataset and the student is not a network; steps of a Pipeline may read it."""
    estimator = as_estimator(estimator)
    if is_dataset(X) and not is_net(estimator) and not isinstance(estimator, (Pipeline, SoftLabelClassifier)):
        raise TypeError(
            f"X is a torch Dataset, {type(X).__name__}. Networks can learn from it, but {type(estimator).__name__} "
            "cannot: load its rows into an array first."
        )
