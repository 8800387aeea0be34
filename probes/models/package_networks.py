"""Build networks of torchvision and timm by name, for weights that were saved from them.

The packages are extras. Of them only the code that makes a network runs, never code of the file; nothing is
downloaded. A network is made on the device meta first, where a shape costs nothing, and held against the weights.
"""

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from probes.core import library_imports
from probes.core.errors import InputError, first_line
from probes.files.images import FILTERS, Resizing
from probes.files.names import suggest
from probes.models.architectures import fit

PACKAGES = ("torchvision", "timm")
EXTRA = "pip install 'miles-audit[vision]'"
_NAME = re.compile(r"[A-Za-z0-9_]+(\.[A-Za-z0-9_]+)?", re.ASCII)
_COUNTER = "num_batches_tracked"
_SLOW = ("inception_v3", "googlenet")
"""Networks of torchvision that draw all weights slowly, and warn, unless they are told not to."""
_CLASSES = 1000
_FILTERS = {name: number for number, name in FILTERS.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class PackagedNetwork:
    """A network with its weights, the (c, h, w) it was made for, and how its package standardises pixels in [0, 1].

    `mean` and `std` are empty where the package tells none for so many channels.
    """

    net: nn.Module
    shape: tuple[int, int, int]
    mean: tuple[float, ...]
    std: tuple[float, ...]
    origin: str


@dataclass(frozen=True, slots=True)
class _Recipe:
    """How a network is made, given arguments, and what its package says of its input, first and last layer."""

    make: Callable[..., nn.Module]
    shape: tuple[int, int, int]
    mean: tuple[float, ...]
    std: tuple[float, ...]
    first: str = ""
    head: str = ""
    classes: int = _CLASSES


def packaged(arch: str) -> bool:
    """Tell whether a name is one of a package.

    >>> packaged("timm:resnet18.a1_in1k"), packaged("resnet18")
    (True, False)
    """
    return arch.partition(":")[0] in PACKAGES and ":" in arch


def check_packaged(arch: str) -> None:
    """Check that the package is there and knows the name.

    Raises
    ------
    InputError
        Where it is not installed or cannot be imported, or has no such network.
    """
    package, _, name = arch.partition(":")
    known = _known(package, arch)
    # Some names of timm's would fetch a model, or read one from elsewhere.
    if not _NAME.fullmatch(name) or name.partition(".")[0] not in known:
        near = suggest(name, tuple(sorted(known))[:2000])
        raise InputError(f"{package} has no network {name[:60]!r}.", where=f"--arch {arch[:80]}", hint=near)


def build_packaged(arch: str, tensors: Mapping[str, Tensor]) -> PackagedNetwork:
    """Build the network "PACKAGE:NAME" with these weights, float32, without any normalisation of its input.

    The number of classes is read off the weights, and for timm that of the channels.

    Raises
    ------
    InputError
        As of `check_packaged`, and where the weights are not exactly those that the network has.
    """
    check_packaged(arch)
    package, _, name = arch.partition(":")
    recipe = _torchvision(name) if package == "torchvision" else _timm(name)
    kept = _arguments(recipe, tensors, arch)
    net = _filled(_sketched(recipe, kept, arch), recipe, kept, tensors, arch)
    channels = kept.get("in_chans", recipe.shape[0])
    fits = len(recipe.mean) == channels
    return PackagedNetwork(
        net=net,
        shape=(channels, *recipe.shape[1:]),
        mean=recipe.mean if fits else (),
        std=recipe.std if fits else (),
        origin=f"those that {package} gives for {name}",
    )


def package_resizing(arch: str) -> Resizing:
    """Return how the package resizes pictures for the network "PACKAGE:NAME".

    Raises
    ------
    InputError
        As of `check_packaged`, and where it does so in another way than by a shorter side and the centre.
    """
    check_packaged(arch)
    package, _, name = arch.partition(":")
    found = _torchvision_resizing(name) if package == "torchvision" else _timm_resizing(name)
    if found is None:
        hint = "Give two numbers instead: --resize 256 --crop 224 (shorter side, then the centre)."
        raise InputError(f"{package} does not say how pictures for {name} are resized.", where="--resize", hint=hint)
    return found


def _torchvision_resizing(name: str) -> Resizing | None:
    weights = list(library_imports.torchvision().models.get_model_weights(name))
    if not weights:
        return None
    preset = weights[0].transforms()
    resample = _FILTERS.get(str(getattr(preset.interpolation, "value", preset.interpolation)))
    if resample is None:
        return None
    crop, short = int(preset.crop_size[0]), int(preset.resize_size[0])
    return Resizing(short=short, crop=(crop, crop), resample=resample, rounded=True)


def _timm_resizing(name: str) -> Resizing | None:
    config = _timm_config(name)
    resample = _FILTERS.get(str(config.get("interpolation")))
    sides = tuple(config.get("input_size") or ())[1:]
    if resample is None or config.get("crop_mode", "center") != "center" or len(sides) != 2 or sides[0] != sides[1]:
        return None
    side = int(sides[0])
    short = math.floor(side / float(config.get("crop_pct") or 0.875))
    return Resizing(short=short, crop=(side, side), resample=resample, rounded=True)


def _known(package: str, arch: str) -> frozenset[str]:
    try:
        if package == "torchvision":
            models = library_imports.torchvision().models
            return frozenset(models.list_models(module=models))
        return frozenset(library_imports.timm().list_models())
    except ModuleNotFoundError as error:
        missing = str(error.name or package).partition(".")[0]
        raise InputError(f"{missing} is not installed.", where=f"--arch {arch[:80]}", hint=f"{EXTRA}") from None
    except (OSError, ImportError, RuntimeError) as error:
        raise InputError(
            f"{package} cannot be imported: {first_line(error)}",
            where=f"--arch {arch[:80]}",
            hint=f"Install the release that fits this torch ({torch.__version__}): {EXTRA}",
        ) from error


def _torchvision(name: str) -> _Recipe:
    models = library_imports.torchvision().models
    weights = list(models.get_model_weights(name))
    side, mean, std = 224, (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
    if weights:
        # The presets are plain numbers: nothing is fetched.
        preset = weights[0].transforms()
        side, mean, std = int(preset.crop_size[0]), tuple(preset.mean), tuple(preset.std)
    more = {"init_weights": False} if name in _SLOW else {}

    def make(**given: Any) -> nn.Module:
        net: nn.Module = models.get_model(name, weights=None, **more, **given)
        return net

    return _Recipe(make, (3, side, side), mean, std)


def _timm(name: str) -> _Recipe:
    package = library_imports.timm()
    config = _timm_config(name)
    channels, height, width = config.get("input_size") or (3, 224, 224)
    first, head = (config.get(key) or "" for key in ("first_conv", "classifier"))

    def make(**given: Any) -> nn.Module:
        net: nn.Module = package.create_model(name, pretrained=False, **given)
        return net

    return _Recipe(
        make,
        (int(channels), int(height), int(width)),
        tuple(config.get("mean") or ()),
        tuple(config.get("std") or ()),
        first if isinstance(first, str) else "",
        head if isinstance(head, str) else "",
        int(config.get("num_classes") or _CLASSES),
    )


def _timm_config(name: str) -> dict[str, Any]:
    models = library_imports.timm().models
    config = models.get_pretrained_cfg(name) or models.get_pretrained_cfg(name.partition(".")[0])
    return dict(config.to_dict()) if config is not None else {}


def _arguments(recipe: _Recipe, tensors: Mapping[str, Tensor], arch: str) -> dict[str, int]:
    """Return the numbers of classes and of channels by which the weights differ from the published network."""
    kept: dict[str, int] = {}
    first = tensors.get(f"{recipe.first}.weight")
    if first is not None and first.ndim == 4 and 0 < first.shape[1] != recipe.shape[0]:
        kept["in_chans"] = int(first.shape[1])
    head = tensors.get(f"{recipe.head}.weight")
    if head is not None and head.ndim:
        return kept | ({"num_classes": len(head)} if len(head) else {})
    shapes = _sketched(recipe, kept, arch).state_dict()
    heads = {
        int(tensors[name].shape[0])
        for name, value in shapes.items()
        if name in tensors and value.ndim and value.shape[0] == recipe.classes and tensors[name].ndim == value.ndim
        if tensors[name].shape[1:] == value.shape[1:]
    } - {recipe.classes}
    if len(heads) == 1 and 0 not in heads:
        kept["num_classes"] = heads.pop()
    return kept


def _sketched(recipe: _Recipe, kept: Mapping[str, int], arch: str) -> nn.Module:
    """Return the network on the device meta; on the CPU where its code computes with its numbers as it is made."""
    try:
        with torch.random.fork_rng(devices=[]), torch.device("meta"):
            return recipe.make(**kept)
    except (NotImplementedError, RuntimeError):
        return _made(recipe, kept, arch)


def _made(recipe: _Recipe, kept: Mapping[str, int], arch: str) -> nn.Module:
    try:
        with torch.random.fork_rng(devices=[]):
            return recipe.make(**kept)
    except Exception as error:
        raise InputError(
            f"The network cannot be made: {first_line(error)}",
            where=f"--arch {arch}",
            hint="Build it yourself with --factory module:callable --allow-code.",
        ) from error


def _filled(
    sketch: nn.Module, recipe: _Recipe, kept: Mapping[str, int], tensors: Mapping[str, Tensor], arch: str
) -> nn.Module:
    """Return the network with the weights; buffers that are no weights stay as its code makes them."""
    needed = sketch.state_dict()
    fitted = fit(sketch, tensors, arch)
    weights = {}
    for name, value in needed.items():
        if not value.is_floating_point():
            continue
        if not fitted[name].is_floating_point():
            raise InputError(
                f"The weights do not fit {arch}: {name} has numbers of type {fitted[name].dtype}.",
                where=f"--arch {arch}",
                hint="Save the weights of the plain float32 model.",
            )
        weights[name] = fitted[name].detach().float().contiguous()
    # Indices in a file could point anywhere; and what is in no state dict has to be computed.
    own = {name for name, value in sketch.named_buffers() if name not in needed or not value.is_floating_point()}
    if all(name.endswith(_COUNTER) for name in own) and all(value.is_meta for value in sketch.parameters()):
        counters = {name: torch.zeros_like(needed[name], device="cpu") for name in own}
        sketch.load_state_dict({**weights, **counters}, assign=True)
        return sketch.eval()
    net = _made(recipe, kept, arch)
    net.load_state_dict(weights, strict=False)
    return net.eval()
