"""Build a Fourier neural operator from a checkpoint of neuraloperator, as its release computes it.

The library itself is not needed. Releases 0.2.0, 0.3.0, 1.0.2 and 2.0.0 differ in the names of their tensors, in which
frequencies these belong to, and in where activations are; all of it is found in the tensors and in the settings
that the library saves beside them. Settings that would change the computation in another way are refused.
"""

import re
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from probes.core.errors import InputError
from probes.operators.fno.factorised import dense, kind
from probes.operators.fno.layers import CoordinateKind, Gate, Norm, Padding, Pointwise, SpectralConv
from probes.operators.fno.li import Weights
from probes.operators.fno.network import Block, BlockShape, FourierOperator, Layout
from probes.operators.fno.neuralop_settings import (
    BELONG,
    CONVS,
    MOST,
    RETRAIN,
    STANDINS,
    Release,
    Settings,
    check_settings,
    check_tensors,
    recorded_settings,
)

__all__ = ["STANDINS", "is_neuralop", "read_neuralop"]

_WIDEST = 2.0


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
        Instead of what the metadata say. On grids whose axes differ, release 0.2 mixes up the axes of its padding and
        returns another grid; here each axis gets its own.
    fixed_shift
        Whether the model is of a version after 2.0.0 whose spectra keep their place on grids of odd size.

    Raises
    ------
    InputError
        Where tensors and metadata contradict each other, or ask for what cannot be reproduced.
    """
    check_tensors(tensors, where)
    weights = Weights(tensors, where)
    release, settings = recorded_settings(tensors, metadata, where)
    check_settings(settings, release)
    network = _Network(weights, settings, release, fixed_shift=fixed_shift)
    lift, projection = network.lift(), network.projection()
    blocks = [network.block(index) for index in range(network.count)]
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


class _Network:
    """The parts of one network, made from its weights and settings."""

    def __init__(self, weights: Weights, settings: Settings, release: Release, *, fixed_shift: bool) -> None:
        self.weights, self.settings, self.release, self.fixed_shift = weights, settings, release, fixed_shift
        self.old = release in ("0.2", "0.3")
        self.mlp_name = "mlp" if self.old else "channel_mlp"
        names = list(weights.tensors)
        pattern = re.compile(rf"{CONVS}\.weight\.(\d{{1,4}})\..*" if self.old else rf"{CONVS}\.(\d{{1,4}})\.weight\..*")
        numbers = {int(found[1]) for name in names if (found := pattern.fullmatch(name))}
        if not numbers or numbers != set(range(len(numbers))):
            raise weights.wrong(f"The spectral weights {sorted(numbers)} are not numbered without gaps from 0.")
        # Old releases keep the biases of all layers in one tensor, (layers, width, 1, ...), later ones one a layer.
        shape = weights.tensor(f"{CONVS}.bias" if self.old else f"{CONVS}.0.bias").shape
        self.axes = len(shape) - 1 - self.old
        if self.axes not in (1, 2, 3):
            raise weights.wrong(f"The bias of shape {tuple(shape)} is that of no grid of 1 to 3 axes.")
        self.width = shape[int(self.old)]
        self.corners = 2 ** (self.axes - 1) if release == "0.2" else 1
        self.count = len(numbers) // self.corners
        if len(numbers) % self.corners or (self.old and shape[0] != self.count):
            raise weights.wrong(f"{len(numbers)} spectral weights do not make up the layers that the bias tells.")
        self.has_mlp = any(name.startswith(f"fno_blocks.{self.mlp_name}.") for name in names)
        self.has_norm = settings.get("norm") is not None or any(name.startswith("fno_blocks.norm.") for name in names)
        self.separable, self.entries = False, 0
        self._agree("n_layers", self.count)
        self._agree("hidden_channels", self.width)
        key = "use_mlp" if self.old else "use_channel_mlp"
        if release != "1.x" and settings.get(key, self.has_mlp) is not self.has_mlp:
            raise settings.wrong(key, f"the weights have {'one' if self.has_mlp else 'none'}.", BELONG)
        self.form = kind(self._parts(0))

    @property
    def words(self) -> str:
        """The release and the form of the weights, for the report."""
        notes = [self.form, *["separable"] * self.separable]
        if self.fixed_shift and not self.old:
            notes.append("spectra mended at odd sizes")
        if self.settings.values is None and self.release != "0.2":
            notes.append("no metadata")
        return f"neuralop {self.release} ({', '.join(notes)})"

    def lift(self) -> Pointwise:
        """Build the perceptron before the blocks."""
        return self._perceptron(["lifting.fc"] if self.release == "0.2" else self._layers("lifting"), None, self.width)

    def projection(self) -> Pointwise:
        """Build the perceptron after the blocks."""
        names = ["projection.fc1", "projection.fc2"] if self.release == "0.2" else self._layers("projection")
        made = self._perceptron(names, self.width, None)
        self._agree("out_channels", made.channels[1])
        return made

    def coordinates(self, channels: int) -> tuple[CoordinateKind, int]:
        """Return the kind of coordinates that are appended, and the number of fields, for the channels of the lift."""
        fields = self.settings.whole("in_channels")
        if self.old:
            self._agree("in_channels", channels)
            return "none", channels
        if fields is None:
            # Without settings the default is the likeliest; with too few channels it is impossible.
            appended = self.settings.get("positional_embedding", "grid") == "grid" and channels > self.axes
            fields = channels - self.axes * appended
        if fields < 1 or channels - fields not in (0, self.axes):
            raise self.settings.wrong("in_channels", f"the weights take {channels} on {self.axes} axes.", BELONG)
        return "open" if channels > fields else "none", fields

    def padding(self, given: Padding | None) -> Padding:
        """Return the given padding, else that of the settings."""
        if given is not None:
            if len(given.amounts) not in (0, self.axes):
                raise self.weights.wrong(
                    f"The padding has {len(given.amounts)} amounts, the grid {self.axes} axes.",
                    "Give one for each axis.",
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

    def block(self, index: int) -> Block:
        """Build one block, with the activations where the release has them."""
        spectral, width = self._spectral(index), self.width
        skip = self._skip("fno_skip", f"fno_blocks.fno_skips.{index}")
        mlp = mlp_skip = None
        if self.has_mlp or self.release == "1.x":
            mlp = self._perceptron(self._layers(f"fno_blocks.{self.mlp_name}.{index}"), width, width)
            mlp_skip = self._skip(f"{self.mlp_name}_skip", f"fno_blocks.{self.mlp_name}_skips.{index}")
        last = index == self.count - 1
        activated = not last
        if self.release == "0.2":
            # Release 0.2 compares the index with the remaining layers, so the later half has no activation.
            activated = self.has_mlp or 2 * index < self.count
        elif self.release == "0.3":
            activated = self.has_mlp or not last
        shape = BlockShape(
            activated=activated,
            activated_again=not last and (self.has_mlp or not self.old),
            stabilised=self.settings.get("stabilizer") == "tanh",
        )
        each = 2 if self.has_mlp or not self.old else 1
        norms = [self._norm(index * each + number) if self.has_norm else None for number in range(each)]
        # The library normalises behind the spectral convolution and behind the perceptron, never before the block.
        ends = (None, *norms, None)[:3]
        return Block(spectral, skip, shape, nn.functional.gelu, mlp=mlp, mlp_skip=mlp_skip, norms=ends)

    def _agree(self, key: str, held: int) -> None:
        recorded = self.settings.whole(key)
        if recorded is not None and recorded != held:
            raise self.settings.wrong(key, f"the weights have {held}.", BELONG)

    def _layers(self, name: str) -> list[str]:
        count = sum(
            re.fullmatch(rf"{re.escape(name)}\.fcs\.\d+\.weight", key) is not None for key in self.weights.tensors
        )
        return [f"{name}.fcs.{layer}" for layer in range(max(count, 1))]

    def _perceptron(self, names: Sequence[str], first: int | None, last: int | None) -> Pointwise:
        layers: list[tuple[Tensor, Tensor | None]] = []
        for index, name in enumerate(names):
            start = layers[-1][0].shape[0] if layers else first
            layers.append(self.weights.matrix(name, (start, last if index == len(names) - 1 else None)))
        if self.release == "0.2" and ".mlp." in names[0]:
            # Release 0.2 ends the perceptron within a block with an activation: a further layer changes nothing.
            layers.append((torch.eye(layers[-1][0].shape[0]), None))
        return Pointwise(layers, nn.functional.gelu)

    def _skip(self, key: str, name: str) -> Pointwise | Gate | None:
        if f"{name}.conv.weight" in self.weights.tensors:
            return self._perceptron([f"{name}.conv"], self.width, self.width)
        if f"{name}.weight" in self.weights.tensors:
            shape = self.weights.tensors[f"{name}.weight"].shape
            if shape[:1] == (1,) and shape.numel() == self.width:
                return Gate(self.weights.tensor(f"{name}.weight"))
            return self._perceptron([name], self.width, self.width)
        form = self.settings.get(key, "")
        if form == "identity" or (self.settings.values is None and self.old):
            return Gate(None)
        if form is None and self.release == "2.0":
            return None
        if self.settings.values is None:
            raise self.weights.wrong(
                f"There is no {name}.weight: that can mean {key} = 'identity' as well as none.",
                "Give the metadata that were saved beside the weights.",
            )
        raise self.settings.wrong(key, f"there is no {name}.weight.", BELONG)

    def _norm(self, number: int) -> Norm:
        name = f"fno_blocks.norm.{number}"
        if self.settings.get("norm") == "instance_norm":
            return Norm(self.width)
        scale, shift = self.weights.tensor(f"{name}.weight"), self.weights.tensor(f"{name}.bias")
        if scale.shape != (self.width,) or shift.shape != (self.width,):
            raise self.weights.wrong(f"{name} has no scale and shift of {self.width} channels.")
        return Norm(1, scale, shift)

    def _parts(self, number: int) -> dict[str, Tensor]:
        prefix = f"{CONVS}.weight.{number}." if self.old else f"{CONVS}.{number}.weight."
        names = [name for name in self.weights.tensors if name.startswith(prefix)]
        return {name.removeprefix(prefix): self.weights.tensor(name) for name in names}

    def _kernel(self, number: int) -> Tensor:
        where = f"{self.weights.where}, {CONVS}, weight {number}"
        kernel = dense(self._parts(number), where=where)
        self.entries += kernel.numel()
        channels = kernel.dim() - self.axes
        if self.entries > MOST:
            raise self.weights.wrong(f"The spectral weights make up more than {MOST} numbers.")
        if channels not in (1, 2) or any(size != self.width for size in kernel.shape[:channels]) or 0 in kernel.shape:
            raise self.weights.wrong(
                f"Spectral weight {number} of shape {tuple(kernel.shape)} does not fit {self.width} channels on "
                f"{self.axes} axes."
            )
        self.separable = channels == 1
        if self.separable and self.release == "0.3":
            raise self.weights.wrong("Release 0.3 cannot run separable weights.", RETRAIN)
        return kernel

    def _spectral(self, index: int) -> SpectralConv:
        kernel, full = self._corners(index) if self.release == "0.2" else self._centred(index)
        biases = self.weights.tensor(f"{CONVS}.bias" if self.old else f"{CONVS}.{index}.bias")
        bias = biases[index] if self.old else biases
        if bias.numel() != self.width or bias.is_complex():
            raise self.weights.wrong(f"The bias of layer {index} has {bias.numel()} entries for {self.width} channels.")
        unshifted = self.fixed_shift or self.release == "0.2"
        if self.release == "1.x or 2.0" and not unshifted and any(len(axis) % 2 for axis in full):
            raise self.weights.wrong(
                f"Weights of {[len(axis) for axis in full]} frequencies belong to other ones in 1.x than in 2.0.",
                "Give the metadata that were saved beside the weights: they tell the release.",
            )
        return SpectralConv(
            kernel,
            [*full, range(kernel.shape[-1])],
            bias,
            shifted_at_odd=not unshifted,
            lowered_at_even=not unshifted and self.release in ("0.3", "1.x"),
        )

    def _corners(self, index: int) -> tuple[Tensor, list[list[int]]]:
        """Put the corners of a spectrum together; the sign of the last axis but one changes fastest among them."""
        kernels = [self._kernel(self.corners * index + corner) for corner in range(self.corners)]
        sizes = kernels[0].shape
        if any(kernel.shape != sizes for kernel in kernels):
            raise self.weights.wrong(f"The spectral weights of layer {index} differ in shape.")
        channels = len(sizes) - self.axes
        for axis in range(self.axes - 2, -1, -1):
            pairs = zip(kernels[::2], kernels[1::2], strict=True)
            kernels = [torch.cat(pair, dim=axis + channels) for pair in pairs]
        return kernels[0], [[*range(half), *range(-half, 0)] for half in sizes[channels:-1]]

    def _centred(self, index: int) -> tuple[Tensor, list[list[int]]]:
        """Return the weights of a spectrum whose frequency 0 lies in the middle of every axis but the last."""
        kernel = self._kernel(index)
        channels = kernel.dim() - self.axes
        kernel = self._cut(kernel, channels)
        return kernel, [[*range(-(size // 2), size - size // 2)] for size in kernel.shape[channels:-1]]

    def _cut(self, kernel: Tensor, channels: int) -> Tensor:
        """Take the modes in use out of weights made for more of them, or check that all are."""
        modes, most = self.settings.modes("n_modes"), self.settings.modes("max_n_modes")
        if modes is None:
            return kernel
        used, held = [*modes[:-1], modes[-1] // 2 + 1], list(kernel.shape[channels:])
        if held != (used if most is None else most) or len(used) != self.axes:
            raise self.settings.wrong("n_modes" if most is None else "max_n_modes", f"weights are {held}.", BELONG)
        for axis, (count, size) in enumerate(zip(used, held, strict=True)):
            if count > size:
                raise self.settings.wrong("n_modes", f"more than the {size} of max_n_modes.", BELONG)
            start = 0 if axis == self.axes - 1 else (size - count) // 2
            kernel = kernel.narrow(axis + channels, start, count)
        return kernel
