"""Checks before a run: causes of dependence on the grid, and whether network and data fit each other.

A few samples on the grid of training show keys that are swapped and units that are wrong.
"""

import math
from collections.abc import Iterator

import torch
from torch import Tensor

from audits.core.records import Warning
from audits.spectra.setup import Setup, predicted, silent_pass
from audits.spectra.ways import settings_of
from probes.core.errors import InputError

FEW = 20
"""Samples under which the report says that they are few."""
POOR = 0.7
"""Share of a target's variation left unexplained, as a root, from which the keys may be swapped."""
EXPLAINED = 0.5
"""The same, below which the predictions have the right shape, so that their unit can be judged."""
NEAR = 0.1
"""Share by which a factor may miss a power of ten and still be taken for one."""
OFF = 0.5
"""Factor less one, or offset as a share of the target's size, from which the unit is called wrong."""


def cautions(setup: Setup, *, asked: str) -> Iterator[Warning]:
    """Yield warnings of what makes answers depend on the grid; `asked` is the requested way of upsampling."""
    layout = setup.loaded.operator.layout
    if setup.samples < FEW:
        yield Warning(
            id="few-samples",
            message=f"Samples: {setup.samples}, fewer than {FEW}. Intervals hold as often as they say where samples "
            "are no more skewed than exponential numbers; of so few, nobody can know. Of log-normal ones of sigma 1.5 "
            "about 87 % of intervals of 95 % hold.",
        )
    if layout.padding.fixed:
        cells = ", ".join(str(int(amount)) for amount in layout.padding.amounts)
        yield Warning(
            id="fixed-padding",
            message=f"The network pads by a fixed number of cells ({cells}): on each grid that is another share of "
            "the domain, so that it computes another function on each. Padding by a share of the grid stays nearly the "
            "same.",
        )
    if setup.loaded.operator.shifted_at_odd and any(size % 2 for size in _padded(setup)):
        yield Warning(
            id="odd-grid",
            message="On grids of odd size this release writes every frequency one place too low (it undoes fftshift by "
            "fftshift); that is reproduced here. Grids of odd and of even size are different operators.",
        )
    own = layout.coordinates
    if own not in ("none", "grid", setup.kind):
        yield Warning(
            id="coordinate-grid",
            message=f"The network appends the coordinates of a grid that is {own}, the data lie on one that is "
            f"{setup.kind}: every coordinate is off by up to one cell, by another amount on each grid.",
        )
    # Axes of the first grid come first, that of training: no other grid is meant.
    if any(2 * mode >= size for mode, size in zip(setup.loaded.operator.modes, _padded(setup), strict=False)):
        yield Warning(
            id="highest-mode",
            message="The network keeps the highest frequency that the grid of training can hold, where a transform "
            "drops the imaginary part; on finer grids it does not. What that changes is counted as nonlinear.",
        )
    if asked == "fourier" and setup.kind == "closed":
        yield Warning(
            id="misaligned",
            message="Zero-padding of the transform of all nodes of a closed grid takes N nodes for a period, and "
            "misplaces them: a baseline that loses by its own fault.",
        )


def _padded(setup: Setup) -> list[int]:
    """Return the sizes of all axes of all grids, with padding."""
    padding = setup.loaded.operator.layout.padding
    return [
        size + sum(ends)
        for grid in setup.grids
        for size, ends in zip(grid.sizes, padding.cells(grid.sizes), strict=True)
    ]


def check_fit(setup: Setup, inputs: Tensor, prediction: Tensor, target: Tensor, *, sure: bool) -> list[Warning]:
    """Refuse data whose input and target are swapped, and predictions in another unit than the targets.

    Parameters
    ----------
    inputs, prediction, target
        On the grid of training: as the network takes them, and in the data's unit.
    sure
        Whether the unit was said: then another one is warned about.

    Returns
    -------
    list
        Warnings.

    Raises
    ------
    InputError
        Where either is plain from these samples.
    """
    misfit, offset, slope = regression(prediction, target)
    key_in, key_out = setup.fields.keys
    # Fields of other shapes cannot have been swapped.
    if misfit > POOR and inputs.shape == target.shape and key_out is not None:
        (mean, std), flipped = setup.input_scale, inputs * setup.input_scale[1] + setup.input_scale[0]
        other = predicted(setup, silent_pass(setup, (target - mean) / std))
        if torch.isfinite(other).all() and regression(other, flipped)[0] < misfit / 2:
            raise InputError(
                f"With {key_in!r} as input the network predicts nothing of {key_out!r}, the other way round it does: "
                "the keys are swapped.",
                where="--input, --target",
                hint=f"Give --input {key_out} --target {key_in}.",
            )
    size = float(target.square().mean().sqrt())
    if misfit < EXPLAINED and (abs(slope - 1) > OFF or abs(offset) > OFF * size):
        apart = f"{key_out} is about {slope:.3g} times the prediction plus {offset:.3g}"
        wrong = f"The predictions have the shape of {key_out!r} but not its unit: {apart}."
        if sure:
            return [Warning(id="unit", message=wrong)]
        raise InputError(wrong, where="--target-scale", hint=_remedy(setup, offset, slope))
    return []


def _remedy(setup: Setup, offset: float, slope: float) -> str:
    """Return which scale would fit, in words: that of the checkpoint in another unit, or one fitted to samples."""
    mean, std = setup.target_scale
    # Units mostly differ by powers of ten; another factor is more likely another scale.
    power = 10.0 ** round(math.log10(slope)) if slope > 0 else 1.0
    if (mean, std) != (0.0, 1.0) and abs(slope / power - 1) < NEAR and abs(offset) < NEAR * power * (abs(mean) + std):
        return (
            f"The scale {mean:.6g},{std:.6g} of the checkpoint fits these data after a factor of {power:g}, as of "
            f"another unit: then give --target-scale {mean * power:.6g},{std * power:.6g}."
        )
    return (
        "Give the mean and standard deviation with which the targets of training were scaled, in the data's unit; "
        f"these samples suggest --target-scale {offset + slope * mean:.3g},{slope * std:.3g}. That is a fit to the "
        f"very targets that will be judged, too rough for a verdict. Where the scale is right, {settings_of(setup)} or "
        "--input-scale is not that of training."
    )


def regression(prediction: Tensor, target: Tensor) -> tuple[float, float, float]:
    """Return residual sqrt(1 - r^2), offset and slope of the regression of target on prediction.

    Examples
    --------
    >>> x = torch.tensor([0.0, 1.0, 2.0])
    >>> [round(number, 6) for number in regression(x, 3 * x + 1)]
    [0.0, 1.0, 3.0]
    """
    # In float64: an offset far above the variation would leave nothing of it.
    p, t = prediction.flatten().double(), target.flatten().double()
    p_mean, t_mean = p.mean(), t.mean()
    spread, own = (p - p_mean).square().sum(), (t - t_mean).square().sum()
    if not (spread > 0 and own > 0):
        return 1.0, float(t_mean), 0.0
    shared = ((p - p_mean) * (t - t_mean)).sum()
    slope = shared / spread
    left = max(float(1 - shared**2 / (spread * own)), 0.0)
    return math.sqrt(left), float(t_mean - slope * p_mean), float(slope)
