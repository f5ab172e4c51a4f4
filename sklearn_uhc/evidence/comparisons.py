"""Compare what teachers mean by shared classes, on the rows where each is surest, without labels.

The surest rows of a column are those with its largest answers. Their number is the smaller of n / L and the sum of the
answers. Rows of classes that the teacher has never seen are seldom among them. With T_ac the mean answer c on the
surest rows of a, teacher i is compared with teacher j on its own columns a and b, and on those columns c of j that mean
the same class as b, or some of the classes that b means:

    J_ab = sum over c within b of  T_ac + T_ca

is like a confusion matrix in which all classes count alike. A column that neither claims for a whole row is absent, and
left out. The teachers' agreement beyond chance is Cohen's

    kappa = (sum_a J_aa - chance) / (1 - chance),      J / sum(J), chance = sum_a (row sum of a) (column sum of a)

It is 1 if they mean the same and are sure, and 0 for answers that have nothing to do with those of the other: random
ones, and constant ones. In the simplest latent class model a teacher is right with a probability, its reliability r_i,
and otherwise answers anything. Then kappa is about r_i r_j, and r is the fit of rank one to all kappas:

    min over r in [0, 1]^N of  sum_{i < j} w_ij (kappa_ij - r_i r_j)^2,      w_ij = (1 - chance) sum(J)

Teachers that are wrong in different ways have nothing in common, so a few good ones outweigh them. A teacher of sets
alone is compared with those that know single classes, but not the other way round: two weak ones that make the same
errors would otherwise refute a good one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csc_array, csr_array

from sklearn_uhc.answers import Answers, to_numpy
from sklearn_uhc.evidence.behaviour import surest_rows
from sklearn_uhc.solvers import blocks_of
from sklearn_uhc.spaces.label_space import LabelSpace
from sklearn_uhc.utils.rows import some_rows

Floats = NDArray[np.float64]

#: Fewest rows per class: 15 found a tenth less, and false alarms were as rare.
LEAST_PER_CLASS = 8
#: Number of rows used: this many per class, within bounds, and at most MOST_ANSWERS answers.
ROWS_PER_CLASS, FEWEST_ROWS, MOST_ROWS, MOST_ANSWERS = 40, 600, 5_000, 4_000_000
#: Least evidence about a teacher's reliability: two classes shared with a reliable teacher are about 1. With none, good
#: teachers that share classes with broken ones only were named; .75 found a tenth less.
LEAST_EVIDENCE = 0.3
#: Steps of the fit of rank one; each halves the error.
STEPS = 50


@dataclass(frozen=True)
class Responses:
    """What teachers answer on the rows where some column is surest."""

    space: LabelSpace
    P: Floats  #: (n, K), probabilities, 0 where a teacher is silent
    surest: csc_array  #: (n, K), weights of each column's surest rows, which sum to 1
    claimed: NDArray[np.bool_]  #: (K,), whether there is a row for which a column is claimed
    within: csc_array  #: (K, K), which columns c mean some of what b means, of another teacher

    @classmethod
    def of(cls, answers: Answers) -> Responses:
        """Compute them."""
        space, Z = answers.space, to_numpy(answers.log_p).astype(np.float64)
        answered = ~np.isnan(Z)
        P = np.exp(blocks_of(space).log_softmax(np.where(answered, Z, 0.0))) * answered
        sizes = np.minimum(answered.sum(axis=0) / space.n_classes, P.sum(axis=0))
        surest = csc_array(surest_rows(P, sizes)[0] * answered)
        return cls(space, np.ascontiguousarray(P), surest, sizes >= 1, columns_within(space))

    def table(self, i: int) -> Floats:
        """Return (N, k, k), J of teacher i with every other over its k columns, 0 for those that are not compared."""
        space, own = self.space, self.space.blocks[i]
        both = np.asarray(self.surest[:, own].T @ self.P + (self.surest.T @ self.P[:, own]).T)  # (k, K)
        c, b = self.within[:, own].nonzero()
        kept = self.claimed[c] | self.claimed[own][b]
        c, b, k = c[kept], b[kept], both.shape[0]
        where = space.teacher_of[c] * k + b
        sums = csr_array((np.ones(len(c)), (c, where)), shape=(space.n_outputs, space.n_teachers * k))
        J = np.asarray(both @ sums).reshape(k, space.n_teachers, k).transpose(1, 0, 2)
        known = np.bincount(where, minlength=space.n_teachers * k).reshape(space.n_teachers, k) > 0
        return J * known[:, :, None]


@dataclass(frozen=True)
class Comparisons:
    """What every two teachers have in common."""

    kappa: Floats  #: (N, N), 0 for teachers that share fewer than two classes
    weight: Floats  #: (N, N), w, likewise; row i is what teacher i is compared with
    reliability: Floats  #: (N,), r
    responses: Responses

    @property
    def compared(self) -> NDArray[np.bool_]:
        """(N,), which teachers are compared with another."""
        return np.asarray(self.weight.any(axis=1))

    @property
    def evidence(self) -> Floats:
        """(N,), what reliable teachers say about each: about the number of classes times r^2."""
        return np.asarray(self.weight @ self.reliability**2)

    @property
    def confirmed(self) -> Floats:
        """(N,), the reliabilities, 0 where no reliable teacher confirms them."""
        return np.where(self.evidence >= LEAST_EVIDENCE, self.reliability, 0.0)

    def called(self, i: int) -> dict[int, int]:
        """Return columns of teacher i that others call by another of its names."""
        votes = np.einsum("j,jab->ab", self.reliability, self.responses.table(i))
        best = votes.argmax(axis=1)
        better = votes[np.arange(len(best)), best] > votes.diagonal()
        return {int(a): int(best[a]) for a in np.flatnonzero(better)}


def columns_within(space: LabelSpace) -> csc_array:
    """Return (K, K), which columns c mean some of the classes that column b of another teacher means, and no other."""
    member = csr_array(space.membership().astype(np.int32))
    common = (member @ member.T).tocoo()
    c, b = common.row, common.col  # scipy 1.11 has no `coords`
    inside = (common.data == space.set_sizes[c]) & (space.teacher_of[c] != space.teacher_of[b])
    return csc_array((np.ones(int(inside.sum()), dtype=bool), (c[inside], b[inside])), shape=common.shape)


def compare(answers: Answers) -> Comparisons | None:
    """Compare all teachers on evenly spaced rows; None if there are fewer than two of them, or too few rows."""
    space, N = answers.space, answers.space.n_teachers
    wanted = int(np.clip(ROWS_PER_CLASS * space.n_classes, FEWEST_ROWS, MOST_ROWS))
    some = answers.take(some_rows(len(answers), max(1, min(wanted, MOST_ANSWERS // space.n_outputs))))
    if N < 2 or len(some) < LEAST_PER_CLASS * space.n_classes:
        return None
    responses = Responses.of(some)
    kappa, weight = np.zeros((N, N)), np.zeros((N, N))
    for i in range(N):
        kappa[i], weight[i] = _kappa(responses.table(i))
    finer = weight < weight.T  # columns of i lie within those of j
    kappa, weight = np.where(finer, kappa.T, kappa), np.maximum(weight, weight.T)
    coarse = np.bincount(space.teacher_of, space.set_sizes == 1, minlength=N) < 2
    if weight[np.ix_(~coarse, ~coarse)].any():
        weight[np.ix_(~coarse, coarse)] = 0.0
    return Comparisons(kappa, weight, reliability(kappa, weight), responses)


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
