"""How the paper trains every network: SGD with momentum .9, ten epochs at a rate of .1 and ten at .01.

The batch size is not stated there: 128 here, and less for digits, of which there are few.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from skorch import NeuralNetClassifier
from skorch.callbacks import LRScheduler
from torch import nn

from sklearn_uhc import SoftLabelClassifier

Array = NDArray[Any]


def make_net(
    module: type[nn.Module], shape: tuple[int, ...], n_out: int, *, epochs: int, batch_size: int, device: Any
) -> Any:
    """Return a net that is not trained yet."""
    return NeuralNetClassifier(
        module,
        module__shape=shape,
        module__n_out=n_out,
        criterion=nn.CrossEntropyLoss,
        max_epochs=epochs,
        lr=0.1,
        optimizer__momentum=0.9,
        batch_size=batch_size,
        iterator_train__shuffle=True,
        iterator_train__drop_last=True,  # batch norm cannot take a batch of one
        train_split=None,
        callbacks=[("rate", LRScheduler("StepLR", step_size=max(epochs // 2, 1), gamma=0.1))],
        device=device,
        verbose=0,
    )


def train(net: Any, X: Array, labels: Array, classes: Array, seed: int) -> SoftLabelClassifier:
    """Train on labels; small sets in one batch, as no batch may be dropped there."""
    if len(X) < net.batch_size:
        net.set_params(batch_size=len(X))
    Q = (labels[:, None] == classes[None, :]).astype(np.float32)
    return SoftLabelClassifier(net, classes=classes, random_state=seed).fit(X, Q)


def spoil(module: nn.Module, X: Array, labels: Array, accuracy: float, seed: int) -> None:
    """Add growing Gaussian noise to the weights of the last layer until the accuracy on X is as low as wanted.

    A module that is not better than that is left as it is. `labels` are column numbers.
    """
    last = [part for part in module.modules() if isinstance(part, nn.Linear)][-1]
    device = last.weight.device
    inputs: list[torch.Tensor] = []
    handle = last.register_forward_pre_hook(lambda _, given: inputs.append(given[0]))
    with torch.no_grad():
        module.eval()(torch.as_tensor(X, device=device))
        handle.remove()
        noise = torch.randn(last.weight.shape, generator=torch.Generator().manual_seed(seed)).to(last.weight)
        original, truth = last.weight.clone(), torch.as_tensor(labels, device=device)
        unit = original.square().mean().sqrt()
        for scale in np.append(0, np.geomspace(0.02, 200, 200)):
            last.weight.copy_(original + float(scale) * unit * noise)
            if float((last(inputs[0]).argmax(dim=1) == truth).float().mean()) <= accuracy:
                return
