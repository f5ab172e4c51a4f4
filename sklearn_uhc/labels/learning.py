"""Use labels of some rows to improve a merge.

Three sources on every row are pooled: the merge itself; a classifier of the teachers' answers, trained on labelled
rows, which learns what an answer means for classes that the teacher does not know; and a classifier of X, trained on
the same rows. If the labels are a random sample, two more are the same for all rows: that all classes are equally
frequent, and that classes without a label do not occur. The weights are learned by cross-validation on the labelled
rows (`labels/pool.py`). Without evidence only the merge counts, with the class frequencies that it finds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from array_api_compat import array_namespace, device, is_torch_array
from numpy.typing import NDArray
from scipy.special import softmax
from sklearn.linear_model import LogisticRegression

from sklearn_uhc.answers import Answers, to_numpy
from sklearn_uhc.labels import Labels, Pool, fit_pool
from sklearn_uhc.labels.experts import Expert, fold_of_rows, out_of_fold, train_expert
from sklearn_uhc.labels.pool import DOUBTS, best_doubt, by_groups, doubted
from sklearn_uhc.labels.reading import MOST_ROWS
from sklearn_uhc.labels.sampling import Sample, read_sample
from sklearn_uhc.labels.scaling import Scaling, fit_scaling, is_matrix
from sklearn_uhc.spaces.label_space import LabelSpace
from sklearn_uhc.utils.notes import warn_user
from sklearn_uhc.utils.rows import chunks, some_rows, take_rows
from sklearn_uhc.utils.simplex import sharpen

#: Regularisation of the classifier of answers (C): there are about as many columns as labelled rows. Choosing it by
#: cross-validation, as once, gained .1 points.
STRENGTH = 0.01
#: Share of a labelled row's soft label that is spread evenly over all classes; what is left of a class without labels
#: in the source that it does not occur; the smallest probability for the classifier of answers.
DOUBT = DOUBTS[-1]
LEAST_LOG_P = float(np.log(DOUBT))


class NoneOfThese(NamedTuple):
    """How the probability of "none of these" is divided among it and the classes that only labels have."""

    place: int  #: of "none of these" among all classes
    shares: NDArray[np.float64]  #: (L,), 0 for classes that teachers know

    @classmethod
    def of(cls, labels: Labels, codes: NDArray[np.int_], weight: NDArray[Any], none_label: Any) -> NoneOfThese:
        """Divide by the labelled rows of these classes, and one more of "none of these"."""
        place = labels.classes.tolist().index(none_label)
        counts = np.bincount(codes, weight / weight.mean(), minlength=len(labels.classes))
        counts[place] += 1.0
        counts *= labels.new | (np.arange(len(counts)) == place)
        return cls(place, counts / counts.sum())


@dataclass(frozen=True, eq=False)
class LabelPool:
    """What was learned from labels, to be applied to the merge of any rows.

    Parameters
    ----------
    classes : ndarray of shape (L,)
        All classes.
    place : ndarray of int
        Where among these the classes of the merge stand.
    groups : ndarray of int, shape (L,)
        Groups of classes that no teacher links.
    starts : ndarray of int, shape (N,)
        Where each teacher's columns of answers begin.
    n_outputs : int
        K, the teachers' columns of answers.
    columns : ndarray of int
        Which of these and, K added, of the classes of the merge the classifier of answers reads.
    of_answers : Expert
        The classifier of answers, trained on labelled rows.
    of_rows : RowsExpert
        The classifier of rows, trained on labelled rows, if there is one.
    doubts : tuple of float
        By how much the sources are flattened.
    pool : Pool
        How much each counts.
    random : bool
        Whether the labelled rows look like a random sample of all rows, so that they show how frequent classes are.
    temperature : float
        Of the merge.
    of_none : NoneOfThese or None
        How "none of these" is divided among it and the classes that no teacher knows.
    """

    classes: NDArray[Any]
    place: NDArray[np.int_]
    groups: NDArray[np.int_]
    starts: NDArray[np.int_]
    n_outputs: int
    columns: NDArray[np.int_]
    of_answers: Expert
    of_rows: RowsExpert
    doubts: tuple[float, ...]
    pool: Pool
    random: bool
    temperature: float
    of_none: NoneOfThese | None = None

    def apply(self, Q: Any, answers: Answers, X: Any) -> Any:
        """Return soft labels (n, L) over all classes, at the temperature of the merge, from those of the merge."""
        log_p, merged = to_numpy(answers.log_p), to_numpy(Q)
        out = np.empty((len(merged), len(self.classes)), dtype=merged.dtype)
        for rows in chunks(len(merged), 80 * (len(self.classes) + len(self.columns))):
            part = None if self.of_rows.expert is None else take_rows(X, rows)
            out[rows] = self._apply(merged[rows], log_p[rows, : self.n_outputs], part)
        return array_namespace(Q).asarray(out, device=device(Q)) if is_torch_array(Q) else out

    def _apply(self, merged: NDArray[Any], log_p: NDArray[Any], X: Any) -> NDArray[np.float64]:
        Q = spread(merged, self.place, len(self.classes), self.temperature, self.of_none)
        said = [Q, self.of_answers.says(features(log_p, Q, self.starts)[:, self.columns], Q)]
        if self.of_rows.expert is not None:
            said.append(self.of_rows.says(X, Q))
        return temper(self.pool(sources(said, self.doubts, self.groups)), self.temperature)


def spread(
    merged: NDArray[Any],
    place: NDArray[np.int_],
    n_classes: int,
    temperature: float,
    of_none: NoneOfThese | None = None,
) -> NDArray[np.float64]:
    """Return a merge at temperature 1 over all classes.

    Classes that no teacher knows get the mean logit. With "none of these" they get a share of its probability: to the
    teachers, rows of these classes are none of theirs.
    """
    Q = sharpen(merged, temperature)
    if len(place) == n_classes:
        return Q
    if of_none is not None:
        out = np.zeros((len(Q), n_classes))
        out[:, place] = Q
        return np.asarray(np.where(of_none.shares > 0, out[:, [of_none.place]] * of_none.shares, out))
    logits = np.log(np.maximum(Q, 1e-30))
    out = np.zeros((len(Q), n_classes))
    out[:, place] = logits - logits.mean(axis=1, keepdims=True)
    everything: NDArray[np.float64] = softmax(out, axis=1)
    return everything


def temper(P: NDArray[np.float64], temperature: float) -> NDArray[np.float64]:
    """Return probabilities at a temperature, normalised."""
    return sharpen(P, 1 / temperature)


def features(log_p: NDArray[Any], Q: NDArray[np.float64], starts: NDArray[np.int_]) -> NDArray[np.float64]:
    """Return the features of the classifier of answers, (n, K + L): logits of answers (n, K) and merge (n, L).

    Each teacher's logits, whose columns begin at `starts`, are centred; silence is 0.
    """
    K = log_p.shape[1]
    Z = np.maximum(log_p.astype(float), LEAST_LOG_P)
    sizes = np.diff(starts, append=K)
    Z -= np.repeat(np.add.reduceat(Z, starts, axis=1) / sizes, sizes, axis=1)
    return np.hstack([np.nan_to_num(Z, nan=0.0), np.log(np.maximum(Q, np.exp(LEAST_LOG_P)))])


def sources(
    said: list[NDArray[np.float64]], doubts: tuple[float, ...], groups: NDArray[np.int_]
) -> NDArray[np.float64]:
    """Return (J, n, L), logarithms of flattened sources; those of unlinked groups are separate."""
    logs = (doubted(P, doubt) for P, doubt in zip(said, doubts, strict=True))
    return np.stack([part for log_p in logs for part in by_groups(log_p, groups)])


def learn_from_labels(
    Q: Any,
    answers: Answers,
    X: Any,
    labels: Labels,
    *,
    space: LabelSpace,
    temperature: float,
    label_model: Any,
    as_template: Callable[[Any], Any],
    row_weight: NDArray[np.float64] | None = None,
    none_label: Any = None,
) -> LabelPool:
    """Learn from labelled rows how much each source counts.

    Parameters
    ----------
    Q : array of shape (n, L')
        Soft labels of the merge; columns follow the classes of `answers`.
    answers : Answers
        The answers behind them.
    X : array-like with n rows or None
        The rows; None: there is no classifier of them.
    labels : Labels
        Which rows have a label, and which.
    space : LabelSpace
        Of the teachers; what else is among the answers comes after their columns.
    temperature : float
        Of the merge.
    label_model : classifier, "auto" or None
        The classifier of rows.
    as_template : function
        Returns an unfitted copy of a classifier that can be trained on soft labels of any classes.
    row_weight : ndarray of shape (n,), default=None
        Weights of the rows.
    none_label : label, default=None
        The class "none of these".

    Returns
    -------
    pool : LabelPool
    """
    weight = np.ones(len(labels)) if row_weight is None else row_weight[labels.rows]
    rows, codes, weight = labels.rows[weight > 0], labels.codes[weight > 0], weight[weight > 0]
    L, place = len(labels.classes), np.searchsorted(labels.classes, answers.space.classes)
    of_none = None if none_label is None else NoneOfThese.of(labels, codes, weight, none_label)
    Q_l = spread(to_numpy(Q)[rows], place, L, temperature, of_none)
    sample = read_sample(sharpen(to_numpy(Q), temperature), answers, labels, place, row_weight)
    weight = weight * sample.weight[codes]
    starts = np.array([block.start for block in space.blocks])
    everything = features(to_numpy(answers.log_p)[rows, : space.n_outputs], Q_l, starts)
    columns = widest(everything)
    evidence = Evidence.of(everything[:, columns], codes, Q_l, weight)
    of_answers, said_of_answers = evidence.answers_expert(as_template)
    of_rows = RowsExpert(None) if X is None else evidence.rows_expert(label_model, take_rows(X, rows), as_template)
    said = [evidence.Q, said_of_answers, *([] if of_rows.said is None else [of_rows.said])]
    groups = all_groups(answers.space, labels.classes)
    return LabelPool(
        classes=labels.classes,
        place=place,
        groups=groups,
        starts=starts,
        n_outputs=space.n_outputs,
        columns=columns,
        of_answers=of_answers,
        of_rows=replace(of_rows, said=None),
        doubts=(doubts := evidence.doubts(said)),
        pool=evidence.pool(sources(said, doubts, groups), len(said), sample),
        random=sample.random,
        temperature=temperature,
        of_none=of_none,
    )


@dataclass(frozen=True, eq=False)
class RowsExpert:
    """The classifier of rows or None, its scaling, and why it could not be trained."""

    expert: Expert | None
    scaling: Scaling | None = None
    problem: str = ""
    said: NDArray[np.float64] | None = None  #: out-of-fold probabilities of labelled rows, to learn the weights

    def says(self, X: Any, Q: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return probabilities (n, L) of rows X, given those of the merge, Q."""
        assert self.expert is not None
        return self.expert.says(X if self.scaling is None else self.scaling(X), Q)


@dataclass(frozen=True, eq=False)
class Evidence:
    """Labelled rows: features (m, F), classes (m,), merge (m, L), weights (m,), to learn the weights of sources."""

    A: NDArray[np.float64]
    codes: NDArray[np.int_]
    Q: NDArray[np.float64]
    weight: NDArray[np.float64]
    fold_of: NDArray[np.int_]
    every: tuple[NDArray[np.int_], NDArray[np.float64]]  #: classes and weights of all labelled rows
    some: Any  #: the rows used, among all labelled ones

    @classmethod
    def of(
        cls, A: NDArray[np.float64], codes: NDArray[np.int_], Q: NDArray[np.float64], weight: NDArray[np.float64]
    ) -> Evidence:
        """Return the evidence of labelled rows, or of a limited number of them."""
        some = some_rows(len(codes), MOST_ROWS)
        A_s, codes_s = A[some], codes[some]
        return cls(A_s, codes_s, Q[some], weight[some], fold_of_rows(A_s, codes_s), (codes, weight), some)

    def judge(self, template: Any, X: Any) -> NDArray[np.float64]:
        """Return (m, L), out-of-fold probabilities of copies of a classifier."""
        return out_of_fold(template, X, self.codes, self.Q, self.fold_of, self.weight)

    def answers_expert(self, as_template: Callable[[Any], Any]) -> tuple[Expert, NDArray[np.float64]]:
        """Return the classifier of answers, and its out-of-fold probabilities."""
        template = as_template(LogisticRegression(C=STRENGTH, max_iter=500))
        expert = train_expert(template, self.A, self.codes, self.Q.shape[1], self.weight)
        return expert, self.judge(template, self.A)

    def rows_expert(self, label_model: Any, X: Any, as_template: Callable[[Any], Any]) -> RowsExpert:
        """Return the classifier of rows; without one if it cannot be trained on so few rows, with the reason."""
        codes, weight = self.every
        scaling = None
        if isinstance(label_model, str):  # "auto"
            label_model = LogisticRegression(C=0.1, max_iter=500) if is_matrix(X) else None
            scaling = fit_scaling(X, weight) if is_matrix(X) else None
        if label_model is None:
            return RowsExpert(None)
        template, X = as_template(label_model), X if scaling is None else scaling(X)
        try:
            said = self.judge(template, take_rows(X, self.some))
            return RowsExpert(train_expert(template, X, codes, self.Q.shape[1], weight), scaling, said=said)
        except Exception as error:
            name, why = type(template.estimator).__name__, f"{type(error).__name__}: {str(error)[:200]}"
            return RowsExpert(None, problem=f"{name} cannot be trained on the {len(codes)} labelled rows alone ({why})")

    def doubts(self, said: list[NDArray[np.float64]]) -> tuple[float, ...]:
        """Return how much each source is flattened; the merge hardly."""
        return DOUBT, *(best_doubt(P, self.codes, self.weight) for P in said[1:])

    def pool(self, F: NDArray[np.float64], n_said: int, sample: Sample) -> Pool:
        """Return the pool with the weights of sources F, (J, m, L); without evidence, only the merge counts.

        If labels are not a random sample, only classes that rows were labelled as are compared: that others have no
        label is no evidence against them.
        """
        J, L = len(F), F.shape[2]
        start = np.repeat(np.arange(n_said) == 0, J // n_said).astype(float)
        if not sample.random:
            among = np.unique(self.codes)
            found, bias = fit_pool(F[:, :, among], np.searchsorted(among, self.codes), start, self.weight), np.zeros(L)
            bias[among] = found.bias
            return Pool(found.weight, bias)
        there = np.zeros((self.fold_of.max() + 1, L))
        there[self.fold_of, self.codes] = 1.0
        elsewhere = (there.sum(axis=0) - there)[self.fold_of]
        even = np.broadcast_to(sample.rarity, F.shape[1:])
        found = fit_pool(np.stack([*F, even, unseen(elsewhere)]), self.codes, np.append(start, [0.0, 0.0]), self.weight)
        return Pool(found.weight[:J], found.bias + found.weight[J:] @ [even[0], unseen(there.sum(axis=0))])


def unseen(counts: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the source, as logarithms, that classes without labels do not occur, given the number of labels."""
    return np.where(counts > 0, 0.0, np.log(DOUBT))


def check_label_model(label_model: Any) -> None:
    """Raise an error unless this is None, "auto" or an estimator."""
    if isinstance(label_model, str) and label_model == "auto":
        return
    if label_model is not None and (isinstance(label_model, (str, type)) or not hasattr(label_model, "fit")):
        raise ValueError(f'label_model must be a classifier, None or "auto", got {label_model!r}.')


def warn_of_labels(pool: LabelPool | None) -> None:
    """Warn if the classifier of rows could not be trained; called after everything else worked."""
    if pool is not None and pool.of_rows.problem:
        warn_user(
            f"{pool.of_rows.problem}. The labels are used without it. Pass another classifier as label_model, or "
            "label_model=None."
        )


def as_given(Q: NDArray[Any], labels: Labels | None, temperature: float) -> NDArray[Any]:
    """Return soft labels in which labelled rows have their given labels."""
    if labels is None:
        return Q
    Q = Q.copy()
    Q[labels.rows] = temper(labels.one_hot(DOUBT), temperature)
    return Q


def widest(F: NDArray[np.float64]) -> NDArray[np.int_]:
    """Return the columns that vary most between rows, in their order: no more of them than of rows."""
    if F.shape[1] <= MOST_ROWS:
        return np.arange(F.shape[1])
    return np.sort(np.argsort(-F.std(axis=0), kind="stable")[:MOST_ROWS])


def all_groups(space: LabelSpace, classes: NDArray[Any]) -> NDArray[np.int_]:
    """Return (L,), groups of classes that no teacher links; each class that no teacher knows is its own group."""
    groups = np.full(len(classes), -1)
    groups[np.searchsorted(classes, space.classes)] = space.components
    new = groups < 0
    groups[new] = groups.max() + 1 + np.arange(new.sum())
    return groups
