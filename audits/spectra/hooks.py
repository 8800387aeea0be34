"""Hooks on a forward pass: spectrum sums of every stage, its distance from another grid's stage, and aliasing.

A stage is turned into sums while the network runs and is then let go; only on the grid of training are the stages
themselves kept, for the samples at work, to be compared with those of the finer grids.
"""

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from probes.operators.aliasing import activation_aliasing
from probes.operators.fno.layers import Activation, Listener, Part
from probes.operators.grids import restricted
from probes.operators.radial_spectrum import RadialSpectrum

HELD = 4
"""Transforms kept for stages that are sums of earlier ones: those of one block."""
WIDEST = 64
"""Channels above which a transform is not kept."""
CHANNELS = 16
"""Channels at the most on which an activation's aliasing is measured."""
FACTOR, FINER = 4, 8
"""Oversampling at which it is measured, and by which that is checked."""


@dataclass(frozen=True, slots=True)
class Cut:
    """The limit of high frequencies, a box of kept modes or a radius; and half the training grid."""

    box: tuple[float, ...]
    radius: float | None
    training: float


class StageHook(Listener):
    """A hook that reduces every stage of one pass to `shells` and `sums`, each by stage as `summed` returns them.

    Parameters
    ----------
    spectrum, cut
        How the grid of this pass is transformed, and where its high frequencies begin.
    common, within
        Slices that take the grid, and the training grid, to the nodes that both have; None on that grid itself.
    reference
        The stages on the training grid for the same samples.
    scale
        Mean and standard deviation that make the output a prediction: its distance is that of predictions.
    """

    def __init__(
        self,
        spectrum: RadialSpectrum,
        cut: Cut,
        *,
        common: Sequence[slice] | None = None,
        within: Sequence[slice] = (),
        reference: Mapping[str, Tensor] | None = None,
        scale: tuple[float, float] = (0.0, 1.0),
    ) -> None:
        self.spectrum, self.cut, self.common, self.reference = spectrum, cut, common, reference
        self.within, self.scale = within, scale
        self.shells: dict[str, Tensor] = {}
        self.sums: dict[str, Tensor] = {}
        self.kept: dict[str, Tensor] = {}
        self.distances: dict[str, Tensor] = {}
        self._held: OrderedDict[str, Tensor] = OrderedDict()

    def stage(self, name: str, values: Tensor, parts: tuple[Part, ...] = (), constant: Tensor | None = None) -> None:
        """Sum up a stage, from the transforms of its parts where they are available."""
        coefficients = self._transformed(values, parts, constant)
        if values.shape[1] <= WIDEST:
            self._held[name] = coefficients
            while len(self._held) > HELD:
                self._held.popitem(last=False)
        self.shells[name], self.sums[name] = summed(self.spectrum, coefficients, self.cut)
        if name == "output":
            values = values * self.scale[1] + self.scale[0]
        if self.reference is None:
            self.kept[name] = values
        else:
            self.distances[name] = distance(values, restricted(self.reference[name], self.within), self.common or ())

    def _transformed(self, values: Tensor, parts: tuple[Part, ...], constant: Tensor | None) -> Tensor:
        # A Fourier transform is linear: that of a sum costs no transform of its own.
        known = parts and values.shape[1] > 1 and all(part.name in self._held for part in parts)
        if not known:
            return self.spectrum.transform(values)
        made = self.spectrum.combined([(part.matrix, self._held[part.name]) for part in parts])
        return made if constant is None else self.spectrum.constant(made, constant)


class AliasingHook(Listener):
    """A hook that measures the aliasing of every activation; `found` holds (ratio, share) by stage for each sample."""

    def __init__(self, factor: int = FACTOR, channels: int = CHANNELS) -> None:
        self.factor, self.channels = factor, channels
        self.found: dict[str, Tensor] = {}

    def activation(self, name: str, before: Tensor, function: Activation) -> None:
        """Measure one activation on evenly spaced channels."""
        # Spread over all, since a layer's first channels need not be like its last.
        step = -(-before.shape[1] // self.channels)
        ratio, share = activation_aliasing(before[:, ::step], function, factor=self.factor)
        self.found[name] = torch.stack([ratio, share], dim=1).double()


class Names(Listener):
    """A hook that lists the stages of a pass, and its activations."""

    def __init__(self) -> None:
        self.stages: list[str] = []
        self.activations: list[str] = []

    def stage(self, name: str, values: Tensor, parts: tuple[Part, ...] = (), constant: Tensor | None = None) -> None:
        """Add the stage to the list."""
        self.stages.append(name)

    def activation(self, name: str, before: Tensor, function: Activation) -> None:
        """Add the activation to the list."""
        self.activations.append(name)


def summed(spectrum: RadialSpectrum, coefficients: Tensor, cut: Cut) -> tuple[Tensor, Tensor]:
    """Sum up the spectrum of n samples.

    Returns
    -------
    shells
        Energy per whole wavenumber, shape (n, wavenumbers).
    sums
        Shape (n, 4): energy without the mean, that which is high-frequency, that above half the training grid, and
        the sum of wavenumber times energy.
    """
    power = spectrum.power(coefficients)
    shells = spectrum.shells(power)
    whole = whole_shells(spectrum.wavenumbers, shells)
    # The mean is no variation over the domain, and would drown all shares of it.
    total = whole.sum(1) - shells[:, 0]
    high = spectrum.outside(power, cut.box) if cut.radius is None else spectrum.above(power, cut.radius)
    moment = shells @ spectrum.wavenumbers
    above = spectrum.above(power, cut.training)
    return whole, torch.stack([total, high, above, moment], dim=1)


def whole_shells(wavenumbers: Tensor, shells: Tensor) -> Tensor:
    """Join shells of half a wavenumber to the nearest whole one, halves upwards; shape (n, wavenumbers)."""
    nearest = torch.floor(wavenumbers + 0.5).long()
    whole = shells.new_zeros(len(shells), int(nearest[-1]) + 1)
    return whole.index_add(1, nearest, shells)


def distance(values: Tensor, reference: Tensor, common: Sequence[slice]) -> Tensor:
    """Return |values at the common nodes - reference| / |reference| of every sample, in the l2 norm, shape (n,).

    Not finite where the reference is zero everywhere; such a number is undefined in the report.
    """
    lost: Tensor = (restricted(values, common) - reference).flatten(1).double().norm(dim=1)
    size: Tensor = reference.flatten(1).double().norm(dim=1)
    return lost / size
