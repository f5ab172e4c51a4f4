"""A search over settings without labels: candidates are compared with teachers that were held out."""

from __future__ import annotations

import copy
import time
import warnings
from collections.abc import Callable, Sequence
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.exceptions import NotFittedError
from sklearn.utils import get_tags
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import check_is_fitted

from sklearn_uhc.estimators.diagram import DiagramBlock
from sklearn_uhc.estimators.search.candidates import (
    Candidate,
    check_networks,
    make_candidates,
    read_all,
    split_estimator,
)
from sklearn_uhc.estimators.search.folds import Fold, make_folds
from sklearn_uhc.estimators.search.judge import judge
from sklearn_uhc.estimators.search.reading import Reading, find_teachers, weights_of, without_teachers
from sklearn_uhc.estimators.search.results import results_table
from sklearn_uhc.estimators.search.trial import Trial, report_failures, rows_to_judge, try_candidate
from sklearn_uhc.utils.fitting import all_or_nothing
from sklearn_uhc.utils.lazy import leaf_of
from sklearn_uhc.utils.versioned import Versioned

__all__ = ["TeacherHoldoutSearch"]


class TeacherHoldoutSearch(Versioned, ClassifierMixin, MetaEstimatorMixin, BaseEstimator):
    """Search over settings of a merge without labels, by holding teachers out.

    For every fold of teachers and every candidate, the other teachers are merged and a student is trained. On rows
    that it was not trained on, it is compared with the held-out teachers: how often does it choose their class, among
    all classes? Rows are weighted by how likely they belong to the classes that both know. The candidate with the best
    mean over the teachers is fitted again with all of them.

    The interface is that of `GridSearchCV`, but teachers are split instead of rows. Teachers are called once for all
    candidates and folds.

    Parameters
    ----------
    estimator : HeterogeneousDistiller or UnifiedEnsemble
        Or a Pipeline that ends in one. It needs at least three teachers.
    param_grid : dict, list of dicts or iterable of candidates
        As in `GridSearchCV`. For a random search pass a `ParameterSampler`. Searching over teachers and class lists is
        not possible.
    folds : int or list of groups of teachers, default=None
        Number of groups of teachers that are held out in turn. The cost is one fit per candidate and group. None: every
        teacher by itself, up to 10 groups. A list names the teachers, by name or number, that are held out together,
        such as models of one vendor; teachers in no group are never held out.
    n_jobs : int, default=None
        Number of fits at the same time.
    refit : bool or callable, default=True
        Whether to fit the best candidate with all teachers and rows. A callable gets `cv_results_` and returns the
        index of the candidate to fit.
    error_score : "raise" or float, default=np.nan
        Score of a candidate whose fit fails, with a warning. "raise" raises the error.
    verbose : int, default=0
        1 prints the number of fits; higher values show progress.

    Attributes
    ----------
    best_estimator_ : estimator
        Fitted with the best settings, all teachers and all rows.
    best_params_ : dict
        The best settings.
    best_score_ : float
        Their mean share of right answers, between 0 and 1. Use it to compare candidates: held-out teachers make errors
        themselves, so it is not an estimate of the accuracy.
    best_index_ : int
        Index of the best candidate in `cv_results_`.
    cv_results_ : dict
        As in `GridSearchCV`; `split0_test_score`, ... belong to one held-out teacher each.
    held_out_ : list of str
        The held-out teacher of every split. With fewer folds than teachers, those of a fold are left out together, in
        one fit, and have a split each.
    n_splits_ : int
        Number of teachers that candidates are compared with. Teachers that do not share two classes with the others,
        or whose classes seem to have no rows, are left out.
    refit_time_ : float
        Duration of the last fit in seconds.
    classes_ : ndarray of shape (L,)
        Classes of the best estimator.

    See Also
    --------
    teacher_agreement : A score of one fitted merge with its own teachers.

    Notes
    -----
    Use it to choose the student. Leave method and temperature at their defaults, and the balance too if some classes
    are rare: `docs/evidence.md` has the measurements. If you have labelled rows, use `GridSearchCV` and
    `fit(X, y)`.

    Warnings of the fits without some teachers are not shown; those of the final fit are.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.neighbors import KNeighborsClassifier
    >>> from sklearn_uhc import HeterogeneousDistiller, TeacherHoldoutSearch
    >>> X, y = load_digits(return_X_y=True)
    >>> lists = [[0, 1, 2, 3, 4], [3, 4, 5, 6, 7], [6, 7, 8, 9, 0], [9, 1, 2, 5, 8]]
    >>> own = [np.flatnonzero(np.isin(y[:600], known)) for known in lists]
    >>> teachers = [LogisticRegression(max_iter=1000).fit(X[rows], y[rows]) for rows in own]
    >>> clf = HeterogeneousDistiller(teachers, KNeighborsClassifier())
    >>> search = TeacherHoldoutSearch(clf, {"student__n_neighbors": [5, 100]}).fit(X[600:1000])
    >>> search.best_params_
    {'student__n_neighbors': 5}
    >>> search.predict(X[1000:1003]).shape
    (3,)
    """

    best_estimator_: Any
    cv_results_: dict[str, Any]

    def __init__(
        self,
        estimator: Any,
        param_grid: Any,
        *,
        folds: int | Sequence[Any] | None = None,
        n_jobs: int | None = None,
        refit: bool | Callable[[dict[str, Any]], int] = True,
        error_score: float | str = np.nan,
        verbose: int = 0,
    ) -> None:
        self.estimator = estimator
        self.param_grid = param_grid
        self.folds = folds
        self.n_jobs = n_jobs
        self.refit = refit
        self.error_score = error_score
        self.verbose = verbose

    @all_or_nothing
    def fit(self, X: Any, y: Any = None, *, log_p: Any = None) -> TeacherHoldoutSearch:
        """Compare all candidates on unlabelled rows, and fit the best.

        Parameters
        ----------
        X : array-like with n rows
            The unlabelled rows (transfer set).
        y : array-like of shape (n,), default=None
            Labels for the `fit` of the best candidate. They are not used for the comparison.
        log_p : array-like of shape (n, K), default=None
            The teachers' answers on X, if you have computed them already. No teacher is called.

        Returns
        -------
        self
        """
        self._check_parameters()
        if leaf_of(X) is not None:
            raise TypeError(
                f"X is a lazy {type(X).__name__}: a search needs rows in memory, and a sample of a few "
                "thousand is enough. Then fit the estimator with best_params_ to all of X."
            )
        self.__dict__.pop("best_estimator_", None)  # from an earlier fit
        parallel = Parallel(n_jobs=self.n_jobs, verbose=max(0, int(self.verbose) - 1))
        merged = split_estimator(self.estimator)[1]
        merger = merged.make_merger()
        roster, space = find_teachers(merger, log_p)
        candidates = make_candidates(self.estimator, self.param_grid, space)
        folds = make_folds(space, self.folds)
        check_networks(candidates, folds, space)
        readings = read_all(candidates, roster, space, X, log_p)
        rows = [rows_to_judge(X, k, hasattr(merged, "student")) for k in range(len(folds))]
        trials = self._try_all(parallel, candidates, readings, folds, rows)
        report_failures(trials)
        judged = judge(readings[candidates[0].key], folds, rows, trials, weights_of(merger))
        times = np.array([[(trial.fit_time, trial.score_time) for trial in row] for row in trials])
        scores = np.where(np.isnan(judged.scores), self._score_of_failures(), judged.scores)
        params = [candidate.params for candidate in candidates]
        self.cv_results_ = results_table(params, scores, judged.weights, times[..., 0], times[..., 1])
        self.held_out_ = [space.teacher_names[i] for i in judged.teachers]
        self.n_splits_, self.multimetric_ = len(self.held_out_), False
        self._choose()
        if self.refit is not False:
            best = candidates[self.best_index_]
            self._fit_best(best, readings[best.key], y)
        return self

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the most probable class of every row, by the best estimator.

        Parameters
        ----------
        X : array-like with n rows
            New data, of the kind given to `fit`.

        Returns
        -------
        labels : ndarray of shape (n,)
        """
        return np.asarray(self._best().predict(X))

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return the class probabilities of the best estimator.

        Parameters
        ----------
        X : array-like with n rows
            New data, of the kind given to `fit`.

        Returns
        -------
        proba : ndarray of shape (n, L)
            Columns follow `classes_`.
        """
        return np.asarray(self._best().predict_proba(X))

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
        return np.asarray(self._best().predict_log_proba(X))

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Return the score of the best estimator: its accuracy, or without y its agreement with the teachers.

        Parameters
        ----------
        X : array-like with n rows
            Data to score on.
        y : array-like of shape (n,), default=None
            True labels.
        sample_weight : array-like of shape (n,), default=None
            Row weights.

        Returns
        -------
        score : float
        """
        return float(self._best().score(X, y, sample_weight=sample_weight))

    @property
    def classes_(self) -> NDArray[Any]:
        """Classes of the best estimator."""
        return np.asarray(self._learnt("classes_"))

    @property
    def n_features_in_(self) -> int:
        """Number of features, if X is two-dimensional."""
        return int(self._learnt("n_features_in_"))

    @property
    def feature_names_in_(self) -> NDArray[Any]:
        """Names of the columns, if X has them."""
        return np.asarray(self._learnt("feature_names_in_"))

    def _learnt(self, name: str) -> Any:
        """Return an attribute of the best estimator; raise AttributeError if there is none."""
        if not hasattr(self, "best_estimator_"):
            raise AttributeError(f"{type(self).__name__} has no {name} before fit, or with refit=False.")
        return getattr(self.best_estimator_, name)

    def _best(self) -> Any:
        if hasattr(self, "cv_results_") and self.refit is False:
            raise NotFittedError(
                "With refit=False there is no fitted estimator: use refit=True, or fit one with best_params_."
            )
        check_is_fitted(self, "best_estimator_")
        return self.best_estimator_

    def get_metadata_routing(self) -> MetadataRouter:
        """Return the routing of metadata: none is taken.

        Returns
        -------
        routing : MetadataRouter
        """
        mapping = MethodMapping().add(caller="fit", callee="fit")
        return MetadataRouter(owner=self).add(estimator=self.estimator, method_mapping=mapping)

    def _check_parameters(self) -> None:
        number = isinstance(self.error_score, Real) and not isinstance(self.error_score, bool)
        if not number and not (isinstance(self.error_score, str) and self.error_score == "raise"):
            raise ValueError(f'error_score must be a number or "raise", got {self.error_score!r}.')
        if not isinstance(self.refit, (bool, np.bool_)) and not callable(self.refit):
            raise ValueError(f"refit must be True, False or a callable, got {self.refit!r}.")

    def _score_of_failures(self) -> float:
        return np.nan if isinstance(self.error_score, str) else float(self.error_score)

    def _try_all(
        self,
        parallel: Parallel,
        candidates: list[Candidate],
        readings: dict[Any, Reading],
        folds: list[Fold],
        rows: list[Any],
    ) -> list[list[Trial]]:
        """Fit every candidate without each fold of teachers; return the trials by candidate."""
        if self.verbose:
            total = len(candidates) * len(folds)
            print(f"Fitting {len(folds)} folds for each of {len(candidates)} candidates, totalling {total} fits")
        raises = isinstance(self.error_score, str)
        light = {key: reading.for_trials() for key, reading in readings.items()}
        done = parallel(
            delayed(try_candidate)(
                without_teachers(c.merged, fold, light[c.key].answers.space), light[c.key], fold, rows[k], raises
            )
            for c in candidates
            for k, fold in enumerate(folds)
        )
        return [done[first : first + len(folds)] for first in range(0, len(done), len(folds))]

    def _choose(self) -> None:
        """Set the best settings; in a tie, the first."""
        chosen = self.refit(self.cv_results_) if callable(self.refit) else self.cv_results_["rank_test_score"].argmin()
        if not 0 <= int(chosen) < len(self.cv_results_["params"]):
            raise IndexError(f"refit chose candidate {chosen!r} of {len(self.cv_results_['params'])}.")
        self.best_index_ = int(chosen)
        self.best_params_ = self.cv_results_["params"][self.best_index_]
        self.best_score_ = float(self.cv_results_["mean_test_score"][self.best_index_])

    def _fit_best(self, best: Candidate, reading: Reading, y: Any) -> None:
        """Fit the best candidate with all teachers, to the answers already read."""
        start = time.perf_counter()
        estimator = clone(best.estimator)
        before, merged = split_estimator(estimator)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", r"class_lists\[")  # said when the search began
            merged.fit(reading.X, y, log_p=reading.answers)
        merged.merger_.teacher_outputs_ = reading.outputs  # so that it can call the teachers again
        if before is not None:
            estimator.steps[:-1] = reading.before.steps
        self.best_estimator_, self.refit_time_ = estimator, time.perf_counter() - start

    def _sk_visual_block_(self) -> DiagramBlock:
        key = "best_estimator_" if hasattr(self, "best_estimator_") else "estimator"
        shown = getattr(self, key)
        return DiagramBlock("parallel", [shown], [f"{key}: {type(shown).__name__}"], [str(shown)])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags = copy.copy(get_tags(self.estimator).input_tags)
        tags.target_tags.required = False
        return tags
