"""Which network do these weights belong to, and how is it built from their shapes?

The published networks that certificates are usually computed for, written so that a tool can follow them: no
control flow that depends on data, every activation and pool a module, every convolution of a residual network
directly before its batch normalisation. Widths, classes and channels are read off the weights; what a name fixes
is the order of the layers and their number. Sources: LeNet of advertorch's MNIST examples; ResNets for CIFAR of
He et al. 2016 (arXiv 1512.03385) in the two layouts in circulation; ResNet-50 with the stride in its 3x3.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from probes.errors import InputError
from probes.loading.tables import suggest

_DEPTHS = {f"cifar_resnet{depth}": depth for depth in (20, 32, 44, 56, 110)}
ARCHITECTURES = ("mnist_lenet", "small_cnn", *_DEPTHS, "resnet50")
"""The names that `--arch` takes."""
_IMAGENET = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
_CIFAR = ((0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010))
_LENET = frozenset(
    f"{layer}.{kind}" for layer in ("conv1", "conv2", "linear1", "linear2") for kind in ("weight", "bias")
)
_BLOCK = re.compile(r"layer(\d)\.(\d{1,4})\.(conv\d|downsample\.0|shortcut\.0)\.weight", re.ASCII)
_COUNTER = "num_batches_tracked"
_MOST_SHOWN = 4


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
        for place, convolution in enumerate(convolutions, start=1):
            self.add_module(f"conv{place}", convolution)
            self.add_module(f"bn{place}", nn.BatchNorm2d(convolution.out_channels))
        self.relu = nn.ReLU()
        self.add_module(name, shortcut)

    def forward(self, features: Tensor) -> Tensor:
        """Return the features after the block."""
        branch = features
        for place in range(1, self.depth + 1):
            branch = self.get_submodule(f"bn{place}")(self.get_submodule(f"conv{place}")(branch))
            branch = self.relu(branch) if place < self.depth else branch
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
        self.stages = [f"layer{place}" for place in range(1, len(stages) + 1)]
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
    for place in range(stage.blocks):
        stride = stage.stride if place == 0 else 1
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


def build(arch: str, tensors: Mapping[str, Tensor]) -> nn.Module:
    """Return the network of a name with these weights, float32, without any normalisation of its input.

    Raises
    ------
    InputError
        Where the name is unknown, or the weights are not exactly those that the network has.
    """
    _check_known(arch)
    empty = next((name for name, tensor in tensors.items() if not tensor.numel()), None)
    if empty:
        raise _unfit(arch, f"its {_some([empty])} has no elements ({_shown(tensors[empty])})")
    likely = guess_architecture(tensors)
    if likely not in (None, arch):
        raise InputError(
            f"These are the weights of {likely}, not of {arch}.", where=f"--arch {arch}", hint=f"Give --arch {likely}."
        )
    # On the meta device a hostile shape costs nothing.
    with torch.random.fork_rng(devices=[]), torch.device("meta"):
        module = _skeleton(arch, tensors)
    fitted = fit(module, tensors, arch)
    for name, value in module.state_dict().items():
        if value.is_floating_point() and not fitted[name].is_floating_point():
            raise _unfit(arch, f"its {name} has numbers of type {fitted[name].dtype}, not floating-point")
    plain = {name: (value.float() if value.is_floating_point() else value) for name, value in fitted.items()}
    module.load_state_dict({name: value.detach().contiguous() for name, value in plain.items()}, assign=True)
    return module


def fit(module: nn.Module, tensors: Mapping[str, Tensor], name: str) -> dict[str, Tensor]:
    """Return the tensors for `module.load_state_dict`, checked: the same names, the same shapes.

    Counters of batches, which no classifier uses, are dropped or set to zero.

    Raises
    ------
    InputError
        Where a weight is missing, left over or of another shape; all three kinds are listed.
    """
    needed = {key: value for key, value in module.state_dict().items() if isinstance(value, Tensor)}
    given = {key: value for key, value in tensors.items() if not key.endswith(_COUNTER)}
    missing = [key for key in needed if key not in given and not key.endswith(_COUNTER)]
    extra = [key for key in given if key not in needed]
    wrong = [key for key in needed if key in given and given[key].shape != needed[key].shape]
    shapes = [f"{key} is {_shown(given[key])} in place of {_shown(needed[key])}" for key in wrong]
    listed = (("missing", missing), ("unexpected", extra), ("of another shape", shapes))
    parts = [f"{len(items)} {what} ({_some(items)})" for what, items in listed if items]
    if parts:
        raise _unfit(name, "; ".join(parts))
    counters = {key: torch.zeros_like(value, device="cpu") for key, value in needed.items() if key.endswith(_COUNTER)}
    return {**given, **counters}


def guess_architecture(tensors: Mapping[str, Tensor]) -> str | None:
    """Return the name of the network that has layers of these names, or None."""
    names = {name for name in tensors if not name.endswith(_COUNTER)}
    if names == _LENET:
        return "mnist_lenet"
    if "input_size" in names and "linear.weight" in names:
        return "small_cnn"
    blocks = _blocks(tensors)
    deep = "layer1.0.conv3.weight" in names
    if not names >= {"conv1.weight", "bn1.weight", "layer1.0.conv2.weight"}:
        return None
    if blocks == (3, 4, 6, 3) and deep:
        return "resnet50"
    if len(blocks) != 3 or len(set(blocks)) != 1:
        return None
    name = f"cifar_resnet{(9 if deep else 6) * blocks[0] + 2}"
    return name if name in _DEPTHS else None


def input_shape(arch: str, tensors: Mapping[str, Tensor]) -> tuple[int, int, int]:
    """Return the channels, height and width in pixels of the images that the network was made for."""
    _check_known(arch)
    channels = _size(tensors, "conv1.weight", 1, arch)
    if arch == "small_cnn":
        return channels, *_input_size(tensors)
    side = {"mnist_lenet": 28, "resnet50": 224}.get(arch, 32)
    return channels, side, side


def normalisation(arch: str, tensors: Mapping[str, Tensor]) -> tuple[tuple[float, ...], tuple[float, ...]] | None:
    """Return mean and standard deviation per channel that the published weights of this layout expect, or None.

    CIFAR networks with a `linear` head (Idelbayev's) use those of ImageNet, with `fc` (Cohen et al.) those of CIFAR.
    """
    _check_known(arch)
    if arch in ("mnist_lenet", "small_cnn") or _size(tensors, "conv1.weight", 1, arch) != 3:
        return None
    return _CIFAR if arch in _DEPTHS and "linear.weight" not in tensors else _IMAGENET


def _skeleton(arch: str, tensors: Mapping[str, Tensor]) -> nn.Module:
    def size(name: str) -> int:
        return _size(tensors, name, 0, arch)

    channels = _size(tensors, "conv1.weight", 1, arch)
    if arch in ("mnist_lenet", "small_cnn"):
        widths = (size("conv1.weight"), size("conv2.weight"))
        if arch == "mnist_lenet":
            return LeNet(channels, widths, size("linear1.weight"), size("linear2.weight"))
        return SmallCNN((channels, *_input_size(tensors)), widths, size("linear.weight"))
    deep = "layer1.0.conv3.weight" in tensors or arch == "resnet50"
    blocks = (3, 4, 6, 3) if arch == "resnet50" else ((_DEPTHS[arch] - 2) // (9 if deep else 6),) * 3
    stages = tuple(
        Stage(
            blocks=count,
            inner=size(f"layer{place}.0.conv1.weight") if deep else 0,
            out=size(f"layer{place}.0.conv{3 if deep else 2}.weight"),
            stride=1 if place == 1 else 2,
        )
        for place, count in enumerate(blocks, start=1)
    )
    head = "linear" if arch in _DEPTHS and "linear.weight" in tensors else "fc"
    kinds = [kind for kind in ("downsample", "shortcut") if any(f".{kind}.0." in name for name in tensors)]
    return ResNet(
        channels,
        size("conv1.weight"),
        stages,
        size(f"{head}.weight"),
        large=arch == "resnet50",
        shortcut=kinds[0] if kinds else "padded" if head == "linear" else "downsample",
        head=head,
    )


def _blocks(tensors: Mapping[str, Tensor]) -> tuple[int, ...]:
    found: dict[int, set[int]] = {}
    for name in tensors:
        match = _BLOCK.fullmatch(name)
        if match:
            found.setdefault(int(match[1]), set()).add(int(match[2]))
    return tuple(len(found[place]) for place in sorted(found))


def _size(tensors: Mapping[str, Tensor], name: str, axis: int, arch: str) -> int:
    if name not in tensors:
        raise _unfit(arch, f"{name} is missing (there are {_some(list(tensors)) or 'none'})")
    if tensors[name].ndim <= axis:
        raise _unfit(arch, f"its {name} has {tensors[name].ndim} dimensions")
    return int(tensors[name].shape[axis])


def _input_size(tensors: Mapping[str, Tensor]) -> tuple[int, int]:
    sizes = tensors["input_size"].tolist() if "input_size" in tensors else None
    if not isinstance(sizes, list) or len(sizes) != 2 or not all(type(n) is int and 4 <= n <= 2**16 for n in sizes):
        raise _unfit("small_cnn", "its input_size is not a height and a width from 4 to 65536")
    return sizes[0], sizes[1]


def _check_known(arch: str) -> None:
    if arch not in ARCHITECTURES:
        raise InputError(f"{arch!r} is not a known architecture.", where="--arch", hint=suggest(arch, ARCHITECTURES))


def _shown(tensor: Tensor) -> str:
    return "x".join(str(size) for size in tensor.shape) or "a single number"


def _some(items: Sequence[str]) -> str:
    # Names are a stranger's text: a control character among them would reach the terminal.
    shown = [ascii(item)[1:-1][:80] for item in items[:_MOST_SHOWN]]
    return ", ".join(shown) + (", ..." if len(items) > _MOST_SHOWN else "")


def _unfit(arch: str, what: str) -> InputError:
    hint = "Give the name of the network that was saved, or build it yourself with --factory module:callable."
    return InputError(f"The weights do not fit {arch}: {what}.", where=f"--arch {arch}", hint=hint)
