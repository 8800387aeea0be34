"""Which Fourier neural operator does a checkpoint of neuraloperator hold, and what does its release compute?

The library itself is not needed. Releases 0.2.0, 0.3.0, 1.0.2 and 2.0.0 differ in the names of their tensors, in which
frequencies these belong to, and in where activations stand; all of it is told from the tensors and from the settings
that the library saves beside them. Settings that would change the computation in another way are refused.
"""

import math
import pickle
import re
import reprlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NoReturn

import torch
from torch import Tensor, nn

from probes.errors import InputError
from probes.fno.factorised import LARGEST, dense, kind
from probes.fno.layers import CoordinateKind, Gate, Norm, Padding, Pointwise, SpectralConv
from probes.fno.li import Weights
from probes.fno.network import Block, BlockShape, FourierOperator, Layout

Release = Literal["0.2", "0.3", "1.x", "2.0", "1.x or 2.0"]

_MOST = 2 * LARGEST
_WIDEST = 2.0
_SINGLE = (torch.float32, torch.float64, torch.complex64, torch.complex128)
_CONVS = "fno_blocks.convs"
_RETRAIN = "Train the model without it, or audit another one."
_BELONG = "The metadata and the weights must be of the same model: give the two files that were saved together."


class _Sealed:
    def __new__(cls, *args: object, **kwargs: object) -> NoReturn:
        # A file only names these; one that builds or calls them is no checkpoint.
        raise pickle.UnpicklingError(f"GLOBAL {cls.__doc__}")


class _SpectralConvName(_Sealed):
    """neuralop.layers.spectral_convolution.SpectralConv"""  # noqa: D400


class _GeluName(_Sealed):
    """torch._C._nn.gelu"""  # noqa: D400


STANDINS = tuple((name, str(name.__doc__)) for name in (_SpectralConvName, _GeluName))
"""What a checkpoint's settings may name, for `read_pickle`: objects that can be named and compared, but not used."""

_ALLOWED: dict[str, tuple[object, ...]] = {
    "preactivation": (False, None),
    "complex_data": (False, None),
    "joint_factorization": (False, None),
    "non_linearity": (nn.functional.gelu, _GeluName),
    "conv_module": (_SpectralConvName,),
    "SpectralConv": (_SpectralConvName,),
    "norm": (None, "instance_norm", "group_norm"),
    "positional_embedding": ("grid", None),
    "fno_block_precision": ("full",),
    "incremental_n_modes": (None,),
}


@dataclass(frozen=True, slots=True)
class _Settings:
    """What the library saved beside the tensors; None where nothing is known of it."""

    values: Mapping[str, object] | None
    where: str

    def get(self, key: str, default: object = None) -> object:
        return default if self.values is None else self.values.get(key, default)

    def whole(self, key: str) -> int | None:
        value = self.get(key)
        return value if type(value) is int else None

    def modes(self, key: str) -> list[int] | None:
        value = self.get(key)
        if key == "n_modes" and value is None:
            value = [self.get(f"n_modes_{axis}") for axis in ("height", "width", "depth")]
            value = [count for count in value if count is not None]
        counts = value if isinstance(value, list | tuple) else [value]
        return [count for count in counts if type(count) is int] or None

    def wrong(self, key: str, why: str, hint: str = _RETRAIN) -> InputError:
        value = reprlib.repr(self.get(key))
        return InputError(f"{key} is {value}: {why}", where=f"{self.where}, metadata, key {key}", hint=hint)


def is_neuralop(tensors: Mapping[str, Tensor]) -> bool:
    """Tell whether tensors have the names of a neuraloperator network."""
    return any(name.startswith("fno_blocks.") for name in tensors)


def read_neuralop(
    tensors: Mapping[str, Tensor],
    metadata: Mapping[str, object] | None,
    *,
    where: str,
    padding: Padding | None = None,
    fixed_shift: bool = False,
) -> FourierOperator:
    """Build the network of a neuraloperator checkpoint.

    Parameters
    ----------
    tensors
        By name, without the prefix of DataParallel and without `_metadata`.
    metadata
        The `_metadata` of the state dict, or the content of the file of metadata. With None everything follows from
        the tensors, which do not show instance normalisation, a stabiliser or padding: the network is taken to have
        none of them; and from release 1 on, to append the coordinates of the grid.
    where
        File, for messages.
    padding
        In place of what the metadata say. On grids whose axes differ, release 0.2 mixes up the axes of its padding and
        returns another grid; here each axis gets its own.
    fixed_shift
        Whether the model is of a version after 2.0.0 whose spectra keep their place on grids of odd size.

    Raises
    ------
    InputError
        Where tensors and metadata contradict each other, or ask for what cannot be reproduced.
    """
    _check_tensors(tensors, where)
    weights = Weights(tensors, where)
    release, settings = _told(tensors, metadata, where)
    _check_settings(settings, release)
    network = _Network(weights, settings, release, fixed_shift=fixed_shift)
    lift, projection = network.lift(), network.projection()
    blocks = [network.block(place) for place in range(network.count)]
    if weights.unused:
        raise InputError(
            f"Nothing is known of {len(weights.unused)} tensors: {', '.join(weights.unused[:5])}.",
            where=where,
            hint="Only the FNO and TFNO of neuraloperator are read, saved whole and alone.",
        )
    coordinates, fields = network.coordinates(lift.channels[0])
    layout = Layout(
        family="neuralop",
        release=network.words,
        fields=fields,
        coordinates=coordinates,
        padding=network.padding(padding),
    )
    return FourierOperator(lift, blocks, projection, layout)


def _check_tensors(tensors: Mapping[str, Tensor], where: str) -> None:
    total = sum(value.numel() for value in tensors.values())
    if total > _MOST:
        raise InputError(f"The tensors claim {total} numbers; {_MOST} at most are read.", where=where)
    for name, value in tensors.items():
        foreign = {
            r"fno_blocks\.\d+\..*": "a network of several groups of blocks (UNO)",
            rf"{_CONVS}\.weight\.(tensor|core|weights|factors\.\w+)": "one tensor for all layers (joint_factorization)",
            r"fno_blocks\.norm\.\d+\.(mlp|norm|fr|fi)\..*": "batch_norm, ada_in or a complex norm",
            r".*\.(fr|fi)\..*": "complex_data",
        }
        for pattern, what in foreign.items():
            if re.fullmatch(pattern, name):
                raise InputError(f"The tensor {name} shows {what}, not reproduced here.", where=where, hint=_RETRAIN)
        if value.dtype not in _SINGLE:
            kept = str(value.dtype).removeprefix("torch.")
            raise InputError(f"{name} is of {kept}.", where=where, hint="Save the model in single precision.")
        if not bool(torch.isfinite(value).all()):
            raise InputError(f"{name} holds values that are not finite.", where=where, hint="Save the model again.")


def _told(
    tensors: Mapping[str, Tensor], metadata: Mapping[str, object] | None, where: str
) -> tuple[Release, _Settings]:
    """Return the release, and the settings with arguments that were given by place put under their names."""
    release: Release = "0.2" if "lifting.fc.weight" in tensors else "0.3"
    if not any(name.startswith(f"{_CONVS}.weight.") for name in tensors):
        recorded = metadata or {}
        late = "use_channel_mlp" in recorded or "_name" in recorded
        late = late or not any(name.startswith("fno_blocks.channel_mlp.") for name in tensors)
        # Every release before 2.0 records this setting, of each of its classes.
        release = "1.x" if "domain_padding_mode" in recorded else "2.0" if late else "1.x or 2.0"
    if metadata is None:
        return release, _Settings(None, where)
    settings = _Settings(metadata, where)
    name = settings.get("_name", "FNO")
    if not re.fullmatch(r"T?FNO([123]d)?", str(name)):
        raise settings.wrong("_name", "only FNO and TFNO are read.", "Audit an FNO.")
    axes = ("height", "width", "depth")[: int(str(name)[-2])] if str(name).endswith("d") else ()
    channels = ["in_channels", "out_channels"]
    names = [*(f"n_modes_{axis}" for axis in axes)] or ["n_modes"]
    names += ["hidden_channels", *channels] if axes or release == "0.3" else [*channels, "hidden_channels"]
    given = settings.get("args", ())
    if not isinstance(given, list | tuple) or len(given) > len(names):
        # Of these the metadata hold the default beside the value.
        raise settings.wrong("args", "it has more arguments without names than are read.", "Pass them by name.")
    return release, _Settings({**metadata, **dict(zip(names, given, strict=False))}, where)


def _check_settings(settings: _Settings, release: Release) -> None:
    for key, allowed in _ALLOWED.items():
        value = settings.get(key, allowed[0])
        # Release 0.3 takes the precision but never passes it on.
        if (key == "fno_block_precision" and release == "0.3") or any(value is one for one in allowed):
            continue
        if not isinstance(value, str | int) or value not in allowed:
            raise settings.wrong(key, "this cannot be reproduced here.")
    for key in ("output_scaling_factor", "resolution_scaling_factor"):
        if settings.get(key) is not None:
            raise settings.wrong(key, "networks that change the resolution cannot be reproduced here.")


class _Network:
    """The parts of one network, made from its weights and settings."""

    def __init__(self, weights: Weights, settings: _Settings, release: Release, *, fixed_shift: bool) -> None:
        self.weights, self.settings, self.release, self.fixed_shift = weights, settings, release, fixed_shift
        self.old = release in ("0.2", "0.3")
        self.mlp_name = "mlp" if self.old else "channel_mlp"
        names = list(weights.tensors)
        pattern = re.compile(rf"{_CONVS}\.weight\.(\d{{1,4}})\..*" if self.old else rf"{_CONVS}\.(\d{{1,4}})\.weight\..*")
        places = {int(found[1]) for name in names if (found := pattern.fullmatch(name))}
        if not places or places != set(range(len(places))):
            raise weights.wrong(f"The spectral weights {sorted(places)} are not numbered without gaps from 0.")
        shape = weights.tensor(f"{_CONVS}.bias" if self.old else f"{_CONVS}.0.bias").shape
        self.axes = len(shape) - 1 - self.old
        if self.axes not in (1, 2, 3):
            raise weights.wrong(f"The bias of shape {tuple(shape)} is that of no grid of 1 to 3 axes.")
        self.width = shape[int(self.old)]
        self.corners = 2 ** (self.axes - 1) if release == "0.2" else 1
        self.count = len(places) // self.corners
        if len(places) % self.corners or (self.old and shape[0] != self.count):
            raise weights.wrong(f"{len(places)} spectral weights do not make up the layers that the bias tells.")
        self.has_mlp = any(name.startswith(f"fno_blocks.{self.mlp_name}.") for name in names)
        self.has_norm = settings.get("norm") is not None or any(name.startswith("fno_blocks.norm.") for name in names)
        self.separable, self.entries = False, 0
        self._agree("n_layers", self.count)
        self._agree("hidden_channels", self.width)
        self.form = kind(self._parts(0))

    @property
    def words(self) -> str:
        """The release and the form of the weights, for the report."""
        version = self.release
        notes = [self.form, *["separable"] * self.separable]
        if self.fixed_shift and not self.old:
            notes.append("spectra mended at odd sizes")
        if self.settings.values is None and self.release != "0.2":
            notes.append("no metadata")
        return f"neuralop {version} ({', '.join(notes)})"

    def lift(self) -> Pointwise:
        """The perceptron before the blocks."""
        return self._perceptron(["lifting.fc"] if self.release == "0.2" else self._layers("lifting"), None, self.width)

    def projection(self) -> Pointwise:
        """The perceptron after the blocks."""
        names = ["projection.fc1", "projection.fc2"] if self.release == "0.2" else self._layers("projection")
        made = self._perceptron(names, self.width, None)
        self._agree("out_channels", made.channels[1])
        return made

    def coordinates(self, channels: int) -> tuple[CoordinateKind, int]:
        """Which coordinates are appended, and the number of fields, of all channels that the lift takes."""
        fields = self.settings.whole("in_channels")
        if self.old:
            self._agree("in_channels", channels)
            return "none", channels
        if fields is None:
            # Without settings the default is the likeliest; with too few channels it is impossible.
            appended = self.settings.get("positional_embedding", "grid") == "grid" and channels > self.axes
            fields = channels - self.axes * appended
        if fields < 1 or channels - fields not in (0, self.axes):
            raise self.settings.wrong("in_channels", f"the weights take {channels} on {self.axes} axes.", _BELONG)
        return "open" if channels > fields else "none", fields

    def padding(self, given: Padding | None) -> Padding:
        """The padding that was given, else that of the settings."""
        if given is not None:
            if len(given.amounts) not in (0, self.axes):
                raise self.weights.wrong(
                    f"The padding has {len(given.amounts)} amounts, the grid {self.axes} axes.", "Give one for each axis."
                )
            return given
        shares = self.settings.get("domain_padding")
        if type(shares) in (int, float):
            shares = [shares] * self.axes
        # The library pads for numbers and lists alone, tuples leave it unpadded.
        if not isinstance(shares, list):
            return Padding()
        amounts = [float(share) for share in shares if isinstance(share, int | float) and 0 <= share <= _WIDEST]
        if len(amounts) != len(shares) or len(shares) != self.axes:
            raise self.settings.wrong("domain_padding", f"not {self.axes} shares of the grid from 0 to {_WIDEST:g}.")
        mode = "symmetric" if self.release == "2.0" else self.settings.get("domain_padding_mode", "one-sided")
        if str(mode).lower() not in ("one-sided", "symmetric"):
            raise self.settings.wrong("domain_padding_mode", "neither one-sided nor symmetric.")
        symmetric = str(mode).lower() == "symmetric"
        return Padding(amounts=tuple(amounts), fraction=True, symmetric=symmetric) if any(amounts) else Padding()

    def block(self, place: int) -> Block:
        """One block, with the activations where the release has them."""
        spectral, width = self._spectral(place), self.width
        skip = self._skip("fno_skip", f"fno_blocks.fno_skips.{place}")
        mlp = mlp_skip = None
        if self.has_mlp or self.release == "1.x":
            mlp = self._perceptron(self._layers(f"fno_blocks.{self.mlp_name}.{place}"), width, width)
            mlp_skip = self._skip(f"{self.mlp_name}_skip", f"fno_blocks.{self.mlp_name}_skips.{place}")
        last = place == self.count - 1
        activated = not last
        if self.release == "0.2":
            # Release 0.2 compares the place with what is left of the layers: its later half has no activation.
            activated = self.has_mlp or 2 * place < self.count
        elif self.release == "0.3":
            activated = self.has_mlp or not last
        shape = BlockShape(
            activated=activated,
            activated_again=not last and (self.has_mlp or not self.old),
            stabilised=self.settings.get("stabilizer") == "tanh",
        )
        each = 2 if self.has_mlp or not self.old else 1
        norms = [self._norm(place * each + number) if self.has_norm else None for number in range(each)]
        ends = (None, *norms, None)[:3]
        return Block(spectral, skip, shape, nn.functional.gelu, mlp=mlp, mlp_skip=mlp_skip, norms=ends)

    def _agree(self, key: str, held: int) -> None:
        told = self.settings.whole(key)
        if told is not None and told != held:
            raise self.settings.wrong(key, f"the weights have {held}.", _BELONG)

    def _layers(self, name: str) -> list[str]:
        count = sum(re.fullmatch(rf"{re.escape(name)}\.fcs\.\d+\.weight", key) is not None for key in self.weights.tensors)
        return [f"{name}.fcs.{layer}" for layer in range(max(count, 1))]

    def _perceptron(self, names: Sequence[str], first: int | None, last: int | None) -> Pointwise:
        layers: list[tuple[Tensor, Tensor | None]] = []
        for place, name in enumerate(names):
            start = layers[-1][0].shape[0] if layers else first
            layers.append(self.weights.matrix(name, (start, last if place == len(names) - 1 else None)))
        if self.release == "0.2" and ".mlp." in names[0]:
            # Release 0.2 ends the perceptron within a block with an activation: a further layer changes nothing.
            layers.append((torch.eye(layers[-1][0].shape[0]), None))
        return Pointwise(layers, nn.functional.gelu)

    def _skip(self, key: str, name: str) -> Pointwise | Gate | None:
        if f"{name}.conv.weight" in self.weights.tensors:
            return self._perceptron([f"{name}.conv"], self.width, self.width)
        if f"{name}.weight" in self.weights.tensors:
            scale = self.weights.tensors[f"{name}.weight"]
            if scale.shape[0] == 1 and scale.numel() == self.width:
                return Gate(self.weights.tensor(f"{name}.weight"))
            return self._perceptron([name], self.width, self.width)
        told = self.settings.get(key, "")
        if told == "identity" or (self.settings.values is None and self.release in ("0.2", "0.3", "1.x")):
            return Gate(None)
        if told is None and self.release == "2.0":
            return None
        if self.settings.values is None:
            raise self.weights.wrong(
                f"There is no {name}.weight: that can mean {key} = 'identity' as well as none.",
                "Give the metadata that were saved beside the weights.",
            )
        raise self.settings.wrong(key, f"there is no {name}.weight.", _BELONG)

    def _norm(self, number: int) -> Norm:
        name = f"fno_blocks.norm.{number}"
        if self.settings.get("norm") == "instance_norm":
            return Norm(self.width)
        scale, shift = self.weights.tensor(f"{name}.weight"), self.weights.tensor(f"{name}.bias")
        if scale.shape != (self.width,) or shift.shape != (self.width,):
            raise self.weights.wrong(f"{name} has no scale and shift of {self.width} channels.")
        return Norm(1, scale, shift)

    def _parts(self, number: int) -> dict[str, Tensor]:
        prefix = f"{_CONVS}.weight.{number}." if self.old else f"{_CONVS}.{number}.weight."
        names = [name for name in self.weights.tensors if name.startswith(prefix)]
        return {name.removeprefix(prefix): self.weights.tensor(name) for name in names}

    def _kernel(self, number: int) -> Tensor:
        where = f"{self.weights.where}, {_CONVS}, weight {number}"
        kernel = dense(self._parts(number), where=where)
        self.entries += kernel.numel()
        channels = kernel.dim() - self.axes
        if self.entries > _MOST or channels not in (1, 2) or any(size != self.width for size in kernel.shape[:channels]):
            raise InputError(
                f"A spectral weight of shape {tuple(kernel.shape)} does not fit {self.width} channels on {self.axes} "
                f"axes, or is too large.",
                where=where,
                hint="Save the model again.",
            )
        self.separable = channels == 1
        if self.separable and self.release == "0.3":
            raise self.weights.wrong("Release 0.3 cannot run separable weights.", _RETRAIN)
        return kernel

    def _spectral(self, place: int) -> SpectralConv:
        kernels = [self._kernel(self.corners * place + corner) for corner in range(self.corners)]
        if any(kernel.shape != kernels[0].shape or 0 in kernel.shape for kernel in kernels):
            raise self.weights.wrong(f"The spectral weights of layer {place} are empty or differ in shape.")
        channels = kernels[0].dim() - self.axes
        if self.release == "0.2":
            # The last of the axes changes its sign fastest from one corner to the next.
            for axis in range(self.axes - 2, -1, -1):
                pairs = zip(kernels[::2], kernels[1::2], strict=True)
                kernels = [torch.cat(pair, dim=axis + channels) for pair in pairs]
            halves = [size // 2 for size in kernels[0].shape[channels:-1]]
            full = [[*range(half), *range(-half, 0)] for half in halves]
        else:
            kernels = [self._cut(kernels[0], channels)]
            full = [[*range(-(size // 2), size - size // 2)] for size in kernels[0].shape[channels:-1]]
        biases = self.weights.tensor(f"{_CONVS}.bias" if self.old else f"{_CONVS}.{place}.bias")
        bias = biases[place] if self.old else biases
        if bias.numel() != self.width or bias.is_complex():
            raise self.weights.wrong(f"The bias of layer {place} has {bias.numel()} entries for {self.width} channels.")
        odd = any(len(axis) % 2 for axis in full) and not self.fixed_shift and self.release != "0.2"
        if odd and self.release == "1.x or 2.0":
            raise self.weights.wrong(
                f"Weights of {[len(axis) for axis in full]} frequencies belong to other ones in 1.x than in 2.0.",
                "Give the metadata that were saved beside the weights: they tell the release.",
            )
        shifted = self.release != "0.2" and not self.fixed_shift
        return SpectralConv(
            kernels[0],
            [*full, range(kernels[0].shape[-1])],
            bias,
            shifted_at_odd=shifted,
            lowered_at_even=odd and self.release in ("0.3", "1.x"),
        )

    def _cut(self, kernel: Tensor, channels: int) -> Tensor:
        """Take the modes in use out of weights made for more of them, or check that all are."""
        modes, most = self.settings.modes("n_modes"), self.settings.modes("max_n_modes")
        if modes is None:
            return kernel
        used, held = [*modes[:-1], modes[-1] // 2 + 1], list(kernel.shape[channels:])
        if held != (used if most is None else most) or len(used) != self.axes or math.prod(used) < 1:
            raise self.settings.wrong("n_modes" if most is None else "max_n_modes", f"weights are {held}.", _BELONG)
        for axis, (count, size) in enumerate(zip(used, held, strict=True)):
            if not 0 < count <= size:
                raise self.settings.wrong("n_modes", f"more than the {size} of max_n_modes.", _BELONG)
            start = 0 if axis == self.axes - 1 else (size - count) // 2
            kernel = kernel.narrow(axis + channels, start, count)
        return kernel
