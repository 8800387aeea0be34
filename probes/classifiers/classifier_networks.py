"""The networks for which certificates of classifiers are published: LeNet, ResNets, a small CNN.

They are written so that a tool can follow them: no control flow that depends on data, every activation and pool a
module, every convolution of a residual network directly before its batch normalisation. Sources: LeNet of advertorch's
MNIST examples; ResNets for CIFAR of He et al. 2016 (arXiv 1512.03385) in the two layouts in circulation; those for
ImageNet with the stride in their 3x3; wide ones of Zagoruyko and Komodakis 2016 (arXiv 1605.07146).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional


class Normalise(nn.Module):
    """Standardise each channel c of an image: (x_c - mean_c) / std_c.

    >>> Normalise((0.5,), (0.25,))(torch.ones(1, 1, 1, 1)).item()
    2.0
    """

    mean: Tensor
    std: Tensor

    def __init__(self, mean: Sequence[float], std: Sequence[float]) -> None:
        super().__init__()
        self.register_buffer("mean", torch.tensor(mean, dtype=torch.float32)[:, None, None])
        self.register_buffer("std", torch.tensor(std, dtype=torch.float32)[:, None, None])

    def forward(self, pixels: Tensor) -> Tensor:
        """Return the standardised images, in the shape (b, c, h, w) of the given ones."""
        return (pixels - self.mean) / self.std


class PaddedShortcut(nn.Module):
    """The shortcut without weights ("option A"): every second pixel, with `before` and `after` channels of zeros."""

    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        self.before, self.after, self.stride = before, after, stride

    def forward(self, features: Tensor) -> Tensor:
        """Return the thinned and widened features."""
        thinned = features[:, :, :: self.stride, :: self.stride]
        return functional.pad(thinned, (0, 0, 0, 0, self.before, self.after))


class Block(nn.Module):
    """A residual block: convolutions, each with batch normalisation, and a shortcut around them; relu(branch + kept).

    Convolutions are named conv1, conv2, ..., their normalisations bn1, bn2, ..., with a ReLU between two; `name` is
    the one under which the weights know the shortcut.
    """

    def __init__(self, convolutions: Sequence[nn.Conv2d], shortcut: nn.Module, name: str) -> None:
        super().__init__()
        self.depth, self.around = len(convolutions), name
        for number, convolution in enumerate(convolutions, start=1):
            self.add_module(f"conv{number}", convolution)
            self.add_module(f"bn{number}", nn.BatchNorm2d(convolution.out_channels))
        self.relu = nn.ReLU()
        self.add_module(name, shortcut)

    def forward(self, features: Tensor) -> Tensor:
        """Return the features after the block."""
        branch = features
        for number in range(1, self.depth + 1):
            branch = self.get_submodule(f"bn{number}")(self.get_submodule(f"conv{number}")(branch))
            branch = self.relu(branch) if number < self.depth else branch
        total: Tensor = self.relu(branch + self.get_submodule(self.around)(features))
        return total


@dataclass(frozen=True, slots=True)
class Stage:
    """Blocks of one width: how many, channels inside and at the end (inside 0: basic blocks), first stride."""

    blocks: int
    inner: int
    out: int
    stride: int


class ResNet(nn.Module):
    """A residual network: stem, stages of blocks, mean over the image, linear head.

    Parameters
    ----------
    large
        Take the stem for ImageNet, 7x7 of stride 2 and a maximum pool, in place of a 3x3.
    shortcut
        "padded", or the name under which the weights know the 1x1 convolution.
    head
        The name under which they know the last layer.
    """

    def __init__(
        self, channels: int, width: int, stages: Sequence[Stage], classes: int, *, large: bool, shortcut: str, head: str
    ) -> None:
        super().__init__()
        kernel, stride = (7, 2) if large else (3, 1)
        self.conv1 = nn.Conv2d(channels, width, kernel, stride, kernel // 2, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.relu = nn.ReLU()
        self.maxpool = nn.MaxPool2d(3, 2, 1) if large else nn.Identity()
        entry = width
        self.stages = [f"layer{number}" for number in range(1, len(stages) + 1)]
        for name, stage in zip(self.stages, stages, strict=True):
            self.add_module(name, _stage(entry, stage, shortcut))
            entry = stage.out
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.flatten = nn.Flatten()
        self.head = head
        self.add_module(head, nn.Linear(entry, classes))

    def forward(self, pixels: Tensor) -> Tensor:
        """Return the logits, shape (b, classes)."""
        features = self.maxpool(self.relu(self.bn1(self.conv1(pixels))))
        for name in self.stages:
            features = self.get_submodule(name)(features)
        logits: Tensor = self.get_submodule(self.head)(self.flatten(self.avgpool(features)))
        return logits


def _stage(entry: int, stage: Stage, shortcut: str) -> nn.Sequential:
    blocks: list[nn.Module] = []
    inner, out = stage.inner, stage.out
    for number in range(stage.blocks):
        stride = stage.stride if number == 0 else 1
        # Channels in, channels out, side of the kernel, stride.
        basic = ((entry, out, 3, stride), (out, out, 3, 1))
        bottleneck = ((entry, inner, 1, 1), (inner, inner, 3, stride), (inner, out, 1, 1))
        convolutions = [
            nn.Conv2d(before, after, side, step, side // 2, bias=False)
            for before, after, side, step in (bottleneck if inner else basic)
        ]
        around = _shortcut(entry, out, stride, shortcut)
        blocks.append(Block(convolutions, around, "shortcut" if shortcut == "padded" else shortcut))
        entry = out
    return nn.Sequential(*blocks)


def _shortcut(entry: int, out: int, stride: int, kind: str) -> nn.Module:
    if stride == 1 and entry == out:
        return nn.Identity()
    if kind == "padded":
        before = (out - entry) // 2
        return PaddedShortcut(before, out - entry - before, stride)
    return nn.Sequential(nn.Conv2d(entry, out, 1, stride, bias=False), nn.BatchNorm2d(out))


class LeNet(nn.Module):
    """Two 3x3 convolutions, each with ReLU and a maximum pool of 2, then two linear layers; images of 28x28."""

    def __init__(self, channels: int, widths: tuple[int, int], hidden: int, classes: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, widths[0], 3, padding=1)
        self.conv2 = nn.Conv2d(widths[0], widths[1], 3, padding=1)
        self.relu = nn.ReLU()
        self.maxpool = nn.MaxPool2d(2)
        self.flatten = nn.Flatten()
        # 28 pixels a side, halved twice, are 7.
        self.linear1 = nn.Linear(widths[1] * 49, hidden)
        self.linear2 = nn.Linear(hidden, classes)

    def forward(self, pixels: Tensor) -> Tensor:
        """Return the logits, shape (b, classes)."""
        features = self.maxpool(self.relu(self.conv1(pixels)))
        features = self.flatten(self.maxpool(self.relu(self.conv2(features))))
        logits: Tensor = self.linear2(self.relu(self.linear1(features)))
        return logits


class SmallCNN(nn.Module):
    """Two 3x3 convolutions with batch normalisation, ReLU and a mean pool of 2, then a linear layer.

    `input_size`, height and width in pixels, is kept with the weights, since pools that round hide it.
    """

    input_size: Tensor

    def __init__(self, shape: tuple[int, int, int], widths: tuple[int, int], classes: int) -> None:
        super().__init__()
        channels, height, width = shape
        self.conv1 = nn.Conv2d(channels, widths[0], 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(widths[0])
        self.conv2 = nn.Conv2d(widths[0], widths[1], 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(widths[1])
        self.relu = nn.ReLU()
        self.avgpool = nn.AvgPool2d(2)
        self.flatten = nn.Flatten()
        self.linear = nn.Linear(widths[1] * (height // 4) * (width // 4), classes)
        self.register_buffer("input_size", torch.tensor([height, width]))

    def forward(self, pixels: Tensor) -> Tensor:
        """Return the logits, shape (b, classes)."""
        features = self.avgpool(self.relu(self.bn1(self.conv1(pixels))))
        features = self.avgpool(self.relu(self.bn2(self.conv2(features))))
        logits: Tensor = self.linear(self.flatten(features))
        return logits


def small_cnn(shape: tuple[int, int, int], classes: int, width: int = 16, *, seed: int = 0) -> SmallCNN:
    """Return an untrained small network for images of `shape` (c, h, w), h and w at least 4.

    `width` is that of the first convolution, the second has twice as many; `seed` draws the weights, and the global
    generator stays as it was.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return SmallCNN(shape, (width, 2 * width), classes)
