"""Do the network and the data belong together? A few samples on the grid of training tell swapped keys and units."""

import math

import torch
from torch import Tensor

from audits.spectra.measuring import Setup, predicted, silent_pass
from probes.errors import InputError

POOR = 0.7
"""Share of a target's variation left unexplained, as a root, from which the keys may be swapped."""
EXPLAINED = 0.5
"""The same, below which the predictions have the right shape, so that their unit can be judged."""
NEAR = 0.1
"""Share by which a factor may miss a power of ten and still be taken for one."""
OFF = 0.5
"""Factor less one, or offset as a share of the target's size, from which the unit is called wrong."""


def check_fit(setup: Setup, inputs: Tensor, prediction: Tensor, target: Tensor, *, sure: bool) -> list[tuple[str, str]]:
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
        Warnings as (id, message).

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
        mean, std = setup.target_scale
        apart = f"{key_out} is about {slope:.3g} times the prediction plus {offset:.3g}"
        if sure:
            return [("unit", f"The predictions have the shape of {key_out!r} but not its unit: {apart}.")]
        raise InputError(
            f"The predictions have the shape of {key_out!r} but not its unit: {apart}.",
            where="--target-scale",
            hint=_remedy(setup, offset, slope),
        )
    return []


def _remedy(setup: Setup, offset: float, slope: float) -> str:
    """Say which scale would do: that of the checkpoint in another unit, or else what these samples fit."""
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
        "very targets that will be judged, too rough for a verdict. Where the scale is right, --grid, --padding, "
        "--norm or --input-scale is not that of training."
    )


def regression(prediction: Tensor, target: Tensor) -> tuple[float, float, float]:
    """Return what a straight line from prediction to target leaves, as sqrt(1 - r^2), its offset and its slope.

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
