"""Build a Fourier neural operator from a `.mdlus` archive of NVIDIA PhysicsNeMo (formerly Modulus).

The archive is a tar, or since 2025 a zip, of three files: args.json with the arguments of the model's constructor,
metadata.json with the release, model.pt with its tensors. The arguments say all that the tensors do not.
"""

import errno
import io
import shutil
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import IO, Any

import torch
from torch import Tensor
from torch.nn import functional

from probes.core.errors import InputError
from probes.files import zips
from probes.files.json_values import parse_json
from probes.files.pickles import read_pickle
from probes.operators.fno.layers import Activation, Padding, Pointwise
from probes.operators.fno.li import Weights, check_plain
from probes.operators.fno.network import Block, BlockShape, FourierOperator, Layout

_TEXT_LIMIT = 1 << 20
_MEMBER_LIMIT = 1000
_NAMES = ("args.json", "metadata.json", "model.pt")
_AGAIN = "Save the model again with its save() method."
_FILE_VERSION = "0.1.0"
_MODES = ("constant", "reflect", "replicate", "circular")
_ARGUMENTS: Mapping[str, object] = {
    "in_channels": None, "out_channels": None, "decoder_layers": 1, "decoder_layer_size": 32,
    "decoder_activation_fn": "silu", "dimension": 2, "latent_channels": 32, "num_fno_layers": 4, "num_fno_modes": 16,
    "padding": 8, "padding_type": "constant", "activation_fn": "gelu", "coord_features": True,
}  # fmt: skip
"""Arguments of the model's constructor, with their defaults."""


def _identity(x: Tensor) -> Tensor:
    return x


def _squareplus(x: Tensor) -> Tensor:
    return (x + torch.sqrt(x * x + 4)) / 2


ACTIVATIONS: Mapping[str, Activation] = {
    "relu": functional.relu, "leaky_relu": partial(functional.leaky_relu, negative_slope=0.1),
    "relu6": functional.relu6, "elu": functional.elu, "celu": functional.celu, "selu": functional.selu,
    "silu": functional.silu, "gelu": functional.gelu, "sin": torch.sin, "sigmoid": torch.sigmoid,
    "logsigmoid": functional.logsigmoid, "softplus": functional.softplus, "softshrink": functional.softshrink,
    "softsign": functional.softsign, "tanh": torch.tanh, "tanhshrink": functional.tanhshrink,
    "threshold": partial(functional.threshold, threshold=1.0, value=1.0), "hardtanh": functional.hardtanh,
    "identity": _identity, "squareplus": _squareplus,
}  # fmt: skip
"""Activations without weights of their own, by the library's names for them."""


def read_physicsnemo(path: Path, *, padding: Padding | None = None) -> FourierOperator:
    """Build the network of a `.mdlus` archive.

    Parameters
    ----------
    padding
        Amounts that replace those of the archive; the mode stays the archive's.

    Raises
    ------
    InputError
        Where the archive is damaged or hostile, or holds a model that cannot be reproduced.
    """
    args, metadata, tensors = _contents(path)
    where = f"{path}, args.json"
    _check_model(args, metadata, path)
    values = _arguments(args["__args__"], where)
    axes = _whole(values, "dimension", where)
    if not 1 <= axes <= 3:
        raise _cannot("dimension", axes, where, "Grids of 1, 2 and 3 dimensions are read.")
    weights = Weights(tensors, f"{path}, model.pt")
    recorded = _padding(values, axes, where)
    layout = Layout(
        family="physicsnemo",
        release=_release(metadata),
        fields=_whole(values, "in_channels", where),
        coordinates="closed" if values["coord_features"] is True else "none",
        padding=recorded if padding is None else replace(padding, mode=recorded.mode),
    )
    lift, blocks = _encoder(weights, values, axes, layout, where)
    operator = FourierOperator(lift, blocks, _decoder(weights, values, where), layout)
    # An empty buffer by which the library's modules know their device.
    rest = [name for name in weights.unused if not name.endswith("device_buffer")]
    if rest:
        raise weights.wrong(f"model.pt holds tensors that no argument explains: {', '.join(rest[:5])}.", _AGAIN)
    return operator


def _encoder(
    weights: Weights, values: Mapping[str, Any], axes: int, layout: Layout, where: str
) -> tuple[Pointwise, list[Block]]:
    width = _whole(values, "latent_channels", where)
    inputs = layout.fields + (0 if layout.coordinates == "none" else axes)
    activation = _activation(values, "activation_fn", where)
    lift = Pointwise(
        [
            weights.matrix("spec_encoder.lift_network.0.conv", (inputs, width // 2)),
            weights.matrix("spec_encoder.lift_network.2.conv", (width // 2, width)),
        ],
        activation,
    )
    blocks = []
    count = _whole(values, "num_fno_layers", where)
    for index in range(count):
        spectral = weights.spectral(f"spec_encoder.spconv_layers.{index}", axes, width)
        _check_modes(values, tuple(max(axis) + 1 for axis in spectral.frequencies), where)
        skip = Pointwise([weights.matrix(f"spec_encoder.conv_layers.{index}", (width, width))], activation)
        blocks.append(Block(spectral, skip, BlockShape(activated=index < count - 1), activation))
    return lift, blocks


def _decoder(weights: Weights, values: Mapping[str, Any], where: str) -> Pointwise:
    activation = _activation(values, "decoder_activation_fn", where)
    channels, layers = _whole(values, "latent_channels", where), []
    for index in range(_whole(values, "decoder_layers", where, least=0)):
        size = _whole(values, "decoder_layer_size", where)
        layers.append(weights.matrix(f"decoder_net.layers.{index}.linear", (channels, size)))
        channels = size
    outputs = _whole(values, "out_channels", where)
    return Pointwise([*layers, weights.matrix("decoder_net.final_layer.linear", (channels, outputs))], activation)


def _check_model(args: Mapping[str, Any], metadata: Mapping[str, Any], path: Path) -> None:
    if args.get("__name__") != "FNO":
        raise _cannot("__name__", args.get("__name__"), f"{path}, args.json", "Only its model FNO is read.")
    if not isinstance(args.get("__args__"), dict):
        raise _cannot("__args__", args.get("__args__"), f"{path}, args.json", _AGAIN)
    version = metadata.get("mdlus_file_version", _FILE_VERSION)
    if version != _FILE_VERSION:
        raise _cannot("mdlus_file_version", version, f"{path}, metadata.json", f"Version {_FILE_VERSION} is read.")


def _release(metadata: Mapping[str, Any]) -> str:
    for key, name in (("physicsnemo_version", "PhysicsNeMo"), ("modulus_version", "Modulus")):
        if isinstance(metadata.get(key), str):
            return f"{name} {ascii(metadata[key])[1:-1][:40]}"
    return "release not told"


def _arguments(arguments: Mapping[str, Any], where: str) -> dict[str, Any]:
    for name, value in arguments.items():
        if name not in _ARGUMENTS:
            raise _cannot(name, value, where, f"Arguments that are known: {', '.join(_ARGUMENTS)}.")
    values = {**_ARGUMENTS, **arguments}
    if not isinstance(values["coord_features"], bool):
        raise _cannot("coord_features", values["coord_features"], where, "It is true or false.")
    return values


def _whole(values: Mapping[str, Any], key: str, where: str, *, least: int = 1) -> int:
    value = values[key]
    # A limit far above any model keeps a lying number from costing time.
    if type(value) is not int or not least <= value <= 1 << 20:
        raise _cannot(key, value, where, f"It is a whole number from {least}.")
    return value


def _activation(values: Mapping[str, Any], key: str, where: str) -> Activation:
    name = values[key]
    if not isinstance(name, str) or name.lower() not in ACTIVATIONS:
        raise _cannot(key, name, where, f"Activations that are reproduced: {', '.join(ACTIVATIONS)}.")
    return ACTIVATIONS[name.lower()]


def _padding(values: Mapping[str, Any], axes: int, where: str) -> Padding:
    cells, mode = values["padding"], values["padding_type"]
    if mode not in _MODES:
        raise _cannot("padding_type", mode, where, f"Known: {', '.join(_MODES)}.")
    cells = [cells] * axes if type(cells) is int else cells
    if not isinstance(cells, list) or not all(type(one) is int and 0 <= one <= 1 << 20 for one in cells):
        raise _cannot("padding", values["padding"], where, "It is a number of cells, or a list of one an axis.")
    # As the library does with a list of another length.
    cells = [*cells, 0, 0, 0][:axes]
    return Padding(amounts=tuple(cells) if any(cells) else (), mode=mode)


def _check_modes(values: Mapping[str, Any], held: tuple[int, ...], where: str) -> None:
    modes = values["num_fno_modes"]
    modes = [modes] * len(held) if type(modes) is int else modes
    if not isinstance(modes, list) or tuple(modes[: len(held)]) != held:
        raise _cannot("num_fno_modes", values["num_fno_modes"], where, f"The weights hold {held} modes.")


def _cannot(key: str, value: object, where: str, hint: str) -> InputError:
    shown = ascii(value)[:80]
    return InputError(f"The model cannot be reproduced: {key} is {shown}.", where=f"{where}, key {key}", hint=hint)


def _contents(path: Path) -> tuple[dict[str, Any], dict[str, Any], dict[str, Tensor]]:
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "model.pt"
        # Only the archive is read in this block: errors in the weights have messages of their own.
        with _opened(path) as (sizes, open_member):
            _check_sizes(sizes, path)
            both = [_object(open_member(name), f"{path}, {name}") for name in _NAMES[:2]]
            with copy.open("wb") as target:
                shutil.copyfileobj(open_member("model.pt"), target)
        tensors = _tensors(copy, f"{path}, model.pt")
    return both[0], both[1], tensors


def _check_sizes(sizes: Mapping[str, int], path: Path) -> None:
    missing = [name for name in _NAMES if name not in sizes]
    if missing:
        raise InputError(f"The archive holds no {', '.join(missing)}.", where=str(path), hint=_AGAIN)
    held = path.stat().st_size
    for name, size in sizes.items():
        # The library compresses nothing, so no part can be larger than the whole.
        limit = held if name == "model.pt" else min(held, _TEXT_LIMIT)
        if size > limit:
            raise InputError(
                f"The archive's {name} would be {size} bytes long, more than the {limit} that it can be.",
                where=str(path),
                hint=_AGAIN,
            )


def _object(file: IO[bytes], where: str) -> dict[str, Any]:
    try:
        text = file.read(_TEXT_LIMIT).decode("utf-8")
    except UnicodeDecodeError:
        raise InputError("This is not UTF-8 text.", where=where, hint=_AGAIN) from None
    try:
        value = parse_json(text, where)
    except InputError as error:
        raise InputError(error.message, where=where, hint=_AGAIN) from None
    if not isinstance(value, dict):
        raise InputError(f"The JSON is a {type(value).__name__}, not an object.", where=where, hint=_AGAIN)
    return value


def _tensors(copy: Path, where: str) -> dict[str, Tensor]:
    try:
        content = read_pickle(copy)
    except InputError as error:
        raise InputError(error.message, where=where, hint=error.hint) from None
    if not isinstance(content, Mapping) or not all(isinstance(value, Tensor) for value in content.values()):
        raise InputError("model.pt holds something else than tensors by name.", where=where, hint=_AGAIN)
    tensors = {str(name): value for name, value in content.items()}
    check_plain(tensors, where)
    return tensors


_Sizes = dict[str, int]
_Member = Callable[[str], IO[bytes]]


@contextmanager
def _opened(path: Path) -> Iterator[tuple[_Sizes, _Member]]:
    """Yield the sizes of the three files of a tar or zip, and a function that opens one; nothing is unpacked."""
    damaged = (tarfile.TarError, zipfile.BadZipFile, EOFError, NotImplementedError, RuntimeError, ValueError)
    try:
        # A tar that holds a zip ends like a zip: the tar has to be tried first, as the library does.
        if _is_tar(path):
            with tarfile.open(path, "r:") as tar:
                yield _tar_members(tar, path)
        else:
            # A message about this format, where the file has no list of entries at all.
            listed = zips.entries(path) if zipfile.is_zipfile(path) else []
            with zipfile.ZipFile(path) as archive:
                yield _zip_members(archive, listed, path)
    except (*damaged, OSError) as error:
        # An archive may contain offsets before its beginning; a full disk is another error.
        if isinstance(error, OSError) and error.errno != errno.EINVAL:
            raise
        raise InputError(
            f"The archive is damaged, or neither a tar nor a zip: {type(error).__name__}.",
            where=str(path),
            hint="Fetch or save it again.",
        ) from None


def _is_tar(path: Path) -> bool:
    with path.open("rb") as file:
        head = file.read(512)
    try:
        tarfile.TarInfo.frombuf(head, "utf-8", "surrogateescape")
    except tarfile.HeaderError:
        return False
    return True


def _tar_members(tar: tarfile.TarFile, path: Path) -> tuple[_Sizes, _Member]:
    found: dict[str, tarfile.TarInfo] = {}
    for index, member in enumerate(tar):
        if index == _MEMBER_LIMIT:
            raise _crowded(path)
        name = member.name.removeprefix("./")
        # The library writes no links and no sparse files.
        if name in _NAMES and member.isreg() and not member.issparse():
            if name in found:
                raise _twice(name, path)
            found[name] = member

    def opened(name: str) -> IO[bytes]:
        return tar.extractfile(found[name]) or io.BytesIO()

    return {name: member.size for name, member in found.items()}, opened


def _zip_members(archive: zipfile.ZipFile, listed: Sequence[zipfile.ZipInfo], path: Path) -> tuple[_Sizes, _Member]:
    if len(listed) > _MEMBER_LIMIT:
        raise _crowded(path)
    found = {entry.filename: entry for entry in listed if entry.filename in _NAMES}
    if any(entry.compress_type != zipfile.ZIP_STORED or entry.flag_bits & 1 for entry in found.values()):
        raise InputError("The archive is compressed or encrypted.", where=str(path), hint=_AGAIN)
    return {name: entry.file_size for name, entry in found.items()}, lambda name: archive.open(found[name])


def _crowded(path: Path) -> InputError:
    return InputError(f"The archive lists more than {_MEMBER_LIMIT} files.", where=str(path), hint=_AGAIN)


def _twice(name: str, path: Path) -> InputError:
    return InputError(f"The archive holds {name} twice.", where=str(path), hint=_AGAIN)
