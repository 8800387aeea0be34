"""Passes of the network: the counts of a chunk of samples on every grid.

All grids of a chunk are run together, since all are compared with that of training.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from audits.spectra.grids import Grid
from audits.spectra.hooks import FINER, AliasingHook, StageHook, distance, summed
from audits.spectra.setup import Setup, predicted, read_batch, traced
from probes.core.errors import InputError
from probes.operators.field_norms import sobolev_squares, squares
from probes.operators.fno.network import FourierOperator
from probes.operators.grids import restricted
from probes.operators.radial_spectrum import RadialSpectrum
from probes.operators.resampling import upsample

CHUNK = 8
"""Samples of one entry of the cache: what a run that is killed loses at the most."""
VALUES = 2**22
"""Numbers in one stage of a batch at the most; a larger grid is run sample by sample."""
Chunk = dict[str, Tensor]
"""Counts of some samples by name; the names begin with the resolution."""


@torch.no_grad()
def count_chunk(setup: Setup, start: int, stop: int) -> Chunk:
    """Return the counts of the samples from start to stop, on every grid."""
    batch = batch_of(setup)
    pieces = [_batch(setup, first, min(first + batch, stop)) for first in range(start, stop, batch)]
    joined: Chunk = {}
    for name in pieces[0]:
        rows = torch.cat([piece[name] for piece in pieces]).cpu()
        if not name.endswith("/shells"):
            joined[name] = rows
            continue
        joined[f"{name}/mean"] = rows.mean(0)
        # Squared deviations, not squares: their difference from a large mean would lose its digits.
        joined[f"{name}/spread"] = ((rows - rows.mean(0)) ** 2).sum(0)
    return joined


def batch_of(setup: Setup) -> int:
    """Return the batch size."""
    operator = setup.loaded.operator
    sizes = max((grid.sizes for grid in setup.grids), key=math.prod)
    ends = operator.layout.padding.cells(sizes)
    # Of the finest grid, which takes most memory; all grids of a chunk have one batch.
    nodes = math.prod(size + sum(pair) for size, pair in zip(sizes, ends, strict=True))
    return max(1, min(CHUNK, VALUES // (operator.widest * nodes)))


@dataclass(frozen=True, slots=True)
class _Base:
    """A pass on the grid of training: its input, lifted features where they are known, output and target."""

    inputs: Tensor
    lifted: Tensor | None
    output: Tensor
    target: Tensor | None


def _batch(setup: Setup, start: int, stop: int) -> Chunk:
    operator, found = setup.loaded.operator, {}
    arrays = setup.fields.read(start, stop)
    first, *others = setup.grids
    inputs, target = read_batch(setup, first, arrays)
    here = StageHook(_spectrum(setup, first), setup.cut, scale=setup.target_scale)
    lifted = None
    if isinstance(operator, FourierOperator):
        lifted = operator.lifted(inputs, setup.kind, here)
        output = operator.decoded(lifted, here)
    else:
        output = operator(inputs, setup.kind, here)
    _check(setup, first, output, target, start)
    found.update(_stages(setup, first, here))
    if target is not None:
        found.update(_scores(setup, first, here.spectrum, {"same": predicted(setup, output)}, target))
    base = _Base(inputs, lifted, output, target)
    for grid in others:
        found.update(_elsewhere(setup, grid, arrays, start, base, here))
    return found


def _elsewhere(setup: Setup, grid: Grid, arrays: Any, start: int, base: _Base, here: StageHook) -> Chunk:
    """Run the network on another grid, and over that of training, and compare and score both."""
    operator, at, found = setup.loaded.operator, grid.resolution, Chunk()
    fine, fine_target = read_batch(setup, grid, arrays)
    spectrum = _spectrum(setup, grid)
    over, scored = base.output, {}
    if grid.relation != "finer":
        # Of what this grid holds, no more: the user of a coarser one has nothing else.
        over = operator(_raised(setup, restricted(fine, grid.common), setup.grids[0]), setup.kind)
        _check(setup, grid, over, fine_target, start)
    if not grid.refused:
        there = StageHook(
            spectrum, setup.cut, common=grid.common, within=grid.within, reference=here.kept, scale=setup.target_scale
        )
        # The whole pass, coordinates of the grid included: this is what a user would do.
        direct = operator(fine, setup.kind, there)
        _check(setup, grid, direct, fine_target, start)
        found.update(_stages(setup, grid, there))
        found[f"{at}/distances"] = torch.stack([there.distances[name] for name in setup.stages], dim=1)
        found[f"{at}/controls"] = _controls(setup, grid, base, fine, direct, over)
        scored["direct"] = predicted(setup, direct)
    if base.target is not None and fine_target is not None:
        scored["upsampled"] = _taken(setup, predicted(setup, over), grid)
        scored["floor"] = _taken(setup, base.target, grid)
        found.update(_scores(setup, grid, spectrum, scored, fine_target))
    return found


def _raised(setup: Setup, inputs: Tensor, grid: Grid) -> Tensor:
    return upsample(inputs, grid.sizes, setup.kind, setup.input_method)


def _taken(setup: Setup, field: Tensor, grid: Grid) -> Tensor:
    """Take a field from the grid of training: nodes are dropped along coarser axes, others are interpolated."""
    return upsample(restricted(field, grid.within), grid.sizes, setup.kind, setup.output_method)


def _check(setup: Setup, grid: Grid, output: Tensor, target: Tensor | None, start: int) -> None:
    """Refuse samples on which the network overflows, or whose target is zero on one of the grids."""
    wrong = ~torch.isfinite(output.flatten(1)).all(1)
    if bool(wrong.any()):
        raise InputError(
            f"At {grid.resolution} the network puts out numbers that are not finite.",
            where=f"{setup.fields.path}, sample {start + int(wrong.int().argmax())}",
            hint="Mend or remove the sample, or check --input-scale.",
        )
    empty = torch.zeros(0) if target is None else squares(target) == 0
    if bool(empty.any()):
        raise InputError(
            f"At {grid.resolution} the target is zero at every node: an error relative to it is not defined.",
            where=f"{setup.fields.path}, sample {start + int(empty.int().argmax())}",
            hint="Remove the sample.",
        )


def _controls(setup: Setup, grid: Grid, base: _Base, fine: Tensor, direct: Tensor, over: Tensor) -> Tensor:
    """Run the network on what both grids hold, and where its stages are known on features of the training grid.

    Returns
    -------
    Tensor
        Shape (n, 4) where the mismatch is traced: input, features and blocks of the training grid, as relative
        distances at common nodes; else (n, 1): of the input alone. The last column is the distance on the whole grid.
    """
    operator, kind = setup.loaded.operator, setup.kind
    here, whole = predicted(setup, base.output), [slice(None)] * len(grid.sizes)
    padded = predicted(setup, direct)
    if grid.relation != "coarser":
        padded = predicted(setup, operator(_raised(setup, restricted(fine, grid.common), grid), kind))
    raised = _taken(setup, predicted(setup, over), grid)
    if grid.relation == "finer":
        columns = [distance(padded, here, grid.common)]
    else:
        # Of what the grid holds on both, relative to the prediction of training as the mismatch itself is.
        apart = restricted(padded, grid.common) - restricted(predicted(setup, over), grid.within)
        columns = [_size(apart) / _size(restricted(here, grid.within))]
    if traced(setup, grid) and isinstance(operator, FourierOperator) and base.lifted is not None:
        features = predicted(setup, operator.decoded(upsample(base.lifted, grid.sizes, kind, setup.input_method)))
        # In the period and padding of the grid of training: what is left is the work of activations alone.
        periodic = predicted(setup, operator.oversampled(base.lifted, oversampling(setup, grid)))
        columns += [distance(features, here, grid.common), distance(periodic, here, whole)]
    return torch.stack([*columns, distance(padded, raised, whole)], dim=1)


def _size(field: Tensor) -> Tensor:
    norm: Tensor = field.flatten(1).double().norm(dim=1)
    return norm


def oversampling(setup: Setup, grid: Grid) -> tuple[int, ...]:
    """Return by axis the integer ratio nearest to that of the grids, 1 along an axis that both have alike.

    It is odd where parity of the size changes the operator.
    """
    first, operator = setup.grids[0], setup.loaded.operator
    ends = operator.layout.padding.cells(first.sizes)
    is_odd = any((size + sum(pair)) % 2 for size, pair in zip(first.sizes, ends, strict=True))
    factors = []
    for fine, coarse in zip(grid.sizes, first.sizes, strict=True):
        # Grids of one ratio are named by the points of their first axis, which all axes follow.
        ratio = grid.resolution / int(first.resolution) if isinstance(grid.resolution, int) else fine / coarse
        factor = max(2, round(ratio)) if fine != coarse else 1
        factors.append(factor + 1 if factor % 2 == 0 and is_odd and operator.shifted_at_odd else factor)
    return tuple(factors)


def _stages(setup: Setup, grid: Grid, hook: StageHook) -> Chunk:
    return {
        f"{grid.resolution}/stages/shells": torch.stack([hook.shells[name] for name in setup.stages], dim=1),
        f"{grid.resolution}/stages/sums": torch.stack([hook.sums[name] for name in setup.stages], dim=1),
    }


def _scores(setup: Setup, grid: Grid, spectrum: RadialSpectrum, paths: Mapping[str, Tensor], target: Tensor) -> Chunk:
    """Score every path: squared error, squared target, both with gradients, and both by band of wavenumbers."""
    at = str(grid.resolution)
    coefficients = spectrum.transform(target)
    mine = spectrum.bands(spectrum.power(coefficients), grid.bands)
    own = squares(target), sobolev_squares(target, setup.kind)
    # In the network's unit, so that it stands beside the output's spectrum.
    mean, std = setup.target_scale
    shift = torch.full((target.shape[1],), -mean / std, device=target.device)
    shells, sums = summed(spectrum, spectrum.constant(coefficients / std, shift), setup.cut)
    found = {f"{at}/target/shells": shells[:, None], f"{at}/target/sums": sums[:, None]}
    norms, bands = [], []
    for field in paths.values():
        error = field - target
        norms.append(torch.stack([squares(error), own[0], sobolev_squares(error, setup.kind), own[1]], dim=1))
        bands.append(torch.stack([spectrum.bands(spectrum.power(spectrum.transform(error)), grid.bands), mine], dim=2))
    found[f"{at}/norms"] = torch.stack(norms, dim=1)
    found[f"{at}/bands"] = torch.stack(bands, dim=1)
    return found


def _spectrum(setup: Setup, grid: Grid) -> RadialSpectrum:
    return RadialSpectrum(grid.sizes, setup.kind, setup.view, device=setup.device)


@torch.no_grad()
def count_aliasing(setup: Setup, grid: Grid, sample: int) -> Chunk:
    """Return the aliasing of each activation of one sample on a grid: ratio, share, and two ratios of the check."""
    inputs, _ = read_batch(setup, grid, setup.fields.read(sample, sample + 1))
    rows = _alias_pass(setup, inputs, AliasingHook())
    checked = torch.zeros(len(setup.activations), 2, dtype=torch.float64)
    if sample == 0:
        # Of the same two channels at both rates, so that nothing but the rate differs.
        few = _alias_pass(setup, inputs, AliasingHook(channels=2))[:, :1]
        finer = _alias_pass(setup, inputs, AliasingHook(FINER, channels=2))[:, :1]
        checked = torch.cat([few, finer], dim=1)
    return {"aliasing": torch.cat([rows, checked], dim=1)}


def _alias_pass(setup: Setup, inputs: Tensor, listener: AliasingHook) -> Tensor:
    setup.loaded.operator(inputs, setup.kind, listener)
    return torch.cat([listener.found[name] for name in setup.activations]).cpu()
