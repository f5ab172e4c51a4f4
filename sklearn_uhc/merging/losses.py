"""Direct backpropagation, the paper's first extension: losses between a network's logits and the teachers' answers.

These are torch modules for any training loop. Instead of solving for q and training the network on it, the network's
logits replace u in a method's objective. The other variables are solved for in closed form at the current u and held
constant:

    loss = T^2 / N times the mean over the rows of the objective at u = logits / T, which is a sum over N teachers

With weights w_i, T^2 times the weighted mean of the teachers' terms, sum_i w_i term_i / sum_i w_i, takes its place: the
objective of the solvers, whose weights have mean 1, times T^2 / N. A teacher that is silent for a row, with NaN for
all its classes, is left out of both sums, so a row counts the same however many teachers answer it, as on soft labels.
A row that nobody answers contributes 0 to the mean over the rows.

The paper calls these CE-BP, MF-P-BP, MF-LU-BP and MF-LF-BP. `sd` has no such form: its q does not depend on u. The
factor T^2 / N changes the suitable learning rate, not the optimum. The objective is a sum over the N teachers, and
division by T makes its curvature shrink with T^2 (Hinton, Vinyals and Dean, 2015). With T^2 / N, the curvature with
respect to the logits at uniform answers is that of the cross-entropy with hard labels, and that of CE-BP has the same
bound everywhere. So a learning rate that works for labels works here, for any number of teachers and any temperature.
MF-LU-BP is slower at high temperatures, because of its ridge: see `lam` of `LogitFactorizationLoss`.

If a column stands for a set of classes, log q(S_k) / T with q = exp(T u) replaces u_l, as in the solvers. Membership
scorers, whose answers a merge does not temper, are compared with log q(S_k) for q = exp(u), at weight 1 / T.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from torch import Tensor, nn

from sklearn_uhc.answers import refuse_probabilities
from sklearn_uhc.solvers import blocks_of, mf_lu
from sklearn_uhc.solvers.blocks import MIN_LOG_P, Blocks
from sklearn_uhc.solvers.ce import CrossEntropy
from sklearn_uhc.solvers.mf_lf import LogitError
from sklearn_uhc.solvers.mf_p import ProbabilityError
from sklearn_uhc.solvers.plain_blocks import PlainBlocks
from sklearn_uhc.solvers.set_blocks import SetBlocks
from sklearn_uhc.spaces.class_sets import refuse_sets
from sklearn_uhc.spaces.label_space import LabelSpace

__all__ = ["CrossEntropyUnifierLoss", "LogitFactorizationLoss", "ProbabilityFactorizationLoss", "TeacherLoss"]


class Batch(NamedTuple):
    """A batch of rows, as the objectives need it."""

    u: Tensor  #: (n, L)
    Z: Tensor  #: (n, K), the teachers' logits at T, the largest 0; all 0 if a teacher is silent
    blocks: Blocks
    share: Tensor  #: (n, N) or (1, N), w_i over the sum of the weights of the teachers that answer; 0 for silent ones
    speaking: Tensor | None  #: (n, N), 1 for teachers that answer, 0 for silent ones; None: all answer

    def known(self) -> Tensor:
        """(n, L): 1 for classes of the teachers that answer."""
        assert self.speaking is not None
        return (self.speaking @ self.blocks.M).clamp_max(1)


class TeacherLoss(nn.Module):
    """Base of the losses.

    Parameters
    ----------
    class_lists : list of lists or LabelSpace
        The classes of each teacher, in the order of its block of `log_p`.
    temperature : float, default=3.0
        T above; predictions use the logits undivided.
    teacher_weight : array-like of N positive numbers, default=None
        Weight of each teacher's term; only their ratios count. None: all equal.
    untempered : array-like of bool of shape (N,), default=None
        Teachers whose answers are compared without tempering them, at 1 / T of their weight, as a merge does with
        membership scorers. Classes that no other teacher knows keep the probability that these give them. None: all
        answers are tempered.

    Attributes
    ----------
    classes : ndarray of shape (L,)
        The classes of the columns of the logits: all classes, sorted.
    """

    def __init__(
        self,
        class_lists: Any,
        *,
        temperature: float = 3.0,
        teacher_weight: Sequence[float] | None = None,
        untempered: Sequence[bool] | None = None,
    ) -> None:
        super().__init__()
        if not 0 < float(temperature) < float("inf"):
            raise ValueError(f"temperature must be a positive number, got {temperature!r}.")
        self._space = space = class_lists if isinstance(class_lists, LabelSpace) else LabelSpace(class_lists)
        self.classes = space.classes
        self.temperature = T = float(temperature)
        self._blocks = blocks_of(space)
        as_is = np.zeros(space.n_teachers, dtype=bool) if untempered is None else np.asarray(untempered, dtype=bool)
        if as_is.shape != (space.n_teachers,):
            raise ValueError(f"untempered must be one bool per teacher, {space.n_teachers} in all, got {untempered!r}.")
        # As in the solvers: if some answers are not tempered, sums over sets are those of tempered probabilities.
        self._set_temperature = 1.0 if as_is.any() else T
        self._divisor = np.where(as_is, 1.0, T)[space.teacher_of]
        self._tempered = ~as_is if as_is.any() else None
        weight = np.ones(space.n_teachers) if teacher_weight is None else np.asarray(teacher_weight, dtype=float)
        if weight.shape != (space.n_teachers,) or not (np.isfinite(weight) & (weight > 0)).all():
            raise ValueError(
                f"teacher_weight must be one positive number per teacher, {space.n_teachers} in all, got "
                f"{teacher_weight!r}."
            )
        weight = np.where(as_is, 1 / T, 1.0) * (weight / weight.max())
        self._share = weight / weight.sum()
        self._moved: dict[tuple[Any, Any], tuple[Blocks, Tensor, Tensor]] = {}

    def forward(self, logits: Tensor, log_p: Tensor) -> Tensor:
        """Return the loss.

        Parameters
        ----------
        logits : Tensor of shape (n, L)
            The network's logits for all classes, in the order of `classes`.
        log_p : Tensor of shape (n, K)
            Log-probabilities or logits of all teachers, block by block, at temperature 1. -inf is allowed. A teacher
            with NaN for all its classes is left out of that row. Other NaN, +inf and probabilities raise an error on
            the CPU; on other devices the check would slow down every batch.

        Returns
        -------
        loss : Tensor
            A scalar, computed at least in single precision, also under autocast. If all teachers answer, N / T^2 times
            it is the mean of the objective over the rows, times `factor` if there is one.
        """
        self._check(logits, log_p)
        with torch.autocast(logits.device.type, enabled=False):
            return self.temperature**2 * self._objective(self._prepare(logits, log_p)).mean()

    def _check(self, logits: Tensor, log_p: Tensor) -> None:
        """Raise an error for wrong shapes and, on the CPU only, for values that give NaN: a GPU would have to wait."""
        K, L = self._space.n_outputs, self._space.n_classes
        if logits.ndim != 2 or logits.shape[1] != L or len(logits) == 0:
            raise ValueError(f"The network must return {L} logits per row, one per class, got {tuple(logits.shape)}.")
        if log_p.ndim != 2 or log_p.shape[1] != K or len(log_p) != len(logits):
            raise ValueError(f"log_p must have the shape ({len(logits)}, {K}), got {tuple(log_p.shape)}.")
        if log_p.device.type == "cpu":
            least, most = log_p.detach().aminmax()
            if not most < float("inf"):  # NaN is not less than inf
                self._check_gaps(log_p)
            if not least < 0:
                refuse_probabilities(log_p, self._space, name="log_p")

    def _check_gaps(self, log_p: Tensor) -> None:
        """Raise an error for +inf, and for NaN unless it is in a teacher's whole block."""
        whose = torch.as_tensor(self._space.teacher_of)
        bad = ~(log_p < float("inf")) & ~self._silent(log_p, self._like(log_p)[0])[:, whose]
        if bad.any():
            row, column = bad.nonzero()[0].tolist()
            raise ValueError(
                f"log_p has {log_p[row, column].item()}, first in row {row}, column {column}: a teacher must answer "
                "for all its classes, with at least -inf, the logarithm of zero, or for none of them, with NaN for all."
            )

    def _prepare(self, logits: Tensor, log_p: Tensor) -> Batch:
        """Return the batch, at least in single precision."""
        logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
        blocks, share, divisor = self._like(logits)
        log_p, silent, speaking = log_p.detach().to(logits), self._silent(log_p, blocks), None
        if log_p.device.type != "cpu" or bool(silent.any()):
            speaking = (~silent).to(logits)
            log_p = log_p.masked_fill(blocks.by_teacher(speaking) == 0, 0.0)  # finite, so that gradients are
            share = share * speaking
            share = share / share.sum(dim=1, keepdim=True).clamp_min(torch.finfo(share.dtype).tiny)
        u = self._tempered_logits(logits, speaking, blocks)
        return Batch(u, self._shift(log_p, blocks) / divisor, blocks, share, speaking)

    def _silent(self, log_p: Tensor, blocks: Blocks) -> Tensor:
        """(n, N): whether a teacher has NaN for all its classes."""
        silent: Tensor = blocks.largest((~log_p.isnan()).to(torch.uint8)) == 0
        return silent

    def _tempered_logits(self, logits: Tensor, speaking: Tensor | None, blocks: Blocks) -> Tensor:
        """Return u: logits / T.

        Classes that only untempered teachers know, such as "none of these", keep the probability, relative to all known
        classes together, that they have at temperature 1.
        """
        u = logits / self.temperature
        if self._tempered is None:
            return u
        tempered = torch.as_tensor(self._tempered).to(u)[None, :]
        known = (tempered if speaking is None else tempered * speaking) @ blocks.M > 0
        known = known | ~known.any(dim=1, keepdim=True)  # a row without answers does not count
        low = torch.full_like(u, -float("inf"))
        sums = [torch.where(known, x, low).logsumexp(dim=1, keepdim=True) for x in (logits, u)]
        return torch.where(known, u, logits - sums[0] + sums[1])

    def _mean_length(self, batch: Batch) -> Tensor:
        """(n,) or (1,): the mean length of the class lists, weighted, of the teachers that answer."""
        length: Tensor = batch.share @ batch.blocks.sizes
        return length.clamp_min(1)

    def _objective(self, batch: Batch) -> Tensor:
        """Return, for each row, the sum of the teachers' terms times `batch.share`."""
        raise NotImplementedError

    def _column_logits(self, u: Tensor, blocks: Blocks) -> Tensor:
        """Return phi, (n, L) to (n, K): u of the class of every column; for a set it is log q(S_k) / T."""
        if isinstance(blocks, PlainBlocks):
            # A product with a matrix of zeros and ones; its gradient is one too, which is fast.
            by_class: Tensor = blocks.classes.transposed(u)
            return by_class
        assert isinstance(blocks, SetBlocks)
        logits = (self._set_temperature * u)[:, None, :].masked_fill(blocks.in_set == 0, -float("inf"))
        sets = logits.logsumexp(dim=2) / self._set_temperature  # set by set, so that none underflows
        return torch.cat([u, sets], dim=1).index_select(1, blocks.source)

    def _shift(self, Z: Tensor, blocks: Blocks) -> Tensor:
        """Shift each teacher's logits so that the largest is 0; -inf becomes a very small number."""
        Z = Z.clamp_min(torch.finfo(Z.dtype).min)  # so that a row of only -inf is uniform
        return (Z - blocks.by_teacher(blocks.largest(Z))).clamp_min(MIN_LOG_P)

    def _probabilities(self, Z: Tensor, blocks: Blocks) -> Tensor:
        """Return the softmax of each teacher's logits, which are at most 0."""
        E = Z.exp()
        probabilities: Tensor = E / blocks.by_teacher(blocks.sum_teachers(E))
        return probabilities

    def _like(self, logits: Tensor) -> tuple[Blocks, Tensor, Tensor]:
        """Return the blocks, the teachers' shares (1, N) and the columns' temperatures (1, K), as these logits."""
        key = (logits.device, logits.dtype)
        if key not in self._moved:
            share, divisor = (torch.as_tensor(x).to(logits.detach())[None, :] for x in (self._share, self._divisor))
            self._moved[key] = (self._blocks.like(logits.detach()), share, divisor)
        return self._moved[key]


class CrossEntropyUnifierLoss(TeacherLoss):
    r"""CE-BP: cross-entropy of every teacher's answer against the network's, restricted to that teacher's classes.

    .. math:: - \frac{T^2}{\sum_i w_i} \sum_i w_i \sum_{l \in L_i} p_i(l) \log \frac{e^{u_l}}{\sum_{k \in L_i} e^{u_k}}

    Parameters
    ----------
    class_lists : list of lists or LabelSpace
        The classes of each teacher, in the order of its block of `log_p`.
    temperature : float, default=3.0
        T of u = logits / T; predictions use the logits undivided.
    teacher_weight : array-like of N positive numbers, default=None
        w above: weight of each teacher; only their ratios count. None: all equal.
    untempered : array-like of bool of shape (N,), default=None
        Teachers whose answers are not tempered: see `TeacherLoss`.

    Examples
    --------
    >>> import torch
    >>> from sklearn_uhc.merging.losses import CrossEntropyUnifierLoss
    >>> loss = CrossEntropyUnifierLoss([["cat", "dog"], ["dog", "eel"]], temperature=1)
    >>> log_p = torch.tensor([[0.5, 0.5, 0.9, 0.1]]).log()
    >>> logits = torch.zeros(1, 3, requires_grad=True)
    >>> loss(logits, log_p).backward()
    >>> logits.grad.round(decimals=2)
    tensor([[ 0.0000, -0.2000,  0.2000]])
    """

    def _objective(self, batch: Batch) -> Tensor:
        u, Z, blocks, share, _ = batch
        value: Tensor = CrossEntropy.at(self._column_logits(u, blocks), self._probabilities(Z, blocks), share, blocks)[
            0
        ]
        return value


class ProbabilityFactorizationLoss(TeacherLoss):
    r"""MF-P-BP: squared error of the rank-one factorization of the probabilities, u = softmax(logits / T).

    .. math:: \frac{T^2}{\sum_i w_i} s \sum_i w_i \| p_i - v_i u_{L_i} \|^2, \quad v \ge 0 \text{ at its best for u}

    Parameters
    ----------
    class_lists : list of lists or LabelSpace
        The classes of each teacher, in the order of its block of `log_p`.
    temperature : float, default=3.0
        T of u = softmax(logits / T); predictions use the logits undivided.
    factor : float, default=None
        s above. Squared errors of probabilities are small, so the paper raises the learning rate of this loss. None:
        half the mean length of the class lists, weighted, of the teachers that answer. Its curvature at uniform answers
        is then that of CE-BP, so both can use the same learning rate.
    teacher_weight : array-like of N positive numbers, default=None
        w above: weight of each teacher; only their ratios count. None: all equal.
    untempered : array-like of bool of shape (N,), default=None
        Teachers whose answers are not tempered: see `TeacherLoss`.

    Examples
    --------
    >>> import torch
    >>> from sklearn_uhc.merging.losses import ProbabilityFactorizationLoss
    >>> loss = ProbabilityFactorizationLoss([["cat", "dog"], ["dog", "eel"]], temperature=1)
    >>> log_p = torch.tensor([[0.5, 0.5, 0.9, 0.1]]).log()
    >>> logits = torch.zeros(1, 3, requires_grad=True)
    >>> loss(logits, log_p).backward()
    >>> loss.classes[[logits.grad.argmin(), logits.grad.argmax()]].tolist()  # what a step raises, and what it lowers
    ['dog', 'eel']
    """

    def __init__(
        self,
        class_lists: Any,
        *,
        temperature: float = 3.0,
        factor: float | None = None,
        teacher_weight: Sequence[float] | None = None,
        untempered: Sequence[bool] | None = None,
    ) -> None:
        super().__init__(class_lists, temperature=temperature, teacher_weight=teacher_weight, untempered=untempered)
        self.factor = float(self._share @ self._blocks.sizes) / 2 if factor is None else float(factor)
        self._by_length = factor is None

    def _objective(self, batch: Batch) -> Tensor:
        u, Z, blocks, share, _ = batch
        P, phi = self._probabilities(Z, blocks), self._column_logits(u, blocks)
        factor = self._mean_length(batch) / 2 if self._by_length else self.factor
        return 2 * factor * ProbabilityError.at(phi, P, share, blocks)[0]


class LogitFactorizationLoss(TeacherLoss):
    r"""MF-LF-BP and MF-LU-BP: squared error of the rank-one factorization of the logits.

    .. math:: \frac{T^2}{\sum_i w_i} s \sum_i w_i \| z_i - v_i u_{L_i} - c_i \|^2,
              \quad c, v \ge 0 \text{ at their best for u}

    With `scale="fixed"` v is 1. With `scale="free"` the regularisation of the paper is added to the squared errors: lam
    v_i^2 to those of teacher i, and lam ||u||^2 times the mean weight of the teachers that answer, over the classes
    that they know.

    Parameters
    ----------
    class_lists : list of lists or LabelSpace
        The classes of each teacher, in the order of its block of `log_p`.
    temperature : float, default=3.0
        T of u = logits / T; predictions use the logits undivided.
    scale : {"fixed", "free"}, default="fixed"
        MF-LF or MF-LU.
    lam : float, default=0.01
        Weight of the regularisation, for `scale="free"` only. The default is the paper's, for T = 3. It competes with
        squared logits over T^2. If these are smaller, as in an untrained network at T = 10, v and the gradients are
        small and training is slow at first. With 0.01 / T^2 it starts equally fast at all temperatures.
    factor : float, default=None
        s above. None: 1 over twice the mean length of the class lists, weighted, of the teachers that answer. The
        curvature at uniform answers (and v = 1) is then that of CE-BP, so all can use the same learning rate, unless
        `lam` slows MF-LU down.
    teacher_weight : array-like of N positive numbers, default=None
        w above: weight of each teacher; only their ratios count. None: all equal.
    untempered : array-like of bool of shape (N,), default=None
        Teachers whose answers are not tempered: see `TeacherLoss`.

    Examples
    --------
    >>> import torch
    >>> from sklearn_uhc.merging.losses import LogitFactorizationLoss
    >>> loss = LogitFactorizationLoss([["cat", "dog"], ["dog", "eel"]], temperature=1)
    >>> log_p = torch.tensor([[0.5, 0.5, 0.9, 0.1]]).log()
    >>> logits = torch.zeros(1, 3, requires_grad=True)
    >>> loss(logits, log_p).backward()
    >>> loss.classes[[logits.grad.argmin(), logits.grad.argmax()]].tolist()  # what a step raises, and what it lowers
    ['dog', 'eel']
    """

    def __init__(
        self,
        class_lists: Any,
        *,
        temperature: float = 3.0,
        scale: str = "fixed",
        lam: float = 0.01,
        factor: float | None = None,
        teacher_weight: Sequence[float] | None = None,
        untempered: Sequence[bool] | None = None,
    ) -> None:
        super().__init__(class_lists, temperature=temperature, teacher_weight=teacher_weight, untempered=untempered)
        if scale not in ("fixed", "free"):
            raise ValueError(f"scale must be 'fixed' or 'free', got {scale!r}.")
        if scale == "free":
            refuse_sets(self._space.class_lists)
        self.scale, self.lam = scale, float(lam)
        self.factor = 0.5 / float(self._share @ self._blocks.sizes) if factor is None else float(factor)
        self._by_length = factor is None

    def _objective(self, batch: Batch) -> Tensor:
        u, Z, blocks, share, _ = batch
        phi, ridge = self._column_logits(u, blocks), 0.0
        if self.scale == "free":
            V = mf_lu.best_v(blocks.center(Z), u.detach(), self.lam, cast(PlainBlocks, blocks))
            phi, ridge = phi * blocks.by_teacher(V), (share * V**2).sum(dim=1) + self._square_mean(batch)
        value = 2 * LogitError.at(phi, Z, share, blocks)[0] + self.lam * ridge
        return (0.5 / self._mean_length(batch) if self._by_length else self.factor) * value

    def _square_mean(self, batch: Batch) -> Tensor:
        """(n,): ||u||^2 over the classes of the teachers that answer, divided by the number of these teachers."""
        if batch.speaking is None:
            return (batch.u**2).sum(dim=1) / batch.blocks.n_teachers
        return (batch.known() * batch.u**2).sum(dim=1) / batch.speaking.sum(dim=1).clamp_min(1)

    def scales(self, logits: Tensor, log_p: Tensor) -> Tensor:
        """Return v (n, N), the scale of each teacher's logits relative to the network's; ones if fixed.

        It is NaN if the teacher is silent or has one column only, which says nothing.

        Parameters
        ----------
        logits : Tensor of shape (n, L)
            As for the loss.
        log_p : Tensor of shape (n, K)
            As for the loss.

        Returns
        -------
        v : Tensor of shape (n, N)
        """
        batch = self._prepare(logits.detach(), log_p)
        u, Z, blocks, share, _ = batch
        v = torch.ones_like(share + 0 * u[:, :1])
        if self.scale == "free":
            v = mf_lu.best_v(blocks.center(Z), u, self.lam, cast(PlainBlocks, blocks))
        v = v.masked_fill(blocks.sizes < 2, float("nan"))
        return v if batch.speaking is None else v.masked_fill(batch.speaking == 0, float("nan"))
