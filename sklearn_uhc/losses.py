"""Direct backpropagation, the paper's first extension: losses between a network's logits and the teachers' answers.

For torch; for use in any training loop. Instead of solving for q and training the network on it, the network's logits
take the place of u in a method's objective, and the other variables of that objective are solved for in closed form at
the current u and held constant:

    loss = mean over the rows of the objective at u = logits / T

What the paper calls CE-BP, MF-P-BP, MF-LU-BP and MF-LF-BP. `sd` has no such form: its q does not depend on u.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from sklearn_uhc.label_space import LabelSpace
from sklearn_uhc.solvers import mf_lu, mf_p
from sklearn_uhc.solvers.blocks import Blocks

__all__ = ["CrossEntropyUnifierLoss", "LogitFactorizationLoss", "ProbabilityFactorizationLoss", "TeacherLoss"]


class TeacherLoss(nn.Module):
    """Base of the losses.

    Parameters
    ----------
    class_lists : list of lists
        The classes of each teacher, in the order of its block of `log_p`.
    temperature : float, default=3.0
        T above; predictions use the logits as they are.

    Attributes
    ----------
    classes : ndarray of shape (L,)
        What the columns of the logits stand for: all classes, sorted.
    """

    def __init__(self, class_lists: Sequence[Any], *, temperature: float = 3.0) -> None:
        super().__init__()
        if not 0 < float(temperature) < float("inf"):
            raise ValueError(f"temperature must be a positive number, got {temperature!r}.")
        space = LabelSpace(class_lists)
        self.classes = space.classes
        self.temperature = float(temperature)
        self._blocks = Blocks.from_label_space(space)
        self._moved: dict[tuple[Any, Any], Blocks] = {}

    def forward(self, logits: Tensor, log_p: Tensor) -> Tensor:
        """Return the loss.

        Parameters
        ----------
        logits : Tensor of shape (n, L)
            What the network says of all classes, in the order of `classes`.
        log_p : Tensor of shape (n, K)
            Log-probabilities or logits of all teachers, block by block, at temperature 1.

        Returns
        -------
        loss : Tensor
            A scalar.
        """
        K, L = self._blocks.to_class.shape
        if logits.ndim != 2 or logits.shape[1] != L:
            raise ValueError(f"The network must give {L} logits per row, one per class, got {tuple(logits.shape)}.")
        if log_p.ndim != 2 or log_p.shape[1] != K or len(log_p) != len(logits):
            raise ValueError(f"log_p must have the shape ({len(logits)}, {K}), got {tuple(log_p.shape)}.")
        blocks = self._blocks_like(logits)
        Z = blocks.shift(log_p.detach().to(logits)) / self.temperature
        return self._objective(logits / self.temperature, Z, blocks).mean()

    def _objective(self, u: Tensor, Z: Tensor, blocks: Blocks) -> Tensor:
        """Return the objective of every row."""
        raise NotImplementedError

    def _blocks_like(self, logits: Tensor) -> Blocks:
        key = (logits.device, logits.dtype)
        if key not in self._moved:
            self._moved[key] = self._blocks.like(logits.detach())
        return self._moved[key]


class CrossEntropyUnifierLoss(TeacherLoss):
    r"""CE-BP: cross-entropy of every teacher's answer against the network's restricted to that teacher's classes.

    .. math:: - \sum_i \sum_{l \in L_i} p_i(l) \log \frac{e^{u_l}}{\sum_{k \in L_i} e^{u_k}}

    Parameters
    ----------
    class_lists : list of lists
        The classes of each teacher, in the order of its block of `log_p`.
    temperature : float, default=3.0
        T of u = logits / T; predictions use the logits as they are.

    Examples
    --------
    >>> import torch
    >>> from sklearn_uhc.losses import CrossEntropyUnifierLoss
    >>> loss = CrossEntropyUnifierLoss([["cat", "dog"], ["dog", "eel"]], temperature=1)
    >>> log_p = torch.tensor([[0.5, 0.5, 0.9, 0.1]]).log()
    >>> logits = torch.zeros(1, 3, requires_grad=True)
    >>> loss(logits, log_p).backward()
    >>> logits.grad.round(decimals=2)
    tensor([[ 0.0000, -0.4000,  0.4000]])
    """

    def _objective(self, u: Tensor, Z: Tensor, blocks: Blocks) -> Tensor:
        P = blocks.log_softmax(Z).exp()
        return -(P * blocks.log_softmax(blocks.by_class(u))).sum(dim=1)


class ProbabilityFactorizationLoss(TeacherLoss):
    r"""MF-P-BP: squared error of the rank-one factorization of the probabilities, u = softmax(logits / T).

    .. math:: s \, \| M * (P - u v') \|_F^2, \quad v \ge 0 \text{ at its best for u}

    Parameters
    ----------
    class_lists : list of lists
        The classes of each teacher, in the order of its block of `log_p`.
    temperature : float, default=3.0
        T of u = softmax(logits / T); predictions use the logits as they are.
    factor : float, default=None
        s above. The error of probabilities is small, for which the paper raises the learning rate of this loss. None:
        half the mean length of the class lists, with which its curvature at uniform answers is that of CE-BP, so that
        both take the same learning rate. With 1 it is the objective itself.
    """

    def __init__(self, class_lists: Sequence[Any], *, temperature: float = 3.0, factor: float | None = None) -> None:
        super().__init__(class_lists, temperature=temperature)
        self.factor = float(self._blocks.sizes.mean()) / 2 if factor is None else float(factor)

    def _objective(self, u: Tensor, Z: Tensor, blocks: Blocks) -> Tensor:
        P, U = blocks.log_softmax(Z).exp(), u.softmax(dim=1)
        V = mf_p.best_v(P, U.detach(), blocks)
        objective: Tensor = mf_p.objective(P, U, V, blocks)
        return self.factor * objective


class LogitFactorizationLoss(TeacherLoss):
    r"""MF-LF-BP and MF-LU-BP: squared error of the rank-one factorization of the logits.

    .. math:: \| M * (Z - u v' - 1 c') \|_F^2, \quad c, v \ge 0 \text{ at their best for u}

    With `scale="fixed"` v is 1; with `scale="free"` the regularisation of the paper, lam (||u||^2 + ||v||^2), is added.

    Parameters
    ----------
    class_lists : list of lists
        The classes of each teacher, in the order of its block of `log_p`.
    temperature : float, default=3.0
        T of u = logits / T; predictions use the logits as they are.
    scale : {"fixed", "free"}, default="fixed"
        MF-LF or MF-LU.
    lam : float, default=0.01
        Weight of the regularisation, with `scale="free"` only.
    factor : float, default=None
        Multiplies the objective. None: 1 over twice the mean length of the class lists, with which the curvature at
        uniform answers (and v = 1) is that of CE-BP, so that all take the same learning rate. With 1 it is the
        objective itself.
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
        Z = blocks.center(Z)
        if self.scale == "fixed":
            error: Tensor = blocks.center(Z - blocks.by_class(u))
            return self.factor * (error**2).sum(dim=1)
        V = mf_lu.best_v(Z, u.detach(), self.lam, blocks)
        objective: Tensor = mf_lu.objective(Z, u, V, self.lam, blocks)
        return self.factor * objective

    def scales(self, logits: Tensor, log_p: Tensor) -> Tensor:
        """Return v (n, N): how much each teacher's logits are stretched against the network's; ones if fixed.

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
        blocks = self._blocks_like(logits)
        if self.scale == "fixed":
            return torch.ones(len(logits), blocks.M.shape[0], dtype=logits.dtype, device=logits.device)
        Z = blocks.center(blocks.shift(log_p.detach().to(logits)) / self.temperature)
        v: Tensor = mf_lu.best_v(Z, logits.detach() / self.temperature, self.lam, blocks)
        return v
