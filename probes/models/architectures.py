"""Recognise the architecture that weights belong to, and build it from their shapes.

Widths, classes and channels are read off the weights; what a name fixes is the order of the layers and their number.
"""

import re
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from probes.classifiers.classifier_networks import LeNet, ResNet, SmallCNN, Stage
from probes.core.errors import InputError, escaped
from probes.files.names import suggest

_DEPTHS = {f"cifar_resnet{depth}": depth for depth in (20, 32, 44, 56, 110)}
_LARGE: dict[str, tuple[tuple[int, ...], bool]] = {
    "resnet18": ((2, 2, 2, 2), False),
    "resnet34": ((3, 4, 6, 3), False),
    "resnet50": ((3, 4, 6, 3), True),
    "resnet101": ((3, 4, 23, 3), True),
    "resnet152": ((3, 8, 36, 3), True),
    "wide_resnet50_2": ((3, 4, 6, 3), True),
    "wide_resnet101_2": ((3, 4, 23, 3), True),
}
"""Of the networks for ImageNet: blocks of each stage, and whether these are of three convolutions."""
ARCHITECTURES = ("mnist_lenet", "small_cnn", *_DEPTHS, *_LARGE)
"""The names that `--arch` takes without a package."""
_IMAGENET = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
_CIFAR = ((0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010))
_LENET = frozenset(
    f"{layer}.{kind}" for layer in ("conv1", "conv2", "linear1", "linear2") for kind in ("weight", "bias")
)
_BLOCK = re.compile(r"layer(\d)\.(\d{1,4})\.(conv\d|downsample\.0|shortcut\.0)\.weight", re.ASCII)
_COUNTER = "num_batches_tracked"
_MOST_SHOWN = 4


def build(arch: str, tensors: Mapping[str, Tensor]) -> nn.Module:
    """Build the named network with these weights, float32, without any normalisation of its input.

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
    weights = {key: value for key, value in tensors.items() if not key.endswith(_COUNTER)}
    missing = [key for key in needed if key not in weights and not key.endswith(_COUNTER)]
    extra = [key for key in weights if key not in needed]
    wrong = [key for key in needed if key in weights and weights[key].shape != needed[key].shape]
    shapes = [f"{key} is {_shown(weights[key])} in place of {_shown(needed[key])}" for key in wrong]
    listed = (("missing", missing), ("unexpected", extra), ("of another shape", shapes))
    parts = [f"{len(items)} {what} ({_some(items)})" for what, items in listed if items]
    if parts:
        raise _unfit(name, "; ".join(parts))
    counters = {key: torch.zeros_like(value, device="cpu") for key, value in needed.items() if key.endswith(_COUNTER)}
    return {**weights, **counters}


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
    if len(blocks) == 4:
        return _large_name(tensors, blocks, deep=deep)
    if len(blocks) != 3 or len(set(blocks)) != 1:
        return None
    # Three stages of equally many blocks, each of two convolutions or of three, between the stem and the head.
    name = f"cifar_resnet{(9 if deep else 6) * blocks[0] + 2}"
    return name if name in _DEPTHS else None


def _large_name(tensors: Mapping[str, Tensor], blocks: tuple[int, ...], *, deep: bool) -> str | None:
    """Return the name of a residual network of four stages; blocks of wide ones are half as wide inside as they end."""
    inner, out = (tensors.get(f"layer1.0.conv{number}.weight") for number in (1, 3))
    wide = deep and inner is not None and out is not None and inner.ndim > 0 < out.ndim and 2 * len(inner) == len(out)
    stem = tensors["conv1.weight"].shape[2:]
    for name, (counts, bottleneck) in _LARGE.items():
        if (counts, bottleneck, name.startswith("wide")) == (blocks, deep, wide):
            # The layers of ResNets for small images have these names too, behind a stem of 3x3.
            return name if name == "resnet50" or stem == (7, 7) else None
    return None


def input_shape(arch: str, tensors: Mapping[str, Tensor]) -> tuple[int, int, int]:
    """Return the channels, height and width in pixels of the images that the network was made for."""
    _check_known(arch)
    channels = _size(tensors, "conv1.weight", 1, arch)
    if arch == "small_cnn":
        return channels, *_input_size(tensors)
    side = 224 if arch in _LARGE else 28 if arch == "mnist_lenet" else 32
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
    if arch in _LARGE:
        blocks, deep = _LARGE[arch]
    else:
        deep = "layer1.0.conv3.weight" in tensors
        blocks = ((_DEPTHS[arch] - 2) // (9 if deep else 6),) * 3
    stages = tuple(
        Stage(
            blocks=count,
            inner=size(f"layer{index}.0.conv1.weight") if deep else 0,
            out=size(f"layer{index}.0.conv{3 if deep else 2}.weight"),
            stride=1 if index == 1 else 2,
        )
        for index, count in enumerate(blocks, start=1)
    )
    head = "linear" if arch in _DEPTHS and "linear.weight" in tensors else "fc"
    kinds = [kind for kind in ("downsample", "shortcut") if any(f".{kind}.0." in name for name in tensors)]
    return ResNet(
        channels,
        size("conv1.weight"),
        stages,
        size(f"{head}.weight"),
        large=arch in _LARGE,
        # No shortcut has weights: option A where the head is `linear`; elsewhere `fit` tells that they are missing.
        shortcut=kinds[0] if kinds else "padded" if head == "linear" else "downsample",
        head=head,
    )


def _blocks(tensors: Mapping[str, Tensor]) -> tuple[int, ...]:
    found: dict[int, set[int]] = {}
    for name in tensors:
        match = _BLOCK.fullmatch(name)
        if match:
            found.setdefault(int(match[1]), set()).add(int(match[2]))
    return tuple(len(found[index]) for index in sorted(found))


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
    # Names are untrusted text: a control character in them would reach the terminal.
    shown = [escaped(item) for item in items[:_MOST_SHOWN]]
    return ", ".join(shown) + (", ..." if len(items) > _MOST_SHOWN else "")


def _unfit(arch: str, what: str) -> InputError:
    hint = "Give the name of the network that was saved, or build it yourself with --factory module:callable."
    return InputError(f"The weights do not fit {arch}: {what}.", where=f"--arch {arch}", hint=hint)
