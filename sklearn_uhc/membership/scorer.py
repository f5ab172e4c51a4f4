"""How likely a row belongs to any of a teacher's classes: a small scorer that the teacher's owner sends along."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import FunctionTransformer, MaxAbsScaler, StandardScaler
from sklearn.utils import check_random_state, column_or_1d
from sklearn.utils.validation import _check_feature_names, _check_n_features, check_is_fitted

from sklearn_uhc.membership.scale import auroc, class_offsets, log_scale, own_against_public, public_and_own
from sklearn_uhc.membership.stacking import below, stack_own_and_public
from sklearn_uhc.spaces.class_lists import shorten
from sklearn_uhc.utils.missing import is_missing
from sklearn_uhc.utils.notes import warn_user
from sklearn_uhc.utils.parameters import check_positive
from sklearn_uhc.utils.response import log_proba
from sklearn_uhc.utils.rows import column_names, count_rows, take_columns, take_rows
from sklearn_uhc.utils.versioned import Versioned

__all__ = ["MembershipScorer", "fit_membership"]

#: Number of landmarks of the default's kernel.
N_COMPONENTS = 400


def fit_membership(X_own: Any, X_public: Any, estimator: Any = None, *, y_own: Any = None) -> MembershipScorer:
    """Learn how likely a row belongs to any of the classes that a classifier was trained on.

    For the owner of a classifier, who has its training rows. A classifier answers with confidence even about classes it
    has never seen. The scorer recognises rows of such classes. It contains no training rows except the landmarks of its
    kernel; see `MembershipScorer` for how to avoid these.

    Parameters
    ----------
    X_own : array-like with n_own rows
        Rows that the classifier was trained on, or other rows of the same classes.
    X_public : array-like with n_public rows, of the same form
        Unlabelled rows of many classes, including the own ones, such as the transfer set.
    estimator : classifier with predict_proba, predict_log_proba or decision_function, default=None
        Distinguishes own from public rows; it is cloned. Pass a Pipeline for texts, images or columns that are not
        numbers. None means logistic regression, on the features for sparse matrices, and on the features, with long
        rows shortened, and 400 kernel features for arrays and frames of numbers.
    y_own : array-like of shape (n_own,), default=None
        Classes of the own rows. Pass them: each class is then compared with the public rows and the other classes,
        which is easier than comparing all own rows at once, and a class that is much rarer among own rows than among
        public ones is still recognised.

    Returns
    -------
    scorer : MembershipScorer
        With `predict_membership(X)`.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_digits
    >>> from sklearn_uhc import fit_membership
    >>> X, y = load_digits(return_X_y=True)
    >>> order = np.random.default_rng(0).permutation(len(X))
    >>> train, public, new = np.split(order, [600, 1200])
    >>> own = train[y[train] < 5]
    >>> scorer = fit_membership(X[own], X[public], y_own=y[own])
    >>> d = scorer.predict_membership(X[new])
    >>> bool(d[y[new] < 5].mean() > 0.7), bool(d[y[new] >= 5].mean() < 0.2)
    (True, True)
    """
    return MembershipScorer(estimator).fit(X_own, X_public, y_own)


class MembershipScorer(Versioned, BaseEstimator):
    r"""The probability that a row belongs to the classes of a classifier, learned from own and public rows.

    A classifier of own rows (with total probability p, if it knows their classes) against public ones estimates the
    ratio of their densities,

    .. math:: r(x) = \frac{p(x)}{1 - p(x)} \cdot \frac{n_{public}}{n_{own}}

    r is largest where public rows are of the own classes, and small where they are not. So the membership is
    d(x) = min(1, r(x) / s). The scale s is the one that makes held-out rows most likely: if d is right, a row is an own
    one rather than a public one with odds

    .. math:: n_{own} \; d(x) \; / \sum_{public} d

    With the classes of the own rows, p is a sum over classes. A class whose share of the own rows is not that of the
    public ones has odds that differ from the others' for this reason alone. Where it differs clearly, the class gets
    the scale of its own rows.

    Parameters
    ----------
    estimator : classifier, default=None
        As in `fit_membership`. The default contains up to 400 rows, own or public, as landmarks of its kernel. If own
        rows must not be shared, pass an estimator that contains none, such as a Pipeline that ends in
        `LogisticRegression`.
    background : float, default=1.0
        Number of synthetic rows, as a multiple of the public ones, made by shuffling every column separately among own
        and public rows. They count as public, so that rows unlike both get a low membership. Only for arrays and frames
        of numbers.
    cv : int, default=5
        Folds for the held-out rows.
    random_state : int, RandomState or None, default=0
        Used for folds, landmarks and shuffling.

    Attributes
    ----------
    estimator_ : classifier
        Classifier of own rows (1, or 1, 2, ... by class) against public ones (0), fitted on all rows.
    log_scale_ : float
        Logarithm of the scale of p / (1 - p): rows above it have membership 1.
    class_offsets_ : ndarray of shape (C,)
        By how much the log-probability of each own class is raised first; 0 for classes as frequent among public rows
        as the others, relative to own rows. One 0 without `y_own`.
    auroc_ : float
        Area under the ROC curve of held-out own rows against held-out public ones. It stays below 1 if own classes are
        among the public rows; near 0.5 the scorer has learned nothing.
    n_features_in_ : int
        Number of features, if the rows have any.
    feature_names_in_ : ndarray of str
        Their names, if the rows are in a frame.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn_uhc.membership import MembershipScorer
    >>> X, y = load_iris(return_X_y=True)
    >>> scorer = MembershipScorer().fit(X[:50:2], X[1::2])  # setosa against all three
    >>> scorer.predict_membership(X[[0, 60, 120]]).round(1)
    array([1., 0., 0.])
    """

    def __init__(self, estimator: Any = None, *, background: float = 1.0, cv: int = 5, random_state: Any = 0) -> None:
        self.estimator = estimator
        self.background = background
        self.cv = cv
        self.random_state = random_state

    def fit(self, X_own: Any, X_public: Any, y_own: Any = None) -> MembershipScorer:
        """Learn from own and public rows.

        Parameters
        ----------
        X_own : array-like with n_own rows
            Rows of the own classes.
        X_public : array-like with n_public rows
            Unlabelled rows of many classes.
        y_own : array-like of shape (n_own,), default=None
            Classes of the own rows. None: all count as one class.

        Returns
        -------
        self : MembershipScorer
            Fitted.
        """
        self._check_parameters()
        X, own = stack_own_and_public(X_own, X_public)
        self._check_sizes(own)
        codes = _codes(own, y_own)
        if self.estimator is None:
            _check_numbers(X, own)
        n, rng = len(own), check_random_state(self.random_state)
        X, codes = _with_background(X, codes, int(self.background * (own == 0).sum()), rng)
        estimator = _default(X, rng.randint(2**31), self.cv) if self.estimator is None else self.estimator
        _check_estimator(estimator)
        log_p = _held_out(estimator, X, codes, StratifiedKFold(self.cv, shuffle=True, random_state=rng))[:n]
        fitted = clone(estimator).fit(X, codes)
        offsets = class_offsets(log_p, codes[:n])
        scores = own_against_public(log_p, offsets)
        _check_feature_names(self, X, reset=True)
        if getattr(X, "ndim", 1) == 2:
            _check_n_features(self, X, reset=True)
        self.estimator_, self.log_scale_ = fitted, log_scale(scores[own == 1], scores[own == 0])
        self.class_offsets_ = offsets
        self.auroc_ = auroc(scores[own == 1], scores[own == 0])
        d = np.exp(np.minimum(scores - self.log_scale_, 0.0))
        if self.auroc_ > 0.5 and (d[own == 0] == 1).all():
            warn_user(
                "The scorer takes all held-out public rows for own ones, so it says nothing. Its estimator may be "
                "certain of every row, as single trees and nearest neighbours are: use one with finer probabilities, "
                "or the default."
            )
        if y_own is not None:
            _warn_of_weak_classes(d, codes[:n], np.unique(y_own))
        if self.auroc_ <= 0.5:
            warn_user(
                "The scorer tells held-out own rows from public ones no better than chance (area under the ROC curve "
                f"{self.auroc_:.2f}), so it may say nothing. Public rows should include classes that are not own, and "
                "should not be the own rows themselves."
            )
        return self

    def predict_membership(self, X: Any) -> NDArray[np.float64]:
        """Return the probability that each row belongs to the own classes.

        Parameters
        ----------
        X : array-like with n rows
            New rows. From a frame, the columns seen in `fit` are taken by name.

        Returns
        -------
        d : ndarray of shape (n,)
            Between 0 and 1.
        """
        check_is_fitted(self)
        count_rows(X)
        X = self._own_columns(X)
        if hasattr(self, "n_features_in_"):
            _check_n_features(self, X if hasattr(X, "shape") else np.asarray(X), reset=False)
        scores = own_against_public(_log_proba(self.estimator_, X), self.class_offsets_)
        return np.exp(np.minimum(scores - self.log_scale_, 0.0))

    def _own_columns(self, X: Any) -> Any:
        """Return a frame's columns by name; all columns of an array."""
        names = column_names(X)
        if names is None or not hasattr(self, "feature_names_in_"):
            return X
        wanted = self.feature_names_in_.tolist()
        if missing := [name for name in wanted if name not in names]:
            raise ValueError(f"X lacks the columns {missing[:8]}, which the scorer was fitted on. X has {names[:8]}.")
        return X if wanted == names else take_columns(X, wanted)

    def _check_parameters(self) -> None:
        check_positive("cv", self.cv, integer=True)
        if self.cv < 2:
            raise ValueError(f"cv must be at least 2, so that own rows can be held out, got {self.cv}.")
        if (
            isinstance(self.background, bool)
            or not isinstance(self.background, Real)
            or not 0 <= self.background < np.inf
        ):
            raise ValueError(f"background must be a number of at least 0, got {self.background!r}.")

    def _check_sizes(self, own: NDArray[np.int_]) -> None:
        counts = {"X_own": int(own.sum()), "X_public": int(len(own) - own.sum())}
        least = 2 * int(self.cv)  # so that several are held out at a time
        for name, count in counts.items():
            if count < least:
                raise ValueError(
                    f"{name} has {count} rows, but {least} are needed to hold some out and learn from the rest."
                )


def _check_numbers(X: Any, own: NDArray[np.int_]) -> None:
    """Raise an error that names columns or rows which the default estimator does not accept."""
    if issparse(X) or len(getattr(X, "shape", ())) != 2:
        return
    names = column_names(X)
    columns = [np.asarray(take_columns(X, [name])) for name in names] if names else [np.asarray(X)]
    titles = [f"column {name!r}" for name in names] if names else ["an array of type " + str(columns[0].dtype)]
    if odd := [title for title, values in zip(titles, columns, strict=True) if not _is_numeric(values)]:
        raise ValueError(
            f"The default estimator of memberships accepts numbers only, but the rows have {', '.join(odd[:8])}: pass "
            "estimator=, a Pipeline that encodes them, such as the teacher's own steps with a classifier at the end."
        )
    bad = ~np.isfinite(np.hstack(columns).astype(float)).all(axis=1)
    if bad.any():
        row, n_own = int(np.argmax(bad)), int(own.sum())
        whose, row = ("X_own", row) if row < n_own else ("X_public", row - n_own)
        raise ValueError(
            f"{whose} has NaN or infinity, first in row {row}, which the default estimator of memberships does not "
            "accept: fill them in, or pass estimator=, such as a Pipeline with an imputer."
        )


def _is_numeric(values: NDArray[Any]) -> bool:
    """Return whether all values are numbers, possibly missing, in an array of any type."""
    try:
        values.astype(float)
    except (TypeError, ValueError):
        return False
    return values.dtype.kind not in "US"


def _default(X: Any, random_state: Any, cv: int) -> Any:
    """Return the classifier of own and public rows: logistic regression, on kernel features unless X is sparse."""
    if issparse(X):
        return make_pipeline(MaxAbsScaler(), LogisticRegression(C=10.0, max_iter=1000))
    shape = getattr(X, "shape", None)
    if shape is None:
        kind = type(X[0]).__name__ if len(X) else "nothing"
        raise TypeError(
            f"The default estimator accepts arrays and frames of numbers, not a list of {kind}: pass an estimator that "
            "accepts such rows, for example make_pipeline(TfidfVectorizer(), LogisticRegression())."
        )
    if len(shape) != 2:
        raise ValueError(
            f"The default estimator accepts one row of features per sample, got shape {tuple(shape)}: flatten "
            "it with X.reshape(len(X), -1), or pass a Pipeline that makes features."
        )
    landmarks = min(N_COMPONENTS, shape[0] * (cv - 1) // cv)
    kernel = Nystroem(n_components=landmarks, random_state=random_state)
    linear = FunctionTransformer(bounded_rows, validate=True, feature_names_out="one-to-one")
    both = FeatureUnion([("linear", linear), ("kernel", kernel)])
    return make_pipeline(StandardScaler(), both, LogisticRegression(C=3.0, max_iter=1000, tol=1e-3))


def bounded_rows(X: NDArray[Any]) -> NDArray[np.float64]:
    """Scale standardised rows: typical ones to length 1, like kernel features, and the farthest to less than 1.5.

    Without a bound, the linear part alone would decide about rows far from own and public ones.
    """
    return X / np.sqrt(0.5 * (X.shape[1] + (X**2).sum(axis=1, keepdims=True)))


def _codes(own: NDArray[np.int_], y_own: Any) -> NDArray[np.int_]:
    """Return 0 for public rows and 1, or 1, 2, ... by class, for own ones."""
    if y_own is None:
        return own
    y = column_or_1d(y_own)
    if len(y) != own.sum():
        raise ValueError(f"y_own has {len(y)} labels for {own.sum()} rows of X_own.")
    if len(missing := np.flatnonzero(is_missing(y) if y.dtype.kind in "fO" else np.zeros(len(y)))):
        raise ValueError(
            f"y_own has no label for {len(missing)} rows, the first of them row {missing[0]}: leave these rows out of "
            "X_own and y_own, or fit without y_own."
        )
    codes = own.copy()
    codes[own == 1] = np.unique(y, return_inverse=True)[1] + 1
    return codes


def _check_estimator(estimator: Any) -> None:
    if isinstance(estimator, type) or not hasattr(estimator, "fit") or not hasattr(estimator, "get_params"):
        hint = " Pass the classes of the own rows as y_own=." if isinstance(estimator, (list, np.ndarray)) else ""
        raise TypeError(f"estimator must be a scikit-learn classifier, not fitted yet, got {estimator!r:.200}.{hint}")
    if not any(hasattr(estimator, name) for name in ("predict_log_proba", "predict_proba", "decision_function")):
        raise TypeError(f"estimator cannot score rows: {estimator!r} has no predict_proba.")


def _held_out(estimator: Any, X: Any, codes: NDArray[np.int_], folds: StratifiedKFold) -> NDArray[np.float64]:
    """Return out-of-fold log-probabilities of public rows and of every own class, (n, 1 + C)."""
    out = np.full((len(codes), codes.max() + 1), -np.inf)
    for train, test in folds.split(np.zeros(len(codes)), np.minimum(codes, 1)):
        fitted = clone(estimator).fit(take_rows(X, train), codes[train])
        out[np.ix_(test, np.unique(codes[train]))] = _log_proba(fitted, take_rows(X, test))
    return out


def _log_proba(fitted: Any, X: Any) -> NDArray[np.float64]:
    return log_proba(fitted, X, "the estimator of membership").astype(float)


def _warn_of_weak_classes(d: NDArray[np.float64], codes: NDArray[np.int_], names: NDArray[Any]) -> None:
    """Warn of own classes whose held-out rows have no higher membership d (n,) than public rows."""
    weak = [name for c, name in enumerate(names.tolist(), start=1) if d[codes == c].mean() <= d[codes == 0].mean()]
    if weak:
        warn_user(
            f"The scorer hardly recognises held-out own rows of the classes {shorten(weak)}: in a merge they may be "
            "taken for foreign rows. Give it more own rows of these classes."
        )


class OwnOrPublic(ClassifierMixin, BaseEstimator):
    """A scorer's fitted classifier as one of two classes, public (False) or own (True): own classes are added up.

    Parameters
    ----------
    estimator_ : classifier
        Of public rows (0) and own rows (1, 2, ... by class), fitted.
    offsets : float or array of shape (C,), default=0.0
        Logarithms of the factors of the own classes.
    """

    classes_ = np.array([False, True])

    def __init__(self, estimator_: Any, offsets: Any = 0.0) -> None:
        self.estimator_ = estimator_
        self.offsets = offsets

    def predict_log_proba(self, X: Any) -> NDArray[np.float64]:
        """Return log-probabilities of public and own, (n, 2)."""
        return public_and_own(_log_proba(self.estimator_, X), self.offsets)

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return the probabilities of public and own, (n, 2)."""
        return np.asarray(np.exp(self.predict_log_proba(X)))


def _with_background(
    X: Any, codes: NDArray[np.int_], n: int, rng: np.random.RandomState
) -> tuple[Any, NDArray[np.int_]]:
    """Add n rows with each feature taken from a random row, if all features are numbers."""
    if n == 0 or issparse(X) or getattr(X, "ndim", len(getattr(X, "shape", ()))) != 2:
        return X, codes
    values = np.asarray(X)
    if values.dtype.kind not in "iuf":
        return X, codes
    shuffled = np.take_along_axis(values, rng.randint(len(values), size=(n, values.shape[1])), axis=0)
    labels = np.concatenate([codes, np.zeros(n, dtype=codes.dtype)])
    names = column_names(X)
    if names is None:
        return np.concatenate([values, shuffled]), labels
    made = type(X)({name: shuffled[:, k] for k, name in enumerate(names)})
    if hasattr(made, "iloc"):
        made = made.astype(X.dtypes.to_dict())
    return below(X, made), labels
