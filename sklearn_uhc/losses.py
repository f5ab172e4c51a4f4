"""Direct backpropagation, the paper's first extension: losses between a network's logits and the teachers' answers.

These are torch modules for any training loop. Instead of solving for q and training the network on it, the network's
logits replace u in a method's objective. The other variables are solved for in closed form at the current u and held
constant:

    loss = T^2 / N times the mean over the rows of the objective at u = logits / T

The paper calls these CE-BP, MF-P-BP, MF-LU-BP and MF-LF-BP. `sd` has no such form: its q does not depend on u. The
factor T^2 / N changes the suitable learning rate, not the optimum. The objective is a sum over the N teachers, and
division by T makes its curvature shrink with T^2 (Hinton, Vinyals and Dean, 2015). With T^2 / N, the curvature with
respect to the logits at uniform answers is that of the cross-entropy with hard labels, and that of CE-BP has the same
bound everywhere. So a learning rate that works for labels works here, for any number of teachers and any temperature.
MF-LU-BP is slower at high temperatures, because of its ridge: see `lam` of `LogitFactorizationLoss`.

If a column stands for a set of classes, log q(S_k) / T with q = exp(T u) replaces u_l, as in the solvers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from sklearn_uhc.answers import refuse_probabilities
from sklearn_uhc.label_space import LabelSpace
from sklearn_uhc.solvers import mf_lu, mf_p, set_mf_lu, set_terms
from sklearn_uhc.solvers.blocks import MIN_LOG_P, Blocks
from sklearn_uhc.solvers.sets import SetBlocks

__all__ = ["CrossEntropyUnifierLoss", "LogitFactorizationLoss", "ProbabilityFactorizationLoss", "TeacherLoss"]


class TeacherLoss(nn.Module):
    """Base of the losses.

    Parameters
    ----------
    class_lists : list of lists
        The classes of each teacher, in the order of its block of `log_p`.
    temperature : float, default=3.0
        T above; predictions use the logits undivided.

    Attributes
    ----------
    classes : ndarray of shape (L,)
        The classes of the columns of the logits: all classes, sorted.
    """

    def __init__(self, class_lists: Sequence[Any], *, temperature: float = 3.0) -> None:
        super().__init__()
        if not 0 < float(temperature) < float("inf"):
            raise ValueError(f"temperature must be a positive number, got {temperature!r}.")
        self._space = space = LabelSpace(class_lists)
        self.classes = space.classes
        self.temperature = float(temperature)
        self._blocks = Blocks.from_label_space(space)
        self._padded = torch.as_tensor(_padded_columns(space))
        self._moved: dict[tuple[Any, Any], Blocks] = {}

    def forward(self, logits: Tensor, log_p: Tensor) -> Tensor:
        """Return the loss.

        Parameters
        ----------
        logits : Tensor of shape (n, L)
            The network's logits for all classes, in the order of `classes`.
        log_p : Tensor of shape (n, K)
            Log-probabilities or logits of all teachers, block by block, at temperature 1. -inf is allowed. NaN, +inf
            and probabilities raise an error on the CPU; on other devices the check would slow down every batch.

        Returns
        -------
        loss : Tensor
            A scalar, computed at least in single precision, also under autocast. N / T^2 times it is the mean of the
            objective over the rows, times `factor` if there is one.
        """
        self._check(logits, log_p)
        with torch.autocast(logits.device.type, enabled=False):
            u, Z, blocks = self._prepare(logits, log_p)
            return self.temperature**2 / len(blocks.sizes) * self._objective(u, Z, blocks).mean()

    def _check(self, logits: Tensor, log_p: Tensor) -> None:
        """Raise an error for wrong shapes and, on the CPU only, for values that give NaN: a GPU would have to wait."""
        K, L = len(self._blocks.class_of), self._blocks.n_classes
        if logits.ndim != 2 or logits.shape[1] != L or len(logits) == 0:
            raise ValueError(f"The network must return {L} logits per row, one per class, got {tuple(logits.shape)}.")
        if log_p.ndim != 2 or log_p.shape[1] != K or len(log_p) != len(logits):
            raise ValueError(f"log_p must have the shape ({len(logits)}, {K}), got {tuple(log_p.shape)}.")
        if log_p.device.type == "cpu":
            least, most = log_p.detach().aminmax()
            if not most < float("inf"):  # NaN is not less than inf
                row, column = (~(log_p < float("inf"))).nonzero()[0].tolist()
                raise ValueError(
                    f"log_p has {log_p[row, column].item()}, first in row {row}, column {column}: every teacher must "
                    "answer for every row, with at least -inf, the logarithm of zero. Leave such rows out."
                )
            if least >= 0:
                refuse_probabilities(log_p, self._space, name="log_p")

    def _prepare(self, logits: Tensor, log_p: Tensor) -> tuple[Tensor, Tensor, Blocks]:
        """Return u, the teachers' logits at T, and the blocks, at least in single precision."""
        u = logits.to(torch.promote_types(logits.dtype, torch.float32)) / self.temperature
        blocks = self._blocks_like(u)
        return u, self._shift(log_p.detach().to(u), blocks) / self.temperature, blocks

    def _objective(self, u: Tensor, Z: Tensor, blocks: Blocks) -> Tensor:
        """Return the objective of each row."""
        raise NotImplementedError

    def _column_logits(self, u: Tensor, blocks: Blocks, V: Tensor | None = None) -> Tensor:
        """Return u times each teacher's v for every column, (n, L) to (n, K); for a set it is log q(S_k) / T."""
        if not isinstance(blocks, SetBlocks):
            # A product with a matrix of zeros and ones; its gradient is one too, which is fast.
            by_class: Tensor = blocks.index.classes.transposed(u)
            return by_class if V is None else by_class * blocks.by_teacher(V)
        vk = torch.ones_like(blocks.set_sizes) if V is None else blocks.by_teacher(V)
        logits = self.temperature * (vk @ blocks.to_set)[..., None] * u[:, None, :]
        sets = logits.masked_fill(blocks.in_set == 0, -float("inf")).logsumexp(dim=2) / self.temperature
        both = torch.cat([u, sets], dim=1).index_select(1, blocks.source)
        return both * torch.where(blocks.set_sizes > 1, torch.ones_like(vk), vk)

    def _top(self, Z: Tensor) -> Tensor:
        """Return the largest value of every teacher, (n, K) to (n, N), without a loop: batches are small."""
        N, longest = self._padded.shape
        columns = self._padded.flatten().to(Z.device)
        return Z.index_select(1, columns).reshape(len(Z), N, longest).amax(dim=2)

    def _shift(self, Z: Tensor, blocks: Blocks) -> Tensor:
        """Shift each teacher's logits so that the largest is 0; -inf becomes a very small number."""
        Z = Z.clamp_min(torch.finfo(Z.dtype).min)  # so that a row of only -inf is uniform
        return (Z - blocks.by_teacher(self._top(Z))).clamp_min(MIN_LOG_P)

    def _probabilities(self, Z: Tensor, blocks: Blocks) -> Tensor:
        """Return the softmax of each teacher's logits, which are at most 0."""
        E = Z.exp()
        probabilities: Tensor = E / blocks.by_teacher(blocks.sum_teachers(E))
        return probabilities

    def _blocks_like(self, logits: Tensor) -> Blocks:
        key = (logits.device, logits.dtype)
        if key not in self._moved:
            self._moved[key] = self._blocks.like(logits.detach())
        return self._moved[key]


def _padded_columns(space: LabelSpace) -> NDArray[np.int64]:
    """Return the columns of every teacher, (N, longest list); shorter lists repeat their last column."""
    longest = max(block.stop - block.start for block in space.blocks)
    return np.array([[min(block.start + j, block.stop - 1) for j in range(longest)] for block in space.blocks])


class CrossEntropyUnifierLoss(TeacherLoss):
    r"""CE-BP: cross-entropy of every teacher's answer against the network's, restricted to that teacher's classes.

    .. math:: - \frac{T^2}{N} \sum_i \sum_{l \in L_i} p_i(l) \log \frac{e^{u_l}}{\sum_{k \in L_i} e^{u_k}}

    Parameters
    ----------
    class_lists : list of lists
        The classes of each teacher, in the order of its block of `log_p`.
    temperature : float, default=3.0
        T of u = logits / T; predictions use the logits undivided.

    Examples
    --------
    >>> import torch
    >>> from sklearn_uhc.losses import CrossEntropyUnifierLoss
    >>> loss = CrossEntropyUnifierLoss([["cat", "dog"], ["dog", "eel"]], temperature=1)
    >>> log_p = torch.tensor([[0.5, 0.5, 0.9, 0.1]]).log()
    >>> logits = torch.zeros(1, 3, requires_grad=True)
    >>> loss(logits, log_p).backward()
    >>> logits.grad.round(decimals=2)
    tensor([[ 0.0000, -0.2000,  0.2000]])
    """

    def _objective(self, u: Tensor, Z: Tensor, blocks: Blocks) -> Tensor:
        P, phi = self._probabilities(Z, blocks), self._column_logits(u, blocks)
        top = self._top(phi.detach())
        log_sums = blocks.sum_teachers((phi - blocks.by_teacher(top)).exp()).log() + top
        if isinstance(blocks, SetBlocks):
            return log_sums.sum(dim=1) - (P * phi).sum(dim=1)
        return log_sums.sum(dim=1) - (blocks.sum_classes(P) * u).sum(dim=1)


class ProbabilityFactorizationLoss(TeacherLoss):
    r"""MF-P-BP: squared error of the rank-one factorization of the probabilities, u = softmax(logits / T).

    .. math:: \frac{T^2}{N} s \, \| M * (P - u v') \|_F^2, \quad v \ge 0 \text{ at its best for u}

    Parameters
    ----------
    class_lists : list of lists
        The classes of each teacher, in the order of its block of `log_p`.
    temperature : float, default=3.0
        T of u = softmax(logits / T); predictions use the logits undivided.
    factor : float, default=None
        s above. Squared errors of probabilities are small, so the paper raises the learning rate of this loss. None:
        half the mean length of the class lists. Its curvature at uniform answers is then that of CE-BP, so both can use
        the same learning rate.
    """

    def __init__(self, class_lists: Sequence[Any], *, temperature: float = 3.0, factor: float | None = None) -> None:
        super().__init__(class_lists, temperature=temperature)
        self.factor = float(self._blocks.sizes.mean()) / 2 if factor is None else float(factor)

    def _objective(self, u: Tensor, Z: Tensor, blocks: Blocks) -> Tensor:
        P = self._probabilities(Z, blocks)
        if isinstance(blocks, SetBlocks):
            E = self._column_logits(u.log_softmax(dim=1), blocks).exp()
            V = set_terms.best_scale(P, E.detach(), blocks)
            return self.factor * ((P - E * blocks.by_teacher(V)) ** 2).sum(dim=1)
        U = u.softmax(dim=1)
        V = mf_p.best_v(P, U.detach(), blocks)
        return self.factor * ((P - self._column_logits(U, blocks, V)) ** 2).sum(dim=1)


class LogitFactorizationLoss(TeacherLoss):
    r"""MF-LF-BP and MF-LU-BP: squared error of the rank-one factorization of the logits.

    .. math:: \frac{T^2}{N} s \, \| M * (Z - u v' - 1 c') \|_F^2, \quad c, v \ge 0 \text{ at their best for u}

    With `scale="fixed"` v is 1; with `scale="free"` the regularisation of the paper, lam (||u||^2 + ||v||^2), is added
    to the squared error.

    Parameters
    ----------
    class_lists : list of lists
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
        s above. None: 1 over twice the mean length of the class lists. The curvature at uniform answers
        (and v = 1) is then that of CE-BP, so all can use the same learning rate, unless `lam` slows MF-LU down.
    """

    def __init__(
        self,
        class_lists: Sequence[Any],
        *,
        temperature: float = 3.0,
        scale: str = "fixed",
        lam: float = 0.01,
        factor: float | None = None,
    ) -> None:
        super().__init__(class_lists, temperature=temperature)
        if scale not in ("fixed", "free"):
            raise ValueError(f"scale must be 'fixed' or 'free', got {scale!r}.")
        self.scale, self.lam = scale, float(lam)
        self.factor = 0.5 / float(self._blocks.sizes.mean()) if factor is None else float(factor)

    def _objective(self, u: Tensor, Z: Tensor, blocks: Blocks) -> Tensor:
        if isinstance(blocks, SetBlocks):
            return self._set_objective(u, Z, blocks)
        Z, centered = blocks.center(Z), blocks.center(self._column_logits(u, blocks))
        if self.scale == "fixed":
            return self.factor * ((Z - centered) ** 2).sum(dim=1)
        V = mf_lu.best_v(Z, u.detach(), self.lam, blocks)
        error = ((Z - centered * blocks.by_teacher(V)) ** 2).sum(dim=1)
        return self.factor * (error + self.lam * ((u**2).sum(dim=1) + (V**2).sum(dim=1)))

    def _set_objective(self, u: Tensor, Z: Tensor, blocks: SetBlocks) -> Tensor:
        """Return the objective if columns stand for sets."""
        if self.scale == "fixed":
            return self.factor * (blocks.center(Z - self._column_logits(u, blocks)) ** 2).sum(dim=1)
        V = set_mf_lu.best_v(blocks.center(Z), u.detach(), self.temperature, self.lam, blocks)
        error = (blocks.center(Z - self._column_logits(u, blocks, V)) ** 2).sum(dim=1)
        return self.factor * (error + self.lam * ((u**2).sum(dim=1) + (V**2).sum(dim=1)))

    def scales(self, logits: Tensor, log_p: Tensor) -> Tensor:
        """Return v (n, N), the scale of each teacher's logits relative to the network's; ones if fixed.

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
        u, Z, blocks = self._prepare(logits.detach(), log_p)
        if self.scale == "fixed":
            return torch.ones(len(u), blocks.n_teachers, dtype=u.dtype, device=u.device)
        if isinstance(blocks, SetBlocks):
            stretched: Tensor = set_mf_lu.best_v(blocks.center(Z), u, self.temperature, self.lam, blocks)
            return stretched
        v: Tensor = mf_lu.best_v(blocks.center(Z), u, self.lam, blocks)
        return v
