"""Calibration of teachers without labels: one temperature each, so that an overconfident teacher cannot dominate."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from numbers import Real
from typing import Any

import numpy as np
from array_api_compat import array_namespace, device
from numpy.typing import NDArray

from sklearn_uhc.answers import Answers, AnswerTransformer, rows_by_speakers, to_numpy
from sklearn_uhc.solvers import blocks_of
from sklearn_uhc.solvers.leave_one_out import (
    BOUNDS,
    TOLERANCE,
    Part,
    Piece,
    best_temperatures,
    initial_log_temperature,
    search,
    set_piece,
    shrink,
    shrunk,
    standard_error,
    weighted_median,
)
from sklearn_uhc.spaces.label_space import LabelSpace
from sklearn_uhc.utils.parameters import check_flag, check_positive, check_weights
from sklearn_uhc.utils.rows import chunks, some_rows

__all__ = ["TeacherCalibrator"]

#: Smallest overlap of the class lists, see `overlap`, at which calibration helps.
LEAST_OVERLAP = 0.5
#: Maximum number of sets of teachers that answer together, the most frequent first: each needs its own merges.
MAX_PATTERNS = 40
#: Maximum number of answers, rows times columns, that `fit` uses: 160 MB.
MAX_ANSWERS = 20_000_000

#: Rows, and their answers.
Parts = list[tuple[NDArray[np.int_], Part]]

#: Why a teacher was not calibrated.
UNANSWERED = "answers none of the rows used"
ONE_COLUMN = "has one column only, so its answers say nothing"
LITTLE_OVERLAP = "the class lists overlap too little to compare the teachers' confidence"
NOT_LINKED = "has sets whose classes the single classes of the others do not name and link"
NO_EVIDENCE = "too few rows, or answers too similar to each other or unrelated to those of others, to tell"


class TeacherCalibrator(AnswerTransformer):
    r"""Learn a temperature for every teacher from unlabelled answers, and divide its logits by it.

    Where a tree answers 1, a forest may answer .7 and a network .9 for the same evidence. Calibration makes their
    confidence comparable. Teacher i is compared with the merged answer of all the OTHERS, on the classes they share:

    .. math:: \tau_i = \arg\min_\tau \sum_x w_i(x) \, H\big(t^{(-i)}(x),\, \mathrm{softmax}(z_i(x) / \tau)\big)

    H is the cross-entropy, t the MF-LF merge without teacher i, at the temperatures found so far, and w the square root
    of the probability that the merge gives to the classes of teacher i. How confident all teachers should be together
    cannot be known without labels, so the median of log tau is subtracted. The rest is shrunk by its standard error and
    `tolerance`, to zero if the temperatures differ by no more than these: teachers of one kind do not change.

    Columns that stand for one class come first. A teacher with fewer than two of them is compared afterwards with their
    merge, summed over its sets.

    Parameters
    ----------
    class_lists : list of lists, default=None
        Classes of each teacher, in the order of the blocks. None: one block whose columns are the classes.
    tolerance : float, default=0.15
        Differences of log tau of this size count as noise, however many rows there are: networks of one kind differ
        by .1, a forest and a tree by 1.
    min_overlap : float, default=0.5
        Nothing is calibrated if the class lists allow fewer comparisons per teacher than this. Teacher i provides
        k_i - 1 odds, and a merge of L linked classes needs L - 1; the rest can be compared. Teachers with one column do
        not count. 0: always calibrate.
    teacher_weight : list of float, default=None
        Weight of each teacher in the merges and in the median. None: 1 each.
    n_rounds : int, default=3
        How often the merges are repeated with the temperatures found.
    max_samples : int or None, default=5000
        Rows that `fit` uses, evenly spaced; fewer with over 4,000 columns, 20 million answers in all. None: all.
    abstain : bool, default=False
        Whether a teacher may leave a row unanswered, by NaN in its whole block. It stays silent. `fit` uses the 40
        combinations of teachers that most often answer together; of other rows, the answers that fit one of these.

    Attributes
    ----------
    temperatures_ : ndarray of shape (N,)
        The temperature of each teacher. It is above 1 for teachers that are more confident than the answers of the
        others justify.
    standard_errors_ : ndarray of shape (N,)
        Standard error of log tau before shrinking, with rows of one merged label as one observation. Infinite if none
        was found.
    uncalibrated_ : dict of int to str
        Teachers that keep temperature 1 because there is too little evidence, and why.
    label_space_ : LabelSpace
        Blocks and connected components of the lists.
    n_features_in_ : int
        K, the number of columns.

    Notes
    -----
    `docs/evidence.md` has measurements. An owner with labelled rows may use `CalibratedClassifierCV`, which makes
    the teacher's probabilities right on its own classes. Its answers about rows of other classes remain arbitrary,
    and this estimator deals with these. One does not replace the other.

    Examples
    --------
    Three teachers that agree, but the third exaggerates.

    >>> import numpy as np
    >>> from sklearn_uhc import TeacherCalibrator
    >>> Z = np.random.default_rng(0).normal(size=(500, 3))
    >>> log_p = np.hstack([Z, Z, 4 * Z])
    >>> calibrator = TeacherCalibrator([["a", "b", "c"]] * 3, tolerance=0, n_rounds=10).fit(log_p)
    >>> calibrator.temperatures_.round(1)
    array([1., 1., 4.])
    """

    uncalibrated_: dict[int, str]

    def __init__(
        self,
        class_lists: Sequence[Any] | None = None,
        *,
        tolerance: float = 0.15,
        min_overlap: float = LEAST_OVERLAP,
        teacher_weight: Sequence[float] | None = None,
        n_rounds: int = 3,
        max_samples: int | None = 5_000,
        abstain: bool = False,
    ) -> None:
        self.class_lists = class_lists
        self.tolerance = tolerance
        self.min_overlap = min_overlap
        self.teacher_weight = teacher_weight
        self.n_rounds = n_rounds
        self.max_samples = max_samples
        self.abstain = abstain

    def learn(self, answers: Answers) -> None:
        """Learn the temperatures. See `AnswerTransformer.learn`."""
        some = answers.take(some_rows(len(answers), self._most_rows(answers.space)))
        some = some.saying(to_numpy(some.log_p))
        singles, whose = some.of_single_classes()
        learnt = None if singles is None else self._learn(singles)
        if len(whose) < answers.space.n_teachers:
            self._take_over(some, whose)
            if singles is not None and learnt is not None:
                self._learn_sets(some, singles.space, whose, *learnt)

    def apply(self, answers: Answers) -> Any:
        """Return the log-probabilities at the learned temperatures. See `AnswerTransformer.apply`."""
        X, blocks = answers.log_p, blocks_of(answers.space)
        xp, teacher_of, blocks = array_namespace(X), blocks.teacher_of, blocks.like(X[:1])
        silent = xp.isnan(X)
        X = xp.where(silent, xp.zeros_like(X), X)
        out = xp.empty_like(X)
        scale = xp.asarray(1 / self.temperatures_[teacher_of], dtype=X.dtype, device=device(X))
        for rows in chunks(len(X), 6 * X.shape[1] * X.dtype.itemsize):
            out[rows] = blocks.log_softmax(blocks.shift(X[rows]) * scale)
        out[silent] = xp.nan  # silent teachers stay silent
        return out

    def transform_answers(self, answers: Answers) -> Answers:
        """Return answers at the learned temperatures, unchanged if all are 1. See `AnswerTransformer`."""
        return answers if (self.temperatures_ == 1).all() else super().transform_answers(answers)

    def check_params(self) -> None:
        """Raise if a parameter is wrong, before anything is read."""
        for name in ("tolerance", "min_overlap"):
            value = getattr(self, name)
            number = isinstance(value, Real) and not isinstance(value, bool)
            if not (number and 0 <= float(value) < np.inf):
                raise ValueError(f"{name} must be a finite number of at least 0, got {value!r}.")
        check_positive("n_rounds", self.n_rounds, integer=True)
        if self.max_samples is not None:
            check_positive("max_samples", self.max_samples, integer=True)
        check_flag("abstain", self.abstain)
        if self.teacher_weight is not None:
            check_weights(self.teacher_weight)

    def _learn_sets(
        self, answers: Answers, singles: LabelSpace, whose: NDArray[np.int_], parts: Parts, usual: float
    ) -> None:
        """Compare the remaining teachers with the merge of the single classes of others, summed over their sets."""
        left = [i for i, why in self.uncalibrated_.items() if why == NOT_LINKED]
        sets = {i: sets_of_known(answers.space, i, singles.classes) for i in left}
        pieces: dict[int, list[Piece]] = {}
        for rows, part in parts if left else ():
            q, groups = part.merged(1 / self.temperatures_[whose])
            for i in left:
                piece = set_piece(answers.log_p[rows, answers.space.blocks[i]], sets[i], q, groups)
                if piece is not None:
                    pieces.setdefault(i, []).append(piece)
        found = {}
        for i, own in pieces.items():
            x = search(own, 0.0)
            found[i] = -x - usual, standard_error(own, x, singles.n_classes)
            self.uncalibrated_[i] = NO_EVIDENCE
        known = [i for i, (_, error) in found.items() if np.isfinite(error)]
        if known:
            away, error = np.array([found[i] for i in known]).T
            self.temperatures_[known] = np.exp(shrunk(away, error, float(self.tolerance)))
            self.standard_errors_[known] = error
            self.uncalibrated_ = {i: why for i, why in self.uncalibrated_.items() if i not in known}

    def _take_over(self, answers: Answers, whose: NDArray[np.int_]) -> None:
        """Set the attributes of all teachers: learned values for `whose`, and defaults for those with sets."""
        N = answers.space.n_teachers
        for name, values in {"temperatures_": np.ones(N), "standard_errors_": np.full(N, np.inf)}.items():
            if len(whose):
                values[whose] = getattr(self, name)
            setattr(self, name, values)
        answered, several = np.asarray(answers.speaking.any(axis=0)), has_odds(answers.space)
        reasons = {int(whose[i]): why for i, why in self.uncalibrated_.items()} if len(whose) else {}
        for i in (i for i in range(N) if i not in whose):
            reasons[i] = UNANSWERED if not answered[i] else NOT_LINKED if several[i] else ONE_COLUMN
        self.uncalibrated_ = dict(sorted(reasons.items()))

    def _most_rows(self, space: LabelSpace) -> int | None:
        """Return the maximum number of rows that `fit` uses."""
        if self.max_samples is None:
            return None
        return max(1, min(int(self.max_samples), MAX_ANSWERS // space.n_outputs))

    def _parts(self, answers: Answers, weight: NDArray[Any]) -> Iterator[tuple[NDArray[np.int_], Part]]:
        """Yield rows grouped by the teachers that answer, in chunks of bounded memory; other answers become NaN."""
        X, space, blocks = answers.log_p, answers.space, blocks_of(answers.space)
        for speaking, rows in rows_by_speakers(informative(answers), MAX_PATTERNS):
            for chunk in chunks(len(rows), 64 * (X.shape[1] + space.n_classes)):
                answered = speaking[blocks.teacher_of]
                part = Part.of(np.where(answered, X[rows[chunk]], np.nan), blocks, weight)
                if part.comparisons:
                    yield rows[chunk], part

    def _learn(self, answers: Answers) -> tuple[Parts, float] | None:
        """Alternate between merging all teachers but one and fitting that one to the merge.

        Return the rows and the median of log tau, which is subtracted, or None if there is nothing to learn from.
        """
        space, teacher_weight = answers.space, _relative(answers)
        N, enough = space.n_teachers, overlap(space) >= float(self.min_overlap)
        where = list(self._parts(answers, teacher_weight)) if enough else []
        parts = [part for _, part in where]
        found, error = initial_log_temperature(parts, N), np.full(N, np.inf)
        log_tau = found
        for _ in range(int(self.n_rounds) if parts else 0):
            targets = [part.targets(np.exp(-log_tau)) for part in parts]
            found, error = best_temperatures(parts, targets, np.exp(-found), space.n_classes)
            error[(found + BOUNDS[0] >= -TOLERANCE) & ~shares_two_classes(space)] = np.inf
            log_tau = shrink(found, error, teacher_weight, float(self.tolerance))
        self.temperatures_ = np.exp(log_tau) if parts else np.ones(N)
        self.standard_errors_ = error
        compared = {int(c.teacher) for part in parts for c in part.comparisons}
        answered = np.asarray(answers.speaking.any(axis=0))
        together = np.asarray(np.any([part.weight > 0 for part in parts], axis=0)) if parts else answered
        self.uncalibrated_ = self._reasons(space, enough, compared, answered, together)
        known = np.isfinite(error)
        return (where, weighted_median(found[known], teacher_weight[known])) if known.any() else None

    def _reasons(
        self,
        space: LabelSpace,
        enough: bool,
        compared: set[int],
        answered: NDArray[np.bool_],
        together: NDArray[np.bool_],
    ) -> dict[int, str]:
        """Return the reasons why teachers keep their temperature."""
        known, several = np.isfinite(self.standard_errors_), has_odds(space)
        reasons = {}
        for i in range(len(known)):
            if not answered[i]:
                reasons[i] = UNANSWERED
            elif not several[i]:
                reasons[i] = ONE_COLUMN
            elif not enough:
                reasons[i] = LITTLE_OVERLAP
            elif not together[i]:
                reasons[i] = "answers too few rows that others also answer"
            elif i not in compared:
                reasons[i] = "shares fewer than two classes that the other teachers link"
            elif not known[i]:
                reasons[i] = NO_EVIDENCE
            elif known.sum() == 1:
                reasons[i] = "no other teacher has a temperature to compare with"
        return reasons


def _relative(answers: Answers) -> NDArray[Any]:
    """Return the teacher weights, scaled so that the largest is 1."""
    return (
        np.ones(answers.space.n_teachers)
        if answers.teacher_weight is None
        else answers.teacher_weight / answers.teacher_weight.max()
    )


def overlap(space: LabelSpace) -> float:
    """Return the number of comparisons per teacher that the class lists allow beyond what a merge needs.

    A teacher with k classes gives k - 1 odds, and the merge has one unknown per class minus one per linked group. The
    rest can disagree. Teachers with one column give none and do not count. With very many classes in sets only, this is
    a lower bound.
    """
    spare, n = space.n_outputs - space.n_teachers - space.rank_bound, int(has_odds(space).sum())
    return spare / n if n > 1 else 0.0


def sets_of_known(space: LabelSpace, i: int, classes: NDArray[Any]) -> NDArray[np.bool_]:
    """Return (k, L), which of these classes each column of teacher i stands for; none if it has others, too."""
    block = space.blocks[i]
    member = np.zeros((block.stop - block.start, space.n_classes), dtype=bool)
    column = np.repeat(np.arange(len(member)), space.set_sizes[block])
    member[column, space.members[space.offsets[block.start] : space.offsets[block.stop]]] = True
    known = member[:, np.searchsorted(space.classes, classes)]
    return known & (known.sum(axis=1) == member.sum(axis=1))[:, None]


def shares_two_classes(space: LabelSpace) -> NDArray[np.bool_]:
    """Return (N,), which teachers share two classes with another.

    The others are compared with chains of answers on rows that few of them know. If these have nothing to do with their
    own, they need not be wrong: three of 207 merges lost 11 to 33 points by their temperatures.
    """
    mask = space.mask.astype(np.float32)  # an integer product takes a hundred times as long
    shared = mask @ mask.T
    np.fill_diagonal(shared, 0)
    return np.asarray(shared.max(axis=1) > 1)


def has_odds(space: LabelSpace) -> NDArray[np.bool_]:
    """Return which teachers have two columns or more; the answers of others say nothing."""
    return np.bincount(space.teacher_of) > 1


def informative(answers: Answers) -> NDArray[np.bool_]:
    """Return which answers say something, (n, N)."""
    return np.asarray(answers.speaking) & has_odds(answers.space)
