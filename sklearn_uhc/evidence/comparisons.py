"""Compare what teachers mean by shared classes, on the rows where each is surest, without labels.

Column a of teacher i stands for class c. Its surest rows are those with the largest p_a. Their number is the smaller of
n / L and the sum of p_a. Rows of classes that the teacher has never seen are seldom among them. With T_ab the mean
answer b of teacher j on the surest rows of a, two teachers have the table J = T_ij + T_ji' over their shared classes,
like a confusion matrix in which all classes count alike. A class that neither claims for a whole row is absent, and
left out. The teachers' agreement beyond chance is Cohen's

    kappa = (sum_c J_cc - chance) / (1 - chance),      J / sum(J), chance = sum_c (row sum of c) (column sum of c)

It is 1 if they mean the same and are sure, and 0 for answers that have nothing to do with those of the other: random
ones, and constant ones. If each teacher is right with a reliability r_i and otherwise answers anything, kappa is about
r_i r_j. So r is the fit of rank one to all kappas:

    min over r in [0, 1]^N of  sum_{i < j} w_ij (kappa_ij - r_i r_j)^2,      w_ij = (1 - chance) sum(J)

Teachers that are wrong in different ways have nothing in common, so a few good ones outweigh them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csc_array

from sklearn_uhc.answers import Answers, to_numpy
from sklearn_uhc.evidence.behaviour import surest_rows
from sklearn_uhc.solvers import blocks_of
from sklearn_uhc.utils.rows import some_rows

Floats = NDArray[np.float64]

#: Fewest rows per class.
LEAST_PER_CLASS = 24
#: Number of rows used: this many per class, within bounds, and at most MOST_ANSWERS answers.
ROWS_PER_CLASS, FEWEST_ROWS, MOST_ROWS, MOST_ANSWERS = 40, 600, 5_000, 4_000_000
#: Steps of the fit of rank one; each halves the error.
STEPS = 50


@dataclass(frozen=True)
class Comparisons:
    """What every two teachers have in common."""

    kappa: Floats  #: (N, N), 0 for teachers that share fewer than two classes
    weight: Floats  #: (N, N), w, likewise
    reliability: Floats  #: (N,), r
    answers: Floats  #: (K', K'), T + T', for columns of single classes
    columns: NDArray[np.int_]  #: (N, L), the column of each class there, -1 if there is none
    claimed: NDArray[np.bool_]  #: (K',), whether there is a row for which it is claimed

    @property
    def compared(self) -> NDArray[np.bool_]:
        """(N,), which teachers are compared with another."""
        return np.asarray(self.weight.any(axis=1))

    @property
    def evidence(self) -> Floats:
        """(N,), what reliable teachers say about each: about the number of classes times r^2."""
        return np.asarray(self.weight @ self.reliability**2)

    def called(self, i: int) -> dict[int, int]:
        """Return classes of teacher i that others call by another of its names."""
        classes = np.flatnonzero(self.columns[i] >= 0)
        if not len(classes):  # it has sets only
            return {}
        votes = np.einsum("j,jab->ab", self.reliability, _tables(self.answers, self.columns, self.claimed, i))
        best = votes.argmax(axis=1)
        better = votes[np.arange(len(best)), best] > votes.diagonal()
        return {int(classes[a]): int(classes[best[a]]) for a in np.flatnonzero(better)}


def enough_rows(answers: Answers) -> Answers | None:
    """Return evenly spaced rows to compare on, or None if they are too few for the number of classes."""
    space = answers.space
    wanted = int(np.clip(ROWS_PER_CLASS * space.n_classes, FEWEST_ROWS, MOST_ROWS))
    some = answers.take(some_rows(len(answers), max(1, min(wanted, MOST_ANSWERS // space.n_outputs))))
    return some if len(some) >= LEAST_PER_CLASS * space.n_classes else None


def compare(answers: Answers) -> Comparisons:
    """Compare all teachers on the classes that they share."""
    space, n = answers.space, answers.space.n_teachers
    single = np.flatnonzero(space.set_sizes == 1)
    teacher_of, class_of = space.teacher_of[single], space.members[space.offsets[single]]
    columns = np.full((n, space.n_classes), -1)
    columns[teacher_of, class_of] = np.arange(len(single))
    T, claimed = _responses(answers, single)
    both = T + T.T
    kappa, weight = np.zeros((n, n)), np.zeros((n, n))
    for i in np.unique(teacher_of):
        kappa[i], weight[i] = _kappa(_tables(both, columns, claimed, i))
    return Comparisons(kappa, weight, reliability(kappa, weight), both, columns, claimed)


def _responses(answers: Answers, single: NDArray[np.int_]) -> tuple[Floats, NDArray[np.bool_]]:
    """Return T for columns of single classes, (K', K'), and whether they are claimed for a row, (K',)."""
    Z = to_numpy(answers.log_p).astype(np.float64)
    silent = np.isnan(Z)
    P = np.exp(blocks_of(answers.space).log_softmax(np.where(silent, 0.0, Z)))[:, single]
    answered = ~silent[:, single]
    P *= answered
    sizes = np.minimum(answered.sum(axis=0) / answers.space.n_classes, P.sum(axis=0))
    surest = surest_rows(P, sizes)[0] * answered
    return np.asarray(csc_array(surest).T @ P), sizes >= 1


def _tables(both: Floats, columns: NDArray[np.int_], claimed: NDArray[np.bool_], i: int) -> Floats:
    """Return (N, k, k), J of teacher i with every other over its k classes, 0 for classes that are not compared."""
    theirs = columns[:, columns[i] >= 0]  # (N, k)
    known = (theirs >= 0) & (claimed[theirs] | claimed[theirs[i]])
    known[i] = False
    return np.asarray(both[theirs[i][:, None], theirs[:, None, :]] * (known[:, :, None] & known[:, None, :]))


def _kappa(J: Floats) -> tuple[Floats, Floats]:
    """Return kappa and its weight, (N,)."""
    total, same = J.sum(axis=(1, 2)), np.einsum("jaa->j", J)
    some = (total > 0) & ((J.sum(axis=2) > 0).sum(axis=1) > 1)
    total = np.where(some, total, 1.0)
    chance = (J.sum(axis=1) * J.sum(axis=2)).sum(axis=1) / total**2
    weight = np.where(some, (1 - chance) * total, 0.0)
    return np.where(weight > 0, (same - chance * total) / np.where(weight > 0, weight, 1.0), 0.0), weight


def reliability(kappa: Floats, weight: Floats) -> Floats:
    """Return r (N,), by least squares for one teacher after the other, all at once; 1 without evidence."""
    r = np.ones(len(kappa))
    for _ in range(STEPS):
        evidence = weight @ r**2
        best = np.clip((weight * kappa) @ r / np.where(evidence > 0, evidence, 1.0), 0.0, 1.0)
        r = np.where(evidence > 0, (r + best) / 2, r)
    return r
