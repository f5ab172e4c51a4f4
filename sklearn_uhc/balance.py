"""Balanced soft labels: classes that are rare in the transfer set count as much as the others.

The paper weights the student's cross-entropy by w_l = 1 / (mean of q_l over the transfer set). For any learner,

    - sum_l w_l q_l log s_l  =  W * ( - sum_l t_l log s_l ),     W = sum_l w_l q_l,   t_l = w_l q_l / W

so weighted soft labels are ordinary soft labels t with sample weight W.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sklearn_uhc.answers import Answers, to_numpy
from sklearn_uhc.frequencies import UNEVEN, class_frequencies, evenness_of
from sklearn_uhc.label_space import LabelSpace, shorten
from sklearn_uhc.utils.rows import in_range

__all__ = ["balanced_targets", "class_weights"]

#: A class is called rare if its frequency is below this share of 1 / L.
RARE = 0.5
#: Frequencies are estimated only if merged labels are less even than this.
DOUBTFUL = 0.93
#: Smallest mean soft label of a class; smaller ones are raised to it, so that no weight is infinite.
MIN_MEAN = 1e-6


def check_balance(balance: Any) -> None:
    """Raise an error unless `balance` is True, False or "auto"."""
    if not (isinstance(balance, (bool, np.bool_)) or (isinstance(balance, str) and balance == "auto")):
        raise ValueError(f'balance must be True, False or "auto", got {balance!r}.')


class Decision(NamedTuple):
    """Whether to balance, why, and to which frequencies."""

    balances: bool
    why: str
    frequencies: NDArray[np.float64] | None = None  #: of the classes, "none of these" aside; None: equal frequencies

    @property
    def serves(self) -> str:
        """Return which future rows are assumed: "like these", of "equal" frequencies, or, if not balanced, "merged"."""
        if not self.balances:
            return "merged"
        return "equal" if self.frequencies is None else "like these"

    def weigh(self, class_weight: NDArray[Any], temperature: float = 1.0) -> NDArray[Any]:
        """Return the class weights for these frequencies, given those for equal ones."""
        if self.frequencies is None:
            return class_weight
        ratio = self.frequencies * len(self.frequencies)
        return np.asarray(class_weight * ratio ** (1 / temperature))  # soft labels are tempered, and so are ratios


def look_for_skew(
    answers: Answers, space: LabelSpace, Q: Any, temperature: float, sample_weight: NDArray[Any] | None = None
) -> NDArray[np.float64] | None:
    """Return the frequencies of the classes that teachers name, if merged labels Q are uneven, else None.

    Also None if they cannot be estimated. "None of these" is not among them, and rows count by the probability that
    they are of a named class. `space` is that of the teachers, without memberships.
    """
    if space.is_shared:
        return None
    P = untempered(to_numpy(Q), temperature)
    weights = answers.heard * (1.0 if sample_weight is None else np.asarray(sample_weight))  # silence is even
    named = space.named.any(axis=0)
    known = np.isin(answers.space.classes, space.classes[named])
    mass = P[:, known].sum(axis=1)
    inside, weights = P[:, known] / np.maximum(mass, MIN_MEAN)[:, None], weights * mass
    if not weights.any() or evenness(inside, sample_weight=weights) >= DOUBTFUL:
        return None
    found = class_frequencies(answers, space, P if named.sum() < space.n_classes else inside, weights)
    return found if found is None else found[named] / found[named].sum()


def decide_balance(
    balance: bool | str,
    space: LabelSpace,
    n: int,
    frequencies: NDArray[np.float64] | None = None,
    of_labels: NDArray[np.float64] | None = None,
) -> Decision:
    """Decide how to balance soft labels of n rows.

    "auto" balances unless all teachers share one class list (as in the paper's two tables), or there are fewer rows
    than classes, too few to tell how frequent classes are. If the rows themselves seem to have uneven classes, it
    balances to the estimated frequencies instead of equal ones, which would predict rare classes as often as the
    others: future rows are assumed to be like these. Labels of some rows show how frequent classes are, and then
    balance follows their frequencies, `of_labels`.
    """
    if not isinstance(balance, str):
        return Decision(bool(balance), f"balance={bool(balance)}")
    if space.is_shared:
        return Decision(False, "all teachers know the same classes")
    if n < space.n_classes:
        return Decision(False, f"{n} rows are fewer than {space.n_classes} classes")
    if of_labels is not None:
        return Decision(True, "to the frequencies of the labels", of_labels)
    if frequencies is None:
        return Decision(True, "no sign that some are rare in these rows")
    even = evenness_of(frequencies)
    if even >= UNEVEN:
        return Decision(True, f"no sign that some are rare in these rows (evenness {even:.2f})")
    order = np.argsort(frequencies)
    rare = order[: max(1, np.count_nonzero(frequencies < RARE / len(frequencies)))]
    classes = space.classes[space.named.any(axis=0)]
    names = shorten([f"{classes[k]} ({frequencies[k]:.1%})" for k in rare])
    return Decision(True, f"to their estimated frequencies, as some seem rare: {names}", frequencies)


def tell_balance(decided: Decision, verbose: int) -> None:
    """Print the decision and its reason."""
    if verbose:
        print(f"{'Balancing' if decided.balances else 'Not balancing'} the classes: {decided.why}")


def evenness(Q: NDArray[Any], temperature: float = 1.0, sample_weight: NDArray[Any] | None = None) -> float:
    """Return how evenly soft labels are spread over the classes: 1 if all are as frequent, 1 / L if there is one only.

    The number of classes that count, exp(entropy of the mean soft label at temperature 1), divided by L.

    Parameters
    ----------
    Q : ndarray of shape (n, L)
        Soft labels, rows on the simplex.
    temperature : float, default=1.0
        That of the soft labels.
    sample_weight : ndarray of shape (n,), default=None
        Weights of the rows in the mean.

    Returns
    -------
    evenness : float

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_uhc.balance import evenness
    >>> evenness(np.array([[0.9, 0.1], [0.1, 0.9]]))
    1.0
    >>> round(evenness(np.array([[0.9, 0.1], [0.8, 0.2]])), 2)
    0.76
    """
    weights = None if sample_weight is None else in_range(np.asarray(sample_weight, dtype=float))
    return evenness_of(np.average(untempered(Q, temperature), axis=0, weights=weights))


def untempered(Q: NDArray[Any], temperature: float) -> NDArray[np.float64]:
    """Return soft labels at temperature 1."""
    P = np.asarray(Q, dtype=float)
    if temperature == 1:
        return P
    P = (P / P.max(axis=1, keepdims=True)) ** temperature
    return np.asarray(P / P.sum(axis=1, keepdims=True))


def heard_weights(answers: Answers, sample_weight: NDArray[Any] | None, labels: Any = None) -> NDArray[Any] | None:
    """Set the weight of rows without any answer to 0, unless they have a label."""
    heard = answers.heard
    if labels is not None:
        heard[labels.rows] = True
    if heard.all():
        return sample_weight
    weights = heard * (1.0 if sample_weight is None else sample_weight)
    if not weights.any():
        raise ValueError(
            "No teacher answers for any row whose sample_weight is above zero: there is nothing to learn from."
        )
    return weights


def class_weights(Q: NDArray[Any], sample_weight: NDArray[Any] | None = None) -> NDArray[np.float64]:
    """Return the paper's class weights.

    Parameters
    ----------
    Q : ndarray of shape (n, L)
        Soft labels, rows on the simplex.
    sample_weight : ndarray of shape (n,), default=None
        Weights of the rows in the mean.

    Returns
    -------
    class_weight : ndarray of shape (L,)
        1 / mean of q, at most 1e6.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_uhc.balance import class_weights
    >>> class_weights(np.array([[0.9, 0.1], [0.7, 0.3]]))
    array([1.25, 5.  ])
    """
    weights = None if sample_weight is None else in_range(np.asarray(sample_weight, dtype=float))
    return 1.0 / np.maximum(np.average(Q, axis=0, weights=weights), MIN_MEAN)


def balanced_targets(
    Q: NDArray[Any], class_weight: NDArray[Any], sample_weight: NDArray[Any] | None = None
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return targets and sample weights whose plain cross-entropy is the class-weighted one.

    Parameters
    ----------
    Q : ndarray of shape (n, L)
        Soft labels, rows on the simplex.
    class_weight : ndarray of shape (L,)
        Weight of every class in the loss.
    sample_weight : ndarray of shape (n,), default=None
        Weights of the rows, multiplied in.

    Returns
    -------
    targets : ndarray of shape (n, L)
        w * q, normalised.
    sample_weight : ndarray of shape (n,)
        The sums of w * q, scaled to mean 1 (or to the mean of the weights given). A common factor does not change the
        minimiser of the loss, but would change the relative strength of a student's regularisation. Weights of extreme
        size, above 1e100 or all below 1e-100, are divided by the largest.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_uhc.balance import balanced_targets
    >>> balanced_targets(np.array([[0.8, 0.2], [0.8, 0.2]]), np.array([1.0, 4.0]))
    (array([[0.5, 0.5], [0.5, 0.5]]), array([1., 1.]))
    """
    weighted = np.asarray(Q, dtype=float) * in_range(np.asarray(class_weight, dtype=float))
    total = weighted.sum(axis=1)
    targets = weighted / total[:, None]
    rows = np.ones(len(Q)) if sample_weight is None else in_range(np.asarray(sample_weight, dtype=float))
    weights = rows * total
    return targets, weights * (rows.sum() / weights.sum())
