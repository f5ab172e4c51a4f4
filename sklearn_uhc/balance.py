"""Balanced soft labels: classes that the transfer set rarely shows count as much as the others.

The paper weights the student's cross-entropy by w_l = 1 / (mean of q_l over the transfer set). For any learner,

    - sum_l w_l q_l log s_l  =  W * ( - sum_l t_l log s_l ),     W = sum_l w_l q_l,   t_l = w_l q_l / W

so weighted soft labels are ordinary soft labels t with sample weight W.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sklearn_uhc.answers import Answers, to_numpy
from sklearn_uhc.label_space import LabelSpace, shorten
from sklearn_uhc.utils.rows import in_range

__all__ = ["balanced_targets", "class_weights"]

#: Class weights of a skewed transfer set are raised to this power by "auto".
SKEWED_POWER = 0.5
#: It takes a transfer set for skewed if its merged labels are less even than this, ...
UNEVEN = 0.85
#: ... at least this share of the classes is rare, which is to say that one of its teachers names it for less than this
#: part of n / L rows, ...
RARE_CLASSES, RARE = 0.1, 0.5
#: ... and there are enough rows to tell.
ROWS_PER_CLASS = 20
#: A class whose mean soft label is smaller is treated as if it had this one: no weight is infinite.
MIN_MEAN = 1e-6


def check_balance(balance: Any) -> None:
    """Raise unless `balance` is True, False or "auto"."""
    if not (isinstance(balance, (bool, np.bool_)) or (isinstance(balance, str) and balance == "auto")):
        raise ValueError(f'balance must be True, False or "auto", got {balance!r}.')


class Decision(NamedTuple):
    """How much to balance, and why."""

    power: float  #: that the class weights are raised to; 0: no balance
    why: str


class Skew(NamedTuple):
    """Signs that the transfer set itself shows some classes rarely."""

    evenness: float  #: of the merged labels
    rare: NDArray[np.bool_]  #: (L,), see `rare_classes`
    n: int  #: rows that count


def measure_skew(
    answers: Answers, space: LabelSpace, Q: Any, temperature: float, sample_weight: NDArray[Any] | None = None
) -> Skew:
    """Measure answers and their merged labels Q; `space` is the teachers', without memberships."""
    n = len(answers) if sample_weight is None else int(np.count_nonzero(sample_weight))
    even = evenness(to_numpy(Q), temperature, sample_weight)
    return Skew(even, rare_classes(answers, space, sample_weight), n)


def decide_balance(balance: bool | str, space: LabelSpace, n: int, skew: Skew, labelled: bool = False) -> Decision:
    """Decide how much to balance soft labels of n rows.

    "auto" balances unless all teachers share one class list (the paper's two tables), or there are fewer rows than
    classes, which say nothing about how often a class is meant. Where the transfer set itself seems skewed, it goes
    half the way: full balance would predict rare classes as often as the others, none would leave the merge's own bias
    as it is. Labels of some rows tell how frequent classes are, and balance follows them.
    """
    if not isinstance(balance, str):
        return Decision(float(balance), f"balance={bool(balance)}")
    if space.is_shared:
        return Decision(0.0, "all teachers know the same classes")
    if n < space.n_classes:
        return Decision(0.0, f"{n} rows are fewer than {space.n_classes} classes")
    if labelled:
        return Decision(1.0, "to the frequencies of the labels")
    enough = skew.n >= ROWS_PER_CLASS * space.n_classes
    if enough and skew.evenness < UNEVEN and skew.rare.mean() >= RARE_CLASSES:
        names = shorten(space.classes[skew.rare].tolist())
        return Decision(SKEWED_POWER, f"some seem to be rare in these rows, {names}")
    return Decision(1.0, f"no sign that some are rare in these rows (evenness {skew.evenness:.2f})")


def tell_balance(decided: Decision, verbose: int) -> None:
    """Print what was decided, and why."""
    if verbose:
        how = {0.0: "Not balancing", 1.0: "Balancing"}.get(decided.power, "Partly balancing")
        print(f"{how} the classes: {decided.why}")


def rare_classes(answers: Answers, space: LabelSpace, sample_weight: NDArray[Any] | None = None) -> NDArray[np.bool_]:
    """(L,): whether a teacher names the class for less than half of its fair share of the rows, n / L.

    Rows of classes that a teacher does not know can only add to what it names. So a class that is as frequent as the
    others is named for its fair share at least, unless the teacher misses most of it; what *merged* labels rarely show
    may as well be the merge's own bias, which balance is there to undo.
    """
    least = np.full(space.n_classes, np.inf)
    counts = answers.speaking * (1.0 if sample_weight is None else in_range(np.asarray(sample_weight))[:, None])
    for i, block in enumerate(space.blocks):  # scorers of memberships come after the teachers
        columns, classes = space.singles(i)
        rows = np.flatnonzero(counts[:, i])
        if len(rows):
            named, weight = to_numpy(answers.log_p[:, block])[rows].argmax(axis=1), counts[rows, i]
            share = np.bincount(named, weight, minlength=block.stop - block.start) / weight.sum()
            least[classes] = np.minimum(least[classes], share[columns - block.start])
    return least < RARE / space.n_classes


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
    P = np.asarray(Q, dtype=float)
    if temperature != 1:
        P = (P / P.max(axis=1, keepdims=True)) ** temperature
        P /= P.sum(axis=1, keepdims=True)
    mean = np.average(P, axis=0, weights=weights)
    return float(np.exp(-np.sum(mean * np.log(np.maximum(mean, np.finfo(float).tiny)))) / len(mean))


def heard_weights(answers: Answers, sample_weight: NDArray[Any] | None, labels: Any = None) -> NDArray[Any] | None:
    """Take the weight from rows for which no teacher answers, unless they have a label."""
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
